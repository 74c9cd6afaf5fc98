/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * Each test in a child: what is caught stays caught for a process's life.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/signals.h"
#include "os/thread.h"

#define CHECK(condition)     \
    do {                     \
        if (!(condition))    \
            return __LINE__; \
    } while (0)

/* A child returns 0 or the line that failed, which may be over 255. */
static void in_child(int (*run)(void))
{
    int ends[2];
    int line = -1;
    int status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        line = run();
        _exit(write(ends[1], &line, sizeof line) == sizeof line ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &line, sizeof line), sizeof line);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(line, 0);
}

static int is_readable(int descriptor)
{
    struct pollfd watched = {.fd = descriptor, .events = POLLIN};
    return poll(&watched, 1, 0) == 1;
}

static int record_some(void)
{
    int descriptor;
    int again;
    int count = 7;
    CHECK(eplb_signals_catch(&descriptor, NULL) == EPLB_OK);
    CHECK(eplb_signals_caught(&count) == 0 && count == 0);
    CHECK(!is_readable(descriptor));
    errno = 5;
    CHECK(raise(SIGTERM) == 0);
    CHECK(errno == 5);
    CHECK(is_readable(descriptor));
    CHECK(eplb_signals_caught(&count) == SIGTERM && count == 1);
    CHECK(raise(SIGINT) == 0 && raise(SIGINT) == 0);
    CHECK(eplb_signals_caught(&count) == SIGTERM && count == 3);
    CHECK(is_readable(descriptor));
    CHECK(eplb_signals_catch(&again, NULL) == EPLB_OK && again == descriptor);
    CHECK(eplb_signals_caught(&count) == SIGTERM && count == 3);
    return 0;
}

static void signals_are_recorded_in_order(void **state)
{
    (void)state;
    in_child(record_some);
}

static int write_to_nobody(void)
{
    int descriptor;
    int count;
    int ends[2];
    CHECK(eplb_signals_catch(&descriptor, NULL) == EPLB_OK);
    CHECK(pipe(ends) == 0);
    close(ends[0]);
    CHECK(write(ends[1], "x", 1) == -1 && errno == EPIPE);
    CHECK(eplb_signals_caught(&count) == 0);
    return 0;
}

static void a_broken_pipe_is_an_error_and_no_death(void **state)
{
    (void)state;
    in_child(write_to_nobody);
}

struct reader {
    pthread_t self;
    _Atomic int is_reading;
    int input;
    ssize_t got;
};

static void *read_one(void *argument)
{
    struct reader *reader = argument;
    char letter;
    atomic_store(&reader->is_reading, 1);
    reader->got = read(reader->input, &letter, 1);
    return NULL;
}

/* A thread that reads a pipe while signals rain on it sees none of them. */
static int read_through_signals(void)
{
    int descriptor;
    int count;
    int ends[2];
    struct reader reader = {.got = -2};
    CHECK(eplb_signals_catch(&descriptor, NULL) == EPLB_OK);
    CHECK(pipe(ends) == 0);
    reader.input = ends[0];
    CHECK(pthread_create(&reader.self, NULL, read_one, &reader) == 0);
    while (!atomic_load(&reader.is_reading))
        ;
    for (int i = 0; i < 1000; i++)
        CHECK(pthread_kill(reader.self, SIGINT) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(pthread_join(reader.self, NULL) == 0);
    CHECK(reader.got == 1);
    CHECK(eplb_signals_caught(&count) == SIGINT && count >= 1 && count <= 1000);
    return 0;
}

static void calls_go_on_after_a_signal(void **state)
{
    (void)state;
    in_child(read_through_signals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_are_recorded_in_order),
        cmocka_unit_test(a_broken_pipe_is_an_error_and_no_death),
        cmocka_unit_test(calls_go_on_after_a_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
