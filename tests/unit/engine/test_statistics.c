/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Balance, paths and digest by hand, and random runs against a plain twin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/prng.h"
#include "engine/statistics.h"
#include "support/tables.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* Two layers of four experts over two ranks with a redundant slot each, unless a test says otherwise. */
enum { LAYERS = 2, EXPERTS = 4, RANKS = 2, PER_RANK = 3, SLOTS = 6, MAX_SAMPLES = 8 };

/* Layer 1 is as layer 0 with every expert's lowest bit changed, so that no test takes one for the other. */
static const int32_t initial[LAYERS][SLOTS] = {{0, 1, 2, 2, 3, 0}, {1, 0, 3, 3, 2, 1}};

struct bench {
    struct eplb_statistics_params params;
    struct eplb_statistics_keeper *keeper;
    int32_t tables[LAYERS][SLOTS];
    int64_t prefix[RANKS][LAYERS][PER_RANK];
    struct eplb_model_sample samples[RANKS][MAX_SAMPLES];
    struct eplb_moe_work work[RANKS][LAYERS];
    struct eplb_worker_output outputs[RANKS];
    struct eplb_result results[RANKS];
};

static void take(struct bench *bench)
{
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    assert_null(eplb_statistics_take(&arena, &bench->params));
    size_t measured = arena.used;
    void *block = eplb_arena_reserve(&arena);
    assert_non_null(block);
    memset(block, 0xa5, measured);
    bench->keeper = eplb_statistics_take(&arena, &bench->params);
    assert_ptr_equal(bench->keeper, block);
    assert_int_equal(arena.used, measured);
    assert_int_equal(arena.overflow, 0);
    eplb_statistics_init(bench->keeper, &bench->params);
}

/** What comes from the next forward is nothing: no load, no samples, no work. */
static void bench_idle(struct bench *bench)
{
    memcpy(bench->tables, initial, sizeof initial);
    memset(bench->prefix, 0, sizeof bench->prefix);
    memset(bench->work, 0, sizeof bench->work);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        bench->outputs[rank] = (struct eplb_worker_output){.size = sizeof bench->outputs[rank],
                                                           .ep_rank = rank,
                                                           .num_layers = LAYERS,
                                                           .slots_per_rank = PER_RANK,
                                                           .prefix = bench->prefix[rank][0]};
        bench->results[rank] =
            (struct eplb_result){.samples = bench->samples[rank], .work = bench->work[rank]};
    }
}

static void bench_open(struct bench *bench, int32_t window_forwards)
{
    memset(bench, 0, sizeof *bench);
    assert_int_equal(eplb_shape_init(&bench->params.shape, LAYERS, EXPERTS, RANKS, 1, NULL), EPLB_OK);
    bench->params.window_forwards = window_forwards;
    bench->params.initial = initial[0];
    take(bench);
    bench_idle(bench);
}

static void bench_close(struct bench *bench)
{
    eplb_arena_free(bench->keeper);
}

static void bench_load(struct bench *bench, int32_t layer, const int64_t counts[SLOTS])
{
    for (int32_t slot = 0; slot < SLOTS; slot++) {
        int64_t *prefix = bench->prefix[slot / PER_RANK][layer];
        prefix[slot % PER_RANK] = counts[slot] + (slot % PER_RANK == 0 ? 0 : prefix[slot % PER_RANK - 1]);
    }
}

static struct eplb_statistics bench_add(struct bench *bench)
{
    struct eplb_statistics statistics;
    eplb_statistics_add(bench->keeper, bench->outputs, bench->results, bench->tables[0], 1000);
    eplb_statistics_read(bench->keeper, &statistics);
    return statistics;
}

static void assert_balance(struct eplb_window_balance balance, double mean, double worst, int32_t layer)
{
    assert_true(balance.mean == mean);
    assert_true(balance.worst == worst);
    assert_int_equal(balance.worst_layer, layer);
}

/* ------------------------------------------------------------------------------------- balance */

static void nothing_is_in_balance(void **state)
{
    (void)state;
    struct bench bench;
    struct eplb_statistics statistics;
    double measured[RANKS], first[RANKS], share = 99;
    bench_open(&bench, 2);
    eplb_statistics_read(bench.keeper, &statistics);
    assert_balance(statistics.first_window, 1, 1, EPLB_NO_LAYER);
    assert_balance(statistics.last_window, 1, 1, EPLB_NO_LAYER);
    assert_balance(statistics.last_window_initial, 1, 1, EPLB_NO_LAYER);
    assert_balance(eplb_statistics_now(bench.keeper), 1, 1, EPLB_NO_LAYER);
    assert_int_equal(statistics.forwards, 0);
    assert_int_equal(statistics.digest, 0);
    assert_int_equal(eplb_statistics_step_ns(bench.keeper, 50), 0);
    eplb_statistics_rank_loads(bench.keeper, 1, measured, first);
    assert_true(measured[0] == 0 && measured[1] == 0 && first[0] == 0 && first[1] == 0);
    assert_int_equal(eplb_statistics_hottest(bench.keeper, 1, &share), -1);
    assert_true(share == 0);
    bench_close(&bench);
}

/*
 * Layer 1 only, initial table {1 0 3 | 3 2 1}: ranks have 10 + 0 + 6 and 0 + 4 + 0 of 20. Split evenly
 * they would have 5 + 0 + 3 and 3 + 4 + 5.
 */
static void the_open_window_stands_for_the_last(void **state)
{
    (void)state;
    struct bench bench;
    double measured[RANKS], first[RANKS], share;
    bench_open(&bench, 2);
    bench_load(&bench, 1, (const int64_t[SLOTS]){10, 0, 6, 0, 4, 0});
    struct eplb_statistics statistics = bench_add(&bench);
    assert_int_equal(statistics.windows, 0);
    assert_balance(statistics.first_window, 1.6, 1.6, 1);
    assert_balance(statistics.last_window, 1.6, 1.6, 1);
    assert_balance(statistics.last_window_initial, 1.2, 1.2, 1);
    assert_balance(eplb_statistics_now(bench.keeper), 1.6, 1.6, 1);
    eplb_statistics_rank_loads(bench.keeper, 1, measured, first);
    assert_true(measured[0] == 16 && measured[1] == 4 && first[0] == 8 && first[1] == 12);
    assert_int_equal(eplb_statistics_hottest(bench.keeper, 1, &share), 1);
    assert_true(share == 0.5);
    assert_int_equal(eplb_statistics_hottest(bench.keeper, 0, &share), -1);
    bench_close(&bench);
}

static void windows_close_and_begin_at_zero(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, 2);
    bench_load(&bench, 0, (const int64_t[SLOTS]){3, 0, 0, 0, 1, 0}); /* 3 : 1 */
    bench_load(&bench, 1, (const int64_t[SLOTS]){1, 0, 0, 0, 1, 0}); /* 1 : 1 */
    bench_add(&bench);
    struct eplb_statistics statistics = bench_add(&bench);
    assert_int_equal(statistics.windows, 1);
    assert_balance(statistics.first_window, 1.25, 1.5, 0);
    assert_balance(statistics.last_window, 1.25, 1.5, 0);
    assert_balance(eplb_statistics_now(bench.keeper), 1, 1, EPLB_NO_LAYER);

    bench_load(&bench, 0, (const int64_t[SLOTS]){5, 0, 0, 0, 5, 0});
    bench_load(&bench, 1, (const int64_t[SLOTS]){0, 0, 1, 0, 7, 0});
    statistics = bench_add(&bench);
    assert_balance(statistics.last_window, 1.25, 1.5, 0);
    assert_balance(eplb_statistics_now(bench.keeper), 1.375, 1.75, 1);
    statistics = bench_add(&bench);
    assert_int_equal(statistics.windows, 2);
    assert_int_equal(statistics.forwards, 4);
    assert_balance(statistics.first_window, 1.25, 1.5, 0);
    assert_balance(statistics.last_window, 1.375, 1.75, 1);
    double share;
    assert_int_equal(eplb_statistics_hottest(bench.keeper, 0, &share), 0); /* 10 of expert 0, 10 of 3 */
    assert_true(share == 0.5);
    assert_int_equal(eplb_statistics_hottest(bench.keeper, 1, &share), 2);
    assert_true(share == 0.875);
    bench_close(&bench);
}

/* Layers of the same balance: the lower one is told. */
static void ties_go_to_the_lowest(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, 1);
    bench_load(&bench, 0, (const int64_t[SLOTS]){0, 0, 1, 0, 2, 0});
    bench_load(&bench, 1, (const int64_t[SLOTS]){0, 4, 0, 2, 0, 0});
    struct eplb_statistics statistics = bench_add(&bench);
    assert_int_equal(statistics.last_window.worst_layer, 0);
    assert_true(statistics.last_window.worst == 4.0 / 3);
    bench_close(&bench);
}

static void windows_without_load_are_neither_first_nor_last(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, 1);
    struct eplb_statistics statistics = bench_add(&bench);
    assert_int_equal(statistics.windows, 1);
    assert_balance(statistics.last_window, 1, 1, EPLB_NO_LAYER);
    bench_load(&bench, 0, (const int64_t[SLOTS]){3, 0, 0, 0, 1, 0});
    statistics = bench_add(&bench);
    assert_balance(statistics.first_window, 1.5, 1.5, 0);
    bench_idle(&bench);
    statistics = bench_add(&bench);
    assert_int_equal(statistics.windows, 3);
    assert_balance(statistics.first_window, 1.5, 1.5, 0);
    assert_balance(statistics.last_window, 1.5, 1.5, 0);
    bench_close(&bench);
}

/* Expert 0 is on rank 1 in the second forward; its load is its load. */
static void counts_are_folded_by_the_tables_of_their_forward(void **state)
{
    (void)state;
    static const int32_t other[SLOTS] = {1, 2, 3, 0, 1, 2};
    struct bench bench;
    double measured[RANKS], first[RANKS], share;
    bench_open(&bench, 2);
    bench_load(&bench, 0, (const int64_t[SLOTS]){8, 0, 0, 0, 0, 0});
    bench_add(&bench);
    memcpy(bench.tables[0], other, sizeof other);
    bench_load(&bench, 0, (const int64_t[SLOTS]){0, 0, 4, 8, 0, 0});
    struct eplb_statistics statistics = bench_add(&bench);
    assert_balance(statistics.last_window, 1.2, 1.2, 0);
    /* 16 of expert 0 and 4 of expert 3 under the initial table: 8 and 12. */
    assert_balance(statistics.last_window_initial, 1.2, 1.2, 0);
    eplb_statistics_rank_loads(bench.keeper, 0, measured, first);
    assert_true(measured[0] == 12 && measured[1] == 8 && first[0] == 8 && first[1] == 12);
    assert_int_equal(eplb_statistics_hottest(bench.keeper, 0, &share), 0);
    assert_true(share == 0.8);
    bench_close(&bench);
}

/* ---------------------------------------------------------------------------------- what lacks */

static void a_forward_counts_wholly_or_not_at_all(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, 5);
    bench_load(&bench, 0, (const int64_t[SLOTS]){3, 0, 0, 0, 1, 0});
    bench_add(&bench);
    bench_load(&bench, 0, (const int64_t[SLOTS]){0, 0, 0, 9, 9, 9});
    bench.outputs[0].prefix = NULL;
    bench_add(&bench);
    assert_balance(eplb_statistics_now(bench.keeper), 1.5, 1.5, 0);
    bench.outputs[0].prefix = bench.prefix[0][0];
    bench.prefix[1][1][0] = 2; /* then 0: a fall, in the last layer of the last rank */
    bench_add(&bench);
    assert_balance(eplb_statistics_now(bench.keeper), 1.5, 1.5, 0);
    bench.prefix[1][1][0] = -1;
    struct eplb_statistics statistics = bench_add(&bench);
    assert_balance(eplb_statistics_now(bench.keeper), 1.5, 1.5, 0);
    assert_int_equal(statistics.windows, 0);
    /* Such forwards are forwards of the window all the same. */
    bench.prefix[1][1][0] = 0;
    statistics = bench_add(&bench);
    assert_int_equal(statistics.windows, 1);
    assert_balance(statistics.last_window, 28 * 2 / 31.0, 28 * 2 / 31.0, 0);
    bench_close(&bench);
}

static void windows_hold_up_to_the_largest_load(void **state)
{
    (void)state;
    struct bench bench;
    double measured[RANKS], first[RANKS];
    bench_open(&bench, 100);
    bench_load(&bench, 0, (const int64_t[SLOTS]){EPLB_MAX_LOAD - 1, 0, 0, 0, 0, 0});
    bench_add(&bench);
    bench_load(&bench, 0, (const int64_t[SLOTS]){0, 0, 0, 0, 2, 0});
    bench_add(&bench);
    eplb_statistics_rank_loads(bench.keeper, 0, measured, first);
    assert_true(measured[1] == 0);
    bench_load(&bench, 0, (const int64_t[SLOTS]){0, 0, 0, 0, 1, 0});
    bench_add(&bench);
    eplb_statistics_rank_loads(bench.keeper, 0, measured, first);
    assert_true(measured[1] == 1);
    bench_load(&bench, 0, (const int64_t[SLOTS]){INT64_MAX, 0, 0, INT64_MAX, 0, 0});
    bench_add(&bench);
    eplb_statistics_rank_loads(bench.keeper, 0, measured, first);
    assert_true(measured[0] == 0x1p62 && measured[1] == 1);
    bench_close(&bench);
}

static void a_lacking_result_leaves_the_paths_alone(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, 1);
    bench.work[0][0] = (struct eplb_moe_work){.rows = 10, .cpu_ns = 100};
    bench.work[1][0] = (struct eplb_moe_work){.rows = 7, .cpu_ns = 300, .route_ns = 40};
    bench.work[0][1] = (struct eplb_moe_work){.rows = 2, .cpu_ns = 5, .route_ns = 2};
    bench.work[1][1] = (struct eplb_moe_work){.rows = 4, .cpu_ns = 4};
    struct eplb_statistics statistics = bench_add(&bench);
    assert_int_equal(statistics.critical_path_tokens, 14);
    assert_int_equal(statistics.critical_path_ns, 305);
    assert_int_equal(statistics.mean_path_tokens, 11); /* 23 / 2 */
    assert_int_equal(statistics.routing_path_ns, 42);
    bench.results[1].num_samples = 1;
    bench.results[0].samples = NULL;
    statistics = bench_add(&bench);
    assert_int_equal(statistics.critical_path_tokens, 14);
    assert_int_equal(statistics.critical_path_ns, 305);
    assert_int_equal(statistics.mean_path_tokens, 11);
    assert_int_equal(statistics.routing_path_ns, 42);
    assert_int_equal(statistics.tokens, 1);
    bench.results[0].samples = bench.samples[0];
    statistics = bench_add(&bench);
    assert_int_equal(statistics.critical_path_tokens, 28);
    assert_int_equal(statistics.mean_path_tokens, 23); /* 46 / 2: halves are kept until the end */
    assert_int_equal(statistics.tokens, 2);
    bench.work[0][0] = (struct eplb_moe_work){.rows = INT64_MAX, .cpu_ns = INT64_MAX};
    bench.work[1][0] = (struct eplb_moe_work){.rows = INT64_MAX, .cpu_ns = INT64_MAX};
    statistics = bench_add(&bench);
    assert_int_equal(statistics.critical_path_tokens, INT64_MAX);
    assert_int_equal(statistics.critical_path_ns, INT64_MAX);
    assert_int_equal(statistics.mean_path_tokens, INT64_MAX);
    bench_close(&bench);
}

/* -------------------------------------------------------------------------------------- digest */

static uint64_t digest_of(const struct eplb_model_sample *samples, int32_t count, int32_t on_rank_0,
                          int32_t per_forward)
{
    struct bench bench;
    struct eplb_statistics statistics = {0};
    bench_open(&bench, 3);
    for (int32_t next = 0; next < count;) {
        int32_t end = next + per_forward < count ? next + per_forward : count;
        bench.results[0].num_samples = bench.results[1].num_samples = 0;
        for (; next < end; next++) {
            int32_t rank = bench.results[0].num_samples < on_rank_0 ? 0 : 1;
            bench.samples[rank][bench.results[rank].num_samples++] = samples[next];
        }
        statistics = bench_add(&bench);
    }
    assert_int_equal(statistics.tokens, count);
    bench_close(&bench);
    return statistics.digest;
}

static void the_digest_is_of_the_samples_alone(void **state)
{
    (void)state;
    enum { COUNT = 24 };
    struct eplb_model_sample samples[COUNT];
    for (int32_t i = 0; i < COUNT; i++)
        samples[i] = (struct eplb_model_sample){
            .sequence = (uint64_t)i % 5, .position = i / 5, .token = i % 3, .digest = (uint64_t)i * 77};
    uint64_t digest = digest_of(samples, COUNT, 4, 8);
    assert_int_equal(digest_of(samples, COUNT, 8, 8), digest);
    assert_int_equal(digest_of(samples, COUNT, 0, 3), digest);
    for (int32_t i = 0; i < COUNT / 2; i++) {
        struct eplb_model_sample other = samples[i];
        samples[i] = samples[COUNT - 1 - i];
        samples[COUNT - 1 - i] = other;
    }
    assert_int_equal(digest_of(samples, COUNT, 1, 5), digest);

    assert_true(digest_of(samples, COUNT - 1, 4, 8) != digest);
    samples[7].sequence++;
    assert_true(digest_of(samples, COUNT, 4, 8) != digest);
    samples[7].sequence--;
    samples[7].position++;
    assert_true(digest_of(samples, COUNT, 4, 8) != digest);
    samples[7].position--;
    samples[7].token++;
    assert_true(digest_of(samples, COUNT, 4, 8) != digest);
    samples[7].token--;
    samples[7].digest ^= UINT64_C(1) << 63;
    assert_true(digest_of(samples, COUNT, 4, 8) != digest);
    samples[7].digest ^= UINT64_C(1) << 63;
    assert_int_equal(digest_of(samples, COUNT, 4, 8), digest);
    /* Fields of two samples that change places. */
    uint64_t of_7 = samples[7].digest;
    samples[7].digest = samples[8].digest;
    samples[8].digest = of_7;
    assert_true(digest_of(samples, COUNT, 4, 8) != digest);
    /* The same sample twice is not as if there were none. */
    samples[1] = samples[0];
    assert_true(digest_of(samples, 2, 4, 8) != 0);
}

/* ----------------------------------------------------------------------------------- percentile */

static void step_times_have_percentiles(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, 10);
    for (int64_t ns = 50; ns >= 1; ns--)
        eplb_statistics_add(bench.keeper, bench.outputs, bench.results, bench.tables[0], ns);
    assert_int_equal(eplb_statistics_step_ns(bench.keeper, 50), 25);
    assert_int_equal(eplb_statistics_step_ns(bench.keeper, 99), 50);
    assert_int_equal(eplb_statistics_step_ns(bench.keeper, 98), 49);
    assert_int_equal(eplb_statistics_step_ns(bench.keeper, 0.0001), 1);
    assert_int_equal(eplb_statistics_step_ns(bench.keeper, 99.9), 50);
    assert_int_equal(eplb_statistics_step_ns(bench.keeper, 100), 50);
    /* 0.57 is a little less in binary; of 10001 times ceil(57.0057) is place 58. */
    eplb_statistics_init(bench.keeper, &bench.params);
    for (int64_t i = 0; i < 10001; i++)
        eplb_statistics_add(bench.keeper, bench.outputs, bench.results, bench.tables[0], i < 57 ? 1 : 2);
    assert_int_equal(eplb_statistics_step_ns(bench.keeper, 0.57), 2);
    assert_int_equal(eplb_statistics_step_ns(bench.keeper, 0.56), 1);
    bench_close(&bench);
}

/* A second start over used memory is as the first. */
static void a_keeper_starts_again(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, 3);
    bench_load(&bench, 1, (const int64_t[SLOTS]){3, 0, 0, 0, 1, 0});
    bench.work[1][0] = (struct eplb_moe_work){.rows = 7, .cpu_ns = 300};
    bench.results[0].num_samples = 2;
    for (int i = 0; i < 4; i++)
        bench_add(&bench);
    eplb_statistics_init(bench.keeper, &bench.params);
    struct eplb_statistics statistics = bench_add(&bench);
    assert_int_equal(statistics.forwards, 1);
    assert_int_equal(statistics.windows, 0);
    assert_int_equal(statistics.tokens, 2);
    assert_int_equal(statistics.critical_path_ns, 300);
    assert_int_equal(statistics.critical_path_tokens, 7);
    assert_int_equal(statistics.mean_path_tokens, 3);
    double measured[RANKS], first[RANKS];
    eplb_statistics_rank_loads(bench.keeper, 1, measured, first);
    assert_true(measured[0] == 3 && measured[1] == 1);
    bench_close(&bench);
}

/* ------------------------------------------------------------------------------------- the twin */

/* The last window of a random run, kept whole and summed up at the end. */
enum { TWIN_RUNS = 200, TWIN_FORWARDS = 40 };

struct twin {
    double logical[LAYERS][EXPERTS];
    double ranks[LAYERS][RANKS];
};

static double largest(const double *values, int32_t count)
{
    double found = values[0];
    for (int32_t i = 1; i < count; i++)
        found = values[i] > found ? values[i] : found;
    return found;
}

static double sum_of(const double *values, int32_t count)
{
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-12 * fabs(b));
}

static void compare_with(const struct twin *twin, const struct bench *bench,
                         const struct eplb_statistics *statistics)
{
    double sum = 0;
    double initial_sum = 0;
    double worst = 0;
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        double measured[RANKS], first[RANKS], share;
        double total = sum_of(twin->logical[layer], EXPERTS);
        double mean = total / RANKS;
        assert_true(total > 0);
        eplb_statistics_rank_loads(bench->keeper, layer, measured, first);
        for (int32_t rank = 0; rank < RANKS; rank++)
            assert_true(measured[rank] == twin->ranks[layer][rank]);
        const double *load = twin->logical[layer];
        int32_t bit = layer;
        /* In layer 0 experts 0 and 2 are on both ranks. */
        double both = (load[0 ^ bit] + load[2 ^ bit]) / 2;
        assert_near(first[0], both + load[1 ^ bit]);
        assert_near(first[1], both + load[3 ^ bit]);
        sum += largest(measured, RANKS) / mean;
        initial_sum += largest(first, RANKS) / mean;
        worst = largest(measured, RANKS) / mean > worst ? largest(measured, RANKS) / mean : worst;
        int32_t hottest = eplb_statistics_hottest(bench->keeper, layer, &share);
        assert_true(load[hottest] == largest(load, EXPERTS));
        assert_near(share, load[hottest] / total);
    }
    assert_near(statistics->last_window.mean, sum / LAYERS);
    assert_near(statistics->last_window.worst, worst);
    assert_near(statistics->last_window_initial.mean, initial_sum / LAYERS);
}

static void random_forward(struct eplb_prng *prng, struct bench *bench, struct twin *twin)
{
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        int64_t counts[SLOTS];
        tables_random(prng, &bench->params.shape, bench->tables[layer]);
        for (int32_t slot = 0; slot < SLOTS; slot++) {
            counts[slot] = (int64_t)eplb_prng_below(prng, 1000);
            twin->logical[layer][bench->tables[layer][slot]] += (double)counts[slot];
            twin->ranks[layer][slot / PER_RANK] += (double)counts[slot];
        }
        bench_load(bench, layer, counts);
    }
}

static void random_runs_are_as_the_twin_has_them(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TWIN_RUNS; seed++) {
        struct eplb_prng prng;
        struct bench bench;
        struct twin twin = {0};
        eplb_prng_seed(&prng, seed);
        print_message("seed %llu\n", (unsigned long long)seed);
        int32_t window = 1 + (int32_t)eplb_prng_below(&prng, TWIN_FORWARDS);
        bench_open(&bench, window);
        for (int32_t forward = 0; forward < TWIN_FORWARDS; forward++) {
            if (forward % window == 0)
                memset(&twin, 0, sizeof twin);
            random_forward(&prng, &bench, &twin);
            struct eplb_statistics statistics = bench_add(&bench);
            assert_int_equal(statistics.windows, (forward + 1) / window);
            if ((forward + 1) % window == 0)
                compare_with(&twin, &bench, &statistics);
        }
        bench_close(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_in_balance),
        cmocka_unit_test(the_open_window_stands_for_the_last),
        cmocka_unit_test(windows_close_and_begin_at_zero),
        cmocka_unit_test(ties_go_to_the_lowest),
        cmocka_unit_test(windows_without_load_are_neither_first_nor_last),
        cmocka_unit_test(counts_are_folded_by_the_tables_of_their_forward),
        cmocka_unit_test(a_forward_counts_wholly_or_not_at_all),
        cmocka_unit_test(windows_hold_up_to_the_largest_load),
        cmocka_unit_test(a_lacking_result_leaves_the_paths_alone),
        cmocka_unit_test(the_digest_is_of_the_samples_alone),
        cmocka_unit_test(step_times_have_percentiles),
        cmocka_unit_test(a_keeper_starts_again),
        cmocka_unit_test(random_runs_are_as_the_twin_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
