/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/wire.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "wire/bytes.h"
#include "wire/fields.h"
#include "wire/layout.h"

void eplb_command_init(struct eplb_command *command, uint64_t seq)
{
    *command = (struct eplb_command){.size = sizeof *command,
                                     .seq = seq,
                                     .prepare_layer_id = EPLB_NO_LAYER,
                                     .update_layer_id = EPLB_NO_LAYER};
}

static size_t row_bytes(const struct eplb_shape *shape)
{
    return (size_t)shape->num_slots * sizeof(int32_t);
}

static size_t weights_offset(const struct eplb_shape *shape)
{
    return EPLB_COMMAND_EXPERT_IDS + row_bytes(shape);
}

static size_t update_offset(const struct eplb_shape *shape, int32_t update)
{
    return weights_offset(shape) + row_bytes(shape) +
           (size_t)update * (EPLB_UPDATE_WEIGHTS + row_bytes(shape));
}

size_t eplb_command_bytes(const struct eplb_shape *shape)
{
    return update_offset(shape, EPLB_MAX_WEIGHT_UPDATES);
}

/** Checks that a token is there exactly when its layer is, and that the layer exists. */
static enum eplb_status check_layer(const struct eplb_shape *shape, const struct eplb_command *command,
                                    const char *what, int32_t layer, uint64_t token, struct eplb_error *error)
{
    unsigned long long seq = command->seq;
    if (layer != EPLB_NO_LAYER && (layer < 0 || layer >= shape->num_layers))
        EPLB_FAIL(EPLB_INVALID, "command of forward %llu: %s layer %d; allowed is %d (none) or 0 to %d", seq,
                  what, layer, EPLB_NO_LAYER, shape->num_layers - 1);
    if (layer == EPLB_NO_LAYER && token != 0)
        EPLB_FAIL(EPLB_INVALID, "command of forward %llu: %s token %llu without a layer", seq, what,
                  (unsigned long long)token);
    if (layer != EPLB_NO_LAYER && (token == 0 || token > EPLB_MAX_TOKEN))
        EPLB_FAIL(EPLB_INVALID, "command of forward %llu: %s token %llu for layer %d; allowed is 1 to %llu",
                  seq, what, (unsigned long long)token, layer, (unsigned long long)EPLB_MAX_TOKEN);
    return EPLB_OK;
}

static enum eplb_status check_prepare(const struct eplb_shape *shape, const struct eplb_command *command,
                                      struct eplb_error *error)
{
    unsigned long long seq = command->seq;
    EPLB_TRY(check_layer(shape, command, "prepare", command->prepare_layer_id, command->prepare_token.value,
                         error));
    int32_t length = command->prepare_layer_id == EPLB_NO_LAYER ? 0 : shape->num_slots;
    if (command->num_expert_ids != length)
        EPLB_FAIL(EPLB_INVALID,
                  "command of forward %llu: a table of %d expert ids; prepare layer %d needs %d", seq,
                  command->num_expert_ids, command->prepare_layer_id, length);
    if (length == 0 && (command->base_generation != 0 || command->base_hash != 0))
        EPLB_FAIL(EPLB_INVALID,
                  "command of forward %llu: base generation %llu and hash %llu without a prepare", seq,
                  (unsigned long long)command->base_generation, (unsigned long long)command->base_hash);
    struct eplb_error table;
    if (length > 0 && eplb_placement_check(shape, command->expert_ids, &table) != EPLB_OK)
        EPLB_FAIL(EPLB_INVALID, "command of forward %llu: the table for layer %d is not legal: %s", seq,
                  command->prepare_layer_id, table.text);
    return EPLB_OK;
}

static enum eplb_status check_activation(const struct eplb_shape *shape, const struct eplb_command *command,
                                         struct eplb_error *error)
{
    unsigned long long seq = command->seq;
    EPLB_TRY(check_layer(shape, command, "activation", command->update_layer_id,
                         command->activation_token.value, error));
    EPLB_TRY(check_layer(shape, command, "activated prepare", command->update_layer_id,
                         command->update_prepare_token.value, error));
    if (command->update_layer_id == EPLB_NO_LAYER || command->prepare_layer_id == EPLB_NO_LAYER)
        return EPLB_OK;
    if (command->update_layer_id == command->prepare_layer_id)
        EPLB_FAIL(EPLB_INVALID, "command of forward %llu: layer %d is both prepared and activated", seq,
                  command->update_layer_id);
    if (command->update_prepare_token.value == command->prepare_token.value)
        EPLB_FAIL(EPLB_INVALID,
                  "command of forward %llu: prepare token %llu is both begun for layer %d and activated for "
                  "layer %d",
                  seq, (unsigned long long)command->prepare_token.value, command->prepare_layer_id,
                  command->update_layer_id);
    return EPLB_OK;
}

static enum eplb_status check_each_weight(const struct eplb_shape *shape, const struct eplb_command *command,
                                          const struct eplb_weight_update *update, struct eplb_error *error)
{
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        if (update->weights[slot] < 1 || update->weights[slot] > EPLB_WEIGHT_UNIT)
            EPLB_FAIL(EPLB_INVALID,
                      "command of forward %llu: the weight of slot %d of layer %d is %d; allowed is 1 to %d",
                      (unsigned long long)command->seq, slot, update->layer, update->weights[slot],
                      EPLB_WEIGHT_UNIT);
    return EPLB_OK;
}

static enum eplb_status check_weight_update(const struct eplb_shape *shape,
                                            const struct eplb_command *command, int32_t index,
                                            struct eplb_error *error)
{
    unsigned long long seq = command->seq;
    const struct eplb_weight_update *update = &command->weight_updates[index];
    if (update->layer < 0 || update->layer >= shape->num_layers)
        EPLB_FAIL(EPLB_INVALID,
                  "command of forward %llu: weight update %d is for layer %d; allowed is 0 to %d", seq, index,
                  update->layer, shape->num_layers - 1);
    if (update->layer == command->update_layer_id)
        EPLB_FAIL(EPLB_INVALID, "command of forward %llu: layer %d is activated and gets weights", seq,
                  update->layer);
    for (int32_t before = 0; before < index; before++)
        if (command->weight_updates[before].layer == update->layer)
            EPLB_FAIL(EPLB_INVALID, "command of forward %llu: layer %d gets weights twice", seq,
                      update->layer);
    if (update->version == 0 || update->version > EPLB_MAX_TOKEN)
        EPLB_FAIL(EPLB_INVALID,
                  "command of forward %llu: weights of version %llu for layer %d; allowed is 1 to %llu", seq,
                  (unsigned long long)update->version, update->layer, (unsigned long long)EPLB_MAX_TOKEN);
    return check_each_weight(shape, command, update, error);
}

/** The first weights of the table that is prepared. `scratch` has room for [num_experts]. */
static enum eplb_status check_replica_weights(const struct eplb_shape *shape,
                                              const struct eplb_command *command, int32_t *scratch,
                                              struct eplb_error *error)
{
    struct eplb_error reason;
    if (command->replica_weights != NULL &&
        eplb_weights_check(shape, command->expert_ids, command->replica_weights, scratch, &reason) != EPLB_OK)
        EPLB_FAIL(EPLB_INVALID, "command of forward %llu: the weights for the table of layer %d: %s",
                  (unsigned long long)command->seq, command->prepare_layer_id, reason.text);
    return EPLB_OK;
}

static enum eplb_status check_command(const struct eplb_shape *shape, const struct eplb_command *command,
                                      struct eplb_error *error)
{
    if (command->seq == 0)
        EPLB_FAIL(EPLB_INVALID, "command of forward 0; forwards are numbered from 1");
    EPLB_TRY(check_prepare(shape, command, error));
    EPLB_TRY(check_activation(shape, command, error));
    if (command->num_weight_updates < 0 || command->num_weight_updates > EPLB_MAX_WEIGHT_UPDATES)
        EPLB_FAIL(EPLB_INVALID, "command of forward %llu: %d weight updates; allowed is 0 to %d",
                  (unsigned long long)command->seq, command->num_weight_updates, EPLB_MAX_WEIGHT_UPDATES);
    for (int32_t i = 0; i < command->num_weight_updates; i++)
        EPLB_TRY(check_weight_update(shape, command, i, error));
    return EPLB_OK;
}

void eplb_row_put(const struct eplb_shape *shape, const int32_t *row, unsigned char *bytes)
{
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        eplb_put_u32(bytes + (size_t)slot * sizeof(int32_t), (uint32_t)row[slot]);
}

void eplb_command_put_fields(const struct eplb_command *command, unsigned char *record)
{
    eplb_put_u64(record + EPLB_COMMAND_SEQ, command->seq);
    eplb_put_u64(record + EPLB_COMMAND_PREPARE_TOKEN, command->prepare_token.value);
    eplb_put_u64(record + EPLB_COMMAND_BASE_GENERATION, command->base_generation);
    eplb_put_u64(record + EPLB_COMMAND_BASE_HASH, command->base_hash);
    eplb_put_u64(record + EPLB_COMMAND_ACTIVATION_TOKEN, command->activation_token.value);
    eplb_put_u64(record + EPLB_COMMAND_UPDATE_PREPARE_TOKEN, command->update_prepare_token.value);
    eplb_put_u32(record + EPLB_COMMAND_PREPARE_LAYER_ID, (uint32_t)command->prepare_layer_id);
    eplb_put_u32(record + EPLB_COMMAND_UPDATE_LAYER_ID, (uint32_t)command->update_layer_id);
    eplb_put_u32(record + EPLB_COMMAND_NUM_EXPERT_IDS, (uint32_t)command->num_expert_ids);
}

static void put_weight_update(const struct eplb_shape *shape, unsigned char *bytes,
                              const struct eplb_weight_update *update)
{
    eplb_put_u64(bytes + EPLB_UPDATE_GENERATION, update->generation);
    eplb_put_u64(bytes + EPLB_UPDATE_VERSION, update->version);
    eplb_put_u32(bytes + EPLB_UPDATE_LAYER, (uint32_t)update->layer);
    eplb_row_put(shape, update->weights, bytes + EPLB_UPDATE_WEIGHTS);
}

void eplb_command_encode(const struct eplb_shape *shape, const struct eplb_command *command, void *bytes)
{
    EPLB_ASSERT(command->size == sizeof *command);
    EPLB_ASSERT(check_command(shape, command, NULL) == EPLB_OK);
    EPLB_ASSERT(command->replica_weights == NULL || command->num_expert_ids > 0);
    unsigned char *record = bytes;
    memset(record, 0, eplb_command_bytes(shape));
    eplb_command_put_fields(command, record);
    eplb_put_u32(record + EPLB_COMMAND_NUM_WEIGHT_UPDATES, (uint32_t)command->num_weight_updates);
    if (command->num_expert_ids > 0)
        eplb_row_put(shape, command->expert_ids, record + EPLB_COMMAND_EXPERT_IDS);
    if (command->replica_weights != NULL) {
        eplb_put_u32(record + EPLB_COMMAND_NUM_REPLICA_WEIGHTS, (uint32_t)shape->num_slots);
        eplb_row_put(shape, command->replica_weights, record + weights_offset(shape));
    }
    for (int32_t i = 0; i < command->num_weight_updates; i++)
        put_weight_update(shape, record + update_offset(shape, i), &command->weight_updates[i]);
}

/** Checks that what a record does not use is zero: so every command has one form only. */
static enum eplb_status check_zero(const struct eplb_command *command, const unsigned char *record,
                                   size_t from, size_t end, struct eplb_error *error)
{
    EPLB_ASSERT(from <= end);
    size_t at = from;
    while (at + sizeof(uint64_t) <= end && eplb_get_u64(record + at) == 0)
        at += sizeof(uint64_t);
    while (at < end && record[at] == 0)
        at++;
    if (at < end)
        EPLB_FAIL(EPLB_INVALID, "command of forward %llu: byte %zu is %d; it is not used and must be 0",
                  (unsigned long long)command->seq, at, record[at]);
    return EPLB_OK;
}

static enum eplb_status check_unused(const struct eplb_shape *shape, const unsigned char *record,
                                     const struct eplb_command *command, struct eplb_error *error)
{
    size_t weights = weights_offset(shape);
    size_t updates = update_offset(shape, 0);
    EPLB_TRY(check_zero(command, record, EPLB_COMMAND_RESERVED, EPLB_COMMAND_EXPERT_IDS, error));
    if (command->expert_ids == NULL)
        EPLB_TRY(check_zero(command, record, EPLB_COMMAND_EXPERT_IDS, weights, error));
    if (command->replica_weights == NULL)
        EPLB_TRY(check_zero(command, record, weights, updates, error));
    for (int32_t i = 0; i < command->num_weight_updates; i++) {
        size_t update = update_offset(shape, i);
        EPLB_TRY(
            check_zero(command, record, update + EPLB_UPDATE_RESERVED, update + EPLB_UPDATE_WEIGHTS, error));
    }
    return check_zero(command, record, update_offset(shape, command->num_weight_updates),
                      eplb_command_bytes(shape), error);
}

static const int32_t *get_row(const struct eplb_shape *shape, const unsigned char *bytes, int32_t *row)
{
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        row[slot] = eplb_get_i32(bytes + (size_t)slot * sizeof(int32_t));
    return row;
}

/** The weight updates; what is not to be believed is left for the check. */
static void get_weight_updates(const struct eplb_shape *shape, const unsigned char *record, int32_t *room,
                               struct eplb_command *command)
{
    for (int32_t i = 0; i < command->num_weight_updates && i < EPLB_MAX_WEIGHT_UPDATES; i++) {
        const unsigned char *bytes = record + update_offset(shape, i);
        command->weight_updates[i] = (struct eplb_weight_update){
            .layer = eplb_get_i32(bytes + EPLB_UPDATE_LAYER),
            .generation = eplb_get_u64(bytes + EPLB_UPDATE_GENERATION),
            .version = eplb_get_u64(bytes + EPLB_UPDATE_VERSION),
            .weights = get_row(shape, bytes + EPLB_UPDATE_WEIGHTS, room),
        };
        room += shape->num_slots;
    }
}

/** Reads the weights that come with a table. */
static enum eplb_status get_replica_weights(const struct eplb_shape *shape, const unsigned char *record,
                                            int32_t *room, struct eplb_command *command,
                                            struct eplb_error *error)
{
    int32_t length = eplb_get_i32(record + EPLB_COMMAND_NUM_REPLICA_WEIGHTS);
    if (length != 0 && (length != shape->num_slots || command->expert_ids == NULL))
        EPLB_FAIL(EPLB_INVALID,
                  "command of forward %llu: %d replica weights for a table of %d expert ids; allowed is 0 or "
                  "as many",
                  (unsigned long long)command->seq, length, command->num_expert_ids);
    if (length != 0)
        command->replica_weights = get_row(shape, record + weights_offset(shape), room);
    return EPLB_OK;
}

enum eplb_status eplb_command_decode(const struct eplb_shape *shape, const void *bytes, int32_t *room,
                                     struct eplb_command *command, struct eplb_error *error)
{
    const unsigned char *record = bytes;
    int32_t *weights = room + shape->num_slots;
    int32_t *updates = weights + shape->num_slots;
    struct eplb_command decoded = {
        .size = sizeof decoded,
        .seq = eplb_get_u64(record + EPLB_COMMAND_SEQ),
        .prepare_token = {eplb_get_u64(record + EPLB_COMMAND_PREPARE_TOKEN)},
        .base_generation = eplb_get_u64(record + EPLB_COMMAND_BASE_GENERATION),
        .base_hash = eplb_get_u64(record + EPLB_COMMAND_BASE_HASH),
        .activation_token = {eplb_get_u64(record + EPLB_COMMAND_ACTIVATION_TOKEN)},
        .update_prepare_token = {eplb_get_u64(record + EPLB_COMMAND_UPDATE_PREPARE_TOKEN)},
        .prepare_layer_id = eplb_get_i32(record + EPLB_COMMAND_PREPARE_LAYER_ID),
        .update_layer_id = eplb_get_i32(record + EPLB_COMMAND_UPDATE_LAYER_ID),
        .num_expert_ids = eplb_get_i32(record + EPLB_COMMAND_NUM_EXPERT_IDS),
        .num_weight_updates = eplb_get_i32(record + EPLB_COMMAND_NUM_WEIGHT_UPDATES),
    };
    if (decoded.prepare_layer_id != EPLB_NO_LAYER)
        decoded.expert_ids = get_row(shape, record + EPLB_COMMAND_EXPERT_IDS, room);
    get_weight_updates(shape, record, updates, &decoded);
    EPLB_TRY(check_command(shape, &decoded, error));
    EPLB_TRY(get_replica_weights(shape, record, weights, &decoded, error));
    EPLB_TRY(check_replica_weights(shape, &decoded, updates, error));
    /* The check took their room as scratch. */
    if (decoded.replica_weights != NULL)
        get_weight_updates(shape, record, updates, &decoded);
    EPLB_TRY(check_unused(shape, record, &decoded, error));
    *command = decoded;
    return EPLB_OK;
}
