/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "migrate/layer_plan.h"

#include <string.h>

#include "base/assert.h"

void eplb_layer_plan_take(struct eplb_arena *arena, const struct eplb_shape *shape,
                          struct eplb_layer_plan *plan)
{
    *plan = (struct eplb_layer_plan){.layer = EPLB_NO_LAYER};
    plan->expert_ids = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *plan->expert_ids);
    plan->log2phy = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *plan->log2phy);
    plan->moves = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *plan->moves);
    plan->replica_weights = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *plan->replica_weights);
}

void eplb_layer_plan_build(struct eplb_layer_plan *plan, const struct eplb_shape *shape, int32_t ep_rank,
                           const int32_t *old_ids, const int32_t *new_ids, void *scratch)
{
    EPLB_ASSERT(ep_rank >= 0 && ep_rank < shape->ep_size);
    memmove(plan->expert_ids, new_ids, (size_t)shape->num_slots * sizeof *new_ids);
    plan->num_moves = eplb_placement_diff(shape, old_ids, plan->expert_ids, scratch, plan->moves);
    EPLB_ASSERT(plan->num_moves >= 0 && plan->num_moves <= shape->num_slots);
    eplb_log2phy(shape, plan->expert_ids, ep_rank, 0, plan->log2phy);
    plan->num_local_changes = 0;
    for (int32_t move = 0; move < plan->num_moves; move++)
        plan->num_local_changes += plan->moves[move].slot / shape->slots_per_rank == ep_rank;
}
