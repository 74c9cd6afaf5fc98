/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/keep.h"

#include <string.h>

#include "base/assert.h"

void eplb_keep_slots(const struct eplb_shape *shape, const int32_t *active, int32_t *packed, int32_t *scratch,
                     int32_t *expert_ids)
{
    enum { FREE = -1 };
    EPLB_ASSERT(packed != expert_ids && active != expert_ids);
    EPLB_ASSERT(shape->num_slots % shape->slots_per_rank == 0);
    /* Where an expert is in active, on the last rank looked at that holds it: ranks ascend. */
    int32_t *const slot_of = scratch;
    memset(slot_of, -1, (size_t)shape->num_experts * sizeof *slot_of);
    for (int32_t begin = 0; begin < shape->num_slots; begin += shape->slots_per_rank) {
        const int32_t end = begin + shape->slots_per_rank;
        for (int32_t slot = begin; slot < end; slot++) {
            slot_of[active[slot]] = slot;
            expert_ids[slot] = FREE;
        }
        int32_t new_end = begin;
        for (int32_t i = begin; i < end; i++) {
            const int32_t expert = packed[i];
            if (slot_of[expert] >= begin)
                expert_ids[slot_of[expert]] = expert;
            else
                packed[new_end++] = expert;
        }
        int32_t slot = begin;
        for (int32_t i = begin; i < new_end; i++, slot++) {
            while (expert_ids[slot] != FREE)
                slot++;
            EPLB_ASSERT(slot < end);
            expert_ids[slot] = packed[i];
        }
    }
}
