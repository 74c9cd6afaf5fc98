/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The shapes of the reference model, and what its memory comes to.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdint.h>

#include "eplb/placement.h"
#include "eplb/routing.h"
#include "eplb/status.h"

/** Largest top_k. */
#define EPLB_MAX_TOP_K 64

/** A causal decoder; every layer has attention and a MoE block with a shared expert. */
struct eplb_model_config {
    int32_t vocab_size;         /* 2 to 65536; bytes as tokens want 256 */
    int32_t hidden_size;        /* 8 to 8192, a multiple of 8 */
    int32_t num_layers;         /* 1 to 1024; all are MoE layers */
    int32_t num_heads;          /* 1 to 128 */
    int32_t head_dim;           /* 8 to 256, a multiple of 8 */
    int32_t kv_window;          /* 1 to 65536: positions that a token can look back to, itself included */
    int32_t num_experts;        /* 1 to EPLB_MAX_EXPERTS */
    int32_t top_k;              /* 1 to EPLB_MAX_TOP_K, <= num_experts */
    int32_t expert_hidden_size; /* 8 to 16384, a multiple of 8: the inner width of an expert */
    int32_t shared_hidden_size; /* the shared expert's; 0: there is none; else as above */
    uint64_t seed;              /* all weights are made from it */
};

/** The default: small enough for any machine. */
void eplb_model_config_init(struct eplb_model_config *config);

/** EPLB_INVALID with a sentence that names key, value and range. */
enum eplb_status eplb_model_config_check(const struct eplb_model_config *config, struct eplb_error *error);

/** Bytes of one expert's weights in their packed form: what one move sends. */
int64_t eplb_model_expert_bytes(const struct eplb_model_config *config);

/** What one rank needs. */
struct eplb_memory_plan {
    int64_t weights;         /* all of them, redundant slots included */
    int64_t redundant_slots; /* of these, the redundant slots' */
    int64_t staging;         /* 0 when experts never move */
    int64_t kv_cache;
    int64_t graph_pool;  /* 0 without graphs */
    int64_t activations; /* everything a forward needs, dispatch buffers included */
    int64_t total;       /* weights + staging + kv_cache + graph_pool + activations */
};

/**
 * Computes the plan before anything is allocated.
 *
 * @param routing    how replicas are chosen
 * @param max_rows   rows of one rank's batch
 * @param num_caches sequences of one rank that have a KV cache at a time
 * @param fixed      1: the experts never move, and there is no staging
 * @return EPLB_OK; EPLB_INVALID when a sum does not fit 62 bits
 */
enum eplb_status eplb_memory_plan_make(const struct eplb_model_config *config, const struct eplb_shape *shape,
                                       enum eplb_replica_routing routing, int32_t max_rows,
                                       int32_t num_caches, int fixed, struct eplb_memory_plan *plan,
                                       struct eplb_error *error);

#endif
