/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/outcomes.h"

#include <string.h>

#include "base/assert.h"
#include "eplb/load.h"
#include "eplb/policy.h"

/** One layer, since it switched or since its window was closed. */
struct layer {
    uint64_t generation;
    uint64_t forwards;
    uint64_t version;      /* of the weights, the highest that was seen */
    int64_t total;         /* counted under the generation */
    int64_t newest_total;  /* of these, under that version: what the manager's window measures */
    int64_t planned_total; /* of the window that the last plan was made from, as measured */
    double planned;        /* peak / mean that the last plan promises */
    double promised;       /* the same of the plan that it switched to */
    bool is_open;          /* it has switched, and no window of it was closed since */
    bool is_ended;         /* its outcome is to be taken */
    struct eplb_outcome outcome;
};

struct eplb_outcomes {
    struct eplb_shape shape;
    struct layer *layers; /* [L] */
    int32_t *tables;      /* [L][num_slots] */
    int64_t *rank_loads;  /* [L][R] of the window */
    int64_t *logical;     /* [L][E] */
    int64_t *counts;      /* [R][L][K] of the forward that is added */
    int32_t *replicas;    /* [E] scratch */
};

struct eplb_outcomes *eplb_outcomes_take(struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t layers = (size_t)shape->num_layers;
    struct eplb_outcomes parts = {.shape = *shape};
    struct eplb_outcomes *outcomes = eplb_arena_take(arena, 1, sizeof *outcomes);
    parts.layers = eplb_arena_take(arena, layers, sizeof *parts.layers);
    parts.tables = eplb_arena_take(arena, layers * (size_t)shape->num_slots, sizeof *parts.tables);
    parts.rank_loads = eplb_arena_take(arena, layers * (size_t)shape->ep_size, sizeof *parts.rank_loads);
    parts.logical = eplb_arena_take(arena, layers * (size_t)shape->num_experts, sizeof *parts.logical);
    parts.counts = eplb_arena_take(arena, layers * (size_t)shape->num_slots, sizeof *parts.counts);
    parts.replicas = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *parts.replicas);
    if (outcomes != NULL)
        *outcomes = parts;
    return outcomes;
}

/* -------------------------------------------------------------------------------------- a window */

static int32_t *table_of(const struct eplb_outcomes *outcomes, int32_t layer)
{
    return outcomes->tables + (size_t)layer * (size_t)outcomes->shape.num_slots;
}

static int64_t *rank_loads_of(const struct eplb_outcomes *outcomes, int32_t layer)
{
    return outcomes->rank_loads + (size_t)layer * (size_t)outcomes->shape.ep_size;
}

static int64_t *logical_of(const struct eplb_outcomes *outcomes, int32_t layer)
{
    return outcomes->logical + (size_t)layer * (size_t)outcomes->shape.num_experts;
}

static void begin_window(struct eplb_outcomes *outcomes, int32_t layer)
{
    const struct eplb_shape *shape = &outcomes->shape;
    EPLB_ASSERT(layer >= 0 && layer < shape->num_layers);
    outcomes->layers[layer].forwards = 0;
    outcomes->layers[layer].total = outcomes->layers[layer].newest_total = 0;
    memset(rank_loads_of(outcomes, layer), 0, (size_t)shape->ep_size * sizeof *outcomes->rank_loads);
    memset(logical_of(outcomes, layer), 0, (size_t)shape->num_experts * sizeof *outcomes->logical);
}

void eplb_outcomes_init(struct eplb_outcomes *outcomes, const struct eplb_shape *shape,
                        const int32_t *initial)
{
    size_t layers = (size_t)shape->num_layers;
    EPLB_ASSERT(memcmp(shape, &outcomes->shape, sizeof *shape) == 0);
    memset(outcomes->layers, 0, layers * sizeof *outcomes->layers);
    memcpy(outcomes->tables, initial, layers * (size_t)shape->num_slots * sizeof *initial);
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        begin_window(outcomes, layer);
}

static void end_promise(struct eplb_outcomes *outcomes, int32_t layer)
{
    struct layer *at = &outcomes->layers[layer];
    const int64_t *loads = rank_loads_of(outcomes, layer);
    int64_t peak = 0;
    if (!at->is_open || at->total == 0)
        return;
    for (int32_t rank = 0; rank < outcomes->shape.ep_size; rank++)
        peak = loads[rank] > peak ? loads[rank] : peak;
    struct eplb_balance even = eplb_balance_of(&outcomes->shape, table_of(outcomes, layer),
                                               logical_of(outcomes, layer), outcomes->replicas);
    at->outcome = (struct eplb_outcome){.layer = layer,
                                        .generation = at->generation,
                                        .forwards = at->forwards,
                                        .mean = even.mean,
                                        .predicted = at->promised * even.mean,
                                        .even = even.peak,
                                        .measured = (double)peak};
    at->is_open = false;
    at->is_ended = true;
}

/* ----------------------------------------------------------------------------------- a forward's load */

static int64_t *counts_of(const struct eplb_outcomes *outcomes, int32_t rank, int32_t layer)
{
    const struct eplb_shape *shape = &outcomes->shape;
    size_t row = (size_t)rank * (size_t)shape->num_layers + (size_t)layer;
    return outcomes->counts + row * (size_t)shape->slots_per_rank;
}

/** Restores the counts of all ranks; false when one lacks or makes no sense: then the manager has no
 * sample either. */
static bool restore(struct eplb_outcomes *outcomes, const struct eplb_manager_event *event)
{
    const struct eplb_shape *shape = &outcomes->shape;
    size_t slots = (size_t)shape->slots_per_rank;
    if (event->num_outputs != shape->ep_size)
        return false;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        const struct eplb_worker_output *output = &event->outputs[rank];
        if (output->prefix == NULL || output->seq != event->seq || output->ep_rank != rank ||
            output->num_layers != shape->num_layers || output->slots_per_rank != shape->slots_per_rank)
            return false;
        for (int32_t layer = 0; layer < shape->num_layers; layer++)
            if (eplb_prefix_decode(output->prefix + (size_t)layer * slots, slots,
                                   counts_of(outcomes, rank, layer), NULL) != EPLB_OK)
                return false;
    }
    return true;
}

static void add_layer(struct eplb_outcomes *outcomes, int32_t layer, uint64_t version)
{
    const struct eplb_shape *shape = &outcomes->shape;
    const int32_t *expert = table_of(outcomes, layer);
    int64_t *loads = rank_loads_of(outcomes, layer);
    int64_t *logical = logical_of(outcomes, layer);
    struct layer *at = &outcomes->layers[layer];
    int64_t before = at->total;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        const int64_t *counts = counts_of(outcomes, rank, layer);
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++, expert++) {
            /* What would carry a window past the limit is left out: it says enough. */
            if (counts[slot] > EPLB_MAX_LOAD - at->total)
                return;
            loads[rank] += counts[slot];
            logical[*expert] += counts[slot];
            at->total += counts[slot];
        }
    }
    at->forwards += at->total > before;
    if (version > at->version) {
        at->version = version;
        at->newest_total = 0;
    }
    at->newest_total += version == at->version ? at->total - before : 0;
}

static void add_forward(struct eplb_outcomes *outcomes, const struct eplb_manager_event *event)
{
    if (!restore(outcomes, event))
        return;
    const uint64_t *versions = event->outputs[0].weight_versions;
    for (int32_t layer = 0; layer < outcomes->shape.num_layers; layer++)
        /* With overlap a forward may still have run under the table before. */
        if (event->outputs[0].generations[layer] == outcomes->layers[layer].generation)
            add_layer(outcomes, layer, versions == NULL ? 0 : versions[layer]);
}

/* ------------------------------------------------------------------------------- events and actions */

static void note_plans(struct eplb_outcomes *outcomes, const struct eplb_benefit *benefits)
{
    for (int32_t layer = 0; benefits != NULL && layer < outcomes->shape.num_layers; layer++) {
        struct layer *at = &outcomes->layers[layer];
        at->planned = at->planned_total == 0 ? 0
                                             : benefits[layer].candidate_peak /
                                                   ((double)at->planned_total / outcomes->shape.ep_size);
    }
}

void eplb_outcomes_event(struct eplb_outcomes *outcomes, const struct eplb_manager_event *event)
{
    if (event->type == EPLB_MANAGER_OUTPUTS)
        add_forward(outcomes, event);
    else if (event->type == EPLB_MANAGER_POLICY_DONE)
        note_plans(outcomes, event->benefits);
}

static void close_windows(struct eplb_outcomes *outcomes)
{
    for (int32_t layer = 0; layer < outcomes->shape.num_layers; layer++) {
        end_promise(outcomes, layer);
        outcomes->layers[layer].planned_total = outcomes->layers[layer].newest_total;
        begin_window(outcomes, layer);
    }
}

static void commit(struct eplb_outcomes *outcomes, const struct eplb_manager_action *action)
{
    struct layer *at = &outcomes->layers[action->layer];
    begin_window(outcomes, action->layer);
    at->generation = action->generation;
    at->version = 0;
    at->promised = at->planned;
    at->is_open = true;
    memcpy(table_of(outcomes, action->layer), action->expert_ids,
           (size_t)outcomes->shape.num_slots * sizeof *action->expert_ids);
}

void eplb_outcomes_action(struct eplb_outcomes *outcomes, const struct eplb_manager_action *action)
{
    if (action->type == EPLB_MANAGER_RUN_POLICY)
        close_windows(outcomes);
    else if (action->type == EPLB_MANAGER_COMMITTED)
        commit(outcomes, action);
}

void eplb_outcomes_finish(struct eplb_outcomes *outcomes)
{
    for (int32_t layer = 0; layer < outcomes->shape.num_layers; layer++)
        end_promise(outcomes, layer);
}

bool eplb_outcomes_next(struct eplb_outcomes *outcomes, struct eplb_outcome *outcome)
{
    for (int32_t layer = 0; layer < outcomes->shape.num_layers; layer++)
        if (outcomes->layers[layer].is_ended) {
            outcomes->layers[layer].is_ended = false;
            *outcome = outcomes->layers[layer].outcome;
            return true;
        }
    return false;
}
