/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What planning needs when the loads of a layer add up to few enough tokens for exact arithmetic in 64
 * bits: an order of the experts, and who gets the redundant slots.
 *
 * Shares are counted in units of 2^-EPLB_SHARE_BITS. With up to 2^10 replicas different quotients a / c and
 * b / d are at least 2^-20 apart, so that their shares, rounded down, differ too and in the same way, and
 * equal ones have equal shares: sorting by share is sorting by load / replicas.
 */
#ifndef POLICY_QUICK_H
#define POLICY_QUICK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "eplb/placement.h"

enum { EPLB_SHARE_BITS = 20, EPLB_QUICK_REPLICAS = 1024 };

/** Largest sum of a layer's loads: sums of shares stay below 2^63. */
#define EPLB_QUICK_LOAD ((INT64_C(1) << 43) - 1)

/** Whether the loads add up to at most EPLB_QUICK_LOAD. O(count). */
bool eplb_quick_fits(const int64_t *load, int32_t count);

/** An expert and what decides its place: a load, share or worth. */
struct eplb_weighed {
    uint64_t weight;
    int32_t expert;
};

/** Whether a comes before b: the larger weight, ties to the lowest id. */
static inline bool eplb_weighed_first(const struct eplb_weighed *a, const struct eplb_weighed *b)
{
    return a->weight > b->weight || (a->weight == b->weight && a->expert < b->expert);
}

/** Sorts by weight, the largest first, ties to the lowest id. scratch has room for count. O(n log n). */
void eplb_weighed_sort(struct eplb_weighed *items, int32_t count, struct eplb_weighed *scratch);

/** What a further copy of an expert with c replicas is worth. */
enum eplb_quick_rule {
    EPLB_QUICK_LARGEST_DROP,  /* load / (c * (c + 1)): by how much its replica load falls */
    EPLB_QUICK_LARGEST_WEIGHT /* its weight: the load, and after each copy floor(weight * c / (c + 1)) */
};

/**
 * Experts and their copies. The experts stand by load, the largest first, ties to the lowest id; those
 * with copies are the first num_split of them: the most loaded expert that has none yet always comes
 * before the others without.
 */
struct eplb_quick {
    enum eplb_quick_rule rule;
    const struct eplb_shape *shape;
    const int64_t *load;
    int64_t largest;           /* load */
    uint64_t *keys;            /* [E] (largest - load) << 16 | expert, ascending */
    uint64_t *spare;           /* [E] */
    int32_t num_split;         /* experts with copies, the first in keys */
    int32_t *replicas;         /* [E] */
    int64_t *weights;          /* [E], those of split experts: load, or floored weight */
    int32_t *chosen;           /* [num_slots - E] experts of the copies, in order */
    struct eplb_weighed *race; /* [E] heap of the split experts that may get further copies */
    int32_t num_racers;
};

void eplb_quick_layout(struct eplb_quick *quick, struct eplb_arena *arena, const struct eplb_shape *shape);

/**
 * Orders the experts, gives each one replica, then hands out the redundant slots one by one to the expert
 * whose copy is worth most by the rule, ties to the lowest id, never more than ep_size replicas. All loads
 * together are at most EPLB_QUICK_LOAD. O(E + C log C) for C = num_slots - E copies.
 *
 * Returns false when an expert would get more than EPLB_QUICK_REPLICAS replicas.
 */
bool eplb_quick_copies(struct eplb_quick *quick, enum eplb_quick_rule rule, const int64_t *load);

/**
 * Lists one replica of every expert by weight, the largest first, ties to the lowest id: an unsplit expert's
 * is load << shift, those of the split ones come in split [num_split], sorted. primaries is [E]. O(E).
 */
void eplb_quick_primaries(const struct eplb_quick *quick, const struct eplb_weighed *split, int shift,
                          struct eplb_weighed *primaries);

static inline int32_t eplb_quick_expert(const struct eplb_quick *quick, int32_t place)
{
    return (int32_t)(quick->keys[place] & 0xffff);
}

static inline uint64_t eplb_quick_load(const struct eplb_quick *quick, int32_t place)
{
    return (uint64_t)quick->largest - (quick->keys[place] >> 16);
}

#endif
