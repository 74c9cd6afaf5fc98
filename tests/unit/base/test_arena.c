/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/arena.h"

struct object {
    char *name;
    int64_t *numbers;
    char *empty;
    char *last;
};

static void lay_out(struct eplb_arena *arena, struct object *object)
{
    object->name = eplb_arena_take(arena, 5, 1);
    object->numbers = eplb_arena_take(arena, 9, sizeof(int64_t));
    object->empty = eplb_arena_take(arena, 0, 8);
    object->last = eplb_arena_take(arena, 64, 1);
}

static void carving_takes_what_measuring_measured(void **state)
{
    (void)state;
    struct eplb_arena arena;
    struct object object;
    eplb_arena_init(&arena, NULL, 0);
    lay_out(&arena, &object);
    assert_null(object.name);
    assert_null(object.last);
    assert_false(arena.overflow);
    assert_int_equal(arena.used, 64 + 128 + 0 + 64);

    size_t used = arena.used;
    unsigned char *block = eplb_arena_block(used);
    assert_non_null(block);
    eplb_arena_init(&arena, block, used);
    lay_out(&arena, &object);
    assert_false(arena.overflow);
    assert_int_equal(arena.used, used);
    assert_ptr_equal(object.name, block);
    assert_ptr_equal(object.numbers, block + 64);
    assert_ptr_equal(object.empty, block + 192);
    assert_ptr_equal(object.last, block + 192);
    memset(object.last, 1, 64);
    eplb_arena_free(block);
}

static void a_block_is_zeroed_and_aligned(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 64, 65, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *block = eplb_arena_block(sizes[i]);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % EPLB_ARENA_ALIGN, 0);
        for (size_t byte = 0; byte < sizes[i]; byte++)
            assert_int_equal(block[byte], 0);
        eplb_arena_free(block);
    }
    eplb_arena_free(NULL);
}

static void a_measurement_becomes_an_arena(void **state)
{
    (void)state;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_arena_take(&arena, 3, 50);
    unsigned char *block = eplb_arena_reserve(&arena);
    assert_non_null(block);
    assert_int_equal(arena.used, 0);
    assert_int_equal(arena.capacity, 192);
    assert_ptr_equal(eplb_arena_take(&arena, 3, 50), block);
    assert_false(arena.overflow);
    assert_null(eplb_arena_take(&arena, 1, 1));
    eplb_arena_free(block);

    eplb_arena_init(&arena, NULL, 0);
    eplb_arena_take(&arena, SIZE_MAX, 2);
    assert_null(eplb_arena_reserve(&arena));
    assert_true(arena.overflow);
}

static void a_full_arena_refuses(void **state)
{
    (void)state;
    unsigned char *block = eplb_arena_block(128);
    struct eplb_arena arena;
    eplb_arena_init(&arena, block, 128);
    assert_non_null(eplb_arena_take(&arena, 1, 100));
    assert_int_equal(arena.used, 128);
    assert_false(arena.overflow);
    assert_null(eplb_arena_take(&arena, 1, 1));
    assert_true(arena.overflow);
    assert_int_equal(arena.used, 128);
    eplb_arena_free(block);
}

static void sizes_that_wrap_are_found_while_measuring(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {
        {SIZE_MAX, 2}, {SIZE_MAX / 8 + 1, 8}, {1, SIZE_MAX}, {1, SIZE_MAX - 62}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct eplb_arena arena;
        eplb_arena_init(&arena, NULL, 0);
        eplb_arena_take(&arena, sizes[i][0], sizes[i][1]);
        assert_true(arena.overflow);
        assert_int_equal(arena.used, 0);
    }
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_arena_take(&arena, 1, SIZE_MAX - 127);
    assert_false(arena.overflow);
    eplb_arena_take(&arena, 1, 128);
    assert_true(arena.overflow);
    assert_null(eplb_arena_block(SIZE_MAX));
    assert_null(eplb_arena_block(SIZE_MAX - 63));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carving_takes_what_measuring_measured),
        cmocka_unit_test(a_block_is_zeroed_and_aligned),
        cmocka_unit_test(a_measurement_becomes_an_arena),
        cmocka_unit_test(a_full_arena_refuses),
        cmocka_unit_test(sizes_that_wrap_are_found_while_measuring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
