/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A worker that dies, is silent or gives up ends the run soon, with its name, and nothing is left. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "eplb/clock.h"
#include "live/act.h"
#include "live/worker.h"

#define MS INT64_C(1000000)

/* From a death to the end of the run. */
#define BOUND_NS ((SANITIZED ? 5000 : 1000) * MS)

/* Within this, ranks are started and make their models, or come to switch layers. */
#define LIFE_NS ((SANITIZED ? 800 : 120) * MS)

#define SILENCE_NS ((SANITIZED ? 4000 : 1500) * MS)

enum { RUNS = 20, RANKS = 4, SEED = 20240521 };

/** What eplb_run does when the harm is done; returns how long it took from then. */
static int64_t run_with(struct stage *stage, struct harm *harm, enum eplb_status status)
{
    act_begin_harm(harm, stage);
    enum eplb_status got = stage_run(stage);
    int64_t ended_at = eplb_clock_system()->now(NULL);
    act_end_harm(harm);
    assert_true(harm->pid > 0);
    if (got != status)
        fail_msg("status %d: %s", (int)got, stage->error.text);
    assert_int_equal(stage->outcome.lost_rank, harm->rank);
    stage_check_nothing_is_left(stage);
    return ended_at - harm->done_at;
}

static void expect_text(const struct stage *stage, const char *text)
{
    if (strstr(stage->error.text, text) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, stage->error.text);
}

static void run_as_if_nothing_had_been(const struct shm_place *place)
{
    struct stage *stage = stage_open(place, "losses", RANKS);
    stage->params.steps = 20;
    stage_run_well(stage);
    stage_close(stage);
}

static void test_kills(void **state)
{
    (void)state;
    struct shm_place place;
    struct eplb_prng prng;
    int at_work = 0;
    int64_t longest_ns = 0;
    shm_place_open(&place);
    eplb_prng_seed(&prng, SEED);
    print_message("seed %d\n", SEED);
    for (int run = 0; run < RUNS; run++) {
        struct stage *stage = stage_open(&place, "losses", RANKS);
        char text[96];
        struct harm harm = {.rank = (int32_t)eplb_prng_below(&prng, RANKS),
                            .signal = SIGKILL,
                            .delay_ns = (int64_t)eplb_prng_below(&prng, LIFE_NS),
                            .forwards = run % 4 != 0};
        stage->params.steps = 0;
        stage->params.overlap = run % 2;
        stage->params.update_interval_steps = 1;
        int64_t ns = run_with(stage, &harm, EPLB_RANK_DEAD);
        snprintf(text, sizeof text,
                 "rank %d (pid %" PRId64 ") was killed by signal 9 (KILL); %" PRIu64 " forwards and %" PRIu64
                 " tokens were done",
                 (int)harm.rank, harm.pid, stage->outcome.statistics.forwards,
                 stage->outcome.statistics.tokens);
        expect_text(stage, text);
        /* The others have not taken it for a failure of their own. */
        assert_int_equal(stage_worker_lines(stage, WORKER_FAILS), 0);
        at_work += stage->outcome.statistics.forwards > 0;
        longest_ns = ns > longest_ns ? ns : longest_ns;
        assert_true(ns < BOUND_NS);
        stage_close(stage);
    }
    print_message("%d kills, %d of them at work; all was over within %" PRId64 " ms\n", RUNS, at_work,
                  longest_ns / MS);
    assert_true(at_work >= RUNS * 3 / 4);
    run_as_if_nothing_had_been(&place);
    shm_place_close(&place);
}

static void test_silence(void **state)
{
    (void)state;
    struct shm_place place;
    char text[64];
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "losses", RANKS);
    struct harm harm = {.rank = 2, .signal = SIGSTOP, .forwards = 20};
    stage->params.steps = 0;
    stage->params.transfer_timeout_seconds = 1;
    stage->params.silence_timeout_ns = SILENCE_NS;
    int64_t ns = run_with(stage, &harm, EPLB_RANK_SILENT);
    print_message("%s, after %" PRId64 " ms\n", stage->error.text, ns / MS);
    snprintf(text, sizeof text, "rank 2 (pid %" PRId64 ") was silent for ", harm.pid);
    expect_text(stage, text);
    assert_true(ns > SILENCE_NS - 500 * MS && ns < SILENCE_NS + BOUND_NS);
    assert_true(stage->outcome.statistics.forwards >= 20);
    stage_close(stage);
    run_as_if_nothing_had_been(&place);
    shm_place_close(&place);
}

/* ---- workers that give up ---- */

static void test_no_memory(void **state)
{
    (void)state;
    if (SANITIZED) {
        print_message("left out: a sanitizer needs more address space than the test leaves\n");
        skip();
    }
    struct shm_place place;
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "losses", 2);
    stage->params.worker_command = STAGE_LIMITED;
    stage->params.model.vocab_size = 65536;
    stage->params.model.hidden_size = 512;
    assert_int_equal(stage_run(stage), EPLB_INTERNAL);
    expect_text(stage, ") exited with code 1; 0 forwards and 0 tokens were done");
    assert_int_not_equal(stage->outcome.lost_rank, EPLB_NO_RANK);
    stage_check_nothing_is_left(stage);
    stage_close(stage);
    shm_place_close(&place);
}

static void test_a_rank_that_there_is_not(void **state)
{
    (void)state;
    struct shm_place place;
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "losses", 2);
    stage->params.worker_command = STAGE_LOST;
    assert_int_equal(stage_run(stage), EPLB_INVALID);
    expect_text(stage, ") exited with code 2; 0 forwards");
    stage_check_nothing_is_left(stage);
    stage_close(stage);
    shm_place_close(&place);
}

static void test_no_program(void **state)
{
    (void)state;
    struct shm_place place;
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "losses", 2);
    stage->params.worker_path = "/dev/shm/no such program";
    assert_int_equal(stage_run(stage), EPLB_IO);
    expect_text(stage, "/dev/shm/no such program");
    stage_check_nothing_is_left(stage);
    stage_close(stage);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    stage_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kills),      cmocka_unit_test(test_silence),
        cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_a_rank_that_there_is_not),
        cmocka_unit_test(test_no_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
