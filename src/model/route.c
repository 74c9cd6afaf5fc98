/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/route.h"

#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mix.h"
#include "base/wide.h"
#include "model/arithmetic.h"
#include "model/config.h"

static void choose_by_router(void *context, const struct eplb_route_request *request, int32_t *experts)
{
    (void)context;
    float values[EPLB_MAX_TOP_K];
    EPLB_ASSERT(request->top_k >= 1 && request->top_k <= EPLB_MAX_TOP_K);
    for (int32_t row = 0; row < request->num_rows; row++)
        eplb_top_k(request->logits + (size_t)row * (size_t)request->num_experts, request->num_experts,
                   request->top_k, experts + (size_t)row * (size_t)request->top_k, values);
}

const struct eplb_route_source *eplb_route_by_router(void)
{
    static const struct eplb_route_source source = {.size = sizeof source, .choose = choose_by_router};
    return &source;
}

struct eplb_skewed_routes {
    struct eplb_route_source source;
    int32_t num_phases;
    int32_t num_layers;
    int32_t num_experts;
    int32_t top_k;
    uint64_t period;
    uint64_t seed;
    int64_t *ends; /* [num_phases][num_layers][num_experts]: rates up to and with an expert */
};

/* An expert's tokens are an interval of [0, total): it begins where the expert before it ends. */
static int64_t begin_of(const int64_t *ends, int32_t expert)
{
    return expert == 0 ? 0 : ends[expert - 1];
}

/* The expert in whose interval a token lies. */
static int32_t find(const int64_t *ends, int32_t num_experts, int64_t token)
{
    int32_t low = 0;
    int32_t high = num_experts - 1;
    EPLB_ASSERT(token >= 0 && token < ends[high]);
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (ends[middle] > token)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* A number below bound. That 2^64 is no multiple of it shifts no expert's share by more than 2^-64. */
static int64_t below(uint64_t key, uint64_t number, int64_t bound)
{
    EPLB_ASSERT(bound > 0 && bound <= EPLB_MAX_LOAD);
    return (int64_t)((eplb_u128)eplb_mix(key, number) * (uint64_t)bound >> 64);
}

/* Adds to a list in ascending order. */
static void insert(int32_t *sorted, int32_t count, int32_t expert)
{
    int32_t place = count;
    for (; place > 0 && sorted[place - 1] > expert; place--)
        sorted[place] = sorted[place - 1];
    EPLB_ASSERT(place == 0 || sorted[place - 1] < expert);
    sorted[place] = expert;
}

/* Each draw is among the tokens of the experts not yet drawn: skipping the intervals of the others, in
 * ascending order, finds its place. */
static void draw_row(const struct eplb_skewed_routes *routes, const int64_t *ends, uint64_t key,
                     int32_t *experts)
{
    int32_t sorted[EPLB_MAX_TOP_K];
    int64_t left = ends[routes->num_experts - 1];
    for (int32_t k = 0; k < routes->top_k; k++) {
        int64_t token = below(key, (uint64_t)k, left);
        for (int32_t i = 0; i < k && token >= begin_of(ends, sorted[i]); i++)
            token += ends[sorted[i]] - begin_of(ends, sorted[i]);
        int32_t expert = find(ends, routes->num_experts, token);
        EPLB_ASSERT(token >= begin_of(ends, expert) && token < ends[expert]);
        insert(sorted, k, expert);
        left -= ends[expert] - begin_of(ends, expert);
        experts[k] = expert;
    }
}

static void choose_skewed(void *context, const struct eplb_route_request *request, int32_t *experts)
{
    const struct eplb_skewed_routes *routes = context;
    EPLB_ASSERT(request->layer >= 0 && request->layer < routes->num_layers);
    EPLB_ASSERT(request->num_experts == routes->num_experts && request->top_k == routes->top_k);
    EPLB_ASSERT(request->num_rows >= 0);
    uint64_t phase = routes->period == 0 ? 0 : request->seq / routes->period % (uint64_t)routes->num_phases;
    size_t layer = (size_t)phase * (size_t)routes->num_layers + (size_t)request->layer;
    const int64_t *ends = routes->ends + layer * (size_t)routes->num_experts;
    uint64_t key = eplb_mix(eplb_mix(0, routes->seed), (uint64_t)request->layer);
    for (int32_t row = 0; row < request->num_rows; row++) {
        uint64_t sequence = eplb_mix(key, request->rows[row].sequence);
        draw_row(routes, ends, eplb_mix(sequence, (uint64_t)request->rows[row].position),
                 experts + (size_t)row * (size_t)request->top_k);
    }
}

static enum eplb_status check_sizes(int32_t num_phases, int32_t num_layers, int32_t num_experts,
                                    int32_t top_k, struct eplb_error *error)
{
    if (num_phases < 1)
        EPLB_FAIL(EPLB_INVALID, "num_phases is %d; allowed is 1 or more", num_phases);
    if (num_layers < 1 || num_layers > EPLB_MAX_LAYERS)
        EPLB_FAIL(EPLB_INVALID, "num_layers is %d; allowed is 1 to %d", num_layers, EPLB_MAX_LAYERS);
    if (num_experts < 1 || num_experts > EPLB_MAX_EXPERTS)
        EPLB_FAIL(EPLB_INVALID, "num_experts is %d; allowed is 1 to %d", num_experts, EPLB_MAX_EXPERTS);
    if (top_k < 1 || top_k > EPLB_MAX_TOP_K || top_k > num_experts)
        EPLB_FAIL(EPLB_INVALID, "top_k is %d; with num_experts %d, allowed is 1 to %d", top_k, num_experts,
                  num_experts < EPLB_MAX_TOP_K ? num_experts : EPLB_MAX_TOP_K);
    return EPLB_OK;
}

static enum eplb_status check_layer(const int64_t *rates, int32_t num_experts, int32_t top_k, int32_t phase,
                                    int32_t layer, struct eplb_error *error)
{
    int64_t sum = 0;
    int32_t positive = 0;
    for (int32_t expert = 0; expert < num_experts; expert++) {
        if (rates[expert] < 0 || rates[expert] > EPLB_MAX_LOAD - sum)
            EPLB_FAIL(EPLB_INVALID,
                      "phase %d layer %d expert %d: rate %" PRId64
                      "; allowed is 0 or more, and at most 2^62 for the layer's sum",
                      phase, layer, expert, rates[expert]);
        sum += rates[expert];
        positive += rates[expert] > 0;
    }
    if (positive < top_k)
        EPLB_FAIL(EPLB_INVALID, "phase %d layer %d: %d experts have a rate above 0; top_k %d needs as many",
                  phase, layer, positive, top_k);
    return EPLB_OK;
}

static struct eplb_skewed_routes *lay_out(struct eplb_arena *arena, const struct eplb_skewed_routes *params)
{
    struct eplb_skewed_routes layout = *params;
    struct eplb_skewed_routes *routes = eplb_arena_take(arena, 1, sizeof *routes);
    layout.ends = eplb_arena_take(arena, (size_t)layout.num_phases * (size_t)layout.num_layers,
                                  (size_t)layout.num_experts * sizeof *layout.ends);
    if (routes != NULL)
        *routes = layout;
    return routes;
}

static void fill(struct eplb_skewed_routes *routes, const int64_t *rates)
{
    size_t num_rows = (size_t)routes->num_phases * (size_t)routes->num_layers;
    int64_t *end = routes->ends;
    for (size_t row = 0; row < num_rows; row++) {
        int64_t sum = 0;
        for (int32_t expert = 0; expert < routes->num_experts; expert++)
            *end++ = sum += *rates++;
    }
    EPLB_ASSERT(end == routes->ends + num_rows * (size_t)routes->num_experts);
    routes->source.context = routes;
}

enum eplb_status eplb_skewed_routes_create(const int64_t *rates, int32_t num_phases, int32_t num_layers,
                                           int32_t num_experts, int32_t top_k, uint64_t period, uint64_t seed,
                                           struct eplb_skewed_routes **routes, struct eplb_error *error)
{
    EPLB_TRY(check_sizes(num_phases, num_layers, num_experts, top_k, error));
    const int64_t *layer_rates = rates;
    for (int32_t phase = 0; phase < num_phases; phase++)
        for (int32_t layer = 0; layer < num_layers; layer++, layer_rates += num_experts)
            EPLB_TRY(check_layer(layer_rates, num_experts, top_k, phase, layer, error));
    const struct eplb_skewed_routes params = {
        .source = {.size = sizeof params.source, .choose = choose_skewed},
        .num_phases = num_phases,
        .num_layers = num_layers,
        .num_experts = num_experts,
        .top_k = top_k,
        .period = period,
        .seed = seed,
    };
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    lay_out(&arena, &params);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the rates of %d phases with %d layers of %d experts",
                  num_phases, num_layers, num_experts);
    struct eplb_skewed_routes *created = lay_out(&arena, &params);
    EPLB_ASSERT(created == block && !arena.overflow);
    fill(created, rates);
    *routes = created;
    return EPLB_OK;
}

void eplb_skewed_routes_destroy(struct eplb_skewed_routes *routes)
{
    eplb_arena_free(routes);
}

const struct eplb_route_source *eplb_skewed_routes_source(const struct eplb_skewed_routes *routes)
{
    return &routes->source;
}
