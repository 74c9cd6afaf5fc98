/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Notes of a run of one layer with four experts on two ranks, whose statistics are the real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "cli/run_notes.h"

enum { RANKS = 2, PER_RANK = 2, EXPERTS = 4 };

static const int32_t initial[EXPERTS] = {0, 1, 2, 3};

struct bench {
    struct eplb_statistics_params params;
    struct eplb_statistics_keeper *keeper;
    struct eplb_run_notes *notes;
    struct eplb_manager_status manager;
};

static void open_bench(struct bench *bench)
{
    struct eplb_arena arena;
    *bench = (struct bench){.params = {.window_forwards = 1, .initial = initial}};
    assert_int_equal(eplb_shape_init(&bench->params.shape, 1, EXPERTS, RANKS, 0, NULL), EPLB_OK);
    eplb_arena_init(&arena, NULL, 0);
    (void)eplb_statistics_take(&arena, &bench->params);
    assert_non_null(eplb_arena_reserve(&arena));
    bench->keeper = eplb_statistics_take(&arena, &bench->params);
    eplb_statistics_init(bench->keeper, &bench->params);
    assert_int_equal(eplb_run_notes_create(&bench->params.shape, &bench->notes, NULL), EPLB_OK);
    assert_int_equal(bench->notes->watched_layer, EPLB_NO_LAYER);
}

static void close_bench(struct bench *bench)
{
    eplb_run_notes_destroy(bench->notes);
    eplb_arena_free(bench->keeper);
}

/** A forward, which is a window, with these tokens in the slots of a table. */
static void forward(struct bench *bench, const int32_t *table, const int64_t counts[EXPERTS])
{
    int64_t prefix[RANKS][PER_RANK];
    struct eplb_worker_output outputs[RANKS];
    struct eplb_result results[RANKS] = {{.samples = NULL}, {.samples = NULL}};
    for (int32_t rank = 0; rank < RANKS; rank++) {
        prefix[rank][0] = counts[rank * PER_RANK];
        prefix[rank][1] = counts[rank * PER_RANK] + counts[rank * PER_RANK + 1];
        outputs[rank] = (struct eplb_worker_output){.size = sizeof outputs[rank],
                                                    .ep_rank = rank,
                                                    .num_layers = 1,
                                                    .slots_per_rank = PER_RANK,
                                                    .prefix = prefix[rank]};
    }
    eplb_statistics_add(bench->keeper, outputs, results, table, 1000);
    struct eplb_run_progress progress = {.manager = &bench->manager, .keeper = bench->keeper};
    eplb_statistics_read(bench->keeper, &progress.statistics);
    progress.step = progress.statistics.forwards;
    eplb_run_notes_take(bench->notes, &progress);
}

static void a_window_is_noted_when_it_closes(void **state)
{
    (void)state;
    static const int32_t swapped[EXPERTS] = {0, 2, 1, 3};
    struct bench bench;
    open_bench(&bench);
    forward(&bench, initial, (const int64_t[]){30, 30, 10, 10});
    bench.manager.layers_committed = 1;
    forward(&bench, swapped, (const int64_t[]){25, 20, 30, 5});
    const struct eplb_run_notes *notes = bench.notes;
    assert_int_equal(notes->num_windows, 2);
    assert_int_equal(notes->watched_layer, 0);
    assert_int_equal(notes->windows[0].end, 1);
    assert_true(notes->windows[0].balance.mean == 1.5 && notes->windows[0].initial.mean == 1.5);
    assert_int_equal(notes->windows[0].hottest, 0);
    assert_true(notes->windows[0].hottest_share == 0.375);
    assert_int_equal(notes->windows[0].switched, 0);
    assert_int_equal(notes->windows[1].end, 2);
    assert_true(notes->windows[1].balance.mean == 1.125 && notes->windows[1].initial.mean == 1.375);
    assert_int_equal(notes->windows[1].hottest, 1);
    assert_int_equal(notes->windows[1].switched, 1);
    assert_int_equal(notes->loads_layer, 0);
    assert_true(notes->measured[0] == 45 && notes->measured[1] == 35);
    assert_true(notes->initial[0] == 55 && notes->initial[1] == 25);
    close_bench(&bench);
}

static void the_first_window_and_the_last_ones_are_kept(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    for (int32_t i = 0; i < EPLB_RUN_WINDOWS + 5; i++)
        forward(&bench, initial, (const int64_t[]){1, 1, 1, 1});
    assert_int_equal(bench.notes->num_windows, EPLB_RUN_WINDOWS);
    assert_int_equal(bench.notes->left_out, 5);
    assert_int_equal(bench.notes->windows[0].end, 1);
    for (int32_t i = 1; i < EPLB_RUN_WINDOWS; i++)
        assert_int_equal(bench.notes->windows[i].end, i + 6);
    close_bench(&bench);
}

static void a_layer_is_prepared_once(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    static const int64_t none[EXPERTS];
    bench.manager.prepare_token.value = 5;
    forward(&bench, initial, none);
    assert_int_equal(bench.notes->layers_prepared, 0);
    bench.manager.ready = 1;
    forward(&bench, initial, none);
    forward(&bench, initial, none);
    assert_int_equal(bench.notes->layers_prepared, 1);
    bench.manager.prepare_token.value = 6;
    forward(&bench, initial, none);
    bench.manager.ready = 0;
    forward(&bench, initial, none);
    assert_int_equal(bench.notes->layers_prepared, 2);
    assert_int_equal(bench.notes->loads_layer, EPLB_NO_LAYER);
    close_bench(&bench);
}

/* Of every run of the policy, also of one that publishes nothing, and only when it has ended. */
static void runs_of_the_policy_are_noted(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    static const struct {
        uint64_t runs, published;
        int running;
    } steps[] = {{0, 0, 0}, {1, 0, 1}, {1, 3, 0}, {1, 3, 0}, {2, 3, 1}, {2, 3, 0}, {3, 5, 0}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        bench.manager.policy_runs = steps[i].runs;
        bench.manager.layers_published = steps[i].published;
        bench.manager.policy_running = steps[i].running;
        forward(&bench, initial, (const int64_t[]){1, 1, 1, 1});
    }
    assert_int_equal(bench.notes->num_policy_runs, 3);
    assert_int_equal(bench.notes->published[0], 3);
    assert_int_equal(bench.notes->published[1], 0);
    assert_int_equal(bench.notes->published[2], 2);
    close_bench(&bench);
}

static void outcomes_are_added_up(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    struct eplb_outcome outcome = {.layer = 0, .mean = 8, .predicted = 10, .even = 12, .measured = 16};
    for (uint64_t i = 0; i < EPLB_RUN_OUTCOMES + 2; i++) {
        outcome.generation = i + 1;
        eplb_run_notes_take_outcome(bench.notes, &outcome);
    }
    const struct eplb_run_notes *notes = bench.notes;
    assert_int_equal(notes->num_outcomes, EPLB_RUN_OUTCOMES);
    assert_int_equal(notes->outcomes_left_out, 2);
    assert_int_equal(notes->outcomes[EPLB_RUN_OUTCOMES - 1].generation, EPLB_RUN_OUTCOMES);
    const double switches = EPLB_RUN_OUTCOMES + 2;
    assert_true(notes->promises[0].switches == EPLB_RUN_OUTCOMES + 2);
    assert_true(notes->promises[0].predicted == 1.25 * switches);
    assert_true(notes->promises[0].even == 1.5 * switches);
    assert_true(notes->promises[0].measured == 2 * switches);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_noted_when_it_closes),
        cmocka_unit_test(the_first_window_and_the_last_ones_are_kept),
        cmocka_unit_test(a_layer_is_prepared_once),
        cmocka_unit_test(runs_of_the_policy_are_noted),
        cmocka_unit_test(outcomes_are_added_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
