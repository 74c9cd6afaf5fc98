/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * How fast the kernels multiply a few rows by packed weights, as decoding does. Beside each, in the same
 * run: what its instructions give at best, which a loop of fused multiply-adds in registers measures, what
 * reading the weights alone takes, and the plain twin.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/prng.h"
#include "model/gemm.h"
#include "support/bench.h"

enum { PEAK_ROUNDS = 100000, CHAINS = 12 };

struct size {
    int32_t inner;
    int32_t outer;
};

static const struct size sizes[] = {{64, 256}, {128, 64}, {512, 2048}, {1024, 512}, {2048, 4096}};
static const struct size quick_sizes[] = {{64, 256}};
static const int32_t row_counts[] = {1, 4, 16, 64};
static const int32_t quick_row_counts[] = {1, 5};

struct product {
    eplb_gemm_kernel *kernel;
    int32_t rows;
    struct size size;
    int32_t repeats; /* of the product in one measurement, so that a small one fills some time */
    float *x;
    float *packed;
    float *y;
    float *expected;
};

static double operations(const struct product *work)
{
    return 2.0 * work->rows * work->size.inner * work->size.outer;
}

/* ------------------------------------------------------------------------------------- the limit */

/* The compiler must take the chains for needed. */
static volatile float sink;

static void peak_plain(void *context)
{
    (void)context;
    float sums[CHAINS] = {0};
    for (int32_t i = 0; i < PEAK_ROUNDS; i++)
        for (int chain = 0; chain < CHAINS; chain++)
            sums[chain] = fmaf(sums[chain], 0.5f, 1.0f);
    for (int chain = 0; chain < CHAINS; chain++)
        sink = sums[chain];
}

#if defined(__x86_64__)
/* The sums of a chain are asked for in a register after each round, so that none is merged or dropped. */
#define KEEP(a, b, c, d) __asm__ volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d))

__attribute__((target("avx2,fma"))) static void peak_avx2(void *context)
{
    (void)context;
    __m256 half = _mm256_set1_ps(0.5f);
    __m256 a = half, b = half, c = half, d = half, e = half, f = half, g = half, h = half, i = half, j = half,
           k = half, l = half;
    for (int32_t round = 0; round < PEAK_ROUNDS; round++) {
        a = _mm256_fmadd_ps(a, half, half);
        b = _mm256_fmadd_ps(b, half, half);
        c = _mm256_fmadd_ps(c, half, half);
        d = _mm256_fmadd_ps(d, half, half);
        e = _mm256_fmadd_ps(e, half, half);
        f = _mm256_fmadd_ps(f, half, half);
        g = _mm256_fmadd_ps(g, half, half);
        h = _mm256_fmadd_ps(h, half, half);
        i = _mm256_fmadd_ps(i, half, half);
        j = _mm256_fmadd_ps(j, half, half);
        k = _mm256_fmadd_ps(k, half, half);
        l = _mm256_fmadd_ps(l, half, half);
        KEEP(a, b, c, d);
        KEEP(e, f, g, h);
        KEEP(i, j, k, l);
    }
}

__attribute__((target("avx512f"))) static void peak_avx512(void *context)
{
    (void)context;
    __m512 half = _mm512_set1_ps(0.5f);
    __m512 a = half, b = half, c = half, d = half, e = half, f = half, g = half, h = half, i = half, j = half,
           k = half, l = half;
    for (int32_t round = 0; round < PEAK_ROUNDS; round++) {
        a = _mm512_fmadd_ps(a, half, half);
        b = _mm512_fmadd_ps(b, half, half);
        c = _mm512_fmadd_ps(c, half, half);
        d = _mm512_fmadd_ps(d, half, half);
        e = _mm512_fmadd_ps(e, half, half);
        f = _mm512_fmadd_ps(f, half, half);
        g = _mm512_fmadd_ps(g, half, half);
        h = _mm512_fmadd_ps(h, half, half);
        i = _mm512_fmadd_ps(i, half, half);
        j = _mm512_fmadd_ps(j, half, half);
        k = _mm512_fmadd_ps(k, half, half);
        l = _mm512_fmadd_ps(l, half, half);
        KEEP(a, b, c, d);
        KEEP(e, f, g, h);
        KEEP(i, j, k, l);
    }
}
#endif

struct limit {
    const char *name;
    void (*run)(void *context);
    int lanes;
};

static const struct limit limits[] = {
    {"plain", peak_plain, 1},
#if defined(__x86_64__)
    {"avx2", peak_avx2, 8},
    {"avx512", peak_avx512, 16},
#endif
};

static double peak_gflops(const struct limit *limit, int repetitions)
{
    double operations_of_run = 2.0 * CHAINS * PEAK_ROUNDS * limit->lanes;
    return operations_of_run / eplb_bench_measure(limit->run, NULL, 2, repetitions).minimum * 1e-9;
}

/* What one row costs at least: its weights are read once. */
struct reading {
    const float *floats;
    size_t count; /* a multiple of 8 * 4 */
};

#if defined(__x86_64__)
#define WIDE_LOADS __attribute__((target("avx2")))
#else
#define WIDE_LOADS
#endif

typedef uint64_t lanes __attribute__((vector_size(32), aligned(16), may_alias));

WIDE_LOADS static void read_all(void *context)
{
    const struct reading *reading = context;
    lanes a = {0}, b = a, c = a, d = a;
    for (size_t i = 0; i < reading->count; i += 8 * 4) {
        const lanes *from = (const void *)(reading->floats + i);
        a |= from[0];
        b |= from[1];
        c |= from[2];
        d |= from[3];
    }
    a = a | b | c | d;
    sink = (float)(a[0] | a[1] | a[2] | a[3]);
}

/* ---------------------------------------------------------------------------------- the products */

static void multiply(void *context)
{
    const struct product *work = context;
    for (int32_t i = 0; i < work->repeats; i++)
        work->kernel(work->x, work->rows, work->size.inner, work->packed, work->size.outer, work->y);
}

static float *random_floats(struct eplb_prng *prng, size_t count)
{
    float *floats = eplb_bench_allocate(count, sizeof *floats);
    for (size_t i = 0; i < count; i++)
        floats[i] = (float)eplb_prng_real(prng) - 0.5f;
    return floats;
}

static struct product set_up(struct size size, int32_t rows)
{
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 1);
    struct product work = {.rows = rows, .size = size};
    size_t results = (size_t)rows * (size_t)size.outer;
    work.x = random_floats(&prng, (size_t)rows * (size_t)size.inner);
    work.packed = random_floats(&prng, eplb_packed_floats(size.inner, size.outer));
    work.y = eplb_bench_allocate(results, sizeof *work.y);
    work.expected = eplb_bench_allocate(results, sizeof *work.expected);
    return work;
}

static void tear_down(struct product *work)
{
    free(work->expected);
    free(work->y);
    free(work->packed);
    free(work->x);
}

static double gflops(struct product *work, eplb_gemm_kernel *kernel, double operations_per_measurement,
                     int repetitions)
{
    work->kernel = kernel;
    work->repeats = 1 + (int32_t)(operations_per_measurement / operations(work));
    double seconds = eplb_bench_measure(multiply, work, 1, repetitions).minimum;
    return operations(work) * work->repeats / seconds * 1e-9;
}

static void bench_product(struct eplb_bench_report *report, struct size size, int32_t rows,
                          const double *peaks, int quick)
{
    struct product work = set_up(size, rows);
    eplb_gemm_plain(work.x, rows, size.inner, work.packed, size.outer, work.expected);
    double plain = gflops(&work, eplb_gemm_plain, 1e5, quick ? 1 : 3);
    struct reading reading = {work.packed, eplb_packed_floats(size.inner, size.outer)};
    double read_seconds = eplb_bench_measure(read_all, &reading, 2, quick ? 3 : 200).minimum;
    double read = (double)reading.count * sizeof(float) / read_seconds * 1e-9;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        eplb_gemm_kernel *kernel = eplb_gemm_named(limits[i].name);
        if (kernel == NULL || kernel == eplb_gemm_plain)
            continue;
        double best = gflops(&work, kernel, quick ? 1e5 : 2e7, quick ? 2 : 15);
        /* A figure of code that computes something else is worth nothing. */
        if (memcmp(work.y, work.expected, (size_t)rows * (size_t)size.outer * sizeof *work.y) != 0)
            eplb_bench_fail("a kernel and its plain twin disagree");
        const struct eplb_bench_cell cells[] = {
            EPLB_BENCH_CELL_TEXT("kernel", limits[i].name),
            EPLB_BENCH_CELL_INT("rows", rows),
            EPLB_BENCH_CELL_INT("inner", size.inner),
            EPLB_BENCH_CELL_INT("outer", size.outer),
            EPLB_BENCH_CELL_REAL("gflops", best),
            EPLB_BENCH_CELL_REAL("peak_gflops", peaks[i]),
            EPLB_BENCH_CELL_REAL("of_peak", best / peaks[i]),
            EPLB_BENCH_CELL_REAL("plain_gflops", plain),
            EPLB_BENCH_CELL_REAL("weights_gb_per_s", best * 2 / rows),
            EPLB_BENCH_CELL_REAL("read_gb_per_s", read),
        };
        eplb_bench_row(report, cells, sizeof cells / sizeof cells[0]);
    }
    tear_down(&work);
}

int main(int argc, char **argv)
{
    struct eplb_bench_options options;
    int code = eplb_bench_parse(
        argc, argv, "Products of a few rows and packed weights beside what the processor's units do at best.",
        &options);
    if (code >= 0)
        return code;
    double peaks[sizeof limits / sizeof limits[0]];
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        peaks[i] =
            eplb_gemm_named(limits[i].name) == NULL ? 0 : peak_gflops(&limits[i], options.quick ? 3 : 30);
    struct eplb_bench_report report = {.json = options.json};
    const struct size *chosen = options.quick ? quick_sizes : sizes;
    const int32_t *rows = options.quick ? quick_row_counts : row_counts;
    size_t num_sizes =
        options.quick ? sizeof quick_sizes / sizeof quick_sizes[0] : sizeof sizes / sizeof sizes[0];
    size_t num_rows = options.quick ? sizeof quick_row_counts / sizeof quick_row_counts[0]
                                    : sizeof row_counts / sizeof row_counts[0];
    for (size_t i = 0; i < num_sizes; i++)
        for (size_t j = 0; j < num_rows; j++)
            bench_product(&report, chosen[i], rows[j], peaks, options.quick);
    return eplb_bench_end(&report);
}
