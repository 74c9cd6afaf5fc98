/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "floats.h"
#include "model/gemm.h"

enum { SEED = 11, GUARD = 40 };

/* A bit pattern that no product gives: whoever finds it changed wrote where it must not. */
static const float UNTOUCHED = -0x1.abcdefp+77f;

static const char *const kernel_names[] = {"plain", "avx2", "avx512"};
enum { NUM_KERNELS = sizeof kernel_names / sizeof kernel_names[0] };

struct product {
    int32_t rows;
    int32_t inner;
    int32_t outer;
    float *x;
    float *matrix;
    float *packed;
    float *expected;
    float *y;
};

static float *allocate(size_t count)
{
    float *floats = malloc((count + GUARD) * sizeof *floats);
    assert_non_null(floats);
    for (size_t i = 0; i < count + GUARD; i++)
        floats[i] = UNTOUCHED;
    return floats;
}

static size_t size_of(const struct product *product)
{
    return (size_t)product->rows * (size_t)product->outer;
}

static struct product make(struct eplb_prng *prng, int32_t rows, int32_t inner, int32_t outer)
{
    struct product product = {.rows = rows, .inner = inner, .outer = outer};
    size_t num_weights = (size_t)inner * (size_t)outer;
    size_t num_inputs = (size_t)rows * (size_t)inner;
    product.x = allocate(num_inputs);
    product.matrix = allocate(num_weights);
    product.packed = allocate(eplb_packed_floats(inner, outer));
    product.expected = allocate(size_of(&product));
    product.y = allocate(size_of(&product));
    floats_fill(prng, num_inputs, product.x);
    floats_fill(prng, num_weights, product.matrix);
    eplb_pack(product.matrix, inner, outer, product.packed);
    return product;
}

static void discard(struct product *product)
{
    free(product->y);
    free(product->expected);
    free(product->packed);
    free(product->matrix);
    free(product->x);
}

/* Straight from the definition, over the matrix that was never packed. */
static void compute_expected(struct product *product)
{
    float *to = product->expected;
    for (int32_t row = 0; row < product->rows; row++)
        for (int32_t column = 0; column < product->outer; column++) {
            float sum = 0;
            for (int32_t i = 0; i < product->inner; i++)
                sum = fmaf(product->x[row * product->inner + i], product->matrix[i * product->outer + column],
                           sum);
            *to++ = sum;
        }
}

static void check(const struct product *product, eplb_gemm_kernel *kernel)
{
    kernel(product->x, product->rows, product->inner, product->packed, product->outer, product->y);
    floats_same(product->y, product->expected, size_of(product));
    for (size_t i = 0; i < GUARD; i++)
        floats_same(product->y + size_of(product) + i, &UNTOUCHED, 1);
}

static void packing_goes_by_panels_and_fills_up_with_zeros(void **state)
{
    (void)state;
    enum { INNER = 3, OUTER = 18 };
    float matrix[INNER * OUTER];
    float packed[2 * INNER * EPLB_PANEL];
    for (int i = 0; i < INNER * OUTER; i++)
        matrix[i] = (float)i + 1;
    assert_int_equal(eplb_packed_floats(INNER, OUTER), 2 * INNER * EPLB_PANEL);
    assert_int_equal(eplb_packed_floats(INNER, 16), INNER * EPLB_PANEL);
    assert_int_equal(eplb_packed_floats(8192, 32768), 268435456);
    eplb_pack(matrix, INNER, OUTER, packed);
    for (int i = 0; i < INNER; i++)
        for (int column = 0; column < 2 * EPLB_PANEL; column++) {
            float found = packed[(column / EPLB_PANEL * INNER + i) * EPLB_PANEL + column % EPLB_PANEL];
            assert_true(found == (column < OUTER ? (float)(i * OUTER + column) + 1 : 0.0f));
        }
}

static void products_are_fused_and_summed_in_order(void **state)
{
    (void)state;
    /* (1 + e)(1 - e) - 1 is -e^2 when fused and 0 when not; the large pair comes first or the small is
     * lost. */
    const float e = 0x1p-20f;
    const float x[] = {-1, 1 + e, 0x1p60f, -0x1p60f, 3};
    const float column[] = {1, 1 - e, 1, 1, 1};
    float packed[5 * EPLB_PANEL];
    eplb_pack(column, 5, 1, packed);
    for (int k = 0; k < NUM_KERNELS; k++) {
        eplb_gemm_kernel *kernel = eplb_gemm_named(kernel_names[k]);
        float y = UNTOUCHED;
        if (kernel == NULL)
            continue;
        kernel(x, 1, 2, packed, 1, &y);
        assert_true(y == -e * e);
        kernel(x, 1, 5, packed, 1, &y);
        assert_true(y == 3);
    }
}

static void kernels_agree_at_all_small_sizes(void **state)
{
    (void)state;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, SEED);
    for (int32_t rows = 0; rows <= 19; rows++)
        for (int32_t outer = 1; outer <= 11 * EPLB_PANEL;
             outer += outer % 16 == 0 || outer % 16 == 15 ? 1 : 7) {
            struct product product = make(&prng, rows, 1 + outer % 5, outer);
            compute_expected(&product);
            for (int k = 0; k < NUM_KERNELS; k++)
                if (eplb_gemm_named(kernel_names[k]) != NULL)
                    check(&product, eplb_gemm_named(kernel_names[k]));
            discard(&product);
        }
}

static void kernels_agree_at_random_sizes(void **state)
{
    (void)state;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, SEED);
    for (int round = 0; round < 60; round++) {
        int32_t rows = 1 + (int32_t)eplb_prng_below(&prng, 40);
        int32_t inner = 1 + (int32_t)eplb_prng_below(&prng, 300);
        int32_t outer = 1 + (int32_t)eplb_prng_below(&prng, 200);
        struct product product = make(&prng, rows, inner, outer);
        compute_expected(&product);
        for (int k = 0; k < NUM_KERNELS; k++)
            if (eplb_gemm_named(kernel_names[k]) != NULL)
                check(&product, eplb_gemm_named(kernel_names[k]));
        discard(&product);
    }
}

/* A row's result is the same alone, and in any place among any others. */
static void rows_do_not_see_each_other(void **state)
{
    (void)state;
    enum { ROWS = 23, INNER = 77, OUTER = 165 };
    struct eplb_prng prng;
    eplb_prng_seed(&prng, SEED);
    struct product product = make(&prng, ROWS, INNER, OUTER);
    compute_expected(&product);
    for (int32_t first = 0; first < ROWS; first++)
        for (int32_t rows = 1; first + rows <= ROWS; rows += 1 + rows / 4) {
            const float *expected = product.expected + (size_t)first * OUTER;
            eplb_gemm()(product.x + (size_t)first * INNER, rows, INNER, product.packed, OUTER, product.y);
            floats_same(product.y, expected, (size_t)rows * OUTER);
        }
    discard(&product);
}

static void the_fastest_kernel_is_chosen(void **state)
{
    (void)state;
    const char *fastest = "plain";
    for (int k = 0; k < NUM_KERNELS; k++)
        if (eplb_gemm_named(kernel_names[k]) != NULL)
            fastest = kernel_names[k];
        else
            print_message("left out: this processor or build has no kernel %s\n", kernel_names[k]);
    assert_string_equal(eplb_gemm_name(), fastest);
    assert_ptr_equal(eplb_gemm(), eplb_gemm_named(fastest));
    assert_ptr_equal(eplb_gemm_named("plain"), eplb_gemm_plain);
    assert_null(eplb_gemm_named("avx"));
    assert_null(eplb_gemm_named(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_goes_by_panels_and_fills_up_with_zeros),
        cmocka_unit_test(products_are_fused_and_summed_in_order),
        cmocka_unit_test(kernels_agree_at_all_small_sizes),
        cmocka_unit_test(kernels_agree_at_random_sizes),
        cmocka_unit_test(rows_do_not_see_each_other),
        cmocka_unit_test(the_fastest_kernel_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
