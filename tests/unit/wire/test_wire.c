/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The two records: exact bytes, exact refusals, and a million damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "eplb/wire.h"
#include "wire/bytes.h"
#include "wire/layout.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* A change of these is a change of the interface that hosts were compiled against. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct eplb_command) == 352, "struct eplb_command");
_Static_assert(sizeof(void *) != 8 || sizeof(struct eplb_worker_levels) == 32, "struct eplb_worker_levels");
_Static_assert(sizeof(void *) != 8 || sizeof(struct eplb_worker_output) == 88, "struct eplb_worker_output");

enum { NUM_LAYERS = 3, NUM_SLOTS = 6, SLOTS_PER_RANK = 3, TRIES = 1000000 };
enum {
    UPDATE = 24 + 4 * NUM_SLOTS,
    UPDATES = 72 + 8 * NUM_SLOTS,
    COMMAND = UPDATES + 8 * UPDATE,
    OUTPUT = 176
};

/* Two ranks of two experts and one redundant slot. */
static const int32_t table[NUM_SLOTS] = {0, 1, 2, 2, 3, 0};

static struct eplb_shape make_shape(void)
{
    struct eplb_shape shape;
    assert_int_equal(eplb_shape_init(&shape, NUM_LAYERS, 4, 2, 1, NULL), EPLB_OK);
    assert_int_equal(shape.num_slots, NUM_SLOTS);
    return shape;
}

static struct eplb_command full_command(void)
{
    struct eplb_command command;
    eplb_command_init(&command, 0x0102030405060708);
    command.prepare_layer_id = 2;
    command.prepare_token.value = 0x1122334455667788 % EPLB_MAX_TOKEN;
    command.base_generation = 5;
    command.base_hash = 0xfedcba9876543210;
    command.expert_ids = table;
    command.num_expert_ids = NUM_SLOTS;
    command.update_layer_id = 1;
    command.activation_token.value = EPLB_MAX_TOKEN;
    command.update_prepare_token.value = 7;
    return command;
}

/* Experts 2 and 0 have two replicas. */
static const int32_t weights[2][NUM_SLOTS] = {
    {EPLB_WEIGHT_UNIT - 5, EPLB_WEIGHT_UNIT, EPLB_WEIGHT_UNIT / 2, EPLB_WEIGHT_UNIT / 2, EPLB_WEIGHT_UNIT, 5},
    {1, 2, 3, 4, 5, EPLB_WEIGHT_UNIT},
};

static struct eplb_command weighted_command(void)
{
    struct eplb_command command = full_command();
    command.seq = 9;
    command.prepare_token.value = 8;
    command.replica_weights = weights[0];
    command.num_weight_updates = 2;
    command.weight_updates[0] = (struct eplb_weight_update){2, 6, 3, weights[1]};
    command.weight_updates[1] = (struct eplb_weight_update){0, UINT64_MAX, EPLB_MAX_TOKEN, weights[0]};
    return command;
}

static void assert_same_command(const struct eplb_command *actual, const struct eplb_command *expected)
{
    assert_int_equal(actual->size, sizeof *actual);
    assert_int_equal(actual->seq, expected->seq);
    assert_int_equal(actual->prepare_layer_id, expected->prepare_layer_id);
    assert_int_equal(actual->prepare_token.value, expected->prepare_token.value);
    assert_int_equal(actual->base_generation, expected->base_generation);
    assert_int_equal(actual->base_hash, expected->base_hash);
    assert_int_equal(actual->num_expert_ids, expected->num_expert_ids);
    assert_int_equal(actual->update_layer_id, expected->update_layer_id);
    assert_int_equal(actual->activation_token.value, expected->activation_token.value);
    assert_int_equal(actual->update_prepare_token.value, expected->update_prepare_token.value);
    assert_int_equal(actual->expert_ids == NULL, expected->expert_ids == NULL);
    if (expected->expert_ids != NULL)
        assert_memory_equal(actual->expert_ids, expected->expert_ids, sizeof table);
    assert_int_equal(actual->replica_weights == NULL, expected->replica_weights == NULL);
    if (expected->replica_weights != NULL)
        assert_memory_equal(actual->replica_weights, expected->replica_weights, sizeof weights[0]);
    assert_int_equal(actual->num_weight_updates, expected->num_weight_updates);
    for (int32_t i = 0; i < expected->num_weight_updates; i++) {
        const struct eplb_weight_update *update = &actual->weight_updates[i];
        assert_int_equal(update->layer, expected->weight_updates[i].layer);
        assert_int_equal(update->generation, expected->weight_updates[i].generation);
        assert_int_equal(update->version, expected->weight_updates[i].version);
        assert_memory_equal(update->weights, expected->weight_updates[i].weights, sizeof weights[0]);
    }
}

/* ---- commands ---- */

static void an_empty_command_names_nothing(void **state)
{
    (void)state;
    struct eplb_command command;
    eplb_command_init(&command, 9);
    const struct eplb_command expected = {
        .size = sizeof command, .seq = 9, .prepare_layer_id = -1, .update_layer_id = -1};
    assert_same_command(&command, &expected);
}

static void a_command_has_these_bytes(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape();
    const unsigned char expected[] = {
        8,    7,    6,    5,    4,    3,    2,    1,    /* seq */
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* prepare token */
        5,    0,    0,    0,    0,    0,    0,    0,    /* base generation */
        0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, /* base hash */
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, /* activation token */
        7,    0,    0,    0,    0,    0,    0,    0,    /* prepare that is activated */
        2,    0,    0,    0,    1,    0,    0,    0,    /* layers */
        6,    0,    0,    0,    0,    0,    0,    0,    /* length, replica weights */
        0,    0,    0,    0,    0,    0,    0,    0,    /* weight updates, reserved */
        0,    0,    0,    0,    1,    0,    0,    0,    /* expert ids */
        2,    0,    0,    0,    2,    0,    0,    0,    /* */
        3,    0,    0,    0,    0,    0,    0,    0,
    };
    assert_int_equal(eplb_command_bytes(&shape), COMMAND);
    unsigned char bytes[COMMAND + 1];
    const unsigned char zeros[COMMAND] = {0};
    memset(bytes, 0xee, sizeof bytes);
    struct eplb_command command = full_command();
    eplb_command_encode(&shape, &command, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_memory_equal(bytes + sizeof expected, zeros, COMMAND - sizeof expected);
    assert_int_equal(bytes[COMMAND], 0xee);
}

static void weights_have_these_bytes(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape();
    struct eplb_command command = weighted_command();
    unsigned char bytes[COMMAND];
    eplb_command_encode(&shape, &command, bytes);
    const unsigned char numbers[] = {6, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0};
    assert_memory_equal(bytes + EPLB_COMMAND_NUM_EXPERT_IDS, numbers, sizeof numbers);
    const unsigned char first[] = {0xfb, 0xff, 0x0f, 0, 0, 0, 0x10, 0, 0, 0, 8, 0,
                                   0,    0,    8,    0, 0, 0, 0x10, 0, 5, 0, 0, 0};
    assert_memory_equal(bytes + 72 + 4 * NUM_SLOTS, first, sizeof first);
    const unsigned char update[UPDATE] = {6, 0, 0, 0, 0, 0, 0, 0, /* generation */
                                          3, 0, 0, 0, 0, 0, 0, 0, /* version */
                                          2, 0, 0, 0, 0, 0, 0, 0, /* layer, reserved */
                                          1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0,    0,
                                          4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0x10, 0};
    const unsigned char zeros[COMMAND] = {0};
    assert_memory_equal(bytes + UPDATES, update, sizeof update);
    assert_memory_equal(bytes + UPDATES + 2 * UPDATE, zeros, 6 * UPDATE);
}

static void commands_come_back_from_any_address(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape();
    struct eplb_command commands[6];
    for (size_t i = 0; i < LENGTH(commands); i++)
        commands[i] = full_command();
    eplb_command_init(&commands[1], 1);
    commands[2].prepare_layer_id = EPLB_NO_LAYER;
    commands[2].prepare_token.value = commands[2].base_generation = commands[2].base_hash = 0;
    commands[2].expert_ids = NULL;
    commands[2].num_expert_ids = 0;
    commands[3].update_layer_id = EPLB_NO_LAYER;
    commands[3].activation_token.value = commands[3].update_prepare_token.value = 0;
    commands[4] = weighted_command();
    commands[5] = commands[2];
    commands[5].num_weight_updates = EPLB_MAX_WEIGHT_UPDATES - 6;
    for (int32_t i = 0; i < commands[5].num_weight_updates; i++)
        commands[5].weight_updates[i] = (struct eplb_weight_update){2 * i, 0, 1, weights[1]};
    for (size_t i = 0; i < LENGTH(commands); i++) {
        unsigned char bytes[COMMAND + 8];
        int32_t room[EPLB_COMMAND_ROWS * NUM_SLOTS];
        struct eplb_command decoded;
        memset(bytes, 0xee, sizeof bytes);
        eplb_command_encode(&shape, &commands[i], bytes + i);
        assert_int_equal(eplb_command_decode(&shape, bytes + i, room, &decoded, NULL), EPLB_OK);
        assert_same_command(&decoded, &commands[i]);
    }
}

struct damage {
    int offset;
    int bytes; /* 4 or 8 */
    uint64_t value;
    const char *text;
};

static void apply(const struct damage *damage, unsigned char *record)
{
    if (damage->bytes == 8)
        eplb_put_u64(record + damage->offset, damage->value);
    else
        eplb_put_u32(record + damage->offset, (uint32_t)damage->value);
}

#define MINUS_1 UINT32_MAX
#define FORWARD_9 "command of forward 9: "

static void refuse_commands(const struct eplb_command *good, const struct damage *damages, size_t count)
{
    struct eplb_shape shape = make_shape();
    for (size_t i = 0; i < count; i++) {
        unsigned char record[COMMAND];
        int32_t room[EPLB_COMMAND_ROWS * NUM_SLOTS];
        struct eplb_command untouched = {.seq = 99};
        struct eplb_error error;
        eplb_command_encode(&shape, good, record);
        apply(&damages[i], record);
        assert_int_equal(eplb_command_decode(&shape, record, room, &untouched, &error), EPLB_INVALID);
        assert_string_equal(error.text, damages[i].text);
        assert_int_equal(untouched.seq, 99);
    }
}

static void full_commands_are_refused_with_a_sentence(void **state)
{
    (void)state;
    struct eplb_command good = full_command();
    good.seq = 9;
    good.prepare_token.value = 8;
    const struct damage damages[] = {
        {EPLB_COMMAND_SEQ, 8, 0, "command of forward 0; forwards are numbered from 1"},
        {EPLB_COMMAND_PREPARE_LAYER_ID, 4, 3, FORWARD_9 "prepare layer 3; allowed is -1 (none) or 0 to 2"},
        {EPLB_COMMAND_PREPARE_LAYER_ID, 4, (uint32_t)-2,
         FORWARD_9 "prepare layer -2; allowed is -1 (none) or 0 to 2"},
        {EPLB_COMMAND_PREPARE_LAYER_ID, 4, MINUS_1, FORWARD_9 "prepare token 8 without a layer"},
        {EPLB_COMMAND_PREPARE_TOKEN, 8, 0,
         FORWARD_9 "prepare token 0 for layer 2; allowed is 1 to 4611686018427387903"},
        {EPLB_COMMAND_PREPARE_TOKEN, 8, EPLB_MAX_TOKEN + 1,
         FORWARD_9 "prepare token 4611686018427387904 for layer 2; allowed is 1 to 4611686018427387903"},
        {EPLB_COMMAND_PREPARE_TOKEN, 8, 7,
         FORWARD_9 "prepare token 7 is both begun for layer 2 and activated for layer 1"},
        {EPLB_COMMAND_PREPARE_LAYER_ID, 4, 1, FORWARD_9 "layer 1 is both prepared and activated"},
        {EPLB_COMMAND_UPDATE_LAYER_ID, 4, INT32_MAX,
         FORWARD_9 "activation layer 2147483647; allowed is -1 (none) or 0 to 2"},
        {EPLB_COMMAND_UPDATE_LAYER_ID, 4, MINUS_1,
         FORWARD_9 "activation token 4611686018427387903 without a layer"},
        {EPLB_COMMAND_ACTIVATION_TOKEN, 8, 0,
         FORWARD_9 "activation token 0 for layer 1; allowed is 1 to 4611686018427387903"},
        {EPLB_COMMAND_UPDATE_PREPARE_TOKEN, 8, 0,
         FORWARD_9 "activated prepare token 0 for layer 1; allowed is 1 to 4611686018427387903"},
        {EPLB_COMMAND_NUM_EXPERT_IDS, 4, 5, FORWARD_9 "a table of 5 expert ids; prepare layer 2 needs 6"},
        {EPLB_COMMAND_NUM_EXPERT_IDS, 4, MINUS_1,
         FORWARD_9 "a table of -1 expert ids; prepare layer 2 needs 6"},
        {EPLB_COMMAND_RESERVED, 4, 1, FORWARD_9 "byte 68 is 1; it is not used and must be 0"},
        {EPLB_COMMAND_EXPERT_IDS, 4, 4,
         FORWARD_9 "the table for layer 2 is not legal: rank 0 slot 0 holds expert 4; allowed is 0 to 3"},
        {EPLB_COMMAND_EXPERT_IDS + 20, 4, MINUS_1,
         FORWARD_9 "the table for layer 2 is not legal: rank 1 slot 2 holds expert -1; allowed is 0 to 3"},
        {EPLB_COMMAND_EXPERT_IDS + 4, 4, 2,
         FORWARD_9 "the table for layer 2 is not legal: rank 0 slot 2 repeats expert 2; a rank may hold an "
                   "expert once"},
        {EPLB_COMMAND_EXPERT_IDS + 16, 4, 1,
         FORWARD_9 "the table for layer 2 is not legal: expert 3 is on no rank; every one of the 4 experts "
                   "needs a slot"},
    };
    refuse_commands(&good, damages, LENGTH(damages));
}

static void empty_commands_are_refused_with_a_sentence(void **state)
{
    (void)state;
    struct eplb_command good;
    eplb_command_init(&good, 9);
    const struct damage damages[] = {
        {EPLB_COMMAND_PREPARE_TOKEN, 8, 3, FORWARD_9 "prepare token 3 without a layer"},
        {EPLB_COMMAND_ACTIVATION_TOKEN, 8, 4, FORWARD_9 "activation token 4 without a layer"},
        {EPLB_COMMAND_UPDATE_PREPARE_TOKEN, 8, 5, FORWARD_9 "activated prepare token 5 without a layer"},
        {EPLB_COMMAND_BASE_GENERATION, 8, 6, FORWARD_9 "base generation 6 and hash 0 without a prepare"},
        {EPLB_COMMAND_BASE_HASH, 8, 7, FORWARD_9 "base generation 0 and hash 7 without a prepare"},
        {EPLB_COMMAND_NUM_EXPERT_IDS, 4, 6, FORWARD_9 "a table of 6 expert ids; prepare layer -1 needs 0"},
        {EPLB_COMMAND_EXPERT_IDS, 4, 0x100, FORWARD_9 "byte 73 is 1; it is not used and must be 0"},
        {EPLB_COMMAND_EXPERT_IDS + 20, 4, 0xff000000,
         FORWARD_9 "byte 95 is 255; it is not used and must be 0"},
        {72 + 4 * NUM_SLOTS, 4, 1, FORWARD_9 "byte 96 is 1; it is not used and must be 0"},
        {UPDATES, 4, 1, FORWARD_9 "byte 120 is 1; it is not used and must be 0"},
        {COMMAND - 4, 4, 0x1000000, FORWARD_9 "byte 503 is 1; it is not used and must be 0"},
        {EPLB_COMMAND_NUM_REPLICA_WEIGHTS, 4, 6,
         FORWARD_9 "6 replica weights for a table of 0 expert ids; allowed is 0 or as many"},
        {EPLB_COMMAND_NUM_WEIGHT_UPDATES, 4, 9, FORWARD_9 "9 weight updates; allowed is 0 to 8"},
        {EPLB_COMMAND_NUM_WEIGHT_UPDATES, 4, MINUS_1, FORWARD_9 "-1 weight updates; allowed is 0 to 8"},
    };
    refuse_commands(&good, damages, LENGTH(damages));
}

static void weights_are_refused_with_a_sentence(void **state)
{
    (void)state;
    struct eplb_command good = weighted_command();
    const int first = 72 + 4 * NUM_SLOTS;
    const int second = UPDATES + UPDATE;
    const struct damage damages[] = {
        {EPLB_COMMAND_NUM_REPLICA_WEIGHTS, 4, 5,
         FORWARD_9 "5 replica weights for a table of 6 expert ids; allowed is 0 or as many"},
        {EPLB_COMMAND_NUM_REPLICA_WEIGHTS, 4, 0, FORWARD_9 "byte 96 is 251; it is not used and must be 0"},
        {first, 4, 0,
         FORWARD_9
         "the weights for the table of layer 2: rank 0 slot 0: weight 0 of expert 0; allowed is 1 to "
         "1048576 (its weights add up to 1048576)"},
        {first + 20, 4, 4,
         FORWARD_9
         "the weights for the table of layer 2: the weights of expert 0 add up to 1048575; they must "
         "add up to 1048576"},
        {UPDATES + EPLB_UPDATE_LAYER, 4, 3, FORWARD_9 "weight update 0 is for layer 3; allowed is 0 to 2"},
        {second + EPLB_UPDATE_LAYER, 4, MINUS_1,
         FORWARD_9 "weight update 1 is for layer -1; allowed is 0 to 2"},
        {UPDATES + EPLB_UPDATE_LAYER, 4, 1, FORWARD_9 "layer 1 is activated and gets weights"},
        {second + EPLB_UPDATE_LAYER, 4, 2, FORWARD_9 "layer 2 gets weights twice"},
        {UPDATES + EPLB_UPDATE_VERSION, 8, 0,
         FORWARD_9 "weights of version 0 for layer 2; allowed is 1 to 4611686018427387903"},
        {second + EPLB_UPDATE_VERSION, 8, EPLB_MAX_TOKEN + 1,
         FORWARD_9 "weights of version 4611686018427387904 for layer 0; allowed is 1 to 4611686018427387903"},
        {UPDATES + EPLB_UPDATE_RESERVED, 4, 7, FORWARD_9 "byte 140 is 7; it is not used and must be 0"},
        {UPDATES + EPLB_UPDATE_WEIGHTS, 4, 0,
         FORWARD_9 "the weight of slot 0 of layer 2 is 0; allowed is 1 to 1048576"},
        {second + EPLB_UPDATE_WEIGHTS + 20, 4, EPLB_WEIGHT_UNIT + 1,
         FORWARD_9 "the weight of slot 5 of layer 0 is 1048577; allowed is 1 to 1048576"},
        {EPLB_COMMAND_NUM_WEIGHT_UPDATES, 4, 1, FORWARD_9 "byte 168 is 255; it is not used and must be 0"},
        {EPLB_COMMAND_NUM_WEIGHT_UPDATES, 4, 3, FORWARD_9 "layer 0 gets weights twice"},
    };
    refuse_commands(&good, damages, LENGTH(damages));
}

/* ---- outputs ---- */

static const int64_t counts[NUM_LAYERS * SLOTS_PER_RANK] = {1, 2, 3, 0, 0, INT64_MAX, -1, 5, 4};
static const uint64_t generations[NUM_LAYERS] = {0, 7, UINT64_MAX};
static const uint64_t versions[NUM_LAYERS] = {3, 0, UINT64_MAX - 1};

static struct eplb_worker_output full_output(void)
{
    return (struct eplb_worker_output){.size = sizeof(struct eplb_worker_output),
                                       .seq = 9,
                                       .ep_rank = 1,
                                       .num_layers = NUM_LAYERS,
                                       .slots_per_rank = SLOTS_PER_RANK,
                                       .prefix = counts,
                                       .generations = generations,
                                       .weight_versions = versions,
                                       .levels = {.prepare_token = {0x0807060504030201},
                                                  .prepare_status = EPLB_PREPARE_FAILED,
                                                  .prepare_reason = EPLB_REASON_HOOK_FAILED,
                                                  .activation_token = {3},
                                                  .activation_outcome = EPLB_ACTIVATION_KEPT,
                                                  .activation_reason = EPLB_REASON_STORAGE_CHANGED}};
}

static void an_output_has_these_bytes(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape();
    const unsigned char expected[] = {
        9,    0,    0,    0,    0,    0,    0,    0,    /* seq */
        1,    2,    3,    4,    5,    6,    7,    8,    /* prepare token */
        3,    0,    0,    0,    0,    0,    0,    0,    /* activation token */
        1,    0,    0,    0,    3,    0,    0,    0,    /* rank, layers */
        3,    0,    0,    0,    3,    0,    0,    0,    /* slots, prepare status */
        6,    0,    0,    0,    2,    0,    0,    0,    /* reason, activation outcome */
        13,   0,    0,    0,    0,    0,    0,    0,    /* reason, reserved */
        0,    0,    0,    0,    0,    0,    0,    0,    /* generations */
        7,    0,    0,    0,    0,    0,    0,    0,    /* */
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* */
        3,    0,    0,    0,    0,    0,    0,    0,    /* weight versions */
        0,    0,    0,    0,    0,    0,    0,    0,    /* */
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* */
        1,    0,    0,    0,    0,    0,    0,    0,    /* prefix sums */
        2,    0,    0,    0,    0,    0,    0,    0,    /* */
        3,    0,    0,    0,    0,    0,    0,    0,    /* */
        0,    0,    0,    0,    0,    0,    0,    0,    /* */
        0,    0,    0,    0,    0,    0,    0,    0,    /* */
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, /* */
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* */
        5,    0,    0,    0,    0,    0,    0,    0,    /* */
        4,    0,    0,    0,    0,    0,    0,    0,
    };
    assert_int_equal(eplb_worker_output_bytes(&shape), sizeof expected);
    assert_int_equal(sizeof expected, OUTPUT);
    unsigned char bytes[OUTPUT + 1];
    memset(bytes, 0xee, sizeof bytes);
    struct eplb_worker_output output = full_output();
    eplb_worker_output_encode(&shape, &output, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_int_equal(bytes[OUTPUT], 0xee);
}

static void assert_same_output(const struct eplb_worker_output *actual,
                               const struct eplb_worker_output *expected)
{
    assert_int_equal(actual->size, sizeof *actual);
    assert_int_equal(actual->seq, expected->seq);
    assert_int_equal(actual->ep_rank, expected->ep_rank);
    assert_int_equal(actual->num_layers, expected->num_layers);
    assert_int_equal(actual->slots_per_rank, expected->slots_per_rank);
    assert_memory_equal(actual->prefix, expected->prefix, sizeof counts);
    assert_memory_equal(actual->generations, expected->generations, sizeof generations);
    for (int32_t layer = 0; layer < NUM_LAYERS; layer++)
        assert_int_equal(actual->weight_versions[layer],
                         expected->weight_versions == NULL ? 0 : expected->weight_versions[layer]);
    const struct eplb_worker_levels *levels = &actual->levels;
    assert_int_equal(levels->prepare_token.value, expected->levels.prepare_token.value);
    assert_int_equal(levels->prepare_status, expected->levels.prepare_status);
    assert_int_equal(levels->prepare_reason, expected->levels.prepare_reason);
    assert_int_equal(levels->activation_token.value, expected->levels.activation_token.value);
    assert_int_equal(levels->activation_outcome, expected->levels.activation_outcome);
    assert_int_equal(levels->activation_reason, expected->levels.activation_reason);
}

static void outputs_come_back_from_any_address(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape();
    struct eplb_worker_output outputs[3] = {full_output(), full_output(), full_output()};
    outputs[1].levels = (struct eplb_worker_levels){.prepare_token = {0}};
    outputs[1].weight_versions = NULL;
    outputs[2].levels.prepare_status = EPLB_PREPARE_RUNNING;
    outputs[2].levels.prepare_reason = EPLB_REASON_NONE;
    outputs[2].levels.activation_outcome = EPLB_ACTIVATION_SWITCHED;
    outputs[2].levels.activation_reason = EPLB_REASON_NONE;
    for (size_t i = 0; i < LENGTH(outputs); i++) {
        unsigned char bytes[OUTPUT + 8];
        int64_t prefix[NUM_LAYERS * SLOTS_PER_RANK];
        uint64_t ran_under[NUM_LAYERS];
        uint64_t by_weights[NUM_LAYERS];
        struct eplb_worker_output decoded;
        eplb_worker_output_encode(&shape, &outputs[i], bytes + 2 * i + 1);
        assert_int_equal(eplb_worker_output_decode(&shape, bytes + 2 * i + 1, prefix, ran_under, by_weights,
                                                   &decoded, NULL),
                         EPLB_OK);
        assert_ptr_equal(decoded.prefix, prefix);
        assert_ptr_equal(decoded.generations, ran_under);
        assert_same_output(&decoded, &outputs[i]);
    }
}

#define OF_RANK_1 "output of rank 1 for forward 9: "

static void outputs_are_refused_with_a_sentence(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape();
    const struct damage damages[] = {
        {EPLB_OUTPUT_SEQ, 8, 0, "output of rank 1 for forward 0; forwards are numbered from 1"},
        {EPLB_OUTPUT_EP_RANK, 4, 2, "output of rank 2 for forward 9; allowed is rank 0 to 1"},
        {EPLB_OUTPUT_EP_RANK, 4, MINUS_1, "output of rank -1 for forward 9; allowed is rank 0 to 1"},
        {EPLB_OUTPUT_NUM_LAYERS, 4, 4,
         OF_RANK_1 "counts of 4 layers with 3 slots each; this run has 3 layers with 3 slots"},
        {EPLB_OUTPUT_SLOTS_PER_RANK, 4, MINUS_1,
         OF_RANK_1 "counts of 3 layers with -1 slots each; this run has 3 layers with 3 slots"},
        {EPLB_OUTPUT_PREPARE_STATUS, 4, 4, OF_RANK_1 "prepare status 4; allowed is 0 to 3"},
        {EPLB_OUTPUT_PREPARE_STATUS, 4, 0,
         OF_RANK_1 "prepare token 578437695752307201 with status 0; both are 0 or none is"},
        {EPLB_OUTPUT_PREPARE_STATUS, 4, 2,
         OF_RANK_1 "prepare status 2 with reason 6 (a model hook failed); exactly status 3 has one"},
        {EPLB_OUTPUT_PREPARE_TOKEN, 8, 0, OF_RANK_1 "prepare token 0 with status 3; both are 0 or none is"},
        {EPLB_OUTPUT_PREPARE_TOKEN, 8, UINT64_MAX,
         OF_RANK_1 "prepare token 18446744073709551615; allowed is 0 to 4611686018427387903"},
        {EPLB_OUTPUT_PREPARE_REASON, 4, 11, OF_RANK_1 "prepare reason 11 is not known"},
        {EPLB_OUTPUT_PREPARE_REASON, 4, 15, OF_RANK_1 "prepare reason 15 is not known"},
        {EPLB_OUTPUT_PREPARE_REASON, 4, 0,
         OF_RANK_1 "prepare status 3 with reason 0 (none); exactly status 3 has one"},
        {EPLB_OUTPUT_ACTIVATION_OUTCOME, 4, MINUS_1,
         OF_RANK_1 "activation outcome 4294967295; allowed is 0 to 2"},
        {EPLB_OUTPUT_ACTIVATION_OUTCOME, 4, 1,
         OF_RANK_1 "activation outcome 1 with reason 13 (a registered tensor moved or changed its size); "
                   "exactly outcome 2 has one"},
        {EPLB_OUTPUT_ACTIVATION_TOKEN, 8, 0,
         OF_RANK_1 "activation token 0 with outcome 2; both are 0 or none is"},
        {EPLB_OUTPUT_ACTIVATION_REASON, 4, MINUS_1, OF_RANK_1 "activation reason 4294967295 is not known"},
        {EPLB_OUTPUT_RESERVED, 4, 3, OF_RANK_1 "the reserved word is 3; it must be 0"},
    };
    for (size_t i = 0; i < LENGTH(damages); i++) {
        unsigned char record[OUTPUT];
        int64_t prefix[NUM_LAYERS * SLOTS_PER_RANK] = {99};
        uint64_t ran_under[NUM_LAYERS] = {99};
        uint64_t by_weights[NUM_LAYERS] = {99};
        struct eplb_worker_output untouched = {.seq = 99};
        struct eplb_worker_output good = full_output();
        struct eplb_error error;
        eplb_worker_output_encode(&shape, &good, record);
        apply(&damages[i], record);
        assert_int_equal(
            eplb_worker_output_decode(&shape, record, prefix, ran_under, by_weights, &untouched, &error),
            EPLB_INVALID);
        assert_string_equal(error.text, damages[i].text);
        assert_int_equal(untouched.seq, 99);
        assert_int_equal(prefix[0], 99);
        assert_int_equal(ran_under[0], 99);
        assert_int_equal(by_weights[0], 99);
    }
}

/* ---- reasons ---- */

static void reasons_have_texts(void **state)
{
    (void)state;
    assert_string_equal(eplb_reason_text(EPLB_REASON_NONE), "none");
    assert_string_equal(eplb_reason_text(EPLB_REASON_DEADLINE), "the transfer timeout passed");
    assert_string_equal(eplb_reason_text((enum eplb_reason)11), "unknown reason");
    assert_string_equal(eplb_reason_text((enum eplb_reason)15), "unknown reason");
}

/* ---- hostile records ---- */

static void scramble(struct eplb_prng *prng, unsigned char *record, size_t size)
{
    if (eplb_prng_below(prng, 8) == 0) {
        for (size_t i = 0; i < size; i++)
            record[i] = (unsigned char)eplb_prng_next(prng);
        return;
    }
    for (uint64_t edits = 1 + eplb_prng_below(prng, 4); edits > 0; edits--) {
        size_t word = eplb_prng_below(prng, size / 4);
        uint32_t value = (uint32_t)eplb_prng_next(prng);
        /* Mostly values near the legal ones, which get furthest. */
        if (eplb_prng_below(prng, 4) != 0)
            value = value % 10 - 2;
        eplb_put_u32(record + 4 * word, value);
    }
}

/* A record is refused, or it is the one record of the command that was read from it. */
static void damaged_commands_are_refused_or_exact(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape();
    struct eplb_prng prng;
    uint64_t seed = 20240607;
    print_message("seed %llu\n", (unsigned long long)seed);
    eplb_prng_seed(&prng, seed);
    struct eplb_command good[] = {full_command(), weighted_command()};
    size_t size = eplb_command_bytes(&shape);
    int taken = 0;
    for (int i = 0; i < TRIES; i++) {
        unsigned char record[COMMAND];
        unsigned char again[COMMAND];
        int32_t room[EPLB_COMMAND_ROWS * NUM_SLOTS];
        struct eplb_command command;
        eplb_command_encode(&shape, &good[i % 2], record);
        scramble(&prng, record, size);
        if (eplb_command_decode(&shape, record, room, &command, NULL) != EPLB_OK)
            continue;
        eplb_command_encode(&shape, &command, again);
        assert_memory_equal(record, again, size);
        taken++;
    }
    /* Both ends must have been reached, or the test says nothing. */
    assert_in_range(taken, TRIES / 100, TRIES - TRIES / 10);
}

static void damaged_outputs_are_refused_or_exact(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape();
    struct eplb_prng prng;
    uint64_t seed = 20240608;
    print_message("seed %llu\n", (unsigned long long)seed);
    eplb_prng_seed(&prng, seed);
    struct eplb_worker_output good = full_output();
    int taken = 0;
    for (int i = 0; i < TRIES; i++) {
        unsigned char record[OUTPUT];
        unsigned char again[OUTPUT];
        int64_t prefix[NUM_LAYERS * SLOTS_PER_RANK];
        uint64_t ran_under[NUM_LAYERS];
        uint64_t by_weights[NUM_LAYERS];
        struct eplb_worker_output output;
        eplb_worker_output_encode(&shape, &good, record);
        scramble(&prng, record, OUTPUT);
        if (eplb_worker_output_decode(&shape, record, prefix, ran_under, by_weights, &output, NULL) !=
            EPLB_OK)
            continue;
        eplb_worker_output_encode(&shape, &output, again);
        assert_memory_equal(record, again, OUTPUT);
        taken++;
    }
    assert_in_range(taken, TRIES / 100, TRIES - TRIES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_command_names_nothing),
        cmocka_unit_test(a_command_has_these_bytes),
        cmocka_unit_test(weights_have_these_bytes),
        cmocka_unit_test(commands_come_back_from_any_address),
        cmocka_unit_test(full_commands_are_refused_with_a_sentence),
        cmocka_unit_test(empty_commands_are_refused_with_a_sentence),
        cmocka_unit_test(weights_are_refused_with_a_sentence),
        cmocka_unit_test(an_output_has_these_bytes),
        cmocka_unit_test(outputs_come_back_from_any_address),
        cmocka_unit_test(outputs_are_refused_with_a_sentence),
        cmocka_unit_test(reasons_have_texts),
        cmocka_unit_test(damaged_commands_are_refused_or_exact),
        cmocka_unit_test(damaged_outputs_are_refused_or_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
