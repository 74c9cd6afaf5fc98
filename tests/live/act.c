/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "live/act.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "eplb/clock.h"
#include "os/signals.h"

#define MS INT64_C(1000000)
#define PATIENCE_NS (30000 * MS)

static int64_t now(void)
{
    return eplb_clock_system()->now(NULL);
}

/* ---- an engine in a child ---- */

static int interrupted(void *context)
{
    (void)context;
    int count;
    return eplb_signals_caught(&count);
}

static void block_interruptions(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    assert_int_equal(sigprocmask(how, &set, NULL), 0);
}

static void run_engine(void *context, int32_t index)
{
    (void)index;
    struct stage *stage = context;
    int descriptor;
    if (setpgid(0, 0) != 0 || eplb_signals_catch(&descriptor, &stage->error) != EPLB_OK)
        child_fail("the engine cannot begin");
    block_interruptions(SIG_UNBLOCK);
    stage->params.interrupted = interrupted;
    enum eplb_status status = stage_run(stage);
    if (status != EPLB_OK)
        fprintf(stderr, "engine: %s\n", stage->error.text);
    if (status == EPLB_OK && stage->outcome.interrupted != 0)
        _exit(128 + stage->outcome.interrupted);
    _exit(eplb_status_exit_code(status));
}

void act_start_engine(struct child *engine, struct stage *stage)
{
    atomic_store_explicit(&stage->forwards, 0, memory_order_relaxed);
    block_interruptions(SIG_BLOCK);
    child_start(engine, run_engine, stage, 0);
    block_interruptions(SIG_UNBLOCK);
}

void act_await_forwards(const struct stage *stage, uint64_t forwards)
{
    int64_t deadline = now() + PATIENCE_NS;
    while (atomic_load_explicit(&stage->forwards, memory_order_acquire) < forwards) {
        if (now() > deadline)
            fail_msg("forward %llu was not done in time", (unsigned long long)forwards);
        stage_linger(MS);
    }
}

void act_await_note(const struct stage *stage, const char *text)
{
    int64_t deadline = now() + PATIENCE_NS;
    /* Without the lock, which may die with the engine: text is only added. */
    while (strstr(stage->notes.text, text) == NULL) {
        if (now() > deadline)
            fail_msg("the engine has not logged \"%s\"", text);
        stage_linger(MS);
    }
}

void act_await_exit(struct child *engine, int code)
{
    assert_int_equal(children_next(engine, 1, now() + PATIENCE_NS), 0);
    if (!WIFEXITED(engine->status) || WEXITSTATUS(engine->status) != code)
        fail_msg("the engine ended with status 0x%x, and not with code %d", (unsigned)engine->status, code);
}

bool act_await_orphan(int64_t pid, int64_t deadline)
{
    for (;;) {
        pid_t got = waitpid((pid_t)pid, NULL, WNOHANG);
        if (got == pid)
            return true;
        /* Not a child yet; or it ended before its parent, which took its end. */
        assert_true(got == 0 || errno == ECHILD);
        if (got < 0 && kill((pid_t)pid, 0) != 0)
            return true;
        if (now() >= deadline)
            return false;
        stage_linger(MS);
    }
}

/* ---- harm ---- */

/** Failing assertions have no place in a thread: what it did not do shows in its numbers. */
static void do_harm(void *argument)
{
    struct harm *harm = argument;
    int64_t deadline = now() + PATIENCE_NS;
    harm->pid = stage_await_worker(getpid(), harm->rank, deadline);
    while (atomic_load_explicit(&harm->stage->forwards, memory_order_acquire) < harm->forwards &&
           now() < deadline)
        stage_linger(MS);
    stage_linger(harm->delay_ns);
    harm->done_at = now();
    if (harm->pid != 0)
        (void)kill((pid_t)harm->pid, harm->signal);
}

void act_begin_harm(struct harm *harm, const struct stage *stage)
{
    harm->stage = stage;
    harm->pid = 0;
    assert_int_equal(eplb_thread_start(&harm->thread, "harm", do_harm, harm, NULL), EPLB_OK);
}

void act_end_harm(struct harm *harm)
{
    eplb_thread_join(&harm->thread);
}
