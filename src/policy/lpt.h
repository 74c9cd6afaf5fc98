/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Packing as in packing.h for sums that fit 64 bits, by a tournament of the ranks.
 */
#ifndef POLICY_LPT_H
#define POLICY_LPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "eplb/placement.h"

/** Sum of a rank that takes nothing: full, or passed over because it holds the expert. */
#define EPLB_LPT_CLOSED (UINT64_C(1) << 63)

/**
 * A packing under way: a complete binary tree with the ranks at its leaves [leaves, 2 * leaves), node i
 * above the nodes 2 i and 2 i + 1. Only an expert with several replicas can repeat: the ranks that hold it
 * are kept in a list.
 */
struct eplb_lpt {
    const struct eplb_shape *shape;
    int32_t *expert_ids;  /* [R][K], the caller's; rows fill from the left */
    uint64_t *least;      /* [2 * leaves] smallest sum below a node */
    uint32_t *winner;     /* [2 * leaves] the lowest rank that has it */
    size_t leaves;        /* a power of two, >= R */
    uint64_t *sums;       /* [R] */
    int32_t *used;        /* [R] filled slots */
    int32_t *first;       /* [E] the expert's last placed replica, -1 without any */
    int32_t *next;        /* [R * K] links from a replica to the one before */
    int32_t *rank_of;     /* [R * K] where a replica is */
    int32_t num_replicas; /* in the lists */
    int32_t *holds;       /* [R] the last expert that it was seen to hold, -1 none */
    int32_t current;      /* the expert that `holds` is right for, -1 none */
    int32_t *passed;      /* [R] ranks closed because they hold it */
    int32_t num_passed;
};

void eplb_lpt_layout(struct eplb_lpt *lpt, struct eplb_arena *arena, const struct eplb_shape *shape);

/** Empties all ranks; the packing goes to expert_ids [R][K]. O(R + E). */
void eplb_lpt_reset(struct eplb_lpt *lpt, int32_t *expert_ids);

/**
 * Puts an expert's only replica on the least loaded rank that has a free slot, ties to the lowest rank.
 * There must be one. All sums stay below 2^63. O(log R).
 */
void eplb_lpt_add_only(struct eplb_lpt *lpt, int32_t expert, uint64_t load);

/**
 * Puts one of several replicas on the least loaded rank that has a free slot and does not hold the expert,
 * ties to the lowest rank. Returns false when there is none; the packing is of no use then. O(log R) for
 * the replica and for every rank passed over; ranks are passed over once for replicas that follow each
 * other.
 */
bool eplb_lpt_add_replica(struct eplb_lpt *lpt, int32_t expert, uint64_t load);

#endif
