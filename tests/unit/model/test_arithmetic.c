/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "floats.h"
#include "model/arithmetic.h"

enum { SEED = 5, MOST = 70 };

/* Distance from the exact value in units of the float nearest to it. */
static double ulps(float actual, double exact)
{
    float nearest = (float)exact;
    return fabs((double)actual - exact) /
           ((double)nextafterf(fabsf(nearest), INFINITY) - fabs((double)nearest));
}

static void exp_is_close_and_stays_finite(void **state)
{
    (void)state;
    for (float x = -87; x <= 88; x += 0.000977f)
        if (ulps(eplb_exp(x), exp((double)x)) > 1)
            fail_msg("exp of %a is off by %g units", (double)x, ulps(eplb_exp(x), exp((double)x)));
    assert_true(eplb_exp(0.0f) == 1.0f);
    assert_true(eplb_exp(-0.0f) == 1.0f);
    assert_true(eplb_exp(-87.0f) >= 0x1p-126f);
    assert_true(eplb_exp(nextafterf(-87, -88)) == 0);
    assert_true(eplb_exp(-INFINITY) == 0);
    assert_true(isfinite(eplb_exp(88.0f)));
    assert_true(eplb_exp(INFINITY) == eplb_exp(88.0f));
    assert_true(isnan(eplb_exp(NAN)));
}

static void silu_is_close(void **state)
{
    (void)state;
    for (float x = -60; x <= 60; x += 0.0113f) {
        double exact = (double)x / (1 + exp(-(double)x));
        assert_true(ulps(eplb_silu(x), exact) <= 2.5);
    }
    assert_true(eplb_silu(0) == 0);
    assert_true(eplb_silu(-1000) <= 0 && eplb_silu(-1000) > -1e-30f);
    assert_true(eplb_silu(1000) == 1000);
}

static void dot_has_eight_chains_and_a_fixed_tree(void **state)
{
    (void)state;
    static const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    /* Only when 0 meets 4 first, and 2 meets 6, does the large pair vanish before it swallows the rest. */
    static const float tree[] = {0x1p60f, 0, 0x1p50f, 0, -0x1p60f, 0, -0x1p50f, 7};
    assert_true(eplb_dot(tree, ones, 8) == 7);
    static const float swallowed[] = {0x1p60f, -0x1p60f, 0, 5, 0, 0, 0, 0};
    assert_true(eplb_dot(swallowed, ones, 8) == 0);
    /* Elements 0 and 8 are one chain, so they vanish whatever lies between. */
    static const float chain[] = {0x1p60f, 1, 2, 3, 4, 5, 6, 7, -0x1p60f, 8};
    assert_true(eplb_dot(chain, ones, 10) == 36);
    static const float fused[] = {-1, 0, 0, 0, 0, 0, 0, 0, 1 + 0x1p-20f};
    static const float other[] = {1, 0, 0, 0, 0, 0, 0, 0, 1 - 0x1p-20f};
    assert_true(eplb_dot(fused, other, 9) == -0x1p-40f);
    assert_true(eplb_dot(ones, ones, 0) == 0);
}

static void rms_norm_makes_unit_rows(void **state)
{
    (void)state;
    float x[] = {3, -4, 0, 5};
    static const float weight[] = {1, 1, 2, 0.5f};
    double scale = 1 / sqrt(50.0 / 4 + 1e-6);
    eplb_rms_norm(x, weight, 4, x);
    assert_true(fabs((double)x[0] - 3 * scale) < 1e-7);
    assert_true(fabs((double)x[1] + 4 * scale) < 2e-7);
    assert_true(x[2] == 0);
    assert_true(fabs((double)x[3] - 2.5 * scale) < 1e-7);
    float zeros[9] = {0};
    eplb_rms_norm(zeros, zeros, 9, zeros);
    for (int i = 0; i < 9; i++)
        assert_true(zeros[i] == 0);
}

static void softmax_gives_shares(void **state)
{
    (void)state;
    float x[] = {1, 3, 2, -200, 3};
    double sum = exp(-2) + exp(-1) + 2;
    eplb_softmax(x, 5);
    assert_true(fabs((double)x[0] - exp(-2) / sum) < 1e-7);
    assert_true(fabs((double)x[1] - 1 / sum) < 1e-7);
    assert_true(fabs((double)x[2] - exp(-1) / sum) < 1e-7);
    assert_true(x[3] == 0);
    assert_true(x[4] == x[1]);
    float one[] = {-1e30f};
    eplb_softmax(one, 1);
    assert_true(one[0] == 1);
}

static void top_k_is_a_sort_with_ties_to_the_lowest(void **state)
{
    (void)state;
    static const float scores[] = {2, 7, 2, 9, 7, 2};
    static const int32_t order[] = {3, 1, 4, 0, 2, 5};
    for (int32_t k = 1; k <= 6; k++) {
        int32_t ids[7] = {[6] = -1};
        float values[6];
        ids[k] = -1;
        eplb_top_k(scores, 6, k, ids, values);
        assert_memory_equal(ids, order, (size_t)k * sizeof ids[0]);
        assert_int_equal(ids[k], -1);
        for (int32_t i = 0; i < k; i++)
            assert_true(values[i] == scores[order[i]]);
    }
}

static void top_k_agrees_with_picking_one_by_one(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    struct eplb_prng prng;
    eplb_prng_seed(&prng, SEED);
    for (int round = 0; round < 200; round++) {
        float scores[COUNT];
        int32_t count = 1 + (int32_t)eplb_prng_below(&prng, COUNT);
        int32_t k = 1 + (int32_t)eplb_prng_below(&prng, (uint64_t)count);
        for (int32_t i = 0; i < count; i++)
            scores[i] = (float)eplb_prng_below(&prng, 12) - 6;
        int32_t ids[COUNT];
        float values[COUNT];
        eplb_top_k(scores, count, k, ids, values);
        for (int32_t i = 0; i < k; i++) {
            int32_t best = 0;
            for (int32_t j = 1; j < count; j++)
                best = scores[j] > scores[best] ? j : best;
            assert_int_equal(ids[i], best);
            assert_true(values[i] == scores[best]);
            scores[best] = -100;
        }
    }
}

static void top_k_gives_different_ids_even_for_what_is_no_number(void **state)
{
    (void)state;
    static const float scores[] = {NAN, NAN, 1, NAN};
    int32_t ids[4];
    float values[4];
    int seen[4] = {0};
    eplb_top_k(scores, 4, 4, ids, values);
    for (int i = 0; i < 4; i++) {
        assert_in_range(ids[i], 0, 3);
        assert_int_equal(seen[ids[i]]++, 0);
    }
}

static void rotations_are_close(void **state)
{
    (void)state;
    enum { POSITIONS = 5000, HEAD = 16 };
    static float table[POSITIONS * HEAD];
    eplb_rope_table(POSITIONS, HEAD, table);
    for (int position = 0; position < POSITIONS; position++)
        for (int pair = 0; pair < HEAD / 2; pair++) {
            double angle = position * pow(10000, -2.0 * pair / HEAD);
            const float *entry = table + position * HEAD + 2 * pair;
            assert_true(fabs((double)entry[0] - cos(angle)) < 1e-7);
            assert_true(fabs((double)entry[1] - sin(angle)) < 1e-7);
        }
    float x[HEAD] = {[1] = 3, [1 + HEAD / 2] = 4};
    eplb_rope(table + 7 * HEAD, HEAD, x);
    double angle = 7 * pow(10000, -2.0 / HEAD);
    assert_true(fabs((double)x[1] - (3 * cos(angle) - 4 * sin(angle))) < 1e-6);
    assert_true(fabs((double)x[1 + HEAD / 2] - (3 * sin(angle) + 4 * cos(angle))) < 1e-6);
    for (int i = 0; i < HEAD; i++)
        assert_true(i % (HEAD / 2) == 1 || x[i] == 0);
}

/* ------------------------------------------------------------------------------------- twins */

static const struct eplb_arithmetic *fast_or_skip(void)
{
    const struct eplb_arithmetic *fast = eplb_arithmetic_named("avx2");
    if (fast == NULL) {
        print_message("SKIP: this processor or build has no avx2\n");
        skip();
    }
    return fast;
}

/* Two inputs, and a copy for each twin to work on. */
struct trial {
    float x[MOST];
    float y[MOST];
    float plain[MOST];
    float fast[MOST];
};

static void prepare(struct eplb_prng *prng, struct trial *trial)
{
    floats_fill(prng, MOST, trial->x);
    floats_fill(prng, MOST, trial->y);
    floats_fill(prng, MOST, trial->plain);
    memcpy(trial->fast, trial->plain, sizeof trial->fast);
}

static void twins_agree(void **state)
{
    (void)state;
    const struct eplb_arithmetic *plain = eplb_arithmetic_named("plain");
    const struct eplb_arithmetic *fast = fast_or_skip();
    struct eplb_prng prng;
    struct trial trial;
    eplb_prng_seed(&prng, SEED);
    for (int32_t round = 0; round < 4000; round++) {
        int32_t count = round % MOST;
        prepare(&prng, &trial);
        float dots[] = {plain->dot(trial.x, trial.y, count), fast->dot(trial.x, trial.y, count)};
        floats_same(dots + 1, dots, 1);
        plain->gated(trial.x, trial.y, count, trial.plain);
        fast->gated(trial.x, trial.y, count, trial.fast);
        floats_same(trial.fast, trial.plain, MOST);
        float scale = floats_draw(&prng, 4);
        plain->add_scaled(scale, trial.x, count, trial.plain);
        fast->add_scaled(scale, trial.x, count, trial.fast);
        floats_same(trial.fast, trial.plain, MOST);
        if (count == 0)
            continue;
        plain->rms_norm(trial.x, trial.y, count, trial.plain);
        fast->rms_norm(trial.x, trial.y, count, trial.fast);
        floats_same(trial.fast, trial.plain, MOST);
        plain->rope(trial.x, count / 2 * 2, trial.plain);
        fast->rope(trial.x, count / 2 * 2, trial.fast);
        floats_same(trial.fast, trial.plain, MOST);
        plain->softmax(trial.plain, count);
        fast->softmax(trial.fast, count);
        floats_same(trial.fast, trial.plain, MOST);
    }
}

/* softmax and gated of all sizes of numbers, so that the exponential's ends are met as well. */
static void twins_agree_far_out(void **state)
{
    (void)state;
    static const float ends[] = {
        87,       0x1.5bfffep+6f,  0x1.5c0002p+6f,  88,  0x1.5ffffep+6f,  0x1.600002p+6f,
        -87,      -0x1.5bfffep+6f, -0x1.5c0002p+6f, -88, -0x1.5ffffep+6f, -0x1.600002p+6f,
        0x1p120f, -0x1p120f};
    enum { NUM_ENDS = sizeof ends / sizeof ends[0] };
    const struct eplb_arithmetic *plain = eplb_arithmetic_named("plain");
    const struct eplb_arithmetic *fast = fast_or_skip();
    struct eplb_prng prng;
    struct trial trial;
    eplb_prng_seed(&prng, SEED + 1);
    for (int32_t round = 0; round < 4000; round++) {
        prepare(&prng, &trial);
        for (int i = 0; i < MOST; i++)
            trial.x[i] = floats_draw(&prng, round % 2 == 0 ? 200 : 90);
        for (int i = 0; i < NUM_ENDS; i++)
            trial.x[9 + i] = ends[i];
        plain->gated(trial.x, trial.y, MOST, trial.plain);
        fast->gated(trial.x, trial.y, MOST, trial.fast);
        floats_same(trial.fast, trial.plain, MOST);
        memcpy(trial.plain, trial.x, sizeof trial.plain);
        memcpy(trial.fast, trial.x, sizeof trial.fast);
        plain->softmax(trial.plain, 1 + round % MOST);
        fast->softmax(trial.fast, 1 + round % MOST);
        floats_same(trial.fast, trial.plain, MOST);
    }
}

static void twins_agree_at_the_last_exponential(void **state)
{
    (void)state;
    static const float ends[] = {0, -87, -0x1.5bfffep+6f, -0x1.5c0002p+6f, -1000, -87, -86, -88, -87};
    enum { COUNT = sizeof ends / sizeof ends[0] };
    float plain[COUNT];
    float fast[COUNT];
    memcpy(plain, ends, sizeof plain);
    memcpy(fast, ends, sizeof fast);
    eplb_arithmetic_named("plain")->softmax(plain, COUNT);
    fast_or_skip()->softmax(fast, COUNT);
    floats_same(fast, plain, COUNT);
    assert_true(fast[1] > 0 && fast[3] == 0 && fast[8] > 0);
    /* What is no number stays none, though with bits of its own. */
    float gates[COUNT] = {[3] = NAN, [8] = NAN};
    fast_or_skip()->gated(gates, ends, COUNT, fast);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(isnan(fast[i]), isnan(gates[i]));
}

static void versions_have_names(void **state)
{
    (void)state;
    assert_non_null(eplb_arithmetic_named("plain"));
    assert_null(eplb_arithmetic_named("avx512"));
    assert_null(eplb_arithmetic_named(""));
}

/* The bits of one machine and compiler, which all others must give. */
static void bits_are_the_committed_ones(void **state)
{
    (void)state;
    enum { POSITIONS = 300, HEAD = 48 };
    static float table[POSITIONS * HEAD];
    struct eplb_prng prng;
    struct trial trial;
    float dots[50];
    eplb_prng_seed(&prng, SEED);
    eplb_rope_table(POSITIONS, HEAD, table);
    assert_int_equal(floats_digest(table, POSITIONS * HEAD), UINT64_C(0xb593b880cdebdd87));
    for (int i = 0; i < 50; i++) {
        prepare(&prng, &trial);
        dots[i] = eplb_dot(trial.x, trial.y, MOST);
    }
    assert_int_equal(floats_digest(dots, 50), UINT64_C(0x8b6d5e3e11f5a24a));
    eplb_gated(trial.x, trial.y, MOST, trial.plain);
    assert_int_equal(floats_digest(trial.plain, MOST), UINT64_C(0xe0c136f698454674));
    eplb_rms_norm(trial.y, trial.x, MOST, trial.plain);
    assert_int_equal(floats_digest(trial.plain, MOST), UINT64_C(0x851837527d1ac78));
    eplb_softmax(trial.y, MOST);
    assert_int_equal(floats_digest(trial.y, MOST), UINT64_C(0xca7758f987f86e3d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_close_and_stays_finite),
        cmocka_unit_test(silu_is_close),
        cmocka_unit_test(dot_has_eight_chains_and_a_fixed_tree),
        cmocka_unit_test(rms_norm_makes_unit_rows),
        cmocka_unit_test(softmax_gives_shares),
        cmocka_unit_test(top_k_is_a_sort_with_ties_to_the_lowest),
        cmocka_unit_test(top_k_agrees_with_picking_one_by_one),
        cmocka_unit_test(top_k_gives_different_ids_even_for_what_is_no_number),
        cmocka_unit_test(rotations_are_close),
        cmocka_unit_test(twins_agree),
        cmocka_unit_test(twins_agree_far_out),
        cmocka_unit_test(twins_agree_at_the_last_exponential),
        cmocka_unit_test(versions_have_names),
        cmocka_unit_test(bits_are_the_committed_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
