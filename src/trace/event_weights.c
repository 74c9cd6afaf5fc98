/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Commands of an event log, and the replica weights in commands and events. A command without weights has
 * the form that it had before there were any.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "trace/event_codec.h"
#include "wire/bytes.h"
#include "wire/fields.h"
#include "wire/layout.h"

/** The byte before a command. */
enum { COMMAND_EMPTY = 0, COMMAND_PLAIN = 1, COMMAND_WITH_WEIGHTS = 2 };

/* A plain command: the wire record's first fields, a zero word, the table. */
enum { PLAIN_FIELDS = EPLB_COMMAND_NUM_REPLICA_WEIGHTS, PLAIN_TABLE = PLAIN_FIELDS + 4 };

static size_t table_bytes(const struct eplb_shape *shape)
{
    return (size_t)shape->num_slots * sizeof(int32_t);
}

/* ------------------------------------------------------------------------------------ encoding */

static void add_row(const struct eplb_shape *shape, const int32_t *weights, struct eplb_binary *bytes)
{
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        eplb_binary_varint(bytes, (uint32_t)weights[slot]);
}

static void add_updates(const struct eplb_shape *shape, const struct eplb_weight_update *updates,
                        int32_t count, struct eplb_binary *bytes)
{
    eplb_binary_varint(bytes, (uint64_t)count);
    for (int32_t i = 0; i < count; i++) {
        eplb_binary_varint(bytes, (uint64_t)updates[i].layer);
        eplb_binary_varint(bytes, updates[i].generation);
        eplb_binary_varint(bytes, updates[i].version);
        add_row(shape, updates[i].weights, bytes);
    }
}

static void add_plain(const struct eplb_shape *shape, const struct eplb_command *command,
                      struct eplb_binary *bytes)
{
    unsigned char *record = eplb_binary_extend(bytes, PLAIN_TABLE + table_bytes(shape));
    if (record == NULL)
        return;
    memset(record, 0, PLAIN_TABLE + table_bytes(shape));
    eplb_command_put_fields(command, record);
    if (command->num_expert_ids > 0)
        eplb_row_put(shape, command->expert_ids, record + PLAIN_TABLE);
}

void eplb_event_command_encode(const struct eplb_shape *shape, const struct eplb_command *command,
                               struct eplb_binary *bytes)
{
    bool weights = command->replica_weights != NULL || command->num_weight_updates > 0;
    bool empty = command->prepare_layer_id == EPLB_NO_LAYER && command->update_layer_id == EPLB_NO_LAYER;
    EPLB_ASSERT(command->num_expert_ids == 0 || command->num_expert_ids == shape->num_slots);
    eplb_binary_varint(bytes, command->seq);
    eplb_binary_u8(bytes, weights ? COMMAND_WITH_WEIGHTS : empty ? COMMAND_EMPTY : COMMAND_PLAIN);
    if (weights || !empty)
        add_plain(shape, command, bytes);
    if (!weights)
        return;
    eplb_binary_u8(bytes, command->replica_weights != NULL);
    if (command->replica_weights != NULL)
        add_row(shape, command->replica_weights, bytes);
    add_updates(shape, command->weight_updates, command->num_weight_updates, bytes);
}

void eplb_event_weights_encode(const struct eplb_shape *shape, const struct eplb_manager_event *event,
                               struct eplb_binary *bytes)
{
    add_updates(shape, event->weights, event->num_weights, bytes);
}

/* ------------------------------------------------------------------------------------ decoding */

static bool take_row(const struct eplb_shape *shape, struct eplb_cursor *cursor, int32_t *row)
{
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        row[slot] = (int32_t)eplb_cursor_most(cursor, EPLB_WEIGHT_UNIT);
    return !cursor->failed;
}

static void take_update(const struct eplb_shape *shape, struct eplb_cursor *cursor, int32_t *row,
                        struct eplb_weight_update *update)
{
    update->layer = (int32_t)eplb_cursor_most(cursor, (uint64_t)shape->num_layers - 1);
    update->generation = eplb_cursor_varint(cursor);
    update->version = eplb_cursor_varint(cursor);
    update->weights = row;
    take_row(shape, cursor, row);
}

/** Puts a plain command where a wire record has it. */
static bool take_plain(const struct eplb_shape *shape, struct eplb_cursor *cursor, unsigned char *record)
{
    const unsigned char *plain = eplb_cursor_take(cursor, PLAIN_TABLE + table_bytes(shape));
    if (plain == NULL || eplb_get_u32(plain + PLAIN_FIELDS) != 0)
        return false;
    memcpy(record, plain, PLAIN_FIELDS);
    memcpy(record + EPLB_COMMAND_EXPERT_IDS, plain + PLAIN_TABLE, table_bytes(shape));
    return true;
}

static bool take_weights(const struct eplb_shape *shape, struct eplb_cursor *cursor, int32_t *row,
                         unsigned char *record)
{
    unsigned char *at = record + EPLB_COMMAND_EXPERT_IDS + table_bytes(shape);
    if (eplb_cursor_most(cursor, 1) == 1 && take_row(shape, cursor, row)) {
        eplb_put_u32(record + EPLB_COMMAND_NUM_REPLICA_WEIGHTS, (uint32_t)shape->num_slots);
        eplb_row_put(shape, row, at);
    }
    at += table_bytes(shape);
    uint32_t count = (uint32_t)eplb_cursor_most(cursor, EPLB_MAX_WEIGHT_UPDATES);
    eplb_put_u32(record + EPLB_COMMAND_NUM_WEIGHT_UPDATES, count);
    for (uint32_t i = 0; i < count && !cursor->failed; i++) {
        struct eplb_weight_update update;
        take_update(shape, cursor, row, &update);
        eplb_put_u64(at + EPLB_UPDATE_GENERATION, update.generation);
        eplb_put_u64(at + EPLB_UPDATE_VERSION, update.version);
        eplb_put_u32(at + EPLB_UPDATE_LAYER, (uint32_t)update.layer);
        eplb_row_put(shape, row, at + EPLB_UPDATE_WEIGHTS);
        at += EPLB_UPDATE_WEIGHTS + table_bytes(shape);
    }
    return !cursor->failed;
}

enum eplb_status eplb_event_command_decode(const struct eplb_shape *shape, struct eplb_event_rooms *rooms,
                                           struct eplb_cursor *cursor, struct eplb_error *error)
{
    uint64_t seq = eplb_cursor_varint(cursor);
    eplb_command_init(&rooms->command, seq);
    uint64_t form = eplb_cursor_most(cursor, COMMAND_WITH_WEIGHTS);
    if (form == COMMAND_EMPTY)
        return EPLB_OK;
    /* The record that the wire would have: its decoder checks all of it. */
    memset(rooms->record, 0, eplb_command_bytes(shape));
    if (!take_plain(shape, cursor, rooms->record) ||
        (form == COMMAND_WITH_WEIGHTS && !take_weights(shape, cursor, rooms->command_rows, rooms->record)))
        EPLB_FAIL(EPLB_INVALID, "the command of forward %" PRIu64 " is not whole", seq);
    return eplb_command_decode(shape, rooms->record, rooms->command_rows, &rooms->command, error);
}

void eplb_event_weights_decode(const struct eplb_shape *shape, struct eplb_event_rooms *rooms,
                               struct eplb_cursor *cursor, struct eplb_manager_event *event)
{
    event->num_weights = (int32_t)eplb_cursor_most(cursor, (uint64_t)shape->num_layers);
    event->weights = rooms->updates;
    for (int32_t i = 0; i < event->num_weights && !cursor->failed; i++)
        take_update(shape, cursor, rooms->weights + (size_t)i * (size_t)shape->num_slots, &rooms->updates[i]);
}
