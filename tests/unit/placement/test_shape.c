/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "eplb/placement.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void takes_every_shape_that_fits(void **state)
{
    (void)state;
    static const struct {
        int32_t layers, experts, ranks, redundant, slots_per_rank, slots;
    } cases[] = {
        {3, 8, 4, 1, 3, 12},
        {1, 8, 4, 0, 2, 8},
        {61, 256, 16, 1, 17, 272},
        {1, 72, 8, 1, 10, 80},
        {2, 8, 4, 3, 5, 20},
        {1, 8, 2, 4, 8, 16}, /* the most that fits: every rank holds every expert */
        {1, 8, 1, 0, 8, 8},
        {1, 1, 1, 0, 1, 1},
        {65536, 65536, 1, 0, 65536, 65536},
        {1, 65536, 65536, 255, 256, 16777216},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct eplb_shape shape;
        struct eplb_error error = {0};
        assert_int_equal(eplb_shape_init(&shape, cases[i].layers, cases[i].experts, cases[i].ranks,
                                         cases[i].redundant, &error),
                         EPLB_OK);
        assert_int_equal(shape.num_layers, cases[i].layers);
        assert_int_equal(shape.num_experts, cases[i].experts);
        assert_int_equal(shape.ep_size, cases[i].ranks);
        assert_int_equal(shape.redundant_experts_num, cases[i].redundant);
        assert_int_equal(shape.slots_per_rank, cases[i].slots_per_rank);
        assert_int_equal(shape.num_slots, cases[i].slots);
        assert_string_equal(error.text, "");
    }
}

static void refuses_the_others_with_their_values(void **state)
{
    (void)state;
    static const struct {
        int64_t layers, experts, ranks, redundant;
        const char *sentence;
    } cases[] = {
        {1, 8, 3, 0,
         "num_experts 8 is not divisible by ep_size 3: every rank must own the same number of experts"},
        {1, 32, 3, 1,
         "num_experts 32 is not divisible by ep_size 3: every rank must own the same number of experts"},
        {1, 12, 8, 0,
         "num_experts 12 is not divisible by ep_size 8: every rank must own the same number of experts"},
        {1, 4, 8, 0,
         "num_experts 4 is not divisible by ep_size 8: every rank must own the same number of experts"},
        {1, 8, 0, 0, "ep_size is 0; allowed is 1 to 65536"},
        {1, 8, -4, 0, "ep_size is -4; allowed is 1 to 65536"},
        {1, 8, 65537, 0, "ep_size is 65537; allowed is 1 to 65536"},
        {1, 0, 4, 0, "num_experts is 0; allowed is 1 to 65536"},
        {1, 65537, 1, 0, "num_experts is 65537; allowed is 1 to 65536"},
        {1, INT64_MIN, 4, 0, "num_experts is -9223372036854775808; allowed is 1 to 65536"},
        {1, INT64_C(4294967304), 4, 0, "num_experts is 4294967304; allowed is 1 to 65536"},
        {0, 8, 4, 0, "num_layers is 0; allowed is 1 to 65536"},
        {65537, 8, 4, 0, "num_layers is 65537; allowed is 1 to 65536"},
        {1, 8, 4, -1, "redundant_experts_num is -1; it counts extra slots per rank and must be 0 or more"},
        {1, 8, 2, 5,
         "redundant_experts_num 5 gives a rank 4 + 5 slots for 8 experts, so it would hold one twice; the "
         "largest allowed is 4"},
        {1, 8, 1, 1,
         "redundant_experts_num 1 gives a rank 8 + 1 slots for 8 experts, so it would hold one twice; the "
         "largest allowed is 0"},
        {1, 8, 4, INT64_MAX,
         "redundant_experts_num 9223372036854775807 gives a rank 2 + 9223372036854775807 slots for 8 "
         "experts, so it would hold one twice; the largest allowed is 6"},
        {1, 65536, 65536, 256, "ep_size 65536 x 257 slots per rank is more than 16777216 slots in a layer"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct eplb_shape shape;
        struct eplb_shape before;
        struct eplb_error error;
        memset(&shape, 0x5a, sizeof shape);
        before = shape;
        assert_int_equal(eplb_shape_init(&shape, cases[i].layers, cases[i].experts, cases[i].ranks,
                                         cases[i].redundant, &error),
                         EPLB_INVALID);
        assert_int_equal(error.status, EPLB_INVALID);
        assert_string_equal(error.text, cases[i].sentence);
        assert_memory_equal(&shape, &before, sizeof shape);
    }
}

static void needs_no_error_record(void **state)
{
    (void)state;
    struct eplb_shape shape;
    assert_int_equal(eplb_shape_init(&shape, 1, 8, 3, 0, NULL), EPLB_INVALID);
    assert_int_equal(eplb_shape_init(&shape, 1, 8, 4, 0, NULL), EPLB_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_every_shape_that_fits),
        cmocka_unit_test(refuses_the_others_with_their_values),
        cmocka_unit_test(needs_no_error_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
