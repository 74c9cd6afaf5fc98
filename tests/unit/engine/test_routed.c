/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* What rows were routed to, as a record: exact bytes, exact refusals, and many damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "engine/records.h"
#include "wire/bytes.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { MAX_ROWS = 3, ROW_IDS = 4, EXPERTS = 300, ROW_BYTES = 12 + 2 * ROW_IDS, TRIES = 200000 };
enum { MOST_BYTES = 8 + MAX_ROWS * ROW_BYTES };

struct room {
    struct eplb_routed_row rows[MAX_ROWS];
    uint16_t experts[MAX_ROWS * ROW_IDS];
    struct eplb_routed routed;
};

static void make_room(struct room *room)
{
    memset(room, 0x5a, sizeof *room);
    room->routed = (struct eplb_routed){.rows = room->rows, .experts = room->experts, .num_rows = 99};
}

static void example(struct room *room)
{
    static const uint16_t ids[] = {0, 299, 2, 3, 256, 255, 1, 7};
    make_room(room);
    room->routed.num_rows = 2;
    room->rows[0] = (struct eplb_routed_row){.sequence = 0x0102030405060708, .position = 5};
    room->rows[1] = (struct eplb_routed_row){.sequence = 9, .position = 0x01020304};
    memcpy(room->experts, ids, sizeof ids);
}

static enum eplb_status decode(const unsigned char *bytes, size_t size, struct room *room, size_t *used,
                               struct eplb_error *error)
{
    return eplb_routed_decode(bytes, size, MAX_ROWS, ROW_IDS, EXPERTS, &room->routed, used, error);
}

static void a_record_has_these_bytes(void **state)
{
    (void)state;
    static const unsigned char expected[8 + 2 * ROW_BYTES] = {
        2, 0, 0, 0, 4, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 5, 0, 0,   0, 0, 0, 43, 1,
        2, 0, 3, 0, 9, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 0, 1, 255, 0, 1, 0, 7,  0};
    unsigned char record[MOST_BYTES + 1];
    struct room room;
    memset(record, 0xa5, sizeof record);
    example(&room);
    assert_int_equal(eplb_routed_bytes(MAX_ROWS, ROW_IDS), MOST_BYTES);
    assert_int_equal(eplb_routed_encode(&room.routed, ROW_IDS, record), sizeof expected);
    assert_memory_equal(record, expected, sizeof expected);
    assert_int_equal(record[sizeof expected], 0xa5);
}

/* What follows the record is no part of it. */
static void records_come_back(void **state)
{
    (void)state;
    unsigned char record[MOST_BYTES + 9];
    struct room sent;
    struct room received;
    size_t used;
    for (int32_t rows = 0; rows <= 2; rows++) {
        example(&sent);
        sent.routed.num_rows = rows;
        make_room(&received);
        size_t size = eplb_routed_encode(&sent.routed, ROW_IDS, record + 1);
        assert_int_equal(decode(record + 1, size + 7, &received, &used, NULL), EPLB_OK);
        assert_int_equal(used, size);
        assert_int_equal(received.routed.num_rows, rows);
        assert_memory_equal(received.experts, sent.experts, 2 * ROW_IDS * (size_t)rows);
        for (int32_t i = 0; i < rows; i++) {
            assert_int_equal(received.rows[i].sequence, sent.rows[i].sequence);
            assert_int_equal(received.rows[i].position, sent.rows[i].position);
        }
    }
}

static void records_are_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        uint32_t value;
        const char *text;
    } damages[] = {
        {0, UINT32_MAX, "routes of a forward: -1 rows; allowed is 0 to 3"},
        {0, 4, "routes of a forward: 4 rows; allowed is 0 to 3"},
        {0, 3, "routes of a forward: 48 bytes; 3 rows need 68"},
        {4, 5, "routes of a forward: 5 ids of each row; this run has 4"},
        {16, UINT32_MAX, "routes of a forward: row 0 is at position -1; it must not be negative"},
        {44, 300, "routes of a forward: row 1, id 2 is expert 300; allowed is 0 to 299"},
    };
    for (size_t i = 0; i < LENGTH(damages); i++) {
        unsigned char record[MOST_BYTES];
        struct room room;
        struct eplb_error error;
        size_t used = 77;
        example(&room);
        size_t size = eplb_routed_encode(&room.routed, ROW_IDS, record);
        eplb_put_u32(record + damages[i].offset, damages[i].value);
        make_room(&room);
        assert_int_equal(decode(record, size, &room, &used, &error), EPLB_INVALID);
        assert_string_equal(error.text, damages[i].text);
        assert_int_equal(room.routed.num_rows, 99);
        assert_int_equal(used, 77);
    }
    struct room room;
    struct eplb_error error;
    size_t used;
    make_room(&room);
    assert_int_equal(decode((const unsigned char *)"", 7, &room, &used, &error), EPLB_INVALID);
    assert_string_equal(error.text, "routes of a forward: 7 bytes; at least 8 are needed");
}

static void damaged_records_are_refused_or_exact(void **state)
{
    (void)state;
    struct eplb_prng prng;
    const uint64_t seed = 20251130;
    int taken = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    eplb_prng_seed(&prng, seed);
    for (int i = 0; i < TRIES; i++) {
        unsigned char record[MOST_BYTES];
        unsigned char again[MOST_BYTES];
        struct room room;
        size_t used;
        example(&room);
        size_t size = eplb_routed_encode(&room.routed, ROW_IDS, record);
        for (uint64_t edits = 1 + eplb_prng_below(&prng, 3); edits > 0; edits--)
            record[eplb_prng_below(&prng, size)] = (unsigned char)eplb_prng_below(&prng, 4);
        make_room(&room);
        if (decode(record, size, &room, &used, NULL) != EPLB_OK)
            continue;
        taken++;
        assert_true(used <= size);
        assert_int_equal(eplb_routed_encode(&room.routed, ROW_IDS, again), used);
        assert_memory_equal(again, record, used);
    }
    assert_in_range(taken, TRIES / 20, TRIES / 20 * 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_has_these_bytes),
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(records_are_refused_with_a_sentence),
        cmocka_unit_test(damaged_records_are_refused_or_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
