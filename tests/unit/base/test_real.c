/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/real.h"
#include "support/death.h"
#include "support/point_locale.h"

static void check_rounding(void)
{
    static const struct {
        double value;
        int digits;
        const char *text;
    } rows[] = {
        {0.5, 6, "0.5"},
        {-1.25e-9, 6, "-1.25e-09"},
        {1.0 / 3, 1, "0.3"},
        {1234567, 6, "1.23457e+06"},
        {2, 6, "2"},
        {-DBL_MIN, 17, "-2.2250738585072014e-308"},
        {(double)INFINITY, 6, "inf"},
        {-(double)INFINITY, 6, "-inf"},
        {(double)NAN, 6, "nan"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[EPLB_REAL_TEXT];
        eplb_real_round(rows[i].value, rows[i].digits, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void check_formats(void)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {300, "300"},
        {0.05, "0.05"},
        {-0.1, "-0.1"},
        {1e300, "1e+300"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {DBL_MIN / 2, "1.1125369292536007e-308"},
        {-DBL_MAX, "-1.7976931348623157e+308"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[EPLB_REAL_TEXT];
        eplb_real_format(rows[i].value, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void reals_have_a_point(void **state)
{
    (void)state;
    check_rounding();
    check_formats();
}

static void reals_have_a_point_where_the_host_has_a_comma(void **state)
{
    (void)state;
    if (!point_locale_begin(POINT_LOCALE_COMMA))
        skip();
    check_rounding();
    check_formats();
    point_locale_end();
}

static void reals_have_one_point_where_the_host_writes_two_bytes(void **state)
{
    (void)state;
    if (!point_locale_begin(POINT_LOCALE_WIDE))
        skip();
    check_rounding();
    check_formats();
    point_locale_end();
}

static size_t digits_of(const char *text)
{
    size_t digits = 0;
    for (const char *c = text + strspn(text, "-0."); *c != '\0' && *c != 'e'; c++)
        digits += *c >= '0' && *c <= '9';
    return digits;
}

static void formats_come_back_and_are_short(void **state)
{
    (void)state;
    enum { RUNS = 5000 };
    const uint64_t seed = 20240611;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    size_t longer = 0;
    for (int run = 0; run < RUNS; run++) {
        uint64_t bits = eplb_prng_next(&prng);
        char text[EPLB_REAL_TEXT];
        char shorter[EPLB_REAL_TEXT];
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        eplb_real_format(value, text);
        double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof back) != 0)
            fail_msg("run %d: %s does not come back", run, text);
        int digits = (int)digits_of(text);
        assert_in_range(digits, 1, 17);
        if (digits > 15) {
            longer++;
            eplb_real_round(value, digits - 1, shorter);
            assert_true(strtod(shorter, NULL) != value);
        }
    }
    assert_true(longer > RUNS / 2);
}

static void format_nan(void *argument)
{
    (void)argument;
    char text[EPLB_REAL_TEXT];
    eplb_real_format((double)NAN, text);
}

static void only_finite_reals_come_back(void **state)
{
    (void)state;
    char errors[256];
    assert_int_equal(death_of(format_nan, NULL, errors, sizeof errors), SIGABRT);
    assert_non_null(strstr(errors, "assertion failed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reals_have_a_point),
        cmocka_unit_test(reals_have_a_point_where_the_host_has_a_comma),
        cmocka_unit_test(reals_have_one_point_where_the_host_writes_two_bytes),
        cmocka_unit_test(formats_come_back_and_are_short),
        cmocka_unit_test(only_finite_reals_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
