/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/real.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

/* A decimal of 15 digits survives a double, and a double survives a decimal of 17. */
enum { EXACT_DIGITS = 15, ENOUGH_DIGITS = 17 };

static void print(double value, int digits, char text[EPLB_REAL_TEXT])
{
    EPLB_ASSERT(digits >= 1 && digits <= ENOUGH_DIGITS);
    int length = snprintf(text, EPLB_REAL_TEXT, "%.*g", digits, value);
    EPLB_ASSERT(length > 0 && length < EPLB_REAL_TEXT);
}

/** Whatever is of no number, nor of inf and nan, is the locale's point, which may take several bytes. */
static void set_point(char text[EPLB_REAL_TEXT])
{
    char *out = text;
    bool in_point = false;
    for (const char *in = text; *in != '\0'; in++) {
        bool of_number = (*in >= '0' && *in <= '9') || (*in >= 'a' && *in <= 'z') || *in == '-' || *in == '+';
        if (of_number || !in_point)
            *out++ = of_number ? *in : '.';
        in_point = !of_number;
    }
    *out = '\0';
}

void eplb_real_round(double value, int digits, char text[EPLB_REAL_TEXT])
{
    print(value, digits, text);
    set_point(text);
}

void eplb_real_format(double value, char text[EPLB_REAL_TEXT])
{
    EPLB_ASSERT(isfinite(value));
    int digits = EXACT_DIGITS;
    print(value, digits, text);
    /* Read back before the point is set: strtod goes by the same locale as snprintf. */
    while (digits < ENOUGH_DIGITS && strtod(text, NULL) != value)
        print(value, ++digits, text);
    set_point(text);
}
