/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "support/death.h"

static void break_a_rule(void *argument)
{
    int two = *(const int *)argument;
    EPLB_ASSERT(two + two == 5);
}

static void report(const char *file, int line, const char *condition)
{
    const char *name = strrchr(file, '/');
    fprintf(stderr, "handler: %s %d %s\n", name == NULL ? file : name + 1, line > 0, condition);
}

static void break_a_rule_with_a_handler(void *argument)
{
    eplb_set_assert_handler(report);
    break_a_rule(argument);
}

static void the_default_writes_and_aborts(void **state)
{
    (void)state;
    int two = 2;
    char errors[512];
    assert_int_equal(death_of(break_a_rule, &two, errors, sizeof errors), SIGABRT);
    assert_memory_equal(errors, "eplb: ", 6);
    assert_non_null(strstr(errors, "test_assert.c:"));
    assert_non_null(strstr(errors, ": assertion failed: two + two == 5\n"));
}

static void the_handler_is_called_and_then_the_process_aborts(void **state)
{
    (void)state;
    int two = 2;
    char errors[512];
    assert_int_equal(death_of(break_a_rule_with_a_handler, &two, errors, sizeof errors), SIGABRT);
    assert_string_equal(errors, "handler: test_assert.c 1 two + two == 5\n");
}

static void setting_returns_the_previous_handler(void **state)
{
    (void)state;
    assert_null(eplb_set_assert_handler(report));
    assert_true(eplb_set_assert_handler(NULL) == report);
    assert_null(eplb_set_assert_handler(NULL));
}

static void keep_a_rule(void *argument)
{
    int *evaluations = argument;
    EPLB_ASSERT(++*evaluations == 1);
    EPLB_ASSERT(*evaluations == 1);
}

static void a_true_condition_is_evaluated_once(void **state)
{
    (void)state;
    int evaluations = 0;
    keep_a_rule(&evaluations);
    assert_int_equal(evaluations, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_writes_and_aborts),
        cmocka_unit_test(the_handler_is_called_and_then_the_process_aborts),
        cmocka_unit_test(setting_returns_the_previous_handler),
        cmocka_unit_test(a_true_condition_is_evaluated_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
