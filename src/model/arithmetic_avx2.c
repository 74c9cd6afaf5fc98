/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/kernels.h"

#if EPLB_X86_KERNELS

#include <immintrin.h>
#include <string.h>

#include "base/assert.h"

#define AVX2 static __attribute__((target("avx2,fma")))
#define AVX2_INLINE static inline __attribute__((target("avx2,fma"), always_inline))

enum { LANES = 8 };

/* What is fewer than eight is moved through a full buffer; the lanes behind it count for nothing. */
AVX2_INLINE __m256 load_part(const float *from, int32_t count)
{
    float lanes[LANES] = {0};
    memcpy(lanes, from, (size_t)count * sizeof lanes[0]);
    return _mm256_loadu_ps(lanes);
}

AVX2_INLINE void store_part(float *to, int32_t count, __m256 value)
{
    float lanes[LANES];
    _mm256_storeu_ps(lanes, value);
    memcpy(to, lanes, (size_t)count * sizeof lanes[0]);
}

/* See eplb_exp. Comparison and minimum let what is no number through, as there. */
AVX2_INLINE __m256 exp_lanes(__m256 x)
{
    __m256 in_range = _mm256_cmp_ps(x, _mm256_set1_ps(EPLB_EXP_LEAST), _CMP_NLT_UQ);
    x = _mm256_min_ps(_mm256_set1_ps(EPLB_EXP_MOST), x);
    __m256 shift = _mm256_set1_ps(EPLB_SHIFT);
    __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(EPLB_LOG2_E), shift);
    __m256 n = _mm256_sub_ps(shifted, shift);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EPLB_LN2_HIGH), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EPLB_LN2_LOW), r);
    __m256 one = _mm256_set1_ps(1.0f);
    __m256 sum = _mm256_set1_ps(EPLB_EXP_TERM_7);
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(EPLB_EXP_TERM_6));
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(EPLB_EXP_TERM_5));
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(EPLB_EXP_TERM_4));
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(EPLB_EXP_TERM_3));
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(EPLB_EXP_TERM_2));
    sum = _mm256_fmadd_ps(sum, r, one);
    sum = _mm256_fmadd_ps(sum, r, one);
    __m256i bits = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(EPLB_EXPONENT_BIAS));
    __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(bits, EPLB_MANTISSA_BITS));
    return _mm256_and_ps(_mm256_mul_ps(sum, power), in_range);
}

AVX2 float dot(const float *x, const float *y, int32_t count)
{
    EPLB_ASSERT(count >= 0);
    __m256 sums = _mm256_setzero_ps();
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES)
        sums = _mm256_fmadd_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i), sums);
    if (i < count) {
        /* A lane without a number keeps its sum, and the sign of a zero with it. */
        float chains[LANES];
        _mm256_storeu_ps(chains, sums);
        for (int32_t lane = 0; i + lane < count; lane++)
            chains[lane] = fmaf(x[i + lane], y[i + lane], chains[lane]);
        sums = _mm256_loadu_ps(chains);
    }
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

AVX2 void rms_norm(const float *x, const float *weight, int32_t count, float *to)
{
    EPLB_ASSERT(count > 0);
    float scale = 1.0f / sqrtf(dot(x, x, count) / (float)count + EPLB_RMS_LEAST);
    __m256 scales = _mm256_set1_ps(scale);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES)
        _mm256_storeu_ps(to + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), scales),
                                               _mm256_loadu_ps(weight + i)));
    for (; i < count; i++)
        to[i] = x[i] * scale * weight[i];
}

AVX2_INLINE float largest_of(const float *x, int32_t count)
{
    float largest = x[0];
    for (int32_t i = 1; i < count; i++)
        largest = x[i] > largest ? x[i] : largest;
    return largest;
}

AVX2 void softmax(float *x, int32_t count)
{
    EPLB_ASSERT(count > 0);
    __m256 largest = _mm256_set1_ps(largest_of(x, count));
    int32_t whole = count / LANES * LANES;
    for (int32_t i = 0; i < whole; i += LANES)
        _mm256_storeu_ps(x + i, exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(x + i), largest)));
    if (whole < count)
        store_part(x + whole, count - whole,
                   exp_lanes(_mm256_sub_ps(load_part(x + whole, count - whole), largest)));
    float sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += x[i];
    for (int32_t i = 0; i < whole; i += LANES)
        _mm256_storeu_ps(x + i, _mm256_div_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(sum)));
    for (int32_t i = whole; i < count; i++)
        x[i] /= sum;
}

AVX2_INLINE __m256 gated_lanes(__m256 gate, __m256 up)
{
    __m256 negative = _mm256_xor_ps(gate, _mm256_set1_ps(-0.0f));
    __m256 divisor = _mm256_add_ps(_mm256_set1_ps(1.0f), exp_lanes(negative));
    return _mm256_mul_ps(_mm256_div_ps(gate, divisor), up);
}

AVX2 void gated(const float *gate, const float *up, int32_t count, float *to)
{
    EPLB_ASSERT(count >= 0);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES)
        _mm256_storeu_ps(to + i, gated_lanes(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < count)
        store_part(to + i, count - i,
                   gated_lanes(load_part(gate + i, count - i), load_part(up + i, count - i)));
}

AVX2 void add_scaled(float scale, const float *x, int32_t count, float *to)
{
    EPLB_ASSERT(count >= 0);
    __m256 scales = _mm256_set1_ps(scale);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES)
        _mm256_storeu_ps(to + i, _mm256_fmadd_ps(scales, _mm256_loadu_ps(x + i), _mm256_loadu_ps(to + i)));
    for (; i < count; i++)
        to[i] = fmaf(scale, x[i], to[i]);
}

AVX2 void rope(const float *row, int32_t head_dim, float *x)
{
    eplb_rotate(row, head_dim, x);
}

const struct eplb_arithmetic eplb_arithmetic_avx2 = {.dot = dot,
                                                     .rms_norm = rms_norm,
                                                     .softmax = softmax,
                                                     .gated = gated,
                                                     .add_scaled = add_scaled,
                                                     .rope = rope};

#endif
