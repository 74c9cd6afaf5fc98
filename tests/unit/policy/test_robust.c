/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `robust`: legal, deterministic, sticky, and better on the window that comes.
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
#include "support/tables.h"
#include "unit/policy/plan.h"

enum { WINDOWS = 6, PARTS = 8 };

/* There are no threads here: ThreadSanitizer would only make it slow. */
#if defined(__SANITIZE_THREAD__)
enum { SHARE_OF_PLANS = 20 };
#else
enum { SHARE_OF_PLANS = 1 };
#endif

static int32_t active[PLAN_MAX_SLOTS];
static int32_t plan[PLAN_MAX_SLOTS];
static int32_t weights[PLAN_MAX_SLOTS];
static int64_t windows[WINDOWS][PLAN_MAX_EXPERTS];
static int64_t parts[PARTS * PLAN_MAX_EXPERTS];

static void start(struct eplb_prng *prng, uint64_t seed)
{
    printf("seed %" PRIu64 "\n", seed);
    eplb_prng_seed(prng, seed);
}

/** Plans with exactly the scratch that is asked for, full of `rubbish`, a guard behind it. */
static void run_policy(const char *kind, struct eplb_policy_problem *problem, int rubbish, int32_t *table)
{
    const struct eplb_policy_ops *ops = eplb_policy_find(kind).ops;
    struct eplb_policy_settings settings;
    eplb_policy_settings_init(&settings);
    problem->size = sizeof *problem;
    problem->settings = &settings;
    size_t bytes = ops->scratch_size(problem->shape, &settings);
    size_t room = (bytes + 127) / 64 * 64;
    unsigned char *scratch = aligned_alloc(64, room);
    assert_non_null(scratch);
    memset(scratch, rubbish, room);
    struct eplb_error error = {0};
    struct eplb_policy_answer answer = {.size = sizeof answer, .expert_ids = table, .weights = weights};
    assert_int_equal(ops->plan_layer(problem, scratch, &answer, &error), EPLB_OK);
    for (size_t i = bytes; i < room; i++)
        assert_int_equal(scratch[i], rubbish);
    free(scratch);
    if (strcmp(kind, "robust") != 0)
        return;
    int32_t sums[PLAN_MAX_EXPERTS];
    assert_int_equal(answer.has_weights, 1);
    if (eplb_placement_check(problem->shape, table, &error) != EPLB_OK ||
        eplb_weights_check(problem->shape, table, weights, sums, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static double best_peak(const struct eplb_shape *shape, const int32_t *table, const int64_t *load)
{
    void *scratch = aligned_alloc(64, (eplb_split_graph_size(shape) + 63) / 64 * 64);
    struct eplb_best_split split;
    assert_non_null(scratch);
    eplb_best_split(shape, table, load, scratch, NULL, NULL, &split);
    free(scratch);
    return split.peak / split.mean;
}

static int32_t count_moved(const struct eplb_shape *shape, const int32_t *before, const int32_t *after)
{
    int32_t count = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        count += before[slot] != after[slot];
    return count;
}

/* ---- legality ---- */

static const struct {
    int32_t experts, ranks, redundant;
    int plans;
} mix[] = {
    {4, 1, 0, 400},  {8, 2, 0, 1200}, {8, 2, 1, 1800}, {6, 2, 3, 1900}, {8, 4, 1, 1000}, {12, 4, 1, 500},
    {9, 3, 4, 1400}, {12, 3, 6, 830}, {10, 5, 6, 200}, {4, 4, 2, 600},  {4, 4, 3, 100},  {16, 8, 0, 60},
    {64, 8, 1, 4},   {64, 16, 2, 3},  {130, 65, 1, 1}, {256, 32, 1, 2},
};

static void plans_are_legal(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 20240611);
    uint64_t digest = 0;
    int plans = 0;
    for (size_t i = 0; i < sizeof mix / sizeof *mix; i++) {
        struct eplb_shape shape = tables_shape(mix[i].experts, mix[i].ranks, mix[i].redundant);
        size_t experts = (size_t)shape.num_experts;
        for (int run = 0; run < mix[i].plans; run += SHARE_OF_PLANS, plans++) {
            int64_t *history = parts + 4 * experts;
            plan_random_load(&prng, &shape, EPLB_MAX_LOAD, windows[0]);
            for (size_t row = 0; row < 7; row++)
                plan_random_load(&prng, &shape, EPLB_MAX_LOAD, parts + row * experts);
            if (run % 3 == 0) /* a window that nothing came in */
                memset(history, 0, experts * sizeof *history);
            tables_random(&prng, &shape, active);
            struct eplb_policy_problem problem = {.shape = &shape, .load = windows[0], .active = active};
            problem.num_history = (int32_t)eplb_prng_below(&prng, 4);
            problem.num_parts = (int32_t)eplb_prng_below(&prng, 5);
            problem.history = problem.num_history > 0 ? history : NULL;
            problem.parts = problem.num_parts > 0 ? parts : NULL;
            run_policy("robust", &problem, 0xa5, plan);
            digest = digest * UINT64_C(0x9e3779b97f4a7c15) + eplb_placement_hash(&shape, plan);
        }
    }
    printf("%d plans, digest %016" PRIx64 "\n", plans, digest);
    if (SHARE_OF_PLANS > 1)
        return;
    assert_int_equal(plans, 10000);
    assert_true(digest == UINT64_C(0xc02c3a337b7baa5c));
}

/* ---- drift ---- */

/** Windows of one traffic: rates that wander a little, counts with chance, the last one in parts. */
static void draw_windows(struct eplb_prng *prng, int32_t experts)
{
    double rates[PLAN_MAX_EXPERTS];
    double sum;
    memset(windows, 0, sizeof windows);
    memset(parts, 0, sizeof parts);
    for (int32_t i = 0; i < experts; i++)
        rates[i] = 0.1 + 4 * eplb_prng_real(prng) * eplb_prng_real(prng) * eplb_prng_real(prng);
    for (int window = 0; window < WINDOWS; window++)
        for (int part = 0; part < PARTS; part++) {
            sum = 0;
            for (int32_t i = 0; i < experts; i++)
                sum += rates[i] *= 0.88 + 0.24 * eplb_prng_real(prng);
            for (int token = 0; token < 600; token++) {
                double at = eplb_prng_real(prng) * sum;
                int32_t expert = 0;
                while (expert + 1 < experts && at >= rates[expert])
                    at -= rates[expert++];
                windows[window][expert]++;
                if (window == WINDOWS - 2)
                    parts[part * experts + expert]++;
            }
        }
}

/** The problem at the last window but one. */
static struct eplb_policy_problem problem_of(const struct eplb_shape *shape, int64_t *history)
{
    size_t experts = (size_t)shape->num_experts;
    for (size_t i = 0; i < WINDOWS - 2; i++)
        memcpy(history + i * experts, windows[i], experts * sizeof *history);
    return (struct eplb_policy_problem){.shape = shape,
                                        .load = windows[WINDOWS - 2],
                                        .active = active,
                                        .history = history,
                                        .num_history = WINDOWS - 2,
                                        .parts = parts,
                                        .num_parts = PARTS};
}

static void the_next_window_is_balanced(void **state)
{
    (void)state;
    static const struct {
        int32_t experts, ranks, redundant;
        double most, of_balanced; /* mean excess, at most, and as part of that of balanced */
    } cases[] = {
        {32, 8, 1, 0.01, 0.5}, {32, 16, 1, 0.03, 0.5}, {64, 16, 1, 0.01, 0.3}, {32, 16, 2, 0.002, 0.5}};
    static int64_t history[WINDOWS * PLAN_MAX_EXPERTS];
    struct eplb_prng prng;
    start(&prng, 20240612);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eplb_shape shape = tables_shape(cases[i].experts, cases[i].ranks, cases[i].redundant);
        double robust = 0;
        double balanced = 0;
        for (int run = 0; run < 20; run++) {
            draw_windows(&prng, shape.num_experts);
            eplb_placement_initial(&shape, active);
            struct eplb_policy_problem problem = problem_of(&shape, history);
            run_policy("robust", &problem, 0xa5, plan);
            robust += (best_peak(&shape, plan, windows[WINDOWS - 1]) - 1) / 20;
            run_policy("balanced", &problem, 0xa5, plan);
            balanced += (best_peak(&shape, plan, windows[WINDOWS - 1]) - 1) / 20;
        }
        printf("%d experts, %d ranks, %d redundant: %.5f, balanced %.5f\n", cases[i].experts, cases[i].ranks,
               cases[i].redundant, robust, balanced);
        assert_true(robust <= cases[i].most);
        assert_true(robust <= cases[i].of_balanced * balanced);
    }
}

static void the_same_load_moves_nothing(void **state)
{
    (void)state;
    static int64_t history[WINDOWS * PLAN_MAX_EXPERTS];
    struct eplb_prng prng;
    struct eplb_shape shape = tables_shape(32, 16, 1);
    start(&prng, 20240613);
    for (int run = 0; run < 20; run++) {
        draw_windows(&prng, shape.num_experts);
        eplb_placement_initial(&shape, active);
        struct eplb_policy_problem problem = problem_of(&shape, history);
        run_policy("robust", &problem, 0xa5, plan);
        memcpy(active, plan, sizeof active);
        run_policy("robust", &problem, 0xa5, plan);
        assert_int_equal(count_moved(&shape, active, plan), 0);
    }
}

/** After a shift fewer slots move than for a plan from nothing, and the balance is nearly that one's. */
static void a_shift_moves_what_pays(void **state)
{
    (void)state;
    static int32_t fresh[PLAN_MAX_SLOTS];
    static int64_t history[WINDOWS * PLAN_MAX_EXPERTS];
    struct eplb_prng prng;
    struct eplb_shape shape = tables_shape(64, 16, 1);
    double loss = 0;
    int32_t moved = 0;
    start(&prng, 20240615);
    eplb_placement_initial(&shape, active);
    for (int run = 0; run < 10; run++) {
        draw_windows(&prng, shape.num_experts);
        struct eplb_policy_problem problem = problem_of(&shape, history);
        run_policy("robust", &problem, 0xa5, plan);
        if (run > 0) {
            int32_t unplanned[PLAN_MAX_SLOTS];
            eplb_placement_initial(&shape, unplanned);
            problem.active = unplanned;
            run_policy("robust", &problem, 0xa5, fresh);
            loss += (best_peak(&shape, plan, windows[WINDOWS - 1]) -
                     best_peak(&shape, fresh, windows[WINDOWS - 1])) /
                    9;
            moved += count_moved(&shape, active, plan);
        }
        memcpy(active, plan, sizeof active);
    }
    printf("%.2f slots per rank move, balance %.4f worse\n", moved / 9.0 / shape.ep_size, loss);
    assert_true(moved / 9.0 / shape.ep_size < 1.2);
    assert_true(loss < 0.02);
}

static void the_same_problem_gives_the_same_answer(void **state)
{
    (void)state;
    static int64_t history[WINDOWS * PLAN_MAX_EXPERTS];
    static int32_t again[PLAN_MAX_SLOTS];
    static int32_t first_weights[PLAN_MAX_SLOTS];
    struct eplb_prng prng;
    struct eplb_shape shape = tables_shape(64, 16, 1);
    size_t bytes = (size_t)shape.num_slots * sizeof *plan;
    start(&prng, 20240614);
    for (int run = 0; run < 5; run++) {
        draw_windows(&prng, shape.num_experts);
        tables_random(&prng, &shape, active);
        struct eplb_policy_problem problem = problem_of(&shape, history);
        run_policy("robust", &problem, 0xa5, plan);
        memcpy(first_weights, weights, bytes);
        run_policy("robust", &problem, 0xff, again);
        assert_memory_equal(plan, again, bytes);
        assert_memory_equal(first_weights, weights, bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_legal),
        cmocka_unit_test(the_next_window_is_balanced),
        cmocka_unit_test(the_same_load_moves_nothing),
        cmocka_unit_test(a_shift_moves_what_pays),
        cmocka_unit_test(the_same_problem_gives_the_same_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
