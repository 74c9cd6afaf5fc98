/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Plans that move few slots: local search from the active placement under a limit.
 */
#ifndef POLICY_BOUNDED_H
#define POLICY_BOUNDED_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/policy.h"

/** Bytes of scratch memory, aligned to 64, that eplb_bound_plan needs for a shape. Pure. */
size_t eplb_bound_scratch(const struct eplb_shape *shape);

/**
 * Writes a legal placement that differs from problem->active in at most max_moves slots, and whose peak
 * under the even split is as low as local search from the active placement gets within them; never
 * higher than the active one's. An expert that stays on its rank keeps its slot. Pure: the same
 * arguments give the same table. Reads shape, load and active of the problem, nothing else.
 *
 * @param max_moves  > 0
 * @param scratch    eplb_bound_scratch(shape) bytes, aligned to 64, with any content
 * @param expert_ids receives [R][K]; not problem->active
 * @return the number of slots in which expert_ids differs from problem->active
 */
int32_t eplb_bound_plan(const struct eplb_policy_problem *problem, int32_t max_moves, void *scratch,
                        int32_t *expert_ids);

#endif
