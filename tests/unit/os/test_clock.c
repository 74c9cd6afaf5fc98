/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <time.h>

#include "eplb/clock.h"

static int64_t kernel_now(void)
{
    struct timespec time;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &time), 0);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void the_system_clock_is_the_monotonic_one(void **state)
{
    (void)state;
    const struct eplb_clock *clock = eplb_clock_system();
    assert_int_equal(clock->size, sizeof *clock);
    int64_t before = kernel_now();
    for (int i = 0; i < 1000; i++) {
        int64_t now = clock->now(clock->context);
        int64_t after = kernel_now();
        assert_true(before <= now);
        assert_true(now <= after);
        before = after;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_system_clock_is_the_monotonic_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
