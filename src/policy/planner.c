/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/policy.h"

#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "policy/policies.h"

/** Everything is one block: the planner itself first, so that freeing it frees all. */
struct eplb_planner {
    struct eplb_shape shape;
    const struct eplb_policy_ops *ops;
    const struct eplb_log_sink *log;
    double threshold;
    struct eplb_policy_settings settings;
    int32_t *layer_ids;            /* [L] */
    int32_t *active;               /* [L][R][K] */
    int32_t *candidates;           /* [L][R][K] */
    int32_t *weights;              /* [L][R][K] of the candidates */
    struct eplb_benefit *benefits; /* [L] */
    int32_t *replicas;             /* [E] scratch */
    enum eplb_replica_routing routing;
    void *gate_scratch;
    int64_t *history; /* [EPLB_MAX_POLICY_WINDOWS][E] of the layer that is planned */
    int64_t *parts;   /* likewise */
    void *scratch;    /* the policy's */
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
    EPLB_ASSERT(layer >= 0 && layer < planner->shape.num_layers);
    return (size_t)layer * (size_t)planner->shape.num_slots;
}

static struct eplb_planner *layout(struct eplb_arena *arena, const struct eplb_planner_params *params)
{
    size_t layers = (size_t)params->shape.num_layers;
    size_t table = layers * (size_t)params->shape.num_slots;
    size_t experts = (size_t)params->shape.num_experts;
    struct eplb_planner parts;
    struct eplb_planner *planner = eplb_arena_take(arena, 1, sizeof *planner);
    parts.layer_ids = eplb_arena_take(arena, layers, sizeof *parts.layer_ids);
    parts.active = eplb_arena_take(arena, table, sizeof *parts.active);
    parts.candidates = eplb_arena_take(arena, table, sizeof *parts.candidates);
    parts.weights = eplb_arena_take(arena, table, sizeof *parts.weights);
    parts.benefits = eplb_arena_take(arena, layers, sizeof *parts.benefits);
    parts.replicas = eplb_arena_take(arena, experts, sizeof *parts.replicas);
    parts.gate_scratch = eplb_arena_take(arena, 1, eplb_gate_routed_scratch(&params->shape));
    parts.history = eplb_arena_take(arena, EPLB_MAX_POLICY_WINDOWS * experts, sizeof *parts.history);
    parts.parts = eplb_arena_take(arena, EPLB_MAX_POLICY_WINDOWS * experts, sizeof *parts.parts);
    parts.scratch = eplb_arena_take(arena, 1, params->ops->scratch_size(&params->shape, &params->settings));
    if (planner == NULL)
        return NULL;
    parts.shape = params->shape;
    parts.ops = params->ops;
    parts.log = params->log;
    parts.settings = params->settings;
    parts.threshold = params->min_peak_load_improvement;
    parts.routing = params->replica_routing;
    *planner = parts;
    return planner;
}

static enum eplb_status check_params(const struct eplb_planner_params *params, struct eplb_error *error)
{
    const struct eplb_policy_ops *ops = params->ops;
    if (params->size != sizeof *params)
        EPLB_FAIL(EPLB_INVALID, "eplb_planner_params.size is %zu; this library's is %zu", params->size,
                  sizeof *params);
    if (ops == NULL || ops->size < sizeof *ops || ops->name == NULL || ops->plan_layer == NULL ||
        ops->scratch_size == NULL)
        EPLB_FAIL(EPLB_INVALID,
                  "the policy table is missing, too small, or lacks name, plan_layer or scratch_size");
    if (!(params->min_peak_load_improvement >= 0 && params->min_peak_load_improvement <= 1))
        EPLB_FAIL(EPLB_INVALID, "min_peak_load_improvement is %.17g; allowed is 0 to 1",
                  params->min_peak_load_improvement);
    const struct eplb_shape *shape = &params->shape;
    struct eplb_shape again;
    EPLB_TRY(eplb_shape_init(&again, shape->num_layers, shape->num_experts, shape->ep_size,
                             shape->redundant_experts_num, error));
    if (shape->slots_per_rank != again.slots_per_rank || shape->num_slots != again.num_slots)
        EPLB_FAIL(EPLB_INVALID,
                  "eplb_planner_params.shape has %d slots per rank and %d slots; %d experts on %d ranks with "
                  "%d redundant have %d and %d",
                  shape->slots_per_rank, shape->num_slots, shape->num_experts, shape->ep_size,
                  shape->redundant_experts_num, again.slots_per_rank, again.num_slots);
    return EPLB_OK;
}

static enum eplb_status set_initial(struct eplb_planner *planner, const struct eplb_planner_params *params,
                                    struct eplb_error *error)
{
    for (int32_t layer = 0; layer < planner->shape.num_layers; layer++) {
        int32_t *active = planner->active + layer_offset(planner, layer);
        planner->layer_ids[layer] = params->layer_ids == NULL ? layer : params->layer_ids[layer];
        if (params->initial == NULL) {
            eplb_placement_initial(&planner->shape, active);
        } else {
            struct eplb_error reason;
            const int32_t *given = params->initial + layer_offset(planner, layer);
            if (eplb_placement_check(&planner->shape, given, &reason) != EPLB_OK)
                EPLB_FAIL(EPLB_INVALID, "initial table, layer %d: %s", planner->layer_ids[layer],
                          reason.text);
            memcpy(active, given, (size_t)planner->shape.num_slots * sizeof *active);
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
    for (int32_t layer = 0; layer < planner->shape.num_layers; layer++)
        for (int32_t i = 0; i < per_layer; i++) {
            int64_t load = loads[(size_t)layer * (size_t)per_layer + (size_t)i];
            if (load < 0 || load > EPLB_MAX_LOAD)
                EPLB_FAIL(EPLB_INVALID, "layer %d: load of %s %d is %" PRId64 "; allowed is 0 to 2^62",
                          planner->layer_ids[layer], what, i, load);
        }
    return EPLB_OK;
}

static const char *verdict_of(const struct eplb_benefit *benefit, enum eplb_status policy)
{
    if (policy != EPLB_OK)
        return "keep: policy failed";
    if (benefit->publish)
        return "publish";
    if (benefit->candidate_peak <= 0)
        return "keep: no load";
    return benefit->sets_changed ? "keep: below threshold" : "keep: no change";
}

static void log_benefit(const struct eplb_planner *planner, int32_t layer, enum eplb_status policy)
{
    const struct eplb_benefit *benefit = &planner->benefits[layer];
    EPLB_LOG(planner->log, PLACEMENT_BENEFIT, EPLB_VALUE_INT(planner->layer_ids[layer]),
             EPLB_VALUE_TEXT(planner->ops->name), EPLB_VALUE_REAL(benefit->current_peak),
             EPLB_VALUE_REAL(benefit->candidate_peak), EPLB_VALUE_REAL(benefit->improvement),
             EPLB_VALUE_REAL(planner->threshold), EPLB_VALUE_TEXT(verdict_of(benefit, policy)));
}

static int has_load(const int64_t *load, int32_t num_experts)
{
    for (int32_t expert = 0; expert < num_experts; expert++)
        if (load[expert] > 0)
            return 1;
    return 0;
}

/** Puts a layer's windows side by side; NULL when there is none. */
static const int64_t *gather(const struct eplb_planner *planner, int32_t layer, const int64_t *const *windows,
                             int32_t count, int64_t *rows)
{
    EPLB_ASSERT(count >= 0 && count <= EPLB_MAX_POLICY_WINDOWS);
    size_t experts = (size_t)planner->shape.num_experts;
    for (int32_t i = 0; i < count; i++)
        memcpy(rows + (size_t)i * experts, windows[i] + (size_t)layer * experts, experts * sizeof *rows);
    return count == 0 ? NULL : rows;
}

/** Weights for a candidate that came without: those that suit the window where the routing uses them. */
static void choose_weights(struct eplb_planner *planner, const int64_t *load,
                           const struct eplb_policy_answer *answer)
{
    struct eplb_best_split split;
    EPLB_ASSERT(!answer->has_weights);
    if (planner->routing == EPLB_ROUTING_WEIGHTED || planner->routing == EPLB_ROUTING_ADAPTIVE)
        eplb_best_split(&planner->shape, answer->expert_ids, load, planner->gate_scratch, answer->weights,
                        NULL, &split);
    else
        eplb_weights_equal(&planner->shape, answer->expert_ids, planner->replicas, answer->weights);
}

static enum eplb_status propose(struct eplb_planner *planner, int32_t layer,
                                const struct eplb_planner_loads *loads, struct eplb_error *error)
{
    size_t row = layer_offset(planner, layer);
    size_t experts = (size_t)layer * (size_t)planner->shape.num_experts;
    EPLB_ASSERT(planner->candidates != planner->active && planner->weights != planner->active);
    struct eplb_policy_problem problem = {
        .size = sizeof problem,
        .shape = &planner->shape,
        .settings = &planner->settings,
        .load = loads->logical + experts,
        .active = planner->active + row,
        .history = gather(planner, layer, loads->history, loads->num_history, planner->history),
        .num_history = loads->num_history,
        .parts = gather(planner, layer, loads->parts, loads->num_parts, planner->parts),
        .num_parts = loads->num_parts};
    struct eplb_policy_answer answer = {
        .size = sizeof answer, .expert_ids = planner->candidates + row, .weights = planner->weights + row};
    struct eplb_error reason = {0};
    enum eplb_status status = planner->ops->plan_layer(&problem, planner->scratch, &answer, &reason);
    if (status == EPLB_OK)
        status = eplb_placement_check(&planner->shape, answer.expert_ids, &reason);
    if (status == EPLB_OK && answer.has_weights)
        status = eplb_weights_check(&planner->shape, answer.expert_ids, answer.weights, planner->replicas,
                                    &reason);
    if (status == EPLB_OK && !answer.has_weights)
        choose_weights(planner, problem.load, &answer);
    if (status == EPLB_OK)
        return EPLB_OK;
    eplb_planner_abort_layer(planner, layer);
    EPLB_FAIL(status, "policy %s, layer %d: %s", planner->ops->name, planner->layer_ids[layer],
              reason.text[0] == '\0' ? eplb_status_text(status) : reason.text);
}

static enum eplb_status plan(struct eplb_planner *planner, int32_t layer,
                             const struct eplb_planner_loads *loads, struct eplb_error *error)
{
    const int64_t *logical = loads->logical + (size_t)layer * (size_t)planner->shape.num_experts;
    enum eplb_status status = EPLB_OK;
    eplb_planner_abort_layer(planner, layer);
    if (has_load(logical, planner->shape.num_experts))
        status = propose(planner, layer, loads, error);
    size_t row = layer_offset(planner, layer);
    EPLB_ASSERT(planner->threshold >= 0 && planner->threshold <= 1);
    const struct eplb_gate_routing routing = {planner->routing, planner->weights + row};
    planner->benefits[layer] = eplb_gate_routed(
        &planner->shape, &routing, planner->active + row, planner->candidates + row, logical,
        loads->physical == NULL ? NULL : loads->physical + row, planner->threshold, planner->gate_scratch);
    log_benefit(planner, layer, status);
    return status;
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
        EPLB_TRY(check_loads(planner, windows[i], planner->shape.num_experts, "expert", error));
    return EPLB_OK;
}

static enum eplb_status check_all_loads(const struct eplb_planner *planner,
                                        const struct eplb_planner_loads *loads, struct eplb_error *error)
{
    const struct eplb_shape *shape = &planner->shape;
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
    EPLB_TRY(check_all_loads(planner, loads, error));
    enum eplb_status first_failure = EPLB_OK;
    for (int32_t layer = 0; layer < planner->shape.num_layers; layer++) {
        if (loads->logical == NULL) {
            eplb_planner_abort_layer(planner, layer);
            planner->benefits[layer] = (struct eplb_benefit){0};
            continue;
        }
        enum eplb_status status = plan(planner, layer, loads, first_failure == EPLB_OK ? error : NULL);
        if (first_failure == EPLB_OK)
            first_failure = status;
    }
    return first_failure;
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

static void copy_layer(const struct eplb_planner *planner, int32_t layer, const int32_t *from, int32_t *to)
{
    size_t row = layer_offset(planner, layer);
    memcpy(to + row, from + row, (size_t)planner->shape.num_slots * sizeof *to);
}

void eplb_planner_commit_layer(struct eplb_planner *planner, int32_t layer)
{
    copy_layer(planner, layer, planner->candidates, planner->active);
}

void eplb_planner_abort_layer(struct eplb_planner *planner, int32_t layer)
{
    copy_layer(planner, layer, planner->active, planner->candidates);
    size_t row = layer_offset(planner, layer);
    eplb_weights_equal(&planner->shape, planner->candidates + row, planner->replicas, planner->weights + row);
}
