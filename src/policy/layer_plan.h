/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The plan of one layer, for the planner and for eplb_plan alike: policy, check of its answer, bound on the
 * moves, gate, cost of the migration.
 */
#ifndef POLICY_LAYER_PLAN_H
#define POLICY_LAYER_PLAN_H

#include "base/arena.h"
#include "eplb/plan.h"

/** What is the same for all layers. */
struct eplb_layer_rules {
    struct eplb_shape shape;
    const struct eplb_policy_ops *ops;
    struct eplb_policy_settings settings;
    double threshold;
    int32_t max_moves;
    enum eplb_replica_routing routing;
    struct eplb_migration_cost cost;
};

/**
 * Checks what a caller gave; `what` is the struct that it came in, and `threshold` its member of the
 * threshold. EPLB_INVALID with a sentence.
 */
enum eplb_status eplb_layer_rules_check(const struct eplb_layer_rules *rules, const char *what,
                                        const char *threshold, struct eplb_error *error);

/** Checks what a migration costs. */
enum eplb_status eplb_migration_cost_check(const struct eplb_migration_cost *cost, struct eplb_error *error);

/** Checks the loads of a layer, [count] of what, for instance "expert". */
enum eplb_status eplb_layer_loads_check(int32_t layer_id, const char *what, const int64_t *loads,
                                        int32_t count, struct eplb_error *error);

/** What one worker needs. All arrays are scratch of one layer. */
struct eplb_layer_work {
    int32_t *replicas; /* [E] */
    int32_t *weights;  /* [num_slots] where the caller wants none */
    int64_t *history;  /* [EPLB_MAX_POLICY_WINDOWS][E] */
    int64_t *parts;    /* likewise */
    void *policy;
    void *bound; /* NULL without a bound */
    void *gate;
    void *migration;

    int32_t failed_layer;      /* the lowest layer whose policy failed; EPLB_NO_FAILURE */
    struct eplb_error failure; /* its sentence */
};

#define EPLB_NO_FAILURE INT32_MAX

/** Carves a worker's arrays. */
void eplb_layer_work_layout(struct eplb_layer_work *work, struct eplb_arena *arena,
                            const struct eplb_layer_rules *rules);

/** One layer. */
struct eplb_layer_task {
    int32_t layer;                 /* its row, */
    int32_t layer_id;              /* and its name in messages */
    const int64_t *load;           /* [E] */
    const int64_t *const *history; /* [num_history] windows before, oldest first: [L][E] each */
    int32_t num_history;
    const int64_t *const *parts; /* [num_parts] pieces of the window, oldest first: [L][E] each */
    int32_t num_parts;
    const int32_t *active;   /* [num_slots], legal */
    const int64_t *physical; /* [num_slots]; NULL: not measured */
    int32_t *expert_ids;     /* [num_slots] receives the candidate; that of `active` without one */
    int32_t *weights;        /* [num_slots] receives its weights; NULL: not wanted */
};

/**
 * Plans a layer. A failure keeps the layer and is noted in work.
 *
 * @param figures receives all but the balance; NULL: neither gate nor cost are computed
 */
enum eplb_status eplb_layer_plan(const struct eplb_layer_rules *rules, struct eplb_layer_work *work,
                                 const struct eplb_layer_task *task, struct eplb_plan_layer *figures);

/**
 * Judges the candidate that a task has: gate and cost, on the task's load.
 *
 * @param figures receives benefit and migration; publish only when it also pays
 */
void eplb_layer_judge(const struct eplb_layer_rules *rules, const struct eplb_layer_work *work,
                      const struct eplb_layer_task *task, struct eplb_plan_layer *figures);

/** The failure of the lowest layer of all workers; EPLB_OK when there is none. */
enum eplb_status eplb_layer_first_failure(const struct eplb_layer_work *works, int32_t num_workers,
                                          struct eplb_error *error);

/** The runner of a caller without one: everything in its own thread. */
struct eplb_layer_runner eplb_layer_runner_alone(void);

#endif
