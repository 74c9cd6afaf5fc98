/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The parts of `robust`: constructions that join the ranks, bounds that are bounds, optima that are those
 * of the exact solver, and a forecast that begins at the last shift.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eplb/routing.h"
#include "policy/robust.h"
#include "support/tables.h"
#include "unit/policy/plan.h"

enum { ROOM = 1 << 20 };

static _Alignas(64) unsigned char memory[ROOM];
static _Alignas(64) unsigned char graph_memory[ROOM];
static struct eplb_lanes lanes[PLAN_MAX_EXPERTS];
static int64_t load[PLAN_MAX_EXPERTS];
static int32_t table_ids[PLAN_MAX_SLOTS];

static void start(struct eplb_prng *prng, uint64_t seed)
{
    printf("seed %" PRIu64 "\n", seed);
    eplb_prng_seed(prng, seed);
}

/** Scenarios that have little in common, so that many sets bind. */
static void draw_lanes(struct eplb_prng *prng, int32_t experts)
{
    for (int32_t scenario = 0; scenario < EPLB_ROBUST_SCENARIOS; scenario++) {
        double draws[PLAN_MAX_EXPERTS];
        double sum = 0;
        for (int32_t i = 0; i < experts; i++) {
            draws[i] = eplb_prng_real(prng) * eplb_prng_real(prng) + 0.02;
            sum += draws[i];
        }
        for (int32_t i = 0; i < experts; i++)
            lanes[i].at[scenario] = (float)(int32_t)(draws[i] * (EPLB_ROBUST_TOTAL / sum));
    }
}

static double exact_peak(const struct eplb_shape *shape, const int32_t *expert_ids, int32_t scenario)
{
    struct eplb_best_split split;
    assert_true(eplb_split_graph_size(shape) <= ROOM);
    for (int32_t i = 0; i < shape->num_experts; i++)
        load[i] = (int64_t)lanes[i].at[scenario];
    eplb_best_split(shape, expert_ids, load, graph_memory, NULL, NULL, &split);
    return split.peak;
}

/** Every scenario's optimum of the search is that of the exact solver, but for the tolerance. */
static void check_optimum(const struct eplb_shape *shape, const struct eplb_search *search)
{
    for (int32_t i = 0; i < EPLB_ROBUST_SCENARIOS; i++) {
        double exact = exact_peak(shape, search->table.expert_ids, i);
        double level = (double)search->optimum.level.at[i];
        if (level > exact * (1 + 2e-7) || level < exact * (1 - 3e-6))
            fail_msg("scenario %d: %.9g, exact %.9g", i, level, exact);
    }
}

static const struct {
    int32_t experts, ranks, redundant;
    int runs;
} mix[] = {{8, 4, 1, 60}, {32, 16, 1, 30}, {32, 16, 2, 10}, {16, 8, 0, 10}, {12, 4, 3, 20}, {132, 66, 1, 3}};

enum { SHAPES = sizeof mix / sizeof *mix };

static void optima_are_those_of_the_exact_solver(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 20240621);
    for (size_t i = 0; i < SHAPES; i++)
        for (int run = 0; run < mix[i].runs; run++) {
            struct eplb_shape shape = tables_shape(mix[i].experts, mix[i].ranks, mix[i].redundant);
            struct eplb_arena arena;
            struct eplb_search search;
            struct eplb_table table;
            eplb_arena_init(&arena, memory, ROOM);
            eplb_table_layout(&table, &arena, &shape);
            eplb_search_layout(&search, &arena, &shape);
            assert_false(arena.overflow);
            tables_random(&prng, &shape, table_ids);
            draw_lanes(&prng, shape.num_experts);
            eplb_table_set(&table, table_ids);
            eplb_search_start(&search, &table, &table, lanes, 1000);
            check_optimum(&shape, &search);
            double before = search.optimum.sum;
            eplb_search_run(&search, 160);
            check_optimum(&shape, &search);
            assert_true(search.optimum.sum + 1000 * search.moved <= before);
            assert_int_equal(eplb_placement_check(&shape, search.table.expert_ids, NULL), EPLB_OK);
        }
}

/** What the pool shows of a changed table before it changes is never above that table's optimum. */
static void a_preview_is_a_lower_bound(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 20240622);
    struct eplb_shape shape = tables_shape(32, 16, 1);
    int close = 0;
    for (int run = 0; run < 200; run++) {
        struct eplb_arena arena;
        struct eplb_search search;
        struct eplb_table table;
        struct eplb_table other;
        eplb_arena_init(&arena, memory, ROOM);
        eplb_table_layout(&table, &arena, &shape);
        eplb_table_layout(&other, &arena, &shape);
        eplb_search_layout(&search, &arena, &shape);
        tables_random(&prng, &shape, table_ids);
        draw_lanes(&prng, shape.num_experts);
        eplb_table_set(&table, table_ids);
        eplb_search_start(&search, &table, &table, lanes, 0);
        do /* a legal swap */
            tables_stir(&prng, &shape, table_ids, 1);
        while (!eplb_placement_sets_differ(&shape, table.expert_ids, table_ids));
        eplb_table_set(&other, table_ids);
        struct eplb_cut_change changes[2] = {{.expert = -1}, {.expert = -1}};
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            if (*eplb_table_holders(&table, expert) != *eplb_table_holders(&other, expert))
                changes[changes[0].expert >= 0] = (struct eplb_cut_change){
                    expert, eplb_table_holders(&table, expert), eplb_table_holders(&other, expert)};
        double exact = 0;
        for (int32_t i = 0; i < EPLB_ROBUST_SCENARIOS; i++)
            exact += exact_peak(&shape, table_ids, i);
        double bound = eplb_cuts_preview(&search.cuts, lanes, changes);
        assert_true(bound <= exact * (1 + 2e-7));
        close += bound > 0.95 * exact;
    }
    assert_true(close >= 150);
}

static void constructions_join_all_ranks(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 20240623);
    for (size_t i = 0; i < SHAPES; i++) {
        struct eplb_shape shape = tables_shape(mix[i].experts, mix[i].ranks, mix[i].redundant);
        struct eplb_arena arena;
        struct eplb_spread spread;
        struct eplb_table table;
        struct eplb_best_split split;
        double rates[PLAN_MAX_EXPERTS];
        eplb_arena_init(&arena, memory, ROOM);
        eplb_spread_layout(&spread, &arena, &shape);
        eplb_table_layout(&table, &arena, &shape);
        for (uint64_t run = 0; run < 50; run++) {
            double sum = 0;
            for (int32_t e = 0; e < shape.num_experts; e++)
                sum += rates[e] = eplb_prng_real(&prng) + 0.1;
            for (int32_t e = 0; e < shape.num_experts; e++) {
                rates[e] *= shape.ep_size / sum;
                load[e] = (int64_t)(rates[e] * 1e6);
            }
            eplb_spread_construct(&spread, rates, run, &table);
            assert_int_equal(eplb_placement_check(&shape, table.expert_ids, NULL), EPLB_OK);
            eplb_best_split(&shape, table.expert_ids, load, graph_memory, NULL, NULL, &split);
            assert_int_equal(split.num_components, shape.redundant_experts_num > 0 ? 1 : shape.ep_size);
        }
    }
}

static int32_t count_held(const struct eplb_table *table, const struct eplb_table *active)
{
    int32_t held = 0;
    for (int32_t slot = 0; slot < table->num_ranks * table->slots_per_rank; slot++)
        held += eplb_table_holds(active, slot / table->slots_per_rank, table->expert_ids[slot]);
    return held;
}

/** The more staying is worth, the more stays; and it is legal however much that is. */
static void a_construction_stays_near(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 20240624);
    for (size_t i = 0; i < SHAPES; i++) {
        struct eplb_shape shape = tables_shape(mix[i].experts, mix[i].ranks, mix[i].redundant);
        struct eplb_arena arena;
        struct eplb_spread spread;
        struct eplb_table active;
        struct eplb_table table;
        double rates[PLAN_MAX_EXPERTS];
        int32_t held[3] = {0};
        eplb_arena_init(&arena, memory, ROOM);
        eplb_spread_layout(&spread, &arena, &shape);
        eplb_table_layout(&active, &arena, &shape);
        eplb_table_layout(&table, &arena, &shape);
        for (uint64_t run = 0; run < 50; run++) {
            for (int32_t e = 0; e < shape.num_experts; e++)
                rates[e] = (eplb_prng_real(&prng) + 0.1) * shape.ep_size / (0.6 * shape.num_experts);
            tables_random(&prng, &shape, table_ids);
            eplb_table_set(&active, table_ids);
            for (int j = 0; j < 3; j++) {
                eplb_spread_construct_near(&spread, rates, run, &active, 0.5 * j, &table);
                assert_int_equal(eplb_placement_check(&shape, table.expert_ids, NULL), EPLB_OK);
                held[j] += count_held(&table, &active);
            }
        }
        printf("%d experts, %d ranks: %d, %d, %d slots stay\n", shape.num_experts, shape.ep_size, held[0],
               held[1], held[2]);
        assert_true(held[1] > held[0] && held[2] > held[1]);
    }
}

/** With a price that nothing is worth, a search from another table goes back where it can. */
static void moved_slots_are_taken_back(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 20240625);
    struct eplb_shape shape = tables_shape(32, 16, 1);
    for (int run = 0; run < 20; run++) {
        struct eplb_arena arena;
        struct eplb_search search;
        struct eplb_table active;
        struct eplb_table table;
        eplb_arena_init(&arena, memory, ROOM);
        eplb_table_layout(&active, &arena, &shape);
        eplb_table_layout(&table, &arena, &shape);
        eplb_search_layout(&search, &arena, &shape);
        tables_random(&prng, &shape, table_ids);
        draw_lanes(&prng, shape.num_experts);
        eplb_table_set(&active, table_ids);
        tables_stir(&prng, &shape, table_ids, 3);
        eplb_table_set(&table, table_ids);
        eplb_search_start(&search, &table, &active, lanes, 1e9);
        eplb_search_run(&search, 400);
        assert_int_equal(search.moved, 0);
    }
}

static void history_begins_at_the_last_shift(void **state)
{
    (void)state;
    /* Two windows of one traffic, a shift, two of another; total variation 0.4 at the shift, 0.05 else. */
    static const int64_t rows[4][4] = {{5000, 3000, 1000, 1000},
                                       {5500, 2500, 1000, 1000},
                                       {1500, 3500, 2500, 2500},
                                       {1000, 4000, 2500, 2500}};
    struct eplb_shape shape = tables_shape(4, 2, 1);
    struct eplb_arena arena;
    struct eplb_forecast forecast;
    eplb_arena_init(&arena, memory, ROOM);
    eplb_forecast_layout(&forecast, &arena, &shape);
    struct eplb_policy_problem problem = {
        .shape = &shape, .load = rows[3], .history = rows[0], .num_history = 3};
    eplb_forecast_make(&forecast, &problem);
    assert_int_equal(forecast.windows, 2);
    assert_true(forecast.past[0] == 0.15 && forecast.now[0] == 0.1);
    assert_true(forecast.mean[0] > 0.2 && forecast.mean[0] < 0.3);
    problem.load = rows[1];
    problem.num_history = 1;
    eplb_forecast_make(&forecast, &problem);
    assert_int_equal(forecast.windows, 2);
    problem.num_history = 0;
    eplb_forecast_make(&forecast, &problem);
    assert_int_equal(forecast.windows, 1);
    assert_true(forecast.past[0] == forecast.now[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optima_are_those_of_the_exact_solver),
        cmocka_unit_test(a_preview_is_a_lower_bound),
        cmocka_unit_test(constructions_join_all_ranks),
        cmocka_unit_test(a_construction_stays_near),
        cmocka_unit_test(moved_slots_are_taken_back),
        cmocka_unit_test(history_begins_at_the_last_shift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
