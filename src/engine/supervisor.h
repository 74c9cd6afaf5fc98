/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Starts the rank processes of a run, watches them and ends them.
 *
 * A thread waits on the processes' descriptors and looks at their heartbeats from time to time. A
 * process that ends is named at once; one whose heartbeat thread is quiet for the silence timeout
 * is killed, named as silent, and only then counts as dead. What follows from a death is the
 * callbacks' affair. The decisions are in supervisor_core.h, without clock or process.
 */
#ifndef ENGINE_SUPERVISOR_H
#define ENGINE_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/supervisor_core.h"
#include "eplb/status.h"
#include "os/process.h"

struct eplb_rank_life {
    int32_t rank;
    int64_t pid;
    enum eplb_rank_fate fate;
    struct eplb_process_end end; /* when fate is not RUNNING, and not stuck */
    int64_t silent_ns;           /* WAS_SILENT: how long it had been quiet */
    bool stuck; /* it was killed and the kernel does not let go of it: it runs no more code, but is there */
};

struct eplb_supervisor_params {
    int32_t num_ranks;
    const struct eplb_process_params *programs; /* [num_ranks], for eplb_supervisor_create only */
    int64_t silence_timeout_ns;                 /* > 2 * look_interval_ns */
    int64_t look_interval_ns;                   /* between looks at the heartbeats, > 0 */
    void *context;
    /** A rank's beats so far; 0 until its first one. Called from the supervisor's thread. */
    uint64_t (*beats)(void *context, int32_t rank);
    /**
     * Once per rank, when its process has ended and was reaped (or is stuck), in the order in which they
     * ended. From the supervisor's thread. May call the supervisor only for the report and the first lost.
     */
    void (*ended)(void *context, const struct eplb_rank_life *report);
};

struct eplb_supervisor;

/**
 * Starts the processes and the thread. When one cannot be started, those before it are killed and reaped.
 *
 * @return EPLB_OK; EPLB_INVALID; EPLB_IO with the rank and its program; EPLB_NO_MEMORY
 */
enum eplb_status eplb_supervisor_create(const struct eplb_supervisor_params *params,
                                        struct eplb_supervisor **supervisor, struct eplb_error *error);

/** What is known of a rank. Any thread. */
struct eplb_rank_life eplb_supervisor_report(struct eplb_supervisor *supervisor, int32_t rank);

/** The first rank that is gone without having been asked to; -1: none. Any thread. */
int32_t eplb_supervisor_first_lost(struct eplb_supervisor *supervisor);

/** "rank 3 (pid 4711) was killed by signal 9 (KILL)", "rank 3 (pid 4711) was silent for 30.0 s". */
#define EPLB_RANK_LIFE_TEXT 160
void eplb_rank_life_text(const struct eplb_rank_life *report, char text[EPLB_RANK_LIFE_TEXT]);

/**
 * Ends all processes that still run and reaps them: SIGTERM, then after grace_ns SIGKILL; with a grace of
 * 0, SIGKILL at once. Any thread, also several; repeatable; a later call may shorten the grace. Returns
 * after the last `ended`, and within grace_ns and 10 s.
 *
 * @return EPLB_OK: all ended in time; EPLB_RANK_SILENT with the ranks that had been asked and had to be
 *         killed (also by an earlier call), and those that are stuck
 */
enum eplb_status eplb_supervisor_stop(struct eplb_supervisor *supervisor, int64_t grace_ns,
                                      struct eplb_error *error);

/**
 * From now on a rank that exits is STOPPED, with whatever code. Call it before the ranks are told to end;
 * a signal and silence are a loss as ever. Any thread.
 */
void eplb_supervisor_expect_end(struct eplb_supervisor *supervisor);

/**
 * Expects the end, and waits until no process is left and the last `ended` has returned; false at the
 * deadline (eplb_clock_system()). Any thread.
 */
bool eplb_supervisor_await_end(struct eplb_supervisor *supervisor, int64_t deadline);

/** Stops (without grace) what still runs, ends the thread, frees. NULL is allowed. */
void eplb_supervisor_destroy(struct eplb_supervisor *supervisor);

#endif
