/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Bounded plans: legal, within the bound, never worse than what is there, and better with more moves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/bounded.h"
#include "support/tables.h"
#include "unit/policy/plan.h"

static int32_t active[PLAN_MAX_SLOTS];
static int32_t bounded[PLAN_MAX_SLOTS];
static int64_t load[PLAN_MAX_EXPERTS];

/** Plans with exactly the scratch that is asked for, full of rubbish. Returns the moves. */
static int32_t bound(const struct eplb_shape *shape, int32_t max_moves)
{
    struct eplb_policy_problem problem = {
        .size = sizeof problem, .shape = shape, .load = load, .active = active};
    size_t bytes = eplb_bound_scratch(shape);
    unsigned char *scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xa5, (bytes + 127) / 64 * 64);
    int32_t moves = eplb_bound_plan(&problem, max_moves, scratch, bounded);
    for (size_t i = bytes; i < (bytes + 127) / 64 * 64; i++)
        assert_int_equal(scratch[i], 0xa5);
    free(scratch);
    return moves;
}

static int32_t moved(const struct eplb_shape *shape)
{
    int32_t count = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        count += active[slot] != bounded[slot];
    return count;
}

static void random_plans_keep_the_bound(void **state)
{
    (void)state;
    static const int32_t forms[][4] = {{8, 2, 0, 500}, {8, 4, 1, 500},  {12, 3, 6, 500},  {8, 8, 7, 50},
                                       {1, 1, 0, 5},   {64, 8, 1, 200}, {64, 16, 2, 200}, {256, 32, 1, 20}};
    struct eplb_prng prng;
    struct eplb_error error;
    printf("seed 7101\n");
    eplb_prng_seed(&prng, 7101);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct eplb_shape shape = tables_shape(forms[i][0], forms[i][1], forms[i][2]);
        eplb_placement_initial(&shape, active);
        for (int32_t k = 0; k < forms[i][3]; k++) {
            plan_random_load(&prng, &shape, EPLB_MAX_LOAD, load);
            int32_t max_moves = 1 + (int32_t)eplb_prng_below(&prng, (uint64_t)shape.num_slots);
            int32_t moves = bound(&shape, max_moves);
            assert_int_equal(moves, moved(&shape));
            assert_true(moves <= max_moves);
            if (eplb_placement_check(&shape, bounded, &error) != EPLB_OK)
                fail_msg("%s", error.text);
            assert_true(plan_peak(&shape, bounded, load) <= plan_peak(&shape, active, load) * (1 + 1e-12));
            memcpy(active, bounded, sizeof active);
        }
    }
}

/** One swap mends it; with one move there is none, for without redundancy nothing can be replaced. */
static void one_swap_takes_two_moves(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 0);
    const int64_t uneven[4] = {50, 30, 10, 30};
    memcpy(load, uneven, sizeof uneven);
    eplb_placement_initial(&shape, active);
    assert_int_equal(bound(&shape, 1), 0);
    assert_int_equal(bound(&shape, 2), 2);
    assert_true(plan_peak(&shape, bounded, load) == 60);
}

/** A hot expert that gets the one slot that may change halves the peak. */
static void one_move_goes_where_it_gains_most(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(8, 4, 1);
    for (int32_t expert = 0; expert < 8; expert++)
        load[expert] = expert == 0 ? 1000 : 1;
    eplb_placement_initial(&shape, active);
    assert_int_equal(bound(&shape, 1), 1);
    double one = plan_peak(&shape, bounded, load);
    assert_true(one < 350);
    assert_true(bound(&shape, 2) <= 2);
    assert_true(plan_peak(&shape, bounded, load) <= one);
}

/** More moves, lower peaks, on a load far from balance, until the search is at its end. */
static void more_moves_gain_more(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(64, 8, 1);
    for (int32_t expert = 0; expert < 64; expert++)
        load[expert] = 100000 / (1 + expert);
    eplb_placement_initial(&shape, active);
    double last = plan_peak(&shape, active, load);
    for (int32_t max_moves = 1; max_moves <= 32; max_moves *= 2) {
        bound(&shape, max_moves);
        double peak = plan_peak(&shape, bounded, load);
        printf("%d moves: peak %.1f\n", max_moves, peak);
        assert_true(max_moves <= 16 ? peak < last : peak <= last);
        last = peak;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_keep_the_bound),
        cmocka_unit_test(one_swap_takes_two_moves),
        cmocka_unit_test(one_move_goes_where_it_gains_most),
        cmocka_unit_test(more_moves_gain_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
