/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/children.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "eplb/clock.h"
#include "os/process.h"

enum { MOST_CHILDREN = 64 };

void child_start(struct child *child, void (*run)(void *context, int32_t index), void *context, int32_t index)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(1);
        run(context, index);
        _exit(0);
    }
    *child = (struct child){.pid = pid, .watch = eplb_process_watch(pid)};
    assert_true(child->watch >= 0);
}

_Noreturn void child_fail(const char *sentence)
{
    fprintf(stderr, "child %d: %s\n", (int)getpid(), sentence);
    _exit(1);
}

void child_kill(const struct child *child)
{
    if (child->watch >= 0)
        assert_int_equal(kill(child->pid, SIGKILL), 0);
}

static int milliseconds_until(int64_t deadline)
{
    const struct eplb_clock *clock = eplb_clock_system();
    int64_t left = deadline - clock->now(clock->context);
    return left <= 0 ? 0 : (int)(left / 1000000) + 1;
}

static void reap(struct child *child)
{
    assert_int_equal(waitpid(child->pid, &child->status, 0), child->pid);
    child->failed = child->status != 0;
    close(child->watch);
    child->watch = -1;
}

int32_t children_next(struct child *children, int32_t count, int64_t deadline)
{
    struct pollfd watches[MOST_CHILDREN];
    int32_t left = 0;
    assert_in_range(count, 0, MOST_CHILDREN);
    for (int32_t i = 0; i < count; i++) {
        /* A negative one is passed over. */
        watches[i] = (struct pollfd){.fd = children[i].watch, .events = POLLIN};
        left += children[i].watch >= 0;
    }
    if (left == 0 || poll(watches, (nfds_t)count, milliseconds_until(deadline)) <= 0)
        return -1;
    for (int32_t i = 0; i < count; i++)
        if (watches[i].revents != 0) {
            reap(&children[i]);
            return i;
        }
    return -1;
}

int32_t children_finish(struct child *children, int32_t count, int64_t deadline)
{
    int32_t failed = 0;
    for (int32_t next = children_next(children, count, deadline); next >= 0;) {
        if (children[next].failed)
            print_error("child %d (%d) ended with status 0x%x\n", (int)next, (int)children[next].pid,
                        (unsigned)children[next].status);
        next = children_next(children, count, deadline);
    }
    for (int32_t i = 0; i < count; i++) {
        if (children[i].watch >= 0) {
            print_error("child %d (%d) has not ended in time\n", (int)i, (int)children[i].pid);
            child_kill(&children[i]);
            reap(&children[i]);
        }
        failed += children[i].failed;
    }
    return failed;
}
