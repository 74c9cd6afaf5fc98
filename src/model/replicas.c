/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/replicas.h"

#include <string.h>

#include "base/assert.h"

/* ----------------------------------------------------------------------------------------- memory */

static void take_layer(struct eplb_arena *arena, const struct eplb_replicas_params *params,
                       struct eplb_replica_layer *layer)
{
    const struct eplb_shape *shape = &params->shape;
    const int batch = params->routing == EPLB_ROUTING_BATCH;
    struct eplb_replica_layer taken = {0};
    taken.expert_ids = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *taken.expert_ids);
    taken.table_memory = eplb_arena_take(arena, 1, eplb_route_table_size(shape));
    if (batch) {
        taken.fixed =
            eplb_arena_take(arena, (size_t)shape->ep_size * (size_t)shape->num_experts, sizeof *taken.fixed);
        taken.graph_memory = eplb_arena_take(arena, 1, eplb_split_graph_size(shape));
    }
    if (layer != NULL)
        *layer = taken;
}

void eplb_replicas_take(struct eplb_arena *arena, const struct eplb_replicas_params *params,
                        struct eplb_replicas *replicas)
{
    struct eplb_replicas parts = {.params = *params};
    parts.layers = eplb_arena_take(arena, (size_t)params->shape.num_layers, sizeof *parts.layers);
    parts.plans = eplb_arena_take(arena, EPLB_MAX_PLANS, sizeof *parts.plans);
    for (int32_t layer = 0; layer < params->shape.num_layers; layer++)
        take_layer(arena, params, parts.layers == NULL ? NULL : &parts.layers[layer]);
    for (int32_t place = 0; place < EPLB_MAX_PLANS; place++)
        take_layer(arena, params, parts.plans == NULL ? NULL : &parts.plans[place]);
    *replicas = parts;
}

static void init_layer(const struct eplb_replicas *replicas, struct eplb_replica_layer *layer)
{
    eplb_route_table_init(&layer->table, &replicas->params.shape, replicas->params.ep_rank,
                          layer->table_memory);
}

void eplb_replicas_init(struct eplb_replicas *replicas, const struct eplb_replicas_params *params)
{
    replicas->params = *params;
    for (int32_t layer = 0; layer < params->shape.num_layers; layer++)
        init_layer(replicas, &replicas->layers[layer]);
    for (int32_t place = 0; place < EPLB_MAX_PLANS; place++)
        init_layer(replicas, &replicas->plans[place]);
}

/* ----------------------------------------------------------------------------------------- tables */

static void set_table(const struct eplb_replicas *replicas, struct eplb_replica_layer *layer,
                      const int32_t *weights)
{
    const struct eplb_route_params params = {.size = sizeof params,
                                             .routing = replicas->params.routing,
                                             .expert_ids = layer->expert_ids,
                                             .weights = weights,
                                             .node_of_rank = replicas->params.node_of_rank};
    eplb_route_table_set(&layer->table, &params);
}

static struct eplb_replica_layer *layer_at(const struct eplb_replicas *replicas, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < replicas->params.shape.num_layers);
    return &replicas->layers[layer];
}

static struct eplb_replica_layer *plan_at(const struct eplb_replicas *replicas, int32_t place)
{
    EPLB_ASSERT(place >= 0 && place < EPLB_MAX_PLANS);
    return &replicas->plans[place];
}

void eplb_replicas_prepare(struct eplb_replicas *replicas, int32_t place, const int32_t *expert_ids,
                           const int32_t *weights)
{
    const struct eplb_shape *shape = &replicas->params.shape;
    struct eplb_replica_layer *plan = plan_at(replicas, place);
    memcpy(plan->expert_ids, expert_ids, (size_t)shape->num_slots * sizeof *expert_ids);
    set_table(replicas, plan, weights);
    for (int32_t source = 0; plan->fixed != NULL && source < shape->ep_size; source++)
        eplb_log2phy(shape, expert_ids, source, 0, plan->fixed + (size_t)source * (size_t)shape->num_experts);
}

void eplb_replicas_switch(struct eplb_replicas *replicas, int32_t layer, int32_t place)
{
    const struct eplb_shape *shape = &replicas->params.shape;
    const struct eplb_replica_layer *plan = plan_at(replicas, place);
    struct eplb_replica_layer *to = layer_at(replicas, layer);
    memcpy(to->expert_ids, plan->expert_ids, (size_t)shape->num_slots * sizeof *to->expert_ids);
    eplb_route_table_copy(&to->table, &plan->table);
    to->version = 0;
    if (to->fixed == NULL)
        return;
    memcpy(to->fixed, plan->fixed, (size_t)shape->ep_size * (size_t)shape->num_experts * sizeof *to->fixed);
    /* A graph may not be copied. */
    to->graph = eplb_split_graph_build(shape, to->expert_ids, to->graph_memory);
}

void eplb_replicas_set(struct eplb_replicas *replicas, int32_t layer, const int32_t *expert_ids,
                       const int32_t *weights)
{
    eplb_replicas_prepare(replicas, 0, expert_ids, weights);
    eplb_replicas_switch(replicas, layer, 0);
}

void eplb_replicas_reweigh(struct eplb_replicas *replicas, int32_t layer, uint64_t version,
                           const int32_t *weights)
{
    struct eplb_replica_layer *at = layer_at(replicas, layer);
    EPLB_ASSERT(version > at->version);
    set_table(replicas, at, weights);
    at->version = version;
}
