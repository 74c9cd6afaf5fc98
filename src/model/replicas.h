/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Which replica of an expert this rank's rows go to, layer by layer: the tables of all layers, and of the
 * plans that may become theirs. Everything is reserved at create and keeps its address.
 */
#ifndef MODEL_REPLICAS_H
#define MODEL_REPLICAS_H

#include <stdint.h>

#include "base/arena.h"
#include "eplb/migrate.h"
#include "eplb/routing.h"

/** How a model routes. */
struct eplb_replicas_params {
    struct eplb_shape shape;
    int32_t ep_rank;
    enum eplb_replica_routing routing;
    const int32_t *node_of_rank; /* [ep_size], for local; NULL: one node. Outlives the model */
};

/** One layer's placement as its rows are routed by it. */
struct eplb_replica_layer {
    struct eplb_route_table table;  /* of this rank; batch: not used */
    int32_t *expert_ids;            /* [num_slots] */
    int32_t *fixed;                 /* batch: [ep_size][num_experts] what static would choose; else NULL */
    struct eplb_split_graph *graph; /* batch: of expert_ids; else NULL */
    uint64_t version;               /* of the weights that the table is made of */
    void *graph_memory, *table_memory;
};

struct eplb_replicas {
    struct eplb_replicas_params params;
    struct eplb_replica_layer *layers; /* [num_layers] */
    struct eplb_replica_layer *plans;  /* [EPLB_MAX_PLANS] */
};

/** Takes the memory from an arena, which may only measure: then nothing is usable. */
void eplb_replicas_take(struct eplb_arena *arena, const struct eplb_replicas_params *params,
                        struct eplb_replicas *replicas);

/** Starts over memory that was taken with the same sizes and routing; no layer has a placement yet. */
void eplb_replicas_init(struct eplb_replicas *replicas, const struct eplb_replicas_params *params);

/** Gives a layer a legal placement; weights NULL: equal ones. */
void eplb_replicas_set(struct eplb_replicas *replicas, int32_t layer, const int32_t *expert_ids,
                       const int32_t *weights);

/** Makes a plan's tables aside. Touches nothing that a forward reads. */
void eplb_replicas_prepare(struct eplb_replicas *replicas, int32_t place, const int32_t *expert_ids,
                           const int32_t *weights);

/** Gives a layer what was prepared: copies, and for batch what follows from them. Version 0. */
void eplb_replicas_switch(struct eplb_replicas *replicas, int32_t layer, int32_t place);

/** New weights for a layer's placement. */
void eplb_replicas_reweigh(struct eplb_replicas *replicas, int32_t layer, uint64_t version,
                           const int32_t *weights);

#endif
