/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/run_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"

static struct eplb_scheduler_params scheduler_params(const struct eplb_run_params *params)
{
    return (struct eplb_scheduler_params){.num_ranks = params->shape.ep_size,
                                          .num_caches = params->num_caches,
                                          .max_rows = params->max_rows,
                                          .admit_interval = params->admit_interval,
                                          .busy_ranks = params->busy_ranks,
                                          .fixed_sequences = params->trace_sequences,
                                          .traffic = params->traffic};
}

static struct eplb_statistics_params statistics_params(const struct eplb_run_params *params)
{
    return (struct eplb_statistics_params){
        .shape = params->shape, .window_forwards = params->window_forwards, .initial = params->initial};
}

static void take_rooms(struct eplb_arena *arena, const struct eplb_run_params *params,
                       struct eplb_result *rooms)
{
    for (int32_t rank = 0; rank < params->shape.ep_size; rank++) {
        struct eplb_result room = {0};
        room.samples = eplb_arena_take(arena, (size_t)params->max_rows, sizeof *room.samples);
        room.work = eplb_arena_take(arena, (size_t)params->shape.num_layers, sizeof *room.work);
        if (rooms != NULL)
            rooms[rank] = room;
    }
}

static struct eplb_routed *take_routed(struct eplb_arena *arena, const struct eplb_run_params *params)
{
    size_t rows = params->record == NULL ? 0 : (size_t)params->max_rows;
    size_t row_ids = (size_t)params->shape.num_layers * (size_t)params->model.top_k;
    struct eplb_routed *routed = eplb_arena_take(arena, (size_t)params->shape.ep_size, sizeof *routed);
    for (int32_t rank = 0; rank < params->shape.ep_size; rank++) {
        struct eplb_routed room = {0};
        room.rows = eplb_arena_take(arena, rows, sizeof *room.rows);
        room.experts = eplb_arena_take(arena, rows, row_ids * sizeof *room.experts);
        if (routed != NULL)
            routed[rank] = room;
    }
    return routed;
}

static struct eplb_run *lay_out(struct eplb_arena *arena, const struct eplb_run_params *params)
{
    const struct eplb_shape *shape = &params->shape;
    size_t ranks = (size_t)shape->ep_size;
    size_t layers = (size_t)shape->num_layers;
    const struct eplb_scheduler_params scheduler = scheduler_params(params);
    const struct eplb_statistics_params statistics = statistics_params(params);
    struct eplb_run parts = {.params = params};
    struct eplb_run *run = eplb_arena_take(arena, 1, sizeof *run);
    parts.scheduler = eplb_scheduler_take(arena, &scheduler);
    parts.keeper = eplb_statistics_take(arena, &statistics);
    parts.batches = eplb_arena_take(arena, ranks, sizeof *parts.batches);
    parts.dp_batches = eplb_arena_take(arena, ranks, sizeof *parts.dp_batches);
    parts.taken = eplb_arena_take(arena, ranks, sizeof *parts.taken);
    parts.outputs = eplb_arena_take(arena, ranks, sizeof *parts.outputs);
    parts.results = eplb_arena_take(arena, ranks, sizeof *parts.results);
    parts.result_rooms = eplb_arena_take(arena, ranks, sizeof *parts.result_rooms);
    take_rooms(arena, params, parts.result_rooms);
    parts.routed = take_routed(arena, params);
    parts.input = eplb_arena_take(arena, 1, eplb_input_bytes(params->max_rows));
    parts.tables = eplb_arena_take(arena, layers * (size_t)shape->num_slots, sizeof *parts.tables);
    parts.generations = eplb_arena_take(arena, layers, sizeof *parts.generations);
    if (run != NULL)
        *run = parts;
    return run;
}

enum eplb_status eplb_run_state_create(const struct eplb_run_params *params, struct eplb_run **run,
                                       struct eplb_error *error)
{
    const struct eplb_shape *shape = &params->shape;
    const struct eplb_scheduler_params scheduler = scheduler_params(params);
    const struct eplb_statistics_params statistics = statistics_params(params);
    EPLB_TRY(eplb_scheduler_params_check(&scheduler, error));
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    (void)lay_out(&arena, params);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a run of %d ranks and %d layers", shape->ep_size,
                  shape->num_layers);
    struct eplb_run *created = lay_out(&arena, params);
    EPLB_ASSERT(created == block && !arena.overflow);
    eplb_scheduler_init(created->scheduler, &scheduler);
    eplb_statistics_init(created->keeper, &statistics);
    memcpy(created->tables, params->initial,
           (size_t)shape->num_layers * (size_t)shape->num_slots * sizeof *created->tables);
    *run = created;
    return EPLB_OK;
}

void eplb_run_state_destroy(struct eplb_run *run)
{
    eplb_arena_free(run);
}

void eplb_run_warn(const struct eplb_log_sink *log, const char *format, ...)
{
    char message[EPLB_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    EPLB_LOG(log, WARNING, EPLB_VALUE_TEXT(message));
}
