/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `greedy`: the historical policy. Copies to the heaviest remaining weight, copies placed before
 * primaries, no slots kept.
 */
#include "policy/policies.h"

#include "base/arena.h"
#include "base/assert.h"
#include "policy/cyclic.h"
#include "policy/lpt.h"
#include "policy/plain.h"
#include "policy/quick.h"
#include "policy/share.h"

/** The fast road. */
struct greedy {
    struct eplb_quick quick;
    struct eplb_lpt lpt;
    struct eplb_weighed *split;     /* [E] experts with copies, by weight */
    struct eplb_weighed *primaries; /* [E] by weight */
    struct eplb_weighed *spare;     /* [E] */
    struct eplb_share *fallback;    /* [2 * E] */
};

static void layout(struct greedy *work, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    const size_t num_experts = (size_t)shape->num_experts;
    eplb_quick_layout(&work->quick, arena, shape);
    eplb_lpt_layout(&work->lpt, arena, shape);
    work->split = eplb_arena_take(arena, num_experts, sizeof *work->split);
    work->primaries = eplb_arena_take(arena, num_experts, sizeof *work->primaries);
    work->spare = eplb_arena_take(arena, num_experts, sizeof *work->spare);
    work->fallback = eplb_arena_take(arena, 2 * num_experts, sizeof *work->fallback);
}

static size_t scratch_size(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    struct greedy work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape);
    const size_t plain = eplb_plain_greedy.scratch_size(shape, settings);
    return arena.used > plain ? arena.used : plain;
}

static bool place_copies(struct greedy *work)
{
    const struct eplb_quick *quick = &work->quick;
    for (int32_t expert = 0; expert < quick->shape->num_experts; expert++)
        for (int32_t copy = 1; copy < quick->replicas[expert]; copy++)
            if (!eplb_lpt_add_replica(&work->lpt, expert, (uint64_t)quick->weights[expert]))
                return false;
    return true;
}

static bool place_primaries(struct greedy *work)
{
    const struct eplb_quick *quick = &work->quick;
    for (int32_t i = 0; i < quick->num_split; i++) {
        const int32_t expert = eplb_quick_expert(quick, i);
        EPLB_ASSERT(quick->replicas[expert] >= 2 && quick->weights[expert] >= 0);
        work->split[i] = (struct eplb_weighed){.weight = (uint64_t)quick->weights[expert], .expert = expert};
    }
    eplb_weighed_sort(work->split, quick->num_split, work->spare);
    eplb_quick_primaries(quick, work->split, 0, work->primaries);
    for (int32_t i = 0; i < quick->shape->num_experts; i++) {
        const struct eplb_weighed primary = work->primaries[i];
        if (quick->replicas[primary.expert] == 1)
            eplb_lpt_add_only(&work->lpt, primary.expert, primary.weight);
        else if (!eplb_lpt_add_replica(&work->lpt, primary.expert, primary.weight))
            return false;
    }
    return true;
}

static enum eplb_status plan_layer(const struct eplb_policy_problem *problem, void *scratch,
                                   struct eplb_policy_answer *answer, struct eplb_error *error)
{
    const struct eplb_shape *shape = problem->shape;
    struct greedy work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, scratch_size(shape, problem->settings));
    layout(&work, &arena, shape);
    EPLB_ASSERT(!arena.overflow);
    if (!eplb_quick_fits(problem->load, shape->num_experts) ||
        !eplb_quick_copies(&work.quick, EPLB_QUICK_LARGEST_WEIGHT, problem->load))
        return eplb_plain_greedy.plan_layer(problem, scratch, answer, error);

    eplb_lpt_reset(&work.lpt, answer->expert_ids);
    if (!place_copies(&work) || !place_primaries(&work))
        eplb_cyclic_place(shape, problem->load, work.quick.replicas, work.fallback, answer->expert_ids);
    return EPLB_OK;
}

const struct eplb_policy_ops eplb_policy_greedy = {
    .size = sizeof(struct eplb_policy_ops),
    .name = "greedy",
    .scratch_size = scratch_size,
    .plan_layer = plan_layer,
};
