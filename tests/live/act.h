/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What happens to a run: an engine in a child of the test, and a thread that harms a worker of an engine
 * in the test's own process.
 */
#ifndef LIVE_ACT_H
#define LIVE_ACT_H

#include "live/stage.h"
#include "os/thread.h"
#include "support/children.h"

/* ---- an engine in a child ---- */

/**
 * Starts it: it runs the stage, in a process group of its own, until SIGINT or SIGTERM comes, and exits as
 * a command would. Signals that come before it catches them wait.
 */
void act_start_engine(struct child *engine, struct stage *stage);

/** Waits until it has done so many forwards. */
void act_await_forwards(const struct stage *stage, uint64_t forwards);

/** Waits until it has logged the text. */
void act_await_note(const struct stage *stage, const char *text);

/** Waits until it has ended; fails the test unless it exits, with that code. */
void act_await_exit(struct child *engine, int code);

/**
 * Waits until a process that became the test's child when its own parent died has ended, and reaps it.
 * False at the deadline.
 */
bool act_await_orphan(int64_t pid, int64_t deadline);

/* ---- harm ---- */

struct harm {
    int32_t rank;
    int signal;
    int64_t delay_ns;  /* after the rank was started */
    uint64_t forwards; /* and after so many */
    int64_t pid;       /* of the rank */
    int64_t done_at;
    const struct stage *stage;
    struct eplb_thread thread;
};

/** Starts a thread that will send the signal to that rank of this process's engine. */
void act_begin_harm(struct harm *harm, const struct stage *stage);

/** Waits for it. */
void act_end_harm(struct harm *harm);

#endif
