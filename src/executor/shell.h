/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Inside the executor's shell: a lock, a clock, the group, the hooks, and a thread for prepares.
 *
 * The lock guards the core. It is held for one event or one action's taking, never during a hook, a
 * group operation or a log line. Two threads come to it: the forward's, and the one that prepares;
 * the second one's events make no actions, so all actions are the forward's thread's.
 */
#ifndef EXECUTOR_SHELL_H
#define EXECUTOR_SHELL_H

#include "base/log.h"
#include "eplb/executor.h"
#include "executor/core.h"
#include "os/thread.h"

/** What of the model is running in a thread; hook NULL: nothing. */
struct hook_call {
    const char *hook;
    int32_t layer;
};

/** Numbers of the activation that is under way, for its log line. The forward's thread's. */
struct activation_numbers {
    struct eplb_activation_token token; /* 0: none is open */
    int64_t started_at;
    int32_t changed_slots;
    int32_t messages;
    int64_t activation_ns;
};

/** One path's tasks, for heartbeats. */
struct path_numbers {
    uint64_t ok, failed; /* since the last heartbeat */
    uint64_t completed, timed_out;
    uint64_t last_token;
};

struct eplb_executor {
    struct eplb_executor_params params; /* without the arrays */
    struct activation_numbers activation;

    struct eplb_mutex lock;        /* everything below */
    struct eplb_condition wake;    /* the background thread has work, or must stop */
    struct eplb_condition changed; /* for the threads of the host: a call or the thread ended, a stop began */
    struct eplb_executor_core *core;
    struct eplb_thread thread;
    bool stopping;
    bool thread_ended;
    bool joined;
    bool in_call; /* the forward's thread is in a function of this executor */
    struct hook_call background, forward;
    struct path_numbers prepares, activations;
    int64_t heartbeat_at;
    int64_t last_output_at; /* -1: none */
};

int64_t eplb_executor_now(const struct eplb_executor *executor);

/** A layer's name in logs and sentences. */
int32_t eplb_executor_layer_id(const struct eplb_executor *executor, int32_t layer);

/** Nanoseconds as milliseconds, for a log line. */
struct eplb_log_value eplb_executor_ms(int64_t ns);

/* shell_prepare.c */

/** The background thread: runs the queued prepares and the heartbeats until the executor stops. */
void eplb_executor_run_background(void *argument);

/** The log line of a prepare. */
void eplb_executor_log_prepare(const struct eplb_executor *executor, int32_t layer,
                               struct eplb_prepare_token token, int64_t ns, const char *status,
                               const char *reason);

/* shell_step.c */

/** One event under the lock, then all actions that the core has for the forward's thread. */
void eplb_executor_feed(struct eplb_executor *executor, const struct eplb_executor_event *event);

/** Polls group and record until the core is idle, with a bound. */
enum eplb_status eplb_executor_drain(struct eplb_executor *executor, struct eplb_error *error);

#endif
