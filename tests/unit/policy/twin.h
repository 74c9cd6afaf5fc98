/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Plain twins of the policies: the rules as they are written, with exact fractions and loops over
 * everything. Slow, and simple enough to be checked by reading.
 */
#ifndef POLICY_TEST_TWIN_H
#define POLICY_TEST_TWIN_H

#include "eplb/placement.h"

/** What a copy of an expert is worth: by how much its replica load falls, or how large that is. */
enum twin_rule { TWIN_LARGEST_DROP, TWIN_LARGEST_REPLICA };

/** Chooses copies by scans: replicas [num_experts], and the expert of each copy in order. */
void twin_copies(const struct eplb_shape *shape, enum twin_rule rule, const int64_t *load, int32_t *replicas,
                 int32_t *chosen);

/** Chooses copies as `greedy` does, by weights [num_experts] that are floored with every copy. */
void twin_floored_copies(const struct eplb_shape *shape, const int64_t *load, int64_t *weights,
                         int32_t *replicas);

/**
 * Plans one layer as `balanced` (from the active placement) or `greedy` does. The shape has at
 * most PLAN_MAX_EXPERTS experts and PLAN_MAX_SLOTS slots. Returns 1 when the packing ran into a
 * dead end and the cyclic fallback made the table, else 0.
 */
int twin_balanced(const struct eplb_shape *shape, const int64_t *load, const int32_t *active,
                  int32_t *candidate);
int twin_greedy(const struct eplb_shape *shape, const int64_t *load, int32_t *candidate);

#endif
