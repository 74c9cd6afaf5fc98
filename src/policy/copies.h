/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * How many replicas each expert gets, and in which order the copies were chosen.
 */
#ifndef POLICY_COPIES_H
#define POLICY_COPIES_H

#include "eplb/placement.h"

/** What a further copy of an expert with c replicas is worth. */
enum eplb_copy_rule {
    EPLB_COPY_LARGEST_DROP,   /* load / (c * (c + 1)): by how much its replica load falls */
    EPLB_COPY_LARGEST_REPLICA /* load / c: how heavy its replicas are */
};

/**
 * Gives every expert one replica, then hands out the redundant slots one by one to the expert
 * that is worth most by the rule, ties to the lowest id, never more than ep_size replicas.
 *
 * load is [E] up to 2^62. Writes replicas [E] and, unless NULL, chosen [num_slots - E]: the expert
 * of each copy in order.
 */
void eplb_choose_copies(const struct eplb_shape *shape, enum eplb_copy_rule rule, const int64_t *load,
                        int32_t *replicas, int32_t *chosen);

#endif
