/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Slots within a rank: what stays there keeps its place.
 */
#ifndef POLICY_KEEP_H
#define POLICY_KEEP_H

#include "eplb/placement.h"

/**
 * Writes expert_ids with the same experts on each rank as packed: an expert that the rank holds in active
 * keeps its slot, the others fill the free slots in packed order. packed is overwritten; scratch has room
 * for [E]. Both placements are legal. O(P + E).
 */
void eplb_keep_slots(const struct eplb_shape *shape, const int32_t *active, int32_t *packed, int32_t *scratch,
                     int32_t *expert_ids);

#endif
