/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/tables.h"

static void equal_weights_give_the_rest_to_the_first(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 1, 0, 2, 0, 3, 7, 4, 2, 5, 3, 6, 4, 7, 5};
    static const int32_t expected[] = {349526, 524288, 524288, 349525, 524288,  349525, 524288, 524288,
                                       524288, 524288, 524288, 524288, 1048576, 524288, 524288, 524288};
    struct eplb_shape shape = tables_shape(8, 8, 1);
    int32_t weights[16];
    int32_t scratch[8];
    eplb_weights_equal(&shape, ids, scratch, weights);
    assert_memory_equal(weights, expected, sizeof expected);
}

/** Seven replicas: 1048576 = 7 * 149796 + 4. */
static void equal_weights_of_seven_replicas(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(7, 7, 6);
    int32_t ids[49];
    int32_t weights[49];
    int32_t scratch[7];
    eplb_placement_initial(&shape, ids);
    eplb_weights_equal(&shape, ids, scratch, weights);
    for (int32_t slot = 0; slot < 49; slot++)
        assert_int_equal(weights[slot], slot / 7 < 4 ? 149797 : 149796);
}

static void assert_equal_weights(const struct eplb_shape *shape, const int32_t *ids, const int32_t *weights)
{
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        int64_t sum = 0;
        int32_t first = 0;
        int32_t last = 0;
        for (int32_t slot = 0; slot < shape->num_slots; slot++) {
            if (ids[slot] != expert)
                continue;
            assert_true(weights[slot] > 0);
            assert_true(last == 0 || weights[slot] <= last);
            first = first == 0 ? weights[slot] : first;
            last = weights[slot];
            sum += last;
        }
        assert_int_equal(sum, EPLB_WEIGHT_UNIT);
        assert_true(first - last <= 1);
    }
}

static void equal_weights_add_up_to_the_unit(void **state)
{
    (void)state;
    enum { TABLES = 2000 };
    static const int32_t shapes[][3] = {{8, 4, 1},  {12, 3, 5}, {16, 16, 9},
                                        {64, 8, 2}, {6, 2, 0},  {32, 32, 3}};
    const uint64_t seed = 20240613;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    for (int i = 0; i < TABLES; i++) {
        const int32_t *sizes = shapes[(size_t)i % (sizeof shapes / sizeof *shapes)];
        struct eplb_shape shape = tables_shape(sizes[0], sizes[1], sizes[2]);
        int32_t ids[256];
        int32_t weights[256];
        int32_t scratch[64];
        struct eplb_error error;
        tables_random(&prng, &shape, ids);
        eplb_weights_equal(&shape, ids, scratch, weights);
        assert_equal_weights(&shape, ids, weights);
        assert_int_equal(eplb_weights_check(&shape, ids, weights, scratch, &error), EPLB_OK);
        weights[eplb_prng_below(&prng, (uint64_t)shape.num_slots)] -= 1;
        assert_int_equal(eplb_weights_check(&shape, ids, weights, scratch, &error), EPLB_INVALID);
    }
}

static void takes_unequal_weights(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 2, 3, 0, 1};
    static const int32_t weights[] = {1, 1048575, 1048576, 1048576, 1048575, 1};
    struct eplb_shape shape = tables_shape(4, 2, 1);
    int32_t scratch[4];
    struct eplb_error error;
    assert_int_equal(eplb_weights_check(&shape, ids, weights, scratch, &error), EPLB_OK);
}

static void refuses_wrong_weights(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 2, 3, 0, 1};
    static const int32_t good[] = {524288, 524288, 1048576, 1048576, 524288, 524288};
    static const struct {
        int32_t slot, weight;
        const char *sentence;
    } cases[] = {
        {0, 0,
         "rank 0 slot 0: weight 0 of expert 0; allowed is 1 to 1048576 (its weights add up to 1048576)"},
        {4, -1,
         "rank 1 slot 1: weight -1 of expert 0; allowed is 1 to 524288 (its weights add up to 1048576)"},
        {5, INT32_MIN,
         "rank 1 slot 2: weight -2147483648 of expert 1; allowed is 1 to 524288 (its weights add up to "
         "1048576)"},
        {4, 524289,
         "rank 1 slot 1: weight 524289 of expert 0; allowed is 1 to 524288 (its weights add up to 1048576)"},
        {2, 1048577,
         "rank 0 slot 2: weight 1048577 of expert 2; allowed is 1 to 1048576 (its weights add up to "
         "1048576)"},
        {3, INT32_MAX,
         "rank 1 slot 0: weight 2147483647 of expert 3; allowed is 1 to 1048576 (its weights add up to "
         "1048576)"},
        {4, 524287, "the weights of expert 0 add up to 1048575; they must add up to 1048576"},
        {3, 1, "the weights of expert 3 add up to 1; they must add up to 1048576"},
    };
    struct eplb_shape shape = tables_shape(4, 2, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t weights[6];
        int32_t scratch[4];
        struct eplb_error error;
        memcpy(weights, good, sizeof weights);
        assert_int_equal(eplb_weights_check(&shape, ids, weights, scratch, &error), EPLB_OK);
        weights[cases[i].slot] = cases[i].weight;
        assert_int_equal(eplb_weights_check(&shape, ids, weights, scratch, &error), EPLB_INVALID);
        assert_string_equal(error.text, cases[i].sentence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_weights_give_the_rest_to_the_first),
        cmocka_unit_test(equal_weights_of_seven_replicas),
        cmocka_unit_test(equal_weights_add_up_to_the_unit),
        cmocka_unit_test(takes_unequal_weights),
        cmocka_unit_test(refuses_wrong_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
