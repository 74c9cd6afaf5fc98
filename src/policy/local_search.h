/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Local search under the even split: steps that lower the fullest rank until none is left.
 */
#ifndef POLICY_LOCAL_SEARCH_H
#define POLICY_LOCAL_SEARCH_H

#include <stdint.h>

#include "policy/even.h"

/** Steps that are enough for every load seen; a bound on the time of the others. */
#define EPLB_SEARCH_MAX_STEPS(shape) (4 * (shape)->num_slots > 64 ? 4 * (shape)->num_slots : 64)

/** When a search stops, beside having found no step. */
struct eplb_search_limits {
    int64_t target;    /* units: a peak as low as this is low enough */
    int32_t max_steps; /* >= 0 */
    int32_t max_moves; /* where moves are counted: so many at most */
    bool evenly;       /* there, of swaps as good: the two ranks as even as can be, not most load moved */
};

/**
 * Takes steps, each of which brings the fullest rank, and all that the step touches, below the peak:
 *
 *   swap      an expert of the fullest rank against a smaller one of another rank
 *   exchange  a slot of an expert that has another replica is given to a further replica of another
 *             expert: a slot of the fullest rank, or anybody's for an expert of the fullest rank
 *
 * Without moves counted, the step with the largest gain is taken: by how much the worst of the ranks that
 * it touches ends below the peak. Where moves are counted, gains count up to the target, and per move.
 *
 * The sums, sorted from the largest, fall lexicographically with every step, so the search ends.
 */
void eplb_search_descend(struct eplb_even *even, const struct eplb_search_limits *limits);

#endif
