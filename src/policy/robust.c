/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `robust`: the placement whose best split is best over scenarios of the coming window. What is active is
 * improved, at a price per moved slot, unless it is so bad that the traffic must have changed; then the
 * plan is made anew.
 */
#include "policy/robust.h"

#include <string.h>

#include "base/assert.h"
#include "eplb/routing.h"
#include "policy/keep.h"
#include "policy/policies.h"

enum {
    CANDIDATES = 1200,
    STARTS = 4, /* constructions to choose from */
};

/* Mean optimum / mean rank load of the active placement above which a plan is made anew. */
static const double stale = 1.15;
/* How much of that a move of every redundant slot must bring: what is moved costs a transfer, and a plan
 * that follows every window follows noise. */
static const double price = 0.055;

struct robust {
    struct eplb_forecast forecast;
    struct eplb_spread spread;
    struct eplb_table active;
    struct eplb_table table;
    int32_t *expert_ids; /* [R][K] before slots are kept */
    int32_t *kept;       /* [E] while they are */
    void *split;
    /* The rest only when the shape is searched for. */
    struct eplb_lanes *lanes; /* [E] */
    struct eplb_search search;
    struct eplb_relabel relabel;
};

static bool is_searched(const struct eplb_shape *shape)
{
    return shape->ep_size > 1 && shape->ep_size <= EPLB_ROBUST_MOST_RANKS;
}

static void layout(struct robust *work, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    eplb_forecast_layout(&work->forecast, arena, shape);
    eplb_spread_layout(&work->spread, arena, shape);
    eplb_table_layout(&work->active, arena, shape);
    eplb_table_layout(&work->table, arena, shape);
    work->expert_ids = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *work->expert_ids);
    work->kept = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->kept);
    work->split = eplb_arena_take(arena, 1, eplb_split_graph_size(shape));
    if (!is_searched(shape))
        return;
    work->lanes = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->lanes);
    eplb_search_layout(&work->search, arena, shape);
    eplb_relabel_layout(&work->relabel, arena, shape);
}

static size_t scratch_size(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)settings;
    struct robust work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape);
    return arena.used;
}

static size_t table_bytes(const struct eplb_shape *shape)
{
    return (size_t)shape->num_slots * sizeof(int32_t);
}

/** The best of a few constructions, improved, its ranks named for what they have in common. */
static void plan_anew(struct robust *work)
{
    eplb_search_start(&work->search, &work->table, &work->active, work->lanes, 0);
    for (uint64_t start = 1; start < STARTS; start++) {
        eplb_spread_construct(&work->spread, work->forecast.mean, start, &work->table);
        eplb_search_offer(&work->search, &work->table);
    }
    eplb_search_run(&work->search, CANDIDATES);
    eplb_relabel_ranks(&work->relabel, &work->search.table, &work->active, work->expert_ids);
}

static void plan(struct robust *work, const struct eplb_policy_problem *problem)
{
    const struct eplb_shape *shape = problem->shape;
    eplb_forecast_make(&work->forecast, problem);
    eplb_spread_construct(&work->spread, work->forecast.mean, 0, &work->table);
    memcpy(work->expert_ids, work->table.expert_ids, table_bytes(shape));
    if (!is_searched(shape))
        return;
    eplb_scenarios_draw(&work->forecast, problem, work->lanes);
    double slots =
        (double)shape->ep_size * (shape->redundant_experts_num > 0 ? shape->redundant_experts_num : 1);
    double mean = (double)EPLB_ROBUST_TOTAL / shape->ep_size;
    double slot_price = price / slots * mean * EPLB_ROBUST_SCENARIOS;
    eplb_search_start(&work->search, &work->active, &work->active, work->lanes, slot_price);
    if (eplb_search_balance(&work->search) > stale) {
        plan_anew(work);
    } else {
        eplb_search_run(&work->search, CANDIDATES);
        memcpy(work->expert_ids, work->search.table.expert_ids, table_bytes(shape));
    }
}

static enum eplb_status plan_layer(const struct eplb_policy_problem *problem, void *scratch,
                                   struct eplb_policy_answer *answer, struct eplb_error *error)
{
    const struct eplb_shape *shape = problem->shape;
    (void)error;
    struct robust work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, scratch_size(shape, problem->settings));
    layout(&work, &arena, shape);
    EPLB_ASSERT(!arena.overflow);

    eplb_table_set(&work.active, problem->active);
    plan(&work, problem);
    eplb_keep_slots(shape, problem->active, work.expert_ids, work.kept, answer->expert_ids);
    struct eplb_best_split split;
    eplb_best_split(shape, answer->expert_ids, problem->load, work.split, answer->weights, NULL, &split);
    answer->has_weights = 1;
    return EPLB_OK;
}

const struct eplb_policy_ops eplb_policy_robust = {
    .size = sizeof(struct eplb_policy_ops),
    .name = "robust",
    .scratch_size = scratch_size,
    .plan_layer = plan_layer,
};
