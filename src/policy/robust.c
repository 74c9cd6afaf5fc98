/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `robust`: the placement whose best split is best over scenarios of the coming window. What is active is
 * improved, at a price per moved slot. After a shift it is repaired: from constructions that are more or
 * less near to it, at a lower price. Where nothing was planned yet, the plan is made anew.
 */
#include "policy/robust.h"

#include <string.h>

#include "base/assert.h"
#include "eplb/routing.h"
#include "policy/keep.h"
#include "policy/policies.h"

enum {
    FRESH_STARTS = 4, /* constructions to choose from */
    FRESH_CANDIDATES = 1200,
    KEEP_CANDIDATES = 2400,
    REPAIR_ROUNDS = 4, /* searches, of which the best is taken */
    REPAIR_STARTS = 6, /* constructions that each chooses from */
    REPAIR_JITTERS = 3,
    REPAIR_CANDIDATES = 4800,
    CANDIDATES_PER_PAIR = 4, /* of slots, at most: on few slots more find nothing new */
};

/* Mean optimum / mean rank load above which the active placement is not what the traffic was planned for. */
static const double stale = 1.15;
/* Windows since a shift until which a plan is repaired: what was planned from few is a sketch. */
static const int32_t young = 3;
/* How much of that a move of every rank's redundant slot must bring: what is moved costs a transfer, and a
 * plan that follows every window follows noise; the more so the less of a window lasts. In a repair it is
 * less, because more windows will profit by it: after a shift, and later. */
static const double price = 0.11;
static const double price_after_shift = 0.05;
static const double price_in_repair = 0.085;
/* By how much a slot counts more where ranks have several: noise costs them little, in scenarios too much. */
static const double ample_price = 3;
/* What staying is worth to the constructions of a repair, in mean rank loads: from, to. */
static const double least_bonus = 0.2;
static const double most_bonus = 1.2;

struct robust {
    struct eplb_forecast forecast;
    struct eplb_spread spread;
    struct eplb_table active;
    struct eplb_table table;
    struct eplb_table best; /* of the rounds of a repair */
    int32_t *expert_ids;    /* [R][K] before slots are kept */
    int32_t *kept;          /* [E] while they are */
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
    eplb_table_layout(&work->best, arena, shape);
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

static void search_for(struct eplb_search *search, int32_t candidates)
{
    int64_t slots = (int64_t)search->table.num_ranks * search->table.slots_per_rank;
    int64_t most = CANDIDATES_PER_PAIR * slots * slots;
    eplb_search_run(search, candidates < most ? candidates : (int32_t)most);
}

/** The best of a few constructions, improved, its ranks named for what they have in common. */
static void plan_anew(struct robust *work)
{
    eplb_search_start(&work->search, &work->table, &work->active, work->lanes, 0);
    for (uint64_t start = 1; start < FRESH_STARTS; start++) {
        eplb_spread_construct(&work->spread, work->forecast.mean, start, &work->table);
        eplb_search_offer(&work->search, &work->table);
    }
    search_for(&work->search, FRESH_CANDIDATES);
    eplb_relabel_ranks(&work->relabel, &work->search.table, &work->active, work->expert_ids);
}

/** Searches from the best of the active placement and of constructions near to it; the later the round the
 * nearer. */
static void repair_round(struct robust *work, int32_t round)
{
    const int32_t last = REPAIR_ROUNDS * REPAIR_STARTS - 1;
    for (int32_t start = round * REPAIR_STARTS; start < (round + 1) * REPAIR_STARTS; start++) {
        double bonus = least_bonus + (most_bonus - least_bonus) * start / last;
        eplb_spread_construct_near(&work->spread, work->forecast.mean, (uint64_t)(start % REPAIR_JITTERS),
                                   &work->active, bonus, &work->table);
        eplb_search_offer(&work->search, &work->table);
    }
    search_for(&work->search, REPAIR_CANDIDATES);
}

/** A search, just started, ends where no single move helps; of several that start apart the best is taken. */
static void repair(struct robust *work, double slot_price)
{
    work->search.price = slot_price;
    for (int32_t round = 0; round < REPAIR_ROUNDS && !eplb_search_is_tired(&work->search); round++) {
        if (round > 0)
            eplb_search_start(&work->search, &work->active, &work->active, work->lanes, slot_price);
        repair_round(work, round);
        if (round > 0)
            eplb_search_offer(&work->search, &work->best);
        eplb_table_copy(&work->best, &work->search.table);
    }
}

/** A price for a slot on every rank as one for each moved slot, in units of the search. */
static double slot_price_of(const struct eplb_shape *shape, double of_all)
{
    double mean = (double)EPLB_ROBUST_TOTAL / shape->ep_size;
    double of_one = of_all / shape->ep_size * mean * EPLB_ROBUST_SCENARIOS;
    return shape->redundant_experts_num > 1 ? ample_price * of_one : of_one;
}

/** Improves the active placement, at a price per moved slot. */
static void plan_on(struct robust *work, const struct eplb_shape *shape)
{
    const struct eplb_forecast *forecast = &work->forecast;
    double keep_price = slot_price_of(shape, price / forecast->persistence);
    eplb_search_start(&work->search, &work->active, &work->active, work->lanes, keep_price);
    if (forecast->windows <= young || eplb_search_balance(&work->search) > stale)
        repair(work, slot_price_of(shape, forecast->windows == 1 ? price_after_shift : price_in_repair));
    else
        search_for(&work->search, KEEP_CANDIDATES);
    memcpy(work->expert_ids, work->search.table.expert_ids, table_bytes(shape));
}

/** Whether the active placement is the one that every layer starts with: no traffic was planned for. */
static bool is_unplanned(struct robust *work, const struct eplb_policy_problem *problem)
{
    eplb_placement_initial(problem->shape, work->expert_ids);
    return memcmp(work->expert_ids, problem->active, table_bytes(problem->shape)) == 0;
}

static void plan(struct robust *work, const struct eplb_policy_problem *problem)
{
    const struct eplb_shape *shape = problem->shape;
    eplb_forecast_make(&work->forecast, problem);
    bool unplanned = is_unplanned(work, problem);
    if (!is_searched(shape) && !unplanned)
        eplb_spread_construct_near(&work->spread, work->forecast.mean, 0, &work->active, most_bonus,
                                   &work->table);
    else
        eplb_spread_construct(&work->spread, work->forecast.mean, 0, &work->table);
    if (!is_searched(shape)) {
        memcpy(work->expert_ids, work->table.expert_ids, table_bytes(shape));
        return;
    }
    eplb_scenarios_draw(&work->forecast, problem, work->lanes);
    if (unplanned)
        plan_anew(work);
    else
        plan_on(work, shape);
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
