/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Load by weights, exactly.
 */
#ifndef PLACEMENT_WEIGHTED_H
#define PLACEMENT_WEIGHTED_H

#include <stdint.h>

#include "base/wide.h"
#include "eplb/placement.h"

/**
 * The largest rank's load when the tokens of every expert are divided by weights, in units of
 * 1 / EPLB_WEIGHT_UNIT token.
 *
 * @param expert_ids legal placement [R][K]
 * @param weights    [R][K] as eplb_weights_check allows
 * @param load       [E], each >= 0
 */
eplb_u128 eplb_weighted_peak(const struct eplb_shape *shape, const int32_t *expert_ids,
                             const int32_t *weights, const int64_t *load);

#endif
