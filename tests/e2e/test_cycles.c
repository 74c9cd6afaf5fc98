/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Thousands of activations: nothing is allocated, nothing grows, and nothing needs memory after the start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/director.h"
#include "e2e/engine.h"
#include "support/allocations.h"
#include "support/notes.h"
#include "support/process.h"

/* ---- B60 ---- */

/* A sanitizer is slow, and what grows would be seen in fewer. */
enum { CYCLES = SANITIZED ? 2000 : 10000, LAYERS = 2, SLOTS = 4 };

/** Activates what was prepared, or has it aborted, and prepares the other layer with the same command. */
static void cycle(struct director *director, bool commit)
{
    static const int32_t tables[2][SLOTS] = {{0, 1, 2, 3}, {0, 3, 2, 1}};
    const struct eplb_group *engine = team_engine_group(director->team);
    int32_t next = (director->prepared_layer + 1) % LAYERS;
    bool swapped = director_table(director, next)[1] != 1;
    director_activate(director);
    struct eplb_activation_token token = director->command.activation_token;
    if (!commit)
        engine->record_abort(engine->self, token);
    director_prepare(director, next, tables[!swapped]);
    assert_int_equal(director_outcome(director, director_forward(director)),
                     commit ? EPLB_ACTIVATION_SWITCHED : EPLB_ACTIVATION_KEPT);
    assert_int_equal(director_await_prepared(director), EPLB_PREPARE_OK);
}

static void run_cycles(bool commit)
{
    struct director director;
    struct team_params params;
    team_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.shape, LAYERS, SLOTS, 2, 0, NULL), EPLB_OK);
    params.matrix_bytes = 29;
    params.chunk_bytes = 20;
    params.inflight_bytes = 40;
    params.tokens = 6;
    director_init(&director, team_create(&params));
    director_prepare(&director, 0, (const int32_t[]){0, 3, 2, 1});
    assert_int_equal(director_await_prepared(&director), EPLB_PREPARE_OK);
    for (int32_t i = 0; i < 100; i++)
        cycle(&director, commit);

    size_t threads = process_threads();
    size_t files = process_files();
    int64_t resident = process_resident_bytes();
    size_t allocations = allocations_counted();
    for (int32_t i = 0; i < CYCLES; i++)
        cycle(&director, commit);
    assert_int_equal(allocations_counted() - allocations, 0);
    assert_int_equal(process_threads(), threads);
    assert_int_equal(process_files(), files);
    /* A sanitizer keeps notes of its own. */
    assert_true(SANITIZED || process_resident_bytes() - resident < 256 * 1024);
    for (int32_t rank = 0; rank < 2; rank++)
        assert_int_equal(standin_commits(team_model(director.team, rank)), commit ? CYCLES + 100 : 0);
    director_check(&director);
    team_destroy(director.team);
    director_destroy(&director);
}

static void test_plan_and_activate(void **state)
{
    (void)state;
    run_cycles(true);
}

static void test_plan_and_abort(void **state)
{
    (void)state;
    run_cycles(false);
}

/* A counter that counts nothing would make the tests pass. */
static void test_the_counter_counts(void **state)
{
    (void)state;
    struct team_params params;
    team_params_init(&params);
    size_t before = allocations_counted();
    team_destroy(team_create(&params));
    assert_true(allocations_counted() > before);
}

/* ---- B58 ---- */

static bool has_committed_a_hundred(const struct eplb_manager_status *status)
{
    return status->layers_committed >= 100;
}

static void test_no_memory_after_the_start(void **state)
{
    (void)state;
    static struct notes notes;
    struct engine_params params;
    engine_params_init(&params);
    notes_init(&notes);
    params.team.log = &notes.sink;
    params.manager.log = &notes.sink;
    struct engine *engine = engine_create(&params);
    struct eplb_weights *weights = standin_weights(team_model(engine_team(engine), 0));
    assert_int_equal(notes_count(&notes, "EPLB staging reservation warmed"), params.team.shape.ep_size);
    assert_true(notes_sum(&notes, "EPLB staging reservation warmed | rank=0", "bytes") ==
                (double)eplb_weights_staging_bytes(weights));
    assert_true(notes_sum(&notes, "EPLB staging reservation warmed | rank=0", "tensors") ==
                STANDIN_PER_EXPERT);

    allocations_reset(1);
    engine_run_until(engine, has_committed_a_hundred, "done with a hundred layers");
    assert_int_equal(allocations_counted(), 0);
    allocations_reset(0);
    assert_int_equal(engine_status(engine).layers_aborted, 0);
    engine_settle(engine);
    engine_destroy(engine);
    notes_destroy(&notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_counter_counts),
        cmocka_unit_test(test_plan_and_activate),
        cmocka_unit_test(test_plan_and_abort),
        cmocka_unit_test(test_no_memory_after_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
