/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* One forward, layer by layer. Every step treats a row alone, or is a product that does. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "model/arithmetic.h"
#include "model/model_state.h"

/* --------------------------------------------------------------------------------------- the parts */

static float *row_of(float *rows, int32_t row, int32_t width)
{
    return rows + (size_t)row * (size_t)width;
}

static void embed(struct eplb_model *model, int32_t num_rows)
{
    int32_t hidden = model->config.hidden_size;
    for (int32_t row = 0; row < num_rows; row++)
        memcpy(row_of(model->activations.x, row, hidden),
               row_of(model->weights.embedding, model->activations.tokens[row], hidden),
               (size_t)hidden * sizeof(float));
}

static void normalise(struct eplb_model *model, int32_t num_rows, const float *weight)
{
    int32_t hidden = model->config.hidden_size;
    for (int32_t row = 0; row < num_rows; row++)
        eplb_rms_norm(row_of(model->activations.x, row, hidden), weight, hidden,
                      row_of(model->activations.h, row, hidden));
}

/** x += y */
static void add_block(struct eplb_model *model, int32_t num_rows)
{
    size_t floats = (size_t)num_rows * (size_t)model->config.hidden_size;
    for (size_t i = 0; i < floats; i++)
        model->activations.x[i] += model->activations.y[i];
}

/** y = attention(h). Keys and values are stored row by row, because a long prompt overwrites its own. */
static void attend(struct eplb_model *model, const struct eplb_model_batch *batch, int32_t layer)
{
    const struct eplb_activations *at = &model->activations;
    const struct eplb_layer_weights *weights = &model->weights.layers[layer];
    int32_t width = model->config.num_heads * model->config.head_dim;
    model->gemm(at->h, batch->num_rows, model->config.hidden_size, weights->query_key_value, 3 * width,
                at->qkv);
    for (int32_t i = 0; i < batch->num_rows; i++) {
        const struct eplb_model_row *row = &batch->rows[i];
        eplb_attention_row(&model->attention, layer, row->cache, row->position, row_of(at->qkv, i, 3 * width),
                           row_of(at->attended, i, width));
    }
    model->gemm(at->attended, batch->num_rows, width, weights->attention_out, model->config.hidden_size,
                at->y);
}

/** y = the shared expert's output for h; 0 when there is none. */
static void run_shared_expert(struct eplb_model *model, int32_t num_rows, int32_t layer)
{
    const struct eplb_activations *at = &model->activations;
    const struct eplb_layer_weights *weights = &model->weights.layers[layer];
    int32_t hidden = model->config.hidden_size;
    int32_t inner = model->config.shared_hidden_size;
    if (inner == 0) {
        memset(at->y, 0, (size_t)num_rows * (size_t)hidden * sizeof *at->y);
        return;
    }
    model->gemm(at->h, num_rows, hidden, weights->shared_gate_up, 2 * inner, at->shared_gate_up);
    for (int32_t row = 0; row < num_rows; row++) {
        const float *gate = row_of(at->shared_gate_up, row, 2 * inner);
        eplb_gated(gate, gate + inner, inner, row_of(at->shared_inner, row, inner));
    }
    model->gemm(at->shared_inner, num_rows, inner, weights->shared_down, hidden, at->y);
}

/** A row's gates: the softmax over the logits of the experts that were chosen for it. */
static void find_gates(const struct eplb_model *model, int32_t num_rows)
{
    const struct eplb_activations *at = &model->activations;
    int32_t top_k = model->config.top_k;
    for (int32_t row = 0; row < num_rows; row++) {
        const float *logits = row_of(at->router_logits, row, model->config.num_experts);
        const int32_t *chosen = at->experts + (size_t)row * (size_t)top_k;
        float *gates = row_of(at->gates, row, top_k);
        for (int32_t k = 0; k < top_k; k++)
            gates[k] = logits[chosen[k]];
        eplb_softmax(gates, top_k);
    }
}

/** What a route source gives comes from outside: its ids are looked at before they are used. */
static enum eplb_status check_routes(const struct eplb_model *model, int32_t num_rows, int32_t layer,
                                     struct eplb_error *error)
{
    size_t count = (size_t)num_rows * (size_t)model->config.top_k;
    for (size_t i = 0; i < count; i++) {
        int32_t expert = model->activations.experts[i];
        if (expert < 0 || expert >= model->config.num_experts)
            EPLB_FAIL(EPLB_INVALID, "layer %d, row %zu: expert %d was chosen; there are %d", layer,
                      i / (size_t)model->config.top_k, expert, model->config.num_experts);
    }
    return EPLB_OK;
}

static enum eplb_status route(struct eplb_model *model, const struct eplb_model_batch *batch, int32_t layer,
                              struct eplb_error *error)
{
    const struct eplb_activations *at = &model->activations;
    const struct eplb_route_request request = {.seq = batch->seq,
                                               .layer = layer,
                                               .rows = batch->rows,
                                               .num_rows = batch->num_rows,
                                               .logits = at->router_logits,
                                               .num_experts = model->config.num_experts,
                                               .top_k = model->config.top_k};
    model->gemm(at->h, batch->num_rows, model->config.hidden_size, model->weights.layers[layer].router,
                model->config.num_experts, at->router_logits);
    model->routes->choose(model->routes->context, &request, at->experts);
    EPLB_TRY(check_routes(model, batch->num_rows, layer, error));
    find_gates(model, batch->num_rows);
    return EPLB_OK;
}

/** y += the experts' outputs for h. */
static enum eplb_status run_experts(struct eplb_model *model, const struct eplb_model_batch *batch,
                                    int32_t layer, struct eplb_error *error)
{
    const struct eplb_activations *at = &model->activations;
    const struct eplb_moe_call call = {.seq = batch->seq,
                                       .layer = layer,
                                       .generation = batch->generations[layer],
                                       .weights = &model->weights.layers[layer],
                                       .replicas = eplb_model_replicas(model, layer),
                                       .num_rows = batch->num_rows,
                                       .x = at->h,
                                       .experts = at->experts,
                                       .gates = at->gates,
                                       .counted = at->counted,
                                       .y = at->y};
    EPLB_TRY(eplb_moe_run(model->moe, &call, error));
    model->work[layer] = eplb_moe_work(model->moe);
    return EPLB_OK;
}

static enum eplb_status run_layer(struct eplb_model *model, const struct eplb_model_batch *batch,
                                  int32_t layer, struct eplb_error *error)
{
    const struct eplb_layer_weights *weights = &model->weights.layers[layer];
    normalise(model, batch->num_rows, weights->attention_norm);
    attend(model, batch, layer);
    add_block(model, batch->num_rows);
    normalise(model, batch->num_rows, weights->moe_norm);
    run_shared_expert(model, batch->num_rows, layer);
    EPLB_TRY(route(model, batch, layer, error));
    EPLB_TRY(run_experts(model, batch, layer, error));
    add_block(model, batch->num_rows);
    return EPLB_OK;
}

/* ---------------------------------------------------------------------------------------- sampling */

static int32_t largest(const float *logits, int32_t count)
{
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static uint64_t digest(const float *logits, int32_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 32;
}

/** Samples from `count` rows, up to sample_rows, at a time. */
static void sample_some(struct eplb_model *model, const struct eplb_model_batch *batch, const int32_t *rows,
                        int32_t count, struct eplb_model_sample *samples)
{
    const struct eplb_activations *at = &model->activations;
    int32_t hidden = model->config.hidden_size;
    int32_t vocab = model->config.vocab_size;
    for (int32_t i = 0; i < count; i++)
        eplb_rms_norm(row_of(at->x, rows[i], hidden), model->weights.final_norm, hidden,
                      row_of(at->sample_rows, i, hidden));
    model->gemm(at->sample_rows, count, hidden, model->weights.unembedding, vocab, at->sample_logits);
    for (int32_t i = 0; i < count; i++) {
        const struct eplb_model_row *row = &batch->rows[rows[i]];
        const float *logits = row_of(at->sample_logits, i, vocab);
        samples[i] = (struct eplb_model_sample){.sequence = row->sequence,
                                                .position = row->position,
                                                .token = largest(logits, vocab),
                                                .digest = digest(logits, vocab)};
        model->caches[row->cache].sampled = samples[i].token;
    }
}

static int32_t sample(struct eplb_model *model, const struct eplb_model_batch *batch,
                      struct eplb_model_sample *samples)
{
    int32_t *rows = model->activations.sampled;
    int32_t count = 0;
    for (int32_t row = 0; row < batch->num_rows; row++)
        if (batch->rows[row].sample)
            rows[count++] = row;
    for (int32_t done = 0; done < count; done += model->sample_rows) {
        int32_t some = count - done < model->sample_rows ? count - done : model->sample_rows;
        sample_some(model, batch, rows + done, some, samples + done);
    }
    return count;
}

enum eplb_status eplb_model_forward(struct eplb_model *model, const struct eplb_model_batch *batch,
                                    struct eplb_model_sample *samples, int32_t *num_samples,
                                    struct eplb_error *error)
{
    eplb_model_forget(model);
    EPLB_TRY(eplb_model_admit(model, batch, error));
    embed(model, batch->num_rows);
    for (int32_t layer = 0; layer < model->config.num_layers; layer++)
        EPLB_TRY(run_layer(model, batch, layer, error));
    *num_samples = sample(model, batch, samples);
    eplb_counter_prefix(model->counter, model->prefix);
    return EPLB_OK;
}
