/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The same loads give the same bytes: in run after run, in every thread and every process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/tables.h"
#include "unit/policy/plan.h"

enum { LAYERS = 6, EXPERTS = 12, SLOTS = 16, RUNS = 200, WORKERS = 4 };

static const int64_t l2[EXPERTS] = {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};
static const char *const kinds[] = {"balanced", "greedy"};

/** Everything that a run decides. */
struct result {
    int32_t tables[LAYERS][SLOTS];
    struct eplb_benefit benefits[LAYERS];
};

static int64_t logical[LAYERS][EXPERTS];
static int64_t physical[LAYERS][SLOTS];
static struct result expected[2];

/** A planner of its own, one run. Returns 0, or -1 when it fails: threads and children cannot assert. */
static int run_once(const char *kind, struct result *result)
{
    struct eplb_planner_params params;
    struct eplb_planner *planner;
    eplb_planner_params_init(&params);
    params.ops = eplb_policy_find(kind).ops;
    if (eplb_shape_init(&params.shape, LAYERS, EXPERTS, 4, 1, NULL) != EPLB_OK ||
        eplb_planner_create(&params, &planner, NULL) != EPLB_OK)
        return -1;
    int failed = eplb_planner_rebalance(planner, *logical, *physical, NULL) != EPLB_OK;
    memset(result, 0, sizeof *result);
    memcpy(result->tables, eplb_planner_candidates(planner), sizeof result->tables);
    memcpy(result->benefits, eplb_planner_benefits(planner), sizeof result->benefits);
    eplb_planner_destroy(planner);
    return failed ? -1 : 0;
}

/** How many of RUNS runs of each policy give something else than expected. */
static intptr_t count_differences(void)
{
    intptr_t differences = 0;
    for (int run = 0; run < RUNS; run++)
        for (size_t i = 0; i < 2; i++) {
            struct result result;
            differences +=
                run_once(kinds[i], &result) != 0 || memcmp(&result, &expected[i], sizeof result) != 0;
        }
    return differences;
}

static int set_up(void **state)
{
    (void)state;
    struct eplb_prng prng;
    struct eplb_shape shape = tables_shape(EXPERTS, 4, 1);
    int32_t initial[SLOTS];
    int32_t scratch[EXPERTS];
    const uint64_t seed = 20240604;
    printf("seed %" PRIu64 "\n", seed);
    eplb_prng_seed(&prng, seed);
    eplb_placement_initial(&shape, initial);
    for (int layer = 0; layer < LAYERS; layer++) {
        plan_random_load(&prng, &shape, EPLB_MAX_LOAD, logical[layer]);
        /* A load of the reports first, then ties only, then random ones. */
        for (int expert = 0; expert < EXPERTS && layer < 2; expert++)
            logical[layer][expert] = layer == 0 ? l2[expert] : 5;
        eplb_split_evenly(&shape, initial, logical[layer], scratch, physical[layer]);
    }
    return run_once("balanced", &expected[0]) + run_once("greedy", &expected[1]);
}

static void run_after_run(void **state)
{
    (void)state;
    static const int32_t of_l2[SLOTS] = {9, 1, 11, 3, 2, 8, 7, 0, 6, 5, 8, 10, 5, 6, 7, 4};
    assert_memory_equal(expected[0].tables[0], of_l2, sizeof of_l2);
    assert_int_equal(count_differences(), 0);
}

static void *work(void *unused)
{
    (void)unused;
    return (void *)count_differences();
}

static void in_every_thread(void **state)
{
    (void)state;
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < WORKERS; i++) {
        void *differences = NULL;
        assert_int_equal(pthread_join(threads[i], &differences), 0);
        assert_null(differences);
    }
}

static void in_every_process(void **state)
{
    (void)state;
    pid_t children[WORKERS];
    fflush(NULL);
    for (int i = 0; i < WORKERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            _exit(count_differences() == 0 ? 0 : 1);
    }
    for (int i = 0; i < WORKERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_after_run),
        cmocka_unit_test(in_every_thread),
        cmocka_unit_test(in_every_process),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
