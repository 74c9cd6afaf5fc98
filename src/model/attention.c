/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/attention.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "model/arithmetic.h"

void eplb_attention_take_rings(struct eplb_arena *arena, const struct eplb_model_config *config,
                               int32_t num_caches, struct eplb_attention *attention)
{
    size_t position_floats = 2 * (size_t)config->num_heads * (size_t)config->head_dim;
    attention->rings = eplb_arena_take(arena, (size_t)config->num_layers * (size_t)num_caches,
                                       (size_t)config->kv_window * position_floats * sizeof(float));
}

void eplb_attention_take_scratch(struct eplb_arena *arena, const struct eplb_model_config *config,
                                 struct eplb_attention *attention)
{
    size_t row = (size_t)config->head_dim * sizeof(float);
    attention->rope = eplb_arena_take(arena, 2 * (size_t)config->kv_window, row);
    attention->scores = eplb_arena_take(arena, (size_t)config->kv_window, sizeof *attention->scores);
    attention->queries = eplb_arena_take(arena, 2, row);
}

void eplb_attention_init(const struct eplb_model_config *config, int32_t num_caches,
                         struct eplb_attention *attention)
{
    attention->num_heads = config->num_heads;
    attention->head_dim = config->head_dim;
    attention->window = config->kv_window;
    attention->num_caches = num_caches;
    attention->scale = 1.0f / sqrtf((float)config->head_dim);
    eplb_rope_table(2 * config->kv_window, config->head_dim, attention->rope);
}

/** One head's part of a ring, [window][head_dim]; `values` 0: the keys, 1: the values. */
static float *head_ring(const struct eplb_attention *attention, int32_t layer, int32_t cache, int values,
                        int32_t head)
{
    EPLB_ASSERT(cache >= 0 && cache < attention->num_caches);
    size_t ring = ((size_t)layer * (size_t)attention->num_caches + (size_t)cache) * 2 + (size_t)values;
    size_t place = ring * (size_t)attention->num_heads + (size_t)head;
    return attention->rings + place * (size_t)attention->window * (size_t)attention->head_dim;
}

static const float *rotation(const struct eplb_attention *attention, int32_t place)
{
    return attention->rope + (size_t)place * (size_t)attention->head_dim;
}

/** A row's place: its own in the ring, and the places of the lap before that are still in the window. */
struct lap {
    int32_t at;
    int32_t before; /* first of them; window when there are none */
};

static void make_queries(const struct eplb_attention *attention, struct lap lap, const float *query)
{
    size_t bytes = (size_t)attention->head_dim * sizeof *query;
    float *own = attention->queries;
    float *before = attention->queries + attention->head_dim;
    memcpy(own, query, bytes);
    eplb_rope(rotation(attention, lap.at), attention->head_dim, own);
    memcpy(before, query, bytes);
    eplb_rope(rotation(attention, lap.at + attention->window), attention->head_dim, before);
}

/** The row's scores in ascending order of position; returns their number. */
static int32_t score(const struct eplb_attention *attention, struct lap lap, const float *keys)
{
    int32_t dim = attention->head_dim;
    const float *own = attention->queries;
    const float *before = attention->queries + dim;
    int32_t count = 0;
    for (int32_t i = lap.before; i < attention->window; i++)
        attention->scores[count++] = eplb_dot(before, keys + (size_t)i * (size_t)dim, dim) * attention->scale;
    for (int32_t i = 0; i <= lap.at; i++)
        attention->scores[count++] = eplb_dot(own, keys + (size_t)i * (size_t)dim, dim) * attention->scale;
    return count;
}

/** Adds the values in the order of the scores. */
static void mix(const struct eplb_attention *attention, struct lap lap, const float *values, float *out)
{
    int32_t dim = attention->head_dim;
    const float *share = attention->scores;
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int32_t i = lap.before; i < attention->window; i++)
        eplb_add_scaled(*share++, values + (size_t)i * (size_t)dim, dim, out);
    for (int32_t i = 0; i <= lap.at; i++)
        eplb_add_scaled(*share++, values + (size_t)i * (size_t)dim, dim, out);
}

void eplb_attention_row(const struct eplb_attention *attention, int32_t layer, int32_t cache,
                        int32_t position, const float *query_key_value, float *out)
{
    size_t dim = (size_t)attention->head_dim;
    size_t width = (size_t)attention->num_heads * dim;
    struct lap lap = {.at = position % attention->window, .before = attention->window};
    if (position >= attention->window)
        lap.before = lap.at + 1;
    for (int32_t head = 0; head < attention->num_heads; head++) {
        const float *query = query_key_value + (size_t)head * dim;
        float *keys = head_ring(attention, layer, cache, 0, head);
        float *values = head_ring(attention, layer, cache, 1, head);
        float *key = keys + (size_t)lap.at * dim;
        memcpy(key, query + width, dim * sizeof *key);
        eplb_rope(rotation(attention, lap.at), attention->head_dim, key);
        memcpy(values + (size_t)lap.at * dim, query + 2 * width, dim * sizeof *values);
        make_queries(attention, lap, query);
        eplb_softmax(attention->scores, score(attention, lap, keys));
        mix(attention, lap, values, out + (size_t)head * dim);
    }
}
