/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/config.h"

#include <stddef.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "model/model.h"
#include "model/weights.h"

void eplb_model_config_init(struct eplb_model_config *config)
{
    *config = (struct eplb_model_config){.vocab_size = 256,
                                         .hidden_size = 64,
                                         .num_layers = 4,
                                         .num_heads = 4,
                                         .head_dim = 16,
                                         .kv_window = 128,
                                         .num_experts = 16,
                                         .top_k = 2,
                                         .expert_hidden_size = 128,
                                         .shared_hidden_size = 64,
                                         .seed = 1};
}

struct range {
    const char *key;
    size_t offset; /* of the member */
    int32_t least;
    int32_t most;
    int32_t multiple;
};

#define MEMBER(name) #name, offsetof(struct eplb_model_config, name)

static const struct range ranges[] = {
    {MEMBER(vocab_size), 2, 65536, 1},
    {MEMBER(hidden_size), 8, 8192, 8},
    {MEMBER(num_layers), 1, 1024, 1},
    {MEMBER(num_heads), 1, 128, 1},
    {MEMBER(head_dim), 8, 256, 8},
    {MEMBER(kv_window), 1, 65536, 1},
    {MEMBER(num_experts), 1, EPLB_MAX_EXPERTS, 1},
    {MEMBER(top_k), 1, EPLB_MAX_TOP_K, 1},
    {MEMBER(expert_hidden_size), 8, 16384, 8},
    {MEMBER(shared_hidden_size), 0, 16384, 8},
};

static enum eplb_status check_range(const struct eplb_model_config *config, const struct range *range,
                                    struct eplb_error *error)
{
    int32_t value = *(const int32_t *)(const void *)((const char *)config + range->offset);
    if (value >= range->least && value <= range->most && value % range->multiple == 0)
        return EPLB_OK;
    if (range->least == 0)
        EPLB_FAIL(EPLB_INVALID, "%s is %d; allowed is 0 (none) or a multiple of %d up to %d", range->key,
                  value, range->multiple, range->most);
    if (range->multiple == 1)
        EPLB_FAIL(EPLB_INVALID, "%s is %d; allowed is %d to %d", range->key, value, range->least,
                  range->most);
    EPLB_FAIL(EPLB_INVALID, "%s is %d; allowed is a multiple of %d from %d to %d", range->key, value,
              range->multiple, range->least, range->most);
}

enum eplb_status eplb_model_config_check(const struct eplb_model_config *config, struct eplb_error *error)
{
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        EPLB_TRY(check_range(config, &ranges[i], error));
    if (config->top_k > config->num_experts)
        EPLB_FAIL(EPLB_INVALID, "top_k is %d; with num_experts %d, allowed is 1 to %d", config->top_k,
                  config->num_experts, config->num_experts);
    return EPLB_OK;
}

int64_t eplb_model_expert_bytes(const struct eplb_model_config *config)
{
    struct eplb_expert_layout layout = eplb_expert_layout(config);
    return (layout.gate_up_floats + layout.down_floats) * (int64_t)sizeof(float);
}

/* The registered tensors keep one slot more for every slot of a layer, whichever layer it is. */
static void take_staging(struct eplb_arena *arena, const struct eplb_model_config *config,
                         int32_t slots_per_rank)
{
    struct eplb_expert_layout layout = eplb_expert_layout(config);
    eplb_arena_take(arena, (size_t)slots_per_rank, (size_t)layout.gate_up_floats * sizeof(float));
    eplb_arena_take(arena, (size_t)slots_per_rank, (size_t)layout.down_floats * sizeof(float));
}

static enum eplb_status add(const char *what, size_t bytes, int overflow, int64_t *part, int64_t *total,
                            struct eplb_error *error)
{
    const int64_t most = INT64_C(1) << 62;
    if (overflow || bytes > (uint64_t)(most - *total))
        EPLB_FAIL(EPLB_INVALID, "with its %s, a rank needs more than 2^62 bytes", what);
    *part = (int64_t)bytes;
    *total += *part;
    return EPLB_OK;
}

enum eplb_status eplb_memory_plan_make(const struct eplb_model_config *config, const struct eplb_shape *shape,
                                       enum eplb_replica_routing routing, int32_t max_rows,
                                       int32_t num_caches, int fixed, struct eplb_memory_plan *plan,
                                       struct eplb_error *error)
{
    EPLB_ASSERT(shape->num_layers == config->num_layers && shape->num_experts == config->num_experts);
    EPLB_ASSERT(max_rows >= 1 && num_caches >= 1);
    struct eplb_memory_plan made = {0};
    struct eplb_model_weights weights;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_model_weights_take(&arena, config, shape->slots_per_rank, &weights);
    EPLB_TRY(add("weights", arena.used, arena.overflow, &made.weights, &made.total, error));
    eplb_arena_init(&arena, NULL, 0);
    take_staging(&arena, config, fixed ? 0 : shape->slots_per_rank);
    EPLB_TRY(add("staging", arena.used, arena.overflow, &made.staging, &made.total, error));
    size_t cache = eplb_model_kv_bytes(config, num_caches);
    EPLB_TRY(add("KV cache", cache, 0, &made.kv_cache, &made.total, error));
    size_t activations = eplb_model_activation_bytes(config, shape, routing, max_rows);
    EPLB_TRY(add("activations", activations, 0, &made.activations, &made.total, error));
    /* A part of the weights, so the product fits as they did. */
    made.redundant_slots =
        eplb_model_expert_bytes(config) * shape->redundant_experts_num * (int64_t)shape->num_layers;
    EPLB_ASSERT(made.redundant_slots >= 0 && made.redundant_slots <= made.weights);
    *plan = made;
    return EPLB_OK;
}
