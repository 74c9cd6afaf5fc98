/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Longest-processing-time packing of physical experts onto ranks without repeats.
 */
#ifndef POLICY_PACKING_H
#define POLICY_PACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/wide.h"
#include "eplb/placement.h"

/** A packing under way. The rows of expert_ids fill from the left. */
struct eplb_packing {
    const struct eplb_shape *shape;
    eplb_u128 *loads;    /* [ep_size] what each rank has so far */
    int32_t *used;       /* [ep_size] its filled slots */
    int32_t *expert_ids; /* [ep_size][slots_per_rank] */
};

/** Takes the packing's memory, except expert_ids, which the caller sets. */
void eplb_packing_layout(struct eplb_packing *packing, struct eplb_arena *arena,
                         const struct eplb_shape *shape);

/** Empties all ranks. */
void eplb_packing_reset(struct eplb_packing *packing);

/**
 * Puts one replica of an expert on the least loaded rank that has a free slot and does not hold
 * the expert, ties to the lowest rank. Returns false, and changes nothing, when there is none.
 * O(ep_size), and O(slots_per_rank) for each rank that is the least loaded one so far.
 */
bool eplb_packing_add(struct eplb_packing *packing, int32_t expert, eplb_u128 load);

#endif
