/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `minmax`: as good as an exhaustive search where there is one, close to the bound elsewhere, legal
 * everywhere, and still where nothing is to be gained.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/tables.h"
#include "trace/workload.h"
#include "unit/policy/plan.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { NUM_LAYERS = 58, TOKENS = 1000000 };

static int32_t active[PLAN_MAX_SLOTS];
static int32_t candidate[PLAN_MAX_SLOTS];
static int64_t load[PLAN_MAX_EXPERTS];

static void start(struct eplb_prng *prng, uint64_t seed)
{
    printf("seed %" PRIu64 "\n", seed);
    eplb_prng_seed(prng, seed);
}

static void assert_legal(const struct eplb_shape *shape, const int32_t *expert_ids)
{
    struct eplb_error error;
    if (eplb_placement_check(shape, expert_ids, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static int32_t moved(const struct eplb_shape *shape, const int32_t *from, const int32_t *to)
{
    int32_t count = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        count += from[slot] != to[slot];
    return count;
}

/* ---- the optimum ---- */

/** Published programs reach 232 and 205; 590 / 3 is the optimum of the even split. */
static void the_published_example_gets_its_optimum(void **state)
{
    (void)state;
    static const int64_t published[8] = {600, 560, 120, 120, 20, 10, 10, 10};
    struct eplb_shape shape = tables_shape(8, 8, 1);
    plan_initial("minmax", &shape, published, candidate);
    assert_legal(&shape, candidate);
    double peak = plan_peak(&shape, candidate, published);
    assert_true(peak > 590.0 / 3 - 1e-6 && peak < 590.0 / 3 + 1e-6);
}

/** Best peaks of CASES B01 and B03, over all numbers of copies. */
static void small_cases_get_the_best_peak_known(void **state)
{
    (void)state;
    static const struct {
        int64_t load[12];
        int32_t experts;
        double peak;
    } cases[] = {
        {{20, 40, 5, 80, 5, 20, 80, 40}, 8, 220.0 / 3},
        {{40, 56, 45, 24, 7, 7, 23, 7}, 8, 53.5},
        {{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86}, 12, 259.5},
        {{20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27}, 12, 290.5},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct eplb_shape shape = tables_shape(cases[i].experts, 4, 1);
        plan_initial("minmax", &shape, cases[i].load, candidate);
        assert_legal(&shape, candidate);
        assert_true(plan_peak(&shape, candidate, cases[i].load) < cases[i].peak + 1e-6);
    }
}

enum { MAX_RANKS = 3, MAX_EXPERTS = 6, MAX_SETS = 64 };

/** All ways to fill three ranks or fewer with sets of experts. */
struct exhaustive {
    const struct eplb_shape *shape;
    uint32_t sets[MAX_SETS]; /* of slots_per_rank experts */
    int32_t num_sets;
    uint32_t chosen[MAX_RANKS];
    double best;
};

static void list_sets(struct exhaustive *all, const struct eplb_shape *shape)
{
    *all = (struct exhaustive){.shape = shape, .best = 1e30};
    for (uint32_t set = 0; set < (uint32_t)1 << shape->num_experts; set++)
        if (__builtin_popcount(set) == shape->slots_per_rank)
            all->sets[all->num_sets++] = set;
}

static double peak_of(const struct exhaustive *all)
{
    double sums[MAX_RANKS] = {0};
    double peak = 0;
    for (int32_t expert = 0; expert < all->shape->num_experts; expert++) {
        uint32_t copies = 0;
        for (int32_t rank = 0; rank < all->shape->ep_size; rank++)
            copies += all->chosen[rank] >> expert & 1;
        if (copies == 0)
            return 1e30;
        double share = (double)load[expert] / copies;
        for (int32_t rank = 0; rank < all->shape->ep_size; rank++)
            sums[rank] += all->chosen[rank] >> expert & 1 ? share : 0;
    }
    for (int32_t rank = 0; rank < all->shape->ep_size; rank++)
        peak = sums[rank] > peak ? sums[rank] : peak;
    return peak;
}

/** Ranks are alike, so sets are tried in one order only. */
static void try_all(struct exhaustive *all, int32_t rank, int32_t first)
{
    if (rank == all->shape->ep_size) {
        double peak = peak_of(all);
        all->best = peak < all->best ? peak : all->best;
        return;
    }
    for (int32_t set = first; set < all->num_sets; set++) {
        all->chosen[rank] = all->sets[set];
        try_all(all, rank + 1, set);
    }
}

static void small_plans_are_near_the_exhaustive_optimum(void **state)
{
    (void)state;
    enum { CASES = 10000 };
    static const int32_t forms[][2] = {{2, 2}, {4, 2}, {6, 2}, {3, 3}, {6, 3}, {1, 1}, {5, 1}};
    struct eplb_prng prng;
    double sum = 0;
    start(&prng, 7001);
    for (int i = 0; i < CASES; i++) {
        const int32_t *form = forms[eplb_prng_below(&prng, COUNT(forms))];
        int32_t primaries = form[0] / form[1];
        int32_t redundant = (int32_t)eplb_prng_below(&prng, (uint64_t)(form[0] - primaries + 1));
        struct eplb_shape shape = tables_shape(form[0], form[1], redundant);
        struct exhaustive all;
        plan_random_load(&prng, &shape, 1000, load);
        list_sets(&all, &shape);
        try_all(&all, 0, 0);
        plan_initial("minmax", &shape, load, candidate);
        assert_legal(&shape, candidate);
        double ratio = plan_peak(&shape, candidate, load) / all.best;
        if (ratio > 1.1)
            fail_msg("case %d: %d experts, %d ranks, %d redundant: %.4f of the optimum", i, form[0], form[1],
                     redundant, ratio);
        sum += ratio;
    }
    printf("mean of peak / optimum: %.6f\n", sum / CASES);
    assert_true(sum / CASES <= 1.01);
}

/* ---- the bound ---- */

static void large_plans_are_close_to_the_bound(void **state)
{
    (void)state;
    static const struct {
        int32_t experts, ranks;
        enum eplb_status (*make)(struct eplb_prng *prng, int32_t num_experts, double spread, int64_t tokens,
                                 int64_t *load, struct eplb_error *error);
        double spread, limit;
    } cases[] = {
        {256, 32, eplb_workload_lognormal, 1.0, 1.0005}, {256, 32, eplb_workload_zipf, 1.1, 1.0005},
        {256, 64, eplb_workload_lognormal, 1.0, 1.001},  {256, 64, eplb_workload_zipf, 1.1, 1.001},
        {128, 32, eplb_workload_lognormal, 1.0, 1.0012}, {128, 32, eplb_workload_zipf, 1.1, 1.0012},
        {384, 128, eplb_workload_lognormal, 1.0, 1.005},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct eplb_shape shape = tables_shape(cases[i].experts, cases[i].ranks, 1);
        struct eplb_prng prng;
        struct eplb_error error;
        int32_t scratch[PLAN_MAX_EXPERTS];
        double sum = 0;
        start(&prng, 1);
        for (int layer = 0; layer < NUM_LAYERS; layer++) {
            assert_int_equal(cases[i].make(&prng, shape.num_experts, cases[i].spread, TOKENS, load, &error),
                             EPLB_OK);
            plan_initial("minmax", &shape, load, candidate);
            assert_legal(&shape, candidate);
            struct eplb_balance balance = eplb_balance_of(&shape, candidate, load, scratch);
            sum += balance.peak / balance.lower_bound;
        }
        printf("%d experts, %d ranks: peak / bound %.6f\n", shape.num_experts, shape.ep_size,
               sum / NUM_LAYERS);
        assert_true(sum / NUM_LAYERS <= cases[i].limit);
    }
}

/* ---- moves ---- */

static void drift_is_followed_with_few_moves(void **state)
{
    (void)state;
    enum { STEPS = 20 };
    struct eplb_shape shape = tables_shape(256, 32, 1);
    struct eplb_prng prng;
    struct eplb_error error;
    int32_t scratch[PLAN_MAX_EXPERTS];
    int64_t moves = 0;
    start(&prng, 1);
    for (int layer = 0; layer < NUM_LAYERS; layer++) {
        assert_int_equal(eplb_workload_lognormal(&prng, shape.num_experts, 1.0, TOKENS, load, &error),
                         EPLB_OK);
        plan_initial("minmax", &shape, load, active);
        for (int step = 0; step < STEPS; step++) {
            assert_int_equal(eplb_workload_drift(&prng, shape.num_experts, 0.1, load, &error), EPLB_OK);
            plan_once("minmax", &shape, load, active, candidate);
            struct eplb_balance balance = eplb_balance_of(&shape, candidate, load, scratch);
            assert_true(balance.peak / balance.mean <= 1.01);
            moves += moved(&shape, active, candidate);
            memcpy(active, candidate, sizeof active);
        }
    }
    double per_rank = (double)moves / (NUM_LAYERS * STEPS * shape.ep_size);
    printf("moved slots per rank, layer and step: %.4f\n", per_rank);
    assert_true(per_rank <= 1.0);
}

static void the_same_load_moves_nothing(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 7002);
    for (int i = 0; i < 200; i++) {
        static const int32_t forms[][3] = {{8, 4, 1}, {12, 4, 2}, {64, 8, 1}, {64, 16, 2}, {8, 2, 0}};
        const int32_t *form = forms[eplb_prng_below(&prng, COUNT(forms))];
        struct eplb_shape shape = tables_shape(form[0], form[1], form[2]);
        plan_random_load(&prng, &shape, EPLB_MAX_LOAD, load);
        plan_initial("minmax", &shape, load, active);
        plan_once("minmax", &shape, load, active, candidate);
        assert_int_equal(moved(&shape, active, candidate), 0);
    }
}

/** CASES B15: what a small change asks for is refused by the gate, and nothing moves. */
static void small_changes_move_nothing(void **state)
{
    (void)state;
    int64_t l2[12] = {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};
    int32_t scratch[12];
    struct eplb_shape shape = tables_shape(12, 4, 1);
    plan_initial("minmax", &shape, l2, active);
    for (int i = 0; i < 20; i++) {
        int64_t before = l2[(5 + i) % 12];
        l2[(5 + i) % 12] += i % 2 == 0 ? 2 : -1;
        plan_once("minmax", &shape, l2, active, candidate);
        assert_int_equal(eplb_gate(&shape, active, candidate, l2, NULL, 0.05, scratch).publish, 0);
        l2[(5 + i) % 12] = before;
    }
}

/* ---- every load ---- */

static void random_plans_are_legal_and_no_worse(void **state)
{
    (void)state;
    static const int32_t forms[][4] = {
        {8, 2, 0, 1000}, {8, 2, 1, 1500}, {8, 4, 1, 1500}, {12, 4, 1, 1500}, {12, 3, 2, 800},
        {6, 2, 3, 400},  {6, 3, 4, 800},  {9, 3, 4, 800},  {12, 3, 6, 700},  {10, 5, 6, 400},
        {4, 4, 2, 400},  {64, 8, 1, 100}, {64, 16, 2, 50}, {72, 8, 1, 40},   {256, 32, 1, 10},
    };
    struct eplb_prng prng;
    int plans = 0;
    start(&prng, 7003);
    for (size_t i = 0; i < COUNT(forms); i++) {
        struct eplb_shape shape = tables_shape(forms[i][0], forms[i][1], forms[i][2]);
        eplb_placement_initial(&shape, active);
        for (int32_t k = 0; k < forms[i][3]; k++, plans++) {
            plan_random_load(&prng, &shape, EPLB_MAX_LOAD, load);
            plan_once("minmax", &shape, load, active, candidate);
            assert_legal(&shape, candidate);
            double before = plan_peak(&shape, active, load);
            assert_true(plan_peak(&shape, candidate, load) <= before * (1 + 1e-12));
            memcpy(active, candidate, sizeof active);
        }
    }
    assert_int_equal(plans, 10000);
}

static void plan_all_of(const struct eplb_shape *shape, double limit)
{
    plan_initial("minmax", shape, load, candidate);
    assert_legal(shape, candidate);
    int32_t scratch[PLAN_MAX_EXPERTS];
    struct eplb_balance balance = eplb_balance_of(shape, candidate, load, scratch);
    assert_true(balance.peak <= balance.lower_bound * limit);
}

static void degenerate_shapes_and_loads_are_planned(void **state)
{
    (void)state;
    static const int32_t forms[][3] = {{1, 1, 0}, {4, 1, 0},  {8, 8, 0},   {8, 8, 7},  {8, 2, 4},
                                       {2, 2, 1}, {64, 8, 0}, {64, 8, 56}, {64, 32, 1}};
    for (size_t i = 0; i < COUNT(forms); i++) {
        struct eplb_shape shape = tables_shape(forms[i][0], forms[i][1], forms[i][2]);
        int everywhere = shape.slots_per_rank == shape.num_experts;
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            load[expert] = 7;
        plan_all_of(&shape, 1.5);
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            load[expert] = EPLB_MAX_LOAD - expert % 2;
        plan_all_of(&shape, 1.5);
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            load[expert] = expert == shape.num_experts - 1 ? 1000 : 1;
        plan_all_of(&shape, everywhere ? 1 + 1e-9 : 1.3);
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            load[expert] = expert == 0 ? EPLB_MAX_LOAD : 0;
        plan_all_of(&shape, everywhere || shape.redundant_experts_num == 0 ? 1 + 1e-9 : 1.5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_example_gets_its_optimum),
        cmocka_unit_test(small_cases_get_the_best_peak_known),
        cmocka_unit_test(small_plans_are_near_the_exhaustive_optimum),
        cmocka_unit_test(large_plans_are_close_to_the_bound),
        cmocka_unit_test(drift_is_followed_with_few_moves),
        cmocka_unit_test(the_same_load_moves_nothing),
        cmocka_unit_test(small_changes_move_nothing),
        cmocka_unit_test(random_plans_are_legal_and_no_worse),
        cmocka_unit_test(degenerate_shapes_and_loads_are_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
