/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/event_codec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "wire/bytes.h"

/* Values above this are nobody's token or generation, and sums of them are no overflow. */
#define MAX_NUMBER EPLB_MAX_TOKEN

enum { SETS_CHANGED = 1, PUBLISH = 2 };

const unsigned char eplb_event_magic[EPLB_EVENT_MAGIC] = "eplb-events-1\n\0";

/* FNV-1a over words, each folded so that high bits reach the low ones. */
static uint64_t check_word(uint64_t check, uint64_t word)
{
    check = (check ^ word) * UINT64_C(0x100000001b3);
    return check ^ check >> 32;
}

uint64_t eplb_event_check(uint64_t check, const unsigned char *body, size_t length)
{
    check = check_word(check, length);
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= length; at += sizeof(uint64_t))
        check = check_word(check, eplb_get_u64(body + at));
    unsigned char rest[sizeof(uint64_t)] = {0};
    memcpy(rest, body + at, length - at);
    return check_word(check, eplb_get_u64(rest));
}

/* ---------------------------------------------------------------------------- codec and rooms */

enum eplb_status eplb_event_codec_init(struct eplb_event_codec *codec, const struct eplb_shape *shape,
                                       struct eplb_error *error)
{
    size_t ranks = (size_t)shape->ep_size;
    size_t layers = (size_t)shape->num_layers;
    *codec = (struct eplb_event_codec){.shape = *shape};
    if ((int64_t)shape->num_layers * shape->num_slots > EPLB_MAX_EVENT_SLOTS)
        EPLB_FAIL(EPLB_INVALID,
                  "%d layers of %d slots are too many for a recording of events; allowed are %d "
                  "slots in all",
                  shape->num_layers, shape->num_slots, EPLB_MAX_EVENT_SLOTS);
    codec->levels = calloc(ranks, sizeof *codec->levels);
    codec->generations = calloc(ranks * layers, sizeof *codec->generations);
    codec->versions = calloc(ranks * layers, sizeof *codec->versions);
    if (codec->levels != NULL && codec->generations != NULL && codec->versions != NULL)
        return EPLB_OK;
    eplb_event_codec_free(codec);
    EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the events of %zu ranks", ranks);
}

void eplb_event_codec_free(struct eplb_event_codec *codec)
{
    free(codec->levels);
    free(codec->generations);
    free(codec->versions);
    *codec = (struct eplb_event_codec){0};
}

enum eplb_status eplb_event_rooms_init(struct eplb_event_rooms *rooms, const struct eplb_shape *shape,
                                       struct eplb_error *error)
{
    size_t ranks = (size_t)shape->ep_size;
    size_t layers = (size_t)shape->num_layers;
    *rooms = (struct eplb_event_rooms){
        .outputs = calloc(ranks, sizeof *rooms->outputs),
        .prefixes = calloc(layers * (size_t)shape->num_slots, sizeof *rooms->prefixes),
        .benefits = calloc(layers, sizeof *rooms->benefits),
        .candidate_hashes = calloc(layers, sizeof *rooms->candidate_hashes),
        .command_rows = calloc(EPLB_COMMAND_ROWS * (size_t)shape->num_slots, sizeof *rooms->command_rows),
        .record = calloc(1, eplb_command_bytes(shape)),
        .updates = calloc(layers, sizeof *rooms->updates),
        .weights = calloc(layers * (size_t)shape->num_slots, sizeof *rooms->weights)};
    if (rooms->outputs != NULL && rooms->prefixes != NULL && rooms->benefits != NULL &&
        rooms->candidate_hashes != NULL && rooms->command_rows != NULL && rooms->record != NULL &&
        rooms->updates != NULL && rooms->weights != NULL)
        return EPLB_OK;
    eplb_event_rooms_free(rooms);
    EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the events of %zu ranks", ranks);
}

void eplb_event_rooms_free(struct eplb_event_rooms *rooms)
{
    free(rooms->outputs);
    free(rooms->prefixes);
    free(rooms->batches);
    free(rooms->benefits);
    free(rooms->candidate_hashes);
    free(rooms->command_rows);
    free(rooms->record);
    free(rooms->updates);
    free(rooms->weights);
    *rooms = (struct eplb_event_rooms){0};
}

/* ------------------------------------------------------------------------------------ encoding */

static void add_real(struct eplb_binary *bytes, double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    eplb_binary_u64(bytes, bits);
}

static const int32_t *row_of(const struct eplb_shape *shape, const int32_t *tables, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < shape->num_layers);
    return tables + (size_t)layer * (size_t)shape->num_slots;
}

static void add_policy_done(const struct eplb_shape *shape, const struct eplb_manager_event *event,
                            struct eplb_binary *bytes)
{
    bool known = event->benefits != NULL && event->candidates != NULL;
    eplb_binary_varint(bytes, (uint64_t)event->status);
    eplb_binary_text(bytes, event->reason == NULL ? "" : event->reason);
    eplb_binary_u8(bytes, known);
    for (int32_t layer = 0; known && layer < shape->num_layers; layer++) {
        const struct eplb_benefit *benefit = &event->benefits[layer];
        add_real(bytes, benefit->current_peak);
        add_real(bytes, benefit->candidate_peak);
        add_real(bytes, benefit->improvement);
        eplb_binary_u8(bytes,
                       (benefit->sets_changed ? SETS_CHANGED : 0u) | (benefit->publish ? PUBLISH : 0u));
        eplb_binary_u64(bytes, eplb_placement_hash(shape, row_of(shape, event->candidates, layer)));
    }
}

static void add_submit(const struct eplb_manager_event *event, struct eplb_binary *bytes)
{
    eplb_binary_varint(bytes, event->seq);
    eplb_binary_u8(bytes, event->warmup != 0);
    eplb_binary_varint(bytes, (uint64_t)event->num_batches);
    for (int32_t i = 0; i < event->num_batches; i++) {
        eplb_binary_signed(bytes, event->batches[i].prefill_tokens);
        eplb_binary_signed(bytes, event->batches[i].decode_tokens);
    }
}

void eplb_event_encode(struct eplb_event_codec *codec, const struct eplb_manager_event *event, int64_t now,
                       struct eplb_binary *bytes)
{
    eplb_binary_u8(bytes, EPLB_RECORD_EVENT + (unsigned)event->type);
    eplb_binary_signed(bytes, now - codec->now);
    codec->now = now;
    switch (event->type) {
    case EPLB_MANAGER_SUBMIT:
        add_submit(event, bytes);
        break;
    case EPLB_MANAGER_DROPPED:
        eplb_binary_varint(bytes, event->seq);
        break;
    case EPLB_MANAGER_OUTPUTS:
        eplb_binary_varint(bytes, event->seq);
        eplb_outputs_encode(codec, event, bytes);
        break;
    case EPLB_MANAGER_POLICY_DONE:
        add_policy_done(&codec->shape, event, bytes);
        break;
    case EPLB_MANAGER_RANK_DEAD:
        eplb_binary_varint(bytes, (uint64_t)event->rank);
        break;
    case EPLB_MANAGER_TICK:
        break;
    case EPLB_MANAGER_WEIGHTS_DONE:
        eplb_event_weights_encode(&codec->shape, event, bytes);
        break;
    }
}

void eplb_action_encode(const struct eplb_shape *shape, const struct eplb_manager_action *action,
                        struct eplb_binary *bytes)
{
    eplb_binary_u8(bytes, EPLB_RECORD_ACTION + (unsigned)action->type);
    switch (action->type) {
    case EPLB_MANAGER_COMMAND:
        eplb_event_command_encode(shape, action->command, bytes);
        break;
    case EPLB_MANAGER_OPEN_RECORD:
    case EPLB_MANAGER_ABORT_RECORD:
        eplb_binary_varint(bytes, action->token.value);
        break;
    case EPLB_MANAGER_RUN_POLICY:
    case EPLB_MANAGER_SOLVE_WEIGHTS:
        break;
    case EPLB_MANAGER_COMMITTED:
        eplb_binary_varint(bytes, (uint64_t)action->layer);
        eplb_binary_varint(bytes, action->generation);
        eplb_binary_signed(bytes, action->wait_ns);
        eplb_binary_u64(bytes, eplb_placement_hash(shape, action->expert_ids));
        break;
    case EPLB_MANAGER_ABORTED:
        eplb_binary_varint(bytes, (uint64_t)action->layer);
        eplb_binary_varint(bytes, (uint64_t)action->why);
        break;
    case EPLB_MANAGER_STOP:
        eplb_binary_varint(bytes, (uint64_t)action->error->status);
        eplb_binary_text(bytes, action->error->text);
        break;
    }
}

/* ------------------------------------------------------------------------------------ decoding */

static enum eplb_status take_status(struct eplb_cursor *cursor)
{
    switch ((enum eplb_status)eplb_cursor_most(cursor, UINT8_MAX)) {
#define STATUS_CASE(name, value, exit_code, text) \
    case EPLB_##name:                             \
        return EPLB_##name;
        EPLB_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
    }
    cursor->failed = true;
    return EPLB_INTERNAL;
}

static double take_real(struct eplb_cursor *cursor)
{
    uint64_t bits = eplb_cursor_u64(cursor);
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

static enum eplb_status take_batches(struct eplb_event_rooms *rooms, struct eplb_cursor *cursor,
                                     struct eplb_manager_event *event, struct eplb_error *error)
{
    /* Each takes two bytes at least, so a count that is not true asks for no memory. */
    size_t count = (size_t)eplb_cursor_most(cursor, INT32_MAX);
    if (cursor->failed || count > eplb_cursor_left(cursor) / 2)
        EPLB_FAIL(EPLB_INVALID, "the batches are not whole");
    if (count > rooms->max_batches) {
        struct eplb_dp_batch *grown = realloc(rooms->batches, count * sizeof *grown);
        if (grown == NULL)
            EPLB_FAIL(EPLB_NO_MEMORY, "no memory for %zu batches", count);
        rooms->batches = grown;
        rooms->max_batches = count;
    }
    for (size_t i = 0; i < count; i++) {
        rooms->batches[i].prefill_tokens = eplb_cursor_signed(cursor);
        rooms->batches[i].decode_tokens = eplb_cursor_signed(cursor);
    }
    event->batches = rooms->batches;
    event->num_batches = (int32_t)count;
    return EPLB_OK;
}

static void take_policy_done(const struct eplb_shape *shape, struct eplb_event_rooms *rooms,
                             struct eplb_cursor *cursor, struct eplb_logged *logged)
{
    struct eplb_manager_event *event = &logged->event;
    event->status = take_status(cursor);
    eplb_cursor_text(cursor, rooms->reason, sizeof rooms->reason);
    event->reason = rooms->reason;
    unsigned known = eplb_cursor_u8(cursor);
    cursor->failed |= known > 1;
    if (known != 1)
        return;
    for (int32_t layer = 0; !cursor->failed && layer < shape->num_layers; layer++) {
        struct eplb_benefit *benefit = &rooms->benefits[layer];
        benefit->current_peak = take_real(cursor);
        benefit->candidate_peak = take_real(cursor);
        benefit->improvement = take_real(cursor);
        unsigned flags = eplb_cursor_u8(cursor);
        cursor->failed |= flags > (SETS_CHANGED | PUBLISH);
        benefit->sets_changed = (flags & SETS_CHANGED) != 0;
        benefit->publish = (flags & PUBLISH) != 0;
        rooms->candidate_hashes[layer] = eplb_cursor_u64(cursor);
    }
    event->benefits = rooms->benefits;
    logged->candidate_hashes = rooms->candidate_hashes;
}

static enum eplb_status take_event(struct eplb_event_codec *codec, struct eplb_event_rooms *rooms,
                                   struct eplb_cursor *cursor, struct eplb_logged *logged,
                                   struct eplb_error *error)
{
    struct eplb_manager_event *event = &logged->event;
    switch (event->type) {
    case EPLB_MANAGER_SUBMIT:
        event->seq = eplb_cursor_varint(cursor);
        event->warmup = eplb_cursor_most(cursor, 1) == 1;
        return take_batches(rooms, cursor, event, error);
    case EPLB_MANAGER_DROPPED:
        event->seq = eplb_cursor_varint(cursor);
        break;
    case EPLB_MANAGER_OUTPUTS:
        event->seq = eplb_cursor_varint(cursor);
        return eplb_outputs_decode(codec, rooms, cursor, event, error);
    case EPLB_MANAGER_POLICY_DONE:
        take_policy_done(&codec->shape, rooms, cursor, logged);
        break;
    case EPLB_MANAGER_RANK_DEAD:
        event->rank = (int32_t)eplb_cursor_most(cursor, (uint64_t)codec->shape.ep_size - 1);
        break;
    case EPLB_MANAGER_TICK:
        break;
    case EPLB_MANAGER_WEIGHTS_DONE:
        eplb_event_weights_decode(&codec->shape, rooms, cursor, event);
        break;
    }
    return EPLB_OK;
}

static enum eplb_status check_end(const struct eplb_cursor *cursor, const char *what,
                                  struct eplb_error *error)
{
    if (cursor->failed || cursor->at != cursor->end)
        EPLB_FAIL(EPLB_INVALID, "%s is not what it should be", what);
    return EPLB_OK;
}

enum eplb_status eplb_event_decode(struct eplb_event_codec *codec, struct eplb_event_rooms *rooms,
                                   struct eplb_cursor *cursor, enum eplb_manager_event_type type,
                                   struct eplb_logged *logged, struct eplb_error *error)
{
    int64_t later = eplb_cursor_signed(cursor);
    if (later < -codec->now || later > EPLB_MAX_EVENT_TIME - codec->now)
        EPLB_FAIL(EPLB_INVALID, "%" PRId64 " ns after %" PRId64 " is no time", later, codec->now);
    codec->now += later;
    logged->now = codec->now;
    logged->event.type = type;
    EPLB_TRY(take_event(codec, rooms, cursor, logged, error));
    return check_end(cursor, "the event", error);
}

static int32_t take_layer(const struct eplb_shape *shape, struct eplb_cursor *cursor)
{
    return (int32_t)eplb_cursor_most(cursor, (uint64_t)shape->num_layers - 1);
}

enum eplb_status eplb_action_decode(const struct eplb_shape *shape, struct eplb_event_rooms *rooms,
                                    struct eplb_cursor *cursor, enum eplb_manager_action_type type,
                                    struct eplb_logged *logged, struct eplb_error *error)
{
    struct eplb_manager_action *action = &logged->action;
    *action = (struct eplb_manager_action){.type = type, .layer = EPLB_NO_LAYER};
    switch (type) {
    case EPLB_MANAGER_COMMAND:
        EPLB_TRY(eplb_event_command_decode(shape, rooms, cursor, error));
        action->command = &rooms->command;
        break;
    case EPLB_MANAGER_OPEN_RECORD:
    case EPLB_MANAGER_ABORT_RECORD:
        action->token.value = eplb_cursor_varint(cursor);
        break;
    case EPLB_MANAGER_RUN_POLICY:
    case EPLB_MANAGER_SOLVE_WEIGHTS:
        break;
    case EPLB_MANAGER_COMMITTED:
        action->layer = take_layer(shape, cursor);
        action->generation = eplb_cursor_varint(cursor);
        action->wait_ns = eplb_cursor_signed(cursor);
        logged->table_hash = eplb_cursor_u64(cursor);
        break;
    case EPLB_MANAGER_ABORTED:
        action->layer = take_layer(shape, cursor);
        action->why = (enum eplb_abort_reason)eplb_cursor_most(cursor, EPLB_ABORT_RANK_DEAD);
        break;
    case EPLB_MANAGER_STOP:
        rooms->error.status = take_status(cursor);
        eplb_cursor_text(cursor, rooms->error.text, sizeof rooms->error.text);
        action->error = &rooms->error;
        break;
    }
    return check_end(cursor, "the action", error);
}

/* -------------------------------------------------------------------------------------- header */

enum header_flag {
    HAS_TABLES = 1,
    HAS_GENERATIONS = 2,
    HAS_LAYER_IDS = 4,
    HAS_LIMITS = 8,
    HAS_ROUTING = 16,
    HAS_VERSIONS = 32,
    HAS_WEIGHTS = 64,
    HAS_EARLY = 128,
};

/** Whether there is anything to say that a log had no word for at first. */
static bool has_limits(const struct eplb_manager_core_params *params)
{
    return params->settings.num_groups > 1 || params->settings.num_nodes > 1 || params->max_moves > 0 ||
           params->max_break_even_forwards > 0 || params->expert_bytes > 0 || params->bytes_per_second > 0;
}

static unsigned header_flags(const struct eplb_manager_core_params *params)
{
    /* Without limits and routing a header is what it was before there were any. */
    return (params->initial != NULL ? HAS_TABLES : 0u) |
           (params->generations != NULL ? HAS_GENERATIONS : 0u) |
           (params->layer_ids != NULL ? HAS_LAYER_IDS : 0u) | (has_limits(params) ? HAS_LIMITS : 0u) |
           (params->replica_routing != EPLB_ROUTING_STATIC ? HAS_ROUTING : 0u) |
           (params->weight_versions != NULL ? HAS_VERSIONS : 0u) |
           (params->initial_weights != NULL ? HAS_WEIGHTS : 0u) |
           (params->shift_trigger > 0 || params->min_tokens_per_layer > 0 ? HAS_EARLY : 0u);
}

static void add_limits(const struct eplb_manager_core_params *params, struct eplb_binary *bytes)
{
    const struct eplb_policy_settings *settings = &params->settings;
    eplb_binary_varint(bytes, settings->size == 0 ? 1 : (uint64_t)settings->num_groups);
    eplb_binary_varint(bytes, settings->size == 0 ? 1 : (uint64_t)settings->num_nodes);
    eplb_binary_varint(bytes, (uint64_t)params->max_moves);
    eplb_binary_varint(bytes, (uint64_t)params->max_break_even_forwards);
    eplb_binary_varint(bytes, (uint64_t)params->expert_bytes);
    add_real(bytes, params->bytes_per_second);
}

void eplb_header_encode(const struct eplb_manager_core_params *params, struct eplb_binary *bytes)
{
    const struct eplb_shape *shape = &params->shape;
    size_t layers = (size_t)shape->num_layers;
    eplb_binary_u8(bytes, EPLB_RECORD_HEADER);
    eplb_binary_u32(bytes, (uint32_t)shape->num_layers);
    eplb_binary_u32(bytes, (uint32_t)shape->num_experts);
    eplb_binary_u32(bytes, (uint32_t)shape->ep_size);
    eplb_binary_u32(bytes, (uint32_t)shape->redundant_experts_num);
    add_real(bytes, params->min_peak_load_improvement);
    eplb_binary_u64(bytes, (uint64_t)params->update_interval_ns);
    eplb_binary_u64(bytes, (uint64_t)params->update_interval_forwards);
    eplb_binary_u64(bytes, (uint64_t)params->prepare_timeout_ns);
    eplb_binary_u64(bytes, (uint64_t)params->transfer_timeout_ns);
    eplb_binary_u64(bytes, params->first_token);
    eplb_binary_u64(bytes, params->first_seq);
    eplb_binary_varint(bytes, (uint64_t)params->overlap);
    eplb_binary_text(bytes, params->ops->name);
    eplb_binary_u8(bytes, header_flags(params));
    if (has_limits(params))
        add_limits(params, bytes);
    for (size_t i = 0; params->initial != NULL && i < layers * (size_t)shape->num_slots; i++)
        eplb_binary_u32(bytes, (uint32_t)params->initial[i]);
    for (size_t i = 0; params->generations != NULL && i < layers; i++)
        eplb_binary_u64(bytes, params->generations[i]);
    for (size_t i = 0; params->layer_ids != NULL && i < layers; i++)
        eplb_binary_u32(bytes, (uint32_t)params->layer_ids[i]);
    if (params->replica_routing != EPLB_ROUTING_STATIC) {
        eplb_binary_u8(bytes, (unsigned)params->replica_routing);
        add_real(bytes, params->weights_decay);
    }
    for (size_t i = 0; params->weight_versions != NULL && i < layers; i++)
        eplb_binary_u64(bytes, params->weight_versions[i]);
    for (size_t i = 0; params->initial_weights != NULL && i < layers * (size_t)shape->num_slots; i++)
        eplb_binary_u32(bytes, (uint32_t)params->initial_weights[i]);
    if (header_flags(params) & HAS_EARLY) {
        add_real(bytes, params->shift_trigger);
        eplb_binary_varint(bytes, (uint64_t)params->min_tokens_per_layer);
    }
}

static enum eplb_status take_shape(struct eplb_cursor *cursor, struct eplb_shape *shape,
                                   struct eplb_error *error)
{
    uint32_t layers = eplb_cursor_u32(cursor);
    uint32_t experts = eplb_cursor_u32(cursor);
    uint32_t ranks = eplb_cursor_u32(cursor);
    uint32_t redundant = eplb_cursor_u32(cursor);
    EPLB_TRY(eplb_shape_init(shape, layers, experts, ranks, redundant, error));
    if ((int64_t)shape->num_layers * shape->num_slots > EPLB_MAX_EVENT_SLOTS)
        EPLB_FAIL(EPLB_INVALID, "%d layers of %d slots; allowed are %d slots in all", shape->num_layers,
                  shape->num_slots, EPLB_MAX_EVENT_SLOTS);
    return EPLB_OK;
}

static int64_t take_interval(struct eplb_cursor *cursor)
{
    uint64_t interval = eplb_cursor_u64(cursor);
    cursor->failed |= interval > (uint64_t)EPLB_MAX_EVENT_TIME;
    return cursor->failed ? 0 : (int64_t)interval;
}

static const int32_t *take_i32s(struct eplb_cursor *cursor, size_t count)
{
    const unsigned char *taken = eplb_cursor_take(cursor, count * sizeof(int32_t));
    int32_t *numbers = taken == NULL ? NULL : calloc(count, sizeof *numbers);
    for (size_t i = 0; numbers != NULL && i < count; i++)
        numbers[i] = eplb_get_i32(taken + i * sizeof *numbers);
    return numbers;
}

static const uint64_t *take_generations(struct eplb_cursor *cursor, size_t count)
{
    const unsigned char *taken = eplb_cursor_take(cursor, count * sizeof(uint64_t));
    uint64_t *numbers = taken == NULL ? NULL : calloc(count, sizeof *numbers);
    for (size_t i = 0; numbers != NULL && i < count; i++) {
        numbers[i] = eplb_get_u64(taken + i * sizeof *numbers);
        cursor->failed |= numbers[i] > MAX_NUMBER;
    }
    return numbers;
}

static void take_routing(struct eplb_cursor *cursor, struct eplb_manager_core_params *params)
{
    uint64_t routing = eplb_cursor_most(cursor, EPLB_NUM_ROUTINGS - 1);
    cursor->failed |= routing == EPLB_ROUTING_STATIC;
    params->replica_routing = (enum eplb_replica_routing)routing;
    params->weights_decay = take_real(cursor);
}

static void take_limits(struct eplb_cursor *cursor, struct eplb_manager_core_params *params)
{
    params->settings.num_groups = (int32_t)eplb_cursor_most(cursor, INT32_MAX);
    params->settings.num_nodes = (int32_t)eplb_cursor_most(cursor, INT32_MAX);
    params->max_moves = (int32_t)eplb_cursor_most(cursor, INT32_MAX);
    params->max_break_even_forwards = (int32_t)eplb_cursor_most(cursor, INT32_MAX);
    params->expert_bytes = (int64_t)eplb_cursor_most(cursor, INT64_MAX);
    params->bytes_per_second = take_real(cursor);
}

static void take_early(struct eplb_cursor *cursor, struct eplb_manager_core_params *params)
{
    params->shift_trigger = take_real(cursor);
    params->min_tokens_per_layer = (int64_t)eplb_cursor_most(cursor, INT64_MAX);
    /* What is not there when both are 0 is never there as 0; and no number is not 0 either. */
    cursor->failed |= !(params->shift_trigger > 0) && params->min_tokens_per_layer == 0;
}

static enum eplb_status take_arrays(struct eplb_cursor *cursor, struct eplb_manager_core_params *params,
                                    struct eplb_error *error)
{
    size_t layers = (size_t)params->shape.num_layers;
    unsigned flags = eplb_cursor_u8(cursor);
    if (flags & HAS_LIMITS)
        take_limits(cursor, params);
    if (flags & HAS_TABLES)
        params->initial = take_i32s(cursor, layers * (size_t)params->shape.num_slots);
    if (flags & HAS_GENERATIONS)
        params->generations = take_generations(cursor, layers);
    if (flags & HAS_LAYER_IDS)
        params->layer_ids = take_i32s(cursor, layers);
    if (flags & HAS_ROUTING)
        take_routing(cursor, params);
    if (flags & HAS_VERSIONS)
        params->weight_versions = take_generations(cursor, layers);
    if (flags & HAS_WEIGHTS)
        params->initial_weights = take_i32s(cursor, layers * (size_t)params->shape.num_slots);
    if (flags & HAS_EARLY)
        take_early(cursor, params);
    EPLB_TRY(check_end(cursor, "the header", error));
    if (header_flags(params) != flags)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the tables of %zu layers", layers);
    return EPLB_OK;
}

enum eplb_status eplb_header_decode(struct eplb_cursor *cursor, struct eplb_manager_core_params *params,
                                    char policy[EPLB_EVENT_POLICY_TEXT], struct eplb_error *error)
{
    EPLB_TRY(take_shape(cursor, &params->shape, error));
    eplb_policy_settings_init(&params->settings);
    params->min_peak_load_improvement = take_real(cursor);
    params->update_interval_ns = take_interval(cursor);
    params->update_interval_forwards = take_interval(cursor);
    params->prepare_timeout_ns = take_interval(cursor);
    params->transfer_timeout_ns = take_interval(cursor);
    params->first_token = eplb_cursor_u64(cursor);
    params->first_seq = eplb_cursor_u64(cursor);
    params->overlap = (int32_t)eplb_cursor_most(cursor, 1);
    eplb_cursor_text(cursor, policy, EPLB_EVENT_POLICY_TEXT);
    struct eplb_policy_choice choice = eplb_policy_find(policy);
    if (choice.known && strcmp(choice.ops->name, policy) == 0)
        params->ops = choice.ops;
    return take_arrays(cursor, params, error);
}
