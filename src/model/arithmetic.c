/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/arithmetic.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "model/kernels.h"

/* The scalar form of exp_lanes in arithmetic_avx2.c: a change to one changes the other. */
float eplb_exp(float x)
{
    if (x < EPLB_EXP_LEAST)
        return 0;
    x = x > EPLB_EXP_MOST ? EPLB_EXP_MOST : x;
    float shifted = fmaf(x, EPLB_LOG2_E, EPLB_SHIFT);
    float n = shifted - EPLB_SHIFT;
    float r = fmaf(n, -EPLB_LN2_HIGH, x);
    r = fmaf(n, -EPLB_LN2_LOW, r);
    float sum = EPLB_EXP_TERM_7;
    sum = fmaf(sum, r, EPLB_EXP_TERM_6);
    sum = fmaf(sum, r, EPLB_EXP_TERM_5);
    sum = fmaf(sum, r, EPLB_EXP_TERM_4);
    sum = fmaf(sum, r, EPLB_EXP_TERM_3);
    sum = fmaf(sum, r, EPLB_EXP_TERM_2);
    sum = fmaf(sum, r, 1.0f);
    sum = fmaf(sum, r, 1.0f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + EPLB_EXPONENT_BIAS) << EPLB_MANTISSA_BITS;
    float power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

float eplb_silu(float x)
{
    return x / (1.0f + eplb_exp(-x));
}

static float plain_dot(const float *x, const float *y, int32_t count)
{
    EPLB_ASSERT(count >= 0);
    float sums[8] = {0};
    for (int32_t i = 0; i < count; i++)
        sums[i % 8] = fmaf(x[i], y[i], sums[i % 8]);
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

static void plain_rms_norm(const float *x, const float *weight, int32_t count, float *to)
{
    EPLB_ASSERT(count > 0);
    float scale = 1.0f / sqrtf(plain_dot(x, x, count) / (float)count + EPLB_RMS_LEAST);
    for (int32_t i = 0; i < count; i++)
        to[i] = x[i] * scale * weight[i];
}

static void plain_softmax(float *x, int32_t count)
{
    EPLB_ASSERT(count > 0);
    float largest = x[0];
    for (int32_t i = 1; i < count; i++)
        largest = x[i] > largest ? x[i] : largest;
    float sum = 0;
    for (int32_t i = 0; i < count; i++) {
        x[i] = eplb_exp(x[i] - largest);
        sum += x[i];
    }
    for (int32_t i = 0; i < count; i++)
        x[i] /= sum;
}

static void plain_gated(const float *gate, const float *up, int32_t count, float *to)
{
    EPLB_ASSERT(count >= 0);
    for (int32_t i = 0; i < count; i++)
        to[i] = eplb_silu(gate[i]) * up[i];
}

static void plain_add_scaled(float scale, const float *x, int32_t count, float *to)
{
    EPLB_ASSERT(count >= 0);
    for (int32_t i = 0; i < count; i++)
        to[i] = fmaf(scale, x[i], to[i]);
}

static void plain_rope(const float *row, int32_t head_dim, float *x)
{
    eplb_rotate(row, head_dim, x);
}

/* e^x of x in [-16, 0] by the series on a sixteenth, squared four times; only + - * / of doubles. */
static double exp_double(double x)
{
    EPLB_ASSERT(x >= -16 && x <= 0);
    double part = x / 16;
    double sum = 1;
    for (int term = 20; term >= 1; term--)
        sum = 1 + sum * part / term;
    for (int i = 0; i < 4; i++)
        sum *= sum;
    return sum;
}

/* The series of an angle in [0, 1]. */
static void turn(double angle, double *cosine, double *sine)
{
    EPLB_ASSERT(angle >= 0 && angle <= 1);
    double square = angle * angle;
    double even = 1;
    double odd = 1;
    for (int term = 20; term >= 2; term -= 2) {
        even = 1 - even * square / (term * (term - 1));
        odd = 1 - odd * square / (term * (term + 1));
    }
    *cosine = even;
    *sine = odd * angle;
}

void eplb_rope_table(int32_t positions, int32_t head_dim, float *table)
{
    EPLB_ASSERT(positions > 0 && head_dim > 0 && head_dim % 2 == 0);
    const double log_base = 9.210340371976182736;
    for (int32_t pair = 0; pair < head_dim / 2; pair++) {
        double step_cosine;
        double step_sine;
        turn(exp_double(-2 * log_base * pair / head_dim), &step_cosine, &step_sine);
        double cosine = 1;
        double sine = 0;
        for (int32_t position = 0; position < positions; position++) {
            float *entry = table + (size_t)position * (size_t)head_dim + 2 * (size_t)pair;
            entry[0] = (float)cosine;
            entry[1] = (float)sine;
            double next = cosine * step_cosine - sine * step_sine;
            sine = sine * step_cosine + cosine * step_sine;
            cosine = next;
        }
    }
}

void eplb_top_k(const float *scores, int32_t count, int32_t k, int32_t *ids, float *values)
{
    EPLB_ASSERT(k >= 1 && k <= count);
    int32_t taken = 0;
    for (int32_t i = 0; i < count; i++) {
        if (taken == k && !(scores[i] > values[k - 1]))
            continue;
        int32_t place = taken < k ? taken++ : k - 1;
        for (; place > 0 && scores[i] > values[place - 1]; place--) {
            values[place] = values[place - 1];
            ids[place] = ids[place - 1];
        }
        values[place] = scores[i];
        ids[place] = i;
    }
    EPLB_ASSERT(taken == k);
}

static const struct eplb_arithmetic plain = {.dot = plain_dot,
                                             .rms_norm = plain_rms_norm,
                                             .softmax = plain_softmax,
                                             .gated = plain_gated,
                                             .add_scaled = plain_add_scaled,
                                             .rope = plain_rope};

static const struct eplb_arithmetic *fastest(void)
{
#if EPLB_X86_KERNELS
    if (EPLB_HAS_AVX2)
        return &eplb_arithmetic_avx2;
#endif
    return &plain;
}

const struct eplb_arithmetic *eplb_arithmetic_named(const char *name)
{
    if (strcmp(name, "plain") == 0)
        return &plain;
    return strcmp(name, "avx2") == 0 && fastest() != &plain ? fastest() : NULL;
}

float eplb_dot(const float *x, const float *y, int32_t count)
{
    return fastest()->dot(x, y, count);
}

void eplb_rms_norm(const float *x, const float *weight, int32_t count, float *to)
{
    fastest()->rms_norm(x, weight, count, to);
}

void eplb_softmax(float *x, int32_t count)
{
    fastest()->softmax(x, count);
}

void eplb_gated(const float *gate, const float *up, int32_t count, float *to)
{
    fastest()->gated(gate, up, count, to);
}

void eplb_add_scaled(float scale, const float *x, int32_t count, float *to)
{
    fastest()->add_scaled(scale, x, count, to);
}

void eplb_rope(const float *row, int32_t head_dim, float *x)
{
    fastest()->rope(row, head_dim, x);
}
