/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/cyclic.h"

#include "base/assert.h"

void eplb_cyclic_place(const struct eplb_shape *shape, const int64_t *load, const int32_t *replicas,
                       struct eplb_share *scratch, int32_t *expert_ids)
{
    size_t num_experts = (size_t)shape->num_experts;
    EPLB_ASSERT(shape->slots_per_rank <= shape->num_experts);
    for (size_t expert = 0; expert < num_experts; expert++)
        scratch[expert] = (struct eplb_share){load[expert], replicas[expert], (int32_t)expert};
    eplb_share_sort(scratch, num_experts, scratch + num_experts);

    int32_t dealt = 0;
    for (size_t i = 0; i < num_experts; i++) {
        EPLB_ASSERT(scratch[i].replicas >= 1 && scratch[i].replicas <= shape->ep_size);
        for (int32_t copy = 0; copy < scratch[i].replicas; copy++, dealt++) {
            int32_t rank = dealt % shape->ep_size;
            int32_t slot = dealt / shape->ep_size;
            EPLB_ASSERT(slot < shape->slots_per_rank);
            expert_ids[(size_t)rank * (size_t)shape->slots_per_rank + (size_t)slot] = scratch[i].expert;
        }
    }
    EPLB_ASSERT(dealt == shape->num_slots);
}
