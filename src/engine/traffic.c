/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/traffic.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/mix.h"
#include "base/wide.h"

enum { NUM_TOPICS = 3, NUM_PIECES = 32 };

/* Pieces of two bytes, the commonest first. */
static const char pieces[NUM_TOPICS][NUM_PIECES][3] = {
    {"e ", "th", "he", "in", "er", " a", "an", "re", "s ", "on", "at", "en", "nd", "t ", "ti", "es",
     "or", "te", "of", "ed", "is", " o", "it", "al", "ar", "d ", "st", "to", "nt", "ng", "y ", ", "},
    {"0.", "1,", "00", "12", ": ", "7;", "0\n", "3-", "20", "5=", "99", "4/", "1 ", "8:", "+6", "42",
     "2|", "0%", "17", "9)", "(5", "31", "64",  "6]", "[2", "83", "-7", "05", "#3", "58", "*9", "76"},
    {"\xd0\xbe", "\xd0\xb5", "\xd0\xb0", "\xd0\xb8", "\xd0\xbd", "\xd1\x82", "\xd1\x81", "\xd1\x80",
     "\xd0\xb2", "\xd0\xbb", "\xd0\xba", "\xd0\xbc", "\xd0\xb4", "\xd0\xbf", "\xd1\x83", "\xd1\x8f",
     "\xd1\x8b", "\xd1\x8c", "\xd0\xb3", "\xd0\xb7", "\xd0\xb1", "\xd1\x87", "\xd0\xb9", "\xd1\x85",
     "\xd0\xb6", "\xd1\x88", "\xd1\x8e", "\xd1\x86", "\xd1\x89", "\xd1\x8d", "\xd1\x84", "\xd0\x90"},
};

static enum eplb_status check_tokens(const char *name, int32_t tokens, struct eplb_error *error)
{
    if (tokens < 1 || tokens > EPLB_TRAFFIC_MAX_TOKENS)
        EPLB_FAIL(EPLB_INVALID, "traffic: %s is %d; allowed is 1 to %d", name, tokens,
                  EPLB_TRAFFIC_MAX_TOKENS);
    return EPLB_OK;
}

enum eplb_status eplb_traffic_init(struct eplb_traffic *traffic, const struct eplb_traffic_params *params,
                                   struct eplb_error *error)
{
    if (params->vocab_size < 2)
        EPLB_FAIL(EPLB_INVALID, "traffic: vocab_size is %d; allowed is 2 or more", params->vocab_size);
    EPLB_TRY(check_tokens("prompt_tokens", params->prompt_tokens, error));
    EPLB_TRY(check_tokens("new_tokens", params->new_tokens, error));
    if (params->text != NULL && params->text_bytes == 0)
        EPLB_FAIL(EPLB_INVALID, "traffic: the text is empty; at least one byte is needed");
    traffic->params = *params;
    return EPLB_OK;
}

/* What is drawn for a sequence; the index is 0 or a place in its prompt. */
enum subject { PROMPT_LENGTH, NEW_TOKENS, PIECE };

static uint64_t draw(const struct eplb_traffic *traffic, uint64_t sequence, enum subject subject,
                     uint32_t index)
{
    uint64_t of_sequence = eplb_mix(eplb_mix(0, traffic->params.seed), sequence);
    return eplb_mix(of_sequence, (uint64_t)subject << 32 | index);
}

/* For bounds as small as these the bias is below 2^-40. */
static int32_t scaled(uint64_t drawn, int32_t bound)
{
    return (int32_t)((eplb_u128)drawn * (uint32_t)bound >> 64);
}

static int32_t draw_length(const struct eplb_traffic *traffic, uint64_t sequence, enum subject subject,
                           int32_t longest)
{
    int32_t shortest = longest - longest / 2;
    return shortest + scaled(draw(traffic, sequence, subject, 0), longest / 2 + 1);
}

int32_t eplb_traffic_prompt_length(const struct eplb_traffic *traffic, uint64_t sequence)
{
    return draw_length(traffic, sequence, PROMPT_LENGTH, traffic->params.prompt_tokens);
}

int32_t eplb_traffic_new_tokens(const struct eplb_traffic *traffic, uint64_t sequence)
{
    return draw_length(traffic, sequence, NEW_TOKENS, traffic->params.new_tokens);
}

static unsigned char text_byte(const struct eplb_traffic_params *params, uint64_t sequence, int32_t position)
{
    eplb_u128 place = (eplb_u128)sequence * (uint32_t)params->prompt_tokens + (uint32_t)position;
    return (unsigned char)params->text[(size_t)(place % params->text_bytes)];
}

static unsigned char built_in_byte(const struct eplb_traffic *traffic, uint64_t sequence, int32_t position)
{
    uint64_t every = traffic->params.topic_sequences;
    uint64_t topic = every == 0 ? 0 : sequence / every % NUM_TOPICS;
    uint64_t drawn = draw(traffic, sequence, PIECE, (uint32_t)position / 2);
    /* The product of two uniform numbers favours the first pieces, as languages favour some. */
    uint64_t product = (drawn >> 32) * (drawn & UINT32_MAX);
    return (unsigned char)pieces[topic][scaled(product, NUM_PIECES)][position % 2];
}

int32_t eplb_traffic_token(const struct eplb_traffic *traffic, uint64_t sequence, int32_t position)
{
    EPLB_ASSERT(position >= 0 && position < traffic->params.prompt_tokens);
    unsigned char byte = traffic->params.text != NULL ? text_byte(&traffic->params, sequence, position)
                                                      : built_in_byte(traffic, sequence, position);
    return byte % traffic->params.vocab_size;
}
