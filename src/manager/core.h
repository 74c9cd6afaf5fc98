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
    int64_t update_interval_ns;       /* >= 0 */
    int64_t update_interval_forwards; /* > 0: the interval in forwards submitted, not in time */
    int64_t prepare_timeout_ns;       /* > 0 */
    int64_t transfer_timeout_ns;      /* > 0 */
    int32_t overlap;                  /* 0 or 1: forwards submitted ahead of the output */
    uint64_t first_token;             /* above every token in the workers' levels; >= 1 */
    uint64_t first_seq;               /* number of the first forward; >= 1 */
    const int32_t *initial;           /* [L][num_slots] or NULL */
    const uint64_t *generations;      /* [L] of it, as living workers have them; NULL: all 0 */
    const uint64_t *weight_versions;  /* [L] of its replica weights, likewise; NULL: all 0 */
    const int32_t *initial_weights;   /* [L][num_slots] likewise; NULL: equal ones */
    enum eplb_replica_routing replica_routing;
    double weights_decay;                   /* what a sample leaves of the recent load */
    const int32_t *layer_ids;               /* [L] or NULL */
    struct eplb_policy_settings settings;   /* all 0: the defaults */
    int32_t max_moves;                      /* slots of a layer; >= 0, 0: any number */
    int64_t expert_bytes;                   /* >= 0, 0: unknown */
    double bytes_per_second;                /* >= 0, 0: measured */
    int32_t max_break_even_forwards;        /* >= 0, 0: off */
    double shift_trigger;                   /* [0, EPLB_MAX_SHIFT_TRIGGER], 0: off */
    int64_t min_tokens_per_layer;           /* >= 0, 0: any number, after a shift enough */
    const struct eplb_log_sink *log;        /* lines of events */
    const struct eplb_log_sink *policy_log; /* lines of the policy run, from whichever thread runs it */
};

struct eplb_manager_core;

/** The core's parameters of a manager's, without logs. */
struct eplb_manager_core_params eplb_manager_core_params_of(const struct eplb_manager_params *params);

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

/**
 * Solves what SOLVE_WEIGHTS asked for: best splits of the recent load, the worst layer first, until all are
 * solved that new weights may help, or the budget is spent. Touches only what was laid by for it, which no
 * event touches until WEIGHTS_DONE: may run in another thread, beside events and a policy run.
 *
 * @return [num_updates] for WEIGHTS_DONE; valid until the next SOLVE_WEIGHTS
 */
const struct eplb_weight_update *eplb_manager_core_solve_weights(struct eplb_manager_core *core,
                                                                 const struct eplb_clock *clock,
                                                                 int64_t budget_ns, int32_t *num_updates);

void eplb_manager_core_status(const struct eplb_manager_core *core, int64_t now,
                              struct eplb_manager_status *status);

/** The committed tables [L][num_slots] and generations [L]. */
const int32_t *eplb_manager_core_tables(const struct eplb_manager_core *core);

/** Verdicts [L] and candidates [L][num_slots] of the last policy run. Not while one is under way. */
const struct eplb_benefit *eplb_manager_core_benefits(const struct eplb_manager_core *core);
const int32_t *eplb_manager_core_candidates(const struct eplb_manager_core *core);

/** A layer's name in messages. */
int32_t eplb_manager_layer_id(const struct eplb_manager_core *core, int32_t layer);

/** The open window. */
const struct eplb_window *eplb_manager_core_window(const struct eplb_manager_core *core);

/** The window of the last policy run; after a shift, the one that it ended. */
const struct eplb_window *eplb_manager_core_closed_window(const struct eplb_manager_core *core);

/** The versions [L] of the replica weights handed out last, and these [L][num_slots]. */
const uint64_t *eplb_manager_core_versions(const struct eplb_manager_core *core);
const int32_t *eplb_manager_core_replica_weights(const struct eplb_manager_core *core);

uint64_t eplb_manager_core_generation(const struct eplb_manager_core *core, int32_t layer);

#endif
