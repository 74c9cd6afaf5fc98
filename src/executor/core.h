/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The executor core: one worker's side of the protocol. Pure: (event, time) in, actions out. The
 * transfer core is a part of it.
 *
 * start_step takes, in this order: activation, then weights, then prepare. A worker holds at most two
 * finished plans, by token; beside them one may be running and one queued, because the background thread has
 * depth one: the newest prepare replaces one that has not begun, and a superseded token's result is
 * discarded.
 *
 * Hooks, posts and votes are actions; their results come back as events. The background thread's
 * events (PREPARE_BEGAN, PREPARED) make no actions, so they may come between any two actions of the
 * forward's thread; the caller only keeps calls from overlapping.
 */
#ifndef EXECUTOR_CORE_H
#define EXECUTOR_CORE_H

#include <stdbool.h>

#include "eplb/wire.h"
#include "migrate/transfer.h"

struct eplb_executor_core_params {
    struct eplb_shape shape;
    int32_t ep_rank;
    const int32_t *initial;         /* [L][num_slots] legal, generation 0; NULL: the initial placement */
    const int32_t *initial_weights; /* [L][num_slots] of it, version 0; NULL: equal ones */
    bool takes_weights;             /* the model spreads tokens by weight: updates are not ignored */
    const int32_t *layer_ids;       /* [L] names of the layers in sentences, copied; NULL: 0, 1, ... */
    int64_t expert_bytes;
    struct eplb_transfer_limits limits;
};

struct eplb_executor_core;

enum eplb_executor_event_type {
    EPLB_EXECUTOR_START_STEP,    /* command that eplb_executor_core_check accepts: before the forward */
    EPLB_EXECUTOR_PREPARE_BEGAN, /* token: the background thread took the queued prepare */
    EPLB_EXECUTOR_PREPARED,      /* token, ok: the background thread is done */
    EPLB_EXECUTOR_MATERIALISED,  /* ok: start_expert_weight_transfer returned */
    EPLB_EXECUTOR_FINISH_STEP,   /* after the forward */
    EPLB_EXECUTOR_COMPLETED,     /* completion of a group operation */
    EPLB_EXECUTOR_DECIDED,       /* decision as read from the record; UNDECIDED brings only the time */
    EPLB_EXECUTOR_ABORT_STEP,    /* the forward will not finish: vote no, drain, report */
};

struct eplb_executor_event {
    enum eplb_executor_event_type type;
    /* START_STEP; ABORT_STEP: the forward's command, begun or not; NULL is the one that has begun. */
    const struct eplb_command *command;
    struct eplb_prepare_token token;   /* PREPARE_BEGAN, PREPARED */
    bool ok;                           /* PREPARED, MATERIALISED */
    struct eplb_completion completion; /* COMPLETED */
    enum eplb_decision decision;       /* DECIDED */
    uint64_t weights_epoch;            /* START_STEP: eplb_weights_epoch now */
};

enum eplb_executor_action_type {
    EPLB_EXECUTOR_RUN_PREPARE, /* plan: it is queued now, in place of what was; wake the background thread */
    EPLB_EXECUTOR_MATERIALISE, /* plan: call start_expert_weight_transfer, then feed MATERIALISED */
    EPLB_EXECUTOR_TRANSFER,    /* transfer: post, cancel, vote, abort the record */
    EPLB_EXECUTOR_UPDATE,      /* plan, commit: call update_expert_weight */
    EPLB_EXECUTOR_WEIGHTS,     /* layer: call update_replica_weights with what it runs under now */
    EPLB_EXECUTOR_REFUSED,     /* layer: a weight update that is not legal for its placement was left out */
};

struct eplb_executor_action {
    enum eplb_executor_action_type type;
    struct eplb_layer_plan *plan;       /* NULL for a TRANSFER whose plan is not held: it only votes */
    struct eplb_activation_token token; /* TRANSFER, UPDATE: which attempt */
    struct eplb_transfer_action transfer;
    bool commit;
    int32_t layer; /* WEIGHTS, REFUSED */
};

/**
 * Allocates the core in one block: plans, transfer, tables. OK; EPLB_NO_MEMORY; EPLB_INVALID for initial
 * weights that are not legal.
 */
enum eplb_status eplb_executor_core_create(const struct eplb_executor_core_params *params,
                                           struct eplb_executor_core **core, struct eplb_error *error);
void eplb_executor_core_destroy(struct eplb_executor_core *core);

/**
 * Whether a command may be taken now, by START_STEP or, unless its forward has begun, by ABORT_STEP.
 *
 * @return EPLB_OK; EPLB_REFUSED while an activation is unresolved; EPLB_INVALID with a sentence when
 *         the forward's number or a token is not above the last one, or the fields contradict
 *         each other. What a rank can report as failed (table, layer, base) is no matter for this.
 */
enum eplb_status eplb_executor_core_check(const struct eplb_executor_core *core,
                                          const struct eplb_command *command, struct eplb_error *error);

/**
 * One event; then take actions with eplb_executor_core_next until it returns false. What comes of an
 * action (MATERIALISED, a post that was refused) may be fed before the others are taken.
 */
void eplb_executor_core_step(struct eplb_executor_core *core, const struct eplb_executor_event *event,
                             int64_t now);
bool eplb_executor_core_next(struct eplb_executor_core *core, struct eplb_executor_action *action);

/** The plan that waits for the background thread; NULL when none, also while another one runs. */
struct eplb_layer_plan *eplb_executor_core_queued(struct eplb_executor_core *core);

/**
 * Fills a plan's moves and map, between its PREPARE_BEGAN and its PREPARED. Touches only what no
 * event touches meanwhile: may run in another thread, beside events.
 */
void eplb_executor_core_build(struct eplb_executor_core *core, struct eplb_layer_plan *plan);

/** Whether finish_step may return: no activation of the step is unresolved. */
bool eplb_executor_core_idle(const struct eplb_executor_core *core);

/** The attempt whose record must be read while the core is not idle; 0 when none. */
struct eplb_activation_token eplb_executor_core_attempt(const struct eplb_executor_core *core);

/** The layer of the last attempt; EPLB_NO_LAYER before the first. */
int32_t eplb_executor_core_attempt_layer(const struct eplb_executor_core *core);

/** A layer's name in logs and sentences; a row that is none is its own. */
int32_t eplb_executor_core_layer_id(const struct eplb_executor_core *core, int32_t layer);

/** What goes into every output. */
struct eplb_worker_levels eplb_executor_core_levels(const struct eplb_executor_core *core);

/** The last forward whose command was taken; 0 before the first. */
uint64_t eplb_executor_core_seq(const struct eplb_executor_core *core);

/** The generation each layer's last forward ran under, [L]: what its output reports. */
const uint64_t *eplb_executor_core_ran_generations(const struct eplb_executor_core *core);

/** The generation each layer's next forward runs under, [L], and its table [L][num_slots]. */
const uint64_t *eplb_executor_core_generations(const struct eplb_executor_core *core);
const int32_t *eplb_executor_core_tables(const struct eplb_executor_core *core);

/** The version of the replica weights that each layer's last forward ran under, [L]. */
const uint64_t *eplb_executor_core_ran_versions(const struct eplb_executor_core *core);

/** That of each layer's next forward, or of the one that has begun, [L], and the weights [L][num_slots]. */
const uint64_t *eplb_executor_core_versions(const struct eplb_executor_core *core);
const int32_t *eplb_executor_core_replica_weights(const struct eplb_executor_core *core);

#endif
