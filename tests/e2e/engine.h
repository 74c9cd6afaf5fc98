/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Leads a team with a real manager, as an inference engine does: asks it for a command, hands the
 * forward out, collects the outputs, tells the manager. Outputs can be lost or come twice on the way.
 *
 * After every forward it checks that what the ranks counted is what was real in the batch.
 */
#ifndef E2E_ENGINE_H
#define E2E_ENGINE_H

#include "e2e/team.h"

struct engine_params {
    struct team_params team;
    struct eplb_manager_params manager; /* shape, overlap and group come from the team */
};

/** Shapes and sizes of team_params_init; the manager's defaults with interval 0. */
void engine_params_init(struct engine_params *params);

/** What a forward's batches are. */
enum engine_traffic {
    ENGINE_DECODE,  /* on all ranks */
    ENGINE_SPARSE,  /* decode on rank 0 only */
    ENGINE_PREFILL, /* on all ranks */
    ENGINE_MIXED,   /* decode on all ranks, prefill on one */
    ENGINE_EMPTY,   /* on no rank */
    ENGINE_WARMUP,  /* as decode */
    ENGINE_TRAFFICS,
};

/** What becomes of a rank's output on its way to the manager. */
enum engine_fate {
    ENGINE_DELIVERED,
    ENGINE_LOST,
    ENGINE_REPEATED, /* the one before comes again in its place */
};

struct engine;

/** Fails the test when it cannot. */
struct engine *engine_create(const struct engine_params *params);

/** Collects what is in flight, stops the manager and the team, frees everything. */
void engine_destroy(struct engine *engine);

struct team *engine_team(const struct engine *engine);
struct eplb_manager *engine_manager(const struct engine *engine);

/** Stops the manager now. What is collected from now on is told nobody. */
void engine_stop_manager(struct engine *engine);

/** Stops the manager and starts another one over the living team; nothing is in flight. */
void engine_replace_manager(struct engine *engine, const struct eplb_manager_params *params);

/** A rank's batch in the forward with that number. */
struct eplb_dp_batch engine_batch(const struct engine *engine, enum engine_traffic traffic, uint64_t seq,
                                  int32_t rank);

/** Asks for a command and hands the next forward out. The command's expert_ids are not to be read. */
struct eplb_command engine_submit(struct engine *engine, enum engine_traffic traffic);

/** Asks for a command and drops the forward. */
struct eplb_command engine_drop(struct engine *engine, enum engine_traffic traffic);

/** Collects the oldest forward and tells the manager. The outputs are valid until the next call. */
const struct eplb_worker_output *engine_collect(struct engine *engine);

/** Submits, and collects so that no more than `overlap` forwards stay in flight. */
struct eplb_command engine_forward(struct engine *engine, enum engine_traffic traffic);

/** Collects what is in flight. */
void engine_drain(struct engine *engine);

/** What happens to a rank's outputs from now on. */
void engine_set_fate(struct engine *engine, int32_t rank, enum engine_fate fate);

/** Kills a held rank (team_kill) and tells the manager. */
void engine_kill(struct engine *engine, int32_t rank);

struct eplb_manager_status engine_status(const struct engine *engine);

/**
 * Runs forwards until a condition holds; fails the test when it does not within TEAM_PATIENCE_NS.
 *
 * @param what names it in the failure
 */
void engine_run_until(struct engine *engine, bool (*holds)(const struct eplb_manager_status *status),
                      const char *what);

/** Conditions for it. */
bool engine_is_ready(const struct eplb_manager_status *status);
bool engine_is_quiet(const struct eplb_manager_status *status);      /* nothing is activating */
bool engine_has_committed(const struct eplb_manager_status *status); /* some layer */

/**
 * Runs forwards until no activation is under way, then fails the test unless the live ranks run what
 * the manager has committed, with every byte in its place.
 */
void engine_settle(struct engine *engine);

#endif
