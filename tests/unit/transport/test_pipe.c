/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Parts and pipes: what goes in comes out, and what a peer scribbles is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "transport/pipe.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { RING = 512, LONGEST = RING / 2 - 64, LINE = 64 };

/* A ring between guards, and the two ends of its pipe. */
struct pair {
    struct eplb_pipe_positions positions;
    unsigned char memory[LINE + RING + LINE];
    struct eplb_pipe_end writer;
    struct eplb_pipe_end reader;
};

static void open_pair(struct pair *pair)
{
    memset(pair, 0, sizeof *pair);
    memset(pair->memory, 0xee, sizeof pair->memory);
    pair->writer = eplb_pipe_end_make(&pair->positions, pair->memory + LINE, RING);
    pair->reader = eplb_pipe_end_make(&pair->positions, pair->memory + LINE, RING);
}

static void assert_guards(const struct pair *pair)
{
    for (size_t i = 0; i < LINE; i++) {
        assert_int_equal(pair->memory[i], 0xee);
        assert_int_equal(pair->memory[LINE + RING + i], 0xee);
    }
}

static unsigned char byte_at(uint64_t message, uint64_t offset)
{
    return (unsigned char)(message * 31 + offset * 7 + (offset >> 8));
}

/* ---- parts ---- */

static void sizes_of_parts_add_up_or_overflow(void **state)
{
    (void)state;
    const struct eplb_part parts[] = {{NULL, 0}, {NULL, 5}, {NULL, SIZE_MAX - 5}, {NULL, 1}};
    size_t size = 99;
    assert_true(eplb_parts_size(parts, 0, &size));
    assert_int_equal(size, 0);
    assert_true(eplb_parts_size(parts, 3, &size));
    assert_int_equal(size, SIZE_MAX);
    assert_false(eplb_parts_size(parts, 4, &size));
    assert_int_equal(size, SIZE_MAX);
}

static void a_cursor_steps_over_empty_parts(void **state)
{
    (void)state;
    char memory[] = "abcdef";
    const struct eplb_part parts[] = {{NULL, 0}, {memory, 2},     {NULL, 0},
                                      {NULL, 0}, {memory + 2, 4}, {NULL, 0}};
    char copy[7] = {0};
    struct eplb_part_cursor cursor = eplb_part_cursor_begin(parts);
    eplb_part_cursor_read(&cursor, copy, 0);
    eplb_part_cursor_read(&cursor, copy, 1);
    eplb_part_cursor_read(&cursor, copy + 1, 4);
    eplb_part_cursor_read(&cursor, copy + 5, 1);
    eplb_part_cursor_read(&cursor, copy + 6, 0);
    assert_string_equal(copy, "abcdef");
    cursor = eplb_part_cursor_begin(parts);
    eplb_part_cursor_write(&cursor, "123", 3);
    eplb_part_cursor_write(&cursor, "456", 3);
    assert_string_equal(memory, "123456");
}

/* ---- pipes ---- */

static enum eplb_pipe_status write_some(struct pair *pair, struct eplb_fragment *fragment)
{
    unsigned char bytes[2 * RING];
    const struct eplb_part part = {bytes, sizeof bytes};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = byte_at(fragment->message, i);
    struct eplb_part_cursor source = eplb_part_cursor_begin(&part);
    source.offset = (size_t)fragment->offset;
    return eplb_pipe_write(&pair->writer, fragment, &source);
}

static void fragments_have_half_a_ring_and_wait_for_room(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair);
    struct eplb_fragment fragment = {.message = 7, .token = 8, .size = 3 * LONGEST, .want = 9};
    assert_int_equal(write_some(&pair, &fragment), EPLB_PIPE_READY);
    assert_int_equal(fragment.length, LONGEST);
    fragment.offset = LONGEST;
    assert_int_equal(write_some(&pair, &fragment), EPLB_PIPE_READY);
    fragment.offset = 2 * LONGEST;
    assert_int_equal(write_some(&pair, &fragment), EPLB_PIPE_WAIT);

    struct eplb_fragment seen;
    unsigned char bytes[LONGEST];
    const struct eplb_part part = {bytes, sizeof bytes};
    for (uint64_t i = 0; i < 2; i++) {
        struct eplb_part_cursor target = eplb_part_cursor_begin(&part);
        assert_int_equal(eplb_pipe_peek(&pair.reader, &seen), EPLB_PIPE_READY);
        assert_int_equal(seen.message, 7);
        assert_int_equal(seen.token, 8);
        assert_int_equal(seen.size, 3 * LONGEST);
        assert_int_equal(seen.offset, i * LONGEST);
        assert_int_equal(seen.want, 9);
        assert_int_equal(seen.length, LONGEST);
        eplb_pipe_take(&pair.reader, &seen, &target);
        for (size_t at = 0; at < LONGEST; at++)
            assert_int_equal(bytes[at], byte_at(7, i * LONGEST + at));
    }
    assert_int_equal(eplb_pipe_peek(&pair.reader, &seen), EPLB_PIPE_WAIT);
    assert_int_equal(write_some(&pair, &fragment), EPLB_PIPE_READY);
    assert_guards(&pair);
}

static void a_header_travels_alone(void **state)
{
    (void)state;
    struct pair pair;
    struct eplb_fragment fragment = {.message = 1, .size = 100};
    struct eplb_fragment seen;
    open_pair(&pair);
    for (int i = 0; i < RING / LINE; i++)
        assert_int_equal(eplb_pipe_write(&pair.writer, &fragment, NULL), EPLB_PIPE_READY);
    assert_int_equal(eplb_pipe_write(&pair.writer, &fragment, NULL), EPLB_PIPE_WAIT);
    for (int i = 0; i < RING / LINE; i++) {
        assert_int_equal(eplb_pipe_peek(&pair.reader, &seen), EPLB_PIPE_READY);
        assert_int_equal(seen.length, 0);
        assert_int_equal(seen.size, 100);
        eplb_pipe_take(&pair.reader, &seen, NULL);
    }
    assert_int_equal(eplb_pipe_peek(&pair.reader, &seen), EPLB_PIPE_WAIT);
}

/* Random messages, read or dropped, around the ring many times. */
static void a_ring_goes_round_and_round(void **state)
{
    (void)state;
    static struct pair pair;
    struct eplb_prng prng;
    struct eplb_fragment next = {.message = 1, .size = 100};
    struct eplb_fragment seen;
    uint64_t read = 0;
    uint64_t message = 1;
    open_pair(&pair);
    eplb_prng_seed(&prng, 3);
    for (int step = 0; step < 200000; step++) {
        if (eplb_prng_below(&prng, 2) == 0 && write_some(&pair, &next) == EPLB_PIPE_READY) {
            next.offset += next.length;
            if (next.offset == next.size)
                next = (struct eplb_fragment){.message = next.message + 1,
                                              .size = eplb_prng_below(&prng, 2 * RING)};
        }
        if (eplb_prng_below(&prng, 2) == 0 && eplb_pipe_peek(&pair.reader, &seen) == EPLB_PIPE_READY) {
            unsigned char bytes[LONGEST] = {0};
            const struct eplb_part part = {bytes, sizeof bytes};
            struct eplb_part_cursor target = eplb_part_cursor_begin(&part);
            int drops = eplb_prng_below(&prng, 4) == 0;
            assert_int_equal(seen.message, message);
            assert_int_equal(seen.offset, read);
            eplb_pipe_take(&pair.reader, &seen, drops ? NULL : &target);
            for (size_t at = 0; at < seen.length && !drops; at++)
                assert_int_equal(bytes[at], byte_at(message, read + at));
            read += seen.length;
            if (read == seen.size) {
                message++;
                read = 0;
            }
        }
    }
    assert_in_range(message, 10000, 200000);
    assert_guards(&pair);
}

/* ---- a peer that writes nonsense ---- */

static void positions_that_cannot_be_are_damage(void **state)
{
    (void)state;
    struct pair pair;
    struct eplb_fragment fragment = {.message = 1, .size = 8};
    struct eplb_fragment seen;
    /* Of what the reader is told was written, while nothing was. */
    const uint64_t written[] = {1, LINE - 1, RING + 1, UINT64_MAX, UINT64_MAX - RING};
    for (size_t i = 0; i < LENGTH(written); i++) {
        open_pair(&pair);
        atomic_store(&pair.positions.written, written[i]);
        assert_int_equal(eplb_pipe_peek(&pair.reader, &seen), EPLB_PIPE_DAMAGED);
    }
    /* Of what the writer is told was read, while nothing was written. */
    const uint64_t read[] = {1, RING, UINT64_MAX - RING, UINT64_C(1) << 63};
    for (size_t i = 0; i < LENGTH(read); i++) {
        open_pair(&pair);
        atomic_store(&pair.positions.read, read[i]);
        assert_int_equal(write_some(&pair, &fragment), EPLB_PIPE_DAMAGED);
    }
}

static void headers_that_cannot_be_are_damage(void **state)
{
    (void)state;
    /* Each with as many bytes as are said to be written. */
    static const struct {
        struct eplb_fragment fragment;
        uint64_t written;
    } nonsense[] = {
        {{.size = 1000, .length = LONGEST + 1}, RING},              /* longer than any fragment */
        {{.size = UINT64_MAX, .length = UINT32_MAX}, RING},         /* likewise */
        {{.size = 1000, .length = 2 * LINE}, 2 * LINE},             /* more than was written */
        {{.size = 7, .length = 8}, 2 * LINE},                       /* more than the message has */
        {{.size = 8, .offset = 9}, 2 * LINE},                       /* starts behind its end */
        {{.size = 8, .offset = 1, .length = 8}, 2 * LINE},          /* ends behind it */
        {{.size = 8, .offset = UINT64_MAX, .length = 9}, 2 * LINE}, /* the sum wraps around */
    };
    for (size_t i = 0; i < LENGTH(nonsense); i++) {
        struct pair pair;
        struct eplb_fragment seen;
        open_pair(&pair);
        memcpy(pair.memory + LINE, &nonsense[i].fragment, sizeof nonsense[i].fragment);
        atomic_store(&pair.positions.written, nonsense[i].written);
        assert_int_equal(eplb_pipe_peek(&pair.reader, &seen), EPLB_PIPE_DAMAGED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_parts_add_up_or_overflow),
        cmocka_unit_test(a_cursor_steps_over_empty_parts),
        cmocka_unit_test(fragments_have_half_a_ring_and_wait_for_room),
        cmocka_unit_test(a_header_travels_alone),
        cmocka_unit_test(a_ring_goes_round_and_round),
        cmocka_unit_test(positions_that_cannot_be_are_damage),
        cmocka_unit_test(headers_that_cannot_be_are_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
