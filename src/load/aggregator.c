/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "load/aggregator.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/planted.h"

static size_t place(uint64_t window, uint64_t places)
{
    EPLB_ASSERT(places > 0);
    return (size_t)(window % places);
}

static size_t table_length(const struct eplb_aggregator *aggregator)
{
    return (size_t)aggregator->shape.num_layers * (size_t)aggregator->shape.num_slots;
}

int64_t *eplb_aggregator_logical_row(const struct eplb_aggregator *aggregator, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < aggregator->shape.num_layers);
    int64_t *open = aggregator->logical[place(aggregator->num_closed, LOGICAL_PLACES)];
    return open + (size_t)layer * (size_t)aggregator->shape.num_experts;
}

int64_t *eplb_aggregator_physical_row(const struct eplb_aggregator *aggregator, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < aggregator->shape.num_layers);
    int64_t *open = aggregator->physical[place(aggregator->num_closed, PHYSICAL_PLACES)];
    return open + (size_t)layer * (size_t)aggregator->shape.num_slots;
}

static int32_t *active_table(const struct eplb_aggregator *aggregator, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < aggregator->shape.num_layers);
    return aggregator->active + (size_t)layer * (size_t)aggregator->shape.num_slots;
}

static int32_t *older_table(const struct eplb_aggregator *aggregator, int32_t layer, uint64_t generation)
{
    EPLB_ASSERT(layer >= 0 && layer < aggregator->shape.num_layers);
    size_t num_older = (size_t)aggregator->num_older;
    size_t index = (size_t)layer * num_older + place(generation, num_older);
    return aggregator->older + index * (size_t)aggregator->shape.num_slots;
}

const int32_t *eplb_aggregator_table(const struct eplb_aggregator *aggregator, int32_t layer,
                                     uint64_t generation)
{
    EPLB_ASSERT(layer >= 0 && layer < aggregator->shape.num_layers);
    uint64_t active = aggregator->generations[layer];
    if (generation == active)
        return active_table(aggregator, layer);
    if (generation > active || generation < aggregator->first_generations[layer] ||
        active - generation > (uint64_t)aggregator->num_older)
        return NULL;
    return older_table(aggregator, layer, generation);
}

static void take_windows(struct eplb_arena *arena, struct eplb_aggregator *layout, size_t layers,
                         size_t slots)
{
    size_t experts = (size_t)layout->shape.num_experts;
    for (int i = 0; i < LOGICAL_PLACES; i++)
        layout->logical[i] = eplb_arena_take(arena, layers * experts, sizeof(int64_t));
    for (int i = 0; i < PHYSICAL_PLACES; i++)
        layout->physical[i] = eplb_arena_take(arena, layers * slots, sizeof(int64_t));
    for (int i = 0; i < 2; i++)
        layout->parts[i].loads =
            eplb_arena_take(arena, EPLB_WINDOW_PARTS * layers, experts * sizeof(int64_t));
    layout->recent = eplb_arena_take(arena, layers * experts, sizeof(int64_t));
    layout->totals = eplb_arena_take(arena, layers, sizeof(eplb_u128));
    layout->rank_had_rows = eplb_arena_take(arena, (size_t)layout->shape.ep_size, 1);
}

static struct eplb_aggregator *lay_out(struct eplb_arena *arena, const struct eplb_shape *shape,
                                       int32_t overlap)
{
    struct eplb_aggregator layout = {.shape = *shape, .num_older = overlap + 1, .recent_keep = -1};
    size_t layers = (size_t)shape->num_layers;
    size_t slots = (size_t)shape->num_slots;
    struct eplb_aggregator *aggregator = eplb_arena_take(arena, 1, sizeof *aggregator);
    layout.layer_ids = eplb_arena_take(arena, layers, sizeof(int32_t));
    layout.generations = eplb_arena_take(arena, layers, sizeof(uint64_t));
    layout.first_generations = eplb_arena_take(arena, layers, sizeof(uint64_t));
    layout.closed_generations = eplb_arena_take(arena, layers, sizeof(uint64_t));
    layout.weight_versions = eplb_arena_take(arena, layers, sizeof(uint64_t));
    layout.closed_weight_versions = eplb_arena_take(arena, layers, sizeof(uint64_t));
    layout.active = eplb_arena_take(arena, layers * slots, sizeof(int32_t));
    layout.closed_table = eplb_arena_take(arena, layers * slots, sizeof(int32_t));
    layout.older = eplb_arena_take(arena, layers * slots, (size_t)layout.num_older * sizeof(int32_t));
    take_windows(arena, &layout, layers, slots);
    layout.counts = eplb_arena_take(arena, layers * slots, sizeof(int64_t));
    layout.sample_totals = eplb_arena_take(arena, layers, sizeof(eplb_u128));
    layout.sample_rank_has_rows = eplb_arena_take(arena, (size_t)shape->ep_size, 1);
    layout.row = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof(int64_t));
    if (aggregator != NULL)
        *aggregator = layout;
    return aggregator;
}

static enum eplb_status check_table(const struct eplb_shape *shape, const int32_t *expert_ids, int32_t layer,
                                    struct eplb_error *error)
{
    EPLB_ASSERT(layer >= 0 && layer < shape->num_layers);
    struct eplb_error reason;
    enum eplb_status status = eplb_placement_check(shape, expert_ids, &reason);
    if (status != EPLB_OK)
        EPLB_FAIL(status, "layer %d: %s", layer, reason.text);
    return EPLB_OK;
}

static void point_windows(struct eplb_aggregator *aggregator, uint64_t closed_samples)
{
    uint64_t open = aggregator->num_closed;
    /* The one before, without going below zero: a multiple of both numbers of places changes neither. */
    uint64_t closed = open + LOGICAL_PLACES * PHYSICAL_PLACES - 1;
    aggregator->open = (struct eplb_window){.size = sizeof(struct eplb_window),
                                            .logical = aggregator->logical[place(open, LOGICAL_PLACES)],
                                            .physical = aggregator->physical[place(open, PHYSICAL_PLACES)],
                                            .expert_ids = aggregator->active,
                                            .generations = aggregator->generations,
                                            .weight_versions = aggregator->weight_versions};
    aggregator->closed =
        (struct eplb_window){.size = sizeof(struct eplb_window),
                             .logical = aggregator->logical[place(closed, LOGICAL_PLACES)],
                             .physical = aggregator->physical[place(closed, PHYSICAL_PLACES)],
                             .expert_ids = aggregator->closed_table,
                             .generations = aggregator->closed_generations,
                             .num_samples = closed_samples,
                             .weight_versions = aggregator->closed_weight_versions};
}

static void remember_tables(struct eplb_aggregator *aggregator)
{
    memcpy(aggregator->closed_table, aggregator->active, table_length(aggregator) * sizeof(int32_t));
    size_t bytes = (size_t)aggregator->shape.num_layers * sizeof(uint64_t);
    memcpy(aggregator->closed_generations, aggregator->generations, bytes);
    memcpy(aggregator->closed_weight_versions, aggregator->weight_versions, bytes);
}

static void start(struct eplb_aggregator *aggregator, const int32_t *expert_ids, const uint64_t *generations)
{
    size_t generation_bytes = (size_t)aggregator->shape.num_layers * sizeof(uint64_t);
    aggregator->counters.size = sizeof aggregator->counters;
    memcpy(aggregator->active, expert_ids, table_length(aggregator) * sizeof(int32_t));
    if (generations != NULL) {
        memcpy(aggregator->generations, generations, generation_bytes);
        memcpy(aggregator->first_generations, generations, generation_bytes);
    }
    remember_tables(aggregator);
    eplb_aggregator_restart_parts(aggregator);
    point_windows(aggregator, 0);
}

enum eplb_status eplb_aggregator_create(const struct eplb_shape *shape, int32_t overlap,
                                        const int32_t *expert_ids, const uint64_t *generations,
                                        const struct eplb_log_sink *sink, struct eplb_aggregator **aggregator,
                                        struct eplb_error *error)
{
    EPLB_ASSERT(shape->num_slots == shape->ep_size * shape->slots_per_rank);
    if (overlap < 0 || overlap > EPLB_MAX_OVERLAP)
        EPLB_FAIL(EPLB_INVALID, "overlap %d is not in [0, %d]", overlap, EPLB_MAX_OVERLAP);
    for (int32_t l = 0; l < shape->num_layers; l++)
        EPLB_TRY(check_table(shape, expert_ids + (size_t)l * (size_t)shape->num_slots, l, error));
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    lay_out(&arena, shape, overlap);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the load windows of %d layers with %d experts on %d slots",
                  shape->num_layers, shape->num_experts, shape->num_slots);
    struct eplb_aggregator *created = lay_out(&arena, shape, overlap);
    EPLB_ASSERT(created == block && !arena.overflow);
    created->sink = sink;
    eplb_aggregator_name_layers(created, NULL);
    start(created, expert_ids, generations);
    *aggregator = created;
    return EPLB_OK;
}

void eplb_aggregator_name_layers(struct eplb_aggregator *aggregator, const int32_t *layer_ids)
{
    EPLB_ASSERT(aggregator->layer_ids != NULL);
    for (int32_t l = 0; l < aggregator->shape.num_layers; l++)
        aggregator->layer_ids[l] = layer_ids == NULL ? l : layer_ids[l];
}

void eplb_aggregator_destroy(struct eplb_aggregator *aggregator)
{
    eplb_arena_free(aggregator);
}

enum eplb_status eplb_aggregator_commit(struct eplb_aggregator *aggregator, int32_t layer,
                                        const int32_t *expert_ids, struct eplb_error *error)
{
    if (layer < 0 || layer >= aggregator->shape.num_layers)
        EPLB_FAIL(EPLB_INVALID, "layer %d is not in [0, %d)", layer, aggregator->shape.num_layers);
    EPLB_TRY(check_table(&aggregator->shape, expert_ids, layer, error));
    uint64_t generation = aggregator->generations[layer];
    if (generation == UINT64_MAX)
        EPLB_FAIL(EPLB_INVALID, "layer %d: generation %llu is the largest there is",
                  aggregator->layer_ids[layer], (unsigned long long)generation);
    size_t slots = (size_t)aggregator->shape.num_slots;
    int32_t *active = active_table(aggregator, layer);
    memcpy(older_table(aggregator, layer, generation), active, slots * sizeof *active);
    memcpy(active, expert_ids, slots * sizeof *active);
    aggregator->generations[layer] = generation + 1;
    aggregator->weight_versions[layer] = 0;
    EPLB_ASSERT(eplb_aggregator_table(aggregator, layer, generation) != NULL);
    if (!EPLB_PLANTED(WINDOW_NOT_CLEARED))
        memset(eplb_aggregator_physical_row(aggregator, layer), 0, slots * sizeof(int64_t));
    return EPLB_OK;
}

static void warn_silent_ranks(const struct eplb_aggregator *aggregator)
{
    size_t ranks = (size_t)aggregator->shape.ep_size;
    if (memchr(aggregator->rank_had_rows, 1, ranks) == NULL)
        return;
    for (size_t r = 0; r < ranks; r++) {
        if (aggregator->rank_had_rows[r])
            continue;
        char message[EPLB_ERROR_TEXT];
        snprintf(message, sizeof message,
                 "EP rank %zu reported only zeros in a window of %llu samples while other ranks had traffic",
                 r, (unsigned long long)aggregator->open.num_samples);
        EPLB_LOG(aggregator->sink, WARNING, EPLB_VALUE_TEXT(message));
    }
}

void eplb_aggregator_close_window(struct eplb_aggregator *aggregator)
{
    size_t layers = (size_t)aggregator->shape.num_layers;
    warn_silent_ranks(aggregator);
    remember_tables(aggregator);
    aggregator->num_closed++;
    point_windows(aggregator, aggregator->open.num_samples);
    eplb_aggregator_restart_parts(aggregator);
    memset(eplb_aggregator_logical_row(aggregator, 0), 0,
           layers * (size_t)aggregator->shape.num_experts * sizeof(int64_t));
    memset(eplb_aggregator_physical_row(aggregator, 0), 0, table_length(aggregator) * sizeof(int64_t));
    memset(aggregator->totals, 0, layers * sizeof *aggregator->totals);
    memset(aggregator->rank_had_rows, 0, (size_t)aggregator->shape.ep_size);
    EPLB_ASSERT(aggregator->open.num_samples == 0 && aggregator->open.logical != aggregator->closed.logical);
}

const struct eplb_window *eplb_aggregator_open(const struct eplb_aggregator *aggregator)
{
    return &aggregator->open;
}

const struct eplb_window *eplb_aggregator_closed(const struct eplb_aggregator *aggregator)
{
    return &aggregator->closed;
}

int32_t eplb_aggregator_history_length(const struct eplb_aggregator *aggregator)
{
    return aggregator->num_closed < EPLB_HISTORY_WINDOWS ? (int32_t)aggregator->num_closed
                                                         : EPLB_HISTORY_WINDOWS;
}

const int64_t *eplb_aggregator_history(const struct eplb_aggregator *aggregator, int32_t window,
                                       int32_t layer)
{
    int32_t length = eplb_aggregator_history_length(aggregator);
    if (window < 0 || window >= length || layer < 0 || layer >= aggregator->shape.num_layers)
        return NULL;
    uint64_t number = aggregator->num_closed - (uint64_t)(length - window);
    EPLB_ASSERT(number < aggregator->num_closed);
    return aggregator->logical[place(number, LOGICAL_PLACES)] +
           (size_t)layer * (size_t)aggregator->shape.num_experts;
}

const struct eplb_sample_counters *eplb_aggregator_counters(const struct eplb_aggregator *aggregator)
{
    return &aggregator->counters;
}
