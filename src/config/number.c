/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "config/number.h"

#include <locale.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

static const char *skip_digits(const char *text)
{
    while (*text >= '0' && *text <= '9')
        text++;
    return text;
}

bool eplb_integer_read(const char *text, int64_t *value)
{
    bool negative = *text == '-';
    const char *digits = text + negative;
    const char *end = skip_digits(digits);
    if (end == digits || *end != '\0')
        return false;
    int64_t sum = 0;
    for (const char *digit = digits; digit < end; digit++) {
        int step = negative ? '0' - *digit : *digit - '0';
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, step, &sum))
            return false;
    }
    *value = sum;
    return true;
}

static bool is_real(const char *text)
{
    text += *text == '-';
    const char *end = skip_digits(text);
    if (end == text)
        return false;
    if (*end == '.') {
        const char *fraction = end + 1;
        end = skip_digits(fraction);
        if (end == fraction)
            return false;
    }
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1;
        exponent += *exponent == '-' || *exponent == '+';
        end = skip_digits(exponent);
        if (end == exponent)
            return false;
    }
    return *end == '\0';
}

static bool has_nonzero_digit(const char *text)
{
    for (; *text != '\0' && *text != 'e' && *text != 'E'; text++)
        if (*text >= '1' && *text <= '9')
            return true;
    return false;
}

bool eplb_real_read(const char *text, double *value)
{
    if (!is_real(text))
        return false;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    /* Out of memory, which no libc needs for this locale: refused rather than read by another one. */
    if (c_locale == (locale_t)0)
        return false;
    double number = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    if (has_nonzero_digit(text) && !isnormal(number))
        return false;
    *value = number == 0 ? 0.0 : number;
    return true;
}
