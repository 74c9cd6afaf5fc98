/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `balanced`: copies by the largest drop of replica load, then longest-processing-time packing,
 * then slots kept where an expert stays on its rank.
 */
#include "policy/policies.h"

#include "base/arena.h"
#include "base/assert.h"
#include "policy/cyclic.h"
#include "policy/keep.h"
#include "policy/lpt.h"
#include "policy/plain.h"
#include "policy/quick.h"
#include "policy/share.h"

/** The fast road. What stands in it is sorted by share, the largest first. */
struct balanced {
    struct eplb_quick quick;
    struct eplb_lpt lpt;
    struct eplb_weighed *split;     /* [E] experts with copies, by share of one replica */
    struct eplb_weighed *copies;    /* [num_slots - E] */
    struct eplb_weighed *primaries; /* [E] */
    struct eplb_weighed *spare;     /* [E] */
    struct eplb_share *fallback;    /* [2 * E] */
    int32_t *group;                 /* [E] where the split experts with the same share begin in split */
    int32_t *cursor;                /* [E] where the next copy of a group goes; slots that are kept */
    int32_t *packed;                /* [R][K] before slots are kept */
};

static void layout(struct balanced *work, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    const size_t num_experts = (size_t)shape->num_experts;
    const size_t num_slots = (size_t)shape->num_slots;
    eplb_quick_layout(&work->quick, arena, shape);
    eplb_lpt_layout(&work->lpt, arena, shape);
    work->split = eplb_arena_take(arena, num_experts, sizeof *work->split);
    work->copies = eplb_arena_take(arena, num_slots - num_experts, sizeof *work->copies);
    work->primaries = eplb_arena_take(arena, num_experts, sizeof *work->primaries);
    work->spare = eplb_arena_take(arena, num_experts, sizeof *work->spare);
    work->fallback = eplb_arena_take(arena, 2 * num_experts, sizeof *work->fallback);
    work->group = eplb_arena_take(arena, num_experts, sizeof *work->group);
    work->cursor = eplb_arena_take(arena, num_experts, sizeof *work->cursor);
    work->packed = eplb_arena_take(arena, num_slots, sizeof *work->packed);
}

static size_t scratch_size(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    struct balanced work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape);
    const size_t plain = eplb_plain_balanced.scratch_size(shape, settings);
    return arena.used > plain ? arena.used : plain;
}

static void sort_split(struct balanced *work)
{
    const struct eplb_quick *quick = &work->quick;
    for (int32_t i = 0; i < quick->num_split; i++) {
        const int32_t expert = eplb_quick_expert(quick, i);
        const uint64_t load = (uint64_t)quick->load[expert];
        EPLB_ASSERT(quick->replicas[expert] >= 2);
        work->split[i] = (struct eplb_weighed){
            .weight = (load << EPLB_SHARE_BITS) / (uint32_t)quick->replicas[expert], .expert = expert};
    }
    eplb_weighed_sort(work->split, quick->num_split, work->spare);
}

/**
 * Copies by share, equal ones in the order chosen: every group of split experts with equal shares has
 * one cursor, which deals its copies in that order.
 */
static void sort_copies(struct balanced *work)
{
    const struct eplb_quick *quick = &work->quick;
    int32_t leader = 0;
    int32_t begin = 0;
    for (int32_t i = 0; i < quick->num_split; i++) {
        if (work->split[i].weight != work->split[leader].weight)
            leader = i;
        if (leader == i)
            work->cursor[i] = begin;
        begin += quick->replicas[work->split[i].expert] - 1;
        work->group[work->split[i].expert] = leader;
    }
    const int32_t num_copies = quick->shape->num_slots - quick->shape->num_experts;
    EPLB_ASSERT(begin == num_copies);
    for (int32_t i = 0; i < num_copies; i++) {
        const int32_t group = work->group[quick->chosen[i]];
        work->copies[work->cursor[group]++] =
            (struct eplb_weighed){.weight = work->split[group].weight, .expert = quick->chosen[i]};
    }
}

/** Primaries by share, ties to the lowest id; copies by share, after primaries with the same. */
static bool pack(struct balanced *work)
{
    const struct eplb_quick *quick = &work->quick;
    const struct eplb_weighed *copy = work->copies;
    const struct eplb_weighed *const end = copy + (quick->shape->num_slots - quick->shape->num_experts);
    for (int32_t i = 0; i < quick->shape->num_experts; i++) {
        const struct eplb_weighed primary = work->primaries[i];
        for (; copy < end && copy->weight > primary.weight; copy++)
            if (!eplb_lpt_add_replica(&work->lpt, copy->expert, copy->weight))
                return false;
        if (quick->replicas[primary.expert] == 1)
            eplb_lpt_add_only(&work->lpt, primary.expert, primary.weight);
        else if (!eplb_lpt_add_replica(&work->lpt, primary.expert, primary.weight))
            return false;
    }
    for (; copy < end; copy++)
        if (!eplb_lpt_add_replica(&work->lpt, copy->expert, copy->weight))
            return false;
    return true;
}

static enum eplb_status plan_layer(const struct eplb_policy_problem *problem, void *scratch,
                                   struct eplb_policy_answer *answer, struct eplb_error *error)
{
    const struct eplb_shape *shape = problem->shape;
    struct balanced work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, scratch_size(shape, problem->settings));
    layout(&work, &arena, shape);
    EPLB_ASSERT(!arena.overflow);
    if (!eplb_quick_fits(problem->load, shape->num_experts) ||
        !eplb_quick_copies(&work.quick, EPLB_QUICK_LARGEST_DROP, problem->load))
        return eplb_plain_balanced.plan_layer(problem, scratch, answer, error);

    sort_split(&work);
    sort_copies(&work);
    eplb_quick_primaries(&work.quick, work.split, EPLB_SHARE_BITS, work.primaries);
    eplb_lpt_reset(&work.lpt, work.packed);
    if (!pack(&work))
        eplb_cyclic_place(shape, problem->load, work.quick.replicas, work.fallback, work.packed);
    eplb_keep_slots(shape, problem->active, work.packed, work.cursor, answer->expert_ids);
    return EPLB_OK;
}

const struct eplb_policy_ops eplb_policy_balanced = {
    .size = sizeof(struct eplb_policy_ops),
    .name = "balanced",
    .scratch_size = scratch_size,
    .plan_layer = plan_layer,
};
