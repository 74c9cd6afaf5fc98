/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "eplb/load.h"
#include "load/mask.h"

struct eplb_counter {
    struct eplb_shape shape;
    int32_t ep_rank;
    int is_warmup;
    int64_t *counts; /* [num_layers][slots_per_rank] */
    int64_t *totals; /* [num_layers] sums of counts, at most EPLB_MAX_LOAD, so that no prefix overflows */
};

static struct eplb_counter *lay_out(struct eplb_arena *arena, const struct eplb_shape *shape)
{
    struct eplb_counter *counter = eplb_arena_take(arena, 1, sizeof *counter);
    size_t num_layers = (size_t)shape->num_layers;
    int64_t *counts = eplb_arena_take(arena, num_layers * (size_t)shape->slots_per_rank, sizeof *counts);
    int64_t *totals = eplb_arena_take(arena, num_layers, sizeof *totals);
    if (counter != NULL)
        *counter = (struct eplb_counter){.shape = *shape, .counts = counts, .totals = totals};
    return counter;
}

enum eplb_status eplb_counter_create(const struct eplb_shape *shape, int32_t ep_rank,
                                     struct eplb_counter **counter, struct eplb_error *error)
{
    EPLB_ASSERT(shape->num_slots == shape->ep_size * shape->slots_per_rank);
    if (ep_rank < 0 || ep_rank >= shape->ep_size)
        EPLB_FAIL(EPLB_INVALID, "EP rank %d is not in [0, %d)", ep_rank, shape->ep_size);
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    lay_out(&arena, shape);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a counter of %d layers with %d slots", shape->num_layers,
                  shape->slots_per_rank);
    struct eplb_counter *created = lay_out(&arena, shape);
    EPLB_ASSERT(created == block && !arena.overflow);
    created->ep_rank = ep_rank;
    *counter = created;
    return EPLB_OK;
}

void eplb_counter_destroy(struct eplb_counter *counter)
{
    eplb_arena_free(counter);
}

static int64_t *layer_counts(const struct eplb_counter *counter, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < counter->shape.num_layers);
    return counter->counts + (size_t)layer * (size_t)counter->shape.slots_per_rank;
}

enum eplb_status eplb_counter_begin(struct eplb_counter *counter, unsigned flags, struct eplb_error *error)
{
    if ((flags & ~(unsigned)EPLB_FORWARD_WARMUP) != 0)
        EPLB_FAIL(EPLB_INVALID, "forward flags 0x%x have a bit that is none of 0x%x (warm-up)", flags,
                  (unsigned)EPLB_FORWARD_WARMUP);
    size_t num_layers = (size_t)counter->shape.num_layers;
    EPLB_ASSERT(counter->ep_rank >= 0 && counter->ep_rank < counter->shape.ep_size);
    counter->is_warmup = (flags & EPLB_FORWARD_WARMUP) != 0;
    memset(counter->counts, 0, num_layers * (size_t)counter->shape.slots_per_rank * sizeof *counter->counts);
    memset(counter->totals, 0, num_layers * sizeof *counter->totals);
    return EPLB_OK;
}

static enum eplb_status check_layer(const struct eplb_counter *counter, int32_t layer,
                                    struct eplb_error *error)
{
    if (layer < 0 || layer >= counter->shape.num_layers)
        EPLB_FAIL(EPLB_INVALID, "layer %d is not in [0, %d)", layer, counter->shape.num_layers);
    return EPLB_OK;
}

static enum eplb_status check_mask(const uint8_t *mask, size_t mask_length, int32_t layer, size_t num_tokens,
                                   struct eplb_error *error)
{
    if (mask == NULL)
        return EPLB_OK;
    if (mask_length != num_tokens)
        EPLB_FAIL(EPLB_INVALID, "layer %d: mask of %zu tokens for a batch of %zu", layer, mask_length,
                  num_tokens);
    size_t bad = eplb_mask_first_bad(mask, mask_length);
    if (bad < mask_length)
        EPLB_FAIL(EPLB_INVALID, "layer %d, token %zu: mask byte %d is neither 0 nor 1", layer, bad,
                  mask[bad]);
    return EPLB_OK;
}

/* Checks the slots of the counted tokens, and tells how many of their entries are on this rank. */
static enum eplb_status check_slots(const struct eplb_counter *counter, int32_t layer,
                                    const int32_t *global_slots, size_t num_tokens, size_t top_k,
                                    const uint8_t *mask, int64_t *entries, struct eplb_error *error)
{
    uint32_t num_slots = (uint32_t)counter->shape.num_slots;
    uint32_t slots_per_rank = (uint32_t)counter->shape.slots_per_rank;
    uint32_t first = (uint32_t)counter->ep_rank * slots_per_rank;
    int64_t local = 0;
    for (size_t t = 0; t < num_tokens; t++) {
        if (mask != NULL && !mask[t])
            continue;
        for (size_t k = 0; k < top_k; k++) {
            uint32_t slot = (uint32_t)global_slots[t * top_k + k];
            if (slot >= num_slots)
                EPLB_FAIL(EPLB_INVALID, "layer %d, token %zu, k %zu: slot %d is not in [0, %d)", layer, t, k,
                          global_slots[t * top_k + k], counter->shape.num_slots);
            local += slot - first < slots_per_rank;
        }
    }
    *entries = local;
    return EPLB_OK;
}

static void count_routed(struct eplb_counter *counter, int32_t layer, const int32_t *global_slots,
                         size_t num_tokens, size_t top_k, const uint8_t *mask)
{
    int64_t *counts = layer_counts(counter, layer);
    uint32_t slots_per_rank = (uint32_t)counter->shape.slots_per_rank;
    uint32_t first = (uint32_t)counter->ep_rank * slots_per_rank;
    for (size_t t = 0; t < num_tokens; t++) {
        if (mask != NULL && !mask[t])
            continue;
        for (size_t k = 0; k < top_k; k++) {
            uint32_t slot = (uint32_t)global_slots[t * top_k + k] - first;
            if (slot < slots_per_rank)
                counts[slot]++;
        }
    }
}

static enum eplb_status check_room(const struct eplb_counter *counter, int32_t layer, int64_t more,
                                   struct eplb_error *error)
{
    EPLB_ASSERT(more >= 0 && counter->totals[layer] <= EPLB_MAX_LOAD);
    if (more > EPLB_MAX_LOAD - counter->totals[layer])
        EPLB_FAIL(EPLB_INVALID, "layer %d: %lld more rows on a count of %lld pass 2^62", layer,
                  (long long)more, (long long)counter->totals[layer]);
    return EPLB_OK;
}

enum eplb_status eplb_counter_add_routed(struct eplb_counter *counter, int32_t layer,
                                         const int32_t *global_slots, size_t num_tokens, int32_t top_k,
                                         const uint8_t *mask, size_t mask_length, struct eplb_error *error)
{
    EPLB_TRY(check_layer(counter, layer, error));
    if (top_k < 1)
        EPLB_FAIL(EPLB_INVALID, "layer %d: top_k %d is below 1", layer, top_k);
    EPLB_TRY(check_mask(mask, mask_length, layer, num_tokens, error));
    int64_t entries = 0;
    EPLB_TRY(check_slots(counter, layer, global_slots, num_tokens, (size_t)top_k, mask, &entries, error));
    EPLB_TRY(check_room(counter, layer, entries, error));
    if (counter->is_warmup)
        return EPLB_OK;
    count_routed(counter, layer, global_slots, num_tokens, (size_t)top_k, mask);
    counter->totals[layer] += entries;
    return EPLB_OK;
}

enum eplb_status eplb_counter_add_received(struct eplb_counter *counter, int32_t layer, const int64_t *rows,
                                           const int64_t *counted_rows, struct eplb_error *error)
{
    EPLB_TRY(check_layer(counter, layer, error));
    int64_t sum = 0;
    for (int32_t s = 0; s < counter->shape.slots_per_rank; s++) {
        if (rows[s] < 0)
            EPLB_FAIL(EPLB_INVALID, "layer %d, slot %d: %lld received rows are below 0", layer, s,
                      (long long)rows[s]);
        if (counted_rows[s] < 0 || counted_rows[s] > rows[s])
            EPLB_FAIL(EPLB_INVALID,
                      "layer %d, slot %d: %lld counted rows are not in [0, %lld], the rows received", layer,
                      s, (long long)counted_rows[s], (long long)rows[s]);
        if (__builtin_add_overflow(sum, counted_rows[s], &sum))
            EPLB_FAIL(EPLB_INVALID, "layer %d, slot %d: the counted rows pass 2^62", layer, s);
    }
    EPLB_ASSERT(sum >= 0);
    EPLB_TRY(check_room(counter, layer, sum, error));
    if (counter->is_warmup)
        return EPLB_OK;
    int64_t *counts = layer_counts(counter, layer);
    for (int32_t s = 0; s < counter->shape.slots_per_rank; s++)
        counts[s] += counted_rows[s];
    counter->totals[layer] += sum;
    EPLB_ASSERT(counter->totals[layer] <= EPLB_MAX_LOAD);
    return EPLB_OK;
}

void eplb_counter_prefix(const struct eplb_counter *counter, int64_t *prefix)
{
    size_t n = (size_t)counter->shape.slots_per_rank;
    for (int32_t l = 0; l < counter->shape.num_layers; l++) {
        int64_t *row = prefix + (size_t)l * n;
        enum eplb_status status = eplb_prefix_encode(layer_counts(counter, l), n, row, NULL);
        EPLB_ASSERT(status == EPLB_OK && row[n - 1] == counter->totals[l]);
    }
}
