/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Causal attention over a window, row by row: what a row gives depends on its sequence and position only,
 * not on the rows beside it, so a prompt may come in pieces of any length.
 *
 * Each cache has, per layer, a ring of kv_window positions: position p stands at p mod kv_window. Rotary
 * positions are taken modulo the window too. A key is rotated by its place in the ring; a query at place a
 * is rotated by a for keys of its own lap and by a + kv_window for those of the lap before, which gives
 * every pair the angle of its distance. So sequences have no largest length, and the table of rotations
 * has two laps.
 */
#ifndef MODEL_ATTENTION_H
#define MODEL_ATTENTION_H

#include <stdint.h>

#include "base/arena.h"
#include "model/config.h"

/** The rings of one rank, and room for one row's work. */
struct eplb_attention {
    int32_t num_heads, head_dim, window, num_caches;
    float scale;    /* of the scores: 1 / sqrt(head_dim) */
    float *rings;   /* [num_layers][num_caches][2: keys, values][num_heads][window][head_dim] */
    float *rope;    /* [2 * window][head_dim] rotations */
    float *scores;  /* [window] */
    float *queries; /* [2: this lap, the lap before][head_dim] */
};

/** Take the memory from an arena, which may only measure: of the KV cache, and of the rest. */
void eplb_attention_take_rings(struct eplb_arena *arena, const struct eplb_model_config *config,
                               int32_t num_caches, struct eplb_attention *attention);
void eplb_attention_take_scratch(struct eplb_arena *arena, const struct eplb_model_config *config,
                                 struct eplb_attention *attention);

/** Fills what was taken. */
void eplb_attention_init(const struct eplb_model_config *config, int32_t num_caches,
                         struct eplb_attention *attention);

/**
 * Stores the row's key and value, then attends to positions max(0, position - window + 1) to position,
 * in ascending order. The rows of a sequence come one after the other from position 0.
 *
 * @param query_key_value [3][num_heads][head_dim] of the row, not rotated
 * @param out             receives [num_heads][head_dim]
 */
void eplb_attention_row(const struct eplb_attention *attention, int32_t layer, int32_t cache,
                        int32_t position, const float *query_key_value, float *out);

#endif
