/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * A worker that lives and beats, but does not say what came of its activation. It is told of, with layer,
 * token, age and rank; nothing is assumed; nobody burns a processor meanwhile; and its late report counts.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "eplb/clock.h"
#include "live/act.h"
#include "live/worker.h"

#define MS INT64_C(1000000)
#define PATIENCE_NS (30000 * MS)
#define IDLE_NS (2000 * MS)

enum { RANKS = 4 };

static int64_t now(void)
{
    return eplb_clock_system()->now(NULL);
}

static void await_worker_line(const struct stage *stage, const char *text)
{
    int64_t deadline = now() + PATIENCE_NS;
    while (stage_worker_lines(stage, text) == 0) {
        if (now() > deadline)
            fail_msg("no worker has logged \"%s\"", text);
        stage_linger(MS);
    }
}

/** CPU time of a process, user and system, in nanoseconds. */
static int64_t cpu_of(int64_t pid)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    assert_true(size > 0);
    text[size] = '\0';
    unsigned long user, system;
    assert_int_equal(sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &system),
                     2);
    return (int64_t)(user + system) * (1000000000 / sysconf(_SC_CLK_TCK));
}

static void check_nobody_is_busy(int64_t engine)
{
    int64_t pids[RANKS + 1] = {engine};
    int64_t before[RANKS + 1];
    for (int32_t rank = 0; rank < RANKS; rank++)
        pids[rank + 1] = stage_worker(engine, rank);
    for (int i = 0; i <= RANKS; i++)
        before[i] = cpu_of(pids[i]);
    stage_linger(IDLE_NS);
    for (int i = 0; i <= RANKS; i++) {
        int64_t used = cpu_of(pids[i]) - before[i];
        print_message("%s %d used %" PRId64 " ms in %" PRId64 " ms\n", i == 0 ? "engine" : "rank", i - 1,
                      used / MS, IDLE_NS / MS);
        /* One tick of the clock that counts it may fall on anybody. */
        assert_true(used <= (SANITIZED ? IDLE_NS / 10 : 20 * MS));
    }
}

static struct stage *open_held(const struct shm_place *place)
{
    struct stage *stage = stage_open(place, "held", RANKS);
    stage->params.steps = 0;
    stage->params.worker_command = STAGE_HOLDS;
    stage->params.transfer_timeout_seconds = 1;
    stage->params.silence_timeout_ns = 10000 * MS;
    return stage;
}

static void test_a_late_report(void **state)
{
    (void)state;
    struct shm_place place;
    struct child engine;
    shm_place_open(&place);
    struct stage *stage = open_held(&place);
    act_start_engine(&engine, stage);
    await_worker_line(stage, WORKER_HOLDS);
    uint64_t forwards = stage->forwards;
    /* Told at twice the transfer timeout. */
    act_await_note(stage, "EPLB warning | message=forward ");
    act_await_note(stage, " s: no output from rank 1; activation_token 2 of layer 0 is not resolved");
    check_nobody_is_busy(engine.pid);
    assert_true(stage->forwards <= forwards + 1);
    assert_null(strstr(stage->notes.text, "EPLB layer committed"));
    stage_release(stage_worker(engine.pid, 1));
    act_await_note(stage, "EPLB layer committed | layer=0 | generation=1");
    act_await_forwards(stage, forwards + 50);
    assert_int_equal(kill(engine.pid, SIGINT), 0);
    act_await_exit(&engine, 128 + SIGINT);
    assert_true(stage->outcome.manager.layers_committed > 1);
    assert_int_equal(stage->outcome.manager.layers_aborted, 0);
    stage_check_nothing_is_left(stage);
    stage_close(stage);
    shm_place_close(&place);
}

/* One that never comes back keeps nobody for ever, once the run shall end. */
static void test_no_report_at_all(void **state)
{
    (void)state;
    struct shm_place place;
    struct child engine;
    shm_place_open(&place);
    struct stage *stage = open_held(&place);
    act_start_engine(&engine, stage);
    await_worker_line(stage, WORKER_HOLDS);
    assert_int_equal(kill(engine.pid, SIGINT), 0);
    int64_t begin = now();
    act_await_exit(&engine, eplb_status_exit_code(EPLB_RANK_SILENT));
    print_message("%s, after %" PRId64 " ms\n", stage->error.text, (now() - begin) / MS);
    assert_int_equal(stage->status, EPLB_RANK_SILENT);
    assert_non_null(strstr(stage->error.text, "s after the interruption, there is no output of forward "));
    assert_non_null(strstr(stage->error.text, " from rank 1; "));
    assert_int_equal(stage->outcome.interrupted, SIGINT);
    assert_int_equal(stage->outcome.manager.layers_committed, 0);
    assert_int_equal(stage->outcome.manager.activating_layer, 0);
    assert_int_equal(stage->outcome.manager.activation_token.value, 2);
    assert_true(stage->outcome.manager.activation_age_ns > 0);
    stage_check_nothing_is_left(stage);
    stage_close(stage);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    stage_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_report),
        cmocka_unit_test(test_no_report_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
