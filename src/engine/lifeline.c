/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/lifeline.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "engine/wake.h"
#include "eplb/clock.h"
#include "os/process.h"
#include "os/thread.h"

struct eplb_lifeline {
    struct eplb_lifeline_params params;
    int engine;  /* readable once the engine's process has ended; -1: there is none of that number */
    int release; /* readable: the thread returns */
    struct eplb_thread thread;
};

static void hold_on(void *argument)
{
    struct eplb_lifeline *lifeline = argument;
    const struct eplb_lifeline_params *params = &lifeline->params;
    struct pollfd polls[] = {{.fd = lifeline->engine, .events = POLLIN},
                             {.fd = lifeline->release, .events = POLLIN}};
    /*
     * Asked after the watch began, never before: an engine that lives now has lived then, so the
     * number that is watched was the engine's. Had it ended in between, the watch says so.
     */
    bool alive = lifeline->engine >= 0 && params->engine_lives(params->context) != 0;
    while (alive && polls[1].revents == 0) {
        params->beat(params->context);
        eplb_wake_await(polls, 2, eplb_clock_system()->now(NULL) + params->beat_interval_ns);
        alive = polls[0].revents == 0;
    }
    if (alive)
        return;
    params->orphaned(params->context);
    /* It does not come back: a worker without its engine must not go on. */
    EPLB_ASSERT(alive);
}

/** An engine that is gone is the thread's affair; a system that cannot watch one is an error. */
static enum eplb_status watch(struct eplb_lifeline *lifeline, struct eplb_error *error)
{
    int64_t pid = lifeline->params.engine_pid;
    errno = ESRCH;
    lifeline->engine = eplb_process_watch(pid);
    if (lifeline->engine < 0 && errno != ESRCH)
        EPLB_FAIL(EPLB_IO, "the engine's process %" PRId64 " cannot be watched: %s", pid, strerror(errno));
    return EPLB_OK;
}

enum eplb_status eplb_lifeline_create(const struct eplb_lifeline_params *params,
                                      struct eplb_lifeline **lifeline, struct eplb_error *error)
{
    EPLB_ASSERT(params->beat_interval_ns > 0 && params->beat_interval_ns < INT64_MAX / 2);
    struct eplb_lifeline *created = eplb_arena_block(sizeof *created);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a lifeline");
    created->params = *params;
    enum eplb_status status = eplb_wake_create("a lifeline", &created->release, error);
    if (status != EPLB_OK)
        goto free_block;
    status = watch(created, error);
    if (status != EPLB_OK)
        goto close_release;
    status = eplb_thread_start(&created->thread, "eplb-lifeline", hold_on, created, error);
    if (status != EPLB_OK)
        goto close_engine;
    *lifeline = created;
    return EPLB_OK;
close_engine:
    if (created->engine >= 0)
        close(created->engine);
close_release:
    close(created->release);
free_block:
    eplb_arena_free(created);
    return status;
}

void eplb_lifeline_destroy(struct eplb_lifeline *lifeline)
{
    if (lifeline == NULL)
        return;
    eplb_wake_ring(lifeline->release);
    eplb_thread_join(&lifeline->thread);
    if (lifeline->engine >= 0)
        close(lifeline->engine);
    close(lifeline->release);
    eplb_arena_free(lifeline);
}
