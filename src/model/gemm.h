/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Matrix products over packed weights: the model's private format.
 *
 * A weight matrix W [inner][outer] is packed in panels of EPLB_PANEL columns, the last one filled up
 * with zeros: panel p holds, for each i in [0, inner), the row W[i][p * EPLB_PANEL ...].
 *
 * Batch-invariant: y[m][n] is one chain of fused multiply-adds over i = 0, 1, ..., inner - 1 from 0, in
 * single precision, whatever the number of rows, the row's place in the batch, and the instructions
 * used. So the same token has the same bits in every batch, on every rank and machine. (What is no number
 * has no fixed bits.)
 */
#ifndef MODEL_GEMM_H
#define MODEL_GEMM_H

#include <stddef.h>
#include <stdint.h>

/** Columns of a panel: two registers of 256 bits, one of 512. */
#define EPLB_PANEL 16

/** Floats that a packed matrix takes. */
size_t eplb_packed_floats(int32_t inner, int32_t outer);

/** Packs W, row-major [inner][outer]. */
void eplb_pack(const float *matrix, int32_t inner, int32_t outer, float *packed);

/** y = x W: x [rows][inner], y [rows][outer], both row-major and dense; they do not overlap. */
typedef void eplb_gemm_kernel(const float *x, int32_t rows, int32_t inner, const float *packed, int32_t outer,
                              float *y);

/** The fastest kernel that this processor has: always the same. Thread-safe. */
eplb_gemm_kernel *eplb_gemm(void);

/** The plain twin: fmaf in three loops. Slow, and slower still where the processor has no such operation. */
void eplb_gemm_plain(const float *x, int32_t rows, int32_t inner, const float *packed, int32_t outer,
                     float *y);

/** A kernel by name ("plain", "avx2", "avx512"); NULL when this processor or build lacks it. For tests. */
eplb_gemm_kernel *eplb_gemm_named(const char *name);

/** The name of what eplb_gemm returns. */
const char *eplb_gemm_name(void);

#endif
