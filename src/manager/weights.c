/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Weight updates: solving from the recent load, and handing out what was solved. */
#include "manager/state.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "placement/weighted.h"

/* New weights lower the largest rank by more than this part of it, or are not worth a version: with each
 * one the layer's measured window restarts. */
enum { LEAST_GAIN = 64 };

static bool is_adaptive(const struct eplb_manager_core *core)
{
    return core->params.replica_routing == EPLB_ROUTING_ADAPTIVE;
}

bool eplb_replica_weights_come_with_tables(const struct eplb_manager_core *core)
{
    return core->params.replica_routing == EPLB_ROUTING_WEIGHTED || is_adaptive(core);
}

/* ------------------------------------------------------------------------------------- create */

void eplb_replica_weights_layout(struct eplb_arena *arena, const struct eplb_shape *shape,
                                 enum eplb_replica_routing routing, struct weights *weights)
{
    size_t layers = (size_t)shape->num_layers;
    size_t table = layers * (size_t)shape->num_slots;
    size_t solving = routing == EPLB_ROUTING_ADAPTIVE ? 1 : 0;
    weights->versions = eplb_arena_take(arena, layers, sizeof *weights->versions);
    weights->active = eplb_arena_take(arena, table, sizeof *weights->active);
    weights->queued = eplb_arena_take(arena, table, sizeof *weights->queued);
    weights->queue = eplb_arena_take(arena, layers, sizeof *weights->queue);
    weights->is_queued = eplb_arena_take(arena, layers, sizeof *weights->is_queued);
    weights->sums = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *weights->sums);
    struct weights_solve *solve = &weights->solve;
    solve->load = eplb_arena_take(arena, solving * layers, (size_t)shape->num_experts * sizeof *solve->load);
    solve->tables = eplb_arena_take(arena, solving * table, sizeof *solve->tables);
    solve->active = eplb_arena_take(arena, solving * table, sizeof *solve->active);
    solve->solved = eplb_arena_take(arena, solving * table, sizeof *solve->solved);
    solve->generations = eplb_arena_take(arena, solving * layers, sizeof *solve->generations);
    solve->excess = eplb_arena_take(arena, solving * layers, sizeof *solve->excess);
    solve->updates = eplb_arena_take(arena, solving * layers, sizeof *solve->updates);
    solve->scratch = eplb_arena_take(arena, solving, eplb_split_graph_size(shape));
}

static int32_t *row_of(const struct eplb_manager_core *core, int32_t *rows, int32_t layer)
{
    return rows + eplb_manager_row(core, layer);
}

static size_t row_bytes(const struct eplb_manager_core *core)
{
    return (size_t)core->shape.num_slots * sizeof(int32_t);
}

enum eplb_status eplb_replica_weights_start(struct eplb_manager_core *core,
                                            const struct eplb_manager_core_params *params,
                                            struct eplb_error *error)
{
    struct weights *weights = &core->weights;
    for (int32_t layer = 0; layer < core->shape.num_layers; layer++) {
        const int32_t *table = eplb_planner_active(core->planner) + eplb_manager_row(core, layer);
        int32_t *active = row_of(core, weights->active, layer);
        weights->versions[layer] = params->weight_versions == NULL ? 0 : params->weight_versions[layer];
        if (weights->versions[layer] > EPLB_MAX_TOKEN / 2)
            EPLB_FAIL(EPLB_INVALID, "layer %d has weights of version %" PRIu64 "; allowed is 0 to 2^61",
                      eplb_manager_layer_id(core, layer), weights->versions[layer]);
        if (params->initial_weights == NULL) {
            eplb_weights_equal(&core->shape, table, weights->sums, active);
            continue;
        }
        struct eplb_error reason;
        memcpy(active, params->initial_weights + eplb_manager_row(core, layer), row_bytes(core));
        if (eplb_weights_check(&core->shape, table, active, weights->sums, &reason) != EPLB_OK)
            EPLB_FAIL(EPLB_INVALID, "the initial weights of layer %d are not legal: %s",
                      eplb_manager_layer_id(core, layer), reason.text);
    }
    return is_adaptive(core) ? eplb_aggregator_keep_recent(core->aggregator, params->weights_decay, error)
                             : EPLB_OK;
}

/* -------------------------------------------------------------------------------------- solve */

void eplb_replica_weights_solve_if_due(struct eplb_manager_core *core)
{
    struct weights *weights = &core->weights;
    if (!is_adaptive(core) || !weights->sample_since_solve || weights->solving || core->num_dead > 0)
        return;
    size_t layers = (size_t)core->shape.num_layers;
    struct weights_solve *solve = &weights->solve;
    weights->sample_since_solve = false;
    weights->solving = true;
    core->totals.weight_solves++;
    memcpy(solve->load, eplb_aggregator_recent(core->aggregator),
           layers * (size_t)core->shape.num_experts * sizeof *solve->load);
    memcpy(solve->tables, eplb_planner_active(core->planner), layers * row_bytes(core));
    memcpy(solve->active, weights->active, layers * row_bytes(core));
    memcpy(solve->generations, eplb_aggregator_open(core->aggregator)->generations,
           layers * sizeof *solve->generations);
    eplb_manager_act(core, EPLB_MANAGER_SOLVE_WEIGHTS);
}

/** The largest rank's load over the mean; 0 without load. */
static double excess_of(const struct eplb_manager_core *core, int32_t layer)
{
    const struct eplb_shape *shape = &core->shape;
    const struct weights_solve *solve = &core->weights.solve;
    const int64_t *load = solve->load + (size_t)layer * (size_t)shape->num_experts;
    double total = 0;
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        total += (double)load[expert];
    if (total <= 0)
        return 0;
    eplb_u128 peak = eplb_weighted_peak(shape, row_of(core, solve->tables, layer),
                                        row_of(core, solve->active, layer), load);
    return (double)peak * shape->ep_size / (total * EPLB_WEIGHT_UNIT);
}

/** The layer with the largest excess; one that no weights can help enough is none. */
static int32_t take_worst(struct eplb_manager_core *core)
{
    double *excess = core->weights.solve.excess;
    int32_t worst = 0;
    for (int32_t layer = 1; layer < core->shape.num_layers; layer++)
        worst = excess[layer] > excess[worst] ? layer : worst;
    /* No split is below the mean. */
    if (excess[worst] * (LEAST_GAIN - 1) <= LEAST_GAIN)
        return EPLB_NO_LAYER;
    excess[worst] = 0;
    return worst;
}

static void solve_layer(struct eplb_manager_core *core, int32_t layer)
{
    const struct eplb_shape *shape = &core->shape;
    struct weights_solve *solve = &core->weights.solve;
    const int32_t *table = row_of(core, solve->tables, layer);
    const int64_t *load = solve->load + (size_t)layer * (size_t)shape->num_experts;
    int32_t *solved = row_of(core, solve->solved, layer);
    struct eplb_best_split split;
    eplb_best_split(shape, table, load, solve->scratch, solved, NULL, &split);
    eplb_u128 before = eplb_weighted_peak(shape, table, row_of(core, solve->active, layer), load);
    if (eplb_weighted_peak(shape, table, solved, load) * LEAST_GAIN >= before * (LEAST_GAIN - 1))
        return;
    solve->updates[solve->num_updates++] = (struct eplb_weight_update){
        .layer = layer, .generation = solve->generations[layer], .weights = solved};
}

const struct eplb_weight_update *eplb_manager_core_solve_weights(struct eplb_manager_core *core,
                                                                 const struct eplb_clock *clock,
                                                                 int64_t budget_ns, int32_t *num_updates)
{
    struct weights_solve *solve = &core->weights.solve;
    EPLB_ASSERT(core->weights.solving);
    int64_t began = clock->now(clock->context);
    for (int32_t layer = 0; layer < core->shape.num_layers; layer++)
        solve->excess[layer] = excess_of(core, layer);
    solve->num_updates = 0;
    int32_t layer;
    while ((layer = take_worst(core)) != EPLB_NO_LAYER) {
        solve_layer(core, layer);
        if (clock->now(clock->context) - began >= budget_ns)
            break;
    }
    *num_updates = solve->num_updates;
    return solve->updates;
}

/* -------------------------------------------------------------------------------------- queue */

static void unqueue(struct weights *weights, int32_t layer)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < weights->num_queued; i++)
        if (weights->queue[i] != layer)
            weights->queue[kept++] = weights->queue[i];
    EPLB_ASSERT(kept + weights->is_queued[layer] == weights->num_queued);
    weights->num_queued = kept;
    weights->is_queued[layer] = 0;
}

/** Before the first `before` ones of the queue. */
static void enqueue(struct eplb_manager_core *core, int32_t layer, const int32_t *row, int32_t before)
{
    struct weights *weights = &core->weights;
    EPLB_ASSERT(!weights->is_queued[layer] && before >= 0 && before <= weights->num_queued);
    memmove(weights->queue + before + 1, weights->queue + before,
            (size_t)(weights->num_queued - before) * sizeof *weights->queue);
    weights->queue[before] = layer;
    weights->num_queued++;
    weights->is_queued[layer] = 1;
    memcpy(row_of(core, weights->queued, layer), row, row_bytes(core));
}

static bool is_usable(struct eplb_manager_core *core, const struct eplb_weight_update *update)
{
    struct eplb_error reason;
    if (update->layer < 0 || update->layer >= core->shape.num_layers) {
        eplb_manager_warn(core, "weights for layer row %d, which is none, are left out", update->layer);
        return false;
    }
    if (update->generation != eplb_manager_core_generation(core, update->layer))
        return false;
    const int32_t *table = eplb_planner_active(core->planner) + eplb_manager_row(core, update->layer);
    if (eplb_weights_check(&core->shape, table, update->weights, core->weights.sums, &reason) == EPLB_OK)
        return true;
    eplb_manager_warn(core, "weights for layer %d are left out: %s",
                      eplb_manager_layer_id(core, update->layer), reason.text);
    return false;
}

void eplb_replica_weights_done(struct eplb_manager_core *core, const struct eplb_manager_event *event)
{
    struct weights *weights = &core->weights;
    if (!weights->solving) {
        eplb_manager_warn(core, "solved weights arrived and none were asked for; they are ignored");
        return;
    }
    weights->solving = false;
    /* The newest ones first, the worst layer first; what still waited goes behind them. */
    int32_t taken = 0;
    for (int32_t i = 0; i < event->num_weights; i++) {
        const struct eplb_weight_update *update = &event->weights[i];
        if (!is_usable(core, update))
            continue;
        if (weights->is_queued[update->layer])
            unqueue(weights, update->layer);
        taken = taken < weights->num_queued ? taken : weights->num_queued;
        enqueue(core, update->layer, update->weights, taken++);
    }
}

/* ----------------------------------------------------------------------------------- hand out */

void eplb_replica_weights_hand_out(struct eplb_manager_core *core, struct flight *flight,
                                   struct eplb_command *command)
{
    struct weights *weights = &core->weights;
    int32_t kept = 0;
    for (int32_t i = 0; i < weights->num_queued; i++) {
        int32_t layer = weights->queue[i];
        bool waits = core->layers[layer] == LAYER_ACTIVATING && !EPLB_PLANTED(WEIGHTS_DURING_ACTIVATION);
        if (waits || layer == command->update_layer_id ||
            command->num_weight_updates == EPLB_MAX_WEIGHT_UPDATES) {
            weights->queue[kept++] = layer;
            continue;
        }
        weights->is_queued[layer] = 0;
        int32_t *active = row_of(core, weights->active, layer);
        memcpy(active, row_of(core, weights->queued, layer), row_bytes(core));
        weights->versions[layer]++;
        struct eplb_weight_update update = {.layer = layer,
                                            .generation = eplb_manager_core_generation(core, layer),
                                            .version = weights->versions[layer],
                                            .weights = active};
        flight->carried[command->num_weight_updates] = update;
        command->weight_updates[command->num_weight_updates++] = update;
        core->totals.weight_updates++;
    }
    weights->num_queued = kept;
    flight->num_carried = command->num_weight_updates;
}

/**
 * What a dropped forward carried is sent again, under its old version, unless a newer one was sent or the
 * placement is another by now. No rank has seen it. While the layer activates it waits in the queue.
 */
void eplb_replica_weights_dropped(struct eplb_manager_core *core, const struct flight *flight)
{
    struct weights *weights = &core->weights;
    for (int32_t i = 0; i < flight->num_carried; i++) {
        const struct eplb_weight_update *carried = &flight->carried[i];
        bool newest = carried->version == weights->versions[carried->layer];
        if (carried->generation != eplb_manager_core_generation(core, carried->layer) ||
            !(newest || EPLB_PLANTED(OLDER_WEIGHTS_RESENT)))
            continue;
        weights->versions[carried->layer] = carried->version - 1;
        if (!weights->is_queued[carried->layer])
            enqueue(core, carried->layer, row_of(core, weights->active, carried->layer), 0);
    }
}

void eplb_replica_weights_commit(struct eplb_manager_core *core, int32_t layer)
{
    struct weights *weights = &core->weights;
    size_t row = eplb_manager_row(core, layer);
    if (weights->is_queued[layer])
        unqueue(weights, layer);
    weights->versions[layer] = 0;
    if (eplb_replica_weights_come_with_tables(core))
        memcpy(weights->active + row, eplb_planner_weights(core->planner) + row, row_bytes(core));
    else
        eplb_weights_equal(&core->shape, eplb_planner_candidates(core->planner) + row, weights->sums,
                           weights->active + row);
}
