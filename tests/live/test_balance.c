/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * What balancing is for: the busiest rank has less to do than under the placement that the run began
 * with, and than without balancing. And at the shortest interval no layer is left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "live/stage.h"

/* ---- balance ---- */

enum { BALANCE_LAYERS = 4 };

/** A run, and the logical loads of its last window as far as they are told. */
struct run {
    struct eplb_run_outcome outcome;
    int32_t hottest[BALANCE_LAYERS];
    double share[BALANCE_LAYERS];
    struct stage *stage;
    void (*progress)(void *context, const struct eplb_run_progress *progress);
};

static void look_at_loads(void *context, const struct eplb_run_progress *progress)
{
    struct run *run = context;
    run->progress(run->stage, progress);
    for (int32_t layer = 0; layer < BALANCE_LAYERS; layer++)
        run->hottest[layer] = eplb_statistics_hottest(progress->keeper, layer, &run->share[layer]);
}

static struct run run_once(const struct shm_place *place, bool eplb)
{
    struct run run = {.stage = stage_open(place, "balance", 4)};
    struct eplb_run_params *params = &run.stage->params;
    params->skew_period = 0;
    params->steps = 200;
    run.progress = params->progress;
    params->context = &run;
    params->progress = look_at_loads;
    if (!eplb)
        stage_turn_off(run.stage);
    stage_run_well(run.stage);
    run.outcome = run.stage->outcome;
    stage_close(run.stage);
    return run;
}

/** What the experts are asked for does not depend on where they are: counts are read through the tables that
 * they were taken under. */
static void check_same_loads(const struct run *with, const struct run *without)
{
    for (int32_t layer = 0; layer < BALANCE_LAYERS; layer++) {
        assert_int_equal(with->hottest[layer], without->hottest[layer]);
        assert_true(with->share[layer] == without->share[layer]);
    }
}

static void test_balance(void **state)
{
    (void)state;
    struct shm_place place;
    shm_place_open(&place);
    struct run run_with = run_once(&place, true);
    struct run run_without = run_once(&place, false);
    struct eplb_run_outcome with = run_with.outcome;
    struct eplb_run_outcome without = run_without.outcome;
    const struct eplb_statistics *statistics = &with.statistics;
    check_same_loads(&run_with, &run_without);
    print_message("peak / mean: %.3f in the last window, %.3f of it under the initial placement, %.3f "
                  "without; critical path %lld tokens, %lld without, at best %lld; %.1f ms, %.1f without\n",
                  statistics->last_window.mean, statistics->last_window_initial.mean,
                  without.statistics.last_window.mean, (long long)statistics->critical_path_tokens,
                  (long long)without.statistics.critical_path_tokens, (long long)statistics->mean_path_tokens,
                  (double)statistics->critical_path_ns / 1e6,
                  (double)without.statistics.critical_path_ns / 1e6);
    /* Where half of the load is on one rank of four, an even split is a half of that. */
    assert_true(statistics->last_window_initial.mean > 1.6);
    assert_true(statistics->last_window.mean < 1.25);
    assert_true(statistics->critical_path_tokens < without.statistics.critical_path_tokens * 3 / 4);
    assert_int_equal(statistics->mean_path_tokens, without.statistics.mean_path_tokens);
    assert_true(statistics->critical_path_ns > 0 && without.statistics.critical_path_ns > 0);
    assert_int_equal(statistics->tokens, without.statistics.tokens);
    assert_true(without.bytes_moved == 0 && with.bytes_moved > 0);
    shm_place_close(&place);
}

/* ---- no layer is starved ---- */

enum { LAYERS = 10, FORWARDS = SANITIZED ? 300 : 1000 };

/** What came of each layer, as the log tells. */
struct tally {
    struct eplb_log_sink sink;
    atomic_int published[LAYERS];
    atomic_int committed[LAYERS];
};

static int64_t layer_of(const struct eplb_log_record *record)
{
    for (size_t i = 0; i < record->num_fields; i++)
        if (strcmp(record->fields[i].key, "layer") == 0)
            return record->fields[i].value.integer;
    return -1;
}

static bool says(const struct eplb_log_record *record, const char *key, const char *text)
{
    for (size_t i = 0; i < record->num_fields; i++)
        if (strcmp(record->fields[i].key, key) == 0)
            return strcmp(record->fields[i].value.text, text) == 0;
    return false;
}

static void take_line(void *context, const struct eplb_log_record *record)
{
    struct tally *tally = context;
    int64_t layer = layer_of(record);
    if (layer < 0 || layer >= LAYERS)
        return;
    tally->published[layer] +=
        strcmp(record->prefix, "EPLB placement benefit") == 0 && says(record, "verdict", "publish");
    tally->committed[layer] += strcmp(record->prefix, "EPLB layer committed") == 0;
}

static void check_tally(struct tally *tally)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        print_message("layer %d: published %d times, switched %d times\n", layer, tally->published[layer],
                      tally->committed[layer]);
        /* What was published is switched, but for what was under way at the end. */
        assert_in_range(tally->published[layer] - tally->committed[layer], 0, 1);
        assert_true(tally->committed[layer] >= 3);
    }
}

static void test_every_forward(void **state)
{
    (void)state;
    struct shm_place place;
    struct tally *tally = calloc(1, sizeof *tally);
    assert_non_null(tally);
    tally->sink = (struct eplb_log_sink){.size = sizeof tally->sink, .context = tally, .write = take_line};
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "interval", 4);
    stage_reshape(stage, LAYERS, 32, 1);
    stage->params.update_interval_steps = 1;
    stage->params.steps = FORWARDS;
    stage->params.overlap = 1;
    stage->params.log = &tally->sink;
    print_message("%d forwards\n", FORWARDS);
    stage_run_well(stage);
    const struct eplb_manager_status *manager = &stage->outcome.manager;
    print_message("%llu rounds, %llu runs of the policy\n", (unsigned long long)manager->rounds,
                  (unsigned long long)manager->policy_runs);
    check_tally(tally);
    assert_int_equal(manager->layers_aborted, 0);
    assert_int_equal(manager->samples_refused + manager->samples_lacking, 0);
    assert_int_equal(manager->samples_taken, FORWARDS);
    assert_true(manager->policy_runs <= FORWARDS);
    stage_close(stage);
    shm_place_close(&place);
    free(tally);
}

int main(int argc, char **argv)
{
    stage_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balance),
        cmocka_unit_test(test_every_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
