/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `deepseek`: DeepSeek's function without repeats, then slots kept where an expert stays on its rank.
 */
#include "policy/policies.h"

#include <string.h>

#include "base/assert.h"
#include "policy/deepseek.h"

struct deepseek {
    struct eplb_deepseek_sizes sizes;
    struct eplb_deepseek_layer layer;
    float *weight; /* [E] */
    int32_t *last; /* [E] the last rank that an expert was found on, for keeping slots */
};

/** The way that fits the shape: the hierarchical one where groups and nodes allow it, else the global. */
static struct eplb_deepseek_sizes sizes_of(const struct eplb_shape *shape,
                                           const struct eplb_policy_settings *settings)
{
    const int32_t nodes = settings->num_nodes;
    const bool fits = nodes >= 1 && settings->num_groups >= 1 && settings->num_groups % nodes == 0 &&
                      shape->num_experts % settings->num_groups == 0 && shape->ep_size % nodes == 0 &&
                      shape->slots_per_rank <= shape->num_experts / nodes;
    return (struct eplb_deepseek_sizes){.num_layers = 1,
                                        .num_experts = shape->num_experts,
                                        .num_replicas = shape->num_slots,
                                        .num_groups = fits ? settings->num_groups : 1,
                                        .num_nodes = fits ? nodes : 1,
                                        .num_gpus = shape->ep_size};
}

static void layout(struct deepseek *work, struct eplb_arena *arena, const struct eplb_shape *shape,
                   const struct eplb_policy_settings *settings)
{
    work->sizes = sizes_of(shape, settings);
    EPLB_ASSERT(work->sizes.num_gpus % work->sizes.num_nodes == 0);
    eplb_deepseek_layer_layout(&work->layer, arena, &work->sizes);
    work->weight = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->weight);
    work->last = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->last);
}

static size_t scratch_size(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    struct deepseek work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape, settings);
    return arena.used;
}

/**
 * An expert that stays on the rank keeps its slot; the others fill the free slots in order. `last` tells
 * ranks apart by two marks each: planned for this rank, and placed on it.
 */
static void keep_slots(int32_t *last, int32_t rank, const struct eplb_deepseek_replica *planned,
                       const int32_t *active, int32_t slots_per_rank, int32_t *row)
{
    const int32_t is_planned = 2 * rank;
    const int32_t is_placed = 2 * rank + 1;
    for (int32_t i = 0; i < slots_per_rank; i++)
        last[planned[i].expert] = is_planned;
    for (int32_t slot = 0; slot < slots_per_rank; slot++) {
        const bool stays = last[active[slot]] == is_planned;
        row[slot] = stays ? active[slot] : -1;
        if (stays)
            last[active[slot]] = is_placed;
    }
    int32_t next_free = 0;
    for (int32_t i = 0; i < slots_per_rank; i++) {
        if (last[planned[i].expert] == is_placed)
            continue;
        while (row[next_free] >= 0)
            next_free++;
        EPLB_ASSERT(next_free < slots_per_rank);
        row[next_free] = planned[i].expert;
    }
    EPLB_ASSERT(row[slots_per_rank - 1] >= 0); /* they fill in order, so all are */
}

static enum eplb_status plan_layer(const struct eplb_policy_problem *problem, void *scratch,
                                   struct eplb_policy_answer *answer, struct eplb_error *error)
{
    (void)error;
    const struct eplb_shape *shape = problem->shape;
    struct deepseek work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, scratch_size(shape, problem->settings));
    layout(&work, &arena, shape, problem->settings);
    EPLB_ASSERT(!arena.overflow);

    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        EPLB_ASSERT(problem->load[expert] >= 0);
        work.weight[expert] = (float)problem->load[expert];
    }
    eplb_deepseek_layer_plan(&work.layer, work.weight, true);
    eplb_deepseek_remove_repeats(&work.layer);
    memset(work.last, 0xff, (size_t)shape->num_experts * sizeof *work.last);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        const size_t row = (size_t)rank * (size_t)shape->slots_per_rank;
        keep_slots(work.last, rank, work.layer.slots + row, problem->active + row, shape->slots_per_rank,
                   answer->expert_ids + row);
    }
    return EPLB_OK;
}

const struct eplb_policy_ops eplb_policy_deepseek = {
    .size = sizeof(struct eplb_policy_ops),
    .name = "deepseek",
    .scratch_size = scratch_size,
    .plan_layer = plan_layer,
};
