/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/wire.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "wire/bytes.h"
#include "wire/layout.h"

void eplb_command_init(struct eplb_command *command, uint64_t seq)
{
    *command = (struct eplb_command){.size = sizeof *command,
                                     .seq = seq,
                                     .prepare_layer_id = EPLB_NO_LAYER,
                                     .update_layer_id = EPLB_NO_LAYER};
}

size_t eplb_command_bytes(const struct eplb_shape *shape)
{
    return EPLB_COMMAND_EXPERT_IDS + (size_t)shape->num_slots * sizeof(int32_t);
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

static enum eplb_status check_update(const struct eplb_shape *shape, const struct eplb_command *command,
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

static enum eplb_status check_command(const struct eplb_shape *shape, const struct eplb_command *command,
                                      struct eplb_error *error)
{
    if (command->seq == 0)
        EPLB_FAIL(EPLB_INVALID, "command of forward 0; forwards are numbered from 1");
    EPLB_TRY(check_prepare(shape, command, error));
    return check_update(shape, command, error);
}

void eplb_command_encode(const struct eplb_shape *shape, const struct eplb_command *command, void *bytes)
{
    EPLB_ASSERT(command->size == sizeof *command);
    EPLB_ASSERT(check_command(shape, command, NULL) == EPLB_OK);
    unsigned char *record = bytes;
    memset(record, 0, eplb_command_bytes(shape));
    eplb_put_u64(record + EPLB_COMMAND_SEQ, command->seq);
    eplb_put_u64(record + EPLB_COMMAND_PREPARE_TOKEN, command->prepare_token.value);
    eplb_put_u64(record + EPLB_COMMAND_BASE_GENERATION, command->base_generation);
    eplb_put_u64(record + EPLB_COMMAND_BASE_HASH, command->base_hash);
    eplb_put_u64(record + EPLB_COMMAND_ACTIVATION_TOKEN, command->activation_token.value);
    eplb_put_u64(record + EPLB_COMMAND_UPDATE_PREPARE_TOKEN, command->update_prepare_token.value);
    eplb_put_u32(record + EPLB_COMMAND_PREPARE_LAYER_ID, (uint32_t)command->prepare_layer_id);
    eplb_put_u32(record + EPLB_COMMAND_UPDATE_LAYER_ID, (uint32_t)command->update_layer_id);
    eplb_put_u32(record + EPLB_COMMAND_NUM_EXPERT_IDS, (uint32_t)command->num_expert_ids);
    unsigned char *table = record + EPLB_COMMAND_EXPERT_IDS;
    for (int32_t slot = 0; slot < command->num_expert_ids; slot++)
        eplb_put_u32(table + (size_t)slot * sizeof(int32_t), (uint32_t)command->expert_ids[slot]);
}

/** Checks that what a record does not use is zero: so every command has one form only. */
static enum eplb_status check_unused(const struct eplb_shape *shape, const unsigned char *record,
                                     const struct eplb_command *command, struct eplb_error *error)
{
    size_t end = eplb_command_bytes(shape);
    size_t used_again = EPLB_COMMAND_EXPERT_IDS + (size_t)command->num_expert_ids * sizeof(int32_t);
    EPLB_ASSERT(used_again <= end);
    for (size_t at = EPLB_COMMAND_RESERVED; at < end; at++) {
        if (at == EPLB_COMMAND_EXPERT_IDS)
            at = used_again;
        if (at < end && record[at] != 0)
            EPLB_FAIL(EPLB_INVALID, "command of forward %llu: byte %zu is %d; it is not used and must be 0",
                      (unsigned long long)command->seq, at, record[at]);
    }
    return EPLB_OK;
}

enum eplb_status eplb_command_decode(const struct eplb_shape *shape, const void *bytes, int32_t *expert_ids,
                                     struct eplb_command *command, struct eplb_error *error)
{
    const unsigned char *record = bytes;
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
    };
    if (decoded.prepare_layer_id != EPLB_NO_LAYER) {
        const unsigned char *table = record + EPLB_COMMAND_EXPERT_IDS;
        for (int32_t slot = 0; slot < shape->num_slots; slot++)
            expert_ids[slot] = eplb_get_i32(table + (size_t)slot * sizeof(int32_t));
        decoded.expert_ids = expert_ids;
    }
    EPLB_TRY(check_command(shape, &decoded, error));
    EPLB_TRY(check_unused(shape, record, &decoded, error));
    *command = decoded;
    return EPLB_OK;
}
