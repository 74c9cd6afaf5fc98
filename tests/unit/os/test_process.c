/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "eplb/clock.h"
#include "os/process.h"
#include "support/process.h"

enum { MS = 1000000 };

static const int64_t patience = INT64_C(20000) * MS;

static int64_t now(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context);
}

static struct eplb_process start_shell(const char *script, const int *keep, int num_keep)
{
    char text[400];
    char name[] = "sh";
    char option[] = "-c";
    snprintf(text, sizeof text, "%s", script);
    char *arguments[] = {name, option, text, NULL};
    struct eplb_error error = {0};
    struct eplb_process process;
    struct eplb_process_params params = {
        .path = "/bin/sh", .arguments = arguments, .keep = keep, .num_keep = num_keep};
    if (eplb_process_start(&params, &process, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return process;
}

static struct eplb_process_end wait_for(struct eplb_process *process)
{
    struct eplb_process_end end = {.exit_code = 99};
    assert_true(eplb_process_wait(process, now() + patience, &end));
    assert_int_equal(process->descriptor, -1);
    return end;
}

static void expect_exit(const char *script, int code)
{
    struct eplb_process process = start_shell(script, NULL, 0);
    struct eplb_process_end end = wait_for(&process);
    assert_int_equal(end.signal, 0);
    assert_int_equal(end.exit_code, code);
}

/* ---- who one is ---- */

static void a_process_knows_itself(void **state)
{
    (void)state;
    struct eplb_process_id self;
    static const unsigned char unknown[16];
    eplb_process_identify(&self);
    assert_int_equal(self.pid, getpid());
    assert_true(self.start_time > 0);
    assert_true(self.pid_namespace > 0);
    assert_memory_not_equal(self.boot_id, unknown, sizeof unknown);
    assert_int_equal(eplb_process_seen(&self), 1);

    struct eplb_process_id other = self;
    other.start_time++;
    assert_int_equal(eplb_process_seen(&other), 0);
    other = self;
    other.boot_id[3] ^= 1;
    assert_int_equal(eplb_process_seen(&other), -1);
    other = self;
    other.pid_namespace++;
    assert_int_equal(eplb_process_seen(&other), -1);
    other = self;
    other.pid_namespace = 0;
    assert_int_equal(eplb_process_seen(&other), -1);
    other = self;
    other.start_time = 0;
    assert_int_equal(eplb_process_seen(&other), -1);
    /* A file that is not trusted may say anything. */
    other = self;
    other.pid = INT64_MAX;
    assert_int_equal(eplb_process_seen(&other), -1);
    other.pid = -1;
    assert_int_equal(eplb_process_seen(&other), -1);
}

static void a_dead_process_is_seen_dead(void **state)
{
    (void)state;
    int ends[2];
    struct eplb_process_id id;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        eplb_process_identify(&id);
        _exit(write(ends[1], &id, sizeof id) == sizeof id && pause() ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &id, sizeof id), sizeof id);
    assert_int_equal(id.pid, child);
    assert_int_equal(eplb_process_seen(&id), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    /* Dead before it is reaped too. */
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(eplb_process_seen(&id), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(eplb_process_seen(&id), 0);
    close(ends[0]);
    close(ends[1]);
}

/* ---- starting one ---- */

static void exit_codes_are_told(void **state)
{
    (void)state;
    size_t files = process_files();
    expect_exit("exit 0", 0);
    expect_exit("exit 3", 3);
    assert_int_equal(process_files(), files);
}

static void signals_are_told(void **state)
{
    (void)state;
    struct eplb_process process = start_shell("kill -9 $$", NULL, 0);
    struct eplb_process_end end = wait_for(&process);
    assert_int_equal(end.signal, SIGKILL);
}

static void ends_are_put_in_words(void **state)
{
    (void)state;
    char text[EPLB_PROCESS_END_TEXT];
    struct eplb_process_end end = {.exit_code = 3};
    assert_string_equal(eplb_process_end_text(&end, text), "exited with code 3");
    end = (struct eplb_process_end){.signal = SIGKILL};
    assert_string_equal(eplb_process_end_text(&end, text), "was killed by signal 9 (KILL)");
    end = (struct eplb_process_end){.signal = 63};
    assert_string_equal(eplb_process_end_text(&end, text), "was killed by signal 63 (no standard one)");
    end = (struct eplb_process_end){.exit_code = EPLB_PROCESS_CODE_LOST};
    assert_string_equal(eplb_process_end_text(&end, text), "ended, with a code that is not known");
}

static void input_is_empty_and_descriptors_stay_out(void **state)
{
    (void)state;
    char script[200];
    int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(kept > 2 && other > 2);
    expect_exit("[ \"$(readlink /proc/self/fd/0)\" = /dev/null ]", 0);
    snprintf(script, sizeof script, "[ -e /proc/self/fd/%d ] && [ ! -e /proc/self/fd/%d ]", kept, other);
    struct eplb_process process = start_shell(script, &kept, 1);
    assert_int_equal(wait_for(&process).exit_code, 0);
    /* In the child alone. */
    assert_int_equal(fcntl(kept, F_GETFD), FD_CLOEXEC);
    close(kept);
    close(other);
}

/* The C library keeps 32 and 33 for itself, and its posix_spawn ignores these two. */
static void signals_begin_anew(void **state)
{
    (void)state;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    void (*action)(int) = signal(SIGTERM, SIG_IGN);
    assert_int_equal(sigprocmask(SIG_SETMASK, &all, &before), 0);
    struct eplb_process process = start_shell(
        "grep -q '^SigBlk:.0*$' /proc/self/status && grep -q '^SigIgn:.0*1*[08]0000000$' /proc/self/status",
        NULL, 0);
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    signal(SIGTERM, action);
    assert_int_equal(wait_for(&process).exit_code, 0);
}

static void a_missing_program_is_a_sentence(void **state)
{
    (void)state;
    char name[] = "rank";
    char *arguments[] = {name, NULL};
    struct eplb_error error = {0};
    struct eplb_process process;
    struct eplb_process_params params = {.path = "/nowhere/rank", .arguments = arguments};
    size_t files = process_files();
    assert_int_equal(eplb_process_start(&params, &process, &error), EPLB_IO);
    assert_string_equal(error.text, "the program /nowhere/rank cannot be started: No such file or directory");
    params.path = "/tmp";
    assert_int_equal(eplb_process_start(&params, &process, &error), EPLB_IO);
    assert_string_equal(error.text, "the program /tmp cannot be started: Permission denied");
    assert_int_equal(process_files(), files);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void without_a_descriptor_nothing_runs_on(void **state)
{
    (void)state;
    char name[] = "sh";
    char option[] = "-c";
    char script[] = "while :; do :; done";
    char *arguments[] = {name, option, script, NULL};
    struct eplb_error error = {0};
    struct eplb_process process;
    struct eplb_process_params params = {.path = "/bin/sh", .arguments = arguments};
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(lowest > 0);
    close(lowest);
    struct rlimit none = {.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum eplb_status status = eplb_process_start(&params, &process, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, EPLB_IO);
    assert_string_equal(error.text, "the program /bin/sh was started but cannot be watched, and was stopped: "
                                    "Too many open files");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* ---- watching it end ---- */

static bool is_ended(int descriptor, int timeout_ms)
{
    struct pollfd watched = {.fd = descriptor, .events = POLLIN};
    return poll(&watched, 1, timeout_ms) == 1;
}

static void the_end_is_seen_when_it_comes(void **state)
{
    (void)state;
    struct eplb_process_end end = {.exit_code = 99};
    struct eplb_process process = start_shell("kill -STOP $$; exit 4", NULL, 0);
    int watch = eplb_process_watch(process.pid);
    assert_true(watch >= 0);
    int64_t begin = now();
    assert_false(eplb_process_wait(&process, begin + 20 * MS, &end));
    int64_t waited = now() - begin;
    assert_true(waited >= 20 * MS && waited < 2000 * MS);
    assert_false(eplb_process_reap(&process, &end));
    assert_false(is_ended(process.descriptor, 0));
    assert_false(is_ended(watch, 0));
    /* It may not have stopped itself yet: SIGCONT is sent until it has gone on. */
    int64_t deadline = now() + patience;
    while (!is_ended(process.descriptor, 1) && now() < deadline)
        eplb_process_signal(&process, SIGCONT);
    assert_true(is_ended(watch, 0));
    assert_true(eplb_process_reap(&process, &end));
    assert_int_equal(end.exit_code, 4);
    assert_int_equal(process.descriptor, -1);
    assert_false(eplb_process_reap(&process, &end));
    assert_false(eplb_process_wait(&process, INT64_MAX, &end));
    eplb_process_signal(&process, SIGKILL);
    close(watch);
}

static void a_stopped_one_can_be_killed(void **state)
{
    (void)state;
    struct eplb_process process = start_shell("kill -STOP $$; exit 4", NULL, 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)process.pid, &info, WSTOPPED | WNOWAIT), 0);
    eplb_process_signal(&process, SIGKILL);
    assert_int_equal(wait_for(&process).signal, SIGKILL);
}

static void an_end_that_others_took_is_an_end(void **state)
{
    (void)state;
    struct eplb_process process = start_shell("exit 3", NULL, 0);
    assert_int_equal(waitpid((pid_t)process.pid, NULL, 0), process.pid);
    assert_int_equal(wait_for(&process).exit_code, EPLB_PROCESS_CODE_LOST);
}

static void there_is_nothing_to_watch(void **state)
{
    (void)state;
    struct eplb_process process = start_shell("exit 0", NULL, 0);
    int64_t pid = process.pid;
    wait_for(&process);
    assert_int_equal(eplb_process_watch(pid), -1);
    assert_int_equal(eplb_process_watch(0), -1);
    assert_int_equal(eplb_process_watch(-1), -1);
    assert_int_equal(eplb_process_watch(INT64_C(1) << 32 | getpid()), -1);
}

/* ---- the machine ---- */

static void processors_are_those_one_may_use(void **state)
{
    (void)state;
    cpu_set_t before;
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(eplb_process_processors(), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (size_t i = 0; CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int32_t count = eplb_process_processors();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(count, 1);
}

static void cpu_time_runs_while_one_computes(void **state)
{
    (void)state;
    int64_t begin = eplb_thread_cpu_time();
    int64_t deadline = now() + patience;
    while (eplb_thread_cpu_time() - begin < 5 * MS)
        assert_true(now() < deadline);
    begin = eplb_thread_cpu_time();
    struct pollfd none = {.fd = -1};
    poll(&none, 1, 50);
    assert_true(eplb_thread_cpu_time() - begin < 25 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_knows_itself),
        cmocka_unit_test(a_dead_process_is_seen_dead),
        cmocka_unit_test(exit_codes_are_told),
        cmocka_unit_test(signals_are_told),
        cmocka_unit_test(ends_are_put_in_words),
        cmocka_unit_test(input_is_empty_and_descriptors_stay_out),
        cmocka_unit_test(signals_begin_anew),
        cmocka_unit_test(a_missing_program_is_a_sentence),
        cmocka_unit_test(without_a_descriptor_nothing_runs_on),
        cmocka_unit_test(the_end_is_seen_when_it_comes),
        cmocka_unit_test(a_stopped_one_can_be_killed),
        cmocka_unit_test(an_end_that_others_took_is_an_end),
        cmocka_unit_test(there_is_nothing_to_watch),
        cmocka_unit_test(processors_are_those_one_may_use),
        cmocka_unit_test(cpu_time_runs_while_one_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
