/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * A fork in the moment in which the owner's lock is taken. madvise is wrapped: it is called while the mapping
 * and its descriptor are still within a child's reach.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "os/fork.h"
#include "os/thread.h"
#include "unit/shm/place.h"

/* A fork that is not kept away needs a millisecond. */
enum { WAIT_FOR_FORK_MS = 300, PAYLOAD = 64 * 1024 };

static struct place_word fork_now;
static struct place_word forked;
static atomic_bool armed;

static bool has_word(const struct place_word *word, int patience_ms)
{
    struct pollfd watched = {.fd = word->ends[0], .events = POLLIN};
    return poll(&watched, 1, patience_ms) == 1;
}

int __real_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice);

int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    if (advice == MADV_DONTFORK && atomic_exchange(&armed, false)) {
        place_word_say(&fork_now);
        (void)has_word(&forked, WAIT_FOR_FORK_MS);
    }
    return __real_madvise(memory, bytes, advice);
}

/* Waits for the word, and leaves a child that lives until it is killed. */
static void fork_at_the_word(void *argument)
{
    char letter;
    pid_t *child = argument;
    if (read(fork_now.ends[0], &letter, 1) != 1)
        _exit(90);
    *child = fork();
    if (*child == 0)
        place_wait_to_be_killed();
    place_word_say(&forked);
}

static int publish_while_a_thread_forks(void *argument)
{
    const int *answers = argument;
    struct eplb_thread thread;
    struct eplb_segment *segment;
    struct eplb_segment_name name = place_name("a");
    pid_t grandchild = 0;
    if (eplb_thread_start(&thread, "forker", fork_at_the_word, &grandchild, NULL) != EPLB_OK)
        return 1;
    atomic_store(&armed, true);
    if (eplb_segment_build(&name, EPLB_SEGMENT_GROUP, PAYLOAD, &segment, NULL) != EPLB_OK ||
        eplb_segment_publish(segment, 0, NULL) != EPLB_OK)
        return 2;
    eplb_thread_join(&thread);
    if (write(answers[1], &grandchild, sizeof grandchild) != sizeof grandchild)
        return 3;
    place_wait_to_be_killed();
}

static void a_child_forked_meanwhile_keeps_nothing_alive(void **state)
{
    (void)state;
    pid_t grandchild;
    int answers[2];
    fork_now = place_word_make();
    forked = place_word_make();
    assert_int_equal(pipe(answers), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t child = place_fork(publish_while_a_thread_forks, answers);
    assert_int_equal(read(answers[0], &grandchild, sizeof grandchild), sizeof grandchild);
    assert_true(grandchild > 0);
    struct eplb_segment *opener = place_open("a");
    assert_true(eplb_segment_owner_lives(opener));
    place_kill(child);
    bool lives = eplb_segment_owner_lives(opener);
    eplb_segment_close(opener);
    place_kill(grandchild);
    assert_false(lives);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    close(answers[0]);
    close(answers[1]);
    place_word_close(&fork_now);
    place_word_close(&forked);
}

static int build_again(void *argument)
{
    (void)argument;
    struct eplb_segment *segment;
    struct eplb_segment_name name = place_name("b");
    if (eplb_segment_build(&name, EPLB_SEGMENT_GROUP, PAYLOAD, &segment, NULL) != EPLB_OK)
        return 1;
    eplb_segment_close(segment);
    return 0;
}

/* The child of a process that has made segments makes its own, and so may that one's. */
static int build_and_fork(void *argument)
{
    int code = build_again(argument);
    if (code != 0)
        return code;
    place_await(place_fork(build_again, NULL), 0);
    return 0;
}

static void children_can_make_their_own(void **state)
{
    (void)state;
    struct eplb_segment *segment = place_publish("a", PAYLOAD, 0);
    place_await(place_fork(build_and_fork, NULL), 0);
    eplb_segment_close(segment);
}

static void no_handler_runs_meanwhile(void **state)
{
    (void)state;
    sigset_t before;
    sigset_t during;
    sigset_t after;
    struct eplb_fork_pause pause;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    assert_int_equal(eplb_fork_hold_off(&pause, NULL), EPLB_OK);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &during), 0);
    eplb_fork_let_go(&pause);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    assert_int_equal(sigismember(&before, SIGUSR1), 0);
    assert_int_equal(sigismember(&during, SIGUSR1), 1);
    assert_int_equal(sigismember(&after, SIGUSR1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_child_forked_meanwhile_keeps_nothing_alive, place_empty),
        cmocka_unit_test_teardown(children_can_make_their_own, place_empty),
        cmocka_unit_test(no_handler_runs_meanwhile),
    };
    return cmocka_run_group_tests(tests, place_make, place_remove);
}
