/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The manager: decides when to rebalance, and leads every layer from plan to switch. One per
 * engine. Belongs to src/manager.
 *
 * The engine calls eplb_manager_submit before it hands a forward to the workers, and passes the
 * command that it gets along with the forward's input to every rank; eplb_manager_outputs when all
 * outputs of a forward are there; eplb_manager_dropped for a forward that was submitted and will
 * not be run. Policies run in a thread of the manager's own, and weights are solved in another, both
 * outside the lock that these calls take. docs/PROTOCOL.md tells the protocol.
 */
#ifndef EPLB_MANAGER_H
#define EPLB_MANAGER_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/clock.h"
#include "eplb/load.h"
#include "eplb/log.h"
#include "eplb/placement.h"
#include "eplb/policy.h"
#include "eplb/routing.h"
#include "eplb/status.h"
#include "eplb/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

struct eplb_group;            /* eplb/group.h */
struct eplb_metrics;          /* eplb/metrics.h */
struct eplb_manager_observer; /* below */

/** Largest shift_trigger. */
#define EPLB_MAX_SHIFT_TRIGGER 1000

/** Parameters. Set by eplb_manager_params_init, then changed by the host; values are copied at create. */
struct eplb_manager_params {
    size_t size;                       /**< sizeof(struct eplb_manager_params). */
    struct eplb_shape shape;           /**< Filled by eplb_shape_init; ep_size >= 2. No default. */
    const struct eplb_policy_ops *ops; /**< The policy; default balanced. */
    double min_peak_load_improvement;  /**< Gate threshold, [0, 1]; default 0.05. */
    int32_t update_interval_seconds;   /**< >= 0; default 1000; 0: at once. */
    int32_t update_interval_steps;     /**< >= 0; default 0. Above 0 the interval is so many forwards
                                            submitted, and not a time: for traces and tests. */
    int32_t prepare_timeout_seconds;   /**< > 0; default 30. */
    int32_t transfer_timeout_seconds;  /**< > 0; default 10. */
    int32_t overlap;                   /**< Forwards submitted ahead of the output: 0 (default) or 1. */
    uint64_t first_token;              /**< Above every token in the workers' levels; default 1. */
    uint64_t first_seq;                /**< Number of the first forward; default 1. */
    const int32_t *initial; /**< Legal table [L][R][K] that the workers run; NULL: the initial placement. */
    const uint64_t *generations;     /**< Its generations, [L], as living workers have them; NULL: all 0. */
    const uint64_t *weight_versions; /**< Versions of its replica weights, [L], likewise; NULL: all 0. */
    const int32_t *initial_weights;  /**< Its replica weights [L][R][K], likewise; NULL: equal ones. */
    const int32_t *layer_ids;        /**< Names of the layers in messages, [L]; NULL: 0, 1, ... */
    enum eplb_replica_routing replica_routing; /**< How the workers route; default static. Says how the gate
                                                    judges, and whether commands carry weights: from
                                                    `weighted` on with tables, `adaptive` updates too. */
    double weights_decay;         /**< adaptive: what a further sample leaves of the recent load at most, in
                                       [0, EPLB_MAX_RECENT_DECAY]; default 0.97. Large samples leave less:
                                       see eplb_aggregator_keep_recent. */
    int32_t solve_budget_us;      /**< adaptive: most time that solving all layers once takes, > 0, in
                                       microseconds; layers not reached wait; default 20000. */
    double shift_trigger;         /**< In [0, EPLB_MAX_SHIFT_TRIGGER]; default 0: off. Standard deviations by
                                       which the traffic must depart from what a placement was planned from
                                       before a round starts ahead of its time. */
    int64_t min_tokens_per_layer; /**< >= 0: counts that a layer's window must have before a policy run, a
                                       token once for each expert that it went to; default 0: any number,
                                       and 128 for each expert after a shift. */
    int64_t expert_bytes;         /**< Bytes of one expert's tensors in one layer: for the metric of moved
                                       bytes, and what a migration costs; default 0: unknown. */
    struct eplb_metrics *metrics; /**< Counted into; outlives the manager; NULL: no metrics. */
    const struct eplb_group *group;  /**< For the decision record only; outlives the manager. No default. */
    const struct eplb_log_sink *log; /**< Outlives the manager; NULL: no log. */
    const struct eplb_clock *clock;  /**< Outlives the manager; default the system's. */
    const struct eplb_manager_observer *observer; /**< Sees every event and action; outlives the manager;
                                                       NULL (default): nobody does. */
    struct eplb_policy_settings settings;         /**< What the policy is told beside the load. */
    int32_t max_moves_per_layer;  /**< Slots of a layer that a candidate may change; >= 0; default 0:
                                       any number. */
    int32_t max_break_even_steps; /**< Refuse a candidate that pays for its migration after more forwards;
                                       >= 0; default 0: off. What is not known yet refuses nothing. */
    int64_t bandwidth_bytes_per_second; /**< What a rank receives in a migration; >= 0; default 0: measured,
                                             from activations. */
};

/** Writes the defaults. */
EPLB_API void eplb_manager_params_init(struct eplb_manager_params *params);

struct eplb_manager;

/** Tokens of one DP rank's batch. Both zero: an empty batch. */
struct eplb_dp_batch {
    int64_t prefill_tokens; /**< >= 0 */
    int64_t decode_tokens;  /**< >= 0 */
};

/** A forward that is about to be handed out. */
struct eplb_forward {
    size_t size;                         /**< sizeof(struct eplb_forward). */
    uint64_t seq;                        /**< One more than the last one submitted, dropped ones included. */
    const struct eplb_dp_batch *batches; /**< [num_batches], one per DP rank. */
    int32_t num_batches;                 /**< >= 1. */
    int warmup;                          /**< 1: graph warm-up or capture. */
};

/**
 * Creates a manager and starts its thread.
 *
 * @return EPLB_OK; EPLB_INVALID with a sentence when a parameter is out of range; EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_manager_create(const struct eplb_manager_params *params,
                                              struct eplb_manager **manager, struct eplb_error *error);

/** Stops and frees the manager. A policy run or a solve under way is waited for. NULL is allowed. */
EPLB_API void eplb_manager_destroy(struct eplb_manager *manager);

/**
 * Tells of a forward before any rank is given it, and gets its command.
 *
 * @param command receives the command; its expert_ids point into the manager and are valid until
 *                the next but one eplb_manager_submit
 * @return EPLB_OK; the status and sentence with which the run must end. Thread-safe
 */
EPLB_API enum eplb_status eplb_manager_submit(struct eplb_manager *manager,
                                              const struct eplb_forward *forward,
                                              struct eplb_command *command, struct eplb_error *error);

/**
 * Tells that a submitted forward will not be run. Legal only while no rank was given it.
 *
 * @return EPLB_OK; the status and sentence with which the run must end. Thread-safe
 */
EPLB_API enum eplb_status eplb_manager_dropped(struct eplb_manager *manager, uint64_t seq,
                                               struct eplb_error *error);

/**
 * Tells the outputs of a forward, in the order of submission.
 *
 * @param outputs     [num_outputs], EP rank r at outputs[r]; prefix NULL where a rank's output lacks.
 *                    One of another forward or rank (seq, ep_rank) counts as lacking, with a warning
 * @param num_outputs must be ep_size, else the sample is refused and the levels are ignored
 * @return EPLB_OK; the status and sentence with which the run must end. Thread-safe
 */
EPLB_API enum eplb_status eplb_manager_outputs(struct eplb_manager *manager, uint64_t seq,
                                               const struct eplb_worker_output *outputs, int32_t num_outputs,
                                               struct eplb_error *error);

/**
 * Tells that a rank is dead: what no rank was given is given up, for an activation that was handed out
 * the decision record decides, and no further command is handed out. The host tells the group too
 * (member_dead), and every live rank calls eplb_executor_abort_step for each submitted forward that it
 * cannot finish. Idempotent, thread-safe; rank is in [0, ep_size).
 */
EPLB_API void eplb_manager_rank_dead(struct eplb_manager *manager, int32_t rank);

/** What is going on. */
struct eplb_manager_status {
    size_t size;                                   /**< sizeof(struct eplb_manager_status). */
    int32_t num_dead;                              /**< Ranks that were told dead. */
    int policy_running;                            /**< A policy run is under way. */
    int round;                                     /**< A round is in progress. */
    int32_t layers_waiting;                        /**< Layers of the round that have not begun. */
    int32_t preparing_layer;                       /**< Layer row, or EPLB_NO_LAYER. */
    int ready;                                     /**< That layer is ready. */
    struct eplb_prepare_token prepare_token;       /**< Its token. */
    int32_t activating_layer;                      /**< Layer row, or EPLB_NO_LAYER. */
    struct eplb_activation_token activation_token; /**< Its token. */
    int activation_stuck;                          /**< It was reported as stuck and still is. */
    int64_t activation_age_ns;                     /**< Since its command was handed out. */
    int64_t last_sample_age_ns;                    /**< -1: none yet. */
    uint64_t policy_runs, policy_failures;         /**< Policy runs started; ended with a failure. */
    uint64_t rounds;                               /**< Rounds with at least one layer. */
    uint64_t layers_published;                     /**< Layers that passed the gate. */
    uint64_t layers_committed;                     /**< Layers that switched. */
    uint64_t layers_aborted;                       /**< Layers given up, for whatever reason. */
    uint64_t shifts;                               /**< Shifts of the traffic that were found. */
    uint64_t weight_solves, weight_updates;        /**< Solves begun; weight updates handed out. */
    uint64_t layers_timed_out;                     /**< Of these, by the prepare timeout. */
    uint64_t slots_moved;                          /**< Slots that commits gave another expert. */
    uint64_t slots_sent; /**< Of these, those whose weights came from another rank. */
    uint64_t samples_taken, samples_refused, samples_lacking; /**< What became of the samples. */
    double bytes_per_second;  /**< What a rank receives in a migration: given, or measured from the hand-out
                                   of activations to their last report; 0: not known yet. */
    double seconds_per_token; /**< Time of forwards per token of the slowest rank, summed over the layers; 0:
                                   not known yet. */
};

/** Tells what is going on. Thread-safe. */
EPLB_API void eplb_manager_status(struct eplb_manager *manager, struct eplb_manager_status *status);

/**
 * Copies the committed placement of a layer.
 *
 * @param layer      layer row, in [0, num_layers)
 * @param expert_ids receives [ep_size][slots_per_rank]; NULL: only the generation is wanted
 * @return its generation. Thread-safe
 */
EPLB_API uint64_t eplb_manager_placement(struct eplb_manager *manager, int32_t layer, int32_t *expert_ids);

/** What the manager's core is told. Values are stable. */
enum eplb_manager_event_type {
    EPLB_MANAGER_SUBMIT = 0,       /**< The forward `seq` is about to be handed out: asks for its command. */
    EPLB_MANAGER_DROPPED = 1,      /**< `seq` will not be run; no rank was given it. */
    EPLB_MANAGER_OUTPUTS = 2,      /**< `seq` came back. */
    EPLB_MANAGER_POLICY_DONE = 3,  /**< The policy run ended with `status`. */
    EPLB_MANAGER_RANK_DEAD = 4,    /**< `rank` is dead. */
    EPLB_MANAGER_TICK = 5,         /**< Nothing but the time. */
    EPLB_MANAGER_WEIGHTS_DONE = 6, /**< Weights were solved. */
};

/** One event. What is not of its type is 0. Arrays are borrowed. */
struct eplb_manager_event {
    enum eplb_manager_event_type type;        /**< Which one. */
    uint64_t seq;                             /**< SUBMIT, DROPPED, OUTPUTS: the forward. */
    const struct eplb_dp_batch *batches;      /**< SUBMIT: [num_batches]. */
    int32_t num_batches;                      /**< SUBMIT. */
    int warmup;                               /**< SUBMIT: 1 for graph warm-up or capture. */
    const struct eplb_worker_output *outputs; /**< OUTPUTS: [num_outputs], prefix NULL where one lacks. */
    int32_t num_outputs;                      /**< OUTPUTS. */
    enum eplb_status status;                  /**< POLICY_DONE: how the run ended. */
    const char *reason;                       /**< POLICY_DONE: the policy's sentence when it failed. */
    int32_t rank;                             /**< RANK_DEAD. */
    const struct eplb_benefit *benefits;      /**< POLICY_DONE, for observers: the verdicts [num_layers]. */
    const int32_t *candidates;                /**< POLICY_DONE, for observers: [num_layers][num_slots]. */
    const struct eplb_weight_update *weights; /**< WEIGHTS_DONE: [num_weights], the worst layer first; the
                                                   core gives the version, it is 0 here. */
    int32_t num_weights;                      /**< WEIGHTS_DONE. */
};

/** What the core asks for or tells. Values are stable. */
enum eplb_manager_action_type {
    EPLB_MANAGER_COMMAND = 0,       /**< Hand out `command` with the forward. */
    EPLB_MANAGER_OPEN_RECORD = 1,   /**< Open the decision record of `token`, before the command goes out. */
    EPLB_MANAGER_ABORT_RECORD = 2,  /**< Abort it unless decided. */
    EPLB_MANAGER_RUN_POLICY = 3,    /**< Run the policy outside locks; POLICY_DONE tells its end. */
    EPLB_MANAGER_COMMITTED = 4,     /**< `layer` runs the new placement from `generation` on. */
    EPLB_MANAGER_ABORTED = 5,       /**< `layer` was given up in this round: `why`. */
    EPLB_MANAGER_STOP = 6,          /**< The run must end: `error`. */
    EPLB_MANAGER_SOLVE_WEIGHTS = 7, /**< Solve weights outside locks; WEIGHTS_DONE tells them. */
};

/** Why a layer was given up. Values are stable. */
enum eplb_abort_reason {
    EPLB_ABORT_FAILED = 0,    /**< A rank reported a failed prepare. */
    EPLB_ABORT_TIMEOUT = 1,   /**< Not all ranks prepared in time. */
    EPLB_ABORT_KEPT = 2,      /**< The ranks voted the activation down. */
    EPLB_ABORT_STALE = 3,     /**< A ready layer no longer passes the gate. */
    EPLB_ABORT_RANK_DEAD = 4, /**< A rank died. */
};

/** The text of a reason; "unknown" for a value that is none. Thread-safe. */
EPLB_API const char *eplb_abort_reason_text(enum eplb_abort_reason why);

/** One action. What is not of its type is 0, and layer EPLB_NO_LAYER. Pointers are borrowed. */
struct eplb_manager_action {
    enum eplb_manager_action_type type; /**< Which one. */
    const struct eplb_command *command; /**< COMMAND. */
    struct eplb_activation_token token; /**< OPEN_RECORD, ABORT_RECORD. */
    int32_t layer;                      /**< COMMITTED, ABORTED: layer row. */
    uint64_t generation;                /**< COMMITTED. */
    enum eplb_abort_reason why;         /**< ABORTED. */
    int64_t wait_ns;                    /**< COMMITTED: from the activation's hand-out to the last report. */
    const struct eplb_error *error;     /**< STOP. */
    const int32_t *expert_ids;          /**< COMMITTED: the new table [num_slots]. */
};

/**
 * Sees what goes into a manager's core and what comes out of it, all of it and in order: enough to run
 * the same again. Owned by the host; it outlives the manager. A function that is NULL is not called.
 *
 * `start` is called once by eplb_manager_create, in its thread. The others are called with the manager's
 * lock held, one at a time, from whichever thread tells the manager something or from the manager's own:
 * every forward waits for them, so they do not block for long, and they must not call the manager. What
 * their arguments point to is valid until they return. They change nothing.
 */
struct eplb_manager_observer {
    size_t size;   /**< sizeof(struct eplb_manager_observer). */
    void *context; /**< First argument of the functions. */
    /** The manager's parameters, checked. The manager may still fail to start. */
    void (*start)(void *context, const struct eplb_manager_params *params);
    /** The core is about to take an event at `now`, a time of the manager's clock. */
    void (*event)(void *context, const struct eplb_manager_event *event, int64_t now);
    /** What the core did about the last event, an action at a time; about most, it does nothing. */
    void (*action)(void *context, const struct eplb_manager_action *action);
};

#ifdef __cplusplus
}
#endif
#endif
