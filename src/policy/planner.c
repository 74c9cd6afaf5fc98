/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/policy.h"

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/real.h"
#include "policy/layer_plan.h"
#include "policy/policies.h"

/** Everything is one block: the planner itself first, so that freeing it frees all. */
struct eplb_planner {
    struct eplb_layer_rules rules;
    struct eplb_layer_runner runner;
    const struct eplb_log_sink *log;
    int32_t *layer_ids;                /* [L] */
    int32_t *active;                   /* [L][R][K] */
    int32_t *candidates;               /* [L][R][K] */
    int32_t *weights;                  /* [L][R][K] of the candidates */
    struct eplb_benefit *benefits;     /* [L] */
    struct eplb_migration *migrations; /* [L] */
    double *unbounded_peaks;           /* [L] */
    enum eplb_status *statuses;        /* [L] how the policy ended */
    int32_t *replicas;                 /* [E] scratch of commits and aborts */
    struct eplb_layer_work *works;     /* [num_workers] */
};

void eplb_policy_settings_init(struct eplb_policy_settings *settings)
{
    *settings = (struct eplb_policy_settings){.size = sizeof *settings, .num_groups = 1, .num_nodes = 1};
}

void eplb_planner_params_init(struct eplb_planner_params *params)
{
    *params = (struct eplb_planner_params){
        .size = sizeof *params, .ops = &eplb_policy_balanced, .min_peak_load_improvement = 0.05};
    eplb_policy_settings_init(&params->settings);
}

static size_t layer_offset(const struct eplb_planner *planner, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < planner->rules.shape.num_layers);
    return (size_t)layer * (size_t)planner->rules.shape.num_slots;
}

static struct eplb_layer_rules rules_of(const struct eplb_planner_params *params)
{
    return (struct eplb_layer_rules){.shape = params->shape,
                                     .ops = params->ops,
                                     .settings = params->settings,
                                     .threshold = params->min_peak_load_improvement,
                                     .max_moves = params->max_moves,
                                     .routing = params->replica_routing,
                                     .cost = params->cost};
}

static struct eplb_planner *layout(struct eplb_arena *arena, const struct eplb_planner_params *params)
{
    size_t layers = (size_t)params->shape.num_layers;
    size_t table = layers * (size_t)params->shape.num_slots;
    struct eplb_planner parts = {.rules = rules_of(params), .log = params->log};
    parts.runner = params->runner == NULL ? eplb_layer_runner_alone() : *params->runner;
    EPLB_ASSERT(parts.runner.num_workers >= 1 && parts.runner.num_workers <= EPLB_MAX_WORKERS);
    struct eplb_planner *planner = eplb_arena_take(arena, 1, sizeof *planner);
    parts.layer_ids = eplb_arena_take(arena, layers, sizeof *parts.layer_ids);
    parts.active = eplb_arena_take(arena, table, sizeof *parts.active);
    parts.candidates = eplb_arena_take(arena, table, sizeof *parts.candidates);
    parts.weights = eplb_arena_take(arena, table, sizeof *parts.weights);
    parts.benefits = eplb_arena_take(arena, layers, sizeof *parts.benefits);
    parts.migrations = eplb_arena_take(arena, layers, sizeof *parts.migrations);
    parts.unbounded_peaks = eplb_arena_take(arena, layers, sizeof *parts.unbounded_peaks);
    parts.statuses = eplb_arena_take(arena, layers, sizeof *parts.statuses);
    parts.replicas = eplb_arena_take(arena, (size_t)params->shape.num_experts, sizeof *parts.replicas);
    parts.works = eplb_arena_take(arena, (size_t)parts.runner.num_workers, sizeof *parts.works);
    for (int32_t worker = 0; worker < parts.runner.num_workers; worker++) {
        struct eplb_layer_work work;
        eplb_layer_work_layout(&work, arena, &parts.rules);
        if (planner != NULL)
            parts.works[worker] = work;
    }
    if (planner == NULL)
        return NULL;
    *planner = parts;
    return planner;
}

static enum eplb_status check_params(const struct eplb_planner_params *params, struct eplb_error *error)
{
    if (params->size != sizeof *params)
        EPLB_FAIL(EPLB_INVALID, "eplb_planner_params.size is %zu; this library's is %zu", params->size,
                  sizeof *params);
    const struct eplb_layer_rules rules = rules_of(params);
    const struct eplb_layer_runner *runner = params->runner;
    if (runner != NULL && (runner->size < sizeof *runner || runner->run == NULL || runner->num_workers < 1 ||
                           runner->num_workers > EPLB_MAX_WORKERS))
        EPLB_FAIL(EPLB_INVALID, "the runner is too small, lacks run, or has not 1 to %d workers",
                  EPLB_MAX_WORKERS);
    return eplb_layer_rules_check(&rules, "eplb_planner_params", "min_peak_load_improvement", error);
}

static enum eplb_status set_initial(struct eplb_planner *planner, const struct eplb_planner_params *params,
                                    struct eplb_error *error)
{
    for (int32_t layer = 0; layer < planner->rules.shape.num_layers; layer++) {
        int32_t *active = planner->active + layer_offset(planner, layer);
        planner->layer_ids[layer] = params->layer_ids == NULL ? layer : params->layer_ids[layer];
        if (params->initial == NULL) {
            eplb_placement_initial(&planner->rules.shape, active);
        } else {
            struct eplb_error reason;
            const int32_t *given = params->initial + layer_offset(planner, layer);
            if (eplb_placement_check(&planner->rules.shape, given, &reason) != EPLB_OK)
                EPLB_FAIL(EPLB_INVALID, "initial table, layer %d: %s", planner->layer_ids[layer],
                          reason.text);
            memcpy(active, given, (size_t)planner->rules.shape.num_slots * sizeof *active);
        }
        eplb_planner_abort_layer(planner, layer);
    }
    return EPLB_OK;
}

enum eplb_status eplb_planner_create(const struct eplb_planner_params *params, struct eplb_planner **planner,
                                     struct eplb_error *error)
{
    EPLB_TRY(check_params(params, error));
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&arena, params);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a planner of %d layers with %d slots each",
                  params->shape.num_layers, params->shape.num_slots);
    struct eplb_planner *created = layout(&arena, params);
    EPLB_ASSERT(created != NULL && !arena.overflow);
    enum eplb_status status = set_initial(created, params, error);
    if (status != EPLB_OK) {
        eplb_arena_free(block);
        return status;
    }
    *planner = created;
    return EPLB_OK;
}

void eplb_planner_destroy(struct eplb_planner *planner)
{
    eplb_arena_free(planner);
}

static enum eplb_status check_loads(const struct eplb_planner *planner, const int64_t *loads,
                                    int32_t per_layer, const char *what, struct eplb_error *error)
{
    for (int32_t layer = 0; layer < planner->rules.shape.num_layers; layer++)
        EPLB_TRY(eplb_layer_loads_check(planner->layer_ids[layer], what,
                                        loads + (size_t)layer * (size_t)per_layer, per_layer, error));
    return EPLB_OK;
}

static const char *verdict_of(const struct eplb_planner *planner, int32_t layer)
{
    const struct eplb_benefit *benefit = &planner->benefits[layer];
    EPLB_ASSERT(!benefit->publish || planner->migrations[layer].pays);
    if (planner->statuses[layer] != EPLB_OK)
        return "keep: policy failed";
    if (benefit->publish)
        return "publish";
    if (!planner->migrations[layer].pays)
        return "keep: does not pay";
    if (benefit->candidate_peak <= 0)
        return "keep: no load";
    return benefit->sets_changed ? "keep: below threshold" : "keep: no change";
}

static const char *break_even_text(double forwards, char text[EPLB_REAL_TEXT])
{
    enum { SHOWN_DIGITS = 6 };
    if (forwards < 0)
        return "unknown";
    if (forwards - forwards != 0)
        return "never";
    eplb_real_round(forwards, SHOWN_DIGITS, text);
    return text;
}

static void log_benefit(const struct eplb_planner *planner, int32_t layer)
{
    const struct eplb_benefit *benefit = &planner->benefits[layer];
    const struct eplb_migration *migration = &planner->migrations[layer];
    bool bytes_known = planner->rules.cost.expert_bytes > 0 || migration->sent_slots == 0;
    char forwards[EPLB_REAL_TEXT];
    EPLB_LOG(planner->log, PLACEMENT_BENEFIT, EPLB_VALUE_INT(planner->layer_ids[layer]),
             EPLB_VALUE_TEXT(planner->rules.ops->name), EPLB_VALUE_REAL(benefit->current_peak),
             EPLB_VALUE_REAL(benefit->candidate_peak), EPLB_VALUE_REAL(benefit->improvement),
             EPLB_VALUE_REAL(planner->rules.threshold), EPLB_VALUE_TEXT(verdict_of(planner, layer)),
             EPLB_VALUE_REAL(planner->unbounded_peaks[layer]), EPLB_VALUE_INT(migration->moved_slots),
             EPLB_VALUE_INT(migration->sent_slots),
             bytes_known ? EPLB_VALUE_INT(migration->bytes) : EPLB_VALUE_TEXT("unknown"),
             EPLB_VALUE_TEXT(break_even_text(migration->break_even_forwards, forwards)));
}

/** What a run of all layers is given. */
struct run {
    struct eplb_planner *planner;
    const struct eplb_planner_loads *loads;
};

static void plan_layer(void *argument, int32_t worker, int32_t layer)
{
    const struct run *run = argument;
    struct eplb_planner *planner = run->planner;
    const struct eplb_planner_loads *loads = run->loads;
    const struct eplb_layer_rules *rules = &planner->rules;
    EPLB_ASSERT(worker >= 0 && worker < planner->runner.num_workers);
    size_t row = layer_offset(planner, layer);
    const struct eplb_layer_task task = {.layer = layer,
                                         .layer_id = planner->layer_ids[layer],
                                         .load = loads->logical +
                                                 (size_t)layer * (size_t)rules->shape.num_experts,
                                         .history = loads->history,
                                         .num_history = loads->num_history,
                                         .parts = loads->parts,
                                         .num_parts = loads->num_parts,
                                         .active = planner->active + row,
                                         .physical = loads->physical == NULL ? NULL : loads->physical + row,
                                         .expert_ids = planner->candidates + row,
                                         .weights = planner->weights + row};
    struct eplb_plan_layer figures;
    planner->statuses[layer] = eplb_layer_plan(rules, &planner->works[worker], &task, &figures);
    planner->benefits[layer] = figures.benefit;
    planner->migrations[layer] = figures.migration;
    planner->unbounded_peaks[layer] = figures.unbounded_peak;
}

/** Without a window nothing is known of any layer. */
static void keep_all(struct eplb_planner *planner)
{
    for (int32_t layer = 0; layer < planner->rules.shape.num_layers; layer++) {
        eplb_planner_abort_layer(planner, layer);
        planner->benefits[layer] = (struct eplb_benefit){0};
        planner->migrations[layer] = (struct eplb_migration){.pays = 1};
        planner->unbounded_peaks[layer] = 0;
    }
}

void eplb_planner_loads_init(struct eplb_planner_loads *loads)
{
    *loads = (struct eplb_planner_loads){.size = sizeof *loads};
}

static enum eplb_status check_windows(const struct eplb_planner *planner, const char *what,
                                      const int64_t *const *windows, int32_t count, struct eplb_error *error)
{
    if (count < 0 || count > EPLB_MAX_POLICY_WINDOWS)
        EPLB_FAIL(EPLB_INVALID, "a policy run is told of %d %s; allowed is 0 to %d", count, what,
                  EPLB_MAX_POLICY_WINDOWS);
    for (int32_t i = 0; i < count; i++)
        EPLB_TRY(check_loads(planner, windows[i], planner->rules.shape.num_experts, "expert", error));
    return EPLB_OK;
}

static enum eplb_status check_all_loads(const struct eplb_planner *planner,
                                        const struct eplb_planner_loads *loads, struct eplb_error *error)
{
    const struct eplb_shape *shape = &planner->rules.shape;
    if (loads->size != sizeof *loads)
        EPLB_FAIL(EPLB_INVALID, "eplb_planner_loads.size is %zu; this library's is %zu", loads->size,
                  sizeof *loads);
    if (loads->logical == NULL)
        return EPLB_OK;
    EPLB_TRY(check_loads(planner, loads->logical, shape->num_experts, "expert", error));
    if (loads->physical != NULL)
        EPLB_TRY(check_loads(planner, loads->physical, shape->num_slots, "slot", error));
    EPLB_TRY(check_windows(planner, "windows before this one", loads->history, loads->num_history, error));
    return check_windows(planner, "pieces of the window", loads->parts, loads->num_parts, error);
}

enum eplb_status eplb_planner_plan(struct eplb_planner *planner, const struct eplb_planner_loads *loads,
                                   struct eplb_error *error)
{
    const struct eplb_shape *shape = &planner->rules.shape;
    const struct eplb_layer_runner *runner = &planner->runner;
    EPLB_TRY(check_all_loads(planner, loads, error));
    if (loads->logical == NULL) {
        keep_all(planner);
        return EPLB_OK;
    }
    for (int32_t worker = 0; worker < runner->num_workers; worker++)
        planner->works[worker].failed_layer = EPLB_NO_FAILURE;
    struct run run = {.planner = planner, .loads = loads};
    runner->run(runner->context, runner->num_workers, shape->num_layers, plan_layer, &run);
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        log_benefit(planner, layer);
    return eplb_layer_first_failure(planner->works, runner->num_workers, error);
}

enum eplb_status eplb_planner_rebalance(struct eplb_planner *planner, const int64_t *logical,
                                        const int64_t *physical, struct eplb_error *error)
{
    struct eplb_planner_loads loads;
    eplb_planner_loads_init(&loads);
    loads.logical = logical;
    loads.physical = physical;
    return eplb_planner_plan(planner, &loads, error);
}

int eplb_planner_still_publishes(struct eplb_planner *planner, int32_t layer, const int64_t *logical,
                                 const int64_t *physical, const struct eplb_migration_cost *cost)
{
    size_t row = layer_offset(planner, layer);
    struct eplb_layer_rules rules = planner->rules;
    struct eplb_plan_layer figures;
    const struct eplb_layer_task task = {.layer = layer,
                                         .layer_id = planner->layer_ids[layer],
                                         .load = logical,
                                         .active = planner->active + row,
                                         .physical = physical,
                                         .expert_ids = planner->candidates + row,
                                         .weights = planner->weights + row};
    EPLB_ASSERT(eplb_migration_cost_check(cost, NULL) == EPLB_OK);
    rules.cost = *cost;
    eplb_layer_judge(&rules, &planner->works[0], &task, &figures);
    return figures.benefit.publish;
}

enum eplb_status eplb_planner_set_cost(struct eplb_planner *planner, const struct eplb_migration_cost *cost,
                                       struct eplb_error *error)
{
    EPLB_TRY(eplb_migration_cost_check(cost, error));
    planner->rules.cost = *cost;
    return EPLB_OK;
}

const int32_t *eplb_planner_active(const struct eplb_planner *planner)
{
    return planner->active;
}

const int32_t *eplb_planner_candidates(const struct eplb_planner *planner)
{
    return planner->candidates;
}

const int32_t *eplb_planner_weights(const struct eplb_planner *planner)
{
    return planner->weights;
}

const struct eplb_benefit *eplb_planner_benefits(const struct eplb_planner *planner)
{
    return planner->benefits;
}

const struct eplb_migration *eplb_planner_migrations(const struct eplb_planner *planner)
{
    return planner->migrations;
}

const double *eplb_planner_unbounded_peaks(const struct eplb_planner *planner)
{
    return planner->unbounded_peaks;
}

static void copy_layer(const struct eplb_planner *planner, int32_t layer, const int32_t *from, int32_t *to)
{
    size_t row = layer_offset(planner, layer);
    memcpy(to + row, from + row, (size_t)planner->rules.shape.num_slots * sizeof *to);
}

void eplb_planner_commit_layer(struct eplb_planner *planner, int32_t layer)
{
    copy_layer(planner, layer, planner->candidates, planner->active);
}

void eplb_planner_abort_layer(struct eplb_planner *planner, int32_t layer)
{
    copy_layer(planner, layer, planner->active, planner->candidates);
    size_t row = layer_offset(planner, layer);
    eplb_weights_equal(&planner->rules.shape, planner->candidates + row, planner->replicas,
                       planner->weights + row);
}
