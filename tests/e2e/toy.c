/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "e2e/toy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/prng.h"

struct header {
    uint64_t seq;
    int32_t source;
    int32_t unused;
};

struct toy {
    struct toy_params params;
    struct eplb_counter *counter;
    int64_t *prefix; /* [L][slots_per_rank] */
    size_t rows;     /* L * tokens * top_k, of one source */
    size_t kinds_at; /* offsets in a dispatch */
    size_t slots_at; /* [L][tokens][top_k] */
    size_t dispatch_bytes;
    unsigned char *dispatches; /* [R][dispatch_bytes]: header, generations [L], kinds [tokens], slots */
    uint64_t *results;         /* [R][rows] for that rank's tokens; 0 where the slot is not ours */
    uint64_t *outputs;         /* [R][rows] of our tokens, as that rank computed them */
    struct eplb_part *sent, *received; /* [R] of a collective */
    int32_t *slots;                    /* [tokens][top_k] of one layer and source */
    uint8_t *mask;                     /* [tokens] */
};

/* -------------------------------------------------------------------------------------- traffic */

static uint64_t draw(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed ^ a * UINT64_C(0x9e3779b97f4a7c15) ^ b * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                              c * UINT64_C(0x165667b19e3779f9));
    return eplb_prng_next(&prng);
}

int32_t toy_route(const struct eplb_shape *shape, int32_t top_k, const struct toy_traffic *traffic,
                  uint64_t seq, int32_t source, int32_t token, int32_t layer, int32_t k)
{
    uint64_t phase = traffic->period == 0 ? 0 : seq / traffic->period;
    uint64_t step = traffic->period == 0 ? 0 : seq;
    uint64_t place = (uint64_t)source << 32 | (uint32_t)token;
    int32_t share = shape->num_experts / top_k;
    uint64_t hot = draw(traffic->seed, phase, (uint64_t)layer, 0) % (uint64_t)shape->num_experts;
    uint64_t drawn = draw(traffic->seed, step + 1, (uint64_t)layer + 1, place + 1) | UINT64_C(1) << 62;
    int32_t distance = __builtin_ctzll(drawn) % share;
    return ((int32_t)hot + distance + k * share) % shape->num_experts;
}

static uint64_t token_value(const struct toy *toy, uint64_t seq, int32_t source, int32_t token)
{
    uint64_t step = toy->params.traffic.period == 0 ? 0 : seq;
    return draw(toy->params.traffic.seed + 1, step, (uint64_t)source, (uint64_t)token);
}

/* --------------------------------------------------------------------------------------- create */

static struct toy *lay_out(struct eplb_arena *arena, const struct toy_params *params)
{
    size_t ranks = (size_t)params->shape.ep_size;
    size_t layers = (size_t)params->shape.num_layers;
    size_t tokens = (size_t)params->tokens;
    size_t rows = layers * tokens * (size_t)params->top_k;
    struct toy parts = {.params = *params, .rows = rows};
    struct toy *toy = eplb_arena_take(arena, 1, sizeof *toy);
    parts.kinds_at = sizeof(struct header) + layers * sizeof(uint64_t);
    parts.slots_at = parts.kinds_at + tokens;
    parts.dispatch_bytes = parts.slots_at + rows * sizeof *parts.slots;
    parts.prefix =
        eplb_arena_take(arena, layers * (size_t)params->shape.slots_per_rank, sizeof *parts.prefix);
    parts.dispatches = eplb_arena_take(arena, ranks, parts.dispatch_bytes);
    parts.results = eplb_arena_take(arena, ranks * rows, sizeof *parts.results);
    parts.outputs = eplb_arena_take(arena, ranks * rows, sizeof *parts.outputs);
    parts.sent = eplb_arena_take(arena, ranks, sizeof *parts.sent);
    parts.received = eplb_arena_take(arena, ranks, sizeof *parts.received);
    parts.slots = eplb_arena_take(arena, tokens * (size_t)params->top_k, sizeof *parts.slots);
    parts.mask = eplb_arena_take(arena, tokens, sizeof *parts.mask);
    if (toy != NULL)
        *toy = parts;
    return toy;
}

enum eplb_status toy_create(const struct toy_params *params, struct toy **toy, struct eplb_error *error)
{
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    (void)lay_out(&arena, params);
    void *block = eplb_arena_block(arena.used);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a toy forward");
    eplb_arena_init(&arena, block, arena.used);
    struct toy *created = lay_out(&arena, params);
    enum eplb_status status = eplb_counter_create(&params->shape, params->ep_rank, &created->counter, error);
    if (status != EPLB_OK) {
        eplb_arena_free(created);
        return status;
    }
    *toy = created;
    return EPLB_OK;
}

void toy_destroy(struct toy *toy)
{
    if (toy == NULL)
        return;
    eplb_counter_destroy(toy->counter);
    eplb_arena_free(toy);
}

const int64_t *toy_prefix(const struct toy *toy)
{
    return toy->prefix;
}

void toy_forget(struct toy *toy)
{
    const struct eplb_shape *shape = &toy->params.shape;
    memset(toy->prefix, 0, (size_t)(shape->num_layers * shape->slots_per_rank) * sizeof *toy->prefix);
}

/* ------------------------------------------------------------------------------------- dispatch */

static unsigned char *dispatch_of(const struct toy *toy, int32_t source)
{
    return toy->dispatches + (size_t)source * toy->dispatch_bytes;
}

static size_t layer_bytes(const struct toy *toy)
{
    return (size_t)(toy->params.tokens * toy->params.top_k) * sizeof *toy->slots;
}

/** Where a layer's slots begin in a dispatch. */
static size_t layer_at(const struct toy *toy, int32_t layer)
{
    return toy->slots_at + (size_t)layer * layer_bytes(toy);
}

static void write_kinds(const struct toy *toy, const struct eplb_dp_batch *own, uint8_t *kinds)
{
    for (int32_t token = 0; token < toy->params.tokens; token++)
        kinds[token] = token < own->prefill_tokens                        ? EPLB_TOKEN_PREFILL
                       : token < own->prefill_tokens + own->decode_tokens ? EPLB_TOKEN_DECODE
                                                                          : EPLB_TOKEN_PADDING;
}

/** Real tokens go where they want to, padding to expert 0, as a padded graph would. */
static void route_layer(struct toy *toy, uint64_t seq, int32_t layer, const uint8_t *kinds)
{
    const struct toy_params *params = &toy->params;
    const int32_t *log2phy = standin_log2phy(params->model, layer);
    for (int32_t token = 0; token < params->tokens; token++)
        for (int32_t k = 0; k < params->top_k; k++) {
            int32_t expert = kinds[token] == EPLB_TOKEN_PADDING
                                 ? 0
                                 : toy_route(&params->shape, params->top_k, &params->traffic, seq,
                                             params->ep_rank, token, layer, k);
            toy->slots[token * params->top_k + k] = log2phy[expert];
        }
}

static enum eplb_status dispatch(struct toy *toy, uint64_t seq, const struct eplb_dp_batch *own,
                                 const uint64_t *generations, struct eplb_error *error)
{
    const struct toy_params *params = &toy->params;
    unsigned char *mine = dispatch_of(toy, params->ep_rank);
    struct header header = {.seq = seq, .source = params->ep_rank};
    memcpy(mine, &header, sizeof header);
    memcpy(mine + sizeof header, generations, (size_t)params->shape.num_layers * sizeof *generations);
    write_kinds(toy, own, mine + toy->kinds_at);
    for (int32_t layer = 0; layer < params->shape.num_layers; layer++) {
        route_layer(toy, seq, layer, mine + toy->kinds_at);
        memcpy(mine + layer_at(toy, layer), toy->slots, layer_bytes(toy));
    }
    for (int32_t rank = 0; rank < params->shape.ep_size; rank++)
        toy->received[rank] = (struct eplb_part){dispatch_of(toy, rank), toy->dispatch_bytes};
    return eplb_group_all_gather(params->group, toy->received[params->ep_rank], toy->received, toy->sent,
                                 error);
}

/** The forward and its generations travel with every dispatch; who runs another one stops the run. */
static enum eplb_status check_dispatch(const struct toy *toy, uint64_t seq, int32_t rank,
                                       const uint64_t *generations, struct eplb_error *error)
{
    struct header header;
    memcpy(&header, dispatch_of(toy, rank), sizeof header);
    if (header.seq != seq || header.source != rank)
        EPLB_FAIL(EPLB_INCONSISTENT,
                  "rank %d runs forward %" PRIu64 " and got one of forward %" PRIu64 " from rank %d",
                  toy->params.ep_rank, seq, header.seq, rank);
    for (int32_t layer = 0; layer < toy->params.shape.num_layers; layer++) {
        uint64_t other;
        memcpy(&other, dispatch_of(toy, rank) + sizeof header + (size_t)layer * sizeof other, sizeof other);
        if (other != generations[layer])
            EPLB_FAIL(EPLB_INCONSISTENT,
                      "forward %" PRIu64 ", layer %d: rank %d runs generation %" PRIu64
                      " and rank %d runs %" PRIu64,
                      seq, layer, toy->params.ep_rank, generations[layer], rank, other);
    }
    return EPLB_OK;
}

/* -------------------------------------------------------------------------------------- compute */

static enum eplb_status count(struct toy *toy, int32_t layer, const uint8_t *kinds, struct eplb_error *error)
{
    size_t tokens = (size_t)toy->params.tokens;
    EPLB_TRY(eplb_mask_build(kinds, tokens, 0, toy->mask, error));
    return eplb_counter_add_routed(toy->counter, layer, toy->slots, tokens, toy->params.top_k, toy->mask,
                                   tokens, error);
}

static void compute(struct toy *toy, uint64_t seq, int32_t source, int32_t layer, const uint8_t *kinds)
{
    const struct toy_params *params = &toy->params;
    int32_t first = params->ep_rank * params->shape.slots_per_rank;
    uint64_t *results =
        toy->results + (size_t)source * toy->rows + (size_t)(layer * params->tokens * params->top_k);
    for (int32_t row = 0; row < params->tokens * params->top_k; row++) {
        int32_t token = row / params->top_k;
        int32_t local = toy->slots[row] - first;
        bool ours = local >= 0 && local < params->shape.slots_per_rank && kinds[token] != EPLB_TOKEN_PADDING;
        results[row] =
            ours ? standin_compute(params->model, layer, local, token_value(toy, seq, source, token)) : 0;
    }
}

static enum eplb_status serve_source(struct toy *toy, uint64_t seq, int32_t source, struct eplb_error *error)
{
    const unsigned char *from = dispatch_of(toy, source);
    const uint8_t *kinds = from + toy->kinds_at;
    for (int32_t layer = 0; layer < toy->params.shape.num_layers; layer++) {
        memcpy(toy->slots, from + layer_at(toy, layer), layer_bytes(toy));
        EPLB_TRY(count(toy, layer, kinds, error));
        compute(toy, seq, source, layer, kinds);
    }
    return EPLB_OK;
}

/* -------------------------------------------------------------------------------------- combine */

static enum eplb_status combine(struct toy *toy, struct eplb_error *error)
{
    size_t bytes = toy->rows * sizeof *toy->results;
    for (int32_t rank = 0; rank < toy->params.shape.ep_size; rank++) {
        toy->sent[rank] = (struct eplb_part){toy->results + (size_t)rank * toy->rows, bytes};
        toy->received[rank] = (struct eplb_part){toy->outputs + (size_t)rank * toy->rows, bytes};
    }
    return toy->params.group->all_to_all(toy->params.group->self, toy->sent, toy->received, error);
}

/** A token's output, its experts' added in k order, against what it is under every placement. */
static enum eplb_status check_token(const struct toy *toy, uint64_t seq, int32_t layer, int32_t token,
                                    struct eplb_error *error)
{
    const struct toy_params *params = &toy->params;
    uint64_t value = token_value(toy, seq, params->ep_rank, token);
    uint64_t got = 0;
    uint64_t wanted = 0;
    for (int32_t k = 0; k < params->top_k; k++) {
        int32_t expert =
            toy_route(&params->shape, params->top_k, &params->traffic, seq, params->ep_rank, token, layer, k);
        int32_t owner = standin_log2phy(params->model, layer)[expert] / params->shape.slots_per_rank;
        int32_t row = (layer * params->tokens + token) * params->top_k + k;
        got = 31 * got + toy->outputs[(size_t)owner * toy->rows + (size_t)row];
        wanted = 31 * wanted + standin_expected(params->model, layer, expert, value);
    }
    if (got != wanted)
        EPLB_FAIL(EPLB_INCONSISTENT,
                  "forward %" PRIu64 ", rank %d, layer %d: token %d has output %" PRIx64
                  "; it must be %" PRIx64,
                  seq, params->ep_rank, layer, token, got, wanted);
    return EPLB_OK;
}

static enum eplb_status check_outputs(const struct toy *toy, uint64_t seq, const struct eplb_dp_batch *own,
                                      struct eplb_error *error)
{
    for (int32_t layer = 0; layer < toy->params.shape.num_layers; layer++)
        for (int32_t token = 0; token < own->prefill_tokens + own->decode_tokens; token++)
            EPLB_TRY(check_token(toy, seq, layer, token, error));
    return EPLB_OK;
}

enum eplb_status toy_forward(struct toy *toy, uint64_t seq, const struct eplb_dp_batch *own, unsigned flags,
                             const uint64_t *generations, struct eplb_error *error)
{
    toy_forget(toy);
    EPLB_TRY(eplb_counter_begin(toy->counter, flags, error));
    EPLB_TRY(dispatch(toy, seq, own, generations, error));
    for (int32_t rank = 0; rank < toy->params.shape.ep_size; rank++) {
        EPLB_TRY(check_dispatch(toy, seq, rank, generations, error));
        EPLB_TRY(serve_source(toy, seq, rank, error));
    }
    EPLB_TRY(combine(toy, error));
    EPLB_TRY(check_outputs(toy, seq, own, error));
    eplb_counter_prefix(toy->counter, toy->prefix);
    return EPLB_OK;
}
