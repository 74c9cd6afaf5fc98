/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/deepseek.h"

#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/placement.h"
#include "policy/deepseek.h"

static enum eplb_status check_size(const char *name, int64_t value, int64_t most, struct eplb_error *error)
{
    if (value < 1 || value > most)
        EPLB_FAIL(EPLB_INVALID, "%s is %" PRId64 ", allowed is 1 to %" PRId64, name, value, most);
    return EPLB_OK;
}

static enum eplb_status check_divides(const char *name, int64_t value, const char *divisor_name,
                                      int64_t divisor, struct eplb_error *error)
{
    if (value % divisor != 0)
        EPLB_FAIL(EPLB_INVALID, "%s %" PRId64 " is not divisible by %s %" PRId64, name, value, divisor_name,
                  divisor);
    return EPLB_OK;
}

enum eplb_status eplb_deepseek_sizes_init(struct eplb_deepseek_sizes *sizes, int64_t num_layers,
                                          int64_t num_experts, int64_t num_replicas, int64_t num_groups,
                                          int64_t num_nodes, int64_t num_gpus, struct eplb_error *error)
{
    EPLB_TRY(check_size("num_layers", num_layers, EPLB_MAX_LAYERS, error));
    EPLB_TRY(check_size("num_experts", num_experts, EPLB_MAX_EXPERTS, error));
    EPLB_TRY(check_size("num_replicas", num_replicas, EPLB_MAX_SLOTS, error));
    EPLB_TRY(check_size("num_groups", num_groups, INT32_MAX, error));
    EPLB_TRY(check_size("num_nodes", num_nodes, INT32_MAX, error));
    EPLB_TRY(check_size("num_gpus", num_gpus, EPLB_MAX_RANKS, error));
    if (num_replicas < num_experts)
        EPLB_FAIL(EPLB_INVALID, "num_replicas %" PRId64 " are fewer than num_experts %" PRId64, num_replicas,
                  num_experts);
    EPLB_TRY(check_divides("num_replicas", num_replicas, "num_gpus", num_gpus, error));
    if (num_groups % num_nodes != 0) {
        num_groups = 1;
        num_nodes = 1;
    }
    EPLB_TRY(check_divides("num_experts", num_experts, "num_groups", num_groups, error));
    EPLB_TRY(check_divides("num_gpus", num_gpus, "num_nodes", num_nodes, error));
    *sizes = (struct eplb_deepseek_sizes){.num_layers = (int32_t)num_layers,
                                          .num_experts = (int32_t)num_experts,
                                          .num_replicas = (int32_t)num_replicas,
                                          .num_groups = (int32_t)num_groups,
                                          .num_nodes = (int32_t)num_nodes,
                                          .num_gpus = (int32_t)num_gpus};
    return EPLB_OK;
}

size_t eplb_deepseek_scratch(const struct eplb_deepseek_sizes *sizes)
{
    struct eplb_deepseek_layer layer;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_deepseek_layer_layout(&layer, &arena, sizes);
    return arena.used;
}

static enum eplb_status check_weights(const struct eplb_deepseek_sizes *sizes, const float *weight,
                                      struct eplb_error *error)
{
    for (int32_t layer = 0; layer < sizes->num_layers; layer++)
        for (int32_t expert = 0; expert < sizes->num_experts; expert++, weight++)
            if (!(*weight >= 0 && isfinite(*weight)))
                EPLB_FAIL(EPLB_INVALID,
                          "layer %" PRId32 ", expert %" PRId32
                          ": weight is %g, a finite number >= 0 is expected",
                          layer, expert, (double)*weight);
    return EPLB_OK;
}

static enum eplb_status check_room(const struct eplb_deepseek_sizes *sizes, struct eplb_error *error)
{
    const int32_t slots = sizes->num_replicas / sizes->num_gpus;
    const int32_t experts = sizes->num_experts / sizes->num_nodes;
    if (slots > experts)
        EPLB_FAIL(EPLB_INVALID,
                  "a rank has %" PRId32 " slots and its node %" PRId32
                  " experts: without repeats a rank cannot have more slots than that",
                  slots, experts);
    return EPLB_OK;
}

static void write_layer(const struct eplb_deepseek_layer *layer, int32_t index, int64_t *phy2log,
                        int64_t *phyrank, int64_t *logcnt)
{
    const size_t num_replicas = (size_t)layer->sizes->num_replicas;
    const size_t num_experts = (size_t)layer->sizes->num_experts;
    EPLB_ASSERT(index >= 0 && index < layer->sizes->num_layers);
    for (size_t slot = 0; slot < num_replicas; slot++)
        phy2log[(size_t)index * num_replicas + slot] = layer->slots[slot].expert;
    for (size_t slot = 0; phyrank != NULL && slot < num_replicas; slot++)
        phyrank[(size_t)index * num_replicas + slot] = layer->slots[slot].number;
    for (size_t expert = 0; expert < num_experts; expert++) {
        EPLB_ASSERT(layer->count[expert] >= 1);
        logcnt[(size_t)index * num_experts + expert] = layer->count[expert];
    }
}

enum eplb_status eplb_deepseek_rebalance(const struct eplb_deepseek_sizes *sizes, const float *weight,
                                         int remove_repeats, void *scratch, int64_t *phy2log,
                                         int64_t *phyrank, int64_t *logcnt, struct eplb_error *error)
{
    EPLB_TRY(check_weights(sizes, weight, error));
    if (remove_repeats)
        EPLB_TRY(check_room(sizes, error));
    struct eplb_deepseek_layer layer;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, eplb_deepseek_scratch(sizes));
    eplb_deepseek_layer_layout(&layer, &arena, sizes);
    EPLB_ASSERT(!arena.overflow);
    for (int32_t index = 0; index < sizes->num_layers; index++) {
        eplb_deepseek_layer_plan(&layer, weight + (size_t)index * (size_t)sizes->num_experts, remove_repeats);
        if (remove_repeats)
            eplb_deepseek_remove_repeats(&layer);
        write_layer(&layer, index, phy2log, phyrank, logcnt);
    }
    return EPLB_OK;
}

/** Takes the first replica of an expert out of `left`; returns where it was, or -1. */
static int32_t take(struct eplb_deepseek_replica *left, int32_t count, int64_t expert)
{
    for (int32_t i = 0; expert >= 0 && i < count; i++)
        if (left[i].expert == expert) {
            left[i].expert = -1;
            return i;
        }
    return -1;
}

static void keep_slots_of_rank(const int64_t *old_phy2log, int32_t count, struct eplb_deepseek_replica *left,
                               int64_t *phy2log, int64_t *phyrank)
{
    for (int32_t i = 0; i < count; i++)
        left[i] =
            (struct eplb_deepseek_replica){.expert = (int32_t)phy2log[i], .number = (int32_t)phyrank[i]};
    for (int32_t slot = 0; slot < count; slot++) {
        const int32_t kept = take(left, count, old_phy2log[slot]);
        phy2log[slot] = kept < 0 ? -1 : old_phy2log[slot];
        phyrank[slot] = kept < 0 ? -1 : left[kept].number;
    }
    int32_t next_free = 0;
    for (int32_t i = 0; i < count; i++) {
        if (left[i].expert < 0)
            continue;
        while (phy2log[next_free] >= 0)
            next_free++;
        EPLB_ASSERT(next_free < count);
        phy2log[next_free] = left[i].expert;
        phyrank[next_free] = left[i].number;
    }
}

void eplb_deepseek_keep_slots(const struct eplb_deepseek_sizes *sizes, const int64_t *old_phy2log,
                              void *scratch, int64_t *phy2log, int64_t *phyrank)
{
    struct eplb_deepseek_layer layer;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, eplb_deepseek_scratch(sizes));
    eplb_deepseek_layer_layout(&layer, &arena, sizes);
    EPLB_ASSERT(!arena.overflow);
    const size_t slots = (size_t)sizes->num_layers * (size_t)sizes->num_replicas;
    const int32_t per_rank = sizes->num_replicas / sizes->num_gpus;
    for (size_t first = 0; first < slots; first += (size_t)per_rank)
        keep_slots_of_rank(old_phy2log + first, per_rank, layer.replicas, phy2log + first, phyrank + first);
}

int64_t eplb_deepseek_width(const struct eplb_deepseek_sizes *sizes, const int64_t *logcnt)
{
    int64_t width = 0;
    for (size_t i = 0; i < (size_t)sizes->num_layers * (size_t)sizes->num_experts; i++)
        width = logcnt[i] > width ? logcnt[i] : width;
    return width;
}

static enum eplb_status fill_layer(const struct eplb_deepseek_sizes *sizes, int32_t layer,
                                   const int64_t *phy2log, const int64_t *phyrank, int64_t width,
                                   int64_t *log2phy, struct eplb_error *error)
{
    for (int32_t slot = 0; slot < sizes->num_replicas; slot++) {
        if (phy2log[slot] < 0 || phy2log[slot] >= sizes->num_experts)
            EPLB_FAIL(EPLB_INVALID,
                      "layer %" PRId32 ", slot %" PRId32 ": expert is %" PRId64 ", allowed is 0 to %" PRId32,
                      layer, slot, phy2log[slot], sizes->num_experts - 1);
        if (phyrank[slot] < 0 || phyrank[slot] >= width)
            EPLB_FAIL(EPLB_INVALID,
                      "layer %" PRId32 ", slot %" PRId32 ": replica number is %" PRId64
                      ", allowed is 0 to width - 1 = %" PRId64,
                      layer, slot, phyrank[slot], width - 1);
        log2phy[phy2log[slot] * width + phyrank[slot]] = slot;
    }
    return EPLB_OK;
}

enum eplb_status eplb_deepseek_log2phy(const struct eplb_deepseek_sizes *sizes, const int64_t *phy2log,
                                       const int64_t *phyrank, int64_t width, int64_t *log2phy,
                                       struct eplb_error *error)
{
    EPLB_TRY(check_size("width", width, sizes->num_replicas, error));
    const size_t per_layer = (size_t)sizes->num_experts * (size_t)width;
    for (int32_t layer = 0; layer < sizes->num_layers; layer++) {
        const size_t row = (size_t)layer * (size_t)sizes->num_replicas;
        int64_t *const out = log2phy + (size_t)layer * per_layer;
        for (size_t i = 0; i < per_layer; i++)
            out[i] = -1;
        EPLB_TRY(fill_layer(sizes, layer, phy2log + row, phyrank + row, width, out, error));
    }
    return EPLB_OK;
}
