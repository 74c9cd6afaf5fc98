/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Slots of a rank kept where an expert stays on it, so that nothing moves that need not.
 */
#ifndef POLICY_KEEP_SLOTS_H
#define POLICY_KEEP_SLOTS_H

#include <stdint.h>

/**
 * An expert that stays on the rank keeps its slot; the others fill the free slots in order.
 *
 * @param active the rank's experts [slots_per_rank]
 * @param packed the experts that it is to hold, in any order, none twice
 * @param row    receives them
 */
void eplb_keep_slots(const int32_t *active, const int32_t *packed, int32_t slots_per_rank, int32_t *row);

#endif
