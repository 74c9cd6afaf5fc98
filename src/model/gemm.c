/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/gemm.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "model/kernels.h"

static int32_t num_panels(int32_t outer)
{
    return outer / EPLB_PANEL + (outer % EPLB_PANEL != 0);
}

size_t eplb_packed_floats(int32_t inner, int32_t outer)
{
    EPLB_ASSERT(inner > 0 && outer > 0);
    return (size_t)num_panels(outer) * (size_t)inner * EPLB_PANEL;
}

void eplb_pack(const float *matrix, int32_t inner, int32_t outer, float *packed)
{
    EPLB_ASSERT(inner > 0 && outer > 0);
    for (int32_t first = 0; first < outer; first += EPLB_PANEL)
        for (int32_t i = 0; i < inner; i++)
            for (int32_t column = first; column < first + EPLB_PANEL; column++)
                *packed++ = column < outer ? matrix[(size_t)i * (size_t)outer + (size_t)column] : 0;
}

void eplb_gemm_plain(const float *x, int32_t rows, int32_t inner, const float *packed, int32_t outer,
                     float *y)
{
    EPLB_ASSERT(rows >= 0 && inner > 0 && outer > 0);
    for (int32_t row = 0; row < rows; row++) {
        const float *from = x + (size_t)row * (size_t)inner;
        for (int32_t column = 0; column < outer; column++) {
            const float *weight = packed + (size_t)(column / EPLB_PANEL) * (size_t)inner * EPLB_PANEL;
            float sum = 0;
            for (int32_t i = 0; i < inner; i++)
                sum = fmaf(from[i], weight[i * EPLB_PANEL + column % EPLB_PANEL], sum);
            *y++ = sum;
        }
    }
}

/* The fastest first. */
static const char *const names[] = {"avx512", "avx2", "plain"};

eplb_gemm_kernel *eplb_gemm_named(const char *name)
{
#if EPLB_X86_KERNELS
    if (strcmp(name, "avx512") == 0)
        return EPLB_HAS_AVX512 ? eplb_gemm_avx512 : NULL;
    if (strcmp(name, "avx2") == 0)
        return EPLB_HAS_AVX2 ? eplb_gemm_avx2 : NULL;
#endif
    return strcmp(name, "plain") == 0 ? eplb_gemm_plain : NULL;
}

const char *eplb_gemm_name(void)
{
    size_t i = 0;
    while (eplb_gemm_named(names[i]) == NULL)
        i++;
    return names[i];
}

eplb_gemm_kernel *eplb_gemm(void)
{
    return eplb_gemm_named(eplb_gemm_name());
}
