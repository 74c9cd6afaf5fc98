/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Engines that are killed and interrupted; instances side by side. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "eplb/clock.h"
#include "live/act.h"

#define MS INT64_C(1000000)

/* From the engine's death to that of its last worker. */
#define BOUND_NS ((SANITIZED ? 5000 : 1000) * MS)
#define LIFE_NS ((SANITIZED ? 800 : 80) * MS)

enum {
    KILLS = SANITIZED ? 8 : 20,
    FULL_INTERRUPTS = 100,
    INTERRUPTS = SANITIZED ? 20 : FULL_INTERRUPTS,
    RANKS = 2,
    SEED = 20240522,
};

static int64_t now(void)
{
    return eplb_clock_system()->now(NULL);
}

/** An engine that serves until it is interrupted. */
static struct stage *open_endless(const struct shm_place *place, const char *instance)
{
    struct stage *stage = stage_open(place, instance, RANKS);
    stage->params.steps = 0;
    stage->params.update_interval_steps = 2;
    return stage;
}

/* ---- kills ---- */

/** Stops one worker in every third run: only the kernel can end that one. Returns its pid, or 0. */
static int64_t stop_one(const int64_t *pids, int count, int run)
{
    if (count == 0 || run % 3 != 0)
        return 0;
    assert_int_equal(kill((pid_t)pids[0], SIGSTOP), 0);
    return pids[0];
}

static int64_t kill_engine(struct child *engine, int run, int *stopped)
{
    int64_t pids[STAGE_MAX_WORKERS];
    /* It starts no worker more while it is looked at. */
    assert_int_equal(kill(engine->pid, SIGSTOP), 0);
    int count = stage_children(engine->pid, pids);
    *stopped += stop_one(pids, count, run) != 0;
    child_kill(engine);
    int64_t killed_at = now();
    assert_int_equal(children_next(engine, 1, killed_at + BOUND_NS), 0);
    assert_int_equal(WTERMSIG(engine->status), SIGKILL);
    for (int i = 0; i < count; i++)
        assert_true(act_await_orphan(pids[i], killed_at + BOUND_NS));
    return now() - killed_at;
}

static void kill_again_and_again(const struct shm_place *place)
{
    struct eplb_prng prng;
    int stopped = 0;
    int64_t longest_ns = 0;
    eplb_prng_seed(&prng, SEED);
    print_message("seed %d\n", SEED);
    for (int run = 0; run < KILLS; run++) {
        struct stage *stage = open_endless(place, "killed");
        struct child engine;
        act_start_engine(&engine, stage);
        if (run % 2 == 0)
            act_await_forwards(stage, 1);
        stage_linger((int64_t)eplb_prng_below(&prng, LIFE_NS));
        int64_t ns = kill_engine(&engine, run, &stopped);
        longest_ns = ns > longest_ns ? ns : longest_ns;
        /* Of the neighbour and of one engine: each start replaces what the one before has left. */
        assert_true(shm_place_count(place) <= 2 * (RANKS + 1));
        stage_close(stage);
    }
    print_message("%d engines killed, %d with a stopped worker; their workers were gone within %" PRId64
                  " ms\n",
                  KILLS, stopped, longest_ns / MS);
    assert_true(stopped > 0);
}

static void test_kills(void **state)
{
    (void)state;
    struct shm_place place;
    struct child neighbour;
    shm_place_open(&place);
    struct stage *beside = open_endless(&place, "neighbour");
    act_start_engine(&neighbour, beside);
    act_await_forwards(beside, 1);
    kill_again_and_again(&place);
    act_await_forwards(beside, beside->forwards + 100);
    assert_int_equal(kill(neighbour.pid, SIGTERM), 0);
    act_await_exit(&neighbour, 128 + SIGTERM);
    assert_true(beside->outcome.manager.layers_committed > 0);
    assert_int_equal(beside->outcome.manager.layers_aborted, 0);
    stage_close(beside);
    /* What the last engine left is replaced by the next. */
    struct stage *next = stage_open(&place, "killed", RANKS);
    next->params.steps = 20;
    stage_run_well(next);
    stage_close(next);
    shm_place_close(&place);
}

/* ---- interruptions ---- */

static void check_outcome(const struct stage *stage, uint64_t forwards, int signal)
{
    const struct eplb_run_outcome *outcome = &stage->outcome;
    assert_int_equal(outcome->interrupted, signal);
    assert_int_equal(outcome->lost_rank, EPLB_NO_RANK);
    assert_true(outcome->statistics.forwards >= forwards);
    assert_true((outcome->statistics.tokens > 0) == (outcome->statistics.forwards > 0));
    assert_true((outcome->wall_ns > 0) == (outcome->statistics.forwards > 0));
    assert_true(outcome->manager.rounds == 0 || outcome->manager.policy_runs > 0);
}

/** The engine alone, or with it its workers, as a terminal does. Returns whether it was at work. */
static bool interrupt_one(struct eplb_prng *prng, struct stage *stage, int run)
{
    struct child engine;
    int signal = run % 5 == 4 ? SIGTERM : SIGINT;
    bool all = run % 2 == 1;
    act_start_engine(&engine, stage);
    if (run % 4 != 0)
        act_await_forwards(stage, 1);
    else if (all)
        assert_true(stage_await_worker(engine.pid, 0, now() + 10 * BOUND_NS) > 0);
    stage_linger((int64_t)eplb_prng_below(prng, LIFE_NS));
    uint64_t forwards = stage->forwards;
    assert_int_equal(kill(all ? -engine.pid : engine.pid, signal), 0);
    act_await_exit(&engine, 128 + signal);
    check_outcome(stage, forwards, signal);
    stage_check_nothing_is_left(stage);
    return forwards > 0;
}

static void test_interrupts(void **state)
{
    (void)state;
    struct shm_place place;
    struct eplb_prng prng;
    int at_work = 0;
    shm_place_open(&place);
    eplb_prng_seed(&prng, SEED);
    print_message("seed %d, %d interrupts%s\n", SEED, INTERRUPTS,
                  INTERRUPTS < FULL_INTERRUPTS ? " of 100: a sanitizer makes starts slow" : "");
    for (int run = 0; run < INTERRUPTS; run++) {
        struct stage *stage = open_endless(&place, "interrupts");
        stage->params.overlap = run / 2 % 2;
        at_work += interrupt_one(&prng, stage, run);
        stage_close(stage);
    }
    print_message("%d of them at work\n", at_work);
    assert_true(at_work >= INTERRUPTS / 2);
    shm_place_close(&place);
}

/* Nobody waits for workers that are still making their models. */
static void test_an_interrupted_start(void **state)
{
    (void)state;
    struct shm_place place;
    struct child engine;
    shm_place_open(&place);
    struct stage *stage = open_endless(&place, "start");
    stage->params.worker_command = STAGE_WAITS;
    stage->params.transfer_timeout_seconds = 1;
    act_start_engine(&engine, stage);
    for (int32_t rank = 0; rank < RANKS; rank++)
        assert_true(stage_await_worker(engine.pid, rank, now() + 10 * BOUND_NS) > 0);
    act_await_note(stage, "EPLB warning | message=rank 0,1 is not ready after 2.");
    int64_t begin = now();
    assert_int_equal(kill(engine.pid, SIGINT), 0);
    act_await_exit(&engine, 128 + SIGINT);
    print_message("ended after %" PRId64 " ms\n", (now() - begin) / MS);
    assert_true(now() - begin < BOUND_NS);
    check_outcome(stage, 0, SIGINT);
    assert_int_equal(stage->outcome.statistics.forwards, 0);
    stage_check_nothing_is_left(stage);
    stage_close(stage);
    shm_place_close(&place);
}

/* ---- one name ---- */

static void test_a_name_in_use(void **state)
{
    (void)state;
    struct shm_place place;
    struct child engine;
    shm_place_open(&place);
    struct stage *first = open_endless(&place, "twins");
    act_start_engine(&engine, first);
    act_await_forwards(first, 1);
    struct stage *second = stage_open(&place, "twins", RANKS);
    assert_int_equal(stage_run(second), EPLB_IN_USE);
    print_message("%s\n", second->error.text);
    assert_non_null(strstr(second->error.text, "twins"));
    stage_close(second);
    act_await_forwards(first, first->forwards + 100);
    assert_int_equal(kill(engine.pid, SIGINT), 0);
    act_await_exit(&engine, 128 + SIGINT);
    stage_check_nothing_is_left(first);
    stage_close(first);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    stage_main(argc, argv);
    /* Workers whose engine was killed become the test's. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kills),
        cmocka_unit_test(test_interrupts),
        cmocka_unit_test(test_an_interrupted_start),
        cmocka_unit_test(test_a_name_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
