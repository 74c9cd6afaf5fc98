/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/copies.h"

#include <stdbool.h>

#include "base/assert.h"
#include "base/wide.h"

static uint64_t divisor(enum eplb_copy_rule rule, int32_t replicas)
{
    uint64_t c = (uint64_t)replicas;
    return rule == EPLB_COPY_LARGEST_DROP ? c * (c + 1) : c;
}

/** Replicas stay below 2^17, so a product is below 2^62 * 2^34 and exact in 128 bits. */
static int32_t most_worth(const struct eplb_shape *shape, enum eplb_copy_rule rule, const int64_t *load,
                          const int32_t *replicas)
{
    int32_t best = -1;
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        if (replicas[expert] == shape->ep_size)
            continue;
        if (best < 0 || (eplb_u128)(uint64_t)load[expert] * divisor(rule, replicas[best]) >
                            (eplb_u128)(uint64_t)load[best] * divisor(rule, replicas[expert]))
            best = expert;
    }
    return best;
}

void eplb_choose_copies(const struct eplb_shape *shape, enum eplb_copy_rule rule, const int64_t *load,
                        int32_t *replicas, int32_t *chosen)
{
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        replicas[expert] = 1;
    int32_t copies = shape->num_slots - shape->num_experts;
    EPLB_ASSERT(copies >= 0);
    for (int32_t copy = 0; copy < copies; copy++) {
        int32_t expert = most_worth(shape, rule, load, replicas);
        /* slots_per_rank <= num_experts, so the slots never outnumber ep_size replicas of each. */
        EPLB_ASSERT(expert >= 0);
        replicas[expert]++;
        EPLB_ASSERT(replicas[expert] <= shape->ep_size);
        if (chosen != NULL)
            chosen[copy] = expert;
    }
}
