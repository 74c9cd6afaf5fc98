/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Orders by a float32 weight, without comparisons of floats: keys that are whole numbers, a sort of them,
 * and a tournament that knows the smallest one.
 */
#ifndef POLICY_ORDER_H
#define POLICY_ORDER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** The bits of a weight >= 0: of two weights the larger one has the larger bits. */
static inline uint32_t eplb_order_bits(float weight)
{
    const float positive = weight > 0 ? weight : 0; /* -0 has a sign bit */
    uint32_t bits;
    memcpy(&bits, &positive, sizeof bits);
    return bits;
}

/** A key that comes the earlier the lighter the weight, ties to the lowest index. */
static inline uint64_t eplb_order_lightest(float weight, int32_t index)
{
    return (uint64_t)eplb_order_bits(weight) << 32 | (uint32_t)index;
}

/** A key that comes the earlier the heavier the weight, ties to the lowest index. */
static inline uint64_t eplb_order_heaviest(float weight, int32_t index)
{
    return (uint64_t)~eplb_order_bits(weight) << 32 | (uint32_t)index;
}

static inline int32_t eplb_order_index(uint64_t key)
{
    return (int32_t)(uint32_t)key;
}

/**
 * Sorts keys whose indices ascend, smallest key first. scratch has room for count. O(count), and
 * O(count^2) for a few keys.
 */
void eplb_order_sort(uint64_t *keys, uint64_t *scratch, size_t count);

/** A key that never wins against another. */
#define EPLB_ORDER_NEVER UINT64_MAX

/**
 * A tournament: a complete binary tree in the caller's memory, node i above the nodes 2 i and 2 i + 1, the
 * keys at the leaves [count, 2 count). Every inner node holds the smaller of the two below it.
 */
struct eplb_tournament {
    uint64_t *nodes; /* [2 * count]; node 0 is not used */
    int32_t count;   /* >= 1 */
};

/** Plays all games, once the caller has set the leaves. O(count). */
void eplb_tournament_play(const struct eplb_tournament *tournament);

/** The smallest key. O(1). */
static inline uint64_t eplb_tournament_winner(const struct eplb_tournament *tournament)
{
    return tournament->nodes[1];
}

/** Gives the leaf of an index another key. O(log count). */
static inline void eplb_tournament_set(const struct eplb_tournament *tournament, int32_t index, uint64_t key)
{
    uint64_t *nodes = tournament->nodes;
    size_t node = (size_t)tournament->count + (size_t)index;
    nodes[node] = key;
    for (; node > 1; node /= 2) {
        const uint64_t other = nodes[node ^ 1];
        key = other < key ? other : key;
        nodes[node / 2] = key;
    }
}

#endif
