/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* No rank outlives its engine, however its other threads are blocked. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "board.h"
#include "engine/lifeline.h"
#include "os/futex.h"
#include "support/process.h"

/* -------------------------------------------------------------------------------- own lifeline */

static _Atomic uint32_t own_beats;

static void beat(void *context)
{
    (void)context;
    /* Relaxed: only the number is read. */
    atomic_fetch_add_explicit(&own_beats, 1, memory_order_relaxed);
    eplb_futex_wake(&own_beats);
}

static int lives(void *context)
{
    (void)context;
    return 1;
}

static void end(void *context)
{
    (void)context;
    _exit(1);
}

static enum eplb_status try_to_tie(int64_t beat_interval_ns, struct eplb_lifeline **lifeline,
                                   struct eplb_error *error)
{
    struct eplb_lifeline_params params = {.engine_pid = getpid(),
                                          .beat_interval_ns = beat_interval_ns,
                                          .beat = beat,
                                          .engine_lives = lives,
                                          .orphaned = end};
    atomic_store_explicit(&own_beats, 0, memory_order_relaxed);
    return eplb_lifeline_create(&params, lifeline, error);
}

static struct eplb_lifeline *tie(int64_t beat_interval_ns)
{
    struct eplb_lifeline *lifeline;
    assert_int_equal(try_to_tie(beat_interval_ns, &lifeline, NULL), EPLB_OK);
    return lifeline;
}

static uint32_t await_beats(uint32_t count)
{
    int64_t deadline = board_now() + LONG_NS;
    uint32_t seen;
    while ((seen = atomic_load_explicit(&own_beats, memory_order_relaxed)) < count && board_now() < deadline)
        eplb_futex_wait(&own_beats, seen, deadline);
    return seen;
}

static void it_beats_until_it_is_destroyed(void **state)
{
    (void)state;
    size_t files = process_files();
    size_t threads = process_threads();
    struct eplb_lifeline *lifeline = tie(5 * MS);
    int64_t started_at = board_now();
    assert_true(await_beats(5) >= 5);
    /* The first comes at once, the others an interval apart. */
    assert_in_range(board_now() - started_at, 15 * MS, LONG_NS);
    eplb_lifeline_destroy(lifeline);
    assert_int_equal(process_files(), files);
    board_await_threads(threads);
    eplb_lifeline_destroy(NULL);
}

static void it_ends_at_once(void **state)
{
    (void)state;
    struct eplb_lifeline *lifeline = tie(3600 * SECOND);
    assert_int_equal(await_beats(1), 1);
    int64_t asked_at = board_now();
    eplb_lifeline_destroy(lifeline);
    assert_in_range(board_now() - asked_at, 0, SECOND);
    assert_int_equal(await_beats(1), 1);
}

static void refuse_to_tie(int descriptors, const char *sentence)
{
    struct eplb_lifeline *lifeline = NULL;
    struct eplb_error error;
    struct rlimit before = board_limit_descriptors(descriptors);
    enum eplb_status status = try_to_tie(SECOND, &lifeline, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, EPLB_IO);
    assert_string_equal(error.text, sentence);
    assert_null(lifeline);
}

static void descriptors_may_run_out(void **state)
{
    (void)state;
    size_t files = process_files();
    char sentence[EPLB_ERROR_TEXT];
    refuse_to_tie(0, "a lifeline cannot have a descriptor that wakes it: Too many open files");
    snprintf(sentence, sizeof sentence, "the engine's process %d cannot be watched: Too many open files",
             getpid());
    refuse_to_tie(1, sentence);
    assert_int_equal(process_files(), files);
}

/* --------------------------------------------------------------------------------- other ranks */

static struct eplb_process start_rank(const char *behaviour, int board, int other, int64_t engine)
{
    struct board_program program;
    struct eplb_process process;
    struct eplb_error error;
    board_program_init(&program, behaviour, board, 0, other, engine);
    if (eplb_process_start(&program.params, &process, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return process;
}

static struct eplb_process_end end_of(struct eplb_process *process)
{
    struct eplb_process_end end_seen;
    assert_true(eplb_process_wait(process, board_now() + LONG_NS, &end_seen));
    return end_seen;
}

static void assert_orphaned(struct eplb_process process)
{
    struct eplb_process_end seen = end_of(&process);
    assert_int_equal(seen.signal, 0);
    assert_int_equal(seen.exit_code, BOARD_ORPHAN_CODE);
}

static void an_engine_that_is_gone_at_the_start_is_missed(void **state)
{
    (void)state;
    int descriptor;
    siginfo_t info;
    struct board *board = board_create(&descriptor);
    struct eplb_process engine = start_rank(BOARD_EXIT, descriptor, -1, 0);
    /* Ended, and still to be reaped. */
    assert_int_equal(waitid(P_PID, (id_t)engine.pid, &info, WEXITED | WNOWAIT), 0);
    assert_orphaned(start_rank(BOARD_WAIT, descriptor, -1, engine.pid));
    int64_t pid = engine.pid;
    assert_int_equal(end_of(&engine).exit_code, 3);
    assert_orphaned(start_rank(BOARD_WAIT, descriptor, -1, pid));
    board_destroy(board, descriptor);
    assert_true(board_childless());
}

/** A process has the engine's number, and is not the engine. */
static void a_stranger_with_the_number_is_no_engine(void **state)
{
    (void)state;
    int descriptor;
    struct board *board = board_create(&descriptor);
    assert_orphaned(start_rank(BOARD_STRANGER, descriptor, -1, getpid()));
    board_destroy(board, descriptor);
}

/** The limit is lowered below the descriptors that it waits on: it beats, hears and misses its engine. */
static void a_lowered_limit_cuts_no_line(void **state)
{
    (void)state;
    int descriptor;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    struct eplb_lifeline *lifeline = tie(5 * MS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    uint32_t beats = await_beats(5);
    eplb_lifeline_destroy(lifeline);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(beats >= 5);

    struct board *board = board_create(&descriptor);
    struct eplb_process engine = start_rank(BOARD_WAIT, descriptor, -1, 0);
    struct eplb_process rank = start_rank(BOARD_WAIT, descriptor, -1, engine.pid);
    board_await_ready(board, 2);
    assert_int_equal(prlimit((pid_t)rank.pid, RLIMIT_NOFILE, &none, NULL), 0);
    eplb_process_signal(&engine, SIGKILL);
    assert_orphaned(rank);
    assert_int_equal(end_of(&engine).signal, SIGKILL);
    board_destroy(board, descriptor);
}

/** Nanoseconds until all write ends of the pipe are closed. */
static int64_t await_end_of_pipe(int input)
{
    int64_t begun_at = board_now();
    struct pollfd watched = {.fd = input, .events = POLLIN};
    assert_int_equal(poll(&watched, 1, (int)(LONG_NS / MS)), 1);
    assert_int_equal(watched.revents, POLLHUP);
    return board_now() - begun_at;
}

/** A chain: the first is the engine of the second, the second of the third. All are blocked for ever. */
static void children_and_grandchildren_end_with_the_first(void **state)
{
    (void)state;
    int descriptor;
    int ends[2];
    size_t files = process_files();
    struct board *board = board_create(&descriptor);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    /* So that they can be reaped here. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    struct eplb_process first = start_rank(BOARD_PARENT, descriptor, ends[1], 0);
    close(ends[1]);
    board_await_ready(board, BOARD_GENERATIONS);

    assert_int_equal(kill((pid_t)first.pid, SIGKILL), 0);
    int64_t took = await_end_of_pipe(ends[0]);
    printf("a chain of %d has ended after %d us\n", BOARD_GENERATIONS, (int)(took / 1000));
    assert_in_range(took, 0, SECOND);
    assert_int_equal(end_of(&first).signal, SIGKILL);
    for (int i = 1; i < BOARD_GENERATIONS; i++) {
        int status;
        assert_true(waitpid(-1, &status, 0) > 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), BOARD_ORPHAN_CODE);
    }
    assert_true(board_childless());
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0), 0);
    close(ends[0]);
    board_destroy(board, descriptor);
    assert_int_equal(process_files(), files);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return board_main(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_beats_until_it_is_destroyed),
        cmocka_unit_test(it_ends_at_once),
        cmocka_unit_test(descriptors_may_run_out),
        cmocka_unit_test(an_engine_that_is_gone_at_the_start_is_missed),
        cmocka_unit_test(a_stranger_with_the_number_is_no_engine),
        cmocka_unit_test(a_lowered_limit_cuts_no_line),
        cmocka_unit_test(children_and_grandchildren_end_with_the_first),
    };
    return cmocka_run_group_tests(tests, board_set_up, NULL);
}
