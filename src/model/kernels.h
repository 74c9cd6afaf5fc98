/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What is there once for every processor and again for one with extensions. The latter are compiled by
 * function attributes, so that one build runs everywhere, and may be called only where EPLB_HAS_... is
 * true. Each gives the same bits as its plain twin.
 */
#ifndef MODEL_KERNELS_H
#define MODEL_KERNELS_H

#include <math.h>

#include "base/assert.h"
#include "model/arithmetic.h"
#include "model/gemm.h"

#if defined(__x86_64__)
#define EPLB_X86_KERNELS 1
#define EPLB_HAS_AVX2 (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#define EPLB_HAS_AVX512 (EPLB_HAS_AVX2 && __builtin_cpu_supports("avx512f"))

void eplb_gemm_avx2(const float *x, int32_t rows, int32_t inner, const float *packed, int32_t outer,
                    float *y);
void eplb_gemm_avx512(const float *x, int32_t rows, int32_t inner, const float *packed, int32_t outer,
                      float *y);
extern const struct eplb_arithmetic eplb_arithmetic_avx2;
#else
#define EPLB_X86_KERNELS 0
#endif

/*
 * e^x = 2^n e^r, where n is the integer nearest to x / ln 2 and r the rest, by seven terms of the series.
 * Added to 1.5 * 2^23, a number loses its fraction and leaves its integer in the lowest bits. Between the
 * bounds, 2^n and the result are normal numbers.
 */
#define EPLB_EXP_LEAST (-87.0f)
#define EPLB_EXP_MOST 88.0f
#define EPLB_LOG2_E 0x1.715476p+0f
#define EPLB_SHIFT 0x1.8p23f
#define EPLB_LN2_HIGH 0x1.62e430p-1f
#define EPLB_LN2_LOW (-0x1.05c610p-29f)
#define EPLB_EXP_TERM_7 (1.0f / 5040)
#define EPLB_EXP_TERM_6 (1.0f / 720)
#define EPLB_EXP_TERM_5 (1.0f / 120)
#define EPLB_EXP_TERM_4 (1.0f / 24)
#define EPLB_EXP_TERM_3 (1.0f / 6)
#define EPLB_EXP_TERM_2 0.5f
#define EPLB_EXPONENT_BIAS 127
#define EPLB_MANTISSA_BITS 23

#define EPLB_RMS_LEAST 1e-6f

/** eplb_rope's text, for the compiler to make what the caller's attributes allow of it. */
static inline __attribute__((always_inline)) void eplb_rotate(const float *row, int32_t head_dim, float *x)
{
    EPLB_ASSERT(head_dim >= 0 && head_dim % 2 == 0);
    int32_t half = head_dim / 2;
    for (int32_t i = 0; i < half; i++) {
        float cosine = row[2 * i];
        float sine = row[2 * i + 1];
        float first = x[i];
        float second = x[i + half];
        x[i] = fmaf(first, cosine, -(second * sine));
        x[i + half] = fmaf(first, sine, second * cosine);
    }
}

#endif
