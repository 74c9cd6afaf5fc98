/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * One-layer plans and random loads for the tests of policies.
 */
#ifndef POLICY_TEST_PLAN_H
#define POLICY_TEST_PLAN_H

#include "base/prng.h"
#include "eplb/policy.h"

enum { PLAN_MAX_EXPERTS = 512, PLAN_MAX_SLOTS = 1024 };

/** Lets a built-in policy plan one layer, with exactly the scratch it asks for, full of rubbish. */
void plan_once(const char *kind, const struct eplb_shape *shape, const int64_t *load, const int32_t *active,
               int32_t *candidate);

/** As plan_once, from the initial placement. */
void plan_initial(const char *kind, const struct eplb_shape *shape, const int64_t *load, int32_t *candidate);

/** Peak of a placement under the even split. */
double plan_peak(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load);

/**
 * A random load [num_experts] with a sum above 0, of a random kind: many ties, a few hot experts,
 * any counts up to a million, or up to `largest`.
 */
void plan_random_load(struct eplb_prng *prng, const struct eplb_shape *shape, int64_t largest, int64_t *load);

#endif
