/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a policy's plans bring on the load that comes after them. A plan is made from one window, what the
 * gate publishes of it is committed, and the window after that says what it was worth; then that window is
 * planned from, under the placement that is active by now.
 *
 * A window's load falls on the replicas as cli/routed.h says for the planner's replica_routing, also the
 * measured load that the gate compares a candidate with: with `weighted` by the weights that came with the
 * plan of an earlier window, with `adaptive` and `batch` by the best split of the window itself. Pure: no
 * clock, no file.
 */
#ifndef CLI_EVALUATE_H
#define CLI_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "eplb/policy.h"

/** Peak / mean of the ranks over the layers of a window. A layer without load has no such figure. */
struct eplb_score {
    int32_t layers; /* with load; without any, the others are 0 */
    double mean;    /* over these layers */
    double worst;   /* the largest of them */
};

/** One window, and the one after it. */
struct eplb_evaluation {
    struct eplb_score same;    /* the candidates of all layers, on the window that they were planned from */
    struct eplb_score next;    /* the active placement, after the commits, on the next window */
    struct eplb_score initial; /* the placement of the start, on the next window */
    int32_t published;         /* layers that the gate published, and that were committed */
    int64_t moved;             /* slots that the commits changed */
    int64_t from_other_ranks;  /* of these, the ones whose expert was not on their rank */
};

/** Over several windows. */
struct eplb_evaluation_total {
    int32_t windows_planned; /* whose `same` has a layer with load */
    int32_t windows_scored;  /* whose `next` has one */
    double same;             /* mean of the windows' means; 0 when there is none */
    double next, initial;    /* likewise */
    double worst_next;       /* the worst layer of all windows */
    int64_t published;       /* sums */
    int64_t moved, from_other_ranks;
};

struct eplb_evaluator_params {
    struct eplb_planner_params planner; /* initial is where the evaluation starts */
    const int32_t *initial_weights;     /* for `weighted`, the shape of initial; NULL: equal ones */
    bool plans;                         /* false: nothing is planned, the placement stays */
};

/** Holds a planner and the placement of the start. Allocates when it is created only. */
struct eplb_evaluator;

/** Creates one; as eplb_planner_create. Free it with eplb_evaluator_destroy. */
enum eplb_status eplb_evaluator_create(const struct eplb_evaluator_params *params,
                                       struct eplb_evaluator **evaluator, struct eplb_error *error);

/** NULL is allowed. */
void eplb_evaluator_destroy(struct eplb_evaluator *evaluator);

/**
 * Plans from a window, commits what the gate publishes, and scores on the next window.
 *
 * @param loads      the window, and what came before it; physical is not looked at
 * @param next       [num_layers][num_experts] of the window after it, each in [0, 2^62]
 * @param evaluation written on success only
 * @return as eplb_planner_plan; nothing is committed then
 */
enum eplb_status eplb_evaluator_step(struct eplb_evaluator *evaluator, const struct eplb_planner_loads *loads,
                                     const int64_t *next, struct eplb_evaluation *evaluation,
                                     struct eplb_error *error);

/** The placement that is active by now, [num_layers][ep_size][slots_per_rank]. */
const int32_t *eplb_evaluator_active(const struct eplb_evaluator *evaluator);

/** Its weights, the same shape: those that came with each layer's plan, before that those of the start. */
const int32_t *eplb_evaluator_weights(const struct eplb_evaluator *evaluator);

/** Sums up the windows. */
void eplb_evaluation_sum(const struct eplb_evaluation *evaluations, int32_t count,
                         struct eplb_evaluation_total *total);

#endif
