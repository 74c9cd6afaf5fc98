/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/order.h"

#include "base/assert.h"

enum { FEW = 32, DIGIT_BITS = 8, DIGITS = 4, BINS = 1 << DIGIT_BITS };

static void insertion_sort(uint64_t *keys, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const uint64_t key = keys[i];
        size_t hole = i;
        for (; hole > 0 && keys[hole - 1] > key; hole--)
            keys[hole] = keys[hole - 1];
        keys[hole] = key;
    }
}

static inline uint32_t digit_of(uint64_t key, int digit)
{
    return (uint32_t)(key >> (32 + DIGIT_BITS * digit)) & (BINS - 1);
}

/** Counts become the places where the bins begin. */
static void begin_bins(uint32_t *bins, size_t total)
{
    uint32_t begin = 0;
    for (int bin = 0; bin < BINS; bin++) {
        const uint32_t count = bins[bin];
        bins[bin] = begin;
        begin += count;
    }
    EPLB_ASSERT(begin == total);
}

/** By the digits of the weight, lowest first: every pass is stable, and the indices ascend at the start. */
void eplb_order_sort(uint64_t *keys, uint64_t *scratch, size_t count)
{
    if (count <= FEW) {
        insertion_sort(keys, count);
        return;
    }
    EPLB_ASSERT(count <= INT32_MAX && keys != scratch);
    uint32_t bins[DIGITS][BINS] = {0};
    for (size_t i = 0; i < count; i++)
        for (int digit = 0; digit < DIGITS; digit++)
            bins[digit][digit_of(keys[i], digit)]++;

    uint64_t *from = keys;
    uint64_t *to = scratch;
    for (int digit = 0; digit < DIGITS; digit++) {
        if (bins[digit][digit_of(keys[0], digit)] == count)
            continue; /* one bin takes all, as the lowest digits of small whole numbers do */
        begin_bins(bins[digit], count);
        for (size_t i = 0; i < count; i++)
            to[bins[digit][digit_of(from[i], digit)]++] = from[i];
        uint64_t *const swap = from;
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, count * sizeof *keys);
    EPLB_ASSERT(keys[0] <= keys[count - 1]);
}

void eplb_tournament_play(const struct eplb_tournament *tournament)
{
    EPLB_ASSERT(tournament->count >= 1);
    uint64_t *nodes = tournament->nodes;
    for (size_t node = (size_t)tournament->count - 1; node >= 1; node--)
        nodes[node] = nodes[2 * node] < nodes[2 * node + 1] ? nodes[2 * node] : nodes[2 * node + 1];
    EPLB_ASSERT(nodes[1] <= nodes[tournament->count] && nodes[1] <= nodes[2 * tournament->count - 1]);
}
