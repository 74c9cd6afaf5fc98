/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/layer_plan.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "policy/bounded.h"

/* -------------------------------------------------------------------------------------- checks */

static enum eplb_status check_shape(const struct eplb_shape *shape, const char *what,
                                    struct eplb_error *error)
{
    struct eplb_shape again;
    EPLB_TRY(eplb_shape_init(&again, shape->num_layers, shape->num_experts, shape->ep_size,
                             shape->redundant_experts_num, error));
    if (shape->slots_per_rank != again.slots_per_rank || shape->num_slots != again.num_slots)
        EPLB_FAIL(
            EPLB_INVALID,
            "%s.shape has %d slots per rank and %d slots; %d experts on %d ranks with %d redundant have "
            "%d and %d",
            what, shape->slots_per_rank, shape->num_slots, shape->num_experts, shape->ep_size,
            shape->redundant_experts_num, again.slots_per_rank, again.num_slots);
    return EPLB_OK;
}

/** Not below 0, not NaN, and finite. */
static bool is_amount(double value)
{
    return value >= 0 && value - value == 0;
}

enum eplb_status eplb_migration_cost_check(const struct eplb_migration_cost *cost, struct eplb_error *error)
{
    if (cost->expert_bytes < 0 || cost->max_break_even_forwards < 0)
        EPLB_FAIL(EPLB_INVALID,
                  "the cost of a migration has expert_bytes %" PRId64
                  " and max_break_even_forwards %d; both must be 0 or more",
                  cost->expert_bytes, cost->max_break_even_forwards);
    if (!is_amount(cost->bytes_per_second) || !is_amount(cost->seconds_per_token) ||
        !is_amount(cost->num_forwards))
        EPLB_FAIL(EPLB_INVALID,
                  "the cost of a migration has bytes_per_second %.17g, seconds_per_token %.17g and "
                  "num_forwards %.17g; each must be 0 or more, and finite",
                  cost->bytes_per_second, cost->seconds_per_token, cost->num_forwards);
    return EPLB_OK;
}

enum eplb_status eplb_layer_rules_check(const struct eplb_layer_rules *rules, const char *what,
                                        const char *threshold, struct eplb_error *error)
{
    const struct eplb_policy_ops *ops = rules->ops;
    const struct eplb_policy_settings *settings = &rules->settings;
    if (ops == NULL || ops->size < sizeof *ops || ops->name == NULL || ops->plan_layer == NULL ||
        ops->scratch_size == NULL)
        EPLB_FAIL(EPLB_INVALID,
                  "the policy table is missing, too small, or lacks name, plan_layer or scratch_size");
    if (settings->size != sizeof *settings)
        EPLB_FAIL(EPLB_INVALID, "%s.settings.size is %zu; this library's is %zu", what, settings->size,
                  sizeof *settings);
    if (settings->num_groups < 1 || settings->num_nodes < 1)
        EPLB_FAIL(EPLB_INVALID, "%s.settings has %d groups and %d nodes; both must be 1 or more", what,
                  settings->num_groups, settings->num_nodes);
    if (!(rules->threshold >= 0 && rules->threshold <= 1))
        EPLB_FAIL(EPLB_INVALID, "%s is %.17g; allowed is 0 to 1", threshold, rules->threshold);
    if (rules->max_moves < 0)
        EPLB_FAIL(EPLB_INVALID, "%s.max_moves is %d; it must be 0 (no limit) or more", what,
                  rules->max_moves);
    EPLB_TRY(eplb_migration_cost_check(&rules->cost, error));
    return check_shape(&rules->shape, what, error);
}

enum eplb_status eplb_layer_loads_check(int32_t layer_id, const char *what, const int64_t *loads,
                                        int32_t count, struct eplb_error *error)
{
    for (int32_t i = 0; i < count; i++)
        if (loads[i] < 0 || loads[i] > EPLB_MAX_LOAD)
            EPLB_FAIL(EPLB_INVALID, "layer %d: load of %s %d is %" PRId64 "; allowed is 0 to 2^62", layer_id,
                      what, i, loads[i]);
    return EPLB_OK;
}

/* ---------------------------------------------------------------------------------------- work */

void eplb_layer_work_layout(struct eplb_layer_work *work, struct eplb_arena *arena,
                            const struct eplb_layer_rules *rules)
{
    const struct eplb_shape *shape = &rules->shape;
    size_t slots = (size_t)shape->num_slots;
    *work = (struct eplb_layer_work){.failed_layer = EPLB_NO_FAILURE};
    work->replicas = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->replicas);
    work->weights = eplb_arena_take(arena, slots, sizeof *work->weights);
    size_t windows = EPLB_MAX_POLICY_WINDOWS * (size_t)shape->num_experts;
    work->history = eplb_arena_take(arena, windows, sizeof *work->history);
    work->parts = eplb_arena_take(arena, windows, sizeof *work->parts);
    work->gate = eplb_arena_take(arena, 1, eplb_gate_routed_scratch(shape));
    work->policy = eplb_arena_take(arena, 1, rules->ops->scratch_size(shape, &rules->settings));
    work->migration = eplb_arena_take(arena, 1, eplb_migration_scratch(shape));
    if (rules->max_moves > 0)
        work->bound = eplb_arena_take(arena, 1, eplb_bound_scratch(shape));
}

static void run_alone(void *context, int32_t num_workers, int32_t num_layers,
                      void (*plan_layer)(void *argument, int32_t worker, int32_t layer), void *argument)
{
    (void)context;
    EPLB_ASSERT(num_workers == 1);
    for (int32_t layer = 0; layer < num_layers; layer++)
        plan_layer(argument, 0, layer);
}

struct eplb_layer_runner eplb_layer_runner_alone(void)
{
    return (struct eplb_layer_runner){
        .size = sizeof(struct eplb_layer_runner), .num_workers = 1, .run = run_alone};
}

/* ----------------------------------------------------------------------------------- the layer */

static bool has_load(const int64_t *load, int32_t num_experts)
{
    for (int32_t expert = 0; expert < num_experts; expert++)
        if (load[expert] > 0)
            return true;
    return false;
}

/** Where the weights of the candidate go; the gate looks at them also when the caller wants none. */
static int32_t *weights_of(const struct eplb_layer_work *work, const struct eplb_layer_task *task)
{
    return task->weights == NULL ? work->weights : task->weights;
}

/** Whether anybody looks at weights that the policy did not give. */
static bool wants_weights(const struct eplb_layer_rules *rules, const struct eplb_layer_task *task)
{
    return task->weights != NULL || rules->routing == EPLB_ROUTING_WEIGHTED;
}

static void keep(const struct eplb_layer_rules *rules, const struct eplb_layer_work *work,
                 const struct eplb_layer_task *task)
{
    EPLB_ASSERT(task->expert_ids != task->active);
    memcpy(task->expert_ids, task->active, (size_t)rules->shape.num_slots * sizeof *task->expert_ids);
    if (wants_weights(rules, task))
        eplb_weights_equal(&rules->shape, task->expert_ids, work->replicas, weights_of(work, task));
}

/** Puts a layer's windows side by side; NULL when there is none. */
static const int64_t *gather(const struct eplb_layer_rules *rules, int32_t layer,
                             const int64_t *const *windows, int32_t count, int64_t *rows)
{
    EPLB_ASSERT(count >= 0 && count <= EPLB_MAX_POLICY_WINDOWS);
    size_t experts = (size_t)rules->shape.num_experts;
    for (int32_t i = 0; i < count; i++)
        memcpy(rows + (size_t)i * experts, windows[i] + (size_t)layer * experts, experts * sizeof *rows);
    return count == 0 ? NULL : rows;
}

static struct eplb_policy_problem problem_of(const struct eplb_layer_rules *rules,
                                             const struct eplb_layer_work *work,
                                             const struct eplb_layer_task *task)
{
    return (struct eplb_policy_problem){
        .size = sizeof(struct eplb_policy_problem),
        .shape = &rules->shape,
        .settings = &rules->settings,
        .load = task->load,
        .active = task->active,
        .history = gather(rules, task->layer, task->history, task->num_history, work->history),
        .num_history = task->num_history,
        .parts = gather(rules, task->layer, task->parts, task->num_parts, work->parts),
        .num_parts = task->num_parts};
}

/** Weights for a candidate that came without: those that suit the window where the routing uses them. */
static void choose_weights(const struct eplb_layer_rules *rules, const struct eplb_layer_work *work,
                           const struct eplb_layer_task *task, int32_t *weights)
{
    struct eplb_best_split split;
    if (rules->routing == EPLB_ROUTING_WEIGHTED || rules->routing == EPLB_ROUTING_ADAPTIVE)
        eplb_best_split(&rules->shape, task->expert_ids, task->load, work->gate, weights, NULL, &split);
    else
        eplb_weights_equal(&rules->shape, task->expert_ids, work->replicas, weights);
}

/** What the policy proposes, checked: a host's own policy is not believed. */
static enum eplb_status propose(const struct eplb_layer_rules *rules, const struct eplb_layer_work *work,
                                const struct eplb_layer_task *task, struct eplb_error *reason)
{
    EPLB_ASSERT(task->expert_ids != task->active);
    const struct eplb_shape *shape = &rules->shape;
    const struct eplb_policy_problem problem = problem_of(rules, work, task);
    struct eplb_policy_answer answer = {
        .size = sizeof answer, .expert_ids = task->expert_ids, .weights = weights_of(work, task)};
    EPLB_TRY(rules->ops->plan_layer(&problem, work->policy, &answer, reason));
    EPLB_TRY(eplb_placement_check(shape, answer.expert_ids, reason));
    if (answer.has_weights)
        return eplb_weights_check(shape, answer.expert_ids, answer.weights, work->replicas, reason);
    if (wants_weights(rules, task))
        choose_weights(rules, work, task, answer.weights);
    return EPLB_OK;
}

static bool moves_too_much(const struct eplb_layer_rules *rules, const struct eplb_layer_task *task)
{
    int32_t moves = 0;
    for (int32_t slot = 0; rules->max_moves > 0 && slot < rules->shape.num_slots; slot++)
        moves += task->expert_ids[slot] != task->active[slot];
    return moves > rules->max_moves;
}

/** Puts the plan that is found within the bound in the place of the candidate. Its tokens are split evenly.
 */
static void bound(const struct eplb_layer_rules *rules, const struct eplb_layer_work *work,
                  const struct eplb_layer_task *task)
{
    EPLB_ASSERT(work->bound != NULL);
    const struct eplb_policy_problem problem = problem_of(rules, work, task);
    int32_t moves = eplb_bound_plan(&problem, rules->max_moves, work->bound, task->expert_ids);
    EPLB_ASSERT(moves <= rules->max_moves && !moves_too_much(rules, task));
    EPLB_ASSERT(eplb_placement_check(&rules->shape, task->expert_ids, NULL) == EPLB_OK);
    (void)moves;
    if (wants_weights(rules, task))
        choose_weights(rules, work, task, weights_of(work, task));
}

static struct eplb_benefit pass_gate(const struct eplb_layer_rules *rules, const struct eplb_layer_work *work,
                                     const struct eplb_layer_task *task)
{
    const struct eplb_gate_routing routing = {rules->routing, weights_of(work, task)};
    return eplb_gate_routed(&rules->shape, &routing, task->active, task->expert_ids, task->load,
                            task->physical, rules->threshold, work->gate);
}

static double sum_of(const int64_t *loads, int32_t count)
{
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += (double)loads[i];
    return sum;
}

/**
 * Which share of a layer's logical load was measured under the active placement: of a layer that switched
 * within the window, the rest was not. 1 without a measurement or a load.
 */
static double measured_share(const struct eplb_shape *shape, const int64_t *load, const int64_t *physical)
{
    double logical = physical == NULL ? 0 : sum_of(load, shape->num_experts);
    return logical > 0 ? sum_of(physical, shape->num_slots) / logical : 1;
}

void eplb_layer_judge(const struct eplb_layer_rules *rules, const struct eplb_layer_work *work,
                      const struct eplb_layer_task *task, struct eplb_plan_layer *figures)
{
    struct eplb_migration_cost cost = rules->cost;
    cost.num_forwards *= measured_share(&rules->shape, task->load, task->physical);
    figures->benefit = pass_gate(rules, work, task);
    figures->migration = eplb_migration_of(&rules->shape, task->active, task->expert_ids, &figures->benefit,
                                           &cost, work->migration);
    figures->benefit.publish = figures->benefit.publish && figures->migration.pays;
}

static void note_failure(const struct eplb_layer_rules *rules, struct eplb_layer_work *work,
                         const struct eplb_layer_task *task, enum eplb_status status,
                         const struct eplb_error *reason)
{
    EPLB_ASSERT(status != EPLB_OK);
    if (task->layer >= work->failed_layer)
        return;
    work->failed_layer = task->layer;
    eplb_fail(&work->failure, status, "policy %s, layer %d: %s", rules->ops->name, task->layer_id,
              reason->text[0] == '\0' ? eplb_status_text(status) : reason->text);
}

enum eplb_status eplb_layer_plan(const struct eplb_layer_rules *rules, struct eplb_layer_work *work,
                                 const struct eplb_layer_task *task, struct eplb_plan_layer *figures)
{
    struct eplb_error reason;
    enum eplb_status status = EPLB_OK;
    bool loaded = has_load(task->load, rules->shape.num_experts);
    reason.text[0] = '\0';
    EPLB_ASSERT(task->layer >= 0 && task->layer < EPLB_NO_FAILURE);
    if (loaded)
        status = propose(rules, work, task, &reason);
    if (status != EPLB_OK)
        note_failure(rules, work, task, status, &reason);
    if (!loaded || status != EPLB_OK)
        keep(rules, work, task);
    bool bounded = moves_too_much(rules, task);
    if (bounded && figures != NULL)
        figures->unbounded_peak = pass_gate(rules, work, task).candidate_peak;
    if (bounded)
        bound(rules, work, task);
    if (figures == NULL)
        return status;
    eplb_layer_judge(rules, work, task, figures);
    figures->status = status;
    if (!bounded)
        figures->unbounded_peak = figures->benefit.candidate_peak;
    return status;
}

enum eplb_status eplb_layer_first_failure(const struct eplb_layer_work *works, int32_t num_workers,
                                          struct eplb_error *error)
{
    EPLB_ASSERT(num_workers >= 1);
    const struct eplb_layer_work *first = &works[0];
    for (int32_t i = 1; i < num_workers; i++)
        if (works[i].failed_layer < first->failed_layer)
            first = &works[i];
    if (first->failed_layer == EPLB_NO_FAILURE)
        return EPLB_OK;
    EPLB_ASSERT(first->failure.status != EPLB_OK);
    EPLB_FAIL(first->failure.status, "%s", first->failure.text);
}
