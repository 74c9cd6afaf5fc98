/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The plain twin of `greedy`: loads of any size, exact in 128 bits.
 */
#include "policy/plain.h"

#include "base/arena.h"
#include "base/assert.h"
#include "policy/copy_heap.h"
#include "policy/cyclic.h"
#include "policy/packing.h"
#include "policy/share.h"

struct greedy {
    struct eplb_packing packing;
    struct eplb_share *primaries; /* [E] by weight once sorted */
    struct eplb_share *spare;     /* [2 * E] for sorting, and for the fallback */
    int64_t *weight;              /* [E] load that one replica is taken to carry */
    int32_t *replicas;            /* [E] */
    int32_t *heap;                /* [E] while copies are chosen */
};

static void layout(struct greedy *work, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t num_experts = (size_t)shape->num_experts;
    eplb_packing_layout(&work->packing, arena, shape);
    work->primaries = eplb_arena_take(arena, num_experts, sizeof *work->primaries);
    work->spare = eplb_arena_take(arena, 2 * num_experts, sizeof *work->spare);
    work->weight = eplb_arena_take(arena, num_experts, sizeof *work->weight);
    work->replicas = eplb_arena_take(arena, num_experts, sizeof *work->replicas);
    work->heap = eplb_arena_take(arena, num_experts, sizeof *work->heap);
}

static size_t scratch_size(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)settings;
    struct greedy work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape);
    return arena.used;
}

static void choose_copies(struct greedy *work, const struct eplb_shape *shape, const int64_t *load)
{
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        work->weight[expert] = load[expert];
        work->replicas[expert] = 1;
    }
    struct eplb_copy_heap heap;
    eplb_copy_heap_init(&heap, shape, EPLB_COPY_LARGEST_WEIGHT, work->weight, work->replicas, work->heap);
    for (int32_t copy = shape->num_experts; copy < shape->num_slots; copy++) {
        int32_t expert = eplb_copy_heap_first(&heap);
        uint32_t before = (uint32_t)work->replicas[expert]++;
        EPLB_ASSERT(before >= 1 && before < (uint32_t)shape->ep_size);
        /* Rounded down at every copy, as the historical code does: not the same as load / replicas. */
        work->weight[expert] = (int64_t)((eplb_u128)(uint64_t)work->weight[expert] * before / (before + 1));
        EPLB_ASSERT(work->weight[expert] >= 0);
        eplb_copy_heap_update(&heap);
    }
}

static bool place_copies(struct greedy *work, const struct eplb_shape *shape)
{
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        for (int32_t copy = 1; copy < work->replicas[expert]; copy++)
            if (!eplb_packing_add(&work->packing, expert, (uint64_t)work->weight[expert]))
                return false;
    return true;
}

static bool place_primaries(struct greedy *work, const struct eplb_shape *shape)
{
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        work->primaries[expert] = (struct eplb_share){work->weight[expert], 1, expert};
    eplb_share_sort(work->primaries, (size_t)shape->num_experts, work->spare);
    EPLB_ASSERT(work->primaries[0].load >= work->primaries[shape->num_experts - 1].load);
    for (int32_t i = 0; i < shape->num_experts; i++)
        if (!eplb_packing_add(&work->packing, work->primaries[i].expert, (uint64_t)work->primaries[i].load))
            return false;
    return true;
}

static enum eplb_status plan_layer(const struct eplb_policy_problem *problem, void *scratch,
                                   struct eplb_policy_answer *answer, struct eplb_error *error)
{
    const struct eplb_shape *shape = problem->shape;
    (void)error;
    struct greedy work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, scratch_size(shape, problem->settings));
    layout(&work, &arena, shape);
    EPLB_ASSERT(!arena.overflow);

    choose_copies(&work, shape, problem->load);
    work.packing.expert_ids = answer->expert_ids;
    eplb_packing_reset(&work.packing);
    if (!place_copies(&work, shape) || !place_primaries(&work, shape))
        eplb_cyclic_place(shape, problem->load, work.replicas, work.spare, answer->expert_ids);
    return EPLB_OK;
}

const struct eplb_policy_ops eplb_plain_greedy = {
    .size = sizeof(struct eplb_policy_ops),
    .name = "greedy",
    .scratch_size = scratch_size,
    .plan_layer = plan_layer,
};
