/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A team: the EP ranks of one run as threads over a `threads` group, each with a stand-in model, a real
 * executor and the toy forward. Whoever leads it (director.h without, engine.h with a manager) hands
 * out forwards and collects outputs, both as encoded bytes.
 *
 * A rank does, for every forward: start_step, barrier, toy forward, finish_step, and after an
 * activation it compares every byte of its model with the executor's tables. What must never happen ends
 * the program with a sentence and a list of what every rank is doing; so does a wait of a minute.
 */
#ifndef E2E_TEAM_H
#define E2E_TEAM_H

#include "e2e/toy.h"
#include "eplb/executor.h"

/** Longest wait for anything that must come. */
#define TEAM_PATIENCE_NS (INT64_C(60) * 1000000000)

enum { TEAM_MAX_RANKS = 8, TEAM_MAX_SLOTS = 64 };

/** Where a rank can be held in a forward. */
enum team_point {
    TEAM_BEFORE_START,   /* it has the forward, and has not looked at its command */
    TEAM_BEFORE_FORWARD, /* its transfer has begun */
    TEAM_BEFORE_FINISH,  /* the forward is over on all ranks */
    TEAM_BEFORE_REPORT,  /* an activation is resolved here */
    TEAM_POINTS,
};

struct team_params {
    struct eplb_shape shape;
    int32_t overlap; /* 0 or 1: forwards handed out before the output of an earlier one is collected */
    int32_t tokens, top_k;
    struct toy_traffic traffic;
    int64_t matrix_bytes;
    int64_t chunk_bytes, inflight_bytes;
    int32_t transfer_timeout_seconds;
    int64_t jitter_ns; /* longest random delay at each point of a forward; 0: none */
    uint64_t seed;     /* of the jitter */
    uint64_t chatter;  /* collectives of a second thread beside every step; 0: the toy forward instead */
    const struct eplb_log_sink *log;
    /** Changes the executor's parameters of a rank before it is created; NULL: does not. */
    void (*adjust)(void *context, int32_t rank, struct eplb_executor_params *params);
    void *context;
};

/** Small sizes: three layers of 16 experts on 8 ranks, one redundant slot each. */
void team_params_init(struct team_params *params);

struct team;

/** Creates all ranks and starts their threads; fails the test when it cannot. */
struct team *team_create(const struct team_params *params);

/** Waits until all forwards are done, stops and frees everything. */
void team_destroy(struct team *team);

const struct eplb_shape *team_shape(const struct team *team);

/** The engine's view of the group. */
const struct eplb_group *team_engine_group(const struct team *team);

/** A rank's view of the group. */
const struct eplb_group *team_group(const struct team *team, int32_t rank);

/** For between forwards, and what is documented for any thread. */
struct standin *team_model(const struct team *team, int32_t rank);
struct eplb_executor *team_executor(const struct team *team, int32_t rank);

/* ------------------------------------------------------------------------------------- forwards */

/**
 * Hands a forward to all live ranks.
 *
 * @param batches one per rank
 */
void team_submit(struct team *team, const struct eplb_command *command, const struct eplb_dp_batch *batches,
                 bool warmup);

/**
 * Waits for the output of the oldest forward from all live ranks.
 *
 * @return [ep_size], valid until the next call; prefix is NULL for a rank that is dead
 */
const struct eplb_worker_output *team_collect(struct team *team);

/** How many forwards were handed out and not collected. */
int32_t team_in_flight(const struct team *team);

/** Fails the test unless every live rank's model is what the tables [num_layers][num_slots] say. */
void team_check(const struct team *team, const int32_t *tables);

/** The same, and unless every live rank runs these tables and generations [num_layers]. */
void team_check_all(const struct team *team, const int32_t *tables, const uint64_t *generations);

/** A hash over all commands that a rank has seen, and their number. Between forwards. */
uint64_t team_commands_seen(const struct team *team, int32_t rank, uint64_t *count);

/* --------------------------------------------------------------------------------------- faults */

/** Orders a rank to wait at a point from its next arrival on. */
void team_hold(struct team *team, int32_t rank, enum team_point point);

/** Waits until the rank is there. */
void team_await_held(struct team *team, int32_t rank);

/** Lets it go on. */
void team_release(struct team *team, int32_t rank);

/**
 * Ends a held rank's thread where it is, as a process that dies, and tells the group. The leader tells
 * the manager.
 */
void team_kill(struct team *team, int32_t rank);

/** Why a rank has given up forwards: the sentence that its group ended a collective with; "" when none did.
 */
const char *team_bereavement(const struct team *team, int32_t rank);

bool team_is_dead(const struct team *team, int32_t rank);

/** Waits until the rank is inside finish_step. */
void team_await_finishing(struct team *team, int32_t rank);

/* ------------------------------------------------------------------------------------------ ends */

/** Ends the program with a sentence and what every rank is doing. Any thread. */
_Noreturn void team_fail(const struct team *team, const char *format, ...) EPLB_PRINTF(2, 3);

/** Now plus TEAM_PATIENCE_NS. */
int64_t team_deadline(void);

#endif
