/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A worker for tests: a rank of a `threads` group, a model of two layers with two tensors per expert
 * whose bytes say which layer and expert they belong to, and an executor over both. Its hooks can be
 * made to fail or to hang.
 */
#ifndef UNIT_EXECUTOR_WORKER_H
#define UNIT_EXECUTOR_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "eplb/executor.h"
#include "eplb/threads.h"
#include "os/thread.h"

enum { WORKER_LAYERS = 2, WORKER_EXPERTS = 4, WORKER_MAX_SLOTS = 8, WORKER_LOG = 8192 };

/** What a hook does when it is called. */
enum worker_mood { WORKER_WORKS, WORKER_FAILS, WORKER_HANGS };

struct worker {
    struct eplb_shape shape;
    struct eplb_executor_params params; /* to be changed between worker_init and worker_create */
    struct eplb_model_hooks hooks;
    struct eplb_weights *weights;
    struct eplb_executor *executor;
    unsigned char matrices[WORKER_LAYERS][WORKER_MAX_SLOTS][24];
    unsigned char scales[WORKER_LAYERS][WORKER_MAX_SLOTS][4];
    int32_t log2phy[WORKER_LAYERS][WORKER_EXPERTS];
    uint64_t seq;

    struct eplb_mutex lock; /* everything below */
    struct eplb_condition changed;
    enum worker_mood prepare, start, update;
    bool hanging; /* a hook hangs; it goes on when the moods are WORKER_WORKS */
    int32_t commits, drops;
    enum eplb_status output_inside; /* what eplb_executor_output said inside update_expert_weight */
    char log[WORKER_LOG];           /* lines, each ended by a newline */
    struct eplb_log_sink sink;
};

/** Makes a group; its engine view opens records. */
struct eplb_threads *worker_group(int32_t ep_size);

/** Fills a worker's model and parameters for rank `rank` of the group. */
void worker_init(struct worker *worker, const struct eplb_threads *threads, int32_t rank, int32_t ep_size);

/** Creates the executor; fails the test when it cannot. */
void worker_create(struct worker *worker);

/** Stops and frees everything but the worker itself. */
void worker_destroy(struct worker *worker);

/** The next forward's command, empty. */
struct eplb_command worker_command(struct worker *worker);

/** The next forward's command with a prepare of the layer's next table. */
struct eplb_command worker_prepare(struct worker *worker, uint64_t token, int32_t layer,
                                   const int32_t *expert_ids);

/** The next forward's command with an activation. */
struct eplb_command worker_activate(struct worker *worker, uint64_t token, int32_t layer,
                                    uint64_t prepare_token);

/** A whole forward; fails the test when a step of it fails. */
void worker_forward(struct worker *worker, const struct eplb_command *command);

struct eplb_worker_levels worker_levels(struct worker *worker);

/** Runs empty forwards until the prepare of a token is not running any more, and returns its status. */
enum eplb_prepare_status worker_await_prepare(struct worker *worker, uint64_t token);

/** Fails the test unless every slot holds what the executor's tables say. */
void worker_check_weights(const struct worker *worker);

/** Sets all moods, and lets a hook that hangs go on when they are WORKER_WORKS. */
void worker_set_moods(struct worker *worker, enum worker_mood prepare, enum worker_mood start,
                      enum worker_mood update);

/** Waits until a hook hangs. */
void worker_await_hang(struct worker *worker);

#endif
