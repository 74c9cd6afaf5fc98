/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `deepseek`: DeepSeek's function without repeats, then slots kept where an expert stays on its rank.
 */
#include "policy/policies.h"

#include "base/assert.h"
#include "policy/deepseek.h"
#include "policy/keep.h"

struct deepseek {
    struct eplb_deepseek_sizes sizes;
    struct eplb_deepseek_layer layer;
    float *weight;   /* [E] */
    int32_t *packed; /* [R][K] before slots are kept */
    int32_t *kept;   /* [E] while they are */
};

bool eplb_deepseek_groups_fit(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    const int32_t nodes = settings->num_nodes;
    return nodes >= 1 && settings->num_groups >= 1 && settings->num_groups % nodes == 0 &&
           shape->num_experts % settings->num_groups == 0 && shape->ep_size % nodes == 0 &&
           shape->slots_per_rank <= shape->num_experts / nodes;
}

/** The way that fits the shape: the hierarchical one where groups and nodes allow it, else the global. */
static struct eplb_deepseek_sizes sizes_of(const struct eplb_shape *shape,
                                           const struct eplb_policy_settings *settings)
{
    const bool fits = eplb_deepseek_groups_fit(shape, settings);
    return (struct eplb_deepseek_sizes){.num_layers = 1,
                                        .num_experts = shape->num_experts,
                                        .num_replicas = shape->num_slots,
                                        .num_groups = fits ? settings->num_groups : 1,
                                        .num_nodes = fits ? settings->num_nodes : 1,
                                        .num_gpus = shape->ep_size};
}

static void layout(struct deepseek *work, struct eplb_arena *arena, const struct eplb_shape *shape,
                   const struct eplb_policy_settings *settings)
{
    work->sizes = sizes_of(shape, settings);
    EPLB_ASSERT(work->sizes.num_gpus % work->sizes.num_nodes == 0);
    eplb_deepseek_layer_layout(&work->layer, arena, &work->sizes);
    work->weight = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->weight);
    work->packed = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *work->packed);
    work->kept = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->kept);
}

static size_t scratch_size(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    struct deepseek work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape, settings);
    return arena.used;
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
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        work.packed[slot] = work.layer.slots[slot].expert;
    eplb_keep_slots(shape, problem->active, work.packed, work.kept, answer->expert_ids);
    return EPLB_OK;
}

const struct eplb_policy_ops eplb_policy_deepseek = {
    .size = sizeof(struct eplb_policy_ops),
    .name = "deepseek",
    .scratch_size = scratch_size,
    .plan_layer = plan_layer,
};
