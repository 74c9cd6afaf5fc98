/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "naive.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/arithmetic.h"
#include "model/gemm.h"

enum { MAX_WIDTH = 256, MAX_LAYERS = 4 };

struct naive {
    struct eplb_model_config config;
    struct eplb_model_weights weights; /* its experts are not looked at */
    void *block;
    float *gate_up, *down; /* of the expert that is wanted */
    float *rope;
    float keys[MAX_LAYERS][NAIVE_MAX_LENGTH][MAX_WIDTH];
    float values[MAX_LAYERS][NAIVE_MAX_LENGTH][MAX_WIDTH];
};

static void take(struct eplb_arena *arena, struct naive *naive)
{
    const struct eplb_model_config *config = &naive->config;
    struct eplb_expert_layout layout = eplb_expert_layout(config);
    eplb_model_weights_take(arena, config, config->num_experts, &naive->weights);
    naive->gate_up = eplb_arena_take(arena, (size_t)layout.gate_up_floats, sizeof(float));
    naive->down = eplb_arena_take(arena, (size_t)layout.down_floats, sizeof(float));
    naive->rope = eplb_arena_take(arena, (size_t)(2 * config->kv_window * config->head_dim), sizeof(float));
}

struct naive *naive_create(const struct eplb_model_config *config)
{
    struct eplb_shape shape;
    struct eplb_arena arena;
    assert_int_equal(eplb_shape_init(&shape, config->num_layers, config->num_experts, 1, 0, NULL), EPLB_OK);
    assert_true(3 * config->num_heads * config->head_dim <= MAX_WIDTH && config->hidden_size <= MAX_WIDTH);
    assert_true(config->num_layers <= MAX_LAYERS && config->vocab_size <= MAX_WIDTH);
    struct naive *naive = calloc(1, sizeof *naive);
    int32_t *tables = calloc((size_t)(shape.num_layers * shape.num_slots), sizeof *tables);
    assert_non_null(naive);
    assert_non_null(tables);
    naive->config = *config;
    eplb_arena_init(&arena, NULL, 0);
    take(&arena, naive);
    naive->block = eplb_arena_reserve(&arena);
    assert_non_null(naive->block);
    take(&arena, naive);
    for (int32_t layer = 0; layer < shape.num_layers; layer++)
        eplb_placement_initial(&shape, tables + layer * shape.num_slots);
    eplb_model_weights_fill(config, &shape, 0, tables, &naive->weights);
    eplb_rope_table(2 * config->kv_window, config->head_dim, naive->rope);
    free(tables);
    return naive;
}

void naive_destroy(struct naive *naive)
{
    eplb_arena_free(naive->block);
    free(naive);
}

/** Both angles are counted from the beginning of the key's lap. */
static float score(const struct naive *naive, const float *query, const float *key, int32_t position,
                   int32_t other)
{
    float turned[MAX_WIDTH];
    int32_t window = naive->config.kv_window;
    int32_t dim = naive->config.head_dim;
    memcpy(turned, query, (size_t)dim * sizeof *turned);
    eplb_rope(naive->rope + (position - other / window * window) * dim, dim, turned);
    return eplb_dot(turned, key, dim) * (1.0f / sqrtf((float)dim));
}

static void attend_head(struct naive *naive, int32_t layer, int32_t position, int32_t head,
                        const float *query, float *out)
{
    float scores[NAIVE_MAX_LENGTH];
    int32_t dim = naive->config.head_dim;
    int32_t first = position < naive->config.kv_window ? 0 : position - naive->config.kv_window + 1;
    for (int32_t other = first; other <= position; other++)
        scores[other - first] = score(naive, query, &naive->keys[layer][other][head * dim], position, other);
    eplb_softmax(scores, position - first + 1);
    for (int32_t i = 0; i < dim; i++) {
        out[i] = 0;
        for (int32_t other = first; other <= position; other++)
            out[i] = fmaf(scores[other - first], naive->values[layer][other][head * dim + i], out[i]);
    }
}

static void attend(struct naive *naive, int32_t layer, int32_t position, float *x)
{
    float h[MAX_WIDTH], qkv[MAX_WIDTH], out[MAX_WIDTH], y[MAX_WIDTH];
    const struct eplb_model_config *config = &naive->config;
    const struct eplb_layer_weights *weights = &naive->weights.layers[layer];
    int32_t dim = config->head_dim;
    int32_t width = config->num_heads * dim;
    eplb_rms_norm(x, weights->attention_norm, config->hidden_size, h);
    eplb_gemm_plain(h, 1, config->hidden_size, weights->query_key_value, 3 * width, qkv);
    memcpy(naive->keys[layer][position], qkv + width, (size_t)width * sizeof *qkv);
    memcpy(naive->values[layer][position], qkv + 2 * width, (size_t)width * sizeof *qkv);
    for (int32_t head = 0; head < config->num_heads; head++) {
        eplb_rope(naive->rope + position % config->kv_window * dim, dim,
                  &naive->keys[layer][position][head * dim]);
        attend_head(naive, layer, position, head, qkv + head * dim, out + head * dim);
    }
    eplb_gemm_plain(out, 1, width, weights->attention_out, config->hidden_size, y);
    for (int32_t i = 0; i < config->hidden_size; i++)
        x[i] = x[i] + y[i];
}

static void feed_forward(const struct naive *naive, const float *h, const float *gate_up, const float *down,
                         int32_t inner, float *out)
{
    float both[MAX_WIDTH], gated[MAX_WIDTH];
    eplb_gemm_plain(h, 1, naive->config.hidden_size, gate_up, 2 * inner, both);
    for (int32_t i = 0; i < inner; i++)
        gated[i] = eplb_silu(both[i]) * both[inner + i];
    eplb_gemm_plain(gated, 1, inner, down, naive->config.hidden_size, out);
}

/** The largest that is left, ties to the lowest. */
static void choose(const float *logits, int32_t count, int32_t top_k, int32_t *experts, float *gates)
{
    bool taken[MAX_WIDTH] = {false};
    for (int32_t k = 0; k < top_k; k++) {
        int32_t best = -1;
        for (int32_t i = 0; i < count; i++)
            if (!taken[i] && (best < 0 || logits[i] > logits[best]))
                best = i;
        taken[best] = true;
        experts[k] = best;
        gates[k] = logits[best];
    }
    eplb_softmax(gates, top_k);
}

static void run_experts(struct naive *naive, int32_t layer, float *x)
{
    float h[MAX_WIDTH], logits[MAX_WIDTH], out[MAX_WIDTH], y[MAX_WIDTH] = {0}, gates[64];
    int32_t experts[64];
    const struct eplb_model_config *config = &naive->config;
    const struct eplb_layer_weights *weights = &naive->weights.layers[layer];
    eplb_rms_norm(x, weights->moe_norm, config->hidden_size, h);
    eplb_gemm_plain(h, 1, config->hidden_size, weights->router, config->num_experts, logits);
    choose(logits, config->num_experts, config->top_k, experts, gates);
    if (config->shared_hidden_size > 0)
        feed_forward(naive, h, weights->shared_gate_up, weights->shared_down, config->shared_hidden_size, y);
    for (int32_t k = 0; k < config->top_k; k++) {
        eplb_expert_fill(config, layer, experts[k], naive->gate_up, naive->down);
        feed_forward(naive, h, naive->gate_up, naive->down, config->expert_hidden_size, out);
        for (int32_t i = 0; i < config->hidden_size; i++)
            y[i] = fmaf(gates[k], out[i], y[i]);
    }
    for (int32_t i = 0; i < config->hidden_size; i++)
        x[i] = x[i] + y[i];
}

static struct eplb_model_sample sample(const struct naive *naive, int32_t position, const float *x)
{
    float h[MAX_WIDTH], logits[MAX_WIDTH];
    const struct eplb_model_config *config = &naive->config;
    struct eplb_model_sample sample = {.position = position, .digest = UINT64_C(0xcbf29ce484222325)};
    eplb_rms_norm(x, naive->weights.final_norm, config->hidden_size, h);
    eplb_gemm_plain(h, 1, config->hidden_size, naive->weights.unembedding, config->vocab_size, logits);
    for (int32_t i = 0; i < config->vocab_size; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        sample.digest = (sample.digest ^ bits) * UINT64_C(0x100000001b3);
        if (logits[i] > logits[sample.token])
            sample.token = i;
    }
    sample.digest ^= sample.digest >> 32;
    return sample;
}

void naive_run(struct naive *naive, const int32_t *prompt, int32_t length, int32_t decoded,
               struct eplb_model_sample *samples)
{
    float x[MAX_WIDTH];
    const struct eplb_model_config *config = &naive->config;
    assert_true(length + decoded <= NAIVE_MAX_LENGTH);
    for (int32_t position = 0; position < length + decoded - 1; position++) {
        int32_t token = position < length ? prompt[position] : samples[position - length].token;
        memcpy(x, naive->weights.embedding + token * config->hidden_size,
               (size_t)config->hidden_size * sizeof *x);
        for (int32_t layer = 0; layer < config->num_layers; layer++) {
            attend(naive, layer, position, x);
            run_experts(naive, layer, x);
        }
        if (position >= length - 1)
            samples[position - length + 1] = sample(naive, position, x);
    }
}
