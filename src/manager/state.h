/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Inside the manager core. Each file beside this one holds one part of the protocol; the state
 * they share is here.
 */
#ifndef MANAGER_STATE_H
#define MANAGER_STATE_H

#include "base/arena.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/planted.h"
#include "manager/core.h"
#include "manager/shift.h"

/** State of one layer. See layer_state.c for what may follow what. */
enum layer_state {
    LAYER_IDLE,
    LAYER_PREPARING,
    LAYER_READY,
    LAYER_ACTIVATING,
};

/** The layer that is preparing or ready. */
struct preparing {
    int32_t layer; /* EPLB_NO_LAYER: none */
    struct eplb_prepare_token token;
    bool sent;          /* a command that was not dropped carries it */
    uint64_t seq;       /* the forward that carried it last */
    int64_t sent_at;    /* when that forward was submitted */
    int64_t output_at;  /* when its output was processed; NEVER before */
    int64_t ready_at;   /* when all live ranks had reported ok */
    uint64_t ready_seq; /* and what the next forward's number was */
    uint8_t *rank_ok;   /* [R] */
};

/** The layer that is activating. */
struct activating {
    int32_t layer; /* EPLB_NO_LAYER: none */
    struct eplb_activation_token token;
    struct eplb_prepare_token prepare_token;
    bool handed_out;   /* a command that was not dropped carries it */
    uint64_t seq;      /* the forward that carried it last */
    int64_t handed_at; /* when that forward was submitted */
    bool stuck;        /* reported as stuck */
    uint8_t *outcome;  /* [R] enum eplb_activation_outcome as reported for this token */
};

/** A forward that was submitted and whose output has not been processed. */
struct flight {
    uint64_t seq;
    int64_t submitted_at;
    bool warmup;
    struct eplb_weight_update carried[EPLB_MAX_WEIGHT_UPDATES]; /* without weights */
    int32_t num_carried;
#if EPLB_TEST_BUILD
    uint64_t *generations; /* [L] committed ones at submission, for a planted bug */
#endif
};

enum { NEVER = -1 };

/** An amount and the time that it took, both fading with each new one. */
struct measured {
    double amount;
    double seconds;
};

/** What a migration costs. */
struct measures {
    struct measured transfers; /* bytes that the busiest rank received */
    struct measured forwards;  /* tokens of the slowest rank, summed over the layers */
    int64_t last_output_at;    /* NEVER: none */
};

/** What one path did since the last heartbeat. */
struct path_tasks {
    uint64_t ok;
    uint64_t failed;
};

/** What a solve works on while events go on. */
struct weights_solve {
    int64_t *load;                      /* [L][E] */
    int32_t *tables;                    /* [L][num_slots] */
    int32_t *active;                    /* [L][num_slots] weights */
    uint64_t *generations;              /* [L] */
    double *excess;                     /* [L] */
    int32_t *solved;                    /* [L][num_slots] */
    struct eplb_weight_update *updates; /* [num_updates] of L */
    int32_t num_updates;
    void *scratch;
};

/** Replica weights. */
struct weights {
    uint64_t *versions; /* [L] handed out last in the layer's generation */
    int32_t *active;    /* [L][num_slots] of that version */
    int32_t *queued;    /* [L][num_slots] to be handed out */
    int32_t *queue;     /* [num_queued] of L layers that have some, in this order */
    int32_t num_queued;
    uint8_t *is_queued; /* [L] */
    int32_t *sums;      /* [E] scratch */
    bool solving;       /* SOLVE_WEIGHTS was asked for */
    bool sample_since_solve;
    struct weights_solve solve;
};

/** Samples, and their counted rows over all layers. */
struct early_count {
    uint64_t samples;
    int64_t rows;
};

/** Rounds before their time. */
struct early {
    struct eplb_shift test;    /* with a trigger only */
    bool testing;              /* a block is under way */
    struct early_count block;  /* in it */
    struct early_count window; /* in the open window */
    bool shifted;              /* and the round waits for tokens */
    uint64_t promised_run;     /* the policy run whose promise the test has; 0: none */
    int32_t past;              /* closed windows since the last shift that a policy may look back on */
    int32_t num_history;       /* of these, those of the policy run under way */
};

struct eplb_manager_core {
    struct eplb_manager_core_params params;
    struct eplb_shape shape;
    struct eplb_aggregator *aggregator;
    struct eplb_planner *planner;

    enum layer_state *layers; /* [L] */
    uint8_t *waiting;         /* [L] of this round and not begun */
    int32_t num_waiting;
    bool round; /* from the start of a policy run to the end of its last layer */

    bool policy_running;
    int64_t policy_started_at;
    bool timer_armed;
    int64_t timer_due;     /* a time; with an interval in forwards, */
    uint64_t timer_due_at; /* the number that the next forward must have reached */
    bool sample_since_run;
    int64_t last_sample_at; /* NEVER: none */
    struct measures measures;

    struct preparing preparing;
    struct activating activating;
    struct weights weights;
    struct early early;
    uint64_t next_token;

    struct flight *flights; /* [max_flights], the first num_flights in use, oldest first */
    int32_t max_flights;
    int32_t num_flights;
    uint64_t next_seq;

    uint8_t *dead; /* [R] */
    int32_t num_dead;
    struct eplb_worker_levels *last_levels; /* [R] as reported last */
    struct eplb_rank_report *reports;       /* [R] scratch of a sample */
    struct eplb_move *moves;                /* [num_slots] scratch of a commit */
    void *diff_scratch;

    bool stopped;
    struct eplb_error stop_error;
    struct eplb_command command;
    struct eplb_manager_action *actions; /* [max_actions] of this event, taken from next_action */
    int32_t max_actions;
    int32_t num_actions;
    int32_t next_action;

    struct eplb_manager_status totals; /* the counters of the status only */
    int64_t heartbeat_at;
    struct path_tasks rebalance;    /* policy runs */
    struct path_tasks layers_tasks; /* layers that became ready, were committed or given up */
};

/* core.c */

/** Queues an action and returns it for the caller to fill. */
struct eplb_manager_action *eplb_manager_act(struct eplb_manager_core *core,
                                             enum eplb_manager_action_type type);

/** Ends the run with a sentence; the first one counts. */
void eplb_manager_stop(struct eplb_manager_core *core, enum eplb_status status, const char *format, ...)
    EPLB_PRINTF(3, 4);

/** One warning to the log. */
void eplb_manager_warn(struct eplb_manager_core *core, const char *format, ...) EPLB_PRINTF(2, 3);

/** A layer's part of a table of all layers. */
static inline size_t eplb_manager_row(const struct eplb_manager_core *core, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < core->shape.num_layers);
    return (size_t)layer * (size_t)core->shape.num_slots;
}

/** Whether a rank's output is there: one of another forward or another rank is as good as lost. */
static inline bool eplb_manager_has_output(const struct eplb_manager_event *event, int32_t rank)
{
    const struct eplb_worker_output *output = &event->outputs[rank];
    return output->prefix != NULL && output->seq == event->seq && output->ep_rank == rank;
}

/* layer_state.c */

/** The one place where a layer changes its state; asserts that it may. */
void eplb_layer_enter(struct eplb_manager_core *core, int32_t layer, enum layer_state to);

/* round.c: rules 1, 2 */

/** Starts the interval anew. */
void eplb_round_arm_timer(struct eplb_manager_core *core, int64_t now);

/** Starts a policy run when the timer has fired, no round is in progress and there is a sample. */
void eplb_round_start_if_due(struct eplb_manager_core *core, int64_t now);

/** The policy run ended: its published layers form the round. */
void eplb_round_policy_done(struct eplb_manager_core *core, const struct eplb_manager_event *event,
                            int64_t now);

/** Takes the next layer of the round, lowest first; EPLB_NO_LAYER when all have begun. */
int32_t eplb_round_take_layer(struct eplb_manager_core *core);

/** Gives a layer of the round up: its candidate is dropped, the round goes on. */
void eplb_round_abort_layer(struct eplb_manager_core *core, int32_t layer, enum eplb_abort_reason why);

/** Gives up every layer of the round that has not begun. */
void eplb_round_abort_waiting(struct eplb_manager_core *core);

/** Ends the round when none of its layers is left. */
void eplb_round_end_if_over(struct eplb_manager_core *core);

/* prepare.c: rule 4 */

/** Puts a prepare into the command: a new one, or one whose command was dropped. */
void eplb_prepare_hand_out(struct eplb_manager_core *core, struct eplb_command *command, int64_t now);

/**
 * One rank's level in the output of forward `seq`. A token that a later forward carried cannot have been
 * heard of by then, and who reports it all the same is not believed.
 */
void eplb_prepare_report(struct eplb_manager_core *core, int32_t rank, uint64_t seq,
                         const struct eplb_worker_levels *levels);

/** The levels of a forward were all taken: ready, or the timer starts. */
void eplb_prepare_output(struct eplb_manager_core *core, uint64_t seq, int64_t now);

/** Judges the timeout. seq is the forward whose output was just processed, or 0 at a mere tick. */
void eplb_prepare_judge(struct eplb_manager_core *core, uint64_t seq, int64_t now);

/** The command of `seq` will not be run. */
void eplb_prepare_dropped(struct eplb_manager_core *core, uint64_t seq);

/** Gives up what is preparing or ready; nothing when there is none. */
void eplb_prepare_abort(struct eplb_manager_core *core, enum eplb_abort_reason why);

/* activation.c: rule 5 */

/** Puts an activation into the command: one whose command was dropped, or that of the ready layer. */
void eplb_activation_hand_out(struct eplb_manager_core *core, struct eplb_command *command, int64_t now);

/** One rank's level, as eplb_prepare_report. */
void eplb_activation_report(struct eplb_manager_core *core, int32_t rank, uint64_t seq,
                            const struct eplb_worker_levels *levels);

/** Commits or aborts once all live ranks have reported. */
void eplb_activation_resolve(struct eplb_manager_core *core, int64_t now);

/** Names an activation that is stuck. seq is the forward whose output was just processed. */
void eplb_activation_judge(struct eplb_manager_core *core, uint64_t seq, int64_t now);

/** The command of `seq` will not be run. */
void eplb_activation_dropped(struct eplb_manager_core *core, uint64_t seq, int64_t now);

/** A rank died: what no rank was given is given up, for the rest the record decides. */
void eplb_activation_rank_dead(struct eplb_manager_core *core, int64_t now);

/* weights.c */

/** Takes the memory from an arena, which may be measuring. */
void eplb_replica_weights_layout(struct eplb_arena *arena, const struct eplb_shape *shape,
                                 enum eplb_replica_routing routing, struct weights *weights);

/** The weights that the workers run at the start. EPLB_INVALID when they are not legal. */
enum eplb_status eplb_replica_weights_start(struct eplb_manager_core *core,
                                            const struct eplb_manager_core_params *params,
                                            struct eplb_error *error);

/** Whether a new table is sent with weights. */
bool eplb_replica_weights_come_with_tables(const struct eplb_manager_core *core);

/** Asks for a solve when a sample came since the last one. */
void eplb_replica_weights_solve_if_due(struct eplb_manager_core *core);

/** Takes what was solved: it is handed out with the next commands. */
void eplb_replica_weights_done(struct eplb_manager_core *core, const struct eplb_manager_event *event);

/** Puts weight updates into a command, of layers that do not activate. Any forward but a warm-up has some. */
void eplb_replica_weights_hand_out(struct eplb_manager_core *core, struct flight *flight,
                                   struct eplb_command *command);

/** The command of a forward will not be run. */
void eplb_replica_weights_dropped(struct eplb_manager_core *core, const struct flight *flight);

/** The layer's candidate is about to be committed: its weights are in force, as version 0. */
void eplb_replica_weights_commit(struct eplb_manager_core *core, int32_t layer);
/* measure.c */

/** A forward's counts are in core->reports, and were taken. Before eplb_measure_output. */
void eplb_measure_forward(struct eplb_manager_core *core, const struct flight *flight, int64_t now);

/** A forward came back. */
void eplb_measure_output(struct eplb_manager_core *core, int64_t now);

/** A layer switched: the rank that received most got so many experts. */
void eplb_measure_activation(struct eplb_manager_core *core, int32_t received, int64_t wait_ns);

/** What moving a slot costs as far as it is known, for the load of a window. */
struct eplb_migration_cost eplb_measure_cost(const struct eplb_manager_core *core,
                                             const struct eplb_window *window);

/* early.c */

/** Takes the memory from an arena, which may be measuring; none without a trigger. */
void eplb_early_layout(struct eplb_arena *arena, const struct eplb_manager_core_params *params,
                       struct early *early);

/** Begins. The core is zeroed but for its parameters. */
void eplb_early_start(struct eplb_manager_core *core);

/** A sample with so many counted rows was added to the window. */
void eplb_early_sample(struct eplb_manager_core *core, int64_t rows);

/** Whether the window has the tokens that a policy run asks for. */
bool eplb_early_has_tokens(const struct eplb_manager_core *core);

/** A policy run begins: closes the window. */
void eplb_early_round(struct eplb_manager_core *core);

/* samples.c */

/** Adds the outputs' counts to the window. False when the run was stopped. */
bool eplb_samples_take(struct eplb_manager_core *core, const struct eplb_manager_event *event,
                       const struct flight *flight, int64_t now);

#endif
