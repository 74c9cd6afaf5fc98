/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/recorder.h"

#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "trace/ids_file.h"

/** A row of the forward that is added, and where its experts are. */
struct token {
    uint64_t sequence;
    int32_t position;
    const uint16_t *experts;
};

struct eplb_recorder {
    struct eplb_ids_writer *writer;
    int32_t num_ranks;
    size_t token_ids;
    size_t max_tokens;
    struct token *tokens; /* [max_tokens] */
    int32_t *experts;     /* [max_tokens][token_ids] as the writer takes them */
    uint64_t *sequences;  /* [num_sequences] of the first forward */
    size_t num_sequences;
    bool begun;
    bool even; /* all forwards had these, one token of each */
};

static struct eplb_recorder *lay_out(struct eplb_arena *arena, const struct eplb_recorder_params *params)
{
    struct eplb_recorder parts = {.num_ranks = params->shape.ep_size, .even = true};
    parts.token_ids = (size_t)params->shape.num_layers * (size_t)params->top_k;
    parts.max_tokens = (size_t)params->shape.ep_size * (size_t)params->max_rows;
    struct eplb_recorder *recorder = eplb_arena_take(arena, 1, sizeof *recorder);
    parts.tokens = eplb_arena_take(arena, parts.max_tokens, sizeof *parts.tokens);
    parts.experts = eplb_arena_take(arena, parts.max_tokens, parts.token_ids * sizeof *parts.experts);
    parts.sequences = eplb_arena_take(arena, parts.max_tokens, sizeof *parts.sequences);
    if (recorder != NULL)
        *recorder = parts;
    return recorder;
}

enum eplb_status eplb_recorder_create(const struct eplb_recorder_params *params,
                                      struct eplb_recorder **recorder, struct eplb_error *error)
{
    const struct eplb_ids_writer_params writer = {.prefix = params->prefix,
                                                  .num_layers = params->shape.num_layers,
                                                  .top_k = params->top_k,
                                                  .num_experts = params->shape.num_experts,
                                                  .layer_ids = params->layer_ids,
                                                  .is_prefill = !params->is_decode};
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    (void)lay_out(&arena, params);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to record forwards of %d ranks with %d rows",
                  params->shape.ep_size, params->max_rows);
    struct eplb_recorder *created = lay_out(&arena, params);
    EPLB_ASSERT(created == block && !arena.overflow);
    enum eplb_status status = eplb_ids_writer_create(&writer, &created->writer, error);
    if (status != EPLB_OK) {
        eplb_arena_free(block);
        return status;
    }
    *recorder = created;
    return EPLB_OK;
}

/* ---------------------------------------------------------------------------------------- sorting */

static bool is_before(const struct token *a, const struct token *b)
{
    return a->sequence != b->sequence ? a->sequence < b->sequence : a->position < b->position;
}

/** Moves the first of a heap's tokens down to its place: the last one is on top. */
static void sift(struct token *tokens, size_t at, size_t count)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            return;
        if (child + 1 < count && is_before(&tokens[child], &tokens[child + 1]))
            child++;
        if (!is_before(&tokens[at], &tokens[child]))
            return;
        struct token moved = tokens[at];
        tokens[at] = tokens[child];
        tokens[child] = moved;
        at = child;
    }
}

/** In place: a forward allocates nothing. */
static void sort(struct token *tokens, size_t count)
{
    for (size_t at = count / 2; at > 0; at--)
        sift(tokens, at - 1, count);
    for (size_t left = count; left > 1; left--) {
        struct token last = tokens[0];
        tokens[0] = tokens[left - 1];
        tokens[left - 1] = last;
        sift(tokens, 0, left - 1);
    }
}

/* ---------------------------------------------------------------------------------------- a forward */

static size_t gather(struct eplb_recorder *recorder, const struct eplb_routed *routed)
{
    size_t count = 0;
    for (int32_t rank = 0; rank < recorder->num_ranks; rank++)
        for (int32_t row = 0; row < routed[rank].num_rows; row++) {
            EPLB_ASSERT(count < recorder->max_tokens);
            recorder->tokens[count++] =
                (struct token){.sequence = routed[rank].rows[row].sequence,
                               .position = routed[rank].rows[row].position,
                               .experts = routed[rank].experts + (size_t)row * recorder->token_ids};
        }
    sort(recorder->tokens, count);
    return count;
}

/** Whether the sequences are those of the first forward, one token of each. */
static bool is_even(struct eplb_recorder *recorder, size_t count)
{
    const struct token *tokens = recorder->tokens;
    if (!recorder->begun) {
        recorder->begun = true;
        recorder->num_sequences = count;
        for (size_t i = 0; i < count; i++)
            recorder->sequences[i] = tokens[i].sequence;
    }
    for (size_t i = 1; i < count; i++)
        if (tokens[i].sequence == tokens[i - 1].sequence)
            return false;
    for (size_t i = 0; i < count && count == recorder->num_sequences; i++)
        if (tokens[i].sequence != recorder->sequences[i])
            return false;
    return count == recorder->num_sequences;
}

enum eplb_status eplb_recorder_add(struct eplb_recorder *recorder, const struct eplb_routed *routed,
                                   struct eplb_error *error)
{
    size_t count = gather(recorder, routed);
    int32_t *to = recorder->experts;
    for (size_t i = 0; i < count; i++)
        for (size_t id = 0; id < recorder->token_ids; id++)
            *to++ = recorder->tokens[i].experts[id];
    recorder->even = recorder->even && is_even(recorder, count);
    return eplb_ids_writer_append(recorder->writer, recorder->experts, (int64_t)count, error);
}

enum eplb_status eplb_recorder_close(struct eplb_recorder *recorder, struct eplb_error *error)
{
    if (recorder == NULL)
        return EPLB_OK;
    if (recorder->even && recorder->num_sequences > 0)
        eplb_ids_writer_set_sequences(recorder->writer, (int32_t)recorder->num_sequences);
    enum eplb_status status = eplb_ids_writer_close(recorder->writer, error);
    eplb_arena_free(recorder);
    return status;
}
