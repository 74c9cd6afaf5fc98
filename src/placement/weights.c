/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "placement/weighted.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

void eplb_weights_equal(const struct eplb_shape *shape, const int32_t *expert_ids, int32_t *scratch,
                        int32_t *weights)
{
    eplb_placement_replicas(shape, expert_ids, scratch);
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        EPLB_ASSERT(scratch[expert_ids[slot]] > 0);
        weights[slot] = EPLB_WEIGHT_UNIT / scratch[expert_ids[slot]];
    }
    /* What is left of the unit goes, one by one, to the first replicas in slot order. */
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        scratch[expert] = EPLB_WEIGHT_UNIT % scratch[expert];
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int32_t *left = &scratch[expert_ids[slot]];
        EPLB_ASSERT(*left >= 0);
        weights[slot] += *left > 0;
        *left -= *left > 0;
    }
}

eplb_u128 eplb_weighted_peak(const struct eplb_shape *shape, const int32_t *expert_ids,
                             const int32_t *weights, const int64_t *load)
{
    eplb_u128 peak = 0;
    for (int32_t first = 0; first < shape->num_slots; first += shape->slots_per_rank) {
        eplb_u128 sum = 0;
        for (int32_t slot = first; slot < first + shape->slots_per_rank; slot++) {
            EPLB_ASSERT(weights[slot] > 0 && weights[slot] <= EPLB_WEIGHT_UNIT);
            sum += (eplb_u128)(uint64_t)load[expert_ids[slot]] * (uint32_t)weights[slot];
        }
        peak = sum > peak ? sum : peak;
    }
    return peak;
}

enum eplb_status eplb_weights_check(const struct eplb_shape *shape, const int32_t *expert_ids,
                                    const int32_t *weights, int32_t *scratch, struct eplb_error *error)
{
    memset(scratch, 0, (size_t)shape->num_experts * sizeof *scratch);
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int32_t expert = expert_ids[slot];
        EPLB_ASSERT(expert >= 0 && expert < shape->num_experts);
        int32_t left = EPLB_WEIGHT_UNIT - scratch[expert];
        if (weights[slot] <= 0 || weights[slot] > left)
            EPLB_FAIL(
                EPLB_INVALID,
                "rank %d slot %d: weight %d of expert %d; allowed is 1 to %d (its weights add up to %d)",
                slot / shape->slots_per_rank, slot % shape->slots_per_rank, weights[slot], expert, left,
                EPLB_WEIGHT_UNIT);
        scratch[expert] += weights[slot];
    }
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        if (scratch[expert] != EPLB_WEIGHT_UNIT)
            EPLB_FAIL(EPLB_INVALID, "the weights of expert %d add up to %d; they must add up to %d", expert,
                      scratch[expert], EPLB_WEIGHT_UNIT);
    return EPLB_OK;
}
