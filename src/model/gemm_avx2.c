/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/kernels.h"

#if EPLB_X86_KERNELS

#include <immintrin.h>
#include <string.h>

#include "base/assert.h"

#define AVX2_INLINE static inline __attribute__((target("avx2,fma"), always_inline))

/*
 * A tile of y is some rows times some panels, in registers while the chain over inner runs: 12 of the 16
 * hold sums. See gemm_avx512.c.
 */
struct panels {
    __m256 a, b, c, d, e, f, g, h; /* half a panel each */
};

struct tile {
    const float *x;
    int32_t inner;
    const float *packed;
    size_t panel_floats;
    float *y;
    int32_t outer;
    int32_t last; /* columns of the last panel */
};

AVX2_INLINE struct panels no_sums(void)
{
    __m256 zero = _mm256_setzero_ps();
    return (struct panels){zero, zero, zero, zero, zero, zero, zero, zero};
}

AVX2_INLINE __m256 load(const struct tile *tile, int panel, int half, int32_t i)
{
    return _mm256_loadu_ps(tile->packed + (size_t)panel * tile->panel_floats + (size_t)i * EPLB_PANEL +
                           8 * half);
}

AVX2_INLINE struct panels load_panels(const struct tile *tile, const int panels, int32_t i)
{
    struct panels weights = no_sums();
    weights.a = load(tile, 0, 0, i);
    weights.b = load(tile, 0, 1, i);
    if (panels > 1) {
        weights.c = load(tile, 1, 0, i);
        weights.d = load(tile, 1, 1, i);
    }
    if (panels > 2) {
        weights.e = load(tile, 2, 0, i);
        weights.f = load(tile, 2, 1, i);
        weights.g = load(tile, 3, 0, i);
        weights.h = load(tile, 3, 1, i);
    }
    return weights;
}

AVX2_INLINE void add(const struct tile *tile, const int panels, int row, int32_t i,
                     const struct panels *weights, struct panels *sums)
{
    __m256 x = _mm256_set1_ps(tile->x[(size_t)row * (size_t)tile->inner + (size_t)i]);
    sums->a = _mm256_fmadd_ps(x, weights->a, sums->a);
    sums->b = _mm256_fmadd_ps(x, weights->b, sums->b);
    if (panels > 1) {
        sums->c = _mm256_fmadd_ps(x, weights->c, sums->c);
        sums->d = _mm256_fmadd_ps(x, weights->d, sums->d);
    }
    if (panels > 2) {
        sums->e = _mm256_fmadd_ps(x, weights->e, sums->e);
        sums->f = _mm256_fmadd_ps(x, weights->f, sums->f);
        sums->g = _mm256_fmadd_ps(x, weights->g, sums->g);
        sums->h = _mm256_fmadd_ps(x, weights->h, sums->h);
    }
}

AVX2_INLINE void store_panel(const struct tile *tile, const int panels, int row, int panel, __m256 low,
                             __m256 high)
{
    float *to = tile->y + (size_t)row * (size_t)tile->outer + panel * EPLB_PANEL;
    if (panel < panels - 1 || tile->last == EPLB_PANEL) {
        _mm256_storeu_ps(to, low);
        _mm256_storeu_ps(to + 8, high);
        return;
    }
    float sums[EPLB_PANEL];
    _mm256_storeu_ps(sums, low);
    _mm256_storeu_ps(sums + 8, high);
    memcpy(to, sums, (size_t)tile->last * sizeof sums[0]);
}

AVX2_INLINE void store(const struct tile *tile, const int panels, int row, const struct panels *sums)
{
    store_panel(tile, panels, row, 0, sums->a, sums->b);
    if (panels > 1)
        store_panel(tile, panels, row, 1, sums->c, sums->d);
    if (panels > 2) {
        store_panel(tile, panels, row, 2, sums->e, sums->f);
        store_panel(tile, panels, row, 3, sums->g, sums->h);
    }
}

AVX2_INLINE void run_tile(const struct tile *tile, const int rows, const int panels)
{
    struct panels a = no_sums(), b = a, c = a, d = a, e = a, f = a;
    for (int32_t i = 0; i < tile->inner; i++) {
        const struct panels weights = load_panels(tile, panels, i);
        add(tile, panels, 0, i, &weights, &a);
        if (rows > 1)
            add(tile, panels, 1, i, &weights, &b);
        if (rows > 2) {
            add(tile, panels, 2, i, &weights, &c);
            add(tile, panels, 3, i, &weights, &d);
        }
        if (rows > 4) {
            add(tile, panels, 4, i, &weights, &e);
            add(tile, panels, 5, i, &weights, &f);
        }
    }
    store(tile, panels, 0, &a);
    if (rows > 1)
        store(tile, panels, 1, &b);
    if (rows > 2) {
        store(tile, panels, 2, &c);
        store(tile, panels, 3, &d);
    }
    if (rows > 4) {
        store(tile, panels, 4, &e);
        store(tile, panels, 5, &f);
    }
}

AVX2_INLINE void go_down(struct tile *tile, int rows)
{
    tile->x += (size_t)rows * (size_t)tile->inner;
    tile->y += (size_t)rows * (size_t)tile->outer;
}

/* Rows go by sixes, then by four, two and one: sums do not depend on it. */
AVX2_INLINE void run_rows(struct tile tile, int32_t rows, const int panels)
{
    for (; panels == 1 && rows >= 6; rows -= 6) {
        run_tile(&tile, 6, panels);
        go_down(&tile, 6);
    }
    if (panels == 1 && rows >= 4) {
        run_tile(&tile, 4, panels);
        go_down(&tile, 4);
        rows -= 4;
    }
    if (panels <= 2 && rows >= 2) {
        run_tile(&tile, 2, panels);
        go_down(&tile, 2);
        rows -= 2;
    }
    EPLB_ASSERT(rows <= 1);
    if (rows == 1)
        run_tile(&tile, 1, panels);
}

__attribute__((target("avx2,fma"))) void eplb_gemm_avx2(const float *x, int32_t rows, int32_t inner,
                                                        const float *packed, int32_t outer, float *y)
{
    EPLB_ASSERT(rows >= 0 && inner > 0 && outer > 0);
    struct tile tile = {.x = x, .inner = inner, .packed = packed, .y = y, .outer = outer};
    tile.panel_floats = (size_t)inner * EPLB_PANEL;
    /* A product of few rows needs the more panels to keep both units busy. */
    int32_t most = rows >= 4 ? 1 : rows >= 2 ? 2 : 4;
    int32_t left = (outer - 1) / EPLB_PANEL + 1;
    while (left > 0) {
        int32_t panels = left >= most ? most : left >= 2 ? 2 : 1;
        left -= panels;
        tile.last = left > 0 || outer % EPLB_PANEL == 0 ? EPLB_PANEL : outer % EPLB_PANEL;
        if (panels == 4)
            run_rows(tile, rows, 4);
        else if (panels == 2)
            run_rows(tile, rows, 2);
        else
            run_rows(tile, rows, 1);
        tile.packed += (size_t)panels * tile.panel_floats;
        tile.y += panels * EPLB_PANEL;
    }
    EPLB_ASSERT(tile.packed == packed + eplb_packed_floats(inner, outer));
}

#endif
