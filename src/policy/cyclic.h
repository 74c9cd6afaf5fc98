/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The fallback for a packing that ran into a dead end: dealing in a circle.
 */
#ifndef POLICY_CYCLIC_H
#define POLICY_CYCLIC_H

#include "eplb/placement.h"
#include "policy/share.h"

/**
 * Deals the replicas of the experts, experts by load / replicas from the largest, ties to the
 * lowest id, to the ranks by one running cursor that starts at rank 0. An expert has at most
 * ep_size replicas, so no rank gets two of them, and the slots come out even.
 *
 * load and replicas are [E], replicas add up to num_slots; scratch has room for 2 * E shares.
 */
void eplb_cyclic_place(const struct eplb_shape *shape, const int64_t *load, const int32_t *replicas,
                       struct eplb_share *scratch, int32_t *expert_ids);

#endif
