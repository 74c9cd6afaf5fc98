/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The executor: carries out the engine's commands on one worker. One per EP rank.
 * Belongs to src/executor.
 *
 * Around every forward, also an empty one, the worker's thread calls eplb_executor_start_step with
 * the command that came with the forward; runs the forward under eplb_executor_tables and
 * eplb_executor_generations; calls eplb_executor_finish_step, after the draft layer's forwards too;
 * and sends the engine what eplb_executor_output fills. Prepares run in a thread of the executor's
 * own. When a rank has died, eplb_executor_abort_step takes the place of start_step and finish_step
 * for every submitted forward that cannot be finished, so that no command is lost.
 *
 * The layers switch between forwards only: a forward runs under one placement throughout. Whether
 * a layer switches is decided by all ranks together, and every rank acts on the same record; what a
 * rank did is in its output's levels, never in a return value.
 *
 * docs/PROTOCOL.md tells the protocol; examples/ranks.c is a small engine with its workers.
 */
#ifndef EPLB_EXECUTOR_H
#define EPLB_EXECUTOR_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/clock.h"
#include "eplb/group.h"
#include "eplb/hooks.h"
#include "eplb/log.h"
#include "eplb/migrate.h"
#include "eplb/placement.h"
#include "eplb/status.h"
#include "eplb/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Parameters. Set by eplb_executor_params_init, then changed by the host; values are copied at create. */
struct eplb_executor_params {
    size_t size;             /**< sizeof(struct eplb_executor_params). */
    struct eplb_shape shape; /**< Filled by eplb_shape_init. No default. */
    int32_t ep_rank;         /**< This rank, in [0, ep_size). No default. */
    const int32_t *initial;  /**< Legal table [num_layers][num_slots] that the model runs; NULL: the initial
                                placement. */
    const int32_t *initial_weights; /**< Its replica weights [num_layers][num_slots] that the model runs;
                                         NULL: equal ones. */
    const int32_t *layer_ids;       /**< Names of the layers in logs, [num_layers]; NULL: 0, 1, ... */
    const struct eplb_group *group; /**< This rank's; outlives the executor. No default. */
    struct eplb_weights *weights;   /**< This rank's; outlives the executor. No default. */
    const struct eplb_model_hooks *hooks; /**< Outlives the executor. No default. */
    int32_t transfer_timeout_seconds;     /**< From entry into finish_step, > 0; default 10. */
    int64_t transfer_chunk_bytes;         /**< Largest message, > 0; default 4 MiB. */
    int64_t transfer_inflight_bytes;      /**< Most bytes posted, sends and receives each, at least one
                                             chunk; default 64 MiB. */
    int32_t fused_mc2;                    /**< The model's execution, 0, 1 or 2: for the logs; default 0. */
    const struct eplb_log_sink *log;      /**< Outlives the executor; NULL: no log. */
    const struct eplb_clock *clock;       /**< Outlives the executor; default the system's. */
};

/** Writes the defaults. */
EPLB_API void eplb_executor_params_init(struct eplb_executor_params *params);

/**
 * One worker's executor. start_step, finish_step, abort_step and output are called by one thread at
 * a time, the one that runs the forwards and polls the group; stop by any thread. Nothing is
 * allocated after create.
 */
struct eplb_executor;

/**
 * Creates an executor and starts its thread.
 *
 * @param executor receives the executor; stop it, then free it with eplb_executor_destroy
 * @return EPLB_OK; EPLB_UNSUPPORTED with the name of the hook that the model lacks; EPLB_INVALID
 *         with a sentence when a parameter is out of range, the group is of another size or rank, the
 *         weights are registered with another shape or rank (both values are named), or the initial
 *         table or its weights are not legal (layer, rank and slot are named); EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_executor_create(const struct eplb_executor_params *params,
                                               struct eplb_executor **executor, struct eplb_error *error);

/**
 * Takes a forward's command, before the forward. An activation's staging is filled and its transfer
 * is started, or this rank votes no; then a prepare is queued or refused. Both show in the levels.
 * Blocks as long as the model's start_expert_weight_transfer.
 *
 * @param command decoded, with a seq above that of the last forward; not kept
 * @return EPLB_OK; EPLB_INVALID with a sentence when the command cannot be one of this run (its number
 *         or a token is not above the last one, fields contradict each other), EPLB_REFUSED when
 *         an activation is unresolved, another call is under way, or the executor was stopped:
 *         nothing was taken
 */
EPLB_API enum eplb_status eplb_executor_start_step(struct eplb_executor *executor,
                                                   const struct eplb_command *command,
                                                   struct eplb_error *error);

/**
 * Ends the forward that start_step began: waits until the activation that it carried is decided and
 * nothing of it is outstanding, and switches the layer or keeps it. Returns at once when there was
 * none. Blocks for the transfer timeout and not much longer, because then this rank aborts the
 * record unless it is decided.
 *
 * The transfer timeout runs on the executor's clock. The bound of twice as long runs on
 * eplb_clock_system(), so that the call ends also when the host's clock stands still.
 *
 * @return EPLB_OK; EPLB_REFUSED when another call is under way; EPLB_RANK_SILENT with layer and token
 *         when after twice the transfer timeout the record is still undecided or the group still
 *         holds operations: nothing was assumed, and the call may be repeated
 */
EPLB_API enum eplb_status eplb_executor_finish_step(struct eplb_executor *executor, struct eplb_error *error);

/**
 * Gives up a forward that was submitted and cannot be finished here. Begun: votes no, unless this
 * rank has voted, waits as finish_step, and does what the record says. Not begun: takes the command,
 * votes no on its activation and reports its prepare as failed. A forward that was finished is left
 * as it is.
 *
 * When a rank has died, it is due on every live rank for each submitted forward. Who learns of the
 * death tells two parties: group->member_dead, which ends blocked collectives and fails operations,
 * and eplb_manager_rank_dead, which does not call it.
 *
 * @param command the forward's, with the seq of the last start_step or above it
 * @return as start_step and finish_step
 */
EPLB_API enum eplb_status eplb_executor_abort_step(struct eplb_executor *executor,
                                                   const struct eplb_command *command,
                                                   struct eplb_error *error);

/**
 * Fills the output of the last forward: who, sizes, the generations that it ran under, and the
 * levels as they are now. To be called after finish_step or abort_step has returned; not by a hook.
 * Does not block.
 *
 * @param prefix the forward's counts [num_layers][slots_per_rank], inclusive prefix sums along the
 *               slots; borrowed, not read
 * @param output borrows prefix, and the generations until the next start_step or abort_step
 * @return EPLB_OK; EPLB_REFUSED before the first forward, while another call is under way, and while
 *         an activation is unresolved
 */
EPLB_API enum eplb_status eplb_executor_output(struct eplb_executor *executor, const int64_t *prefix,
                                               struct eplb_worker_output *output, struct eplb_error *error);

/**
 * The generations [num_layers] that the next forward runs under; each starts at 0. Owned by the
 * executor, and changed only by finish_step and abort_step. To be read by the forward's thread.
 */
EPLB_API const uint64_t *eplb_executor_generations(const struct eplb_executor *executor);

/** The tables [num_layers][num_slots] of these generations. As eplb_executor_generations. */
EPLB_API const int32_t *eplb_executor_tables(const struct eplb_executor *executor);

/**
 * The versions [num_layers] of the replica weights that the forward runs under: 0 with a new placement,
 * then those of the weight updates that were taken. Changed by start_step before the forward, and by a
 * switch. As eplb_executor_generations.
 */
EPLB_API const uint64_t *eplb_executor_weight_versions(const struct eplb_executor *executor);

/** The replica weights [num_layers][num_slots] of these versions. As eplb_executor_weight_versions. */
EPLB_API const int32_t *eplb_executor_replica_weights(const struct eplb_executor *executor);

/**
 * Refuses new forwards, makes a finish_step that waits give up as abort_step does, and waits for the
 * executor's thread, for calls of other threads, and for an unresolved activation, which only the
 * forward's thread can resolve: finish_step or abort_step comes before a stop in that thread.
 * A prepare that has not begun is dropped. May be repeated.
 *
 * @param timeout_ns how long to wait for all of that, on eplb_clock_system(), >= 0
 * @return EPLB_OK: no thread is left, no hook will be called any more; EPLB_RANK_SILENT with a
 *         sentence that names the hook and its layer, or the activation, that is still under way
 */
EPLB_API enum eplb_status eplb_executor_stop(struct eplb_executor *executor, int64_t timeout_ns,
                                             struct eplb_error *error);

/**
 * Frees an executor that stopped; NULL is allowed. One that a hook keeps busy is left in memory,
 * because the thread that hangs still uses it.
 */
EPLB_API void eplb_executor_destroy(struct eplb_executor *executor);

#ifdef __cplusplus
}
#endif
#endif
