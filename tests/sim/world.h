/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * One run of the simulator: the engine with its manager core, the ranks with their executor cores,
 * the group between them, and the checkers beside them.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "executor/core.h"
#include "manager/core.h"
#include "sim/check.h"
#include "sim/config.h"
#include "sim/group.h"
#include "sim/model.h"
#include "sim/sim.h"

enum {
    SIM_FORWARDS = 16,      /* places for forwards; the newest is never so far from the oldest in flight */
    SIM_RECORD_BYTES = 2048 /* of an encoded command or output */
};

/** What has become of a rank's output of a forward, as the engine sees it. */
enum sim_arrival { SIM_AWAITED, SIM_ARRIVED, SIM_MISSING };

/** One forward. The engine makes it, ranks write their part, the engine collects. */
struct sim_forward {
    uint64_t seq;
    int64_t submitted_at;
    struct eplb_dp_batch batches[SIM_RANKS];
    bool warmup;
    sim_rows rows;
    bool activates;      /* its command has an activation */
    bool says_something; /* its command is not empty */
    bool given;          /* to the ranks */
    unsigned char command[SIM_RECORD_BYTES];
    struct eplb_weight_update weights[EPLB_MAX_WEIGHT_UPDATES]; /* of the manager's, without the weights */
    int32_t num_weights;

    /* What really happened, per rank. */
    bool begun[SIM_RANKS];
    bool passing;            /* all have begun: nothing keeps a rank from ending but a death */
    bool blocked[SIM_RANKS]; /* by a death */
    bool passed[SIM_RANKS];  /* the forward is behind the rank */
    bool read[SIM_RANKS];    /* generations and counts are there */
    uint64_t generations[SIM_RANKS][SIM_LAYERS];
    uint64_t versions[SIM_RANKS][SIM_LAYERS];
    int64_t counts[SIM_RANKS][SIM_LAYERS][SIM_LOCAL_SLOTS];

    /* What the engine got. */
    enum sim_arrival arrivals[SIM_RANKS];
    bool corrupt[SIM_RANKS];
    int64_t prefixes[SIM_RANKS][SIM_LAYERS * SIM_LOCAL_SLOTS];
    uint64_t reported[SIM_RANKS][SIM_LAYERS];
    uint64_t reported_versions[SIM_RANKS][SIM_LAYERS];
    struct eplb_worker_output outputs[SIM_RANKS];
};

enum sim_rank_state {
    SIM_RANK_IDLE,
    SIM_RANK_STARTING,  /* start_step: materialise has not returned */
    SIM_RANK_FORWARD,   /* computes, or waits for the others */
    SIM_RANK_FINISHING, /* finish_step or abort_step: until no activation is unresolved */
};

struct sim_rank {
    struct eplb_executor_core *core;
    struct sim_model model;
    enum sim_rank_state state;
    uint64_t inbox[2]; /* forwards given and not begun */
    int32_t num_inbox;
    uint64_t seq; /* forward under way */
    bool poll_pending;
    bool dead;
    bool told; /* knows that a rank is dead */
    int64_t paused_until;
    int64_t last_given; /* when the newest forward gets here: they stay in order */

    struct eplb_layer_plan *materialising;
    uint64_t queued;             /* prepare token that the background thread has not taken */
    bool waking;                 /* the background thread was woken and has not looked yet */
    struct eplb_layer_plan *job; /* what the background thread works on */
    bool job_fails;
};

struct sim_engine {
    struct eplb_manager_core *manager;
    struct eplb_log_sink sink;
    uint64_t next_seq;
    uint64_t flights[2]; /* submitted, output not processed; oldest first */
    int32_t num_flights;
    int32_t num_submitted;
    bool restarting; /* nothing is submitted until the ranks are idle and a new manager is there */
    bool policy_running;
    bool solving;
    struct eplb_weight_update solved[SIM_LAYERS]; /* what the solve gave, until it is told */
    int32_t num_solved;
    bool submit_pending;
    bool feed_pending;
    int64_t last_hand_out; /* when the newest forward is handed out: they stay in order */
    bool stopping;         /* a rank is dead: nothing is submitted any more */
    int32_t num_killed;
    int32_t num_notices; /* deaths, noticed or not yet */

    int32_t stretch; /* enum of traffic.c, and how many forwards it lasts */
    int32_t stretch_left;
    int32_t heat[SIM_LAYERS][SIM_EXPERTS];
    int32_t silent_rank; /* its outputs are lost, for so many forwards */
    int32_t silent_left;

    bool calm; /* no more faults */
    int64_t calm_since;
    uint64_t runs_before_calm;
    bool draining; /* nothing is submitted any more: the end */
};

struct world {
    struct sim sim;
    struct sim_config config;
    struct sim_group group;
    struct sim_rank ranks[SIM_RANKS];
    struct sim_engine engine;
    struct sim_forward forwards[SIM_FORWARDS];
    struct sim_checks checks;
    uint64_t num_restart_allocations;
    bool over;
};

/** The place of a forward. */
static inline struct sim_forward *sim_forward_at(struct world *world, uint64_t seq)
{
    return &world->forwards[seq % SIM_FORWARDS];
}

#endif
