/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/kernels.h"

#if EPLB_X86_KERNELS

#include <immintrin.h>

#include "base/assert.h"

#define AVX512_INLINE static inline __attribute__((target("avx512f"), always_inline))

/*
 * A tile of y is some rows times some panels, in registers while the chain over inner runs: 24 of the 32
 * hold sums. Its two sizes are constants wherever it is inlined, and what they leave out is dropped. Rows
 * and panels are named, not numbered, because compilers keep arrays in memory.
 */
struct panels {
    __m512 a, b, c, d, e, f, g, h;
};

struct tile {
    const float *x;
    int32_t inner;
    const float *packed;
    size_t panel_floats;
    float *y;
    int32_t outer;
    __mmask16 last; /* which columns of the last panel there are */
};

AVX512_INLINE struct panels no_sums(void)
{
    __m512 zero = _mm512_setzero_ps();
    return (struct panels){zero, zero, zero, zero, zero, zero, zero, zero};
}

AVX512_INLINE __m512 load(const struct tile *tile, int panel, int32_t i)
{
    return _mm512_loadu_ps(tile->packed + (size_t)panel * tile->panel_floats + (size_t)i * EPLB_PANEL);
}

AVX512_INLINE struct panels load_panels(const struct tile *tile, const int panels, int32_t i)
{
    struct panels weights = no_sums();
    weights.a = load(tile, 0, i);
    if (panels > 1)
        weights.b = load(tile, 1, i);
    if (panels > 2)
        weights.c = load(tile, 2, i);
    if (panels > 3)
        weights.d = load(tile, 3, i);
    if (panels > 4) {
        weights.e = load(tile, 4, i);
        weights.f = load(tile, 5, i);
        weights.g = load(tile, 6, i);
        weights.h = load(tile, 7, i);
    }
    return weights;
}

AVX512_INLINE void add(const struct tile *tile, const int panels, int row, int32_t i,
                       const struct panels *weights, struct panels *sums)
{
    __m512 x = _mm512_set1_ps(tile->x[(size_t)row * (size_t)tile->inner + (size_t)i]);
    sums->a = _mm512_fmadd_ps(x, weights->a, sums->a);
    if (panels > 1)
        sums->b = _mm512_fmadd_ps(x, weights->b, sums->b);
    if (panels > 2)
        sums->c = _mm512_fmadd_ps(x, weights->c, sums->c);
    if (panels > 3)
        sums->d = _mm512_fmadd_ps(x, weights->d, sums->d);
    if (panels > 4) {
        sums->e = _mm512_fmadd_ps(x, weights->e, sums->e);
        sums->f = _mm512_fmadd_ps(x, weights->f, sums->f);
        sums->g = _mm512_fmadd_ps(x, weights->g, sums->g);
        sums->h = _mm512_fmadd_ps(x, weights->h, sums->h);
    }
}

AVX512_INLINE void store_panel(const struct tile *tile, const int panels, int row, int panel, __m512 sum)
{
    float *to = tile->y + (size_t)row * (size_t)tile->outer + panel * EPLB_PANEL;
    _mm512_mask_storeu_ps(to, panel == panels - 1 ? tile->last : (__mmask16)0xffff, sum);
}

AVX512_INLINE void store(const struct tile *tile, const int panels, int row, const struct panels *sums)
{
    store_panel(tile, panels, row, 0, sums->a);
    if (panels > 1)
        store_panel(tile, panels, row, 1, sums->b);
    if (panels > 2)
        store_panel(tile, panels, row, 2, sums->c);
    if (panels > 3)
        store_panel(tile, panels, row, 3, sums->d);
    if (panels > 4) {
        store_panel(tile, panels, row, 4, sums->e);
        store_panel(tile, panels, row, 5, sums->f);
        store_panel(tile, panels, row, 6, sums->g);
        store_panel(tile, panels, row, 7, sums->h);
    }
}

AVX512_INLINE void run_tile(const struct tile *tile, const int rows, const int panels)
{
    struct panels a = no_sums(), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
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
            add(tile, panels, 6, i, &weights, &g);
            add(tile, panels, 7, i, &weights, &h);
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
        store(tile, panels, 6, &g);
        store(tile, panels, 7, &h);
    }
}

AVX512_INLINE void go_down(struct tile *tile, int rows)
{
    tile->x += (size_t)rows * (size_t)tile->inner;
    tile->y += (size_t)rows * (size_t)tile->outer;
}

/* Rows go by eights, then by four, two and one: sums do not depend on it. */
AVX512_INLINE void run_rows(struct tile tile, int32_t rows, const int panels)
{
    for (; panels <= 3 && rows >= 8; rows -= 8) {
        run_tile(&tile, 8, panels);
        go_down(&tile, 8);
    }
    if (panels <= 4 && rows >= 4) {
        run_tile(&tile, 4, panels);
        go_down(&tile, 4);
        rows -= 4;
    }
    if (panels <= 4 && rows >= 2) {
        run_tile(&tile, 2, panels);
        go_down(&tile, 2);
        rows -= 2;
    }
    EPLB_ASSERT(rows <= 1);
    if (rows == 1)
        run_tile(&tile, 1, panels);
}

__attribute__((target("avx512f"))) void eplb_gemm_avx512(const float *x, int32_t rows, int32_t inner,
                                                         const float *packed, int32_t outer, float *y)
{
    EPLB_ASSERT(rows >= 0 && inner > 0 && outer > 0);
    struct tile tile = {.x = x, .inner = inner, .packed = packed, .y = y, .outer = outer};
    tile.panel_floats = (size_t)inner * EPLB_PANEL;
    /* A product of few rows needs the more panels to keep both units busy. */
    int32_t most = rows >= 8 ? 3 : rows >= 2 ? 4 : 8;
    int32_t left = (outer - 1) / EPLB_PANEL + 1;
    while (left > 0) {
        int32_t panels = left >= most ? most : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        left -= panels;
        int32_t columns = outer % EPLB_PANEL;
        tile.last = (__mmask16)(left > 0 || columns == 0 ? 0xffffu : (1u << columns) - 1);
        if (panels == 8)
            run_rows(tile, rows, 8);
        else if (panels == 4)
            run_rows(tile, rows, 4);
        else if (panels == 3)
            run_rows(tile, rows, 3);
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
