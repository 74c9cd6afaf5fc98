/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * How many replicas each expert gets, and in which order the copies were chosen.
 */
#ifndef POLICY_COPIES_H
#define POLICY_COPIES_H

#include "eplb/placement.h"

/**
 * Gives every expert one replica, then hands out the redundant slots one by one to the expert whose
 * replica load falls most, ties to the lowest id, never more than ep_size replicas.
 * O(E + C log E) for C = num_slots - E copies.
 *
 * load is [E] up to 2^62; scratch has room for [E]. Writes replicas [E] and chosen [C]: the expert of
 * each copy in order.
 */
void eplb_choose_copies(const struct eplb_shape *shape, const int64_t *load, int32_t *replicas,
                        int32_t *scratch, int32_t *chosen);

#endif
