/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Chooses a slot for every copy of a row: by the layer's table, or, with routing `batch`, by the split of
 * this very batch. All layers use the same room.
 */
#ifndef MODEL_CHOOSE_H
#define MODEL_CHOOSE_H

#include <stdint.h>

#include "base/arena.h"
#include "model/replicas.h"

/** Rows, and how many of them are load. */
struct eplb_row_count {
    int32_t rows;
    int32_t counted;
};

struct eplb_choose_params {
    struct eplb_shape shape;
    int32_t ep_rank;
    int32_t max_rows, top_k;
    enum eplb_replica_routing routing;
    int32_t cost_per_active_slot, cost_per_token; /* >= 0 and >= 1, for batch */
};

struct eplb_chooser {
    struct eplb_choose_params params;
    int32_t *slots;                 /* [max_rows][top_k] what was chosen */
    struct eplb_row_count *sent;    /* [num_slots] rows of this rank to each slot */
    struct eplb_row_count *arrives; /* batch: [ep_size][slots_per_rank] rows of each source to this rank */
    struct eplb_row_count *wanted;  /* [num_experts] rows of this rank for each expert */

    struct eplb_row_count *seen; /* [num_experts] rows that had their turn */
    int32_t *last_row;           /* [num_experts] that chose the expert */
    int32_t *counts;             /* batch: [ep_size][num_experts] rows of all ranks */
    int64_t *tokens;             /* batch: [num_slots] the split */
    int32_t *sends;              /* batch: [num_slots] of one source */
    int32_t *receives;           /* batch: [ep_size][slots_per_rank] */
};

/** Rows of one layer of one forward. */
struct eplb_choose_call {
    uint64_t seq;
    int32_t layer;
    const struct eplb_replica_layer *replicas;
    int32_t num_rows;
    const int32_t *experts; /* [num_rows][top_k], each in [0, num_experts) */
    const uint8_t *counted; /* [num_rows] */
};

/** Takes the memory from an arena, which may only measure. */
void eplb_chooser_take(struct eplb_arena *arena, const struct eplb_choose_params *params,
                       struct eplb_chooser *chooser);
void eplb_chooser_init(struct eplb_chooser *chooser, const struct eplb_choose_params *params);

/**
 * Fills `wanted`.
 *
 * @return EPLB_OK; EPLB_INVALID with layer and row when an expert was chosen twice for it
 */
enum eplb_status eplb_choose_count(struct eplb_chooser *chooser, const struct eplb_choose_call *call,
                                   struct eplb_error *error);

/** Fills `slots` and `sent`, after the count: an expert's rows are numbered in order. */
void eplb_choose_by_table(struct eplb_chooser *chooser, const struct eplb_choose_call *call);

/**
 * Fills `slots`, `sent` and `arrives`, after the count, from what all ranks want. An expert's rows of one
 * source are numbered with those that count first, so that both sides know how many of a slot's do.
 *
 * @param wanted of a source, [num_experts]: rows in [0, max_rows], counted in [0, rows]
 */
void eplb_choose_by_batch(struct eplb_chooser *chooser, const struct eplb_choose_call *call,
                          const struct eplb_row_count *const *wanted);

#endif
