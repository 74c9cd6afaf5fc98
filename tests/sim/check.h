/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The checkers: what must hold whatever is drawn. They see what crosses the borders of the cores
 * (commands, outputs, votes, records, memory, actions) and keep their own book of it; of the inside
 * of a core they know nothing. Each ends the run with sim_fail when its rule is broken.
 *
 *   book      which table each generation of a layer names, as commands and records say
 *   forward   all ranks run a forward of a layer under one generation, every slot has its content
 *   staging   staging serves one token at a time; a yes means that all is there
 *   record    nobody acts against it, nobody reports before all operations of the token have ended
 *   manager   commands, tokens, states; commits and aborts have their cause
 *   clock     timeouts, the timer of the rounds, a stuck activation: neither early nor late
 *   window    no sample in a window of another placement or other weights
 *   weights   updates: of which generation and version, in which order, when; what the ranks run is what was
 * sent end       when it is quiet, all agree; every published layer came to an end
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "eplb/migrate.h"
#include "eplb/wire.h"
#include "manager/core.h"
#include "sim/config.h"

struct sim_forward;

enum { SIM_BOOK_TABLES = 8, SIM_BOOK_PLANS = 8, SIM_BOOK_WEIGHTS = 8 };

/** What a prepare token stands for. */
struct sim_plan {
    uint64_t token;
    int32_t layer;
    int32_t table[SIM_SLOTS];
    int32_t weights[SIM_SLOTS];
    bool confused; /* the engine sent another base than the manager's */
    bool built;    /* by some rank, whose moves have this hash: every other one must find the same */
    uint64_t moves_hash;
};

struct sim_book {
    uint64_t generations[SIM_LAYERS]; /* decided by records */
    int32_t tables[SIM_LAYERS][SIM_BOOK_TABLES][SIM_SLOTS];
    struct sim_plan plans[SIM_BOOK_PLANS];
    int32_t num_plans;
    uint64_t record_token; /* what the open record is about */
    int32_t record_layer;
    uint64_t record_prepare;
    bool record_confused; /* the engine named another prepare to the ranks */
};

/** The prepare that the manager has handed out, until it is activated or aborted. */
struct sim_open_prepare {
    int32_t layer; /* EPLB_NO_LAYER: none */
    uint64_t token;
    int32_t table[SIM_SLOTS];
    int32_t weights[SIM_SLOTS];
    bool sent;
    uint64_t seq;
    int64_t sent_at;
    int64_t output_at; /* -1: not yet */
    int64_t ready_at;  /* -1: not yet */
    bool ok[SIM_RANKS];
    bool failed;
};

struct sim_open_activation {
    int32_t layer; /* EPLB_NO_LAYER: none */
    uint64_t token;
    uint64_t prepare_token;
    bool sent;
    bool given_up; /* abort is due although no rank was given it */
    uint64_t seq;
    int64_t sent_at;
    enum eplb_activation_outcome outcomes[SIM_RANKS]; /* as the manager was told */
    bool stuck;
};

/** What one rank is known to do. */
struct sim_watched_rank {
    uint64_t token; /* activation that it took last */
    uint64_t prepare_token;
    int32_t layer;
    bool resolved; /* it reported the outcome, or never took one */
    bool voted;
    bool voted_yes;
    bool materialise_failed;
    bool operation_failed;
    bool finishing;
    int64_t finishing_since;
    bool switched; /* update_expert_weight with commit came for the token */
    uint64_t prepare_taken;
    bool prepare_hook_failed;
    struct eplb_worker_levels levels; /* in its last output */
};

/** Replica weights that may be in force: of a version of a generation. */
struct sim_weights {
    bool known;
    uint64_t generation;
    uint64_t version;
    int32_t weights[SIM_SLOTS];
};

/** The weights of all layers, as commands say. */
struct sim_weights_book {
    struct sim_weights entries[SIM_LAYERS][SIM_BOOK_WEIGHTS]; /* of a layer, the oldest is replaced */
    int32_t next[SIM_LAYERS];
    uint64_t sent[SIM_LAYERS];     /* newest version of the committed generation that a rank may get */
    uint64_t dropped[SIM_LAYERS];  /* newest version that was dropped and is to come again; 0: none */
    uint64_t carriers[SIM_LAYERS]; /* forward that carried weights of the layer last */
};

struct sim_window {
    int64_t logical[SIM_LAYERS][SIM_EXPERTS];
    int64_t physical[SIM_LAYERS][SIM_SLOTS];
    uint64_t versions[SIM_LAYERS]; /* that physical belongs to */
};

struct sim_checks {
    struct sim_book book;
    struct sim_weights_book weights;
    struct sim_open_prepare prepare;
    struct sim_open_activation activation;
    struct sim_watched_rank ranks[SIM_RANKS];
    bool dead[SIM_RANKS]; /* as the manager was told */
    int32_t num_dead;
    uint64_t last_token;
    uint64_t committed[SIM_LAYERS]; /* generations, as the manager says */
    int32_t last_layer;             /* of the round */

    bool policy_running;
    bool timer_armed;
    int64_t timer_due;
    bool sample_since_run;
    uint64_t window_samples; /* in the open window */
    int64_t window_rows;     /* and their counts */
    uint64_t shifts;         /* as told */
    bool shifted;            /* and the policy waits for tokens */
    uint64_t num_published;
    uint64_t num_finished; /* of these committed or aborted */

    /* Of the step that is under way. */
    uint64_t fed; /* the forward whose output is processed, or 0 */
    bool policy_asked;
    bool had_tokens; /* the window that it was asked for */

    struct sim_window open;
    struct sim_window closed;
};

/* check_book.c */
void sim_book_init(struct world *world);
void sim_book_restart(struct world *world, uint64_t first_token);
void sim_book_note_plan(struct world *world, const struct eplb_command *command, bool confused);
const struct sim_plan *sim_book_plan(struct world *world, uint64_t prepare_token);
const int32_t *sim_book_table(struct world *world, int32_t layer, uint64_t generation);
void sim_check_record_open(struct world *world, uint64_t token);
void sim_check_decided(struct world *world, uint64_t token, enum eplb_decision decision);

/* check_forward.c */
void sim_check_forward(struct world *world, int32_t rank, struct sim_forward *forward);
void sim_check_reported(struct world *world, int32_t rank, const struct sim_forward *forward);

/* check_staging.c */
void sim_check_attempt(struct world *world, int32_t rank, const struct eplb_command *command);
void sim_check_staging_write(struct world *world, int32_t rank, int32_t local_slot, uint64_t token,
                             uint64_t sender_token);
void sim_check_plan(struct world *world, int32_t rank, const struct eplb_layer_plan *plan);
void sim_check_materialise(struct world *world, int32_t rank, const struct eplb_layer_plan *plan,
                           uint64_t token, bool fails);
void sim_check_vote(struct world *world, int32_t rank, uint64_t token, bool yes);
void sim_check_update(struct world *world, int32_t rank, uint64_t token, int32_t layer, bool commit);

/* check_levels.c */
void sim_check_hook_failed(struct world *world, int32_t rank, uint64_t prepare_token);
void sim_check_operation_failed(struct world *world, int32_t rank, uint64_t token);
void sim_check_finishing(struct world *world, int32_t rank);
void sim_check_dies(struct world *world, int32_t rank);
void sim_check_levels(struct world *world, int32_t rank, const struct eplb_worker_levels *levels);

/* check_manager.c */
void sim_check_submitted(struct world *world, const struct sim_forward *forward,
                         const struct eplb_command *command);
void sim_check_dropped(struct world *world, uint64_t seq);
void sim_check_told_dead(struct world *world, int32_t rank);
void sim_check_policy_done(struct world *world);
void sim_check_outputs(struct world *world, const struct sim_forward *forward);
void sim_check_action(struct world *world, const struct eplb_manager_action *action);

/* check_clock.c */
bool sim_check_timeout_due(const struct world *world);
void sim_check_clocks(struct world *world, const struct eplb_manager_event *event);

/* check_window.c */
void sim_check_sample(struct world *world, const struct sim_forward *forward);
void sim_check_window_commit(struct world *world, int32_t layer);
void sim_check_window_close(struct world *world);
bool sim_check_has_tokens(const struct world *world);
void sim_check_windows(struct world *world);

/* check_weights.c */
void sim_book_weights(struct world *world, int32_t layer, uint64_t generation, uint64_t version,
                      const int32_t *weights);
void sim_book_weights_restart(struct world *world);
void sim_check_weights_submitted(struct world *world, struct sim_forward *forward,
                                 const struct eplb_command *command);
void sim_check_weights_dropped(struct world *world, const struct sim_forward *forward);
void sim_check_weights_committed(struct world *world, int32_t layer);
void sim_check_weights_done(struct world *world);
void sim_check_weights_forward(struct world *world, int32_t rank, struct sim_forward *forward);
void sim_check_weights_rows(struct world *world, const struct sim_forward *forward);
void sim_check_weights_end(struct world *world);

/* check_end.c */
void sim_check_status(struct world *world);
void sim_check_end(struct world *world);

#endif
