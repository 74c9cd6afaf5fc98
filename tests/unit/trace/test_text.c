/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "support/point_locale.h"
#include "trace/text.h"

static void text_grows(void **state)
{
    (void)state;
    struct eplb_text text = {0};
    for (int i = 0; i < 10000; i++)
        eplb_text_add(&text, "%d,", i % 10);
    assert_false(text.failed);
    assert_int_equal(text.length, 20000);
    assert_int_equal(strlen(text.bytes), 20000);
    assert_memory_equal(text.bytes + 19990, "5,6,7,8,9,", 10);
    eplb_text_free(&text);
    assert_null(text.bytes);
    assert_int_equal(text.length, 0);
}

static void check_real(double real, const char *expected)
{
    struct eplb_text text = {0};
    eplb_text_add_real(&text, real);
    assert_string_equal(text.bytes, expected);
    eplb_text_free(&text);
}

static void check_reals(void)
{
    check_real(0, "0");
    check_real(12, "12");
    check_real(0.1, "0.1");
    check_real(0.1 + 0.2, "0.30000000000000004");
    check_real(-1.0 / 3, "-0.3333333333333333");
    check_real(1e300, "1e+300");
    check_real(DBL_MIN / 2, "1.1125369292536007e-308");
}

static void reals_are_short_and_exact(void **state)
{
    (void)state;
    check_reals();
}

static void reals_are_json_in_every_locale(void **state)
{
    (void)state;
    const enum point_locale kinds[] = {POINT_LOCALE_COMMA, POINT_LOCALE_WIDE};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!point_locale_begin(kinds[i]))
            skip();
        check_reals();
        point_locale_end();
    }
}

static void strings_are_escaped(void **state)
{
    (void)state;
    struct eplb_text text = {0};
    eplb_text_add_string(&text, "a\"b\\c\n\xc3\xa4");
    assert_string_equal(text.bytes, "\"a\\\"b\\\\c\\u000a\xc3\xa4\"");
    eplb_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows),
        cmocka_unit_test(reals_are_short_and_exact),
        cmocka_unit_test(reals_are_json_in_every_locale),
        cmocka_unit_test(strings_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
