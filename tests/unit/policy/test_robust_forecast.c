/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What `robust` learns from the windows: how much of the last one lasts, and how far apart they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "policy/robust.h"
#include "support/tables.h"

enum { EXPERTS = 4, WINDOWS = 6 };

static unsigned char memory[4096] __attribute__((aligned(64)));
static struct eplb_forecast forecast;
static struct eplb_shape shape;

/** Forecasts from windows, the last one last. */
static void make(const int64_t (*windows)[EXPERTS], int32_t count)
{
    struct eplb_arena arena;
    shape = tables_shape(EXPERTS, 2, 1);
    eplb_arena_init(&arena, memory, sizeof memory);
    eplb_forecast_layout(&forecast, &arena, &shape);
    assert_false(arena.overflow);
    struct eplb_policy_problem problem = {.size = sizeof problem,
                                          .shape = &shape,
                                          .load = windows[count - 1],
                                          .history = count > 1 ? windows[0] : NULL,
                                          .num_history = count - 1};
    eplb_forecast_make(&forecast, &problem);
}

static void assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-9)
        fail_msg("%.12f, expected %.12f", value, expected);
}

static void one_window_is_all_there_is(void **state)
{
    (void)state;
    static const int64_t windows[][EXPERTS] = {{400, 300, 200, 100}};
    make(windows, 1);
    assert_int_equal(forecast.windows, 1);
    assert_near(forecast.persistence, 0.6);
    assert_near(forecast.deviation, 0.15);
    assert_near(forecast.dispersion, 3);
    assert_near(forecast.now[0], 0.4);
    assert_near(forecast.past[0], 0.4);
    assert_near(forecast.mean[3], 0.2);
}

/** What goes one way lasts: the last window tells the next one better than those before. */
static void a_drift_lasts(void **state)
{
    (void)state;
    static const int64_t windows[][EXPERTS] = {{400000, 200000, 200000, 200000},
                                               {380000, 220000, 200000, 200000},
                                               {360000, 240000, 200000, 200000},
                                               {340000, 260000, 200000, 200000}};
    make(windows, 4);
    assert_int_equal(forecast.windows, 4);
    /* Two windows say 0.9, the most that is believed; 0.6 counts as one. */
    assert_near(forecast.persistence, (2 * 0.9 + 0.6) / 3);
    assert_near(forecast.past[0], (0.8 * 0.8 * 0.4 + 0.8 * 0.38 + 0.36) / (0.8 * 0.8 + 0.8 + 1));
    assert_near(forecast.mean[0], 2 * (0.8 * 0.34 + 0.2 * forecast.past[0]));
}

/** What comes and goes does not. */
static void a_swing_does_not_last(void **state)
{
    (void)state;
    static const int64_t windows[][EXPERTS] = {{400000, 200000, 200000, 200000},
                                               {360000, 240000, 200000, 200000},
                                               {400000, 200000, 200000, 200000},
                                               {360000, 240000, 200000, 200000}};
    make(windows, 4);
    assert_near(forecast.persistence, (2 * 0.1 + 0.6) / 3);
}

/** Chance is not deviation; what is left counts beside two windows of the usual 0.15. */
static void deviation_is_without_chance(void **state)
{
    (void)state;
    static const int64_t same[][EXPERTS] = {{400, 300, 200, 100}, {410, 290, 205, 95}, {395, 305, 195, 105}};
    make(same, 3);
    assert_near(forecast.deviation, 0.15 * sqrt(2.0 / 4));
    assert_near(forecast.dispersion, 1);
    static const int64_t apart[][EXPERTS] = {{3000000, 2000000, 3000000, 2000000},
                                             {2000000, 3000000, 3000000, 2000000}};
    make(apart, 2);
    double square = 2 * 0.1 * 0.1 / 0.25 - 4 * 2e-7;
    assert_near(forecast.deviation, sqrt((square + 2 * 0.15 * 0.15) / 3));
    static const int64_t few[][EXPERTS] = {{3, 0, 1, 0}, {0, 2, 1, 1}, {3, 0, 1, 0}};
    make(few, 3);
    assert_true(forecast.deviation <= 0.4);
}

/** After a shift only the last windows tell what comes, and all of them how far apart windows are. */
static void a_shift_ends_the_past(void **state)
{
    (void)state;
    static const int64_t windows[][EXPERTS] = {{700000, 100000, 100000, 100000},
                                               {600000, 200000, 100000, 100000},
                                               {0, 0, 0, 0},
                                               {100000, 100000, 100000, 700000}};
    make(windows, 4);
    assert_int_equal(forecast.windows, 1);
    assert_near(forecast.persistence, 0.6);
    assert_near(forecast.past[3], 0.7);
    double square = 0.1 * 0.1 / 0.65 + 0.1 * 0.1 / 0.15 - 4 * 2e-6;
    assert_near(forecast.deviation, sqrt((square + 2 * 0.15 * 0.15) / 3));
}

/** A few tokens say nothing of what an expert's share is, whether they are earlier ones or the last. */
static void small_windows_say_nothing(void **state)
{
    (void)state;
    static const int64_t windows[][EXPERTS] = {{400000, 200000, 200000, 200000},
                                               {380000, 220000, 200000, 200000},
                                               {0, 8, 0, 0},
                                               {360000, 240000, 200000, 200000},
                                               {5000, 0, 0, 5000}};
    make(windows, 4);
    assert_int_equal(forecast.windows, 3);
    assert_near(forecast.persistence, (0.9 + 0.6) / 2);
    assert_near(forecast.past[0], (0.8 * 0.4 + 0.38) / 1.8);
    make(windows, 5);
    assert_int_equal(forecast.windows, 1); /* that far apart even so few are a shift */
    assert_near(forecast.persistence, 0.6);
    static const int64_t few[][EXPERTS] = {{400000, 200000, 200000, 200000}, {3, 2, 3, 2}};
    make(few, 2);
    assert_int_equal(forecast.windows, 2);
    assert_near(forecast.persistence, 0.6 * 10 / 64);
    assert_near(forecast.mean[0], 2 * (forecast.persistence * 0.3 + (1 - forecast.persistence) * 0.4));
    /* 16 tokens for each expert are enough beside any number of them; none are too few where all have few. */
    static const int64_t burst[][EXPERTS] = {
        {4000000, 3000000, 2000000, 1000000}, {40, 30, 20, 10}, {41, 29, 20, 10}};
    make(burst, 3);
    assert_int_equal(forecast.windows, 3);
    assert_true(forecast.persistence > 0.3);
    static const int64_t all_few[][EXPERTS] = {{4, 3, 2, 1}, {3, 3, 2, 2}, {4, 3, 2, 1}};
    make(all_few, 3);
    assert_int_equal(forecast.windows, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_window_is_all_there_is), cmocka_unit_test(a_drift_lasts),
        cmocka_unit_test(a_swing_does_not_last),      cmocka_unit_test(deviation_is_without_chance),
        cmocka_unit_test(a_shift_ends_the_past),      cmocka_unit_test(small_windows_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
