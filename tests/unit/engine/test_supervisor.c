/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The supervisor over real processes: this program, started again as a rank. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "board.h"
#include "engine/supervisor.h"
#include "os/thread.h"
#include "support/process.h"

struct team {
    size_t files, threads; /* before it */
    struct board *board;
    int descriptor;
    struct board_program programs[BOARD_RANKS];
    struct eplb_process_params starts[BOARD_RANKS];
    struct eplb_supervisor_params params;

    struct eplb_mutex lock; /* what follows */
    struct eplb_condition changed;
    struct eplb_supervisor *supervisor;
    struct eplb_rank_life reports[BOARD_RANKS]; /* in the order in which they came */
    int64_t reported_at[BOARD_RANKS];
    int32_t num_reports;
    bool held;    /* the supervisor's thread is kept in its next look */
    bool waiting; /* it is there */
};

static uint64_t beats(void *context, int32_t rank)
{
    struct team *team = context;
    eplb_mutex_lock(&team->lock);
    while (team->held) {
        team->waiting = true;
        eplb_condition_broadcast(&team->changed);
        eplb_condition_wait(&team->changed, &team->lock);
    }
    team->waiting = false;
    eplb_mutex_unlock(&team->lock);
    /* Relaxed: only that it moves is read. */
    return atomic_load_explicit(&team->board->beats[rank], memory_order_relaxed);
}

static void ended(void *context, const struct eplb_rank_life *report)
{
    struct team *team = context;
    eplb_mutex_lock(&team->lock);
    struct eplb_rank_life known = eplb_supervisor_report(team->supervisor, report->rank);
    assert_int_equal(known.fate, report->fate);
    assert_true(team->num_reports < BOARD_RANKS);
    team->reported_at[team->num_reports] = board_now();
    team->reports[team->num_reports++] = *report;
    eplb_mutex_unlock(&team->lock);
    eplb_condition_broadcast(&team->changed);
}

/* -------------------------------------------------------------------------------------- teams */

/** A team that is not started. Every rank waits, and none is silent. */
static void init(struct team *team, int32_t ranks)
{
    *team = (struct team){.files = process_files(), .threads = process_threads()};
    assert_int_equal(eplb_mutex_init(&team->lock, NULL), EPLB_OK);
    assert_int_equal(eplb_condition_init(&team->changed, NULL), EPLB_OK);
    team->board = board_create(&team->descriptor);
    for (int32_t rank = 0; rank < ranks; rank++)
        board_program_init(&team->programs[rank], BOARD_WAIT, team->descriptor, rank, -1, 0);
    team->params = (struct eplb_supervisor_params){.num_ranks = ranks,
                                                   .programs = team->starts,
                                                   .silence_timeout_ns = 2 * LONG_NS,
                                                   .look_interval_ns = 10 * MS,
                                                   .context = team,
                                                   .beats = beats,
                                                   .ended = ended};
}

static void behave(struct team *team, int32_t rank, const char *behaviour)
{
    board_program_init(&team->programs[rank], behaviour, team->descriptor, rank, -1, 0);
}

static enum eplb_status try_start(struct team *team, struct eplb_error *error)
{
    for (int32_t rank = 0; rank < team->params.num_ranks; rank++)
        team->starts[rank] = team->programs[rank].params;
    /* A rank may end before the call returns; `ended` then waits for the handle. */
    eplb_mutex_lock(&team->lock);
    enum eplb_status status = eplb_supervisor_create(&team->params, &team->supervisor, error);
    eplb_mutex_unlock(&team->lock);
    return status;
}

static void start(struct team *team)
{
    struct eplb_error error = {.status = EPLB_OK};
    if (try_start(team, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    board_await_ready(team->board, (uint32_t)team->params.num_ranks);
}

/** Nothing may be left: no child, descriptor or thread. */
static void finish(struct team *team)
{
    eplb_supervisor_destroy(team->supervisor);
    assert_true(board_childless());
    board_destroy(team->board, team->descriptor);
    eplb_condition_destroy(&team->changed);
    eplb_mutex_destroy(&team->lock);
    assert_int_equal(process_files(), team->files);
    board_await_threads(team->threads);
}

static void await_reports(struct team *team, int32_t count)
{
    int64_t deadline = board_now() + LONG_NS;
    eplb_mutex_lock(&team->lock);
    while (team->num_reports < count && eplb_condition_wait_until(&team->changed, &team->lock, deadline))
        continue;
    int32_t reports = team->num_reports;
    eplb_mutex_unlock(&team->lock);
    assert_int_equal(reports, count);
}

static pid_t pid_of(struct team *team, int32_t rank)
{
    pid_t pid = (pid_t)eplb_supervisor_report(team->supervisor, rank).pid;
    assert_true(pid > 0);
    return pid;
}

static void assert_report(struct team *team, int32_t rank, const char *wanted)
{
    struct eplb_rank_life report = eplb_supervisor_report(team->supervisor, rank);
    char text[EPLB_RANK_LIFE_TEXT];
    char whole[EPLB_RANK_LIFE_TEXT];
    eplb_rank_life_text(&report, text);
    snprintf(whole, sizeof whole, "rank %d (pid %d) %s", rank, pid_of(team, rank), wanted);
    assert_string_equal(text, whole);
}

/** Keeps the supervisor's thread in its next look, until it is let go. */
static void hold(struct team *team)
{
    int64_t deadline = board_now() + LONG_NS;
    eplb_mutex_lock(&team->lock);
    team->held = true;
    while (!team->waiting && eplb_condition_wait_until(&team->changed, &team->lock, deadline))
        continue;
    bool waiting = team->waiting;
    eplb_mutex_unlock(&team->lock);
    assert_true(waiting);
}

static void let_go(struct team *team)
{
    eplb_mutex_lock(&team->lock);
    team->held = false;
    eplb_mutex_unlock(&team->lock);
    eplb_condition_broadcast(&team->changed);
}

/** Waits until a child has ended, and leaves it to be reaped. */
static void await_zombie(pid_t pid)
{
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

/* ------------------------------------------------------------------------------------- deaths */

static void codes_and_signals_are_named(void **state)
{
    (void)state;
    struct team team;
    init(&team, 3);
    behave(&team, 0, BOARD_EXIT);
    behave(&team, 2, BOARD_RAISE);
    start(&team);
    await_reports(&team, 2);
    assert_report(&team, 0, "exited with code 3");
    assert_report(&team, 1, "runs");
    assert_report(&team, 2, "was killed by signal 10 (USR1)");
    assert_int_equal(eplb_supervisor_report(team.supervisor, 0).fate, EPLB_RANK_ENDED_BY_ITSELF);
    assert_int_equal(eplb_supervisor_first_lost(team.supervisor), team.reports[0].rank);

    assert_int_equal(eplb_supervisor_stop(team.supervisor, LONG_NS, NULL), EPLB_OK);
    assert_report(&team, 1, "was stopped and was killed by signal 15 (TERM)");
    assert_int_equal(team.num_reports, 3);
    assert_int_equal(team.reports[2].rank, 1);
    finish(&team);
}

static void a_death_is_seen_within_a_second(void **state)
{
    (void)state;
    struct team team;
    init(&team, 3);
    team.params.look_interval_ns = 20 * SECOND; /* the looks do not help */
    start(&team);
    assert_int_equal(eplb_supervisor_first_lost(team.supervisor), -1);
    int64_t killed_at = board_now();
    assert_int_equal(kill(pid_of(&team, 1), SIGKILL), 0);
    await_reports(&team, 1);
    int64_t took = team.reported_at[0] - killed_at;
    printf("a death is seen after %d us\n", (int)(took / 1000));
    assert_in_range(took, 0, SECOND);
    assert_report(&team, 1, "was killed by signal 9 (KILL)");
    assert_int_equal(eplb_supervisor_first_lost(team.supervisor), 1);
    assert_report(&team, 0, "runs");
    assert_report(&team, 2, "runs");
    finish(&team);
    assert_int_equal(team.num_reports, 3);
}

/** Found dead at once: the others exited because of the one that was killed. */
static void one_that_a_signal_killed_is_the_cause(void **state)
{
    (void)state;
    struct team team;
    init(&team, 3);
    start(&team);
    hold(&team);
    pid_t pids[] = {pid_of(&team, 0), pid_of(&team, 1), pid_of(&team, 2)};
    assert_int_equal(kill(pids[1], SIGKILL), 0);
    await_zombie(pids[1]);
    board_tell_to_leave(team.board);
    await_zombie(pids[0]);
    await_zombie(pids[2]);
    let_go(&team);
    await_reports(&team, 3);
    assert_int_equal(team.reports[0].rank, 1);
    assert_int_equal(eplb_supervisor_first_lost(team.supervisor), 1);
    assert_report(&team, 0, "exited with code 0");
    finish(&team);
}

/* ------------------------------------------------------------------------------------ silence */

static void a_stopped_process_is_silent_killed_and_named(void **state)
{
    (void)state;
    struct team team;
    init(&team, 3);
    team.params.silence_timeout_ns = 500 * MS;
    start(&team);
    int64_t stopped_at = board_now();
    assert_int_equal(kill(pid_of(&team, 2), SIGSTOP), 0);
    await_reports(&team, 1);
    int64_t took = team.reported_at[0] - stopped_at;
    printf("a silent rank is named after %d ms\n", (int)(took / MS));
    /* The age counts from the look that saw the last beat, some time before the stop. */
    assert_in_range(took, 400 * MS, 500 * MS + SECOND);
    assert_report(&team, 2, "was silent for 0.5 s");
    assert_int_equal(team.reports[0].fate, EPLB_RANK_WAS_SILENT);
    assert_int_equal(team.reports[0].end.signal, SIGKILL);
    assert_in_range(team.reports[0].silent_ns, 500 * MS, 519999999);
    assert_int_equal(eplb_supervisor_first_lost(team.supervisor), 2);
    assert_int_equal(eplb_supervisor_stop(team.supervisor, LONG_NS, NULL), EPLB_OK);
    finish(&team);
}

static void one_that_never_beats_is_silent(void **state)
{
    (void)state;
    struct team team;
    init(&team, 2);
    /* Longer than a rank takes to start, however busy the machine. */
    team.params.silence_timeout_ns = 2 * SECOND;
    behave(&team, 0, BOARD_MUTE);
    start(&team);
    await_reports(&team, 1);
    assert_report(&team, 0, "was silent for 2.0 s");
    assert_report(&team, 1, "runs");
    finish(&team);
}

/* --------------------------------------------------------------------------------------- stop */

static void one_that_ignores_the_request_is_killed_and_named(void **state)
{
    (void)state;
    struct team team;
    struct eplb_error error;
    char wanted[EPLB_ERROR_TEXT];
    init(&team, 3);
    behave(&team, 1, BOARD_STUBBORN);
    start(&team);
    int64_t asked_at = board_now();
    assert_int_equal(eplb_supervisor_stop(team.supervisor, 200 * MS, &error), EPLB_RANK_SILENT);
    assert_in_range(board_now() - asked_at, 200 * MS, 200 * MS + 2 * SECOND);
    snprintf(wanted, sizeof wanted,
             "1 of 3 ranks did not end within 0.2 s of being asked, and were killed: rank 1 (pid %d)",
             pid_of(&team, 1));
    assert_string_equal(error.text, wanted);
    assert_report(&team, 1, "was stopped and was killed by signal 9 (KILL)");
    assert_report(&team, 2, "was stopped and was killed by signal 15 (TERM)");
    assert_int_equal(eplb_supervisor_first_lost(team.supervisor), -1);

    error.text[0] = '\0';
    assert_int_equal(eplb_supervisor_stop(team.supervisor, LONG_NS, &error), EPLB_RANK_SILENT);
    assert_string_equal(error.text, wanted);
    finish(&team);
}

static void a_stopped_process_takes_the_request(void **state)
{
    (void)state;
    struct team team;
    init(&team, 2);
    start(&team);
    assert_int_equal(kill(pid_of(&team, 0), SIGSTOP), 0);
    assert_int_equal(eplb_supervisor_stop(team.supervisor, LONG_NS, NULL), EPLB_OK);
    assert_report(&team, 0, "was stopped and was killed by signal 15 (TERM)");
    finish(&team);
}

static void without_grace_nobody_is_blamed(void **state)
{
    (void)state;
    struct team team;
    init(&team, 2);
    behave(&team, 0, BOARD_STUBBORN);
    start(&team);
    assert_int_equal(eplb_supervisor_stop(team.supervisor, 0, NULL), EPLB_OK);
    assert_report(&team, 0, "was stopped and was killed by signal 9 (KILL)");
    assert_report(&team, 1, "was stopped and was killed by signal 9 (KILL)");
    finish(&team);
}

static void a_stop_of_the_dead_returns_at_once(void **state)
{
    (void)state;
    struct team team;
    init(&team, 2);
    behave(&team, 0, BOARD_EXIT);
    behave(&team, 1, BOARD_EXIT);
    start(&team);
    await_reports(&team, 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(eplb_supervisor_stop(team.supervisor, LONG_NS, NULL), EPLB_OK);
    assert_true(eplb_supervisor_await_end(team.supervisor, 0));
    assert_report(&team, 0, "exited with code 3");
    assert_int_equal(team.num_reports, 2);
    finish(&team);
}

static void sixteen_are_stopped(void **state)
{
    (void)state;
    struct team team;
    init(&team, BOARD_RANKS);
    start(&team);
    int64_t asked_at = board_now();
    assert_int_equal(eplb_supervisor_stop(team.supervisor, LONG_NS, NULL), EPLB_OK);
    printf("sixteen are stopped after %d ms\n", (int)((board_now() - asked_at) / MS));
    assert_int_equal(team.num_reports, BOARD_RANKS);
    for (int32_t rank = 0; rank < BOARD_RANKS; rank++)
        assert_report(&team, rank, "was stopped and was killed by signal 15 (TERM)");
    assert_true(board_childless());
    finish(&team);
}

static void many_stubborn_ranks_are_counted(void **state)
{
    (void)state;
    struct team team;
    struct eplb_error error;
    init(&team, BOARD_RANKS);
    for (int32_t rank = 0; rank < BOARD_RANKS; rank++)
        behave(&team, rank, BOARD_STUBBORN);
    start(&team);
    assert_int_equal(eplb_supervisor_stop(team.supervisor, 50 * MS, &error), EPLB_RANK_SILENT);
    assert_non_null(strstr(error.text, "16 of 16 ranks did not end within 0."));
    assert_non_null(strstr(error.text, " s of being asked, and were killed: rank 0 (pid "));
    assert_non_null(strstr(error.text, "), rank 1 (pid "));
    assert_int_equal(error.text[strlen(error.text) - 1], ')');
    finish(&team);
}

static void destroy_ends_all(void **state)
{
    (void)state;
    struct team team;
    init(&team, 4);
    behave(&team, 1, BOARD_STUBBORN);
    start(&team);
    assert_int_equal(kill(pid_of(&team, 3), SIGSTOP), 0);
    finish(&team);
    assert_int_equal(team.num_reports, 4);
    eplb_supervisor_destroy(NULL);
}

struct stopper {
    struct eplb_thread thread;
    struct team *team;
    _Atomic uint32_t begun;
    enum eplb_status status;
};

static void run_stop(void *argument)
{
    struct stopper *stopper = argument;
    /* Relaxed: it orders nothing, it only makes the other one's moment likely. */
    atomic_store_explicit(&stopper->begun, 1, memory_order_relaxed);
    stopper->status = eplb_supervisor_stop(stopper->team->supervisor, LONG_NS, NULL);
}

static void begin_stop(struct stopper *stopper, struct team *team)
{
    stopper->team = team;
    atomic_init(&stopper->begun, 0);
    assert_int_equal(eplb_thread_start(&stopper->thread, "stopper", run_stop, stopper, NULL), EPLB_OK);
}

static void several_stop_while_ranks_end(void **state)
{
    (void)state;
    enum { STOPPERS = 3, ROUNDS = 5, RANKS = 8 };
    for (int round = 0; round < ROUNDS; round++) {
        struct team team;
        struct stopper stoppers[STOPPERS];
        bool reported[RANKS] = {false};
        init(&team, RANKS);
        start(&team);
        for (int i = 0; i < STOPPERS; i++)
            begin_stop(&stoppers[i], &team);
        board_tell_to_leave(team.board);
        for (int i = 0; i < STOPPERS; i++)
            eplb_thread_join(&stoppers[i].thread);
        for (int i = 0; i < STOPPERS; i++)
            assert_int_equal(stoppers[i].status, EPLB_OK);
        assert_int_equal(team.num_reports, RANKS);
        for (int32_t i = 0; i < RANKS; i++) {
            assert_false(reported[team.reports[i].rank]);
            reported[team.reports[i].rank] = true;
        }
        finish(&team);
    }
}

/** The supervisor is busy when a rank dies and a stop comes: the death was first, and is the cause. */
static void a_death_before_the_stop_is_a_loss(void **state)
{
    (void)state;
    struct team team;
    struct stopper stopper;
    init(&team, 2);
    start(&team);
    hold(&team);
    pid_t pid = pid_of(&team, 1);
    assert_int_equal(kill(pid, SIGTERM), 0);
    await_zombie(pid);
    begin_stop(&stopper, &team);
    while (atomic_load_explicit(&stopper.begun, memory_order_relaxed) == 0)
        continue;
    let_go(&team);
    eplb_thread_join(&stopper.thread);
    assert_int_equal(stopper.status, EPLB_OK);
    assert_int_equal(eplb_supervisor_first_lost(team.supervisor), 1);
    assert_report(&team, 1, "was killed by signal 15 (TERM)");
    finish(&team);
}

/* -------------------------------------------------------------------------------- expected end */

/** Every round is a chance for the exit to overtake what was said before it. */
static void ranks_that_were_told_to_leave_are_no_loss(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct team team;
        init(&team, 4);
        start(&team);
        eplb_supervisor_expect_end(team.supervisor);
        board_tell_to_leave(team.board);
        assert_true(eplb_supervisor_await_end(team.supervisor, board_now() + LONG_NS));
        assert_int_equal(team.num_reports, 4);
        assert_int_equal(eplb_supervisor_first_lost(team.supervisor), -1);
        assert_report(&team, 3, "was stopped and exited with code 0");
        finish(&team);
    }
}

static void waiting_for_the_end_is_bounded(void **state)
{
    (void)state;
    struct team team;
    init(&team, 2);
    start(&team);
    int64_t deadline = board_now() + 50 * MS;
    assert_false(eplb_supervisor_await_end(team.supervisor, deadline));
    assert_true(board_now() >= deadline);
    assert_int_equal(kill(pid_of(&team, 0), SIGKILL), 0);
    await_reports(&team, 1);
    assert_int_equal(eplb_supervisor_first_lost(team.supervisor), 0);
    finish(&team);
}

/* ------------------------------------------------------------------------------------- create */

static void a_missing_program_is_named_and_nobody_stays(void **state)
{
    (void)state;
    struct team team;
    struct eplb_error error;
    init(&team, 3);
    team.programs[2].params.path = "/nonexistent/eplb";
    assert_int_equal(try_start(&team, &error), EPLB_IO);
    assert_string_equal(error.text,
                        "rank 2: the program /nonexistent/eplb cannot be started: No such file or directory");
    assert_null(team.supervisor);
    finish(&team);
    assert_int_equal(team.num_reports, 0);
}

/** At whichever descriptor they run out: a sentence, and nobody stays. */
static void descriptors_may_run_out(void **state)
{
    (void)state;
    struct team team;
    struct eplb_error error;
    enum eplb_status status = EPLB_IO;
    int tries = 0;
    init(&team, 3);
    for (int allowed = 0; status != EPLB_OK; allowed++, tries++) {
        struct rlimit before = board_limit_descriptors(allowed);
        status = try_start(&team, &error);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (status == EPLB_OK)
            break;
        assert_int_equal(status, EPLB_IO);
        assert_non_null(strstr(error.text, "Too many open files"));
        assert_true(board_childless());
    }
    /* One to be woken by, and one of each rank. */
    assert_true(tries >= 4);
    finish(&team);
}

static void refuse(struct team *team, const char *sentence)
{
    struct eplb_error error;
    assert_int_equal(try_start(team, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
}

/* The limit may be lowered below what is open: deaths are seen all the same, and orders heard. */
static void a_lowered_limit_blinds_nobody(void **state)
{
    (void)state;
    const rlim_t limits[] = {4, 0};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct team team;
        struct rlimit before;
        init(&team, 8);
        start(&team);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        const struct rlimit low = {.rlim_cur = limits[i], .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        int64_t killed_at = board_now();
        assert_int_equal(kill((pid_t)eplb_supervisor_report(team.supervisor, 5).pid, SIGKILL), 0);
        await_reports(&team, 1);
        int64_t took = board_now() - killed_at;
        enum eplb_status stopped = eplb_supervisor_stop(team.supervisor, LONG_NS, NULL);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(stopped, EPLB_OK);
        assert_int_equal(team.reports[0].rank, 5);
        assert_in_range(took, 0, SECOND);
        finish(&team);
    }
}

static void bad_parameters_are_refused(void **state)
{
    (void)state;
    struct team team;
    init(&team, 1);
    team.params.num_ranks = 0;
    refuse(&team, "a supervisor of 0 ranks has nothing to do; it needs 1 or more");
    team.params.num_ranks = 1;
    team.params.silence_timeout_ns = 20;
    team.params.look_interval_ns = 10;
    refuse(&team, "the silence timeout is 20 ns and the interval between looks 10 ns; the interval must be "
                  "above 0, and the timeout above two intervals");
    team.params.look_interval_ns = 0;
    refuse(&team, "the silence timeout is 20 ns and the interval between looks 0 ns; the interval must be "
                  "above 0, and the timeout above two intervals");
    finish(&team);
}

static void a_report_says_what_happened(void **state)
{
    (void)state;
    struct eplb_rank_life report = {
        .rank = 3, .pid = 4711, .fate = EPLB_RANK_WAS_SILENT, .silent_ns = 30 * SECOND};
    char text[EPLB_RANK_LIFE_TEXT];
    report.end.signal = SIGKILL;
    eplb_rank_life_text(&report, text);
    assert_string_equal(text, "rank 3 (pid 4711) was silent for 30.0 s");
    report.end = (struct eplb_process_end){.exit_code = 1};
    eplb_rank_life_text(&report, text);
    assert_string_equal(text, "rank 3 (pid 4711) was silent for 30.0 s and exited with code 1");
    report.stuck = true;
    eplb_rank_life_text(&report, text);
    assert_string_equal(text,
                        "rank 3 (pid 4711) was silent for 30.0 s and has not ended since it was killed");
    report.fate = EPLB_RANK_STOPPED;
    eplb_rank_life_text(&report, text);
    assert_string_equal(text, "rank 3 (pid 4711) was stopped and has not ended since it was killed");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return board_main(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_and_signals_are_named),
        cmocka_unit_test(a_death_is_seen_within_a_second),
        cmocka_unit_test(one_that_a_signal_killed_is_the_cause),
        cmocka_unit_test(a_stopped_process_is_silent_killed_and_named),
        cmocka_unit_test(one_that_never_beats_is_silent),
        cmocka_unit_test(one_that_ignores_the_request_is_killed_and_named),
        cmocka_unit_test(a_stopped_process_takes_the_request),
        cmocka_unit_test(without_grace_nobody_is_blamed),
        cmocka_unit_test(a_stop_of_the_dead_returns_at_once),
        cmocka_unit_test(sixteen_are_stopped),
        cmocka_unit_test(many_stubborn_ranks_are_counted),
        cmocka_unit_test(destroy_ends_all),
        cmocka_unit_test(several_stop_while_ranks_end),
        cmocka_unit_test(a_death_before_the_stop_is_a_loss),
        cmocka_unit_test(ranks_that_were_told_to_leave_are_no_loss),
        cmocka_unit_test(waiting_for_the_end_is_bounded),
        cmocka_unit_test(a_missing_program_is_named_and_nobody_stays),
        cmocka_unit_test(descriptors_may_run_out),
        cmocka_unit_test(a_lowered_limit_blinds_nobody),
        cmocka_unit_test(bad_parameters_are_refused),
        cmocka_unit_test(a_report_says_what_happened),
    };
    return cmocka_run_group_tests(tests, board_set_up, NULL);
}
