/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/packing.h"

#include <string.h>

#include "base/assert.h"

void eplb_packing_layout(struct eplb_packing *packing, struct eplb_arena *arena,
                         const struct eplb_shape *shape)
{
    packing->shape = shape;
    packing->loads = eplb_arena_take(arena, (size_t)shape->ep_size, sizeof *packing->loads);
    packing->used = eplb_arena_take(arena, (size_t)shape->ep_size, sizeof *packing->used);
    packing->expert_ids = NULL;
}

void eplb_packing_reset(struct eplb_packing *packing)
{
    memset(packing->loads, 0, (size_t)packing->shape->ep_size * sizeof *packing->loads);
    memset(packing->used, 0, (size_t)packing->shape->ep_size * sizeof *packing->used);
}

static bool holds(const int32_t *row, int32_t used, int32_t expert)
{
    for (int32_t slot = 0; slot < used; slot++)
        if (row[slot] == expert)
            return true;
    return false;
}

bool eplb_packing_add(struct eplb_packing *packing, int32_t expert, eplb_u128 load)
{
    EPLB_ASSERT(packing->expert_ids != NULL);
    EPLB_ASSERT(expert >= 0 && expert < packing->shape->num_experts);
    int32_t slots_per_rank = packing->shape->slots_per_rank;
    int32_t best = -1;
    for (int32_t rank = 0; rank < packing->shape->ep_size; rank++) {
        const int32_t *row = packing->expert_ids + (size_t)rank * (size_t)slots_per_rank;
        if (packing->used[rank] == slots_per_rank ||
            (best >= 0 && packing->loads[rank] >= packing->loads[best]))
            continue;
        if (!holds(row, packing->used[rank], expert))
            best = rank;
    }
    if (best < 0)
        return false;
    EPLB_ASSERT(packing->used[best] < slots_per_rank);
    packing->expert_ids[(size_t)best * (size_t)slots_per_rank + (size_t)packing->used[best]] = expert;
    packing->used[best]++;
    packing->loads[best] += load;
    EPLB_ASSERT(packing->used[best] <= slots_per_rank);
    return true;
}
