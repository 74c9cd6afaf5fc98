/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The sequences that a run serves: prompts of bytes, each a token, and how many tokens follow. Pure.
 *
 * Sequence n is the same in every run of the same traffic, whatever the ranks and batches: everything is
 * drawn from the seed and n, nothing from what was drawn before. Lengths are uniform from half of the
 * longest, rounded up, to the longest.
 *
 * With a text, sequence n's prompt starts at byte n * prompt_tokens, modulo the text: a run goes through
 * the text in order, and so through its topics, and at its end starts again. The built-in text has three
 * topics of nearly disjoint bytes: lower-case prose, figures as in tables and logs, Cyrillic letters in
 * UTF-8.
 */
#ifndef ENGINE_TRAFFIC_H
#define ENGINE_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"

/** Largest prompt_tokens and new_tokens: positions of a sequence fit int32. */
#define EPLB_TRAFFIC_MAX_TOKENS 16777216

struct eplb_traffic_params {
    int32_t vocab_size;    /* >= 2; tokens are taken modulo it when it is below 256 */
    int32_t prompt_tokens; /* longest prompt, 1 to EPLB_TRAFFIC_MAX_TOKENS */
    int32_t new_tokens;    /* longest continuation, 1 to EPLB_TRAFFIC_MAX_TOKENS */
    uint64_t seed;         /* of the lengths, and of the built-in text */
    const char *text;      /* a file's content, borrowed for as long as the traffic; NULL: built-in text */
    size_t text_bytes;     /* >= 1 with a text */
    /** The built-in text changes its topic after so many sequences, to the next of three and round again;
     * 0: never. */
    uint64_t topic_sequences;
};

struct eplb_traffic {
    struct eplb_traffic_params params;
};

/** EPLB_INVALID with a sentence; an empty text is refused. */
enum eplb_status eplb_traffic_init(struct eplb_traffic *traffic, const struct eplb_traffic_params *params,
                                   struct eplb_error *error);

/** Tokens of the prompt of sequence n, 1 to prompt_tokens. */
int32_t eplb_traffic_prompt_length(const struct eplb_traffic *traffic, uint64_t sequence);

/** The prompt's token at a position in [0, length). */
int32_t eplb_traffic_token(const struct eplb_traffic *traffic, uint64_t sequence, int32_t position);

/** Tokens that are sampled before the sequence ends, 1 to new_tokens. */
int32_t eplb_traffic_new_tokens(const struct eplb_traffic *traffic, uint64_t sequence);

#endif
