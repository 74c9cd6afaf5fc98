/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "floats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float floats_draw(struct eplb_prng *prng, float size)
{
    return (float)(2 * eplb_prng_real(prng) - 1) * size;
}

/* Two statements, since compilers choose the order of two arguments. */
static float draw_wide(struct eplb_prng *prng)
{
    int exponent = (int)eplb_prng_below(prng, 161) - 140;
    return ldexpf(floats_draw(prng, 1), exponent);
}

void floats_fill(struct eplb_prng *prng, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t kind = eplb_prng_below(prng, 16);
        if (kind == 0)
            to[i] = 0.0f;
        else if (kind == 1)
            to[i] = -0.0f;
        else if (kind < 6)
            to[i] = draw_wide(prng);
        else
            to[i] = floats_draw(prng, 2);
    }
}

void floats_same(const float *actual, const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bits_of(actual[i]) != bits_of(expected[i]))
            fail_msg("float %zu of %zu is %a, not %a", i, count, (double)actual[i], (double)expected[i]);
}

uint64_t floats_digest(const float *floats, size_t count)
{
    /* FNV-1a over the bits of each. */
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++)
        digest = (digest ^ bits_of(floats[i])) * UINT64_C(0x100000001b3);
    return digest;
}
