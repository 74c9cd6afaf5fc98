/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "channel/map.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/wire.h"
#include "shm/layout.h"

static enum eplb_status check_bytes(const char *name, uint64_t bytes, struct eplb_error *error)
{
    if (bytes > EPLB_CHANNEL_MAX_BYTES)
        EPLB_FAIL(EPLB_INVALID, "a channel's %s is %" PRIu64 "; allowed is 0 to %" PRIu64, name, bytes,
                  EPLB_CHANNEL_MAX_BYTES);
    return EPLB_OK;
}

static enum eplb_status check_shape(const struct eplb_shape *shape, struct eplb_error *error)
{
    struct eplb_shape proper;
    EPLB_TRY(eplb_shape_init(&proper, shape->num_layers, shape->num_experts, shape->ep_size,
                             shape->redundant_experts_num, error));
    if (shape->slots_per_rank != proper.slots_per_rank || shape->num_slots != proper.num_slots)
        EPLB_FAIL(EPLB_INVALID,
                  "a channel's shape has %d slots, %d per rank; a shape of these sizes has %d, %d per rank",
                  shape->num_slots, shape->slots_per_rank, proper.num_slots, proper.slots_per_rank);
    return EPLB_OK;
}

enum eplb_status eplb_channel_limits_check(const struct eplb_channel_limits *limits, struct eplb_error *error)
{
    EPLB_TRY(check_shape(&limits->shape, error));
    if (limits->ep_rank < 0 || limits->ep_rank >= limits->shape.ep_size)
        EPLB_FAIL(EPLB_INVALID, "a channel's ep_rank is %d; allowed is 0 to %d", limits->ep_rank,
                  limits->shape.ep_size - 1);
    EPLB_TRY(check_bytes("max_input_bytes", limits->max_input_bytes, error));
    EPLB_TRY(check_bytes("max_result_bytes", limits->max_result_bytes, error));
    return check_bytes("setup_bytes", limits->setup_bytes, error);
}

static struct eplb_channel_place take_place(struct eplb_arena *arena, size_t record_bytes, size_t body_bytes)
{
    struct eplb_channel_place place;
    place.slot = eplb_arena_take(arena, 1, sizeof *place.slot);
    place.record = eplb_arena_take(arena, record_bytes, 1);
    place.body = eplb_arena_take(arena, body_bytes, 1);
    return place;
}

static struct eplb_channel_map take_map(struct eplb_arena *arena, const struct eplb_channel_limits *limits)
{
    EPLB_ASSERT(eplb_channel_limits_check(limits, NULL) == EPLB_OK);
    const struct eplb_shape *shape = &limits->shape;
    struct eplb_channel_map map;
    map.head = eplb_arena_take(arena, 1, sizeof *map.head);
    map.setup = eplb_arena_take(arena, limits->setup_bytes, 1);
    for (int i = 0; i < EPLB_CHANNEL_DEPTH; i++)
        map.requests[i] = take_place(arena, eplb_command_bytes(shape), limits->max_input_bytes);
    for (int i = 0; i < EPLB_CHANNEL_DEPTH; i++)
        map.replies[i] = take_place(arena, eplb_worker_output_bytes(shape), limits->max_result_bytes);
    EPLB_ASSERT(!arena->overflow);
    return map;
}

size_t eplb_channel_map_bytes(const struct eplb_channel_limits *limits)
{
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    take_map(&arena, limits);
    return arena.used;
}

struct eplb_channel_map eplb_channel_map_make(void *memory, const struct eplb_channel_limits *limits)
{
    struct eplb_arena arena;
    eplb_arena_init(&arena, memory, eplb_channel_map_bytes(limits));
    return take_map(&arena, limits);
}

void eplb_channel_facts_write(struct eplb_channel_facts *facts, const struct eplb_channel_limits *limits)
{
    *facts = (struct eplb_channel_facts){.num_layers = limits->shape.num_layers,
                                         .num_experts = limits->shape.num_experts,
                                         .ep_size = limits->shape.ep_size,
                                         .redundant_experts_num = limits->shape.redundant_experts_num,
                                         .ep_rank = limits->ep_rank,
                                         .depth = EPLB_CHANNEL_DEPTH,
                                         .max_input_bytes = limits->max_input_bytes,
                                         .max_result_bytes = limits->max_result_bytes,
                                         .setup_bytes = limits->setup_bytes};
}

static enum eplb_status limits_of(const struct eplb_channel_facts *facts, struct eplb_channel_limits *limits,
                                  struct eplb_error *error)
{
    if (facts->depth != EPLB_CHANNEL_DEPTH)
        EPLB_FAIL(EPLB_INVALID, "a channel's depth is %" PRIu32 "; this library's is %d", facts->depth,
                  EPLB_CHANNEL_DEPTH);
    EPLB_TRY(check_bytes("max_input_bytes", facts->max_input_bytes, error));
    EPLB_TRY(check_bytes("max_result_bytes", facts->max_result_bytes, error));
    EPLB_TRY(check_bytes("setup_bytes", facts->setup_bytes, error));
    EPLB_TRY(eplb_shape_init(&limits->shape, facts->num_layers, facts->num_experts, facts->ep_size,
                             facts->redundant_experts_num, error));
    limits->ep_rank = facts->ep_rank;
    limits->max_input_bytes = (size_t)facts->max_input_bytes;
    limits->max_result_bytes = (size_t)facts->max_result_bytes;
    limits->setup_bytes = (size_t)facts->setup_bytes;
    return eplb_channel_limits_check(limits, error);
}

static enum eplb_status read_facts(const void *memory, size_t bytes, struct eplb_channel_limits *limits,
                                   struct eplb_error *error)
{
    if (bytes < sizeof(struct eplb_channel_head))
        EPLB_FAIL(EPLB_INVALID, "a channel of %zu bytes; its head alone has %zu", bytes,
                  sizeof(struct eplb_channel_head));
    struct eplb_channel_facts facts;
    memcpy(&facts, memory, sizeof facts);
    /* The maker may write meanwhile: what is checked must be the copy, not the memory read once more. */
    atomic_signal_fence(memory_order_seq_cst);
    struct eplb_channel_limits found;
    EPLB_TRY(limits_of(&facts, &found, error));
    size_t needed = eplb_channel_map_bytes(&found);
    if (needed > bytes || bytes - needed >= EPLB_SEGMENT_ALIGN)
        EPLB_FAIL(EPLB_INVALID, "a channel of %zu bytes; what its head says would need %zu", bytes, needed);
    *limits = found;
    return EPLB_OK;
}

enum eplb_status eplb_channel_facts_read(const void *memory, size_t bytes, struct eplb_channel_limits *limits,
                                         struct eplb_error *error)
{
    struct eplb_error wrong;
    if (read_facts(memory, bytes, limits, &wrong) != EPLB_OK)
        EPLB_FAIL(EPLB_LAYOUT, "the head of a channel is damaged: %s", wrong.text);
    return EPLB_OK;
}
