/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Inside the executor core. Each file beside this one holds one part of the protocol; the state
 * they share is here.
 */
#ifndef EXECUTOR_STATE_H
#define EXECUTOR_STATE_H

#include "base/arena.h"
#include "base/assert.h"
#include "base/planted.h"
#include "executor/core.h"

/** State of a place for a plan. See place.c for what may follow what. */
enum place_state {
    PLACE_FREE,
    PLACE_QUEUED,     /* its table was accepted; the background thread has not begun */
    PLACE_RUNNING,    /* the background thread works on it */
    PLACE_HELD,       /* prepared */
    PLACE_ACTIVATING, /* named by the activation that is under way */
};

/** Room for one plan. */
struct place {
    struct eplb_layer_plan plan; /* first, so that a plan leads back to its place */
    enum place_state state;
    bool superseded;   /* RUNNING: a newer prepare was queued; the result is discarded */
    int32_t *base_ids; /* [num_slots] table that the plan starts from: a commit must not change it */
};

/* Two finished, one running, one queued. */
enum { NUM_PLACES = EPLB_MAX_PLANS, MAX_ACTIONS = 4 + EPLB_MAX_WEIGHT_UPDATES };

/** The activation that is under way, or the last one. */
struct attempt {
    bool active; /* from the command to the record's decision with nothing outstanding */
    struct eplb_activation_token token;
    int32_t layer;       /* as commanded */
    struct place *place; /* NULL: the worker does not hold the plan */
    bool finishing;      /* the forward is over: the deadline runs, the outcome may take force */
};

struct eplb_executor_core {
    struct eplb_shape shape;
    int32_t ep_rank;
    int32_t *layer_ids;        /* [L], or NULL */
    int32_t *tables;           /* [L][num_slots] */
    uint64_t *generations;     /* [L] */
    uint64_t *ran_generations; /* [L] when the last forward began */
    uint64_t *hashes;          /* [L] of the tables */
    int32_t *replica_weights;  /* [L][num_slots] of the tables' slots */
    uint64_t *versions;        /* [L] of the replica weights, from 0 in each generation */
    uint64_t *ran_versions;    /* [L] that the last forward ran under */
    bool takes_weights;
    int32_t *weight_sums; /* [num_experts] scratch */
    uint64_t seq;
    struct eplb_worker_levels levels;

    struct place places[NUM_PLACES];
    void *scratch; /* eplb_placement_diff_scratch bytes, the background thread's */
    struct attempt attempt;
    struct eplb_transfer *transfer;

    struct eplb_executor_action actions[MAX_ACTIONS]; /* beside the transfer's own, taken from next_action */
    int32_t num_actions;
    int32_t next_action;
};

/** A layer's part of a table of all layers. */
static inline int32_t *eplb_executor_table(struct eplb_executor_core *core, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < core->shape.num_layers);
    return core->tables + (size_t)layer * (size_t)core->shape.num_slots;
}

/** A layer's part of the replica weights of all layers. */
static inline int32_t *eplb_executor_weights_row(struct eplb_executor_core *core, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < core->shape.num_layers);
    return core->replica_weights + (size_t)layer * (size_t)core->shape.num_slots;
}

/* core.c */

/** Queues an action and returns it for the caller to fill. */
struct eplb_executor_action *eplb_executor_act(struct eplb_executor_core *core,
                                               enum eplb_executor_action_type type);

/** Why a plan that starts from this base cannot be used; EPLB_REASON_NONE when it can. */
enum eplb_reason eplb_executor_judge_base(const struct eplb_executor_core *core, int32_t layer,
                                          uint64_t base_generation, uint64_t base_hash);

/* place.c */

/** The one place where a place changes its state; asserts that it may. */
void eplb_place_enter(struct place *place, enum place_state to);

/** The only place in a state; NULL when there is none. Not for HELD, of which there may be two. */
struct place *eplb_place_in(struct eplb_executor_core *core, enum place_state state);

/** The held plan of a token; NULL when the worker does not hold it. */
struct place *eplb_place_held(struct eplb_executor_core *core, struct eplb_prepare_token token);

/** Frees held plans, oldest first, until at most `keep` plans are held or activating. */
void eplb_place_evict(struct eplb_executor_core *core, int32_t keep);

/* prepare.c */

/** Takes a command's prepare: queues it, or reports why it is refused. */
void eplb_executor_prepare_take(struct eplb_executor_core *core, const struct eplb_command *command,
                                uint64_t weights_epoch);

/** Takes a command's prepare as failed. */
void eplb_executor_prepare_refuse(struct eplb_executor_core *core, const struct eplb_command *command,
                                  enum eplb_reason reason);

/** The background thread took the queued prepare. */
void eplb_executor_prepare_began(struct eplb_executor_core *core, struct eplb_prepare_token token);

/** The background thread is done. */
void eplb_executor_prepare_done(struct eplb_executor_core *core, struct eplb_prepare_token token, bool ok);

/* weights.c */

/** Takes a command's weight updates: those of the generation that the layer runs, above its version. */
void eplb_executor_weights_take(struct eplb_executor_core *core, const struct eplb_command *command);

/** Whether the weights that come with a command's legal table are legal, or none do. */
bool eplb_executor_weights_legal(const struct eplb_executor_core *core, const struct eplb_command *command);

/** Fills a plan's replica weights from its command; equal ones when it has none. */
void eplb_executor_weights_plan(struct eplb_executor_core *core, const struct eplb_command *command,
                                struct eplb_layer_plan *plan);

/** The layer's switch: the plan's weights take force, as version 0. */
void eplb_executor_weights_switch(struct eplb_executor_core *core, const struct eplb_layer_plan *plan);

/* activation.c */

/** Takes a command's activation: starts its transfer, or votes no. */
void eplb_executor_activation_take(struct eplb_executor_core *core, const struct eplb_command *command,
                                   uint64_t weights_epoch, int64_t now);

/** Takes a command's activation and votes no. */
void eplb_executor_activation_refuse(struct eplb_executor_core *core, const struct eplb_command *command,
                                     enum eplb_reason reason, int64_t now);

/** Passes an event of the activation that is under way on to its transfer, and resolves it. */
void eplb_executor_activation_event(struct eplb_executor_core *core, const struct eplb_executor_event *event,
                                    int64_t now);

/** finish_step was entered. */
void eplb_executor_activation_finish(struct eplb_executor_core *core, int64_t now);

/** The forward will not finish. */
void eplb_executor_activation_give_up(struct eplb_executor_core *core, int64_t now);

#endif
