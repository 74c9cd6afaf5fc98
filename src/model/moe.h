/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * One MoE block over the EP group, EP level 2, as three separate operations: dispatch the rows to the
 * ranks that own their slots, a grouped FFN there, combine back. A row's expert outputs are added by its
 * owner in the order of its top-k, so the result depends neither on where the experts live nor on the
 * replica that was chosen.
 *
 * There are three exchanges: heads, rows, outputs. With routing `batch` the heads carry what every rank
 * wants of each expert, and the slots of both sides follow from them.
 *
 * Every dispatch carries the forward's number and the layer's generation and weight version; a rank that
 * runs another is named, and the run stops.
 */
#ifndef MODEL_MOE_H
#define MODEL_MOE_H

#include <stdint.h>

#include "base/arena.h"
#include "eplb/group.h"
#include "eplb/load.h"
#include "model/choose.h"
#include "model/config.h"
#include "model/replicas.h"
#include "model/weights.h"

/** Buffers and numbers of one rank's MoE blocks; all layers use the same. */
struct eplb_moe;

struct eplb_moe_params {
    struct eplb_model_config config;
    struct eplb_shape shape;
    int32_t ep_rank;
    int32_t max_rows;                             /* of one rank's batch; the same on all ranks */
    enum eplb_replica_routing routing;            /* the same on all ranks, as the next two */
    int32_t cost_per_active_slot, cost_per_token; /* >= 0 and >= 1, for batch */
    const struct eplb_group *group;
    struct eplb_counter *counter; /* counts what arrives */
    void *clock;
    int64_t (*cpu_time)(void *clock); /* of this thread, in nanoseconds; NULL: times are 0 */
};

/** Most rows that can arrive at one rank in one call; a rank's buffers take at most INT32_MAX. */
int64_t eplb_moe_most_arrivals(const struct eplb_moe_params *params);

/** Takes the memory from an arena, which may only measure: then NULL. */
struct eplb_moe *eplb_moe_take(struct eplb_arena *arena, const struct eplb_moe_params *params);
void eplb_moe_init(struct eplb_moe *moe, const struct eplb_moe_params *params);

/** One layer of one forward. */
struct eplb_moe_call {
    uint64_t seq;
    int32_t layer;
    uint64_t generation; /* that this rank runs the layer under */
    const struct eplb_layer_weights *weights;
    const struct eplb_replica_layer *replicas; /* of the layer's placement, and its weights' version */
    int32_t num_rows;
    const float *x;         /* [num_rows][hidden], normalised */
    const int32_t *experts; /* [num_rows][top_k], each in [0, num_experts) */
    const float *gates;     /* [num_rows][top_k] */
    const uint8_t *counted; /* [num_rows] 1: the row counts as load */
    float *y;               /* [num_rows][hidden] the experts' outputs are added to it */
};

/**
 * Runs it. All ranks call it for the same layer, also those without rows.
 *
 * @return EPLB_OK; EPLB_RANK_DEAD; EPLB_INCONSISTENT with layer and both ranks when seq, generation or
 *         version differ, or what a rank sent makes no sense; EPLB_INVALID with layer and row when an
 *         expert was chosen twice for it (the other ranks wait: end the process)
 */
enum eplb_status eplb_moe_run(struct eplb_moe *moe, const struct eplb_moe_call *call,
                              struct eplb_error *error);

/** What this rank's experts did in the last call. */
struct eplb_moe_work {
    int64_t rows;     /* computed */
    int64_t cpu_ns;   /* of the grouped FFN, on this thread */
    int64_t route_ns; /* of choosing slots for this rank's rows, on this thread */
};
struct eplb_moe_work eplb_moe_work(const struct eplb_moe *moe);

#endif
