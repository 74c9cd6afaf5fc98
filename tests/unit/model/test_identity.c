/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The same sequences give the same bits wherever the experts live, whatever batches they travel in, and
 * while layers move; and in every forward the counts are what was routed. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "serve.h"

enum { SEEDS = 12, SEQUENCES = 8 };

/** Draws a model and sequences, and what the naive model makes of them. */
static struct eplb_model_config draw(uint64_t seed, struct serve_sequence *sequences)
{
    struct eplb_model_config config = ranks_random_config(seed);
    struct eplb_error error;
    printf("seed %" PRIu64 "\n", seed);
    if (eplb_model_config_check(&config, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    serve_draw(seed, config.vocab_size, SEQUENCES, sequences);
    serve_naively(&config, SEQUENCES, sequences);
    return config;
}

/** Serves the sequences without what is known of them, and compares. */
static struct serve_counts serve_again(const struct serve_params *params,
                                       const struct serve_sequence *expected)
{
    struct serve_sequence got[SEQUENCES];
    memcpy(got, expected, sizeof got);
    for (int32_t i = 0; i < SEQUENCES; i++)
        memset(got[i].samples, 0, sizeof got[i].samples);
    struct serve_counts counts = serve(params, SEQUENCES, got);
    serve_compare(params->seed, SEQUENCES, got, expected);
    return counts;
}

static void one_rank_gives_what_the_naive_model_gives(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct serve_sequence sequences[SEQUENCES];
        struct eplb_model_config config = draw(seed, sequences);
        const struct serve_params params = {
            .ranks = {.config = config, .ep_size = 1, .max_rows = 1 + (int32_t)seed, .num_caches = 3},
            .seed = seed};
        serve_again(&params, sequences);
    }
}

static void placements_change_nothing(void **state)
{
    (void)state;
    int64_t empty = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct serve_sequence sequences[SEQUENCES];
        struct eplb_model_config config = draw(seed, sequences);
        for (int32_t ep_size = 2; ep_size <= 4; ep_size *= 2)
            for (int32_t redundant = 0; redundant <= 2; redundant++) {
                const struct serve_params params = {.ranks = {.config = config,
                                                              .ep_size = ep_size,
                                                              .redundant = redundant,
                                                              .max_rows = 12,
                                                              .num_caches = 2},
                                                    .seed = seed * 10 + (uint64_t)(redundant + ep_size),
                                                    .random_start = seed % 3 != 0};
                empty += serve_again(&params, sequences).empty;
            }
    }
    assert_true(empty > SEEDS);
}

static void moves_change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 101; seed <= 100 + SEEDS; seed++) {
        struct serve_sequence sequences[SEQUENCES];
        struct eplb_model_config config = draw(seed, sequences);
        const struct serve_params params = {.ranks = {.config = config,
                                                      .ep_size = seed % 2 == 0 ? 2 : 4,
                                                      .redundant = 1,
                                                      .max_rows = 8,
                                                      .num_caches = 1},
                                            .seed = seed,
                                            .moves = true};
        struct serve_counts counts = serve_again(&params, sequences);
        assert_true(counts.switches >= 2 * config.num_layers);
    }
}

/* Every routing, with experts that move, weights that change, rows that are no load and empty ranks. */
static void replica_routings_change_nothing(void **state)
{
    static const int32_t nodes[4] = {0, 0, 1, 1};
    (void)state;
    for (int32_t routing = 0; routing < EPLB_NUM_ROUTINGS; routing++)
        for (uint64_t seed = 301; seed <= 300 + SEEDS / 2; seed++) {
            struct serve_sequence sequences[SEQUENCES];
            struct eplb_model_config config = draw(seed, sequences);
            const struct serve_params params = {
                .ranks = {.config = config,
                          .ep_size = seed % 3 == 0 ? 2 : 4,
                          .redundant = 1 + (int32_t)(seed % 2),
                          .max_rows = 8,
                          .num_caches = 1 + (int32_t)(seed % 2),
                          .decode_only_load = seed % 2 == 0,
                          .replica_routing = (enum eplb_replica_routing)routing,
                          .node_of_rank = seed % 4 == 0 ? NULL : nodes,
                          .cost_per_active_slot = seed % 4 == 1 ? 3 : 0},
                .seed = seed,
                .random_start = true,
                .moves = true,
                .reweighs = true};
            struct serve_counts counts = serve_again(&params, sequences);
            assert_true(counts.switches > 0 && counts.reweighed > 0);
        }
}

/* The counts themselves are compared in every forward that is served. */
static void only_load_is_counted(void **state)
{
    (void)state;
    struct serve_counts sums = {0};
    for (uint64_t seed = 201; seed <= 200 + SEEDS; seed++) {
        struct serve_sequence sequences[SEQUENCES];
        struct eplb_model_config config = draw(seed, sequences);
        const struct serve_params params = {.ranks = {.config = config,
                                                      .ep_size = 4,
                                                      .redundant = 1,
                                                      .max_rows = 10,
                                                      .num_caches = 3,
                                                      .decode_only_load = seed % 2 == 0},
                                            .seed = seed,
                                            .random_start = true,
                                            .warmups = seed % 3 == 0};
        struct serve_counts counts = serve_again(&params, sequences);
        sums.mixed += counts.mixed;
        sums.empty += counts.empty;
        sums.not_counted += counts.not_counted;
        if (!params.ranks.decode_only_load && !params.warmups)
            assert_int_equal(counts.not_counted, 0);
    }
    assert_true(sums.mixed > SEEDS && sums.empty > SEEDS && sums.not_counted > SEEDS);
}

static void made_up_routes_change_nothing_either(void **state)
{
    (void)state;
    struct eplb_model_config config = ranks_random_config(7);
    struct serve_sequence expected[SEQUENCES];
    struct eplb_skewed_routes *routes;
    int64_t rates[RANKS_MAX_LAYERS * 12];
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        rates[i] = 1 + (int64_t)(i * i % 11);
    assert_int_equal(eplb_skewed_routes_create(rates, 1, config.num_layers, config.num_experts, config.top_k,
                                               0, 3, &routes, NULL),
                     EPLB_OK);
    serve_draw(7, config.vocab_size, SEQUENCES, expected);
    struct serve_params params = {.ranks = {.config = config,
                                            .ep_size = 1,
                                            .max_rows = 6,
                                            .num_caches = 2,
                                            .routes = eplb_skewed_routes_source(routes)},
                                  .seed = 7};
    serve(&params, SEQUENCES, expected);
    params.ranks.ep_size = 4;
    params.ranks.redundant = 2;
    params.seed = 8;
    params.moves = true;
    serve_again(&params, expected);
    eplb_skewed_routes_destroy(routes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_gives_what_the_naive_model_gives),
        cmocka_unit_test(placements_change_nothing),
        cmocka_unit_test(moves_change_nothing),
        cmocka_unit_test(replica_routings_change_nothing),
        cmocka_unit_test(only_load_is_counted),
        cmocka_unit_test(made_up_routes_change_nothing_either),
    };
    return cmocka_run_group_tests_name("model_identity", tests, NULL, NULL);
}
