/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Input and result of a forward: exact bytes, exact refusals, and many damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "engine/layout.h"
#include "engine/records.h"
#include "wire/bytes.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { MAX_ROWS = 12, NUM_LAYERS = 3, TRIES = 300000, ROOM = 1024 };

static void seed_printed(struct eplb_prng *prng, uint64_t seed)
{
    print_message("seed %llu\n", (unsigned long long)seed);
    eplb_prng_seed(prng, seed);
}

/** Puts a 32-bit word; mostly values near the legal ones, which get furthest. */
static void scramble(struct eplb_prng *prng, unsigned char *record, size_t size)
{
    if (eplb_prng_below(prng, 8) == 0) {
        for (size_t i = 0; i < size; i++)
            record[i] = (unsigned char)eplb_prng_next(prng);
        return;
    }
    for (uint64_t edits = 1 + eplb_prng_below(prng, 3); edits > 0; edits--) {
        uint32_t value = (uint32_t)eplb_prng_next(prng);
        if (eplb_prng_below(prng, 4) != 0)
            value = value % 10 - 2;
        if (eplb_prng_below(prng, 2) == 0)
            eplb_put_u32(record + 4 * eplb_prng_below(prng, size / 4), value);
        else
            record[eplb_prng_below(prng, size)] = (unsigned char)value;
    }
}

/* ---- input ---- */

static void random_rows(struct eplb_prng *prng, struct eplb_model_row *rows, int32_t num_rows)
{
    for (int32_t i = 0; i < num_rows; i++)
        rows[i] = (struct eplb_model_row){.sequence = eplb_prng_next(prng),
                                          .cache = (int32_t)(uint32_t)eplb_prng_next(prng),
                                          .position = (int32_t)(uint32_t)eplb_prng_next(prng),
                                          .token = (int32_t)(uint32_t)eplb_prng_next(prng),
                                          .kind = (uint8_t)eplb_prng_below(prng, 3),
                                          .sample = (uint8_t)eplb_prng_below(prng, 2)};
}

static void assert_rows_equal(const struct eplb_model_row *a, const struct eplb_model_row *b,
                              int32_t num_rows)
{
    for (int32_t i = 0; i < num_rows; i++) {
        assert_int_equal(a[i].sequence, b[i].sequence);
        assert_int_equal(a[i].cache, b[i].cache);
        assert_int_equal(a[i].position, b[i].position);
        assert_int_equal(a[i].token, b[i].token);
        assert_int_equal(a[i].kind, b[i].kind);
        assert_int_equal(a[i].sample, b[i].sample);
    }
}

static const struct eplb_model_row example_rows[2] = {
    {.sequence = 0x0102030405060708,
     .cache = 3,
     .position = 0x11223344,
     .token = 255,
     .kind = EPLB_TOKEN_PREFILL,
     .sample = 0},
    {.sequence = 9,
     .cache = 4,
     .position = 17,
     .token = EPLB_SAMPLED_TOKEN,
     .kind = EPLB_TOKEN_DECODE,
     .sample = 1},
};

static void an_input_has_these_bytes(void **state)
{
    (void)state;
    static const unsigned char expected[56] = {
        1,    0,    0,    0,    2,    0,    0,    0, /* head */
        8,    7,    6,    5,    4,    3,    2,    1,    3, 0, 0, 0,
        0x44, 0x33, 0x22, 0x11, 255,  0,    0,    0,    1, 0, 0, 0, /* row */
        9,    0,    0,    0,    0,    0,    0,    0,    4, 0, 0, 0,
        17,   0,    0,    0,    0xff, 0xff, 0xff, 0xff, 2, 1, 0, 0, /* row */
    };
    unsigned char record[ROOM];
    memset(record, 0xa5, sizeof record);
    assert_int_equal(eplb_input_bytes(2), 56);
    assert_int_equal(eplb_input_bytes(0), 8);
    assert_int_equal(eplb_input_encode(EPLB_FORWARD_WARMUP, example_rows, 2, record), 56);
    assert_memory_equal(record, expected, sizeof expected);
    assert_int_equal(record[56], 0xa5);
}

static void inputs_come_back_from_any_address(void **state)
{
    (void)state;
    struct eplb_prng prng;
    seed_printed(&prng, 20240701);
    for (int32_t num_rows = 0; num_rows <= MAX_ROWS; num_rows++)
        for (size_t offset = 0; offset < 9; offset++) {
            unsigned char record[ROOM];
            struct eplb_model_row rows[MAX_ROWS];
            struct eplb_model_row decoded[MAX_ROWS];
            unsigned flags = 99;
            int32_t num_decoded = -1;
            random_rows(&prng, rows, num_rows);
            unsigned sent = offset % 2;
            size_t size = eplb_input_encode(sent, rows, num_rows, record + offset);
            assert_int_equal(size, eplb_input_bytes(num_rows));
            assert_int_equal(
                eplb_input_decode(record + offset, size, MAX_ROWS, &flags, decoded, &num_decoded, NULL),
                EPLB_OK);
            assert_int_equal(flags, sent);
            assert_int_equal(num_decoded, num_rows);
            assert_rows_equal(decoded, rows, num_rows);
        }
}

/** What is put where, and the sentence. */
struct damage {
    size_t offset;
    size_t bytes;
    uint64_t value;
    const char *text;
};

static void apply(const struct damage *damage, unsigned char *record)
{
    for (size_t i = 0; i < damage->bytes; i++)
        record[damage->offset + i] = (unsigned char)(damage->value >> (8 * i));
}

#define MINUS_1 UINT64_MAX

static void inputs_are_refused_with_a_sentence(void **state)
{
    (void)state;
    const size_t row_1 = EPLB_INPUT_ROWS + EPLB_INPUT_ROW_BYTES;
    const struct damage damages[] = {
        {EPLB_INPUT_FLAGS, 4, 2, "input of a forward: flags 2; allowed is 0 or 1 (warm-up)"},
        {EPLB_INPUT_NUM_ROWS, 4, MINUS_1, "input of a forward: -1 rows; allowed is 0 to 12"},
        {EPLB_INPUT_NUM_ROWS, 4, 13, "input of a forward: 13 rows; allowed is 0 to 12"},
        {EPLB_INPUT_NUM_ROWS, 4, 1, "input of a forward: 56 bytes; 1 rows need 32"},
        {row_1 + EPLB_INPUT_ROW_KIND, 1, 3, "input of a forward: row 1 is of kind 3; allowed is 0 to 2"},
        {row_1 + EPLB_INPUT_ROW_SAMPLE, 1, 2, "input of a forward: sample of row 1 is 2; allowed is 0 or 1"},
        {row_1 + EPLB_INPUT_ROW_RESERVED + 1, 1, 7,
         "input of a forward: byte 23 of row 1 is 7; it is not used and must be 0"},
    };
    for (size_t i = 0; i < LENGTH(damages); i++) {
        unsigned char record[ROOM];
        struct eplb_model_row rows[MAX_ROWS] = {{.sequence = 99}};
        unsigned flags = 99;
        int32_t num_rows = 99;
        struct eplb_error error;
        size_t size = eplb_input_encode(0, example_rows, 2, record);
        apply(&damages[i], record);
        assert_int_equal(eplb_input_decode(record, size, MAX_ROWS, &flags, rows, &num_rows, &error),
                         EPLB_INVALID);
        assert_string_equal(error.text, damages[i].text);
        assert_int_equal(flags, 99);
        assert_int_equal(num_rows, 99);
        assert_int_equal(rows[0].sequence, 99);
    }
}

/* The copy has exactly the given size, so that a sanitizer sees a byte too far. */
static enum eplb_status decode_input_of(const unsigned char *record, size_t size, struct eplb_error *error)
{
    struct eplb_model_row rows[MAX_ROWS];
    unsigned flags;
    int32_t num_rows;
    unsigned char *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    memcpy(copy, record, size);
    enum eplb_status status = eplb_input_decode(copy, size, MAX_ROWS, &flags, rows, &num_rows, error);
    free(copy);
    return status;
}

static void inputs_of_another_length_are_refused(void **state)
{
    (void)state;
    struct eplb_error error;
    unsigned char record[ROOM] = {0};
    size_t size = eplb_input_encode(0, example_rows, 2, record);
    for (size_t length = 0; length < size + 30; length++)
        assert_int_equal(decode_input_of(record, length, NULL), length == size ? EPLB_OK : EPLB_INVALID);
    assert_int_equal(decode_input_of(record, 7, &error), EPLB_INVALID);
    assert_string_equal(error.text, "input of a forward: 7 bytes; at least 8 are needed");
    assert_int_equal(decode_input_of(record, 55, &error), EPLB_INVALID);
    assert_string_equal(error.text, "input of a forward: 55 bytes; 2 rows need 56");
}

/* A record is refused, or it is the one record of the input that was read from it. */
static void damaged_inputs_are_refused_or_exact(void **state)
{
    (void)state;
    struct eplb_prng prng;
    int taken = 0;
    seed_printed(&prng, 20240702);
    for (int i = 0; i < TRIES; i++) {
        unsigned char record[ROOM];
        unsigned char again[ROOM];
        struct eplb_model_row rows[MAX_ROWS];
        unsigned flags;
        int32_t num_rows = (int32_t)eplb_prng_below(&prng, MAX_ROWS + 1);
        random_rows(&prng, rows, num_rows);
        size_t size = eplb_input_encode((unsigned)eplb_prng_below(&prng, 2), rows, num_rows, record);
        scramble(&prng, record, size);
        if (eplb_input_decode(record, size, MAX_ROWS, &flags, rows, &num_rows, NULL) != EPLB_OK)
            continue;
        taken++;
        assert_in_range(num_rows, 0, MAX_ROWS);
        assert_int_equal(eplb_input_encode(flags, rows, num_rows, again), size);
        assert_memory_equal(again, record, size);
    }
    assert_in_range(taken, TRIES / 10, TRIES / 10 * 9);
}

/* ---- result ---- */

/** A result with its rooms. */
struct room {
    struct eplb_model_sample samples[MAX_ROWS];
    struct eplb_moe_work work[NUM_LAYERS];
    struct eplb_result result;
};

static void room_init(struct room *room)
{
    memset(room, 0, sizeof *room);
    room->result.samples = room->samples;
    room->result.work = room->work;
    room->result.num_samples = 99;
    room->samples[0].sequence = 99;
    room->work[0].rows = 99;
    room->result.slots_checked = 99;
}

static int64_t random_positive(struct eplb_prng *prng)
{
    return (int64_t)(eplb_prng_next(prng) >> (1 + eplb_prng_below(prng, 63)));
}

static void random_result(struct eplb_prng *prng, struct room *room)
{
    room_init(room);
    room->result.num_samples = (int32_t)eplb_prng_below(prng, MAX_ROWS + 1);
    room->result.step_ns = random_positive(prng);
    room->result.switch_ns = (int64_t)(eplb_prng_next(prng) % ((uint64_t)room->result.step_ns + 1));
    room->result.slots_checked = eplb_prng_next(prng);
    for (int32_t i = 0; i < room->result.num_samples; i++)
        room->samples[i] = (struct eplb_model_sample){.sequence = eplb_prng_next(prng),
                                                      .position = (int32_t)(eplb_prng_next(prng) >> 33),
                                                      .token = (int32_t)(eplb_prng_next(prng) >> 33),
                                                      .digest = eplb_prng_next(prng)};
    for (int32_t layer = 0; layer < NUM_LAYERS; layer++)
        room->work[layer] = (struct eplb_moe_work){.rows = random_positive(prng),
                                                   .cpu_ns = random_positive(prng),
                                                   .route_ns = random_positive(prng)};
}

static void assert_results_equal(const struct eplb_result *a, const struct eplb_result *b)
{
    assert_int_equal(a->num_samples, b->num_samples);
    assert_int_equal(a->step_ns, b->step_ns);
    assert_int_equal(a->switch_ns, b->switch_ns);
    assert_int_equal(a->slots_checked, b->slots_checked);
    for (int32_t i = 0; i < a->num_samples; i++) {
        assert_int_equal(a->samples[i].sequence, b->samples[i].sequence);
        assert_int_equal(a->samples[i].position, b->samples[i].position);
        assert_int_equal(a->samples[i].token, b->samples[i].token);
        assert_int_equal(a->samples[i].digest, b->samples[i].digest);
    }
    for (int32_t layer = 0; layer < NUM_LAYERS; layer++) {
        assert_int_equal(a->work[layer].rows, b->work[layer].rows);
        assert_int_equal(a->work[layer].cpu_ns, b->work[layer].cpu_ns);
        assert_int_equal(a->work[layer].route_ns, b->work[layer].route_ns);
    }
}

static void example_result(struct room *room)
{
    room_init(room);
    room->samples[0] = (struct eplb_model_sample){
        .sequence = 0x0807060504030201, .position = 5, .token = 65, .digest = 0x1817161514131211};
    room->work[0] = (struct eplb_moe_work){.rows = 7, .cpu_ns = 1000, .route_ns = 258};
    room->work[1] = (struct eplb_moe_work){.rows = 0, .cpu_ns = 0};
    room->work[2] = (struct eplb_moe_work){.rows = 9, .cpu_ns = 0x0102030405060708};
    room->result.num_samples = 1;
    room->result.step_ns = 5000;
    room->result.switch_ns = 4000;
    room->result.slots_checked = 24;
}

static void a_result_has_these_bytes(void **state)
{
    (void)state;
    static const unsigned char expected[128] = {
        1,    0,    0,    0,    3,    0,    0,    0,                                   /* counts */
        0x88, 0x13, 0,    0,    0,    0,    0,    0,    0xa0, 0x0f, 0, 0, 0,  0, 0, 0, /* times */
        24,   0,    0,    0,    0,    0,    0,    0,                                   /* slots */
        7,    0,    0,    0,    0,    0,    0,    0,    0xe8, 3,    0, 0, 0,  0, 0, 0, /* layer 0 */
        2,    1,    0,    0,    0,    0,    0,    0,                                   /* its routing */
        0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0,  0, 0, 0, /* layer 1 */
        0,    0,    0,    0,    0,    0,    0,    0,                                   /* its routing */
        9,    0,    0,    0,    0,    0,    0,    0,    8,    7,    6, 5, 4,  3, 2, 1, /* layer 2 */
        0,    0,    0,    0,    0,    0,    0,    0,                                   /* its routing */
        1,    2,    3,    4,    5,    6,    7,    8,                                   /* sample */
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 5,    0,    0, 0, 65, 0, 0, 0,
    };
    struct room room;
    unsigned char record[ROOM];
    memset(record, 0xa5, sizeof record);
    example_result(&room);
    assert_int_equal(eplb_result_bytes(1, 3), 128);
    assert_int_equal(eplb_result_bytes(0, 0), 32);
    assert_int_equal(eplb_result_encode(&room.result, NUM_LAYERS, record), 128);
    assert_memory_equal(record, expected, sizeof expected);
    assert_int_equal(record[128], 0xa5);
}

static void results_come_back_from_any_address(void **state)
{
    (void)state;
    struct eplb_prng prng;
    seed_printed(&prng, 20240703);
    for (size_t i = 0; i < 500; i++) {
        unsigned char record[ROOM];
        struct room sent;
        struct room received;
        random_result(&prng, &sent);
        room_init(&received);
        size_t size = eplb_result_encode(&sent.result, NUM_LAYERS, record + i % 9);
        assert_int_equal(size, eplb_result_bytes(sent.result.num_samples, NUM_LAYERS));
        assert_int_equal(
            eplb_result_decode(record + i % 9, size, MAX_ROWS, NUM_LAYERS, &received.result, NULL), EPLB_OK);
        assert_ptr_equal(received.result.samples, received.samples);
        assert_ptr_equal(received.result.work, received.work);
        assert_results_equal(&received.result, &sent.result);
    }
}

static void results_are_refused_with_a_sentence(void **state)
{
    (void)state;
    const size_t layer_1 = EPLB_RESULT_WORK + EPLB_RESULT_WORK_BYTES;
    const size_t sample = EPLB_RESULT_WORK + NUM_LAYERS * EPLB_RESULT_WORK_BYTES;
    const struct damage damages[] = {
        {EPLB_RESULT_NUM_LAYERS, 4, 4, "result of a forward: 4 layers; this run has 3"},
        {EPLB_RESULT_NUM_SAMPLES, 4, MINUS_1, "result of a forward: -1 samples; allowed is 0 to 12"},
        {EPLB_RESULT_NUM_SAMPLES, 4, 13, "result of a forward: 13 samples; allowed is 0 to 12"},
        {EPLB_RESULT_NUM_SAMPLES, 4, 2, "result of a forward: 128 bytes; 3 layers and 2 samples need 152"},
        {EPLB_RESULT_STEP_NS, 8, MINUS_1, "result of a forward: it took -1 ns; allowed is 0 or more"},
        {EPLB_RESULT_SWITCH_NS, 8, MINUS_1,
         "result of a forward: switching took -1 ns; allowed is 0 to 5000, the whole forward's time"},
        {EPLB_RESULT_SWITCH_NS, 8, 5001,
         "result of a forward: switching took 5001 ns; allowed is 0 to 5000, the whole forward's time"},
        {layer_1 + EPLB_RESULT_WORK_ROWS, 8, MINUS_1,
         "result of a forward: layer 1 computed -1 rows in 0 ns; neither may be negative"},
        {layer_1 + EPLB_RESULT_WORK_CPU_NS, 8, MINUS_1,
         "result of a forward: layer 1 computed 0 rows in -1 ns; neither may be negative"},
        {layer_1 + EPLB_RESULT_WORK_ROUTE_NS, 8, MINUS_1,
         "result of a forward: layer 1 chose slots in -1 ns; that may not be negative"},
        {sample + EPLB_RESULT_SAMPLE_POSITION, 4, MINUS_1,
         "result of a forward: sample 0 is token 65 at position -1; neither may be negative"},
        {sample + EPLB_RESULT_SAMPLE_TOKEN, 4, MINUS_1,
         "result of a forward: sample 0 is token -1 at position 5; neither may be negative"},
    };
    for (size_t i = 0; i < LENGTH(damages); i++) {
        unsigned char record[ROOM];
        struct room room;
        struct eplb_error error;
        example_result(&room);
        size_t size = eplb_result_encode(&room.result, NUM_LAYERS, record);
        apply(&damages[i], record);
        room_init(&room);
        assert_int_equal(eplb_result_decode(record, size, MAX_ROWS, NUM_LAYERS, &room.result, &error),
                         EPLB_INVALID);
        assert_string_equal(error.text, damages[i].text);
        assert_int_equal(room.result.num_samples, 99);
        assert_int_equal(room.result.slots_checked, 99);
        assert_int_equal(room.samples[0].sequence, 99);
        assert_int_equal(room.work[0].rows, 99);
    }
}

static enum eplb_status decode_result_of(const unsigned char *record, size_t size, struct eplb_error *error)
{
    struct room room;
    unsigned char *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    memcpy(copy, record, size);
    room_init(&room);
    enum eplb_status status = eplb_result_decode(copy, size, MAX_ROWS, NUM_LAYERS, &room.result, error);
    free(copy);
    return status;
}

static void results_of_another_length_are_refused(void **state)
{
    (void)state;
    struct room room;
    struct eplb_error error;
    unsigned char record[ROOM] = {0};
    example_result(&room);
    size_t size = eplb_result_encode(&room.result, NUM_LAYERS, record);
    for (size_t length = 0; length < size + 30; length++)
        assert_int_equal(decode_result_of(record, length, NULL), length == size ? EPLB_OK : EPLB_INVALID);
    assert_int_equal(decode_result_of(record, 31, &error), EPLB_INVALID);
    assert_string_equal(error.text, "result of a forward: 31 bytes; at least 32 are needed");
}

static void damaged_results_are_refused_or_exact(void **state)
{
    (void)state;
    struct eplb_prng prng;
    int taken = 0;
    seed_printed(&prng, 20240704);
    for (int i = 0; i < TRIES; i++) {
        unsigned char record[ROOM];
        unsigned char again[ROOM];
        struct room room;
        random_result(&prng, &room);
        size_t size = eplb_result_encode(&room.result, NUM_LAYERS, record);
        scramble(&prng, record, size);
        room_init(&room);
        if (eplb_result_decode(record, size, MAX_ROWS, NUM_LAYERS, &room.result, NULL) != EPLB_OK)
            continue;
        taken++;
        assert_in_range(room.result.num_samples, 0, MAX_ROWS);
        assert_int_equal(eplb_result_encode(&room.result, NUM_LAYERS, again), size);
        assert_memory_equal(again, record, size);
    }
    assert_in_range(taken, TRIES / 10, TRIES / 10 * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_input_has_these_bytes),
        cmocka_unit_test(inputs_come_back_from_any_address),
        cmocka_unit_test(inputs_are_refused_with_a_sentence),
        cmocka_unit_test(inputs_of_another_length_are_refused),
        cmocka_unit_test(damaged_inputs_are_refused_or_exact),
        cmocka_unit_test(a_result_has_these_bytes),
        cmocka_unit_test(results_come_back_from_any_address),
        cmocka_unit_test(results_are_refused_with_a_sentence),
        cmocka_unit_test(results_of_another_length_are_refused),
        cmocka_unit_test(damaged_results_are_refused_or_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
