/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Shapes and random placements for tests.
 */
#ifndef SUPPORT_TABLES_H
#define SUPPORT_TABLES_H

#include "base/prng.h"
#include "eplb/placement.h"

/** The shape of one layer; fails the test when there is no such shape. */
struct eplb_shape tables_shape(int32_t num_experts, int32_t ep_size, int32_t redundant_experts_num);

/**
 * Changes a legal placement into another legal one by random steps: two slots swap their experts,
 * or a slot whose expert has other replicas takes another expert. Steps that would not be legal
 * are passed over.
 */
void tables_stir(struct eplb_prng *prng, const struct eplb_shape *shape, int32_t *expert_ids, int32_t steps);

/** Writes a random legal placement, far from the initial one. */
void tables_random(struct eplb_prng *prng, const struct eplb_shape *shape, int32_t *expert_ids);

#endif
