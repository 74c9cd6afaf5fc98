/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Which experts get the redundant slots, and in which order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/wide.h"
#include "policy/copies.h"
#include "policy/copy_heap.h"
#include "support/tables.h"
#include "unit/policy/plan.h"
#include "unit/policy/twin.h"

/** What lies behind the memory of a call and must stay. */
enum { GUARD = 0x5a5a5a5a };

static void check_copies(const struct eplb_shape *shape, const int64_t *load, const int32_t *replicas,
                         const int32_t *chosen)
{
    int32_t got[PLAN_MAX_EXPERTS + 1];
    int32_t scratch[PLAN_MAX_EXPERTS + 1];
    int32_t order[PLAN_MAX_SLOTS + 1];
    int32_t copies = shape->num_slots - shape->num_experts;
    got[shape->num_experts] = GUARD;
    scratch[shape->num_experts] = GUARD;
    order[copies] = GUARD;
    eplb_choose_copies(shape, load, got, scratch, order);
    assert_memory_equal(got, replicas, (size_t)shape->num_experts * sizeof *got);
    assert_memory_equal(order, chosen, (size_t)copies * sizeof *order);
    assert_int_equal(got[shape->num_experts], GUARD);
    assert_int_equal(scratch[shape->num_experts], GUARD);
    assert_int_equal(order[copies], GUARD);
}

static void a_copy_goes_where_the_replica_load_falls_most(void **state)
{
    (void)state;
    static const int64_t load[4] = {100, 40, 30, 0};
    struct eplb_shape shape = tables_shape(4, 4, 1);
    /* Expert 0 falls by 50, 16.7, 8.3; expert 1 by 20, 6.7; expert 2 by 15. */
    check_copies(&shape, load, (const int32_t[]){3, 2, 2, 1}, (const int32_t[]){0, 1, 0, 2});
}

static void ties_go_to_the_lowest_id(void **state)
{
    (void)state;
    static const int64_t load[6] = {7, 7, 7, 7, 7, 7};
    struct eplb_shape shape = tables_shape(6, 3, 3);
    check_copies(&shape, load, (const int32_t[]){3, 3, 3, 2, 2, 2},
                 (const int32_t[]){0, 1, 2, 3, 4, 5, 0, 1, 2});
}

/** Not even when nobody else has load; and all the slots that there can be are handed out. */
static void nobody_gets_more_replicas_than_ranks(void **state)
{
    (void)state;
    static const int64_t load[4] = {0, 0, 900, 0};
    struct eplb_shape shape = tables_shape(4, 2, 2);
    check_copies(&shape, load, (const int32_t[]){2, 2, 2, 2}, (const int32_t[]){2, 0, 1, 3});
}

/** Falls that differ by less than a token, and loads by less than a double tells apart. */
static void worths_are_compared_exactly(void **state)
{
    (void)state;
    static const int64_t load[4] = {EPLB_MAX_LOAD - 1, EPLB_MAX_LOAD, EPLB_MAX_LOAD / 3,
                                    EPLB_MAX_LOAD / 3 + 1};
    struct eplb_shape shape = tables_shape(4, 4, 1);
    /* After two copies the falls are, in sixths of a token above 2^62 / 6: -1, 0, -1 and 2. */
    check_copies(&shape, load, (const int32_t[]){2, 3, 1, 2}, (const int32_t[]){1, 0, 3, 1});
}

static const int32_t shapes[][3] = {{2, 2, 1},   {8, 2, 1},   {8, 8, 7},   {12, 4, 1},  {12, 3, 6},
                                    {9, 3, 4},   {10, 5, 8},  {17, 17, 3}, {31, 31, 5}, {64, 8, 1},
                                    {64, 16, 4}, {72, 8, 20}, {7, 1, 0},   {128, 32, 2}};

enum { RUNS = 10000 };

static struct eplb_shape shape_of(int run)
{
    const int32_t *sizes = shapes[(size_t)run % (sizeof shapes / sizeof *shapes)];
    return tables_shape(sizes[0], sizes[1], sizes[2]);
}

static void start(struct eplb_prng *prng, uint64_t seed)
{
    printf("seed %" PRIu64 "\n", seed);
    eplb_prng_seed(prng, seed);
}

static void copies_are_those_of_a_scan(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 20240612);
    for (int run = 0; run < RUNS; run++) {
        struct eplb_shape shape = shape_of(run);
        int64_t load[PLAN_MAX_EXPERTS];
        int32_t replicas[PLAN_MAX_EXPERTS];
        int32_t chosen[PLAN_MAX_SLOTS];
        plan_random_load(&prng, &shape, EPLB_MAX_LOAD, load);
        twin_copies(&shape, TWIN_LARGEST_DROP, load, replicas, chosen);
        check_copies(&shape, load, replicas, chosen);
    }
}

static void a_heap_of_floored_weights_is_a_scan(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 20240614);
    for (int run = 0; run < RUNS; run++) {
        struct eplb_shape shape = shape_of(run);
        size_t bytes = (size_t)shape.num_experts * sizeof(int64_t);
        int64_t load[PLAN_MAX_EXPERTS];
        int64_t weights[PLAN_MAX_EXPERTS];
        int32_t replicas[PLAN_MAX_EXPERTS];
        int64_t expected[PLAN_MAX_EXPERTS];
        int32_t expected_replicas[PLAN_MAX_EXPERTS];
        int32_t memory[PLAN_MAX_EXPERTS];
        plan_random_load(&prng, &shape, EPLB_MAX_LOAD, load);
        memcpy(weights, load, bytes);
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            replicas[expert] = 1;
        struct eplb_copy_heap heap;
        eplb_copy_heap_init(&heap, &shape, EPLB_COPY_LARGEST_WEIGHT, weights, replicas, memory);
        for (int32_t copy = shape.num_experts; copy < shape.num_slots; copy++) {
            int32_t expert = eplb_copy_heap_first(&heap);
            eplb_u128 c = (eplb_u128)replicas[expert]++;
            weights[expert] = (int64_t)((eplb_u128)weights[expert] * c / (c + 1));
            eplb_copy_heap_update(&heap);
        }
        twin_floored_copies(&shape, load, expected, expected_replicas);
        assert_memory_equal(weights, expected, bytes);
        assert_memory_equal(replicas, expected_replicas, (size_t)shape.num_experts * sizeof *replicas);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_goes_where_the_replica_load_falls_most),
        cmocka_unit_test(ties_go_to_the_lowest_id),
        cmocka_unit_test(nobody_gets_more_replicas_than_ranks),
        cmocka_unit_test(worths_are_compared_exactly),
        cmocka_unit_test(copies_are_those_of_a_scan),
        cmocka_unit_test(a_heap_of_floored_weights_is_a_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
