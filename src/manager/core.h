/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The manager core: timer, rounds, prepare, activation. Pure: (event, time) in, actions out.
 *
 * State of a layer: idle, preparing, ready, activating. At most one layer is preparing or ready,
 * and at most one is activating. See docs/PROTOCOL.md for the rules and where each one is.
 */
#ifndef MANAGER_CORE_H
#define MANAGER_CORE_H

#include <stdbool.h>

#include "eplb/manager.h"

struct eplb_manager_core_params {
    struct eplb_shape shape;
    const struct eplb_policy_ops *ops;
    double min_peak_load_improvement;
    int64_t update_interval_ns;             /* >= 0 */
    int64_t update_interval_forwards;       /* > 0: the interval in forwards submitted, not in time */
    int64_t prepare_timeout_ns;             /* > 0 */
    int64_t transfer_timeout_ns;            /* > 0 */
    int32_t overlap;                        /* 0 or 1: forwards submitted ahead of the output */
    uint64_t first_token;                   /* above every token in the workers' levels; >= 1 */
    uint64_t first_seq;                     /* number of the first forward; >= 1 */
    const int32_t *initial;                 /* [L][num_slots] or NULL */
    const uint64_t *generations;            /* [L] of it, as living workers have them; NULL: all 0 */
    const int32_t *layer_ids;               /* [L] or NULL */
    const struct eplb_log_sink *log;        /* lines of events */
    const struct eplb_log_sink *policy_log; /* lines of the policy run, from whichever thread runs it */
};

struct eplb_manager_core;

enum eplb_manager_event_type {
    EPLB_MANAGER_SUBMIT,      /* the forward `seq` is about to be handed out: asks for its command */
    EPLB_MANAGER_DROPPED,     /* `seq` will not be run; no rank was given it */
    EPLB_MANAGER_OUTPUTS,     /* `seq` came back */
    EPLB_MANAGER_POLICY_DONE, /* the policy run ended with `status` */
    EPLB_MANAGER_RANK_DEAD,   /* `rank` */
    EPLB_MANAGER_TICK,        /* nothing but the time */
};

struct eplb_manager_event {
    enum eplb_manager_event_type type;
    uint64_t seq;
    const struct eplb_dp_batch *batches; /* SUBMIT: [num_batches] */
    int32_t num_batches;
    bool warmup; /* SUBMIT */
    const struct eplb_worker_output
        *outputs; /* OUTPUTS: [num_outputs], prefix NULL where a rank's is lacking */
    int32_t num_outputs;
    enum eplb_status status; /* POLICY_DONE */
    const char *reason;      /* POLICY_DONE: the policy's sentence when it failed */
    int32_t rank;            /* RANK_DEAD */
};

enum eplb_manager_action_type {
    EPLB_MANAGER_COMMAND,      /* hand out `command` with the forward */
    EPLB_MANAGER_OPEN_RECORD,  /* open the decision record of `token`, before the command goes out */
    EPLB_MANAGER_ABORT_RECORD, /* abort it unless decided */
    EPLB_MANAGER_RUN_POLICY,   /* call eplb_manager_core_run_policy outside locks, then feed POLICY_DONE */
    EPLB_MANAGER_COMMITTED,    /* `layer` runs the new placement from `generation` on */
    EPLB_MANAGER_ABORTED,      /* `layer` was given up in this round: `why` */
    EPLB_MANAGER_STOP,         /* the run must end: `error` */
};

enum eplb_abort_reason {
    EPLB_ABORT_FAILED,    /* a rank reported a failed prepare */
    EPLB_ABORT_TIMEOUT,   /* not all ranks prepared in time */
    EPLB_ABORT_KEPT,      /* the ranks voted the activation down */
    EPLB_ABORT_STALE,     /* a ready layer no longer passes the gate */
    EPLB_ABORT_RANK_DEAD, /* a rank died */
};

const char *eplb_abort_reason_text(enum eplb_abort_reason why);

struct eplb_manager_action {
    enum eplb_manager_action_type type;
    const struct eplb_command *command;
    struct eplb_activation_token token;
    int32_t layer;
    uint64_t generation;
    enum eplb_abort_reason why;
    int64_t wait_ns; /* COMMITTED: from the hand-out of the activation to the last report */
    const struct eplb_error *error;
};

enum eplb_status eplb_manager_core_create(const struct eplb_manager_core_params *params,
                                          struct eplb_manager_core **core, struct eplb_error *error);
void eplb_manager_core_destroy(struct eplb_manager_core *core);

/** One event; then take the actions with eplb_manager_core_next, in order, until it returns false. */
void eplb_manager_core_step(struct eplb_manager_core *core, const struct eplb_manager_event *event,
                            int64_t now);
bool eplb_manager_core_next(struct eplb_manager_core *core, struct eplb_manager_action *action);

/**
 * The policy run that RUN_POLICY asked for. Touches only the closed window and the planner, which no
 * event touches until POLICY_DONE: may run in another thread, beside events.
 */
enum eplb_status eplb_manager_core_run_policy(struct eplb_manager_core *core, struct eplb_error *error);

void eplb_manager_core_status(const struct eplb_manager_core *core, int64_t now,
                              struct eplb_manager_status *status);

/** The committed tables [L][num_slots] and generations [L]. */
const int32_t *eplb_manager_core_tables(const struct eplb_manager_core *core);
/** A layer's name in messages. */
int32_t eplb_manager_layer_id(const struct eplb_manager_core *core, int32_t layer);

/** The open window. */
const struct eplb_window *eplb_manager_core_window(const struct eplb_manager_core *core);

/** The window of the last policy run. */
const struct eplb_window *eplb_manager_core_closed_window(const struct eplb_manager_core *core);

uint64_t eplb_manager_core_generation(const struct eplb_manager_core *core, int32_t layer);

#endif
