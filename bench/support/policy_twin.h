/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a policy would cost if it were written plainly: the same rules with scans over everything.
 */
#ifndef SUPPORT_POLICY_TWIN_H
#define SUPPORT_POLICY_TWIN_H

#include <stdint.h>

#include "eplb/placement.h"

/** Largest shape that twins take. */
enum { EPLB_TWIN_SLOTS = 1024 };

/**
 * Plans one layer. `balanced` and `greedy` give the policy's table, `deepseek` DeepSeek's, with its repeats;
 * `minmax` is the copies of the hottest replicas, packed, and the best of all swaps again and again until
 * none lowers the fullest of two ranks: one of the policy's searches, found by trying everything.
 *
 * @param policy one of the four names
 * @param table  receives [ep_size][slots_per_rank]
 */
void eplb_policy_twin(const char *policy, const struct eplb_shape *shape, const int64_t *load,
                      const int32_t *active, int32_t *table);

#endif
