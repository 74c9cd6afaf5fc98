/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a model consists of, and what its files share.
 */
#ifndef MODEL_MODEL_STATE_H
#define MODEL_MODEL_STATE_H

#include <stdbool.h>

#include "base/arena.h"
#include "model/attention.h"
#include "model/gemm.h"
#include "model/model.h"
#include "model/replicas.h"

/** Rows whose logits over the vocabulary are made at a time. */
enum { EPLB_SAMPLE_ROWS = 32 };

/** What a KV cache holds. */
struct eplb_model_cache {
    uint64_t sequence;
    int32_t next;    /* position that comes next; 0: it holds nothing */
    int32_t sampled; /* last token that the sequence sampled; EPLB_SAMPLED_TOKEN: none */
    bool in_batch;   /* the batch under way has rows of it */
};

/** Room for one batch, [rows] each. */
struct eplb_activations {
    float *x;              /* [hidden] the residual stream */
    float *h;              /* [hidden] normalised */
    float *y;              /* [hidden] what a block adds */
    float *qkv;            /* [3 * heads * head_dim] */
    float *attended;       /* [heads * head_dim] */
    float *shared_gate_up; /* [2 * shared] */
    float *shared_inner;   /* [shared] */
    float *router_logits;  /* [num_experts] */
    int32_t *experts;      /* [top_k] */
    float *gates;          /* [top_k] */
    uint8_t *kinds;
    uint8_t *counted;
    int32_t *tokens;
    int32_t *sampled;     /* rows that are sampled from */
    float *sample_rows;   /* [sample_rows][hidden] */
    float *sample_logits; /* [sample_rows][vocab] */
};

struct eplb_model {
    struct eplb_model_config config;
    struct eplb_shape shape;
    int32_t ep_rank, max_rows, num_caches;
    int decode_only_load;
    int32_t sample_rows; /* rows of the sample buffers */
    const struct eplb_route_source *routes;
    eplb_gemm_kernel *gemm;

    struct eplb_model_weights weights;
    struct eplb_attention attention;
    struct eplb_model_cache *caches;  /* [num_caches] */
    struct eplb_model_cache *pending; /* [num_caches] as they will be after the batch that is checked */
    struct eplb_activations activations;
    struct eplb_moe *moe;
    struct eplb_replicas replicas;
    void *expected_memory;      /* of a table, for the check */
    int64_t *prefix;            /* [num_layers][slots_per_rank] */
    struct eplb_moe_work *work; /* [num_layers] */

    struct eplb_counter *counter;
    struct eplb_weights *registered;
    struct eplb_model_hooks hooks;
};

/** The hooks over a model. */
struct eplb_model_hooks eplb_model_hooks_over(struct eplb_model *model);

/**
 * Checks a batch against the caches, and makes it theirs: `caches` is what they are after it, and the
 * tokens of all rows are known. Nothing changes when it is refused.
 */
enum eplb_status eplb_model_admit(struct eplb_model *model, const struct eplb_model_batch *batch,
                                  struct eplb_error *error);

#endif
