/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "base/real.h"
#include "config/number.h"
#include "support/point_locale.h"

static void integers_are_an_optional_minus_and_digits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"300", 300},
        {"-1", -1},
        {"007", 7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t value = 42;
        assert_true(eplb_integer_read(good[i].text, &value));
        assert_int_equal(value, good[i].value);
    }
}

static void other_texts_are_no_integers(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.5",
                                      "1.0",
                                      "1e3",
                                      "0x1",
                                      "1,000",
                                      "--1",
                                      "1-",
                                      "abc",
                                      "\n1",
                                      "inf",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t value = 42;
        if (eplb_integer_read(bad[i], &value))
            fail_msg("\"%s\" was read", bad[i]);
        assert_int_equal(value, 42);
    }
}

static void check_reals(void)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0", 0.0},
        {"0.05", 0.05},
        {"-1.25", -1.25},
        {"1", 1.0},
        {"00.5", 0.5},
        {"5e-1", 0.5},
        {"1E+2", 100.0},
        {"0e999", 0.0},
        {"0.000", 0.0},
        {"1.7976931348623157e308", DBL_MAX},
        {"2.2250738585072014e-308", DBL_MIN},
        {"9007199254740993", 9007199254740992.0},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double value = 42;
        if (!eplb_real_read(good[i].text, &value))
            fail_msg("\"%s\" was refused", good[i].text);
        assert_memory_equal(&value, &good[i].value, sizeof value);
    }
    static const char *const bad[] = {"",       "-",        "+1",       " 0.05", "0.05 ", "0.05x",  "0x1p-4",
                                      "nan",    "NaN",      "inf",      "-inf",  "1e400", "-1e400", "1e-400",
                                      "5e-324", "0,05",     ".5",       "5.",    "1e",    "1e+",    "e1",
                                      "1.5.2",  "0.1e-320", "infinity", "1e5.5", "--1",   "1 000"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double value = 42;
        if (eplb_real_read(bad[i], &value))
            fail_msg("\"%s\" was read", bad[i]);
        assert_true(value == 42);
    }
    double zero = 42;
    assert_true(eplb_real_read("-0.0", &zero));
    assert_true(zero == 0 && !signbit(zero));
}

static void check_reading_back(void)
{
    char text[EPLB_REAL_TEXT];
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 7);
    for (int i = 0; i < 2000; i++) {
        uint64_t bits = eplb_prng_next(&prng);
        double value;
        double back = 0;
        memcpy(&value, &bits, sizeof value);
        if (!isnormal(value))
            continue;
        eplb_real_format(value, text);
        if (!eplb_real_read(text, &back) || memcmp(&value, &back, sizeof value) != 0)
            fail_msg("seed 7, number %d: %s does not come back", i, text);
    }
}

static void reals_are_strict(void **state)
{
    (void)state;
    check_reals();
    check_reading_back();
}

static void reals_are_the_same_with_a_decimal_comma(void **state)
{
    (void)state;
    if (!point_locale_begin(POINT_LOCALE_COMMA))
        skip();
    check_reals();
    check_reading_back();
    point_locale_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_an_optional_minus_and_digits),
        cmocka_unit_test(other_texts_are_no_integers),
        cmocka_unit_test(reals_are_strict),
        cmocka_unit_test(reals_are_the_same_with_a_decimal_comma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
