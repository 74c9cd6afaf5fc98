/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The rest of the model's arithmetic, row by row. Every function gives the same bits whatever stands in
 * other rows, with every compiler and optimisation level: sums have one fixed order, products that
 * feed a sum are fused explicitly (fmaf), and no library function is used whose last bit is left open.
 */
#ifndef MODEL_ARITHMETIC_H
#define MODEL_ARITHMETIC_H

#include <stdint.h>

/**
 * e to the x, to about one unit in the last place, for x in [-87, 88]; 0 below, and what 88 gives above,
 * so that no infinity or denormal number comes of it.
 */
float eplb_exp(float x);

/** x / (1 + exp(-x)). */
float eplb_silu(float x);

/**
 * Sum of x[i] * y[i] over i: chain j of eight is fmaf over i = j, j + 8, ... from 0, and the chains are
 * added as ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)).
 */
float eplb_dot(const float *x, const float *y, int32_t count);

/**
 * to[i] = (x[i] * scale) * weight[i], where scale is 1 / sqrt(mean of squares + 1e-6) and the squares are
 * added as eplb_dot does. May work in place.
 */
void eplb_rms_norm(const float *x, const float *weight, int32_t count, float *to);

/** Softmax in place, with the largest subtracted first; the sum in ascending order of i. */
void eplb_softmax(float *x, int32_t count);

/** to[i] = silu(gate[i]) * up[i]. May work in place. */
void eplb_gated(const float *gate, const float *up, int32_t count, float *to);

/** to[i] = fmaf(scale, x[i], to[i]). */
void eplb_add_scaled(float scale, const float *x, int32_t count, float *to);

/**
 * Fills a table of rotations [positions][head_dim / 2][cosine, sine], base 10000.
 */
void eplb_rope_table(int32_t positions, int32_t head_dim, float *table);

/** Rotates pairs (x[i], x[i + head_dim / 2]) of one head in place by the row of its position. */
void eplb_rope(const float *row, int32_t head_dim, float *x);

/**
 * The k largest of scores, by score descending, ties to the lowest index.
 *
 * @param ids    receives [k]
 * @param values receives [k] the scores
 */
void eplb_top_k(const float *scores, int32_t count, int32_t k, int32_t *ids, float *values);

/** What there is in several versions, one of which the functions above call. */
struct eplb_arithmetic {
    float (*dot)(const float *x, const float *y, int32_t count);
    void (*rms_norm)(const float *x, const float *weight, int32_t count, float *to);
    void (*softmax)(float *x, int32_t count);
    void (*gated)(const float *gate, const float *up, int32_t count, float *to);
    void (*add_scaled)(float scale, const float *x, int32_t count, float *to);
    void (*rope)(const float *row, int32_t head_dim, float *x);
};

/** A version by name ("plain", "avx2"); NULL when this processor or build lacks it. For tests. */
const struct eplb_arithmetic *eplb_arithmetic_named(const char *name);

#endif
