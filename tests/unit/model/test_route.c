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

#include "base/prng.h"
#include "model/config.h"
#include "model/route.h"

enum { SEED = 3 };

static void the_router_takes_the_largest_logits(void **state)
{
    (void)state;
    static const float logits[] = {0,  3,  1,  3, -1, /* next row */ 5, 5, 5, 5, 5, /* next */ -3,
                                   -2, -9, -1, -4};
    static const int32_t expected[] = {1, 3, 2, 0, 1, 2, 3, 1, 0};
    struct eplb_model_row rows[3] = {0};
    const struct eplb_route_request request = {
        .layer = 1, .rows = rows, .num_rows = 3, .logits = logits, .num_experts = 5, .top_k = 3};
    const struct eplb_route_source *source = eplb_route_by_router();
    int32_t experts[10] = {[9] = -7};
    assert_int_equal(source->size, sizeof *source);
    source->choose(source->context, &request, experts);
    assert_memory_equal(experts, expected, sizeof expected);
    assert_int_equal(experts[9], -7);
}

static struct eplb_skewed_routes *create(const int64_t *rates, int32_t phases, int32_t layers,
                                         int32_t num_experts, int32_t top_k, uint64_t period, uint64_t seed)
{
    struct eplb_skewed_routes *routes;
    struct eplb_error error;
    if (eplb_skewed_routes_create(rates, phases, layers, num_experts, top_k, period, seed, &routes, &error) !=
        EPLB_OK)
        fail_msg("%s", error.text);
    return routes;
}

static void choose(const struct eplb_skewed_routes *routes, const struct eplb_route_request *request,
                   int32_t *experts)
{
    const struct eplb_route_source *source = eplb_skewed_routes_source(routes);
    assert_int_equal(source->size, sizeof *source);
    source->choose(source->context, request, experts);
}

static void choices_differ_and_avoid_what_has_no_rate(void **state)
{
    (void)state;
    enum { EXPERTS = 70, ROWS = 500 };
    static int64_t rates[EXPERTS];
    static struct eplb_model_row rows[ROWS];
    static int32_t experts[ROWS * EPLB_MAX_TOP_K];
    struct eplb_prng prng;
    eplb_prng_seed(&prng, SEED);
    for (int32_t top_k = 1; top_k <= EPLB_MAX_TOP_K; top_k += top_k < 4 ? 1 : 15) {
        for (int expert = 0; expert < EXPERTS; expert++)
            rates[expert] = expert % 12 == 5 ? 0 : 1 + (int64_t)eplb_prng_below(&prng, 1 << (expert % 20));
        for (int row = 0; row < ROWS; row++)
            rows[row] = (struct eplb_model_row){.sequence = eplb_prng_next(&prng), .position = row};
        struct eplb_skewed_routes *routes = create(rates, 1, 1, EXPERTS, top_k, 0, SEED);
        const struct eplb_route_request request = {
            .rows = rows, .num_rows = ROWS, .num_experts = EXPERTS, .top_k = top_k};
        choose(routes, &request, experts);
        for (int row = 0; row < ROWS; row++) {
            int seen[EXPERTS] = {0};
            for (int32_t k = 0; k < top_k; k++) {
                int32_t expert = experts[row * top_k + k];
                assert_in_range(expert, 0, EXPERTS - 1);
                assert_true(rates[expert] > 0);
                assert_int_equal(seen[expert]++, 0);
            }
        }
        eplb_skewed_routes_destroy(routes);
    }
}

static void a_row_draws_the_same_in_every_batch(void **state)
{
    (void)state;
    enum { EXPERTS = 16, ROWS = 40, TOP_K = 4, LAYERS = 3 };
    static int64_t rates[LAYERS * EXPERTS];
    struct eplb_model_row rows[ROWS];
    int32_t together[ROWS * TOP_K];
    int32_t alone[TOP_K];
    int differ = 0;
    int32_t below[ROWS * TOP_K] = {0};
    int layers_differ = 0;
    for (int i = 0; i < LAYERS * EXPERTS; i++)
        rates[i] = 1 + i % EXPERTS;
    for (int row = 0; row < ROWS; row++)
        rows[row] = (struct eplb_model_row){.sequence = (uint64_t)row % 5, .position = row / 5, .cache = row};
    struct eplb_skewed_routes *routes = create(rates, 1, LAYERS, EXPERTS, TOP_K, 0, SEED);
    struct eplb_skewed_routes *twin = create(rates, 1, LAYERS, EXPERTS, TOP_K, 0, SEED);
    struct eplb_skewed_routes *other = create(rates, 1, LAYERS, EXPERTS, TOP_K, 0, SEED + 1);
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        struct eplb_route_request request = {
            .layer = layer, .rows = rows, .num_rows = ROWS, .num_experts = EXPERTS, .top_k = TOP_K};
        choose(routes, &request, together);
        layers_differ += memcmp(below, together, sizeof below) != 0;
        memcpy(below, together, sizeof below);
        request.num_rows = 1;
        for (int row = ROWS - 1; row >= 0; row--) {
            struct eplb_model_row elsewhere = rows[row];
            elsewhere.cache = 0;
            elsewhere.token = 9;
            request.rows = &elsewhere;
            request.seq = (uint64_t)row + 7;
            choose(twin, &request, alone);
            assert_memory_equal(alone, together + row * TOP_K, sizeof alone);
            choose(other, &request, alone);
            differ += memcmp(alone, together + row * TOP_K, sizeof alone) != 0;
        }
    }
    assert_true(differ > LAYERS * ROWS / 2);
    assert_int_equal(layers_differ, LAYERS);
    eplb_skewed_routes_destroy(other);
    eplb_skewed_routes_destroy(twin);
    eplb_skewed_routes_destroy(routes);
}

/* Counts every expert of every row and place. */
static void count(const struct eplb_skewed_routes *routes, uint64_t seq, int32_t layer, int32_t num_experts,
                  int32_t top_k, int num_rows, int *counts)
{
    int32_t experts[EPLB_MAX_TOP_K];
    memset(counts, 0, (size_t)num_experts * (size_t)top_k * sizeof *counts);
    for (int i = 0; i < num_rows; i++) {
        struct eplb_model_row row = {.sequence = (uint64_t)i / 100, .position = i % 100};
        const struct eplb_route_request request = {.seq = seq,
                                                   .layer = layer,
                                                   .rows = &row,
                                                   .num_rows = 1,
                                                   .num_experts = num_experts,
                                                   .top_k = top_k};
        choose(routes, &request, experts);
        for (int32_t k = 0; k < top_k; k++)
            counts[k * num_experts + experts[k]]++;
    }
}

/* The second of two draws without replacement: P(b) = sum over a of P(a) r_b / (total - r_a). */
static void draws_follow_the_rates(void **state)
{
    (void)state;
    enum { EXPERTS = 5, ROWS = 40000 };
    static const int64_t rates[EXPERTS] = {1, 0, 4, 3, 2};
    struct eplb_skewed_routes *routes = create(rates, 1, 1, EXPERTS, 2, 0, SEED);
    int counts[2 * EXPERTS];
    count(routes, 0, 0, EXPERTS, 2, ROWS, counts);
    for (int b = 0; b < EXPERTS; b++) {
        double first = (double)rates[b] / 10;
        double second = 0;
        for (int a = 0; a < EXPERTS; a++)
            second += a == b ? 0 : (double)rates[a] / 10 * (double)rates[b] / (double)(10 - rates[a]);
        assert_true(fabs(counts[b] - first * ROWS) <= 4.5 * sqrt(first * (1 - first) * ROWS));
        assert_true(fabs(counts[EXPERTS + b] - second * ROWS) <= 4.5 * sqrt(second * (1 - second) * ROWS));
    }
    eplb_skewed_routes_destroy(routes);
}

static void rates_may_add_up_to_the_largest_load(void **state)
{
    (void)state;
    enum { ROWS = 8000 };
    const int64_t rates[] = {EPLB_MAX_LOAD / 4, EPLB_MAX_LOAD / 2, EPLB_MAX_LOAD / 4};
    struct eplb_skewed_routes *routes = create(rates, 1, 1, 3, 3, 0, SEED);
    int counts[9];
    count(routes, 0, 0, 3, 3, ROWS, counts);
    assert_true(fabs(counts[0] - ROWS / 4.0) < 4.5 * sqrt(ROWS * 3 / 16.0));
    assert_true(fabs(counts[1] - ROWS / 2.0) < 4.5 * sqrt(ROWS / 4.0));
    assert_int_equal(counts[0] + counts[3] + counts[6], ROWS);
    eplb_skewed_routes_destroy(routes);
}

static void phases_follow_each_other_by_seq(void **state)
{
    (void)state;
    enum { PHASES = 3, LAYERS = 2, EXPERTS = 6, PERIOD = 10 };
    /* Of each phase and layer, one expert only. */
    int64_t rates[PHASES * LAYERS * EXPERTS] = {0};
    for (int i = 0; i < PHASES * LAYERS; i++)
        rates[i * EXPERTS + i] = 5;
    struct eplb_skewed_routes *routes = create(rates, PHASES, LAYERS, EXPERTS, 1, PERIOD, SEED);
    struct eplb_skewed_routes *still = create(rates, PHASES, LAYERS, EXPERTS, 1, 0, SEED);
    struct eplb_model_row row = {0};
    for (uint64_t seq = 0; seq < 70; seq++)
        for (int32_t layer = 0; layer < LAYERS; layer++) {
            const struct eplb_route_request request = {
                .seq = seq, .layer = layer, .rows = &row, .num_rows = 1, .num_experts = EXPERTS, .top_k = 1};
            int32_t expert;
            choose(routes, &request, &expert);
            assert_int_equal(expert, (int32_t)(seq / PERIOD % PHASES) * LAYERS + layer);
            choose(still, &request, &expert);
            assert_int_equal(expert, layer);
        }
    eplb_skewed_routes_destroy(still);
    eplb_skewed_routes_destroy(routes);
}

static void rates_are_copied(void **state)
{
    (void)state;
    int64_t rates[] = {0, 1, 0};
    struct eplb_skewed_routes *routes = create(rates, 1, 1, 3, 1, 0, SEED);
    struct eplb_model_row row = {0};
    const struct eplb_route_request request = {.rows = &row, .num_rows = 1, .num_experts = 3, .top_k = 1};
    int32_t expert = -1;
    rates[0] = 1000000;
    choose(routes, &request, &expert);
    assert_int_equal(expert, 1);
    eplb_skewed_routes_destroy(routes);
}

static void bad_rates_are_refused_with_their_place(void **state)
{
    (void)state;
    static const struct {
        int64_t rates[8]; /* [2 phases][2 layers][2 experts] */
        int32_t phases;
        int32_t layers;
        int32_t num_experts;
        int32_t top_k;
        const char *sentence;
    } cases[] = {
        {{1, 1, 1, 1, 1, -3, 1, 1},
         2,
         2,
         2,
         1,
         "phase 1 layer 0 expert 1: rate -3; allowed is 0 or more, and at most 2^62 for the layer's sum"},
        {{1, 1, 1, EPLB_MAX_LOAD, 1, 1, 1, 1},
         2,
         2,
         2,
         1,
         "phase 0 layer 1 expert 1: rate 4611686018427387904; allowed is 0 or more, and at most 2^62 for the "
         "layer's sum"},
        {{1, 1, 1, 1, 1, 1, 0, 1},
         2,
         2,
         2,
         2,
         "phase 1 layer 1: 1 experts have a rate above 0; top_k 2 needs as many"},
        {{0}, 0, 2, 2, 1, "num_phases is 0; allowed is 1 or more"},
        {{0}, 1, 0, 2, 1, "num_layers is 0; allowed is 1 to 65536"},
        {{0}, 1, 1, 0, 1, "num_experts is 0; allowed is 1 to 65536"},
        {{0}, 1, 1, 2, 3, "top_k is 3; with num_experts 2, allowed is 1 to 2"},
        {{0}, 1, 1, 2, 0, "top_k is 0; with num_experts 2, allowed is 1 to 2"},
        {{0}, 1, 1, 100, 65, "top_k is 65; with num_experts 100, allowed is 1 to 64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct eplb_skewed_routes *routes = (void *)(uintptr_t)64;
        struct eplb_error error;
        assert_int_equal(eplb_skewed_routes_create(cases[i].rates, cases[i].phases, cases[i].layers,
                                                   cases[i].num_experts, cases[i].top_k, 0, SEED, &routes,
                                                   &error),
                         EPLB_INVALID);
        assert_string_equal(error.text, cases[i].sentence);
        assert_ptr_equal(routes, (void *)(uintptr_t)64);
    }
    eplb_skewed_routes_destroy(NULL);
}

/* What one machine drew, all others draw. */
static void draws_are_the_committed_ones(void **state)
{
    (void)state;
    static const int64_t rates[] = {9, 1, 5, 2, 7, 3, 3, 8};
    static const int32_t expected[] = {7, 2, 7, 2, 3, 0, 0, 7, 7, 4, 2, 0};
    struct eplb_skewed_routes *routes = create(rates, 1, 1, 8, 2, 0, 42);
    struct eplb_model_row rows[6];
    int32_t experts[12];
    for (int i = 0; i < 6; i++)
        rows[i] = (struct eplb_model_row){.sequence = (uint64_t)i / 3, .position = i % 3};
    const struct eplb_route_request request = {.rows = rows, .num_rows = 6, .num_experts = 8, .top_k = 2};
    choose(routes, &request, experts);
    assert_memory_equal(experts, expected, sizeof experts);
    eplb_skewed_routes_destroy(routes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_router_takes_the_largest_logits),
        cmocka_unit_test(choices_differ_and_avoid_what_has_no_rate),
        cmocka_unit_test(a_row_draws_the_same_in_every_batch),
        cmocka_unit_test(draws_follow_the_rates),
        cmocka_unit_test(rates_may_add_up_to_the_largest_load),
        cmocka_unit_test(phases_follow_each_other_by_seq),
        cmocka_unit_test(rates_are_copied),
        cmocka_unit_test(bad_rates_are_refused_with_their_place),
        cmocka_unit_test(draws_are_the_committed_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
