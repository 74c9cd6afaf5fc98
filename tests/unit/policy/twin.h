/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Plain twins of the policies: the rules as they are written, with exact fractions and loops over
 * everything. Slow, and simple enough to be checked by reading.
 */
#ifndef POLICY_TEST_TWIN_H
#define POLICY_TEST_TWIN_H

#include "eplb/placement.h"

/**
 * Plans one layer as `balanced` (from the active placement) or `greedy` does. The shape has at
 * most PLAN_MAX_EXPERTS experts and PLAN_MAX_SLOTS slots. Returns 1 when the packing ran into a
 * dead end and the cyclic fallback made the table, else 0.
 */
int twin_balanced(const struct eplb_shape *shape, const int64_t *load, const int32_t *active,
                  int32_t *candidate);
int twin_greedy(const struct eplb_shape *shape, const int64_t *load, int32_t *candidate);

#endif
