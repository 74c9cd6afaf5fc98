/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/weights.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mix.h"
#include "model/gemm.h"

/* What a matrix is called in the keys of its numbers. A name keeps its number: another one would be
 * another model. */
enum name {
    EMBEDDING_CLASS = 0,
    EMBEDDING_TOKEN = 1,
    UNEMBEDDING_TOKEN = 2,
    QUERY_KEY_VALUE = 3,
    ATTENTION_OUT = 4,
    ROUTER = 5,
    SHARED_GATE_UP = 6,
    SHARED_DOWN = 7,
    EXPERT_GATE_UP = 8,
    EXPERT_DOWN = 9,
};

/* Of the matrices that no layer owns. */
static const uint64_t NO_LAYER = UINT64_MAX - 1;

static uint64_t key_of(const struct eplb_model_config *config, uint64_t layer, enum name name, int32_t number)
{
    return eplb_mix(eplb_mix(eplb_mix(eplb_mix(0, config->seed), layer), name), (uint64_t)number);
}

/* 24 bits become an odd integer between -2^24 and 2^24, which a float holds exactly, as does the step. */
static float scale(uint32_t bits, float step)
{
    return (float)(2 * (int32_t)(bits >> 8) + 1 - (1 << 24)) * step;
}

/* The step of uniform numbers with a standard deviation: they lie in (-1, 1) times its root of 3. */
static float step_of(double deviation)
{
    return (float)(deviation * sqrt(3.0)) * 0x1p-24f;
}

/* Two columns share a draw. */
static uint64_t draw_pair(uint64_t key, int32_t row, int32_t pair, int32_t columns)
{
    return eplb_mix(key, (uint64_t)row * (uint64_t)(columns / 2 + columns % 2) + (uint64_t)pair);
}

static float entry(uint64_t key, int32_t row, int32_t column, int32_t columns, float step)
{
    uint64_t bits = draw_pair(key, row, column / 2, columns);
    return scale((uint32_t)(column % 2 == 0 ? bits : bits >> 32), step);
}

static void fill_panel(uint64_t key, float step, int32_t inner, int32_t outer, int32_t first, float *panel)
{
    int32_t columns = outer - first < EPLB_PANEL ? outer - first : EPLB_PANEL;
    for (int32_t i = 0; i < inner; i++, panel += EPLB_PANEL) {
        for (int32_t pair = 0; pair < EPLB_PANEL / 2; pair++) {
            uint64_t bits = draw_pair(key, i, first / 2 + pair, outer);
            panel[2 * pair] = scale((uint32_t)bits, step);
            panel[2 * pair + 1] = scale((uint32_t)(bits >> 32), step);
        }
        for (int32_t column = columns; column < EPLB_PANEL; column++)
            panel[column] = 0;
    }
}

static void fill_matrix(uint64_t key, double gain, int32_t inner, int32_t outer, float *packed)
{
    EPLB_ASSERT(inner > 0 && outer > 0 && gain > 0);
    float step = step_of(gain / sqrt(inner));
    for (int32_t first = 0; first < outer; first += EPLB_PANEL) {
        fill_panel(key, step, inner, outer, first, packed);
        packed += (size_t)inner * EPLB_PANEL;
    }
}

/* A token's class. Bytes are told apart by the kind of text that they make: letters and blanks are prose,
 * digits tables, brackets and operators programs, and what is above ASCII other scripts. Larger vocabularies
 * have one class more for every 256 ids. */
static int32_t class_of(int32_t token)
{
    enum { CONTROL, BLANK, DIGIT, UPPER, LOWER, STOP, OPERATOR, BEYOND_ASCII, PAGES };
    EPLB_ASSERT(token >= 0);
    if (token >= 256)
        return PAGES + token / 256;
    if (token >= 128)
        return BEYOND_ASCII;
    if (token == ' ' || (token >= '\t' && token <= '\r'))
        return BLANK;
    if (token < ' ' || token == 127)
        return CONTROL;
    if (token >= '0' && token <= '9')
        return DIGIT;
    if (token >= 'A' && token <= 'Z')
        return UPPER;
    if (token >= 'a' && token <= 'z')
        return LOWER;
    return strchr(".,;:!?'\"", token) != NULL ? STOP : OPERATOR;
}

/* In variance, embeddings are half their class's and half their own, so that tokens of a kind share experts
 * and a text's topic decides which are hot. */
static const double ROOT_OF_HALF = 0.70710678118654752;

static void fill_embedding(const struct eplb_model_config *config, float *embedding)
{
    uint64_t class_key = key_of(config, NO_LAYER, EMBEDDING_CLASS, 0);
    uint64_t token_key = key_of(config, NO_LAYER, EMBEDDING_TOKEN, 0);
    float step = step_of(ROOT_OF_HALF);
    for (int32_t token = 0; token < config->vocab_size; token++)
        for (int32_t i = 0; i < config->hidden_size; i++)
            *embedding++ = entry(class_key, class_of(token), i, config->hidden_size, step) +
                           entry(token_key, token, i, config->hidden_size, step);
}

/* The unembedding has three quarters of the classes' part, so that what the model writes stays of the kind
 * that it read. An eighth is the embedding's own part turned round, so that a token seldom follows itself. */
static const double ROOT_OF_3_QUARTERS = 0.86602540378443865;
static const double ROOT_OF_EIGHTH = 0.35355339059327376;

static void fill_unembedding(const struct eplb_model_config *config, float *packed)
{
    int32_t hidden = config->hidden_size;
    uint64_t class_key = key_of(config, NO_LAYER, EMBEDDING_CLASS, 0);
    uint64_t token_key = key_of(config, NO_LAYER, EMBEDDING_TOKEN, 0);
    float class_step = step_of(ROOT_OF_3_QUARTERS / sqrt(hidden));
    float token_step = step_of(ROOT_OF_EIGHTH / sqrt(hidden));
    fill_matrix(key_of(config, NO_LAYER, UNEMBEDDING_TOKEN, 0), ROOT_OF_EIGHTH, hidden, config->vocab_size,
                packed);
    for (int32_t token = 0; token < config->vocab_size; token++) {
        float *column = packed + (size_t)(token / EPLB_PANEL) * (size_t)hidden * EPLB_PANEL;
        for (int32_t i = 0; i < hidden; i++)
            column[i * EPLB_PANEL + token % EPLB_PANEL] +=
                entry(class_key, class_of(token), i, hidden, class_step) -
                entry(token_key, token, i, hidden, token_step);
    }
}

struct eplb_expert_layout eplb_expert_layout(const struct eplb_model_config *config)
{
    int32_t hidden = config->hidden_size;
    int32_t inner = config->expert_hidden_size;
    return (struct eplb_expert_layout){.gate_up_floats = (int64_t)eplb_packed_floats(hidden, 2 * inner),
                                       .down_floats = (int64_t)eplb_packed_floats(inner, hidden)};
}

static float *take_matrix(struct eplb_arena *arena, int32_t inner, int32_t outer)
{
    return eplb_arena_take(arena, eplb_packed_floats(inner, outer), sizeof(float));
}

static struct eplb_layer_weights take_layer(struct eplb_arena *arena, const struct eplb_model_config *config,
                                            int32_t slots_per_rank)
{
    int32_t hidden = config->hidden_size;
    int32_t shared = config->shared_hidden_size;
    int32_t heads = config->num_heads * config->head_dim;
    size_t slots = (size_t)slots_per_rank;
    struct eplb_expert_layout expert = eplb_expert_layout(config);
    struct eplb_layer_weights layer = {0};
    layer.attention_norm = eplb_arena_take(arena, (size_t)hidden, sizeof(float));
    layer.query_key_value = take_matrix(arena, hidden, 3 * heads);
    layer.attention_out = take_matrix(arena, heads, hidden);
    layer.moe_norm = eplb_arena_take(arena, (size_t)hidden, sizeof(float));
    layer.router = take_matrix(arena, hidden, config->num_experts);
    if (shared > 0) {
        layer.shared_gate_up = take_matrix(arena, hidden, 2 * shared);
        layer.shared_down = take_matrix(arena, shared, hidden);
    }
    layer.gate_up = eplb_arena_take(arena, slots, (size_t)expert.gate_up_floats * sizeof(float));
    layer.down = eplb_arena_take(arena, slots, (size_t)expert.down_floats * sizeof(float));
    return layer;
}

void eplb_model_weights_take(struct eplb_arena *arena, const struct eplb_model_config *config,
                             int32_t slots_per_rank, struct eplb_model_weights *weights)
{
    EPLB_ASSERT(slots_per_rank >= 1 && slots_per_rank <= config->num_experts);
    EPLB_ASSERT(config->vocab_size > 0 && config->hidden_size > 0 && config->num_layers > 0);
    size_t layers = (size_t)config->num_layers;
    size_t embedding = (size_t)config->vocab_size * (size_t)config->hidden_size;
    weights->embedding = eplb_arena_take(arena, embedding, sizeof(float));
    weights->final_norm = eplb_arena_take(arena, (size_t)config->hidden_size, sizeof(float));
    weights->unembedding = take_matrix(arena, config->hidden_size, config->vocab_size);
    weights->layers = eplb_arena_take(arena, layers, sizeof *weights->layers);
    for (int32_t i = 0; i < config->num_layers; i++) {
        struct eplb_layer_weights layer = take_layer(arena, config, slots_per_rank);
        if (weights->layers != NULL)
            weights->layers[i] = layer;
    }
}

/* What the blocks add to a row grows with the root of their number, unless each adds less. Together they
 * are to add less than the row begins with: they then change which token of a class comes next, but seldom
 * the class. */
static double gain_of_block(const struct eplb_model_config *config)
{
    return 0.5 / sqrt(config->num_layers);
}

/* silu(gate) * up of unit numbers is about half as large, which the down matrices make good. */
static const double DOWN_GAIN = 2;

/* Makes the router's decisions clear: the first of its choices weighs visibly more than the second. */
static const double ROUTER_GAIN = 2;

void eplb_expert_fill(const struct eplb_model_config *config, int32_t layer, int32_t expert, float *gate_up,
                      float *down)
{
    EPLB_ASSERT(layer >= 0 && layer < config->num_layers);
    EPLB_ASSERT(expert >= 0 && expert < config->num_experts);
    int32_t hidden = config->hidden_size;
    int32_t inner = config->expert_hidden_size;
    uint64_t number = (uint64_t)layer;
    fill_matrix(key_of(config, number, EXPERT_GATE_UP, expert), 1, hidden, 2 * inner, gate_up);
    fill_matrix(key_of(config, number, EXPERT_DOWN, expert), DOWN_GAIN * gain_of_block(config), inner, hidden,
                down);
}

static void fill_ones(int32_t count, float *to)
{
    for (int32_t i = 0; i < count; i++)
        to[i] = 1;
}

static void fill_layer(const struct eplb_model_config *config, int32_t number,
                       const struct eplb_layer_weights *layer)
{
    int32_t hidden = config->hidden_size;
    int32_t shared = config->shared_hidden_size;
    int32_t heads = config->num_heads * config->head_dim;
    uint64_t key = (uint64_t)number;
    double gain = gain_of_block(config);
    fill_ones(hidden, layer->attention_norm);
    fill_ones(hidden, layer->moe_norm);
    fill_matrix(key_of(config, key, QUERY_KEY_VALUE, 0), 1, hidden, 3 * heads, layer->query_key_value);
    fill_matrix(key_of(config, key, ATTENTION_OUT, 0), gain, heads, hidden, layer->attention_out);
    fill_matrix(key_of(config, key, ROUTER, 0), ROUTER_GAIN, hidden, config->num_experts, layer->router);
    if (shared > 0) {
        fill_matrix(key_of(config, key, SHARED_GATE_UP, 0), 1, hidden, 2 * shared, layer->shared_gate_up);
        fill_matrix(key_of(config, key, SHARED_DOWN, 0), DOWN_GAIN * gain, shared, hidden,
                    layer->shared_down);
    }
}

void eplb_model_weights_fill(const struct eplb_model_config *config, const struct eplb_shape *shape,
                             int32_t ep_rank, const int32_t *tables, struct eplb_model_weights *weights)
{
    EPLB_ASSERT(shape->num_layers == config->num_layers && shape->num_experts == config->num_experts);
    EPLB_ASSERT(ep_rank >= 0 && ep_rank < shape->ep_size);
    struct eplb_expert_layout expert = eplb_expert_layout(config);
    fill_embedding(config, weights->embedding);
    fill_ones(config->hidden_size, weights->final_norm);
    fill_unembedding(config, weights->unembedding);
    for (int32_t layer = 0; layer < config->num_layers; layer++) {
        const struct eplb_layer_weights *to = &weights->layers[layer];
        const int32_t *ids = tables + (size_t)layer * (size_t)shape->num_slots +
                             (size_t)ep_rank * (size_t)shape->slots_per_rank;
        EPLB_ASSERT(to->gate_up != NULL && to->down != NULL);
        fill_layer(config, layer, to);
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
            eplb_expert_fill(config, layer, ids[slot], to->gate_up + slot * expert.gate_up_floats,
                             to->down + slot * expert.down_floats);
    }
}

static uint64_t load_word(const float *pair)
{
    uint32_t bits[2];
    memcpy(bits, pair, sizeof bits);
    return bits[0] | (uint64_t)bits[1] << 32;
}

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

/* Every step is one-to-one in the lane and in the word, so one changed float always changes the end. */
static uint64_t fold(uint64_t lane, const float *pair)
{
    return rotate_left((lane ^ load_word(pair)) * UINT64_C(0x9e3779b97f4a7c15), 29);
}

static uint64_t fingerprint(uint64_t hash, const float *floats, int64_t count)
{
    EPLB_ASSERT(count % 8 == 0);
    /* Four lanes keep the multiplier busy. */
    uint64_t a = eplb_mix(hash, 0);
    uint64_t b = eplb_mix(hash, 1);
    uint64_t c = eplb_mix(hash, 2);
    uint64_t d = eplb_mix(hash, 3);
    for (const float *end = floats + count; floats < end; floats += 8) {
        a = fold(a, floats);
        b = fold(b, floats + 2);
        c = fold(c, floats + 4);
        d = fold(d, floats + 6);
    }
    return eplb_mix(eplb_mix(eplb_mix(a, b), c), d);
}

uint64_t eplb_expert_fingerprint(const struct eplb_model_config *config, const float *gate_up,
                                 const float *down)
{
    struct eplb_expert_layout layout = eplb_expert_layout(config);
    return fingerprint(fingerprint(0, gate_up, layout.gate_up_floats), down, layout.down_floats);
}
