/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The model's weights, made from its seed. What a matrix holds depends only on the seed and on what it
 * is (layer, logical expert, name), never on the rank, the slot or the placement.
 */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include <stdint.h>

#include "base/arena.h"
#include "model/config.h"

/** One expert's matrices, packed: gate and up side by side [hidden][2 * inner], and down [inner][hidden]. */
struct eplb_expert_layout {
    int64_t gate_up_floats;
    int64_t down_floats;
};

struct eplb_expert_layout eplb_expert_layout(const struct eplb_model_config *config);

/** A layer's weights on one rank. Slots of one tensor lie one after the other: a tensor moves as one. */
struct eplb_layer_weights {
    float *attention_norm;  /* [hidden] */
    float *query_key_value; /* packed [hidden][3 * heads * head_dim] */
    float *attention_out;   /* packed [heads * head_dim][hidden] */
    float *moe_norm;        /* [hidden] */
    float *router;          /* packed [hidden][num_experts] */
    float *shared_gate_up;  /* packed [hidden][2 * shared]; NULL without a shared expert */
    float *shared_down;     /* packed [shared][hidden] */
    float *gate_up;         /* [slots_per_rank][gate_up_floats] */
    float *down;            /* [slots_per_rank][down_floats] */
};

struct eplb_model_weights {
    float *embedding;                  /* [vocab][hidden] */
    float *final_norm;                 /* [hidden] */
    float *unembedding;                /* packed [hidden][vocab] */
    struct eplb_layer_weights *layers; /* [num_layers] */
};

/** Takes the memory from an arena, which may only measure; the struct itself is the caller's. */
void eplb_model_weights_take(struct eplb_arena *arena, const struct eplb_model_config *config,
                             int32_t slots_per_rank, struct eplb_model_weights *weights);

/**
 * Makes all weights of a rank.
 *
 * @param tables [num_layers][ep_size][slots_per_rank] which expert each slot holds
 */
void eplb_model_weights_fill(const struct eplb_model_config *config, const struct eplb_shape *shape,
                             int32_t ep_rank, const int32_t *tables, struct eplb_model_weights *weights);

/** Makes one expert's matrices at the two places. */
void eplb_expert_fill(const struct eplb_model_config *config, int32_t layer, int32_t expert, float *gate_up,
                      float *down);

/**
 * A 64-bit fingerprint of one expert's bits as they stand at two places. One changed float always changes
 * it; more than one, with high probability. Not cryptographic. The same on every machine.
 */
uint64_t eplb_expert_fingerprint(const struct eplb_model_config *config, const float *gate_up,
                                 const float *down);

#endif
