/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * How fast samples are aggregated, in GB/s of prefix sums read. Beside it, in the same run: a copy
 * of the same bytes, which is what the memory allows, and the plain twin of the aggregation, which
 * checks nothing, keeps no generations and can take no sample back.
 */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "eplb/load.h"
#include "support/bench.h"

enum { MAX_COUNT = 4096 }; /* tokens per slot and sample */

struct size {
    int32_t num_layers;
    int32_t num_experts;
    int32_t ep_size;
};

static const struct size sizes[] = {{58, 256, 32}, {58, 256, 64}, {61, 384, 128}, {24, 32, 8}};
static const struct size quick_sizes[] = {{4, 32, 8}};

struct aggregation {
    struct eplb_shape shape;
    int32_t num_samples;
    size_t report_entries; /* int64 of one rank's report */
    int32_t *expert_ids;
    uint64_t *generations;
    int64_t *prefixes;              /* [num_samples][ep_size][num_layers][slots_per_rank] */
    struct eplb_rank_report *ranks; /* [num_samples][ep_size] */
    struct eplb_aggregator *aggregator;
    int64_t *logical;  /* of the plain twin: [num_layers][num_experts] */
    int64_t *physical; /* of the plain twin: [num_layers][ep_size][slots_per_rank] */
    int64_t *copy;     /* of the copy: one sample */
};

static size_t sample_entries(const struct aggregation *work)
{
    return work->report_entries * (size_t)work->shape.ep_size;
}

static void add_all(void *context)
{
    struct aggregation *work = context;
    struct eplb_error error;
    for (int32_t i = 0; i < work->num_samples; i++) {
        const struct eplb_sample sample = {.ranks = work->ranks + (size_t)i * (size_t)work->shape.ep_size,
                                           .num_ranks = work->shape.ep_size};
        struct eplb_sample_result result;
        if (eplb_aggregator_add(work->aggregator, &sample, &result, &error) != EPLB_OK)
            eplb_bench_fail(error.text);
    }
}

/* One layer of one rank's report. */
static void add_layer_plainly(struct aggregation *work, int32_t rank, int32_t layer, const int64_t *prefix)
{
    const struct eplb_shape *shape = &work->shape;
    size_t first = ((size_t)layer * (size_t)shape->ep_size + (size_t)rank) * (size_t)shape->slots_per_rank;
    int64_t *logical = work->logical + (size_t)layer * (size_t)shape->num_experts;
    int64_t before = 0;
    for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
        int64_t count = prefix[slot] - before;
        before = prefix[slot];
        work->physical[first + (size_t)slot] += count;
        logical[work->expert_ids[first + (size_t)slot]] += count;
    }
}

static void add_all_plainly(void *context)
{
    struct aggregation *work = context;
    const int64_t *prefix = work->prefixes;
    for (int32_t i = 0; i < work->num_samples; i++)
        for (int32_t rank = 0; rank < work->shape.ep_size; rank++)
            for (int32_t layer = 0; layer < work->shape.num_layers; layer++) {
                add_layer_plainly(work, rank, layer, prefix);
                prefix += work->shape.slots_per_rank;
            }
}

static void copy_all(void *context)
{
    struct aggregation *work = context;
    size_t entries = sample_entries(work);
    for (int32_t i = 0; i < work->num_samples; i++) {
        memcpy(work->copy, work->prefixes + (size_t)i * entries, entries * sizeof work->copy[0]);
        /* Whoever reads the copy is unknown to the compiler, so it has to be made. */
        __asm__ volatile("" : : "r"(work->copy) : "memory");
    }
}

static void fill(struct aggregation *work)
{
    const struct eplb_shape *shape = &work->shape;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 1);
    int64_t *prefix = work->prefixes;
    for (int32_t report = 0; report < work->num_samples * shape->ep_size; report++) {
        work->ranks[report] = (struct eplb_rank_report){.prefix = prefix,
                                                        .generations = work->generations,
                                                        .num_layers = shape->num_layers,
                                                        .slots_per_rank = shape->slots_per_rank};
        for (int32_t layer = 0; layer < shape->num_layers; layer++) {
            int64_t sum = 0;
            for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
                *prefix++ = sum += (int64_t)eplb_prng_below(&prng, MAX_COUNT);
        }
    }
}

static void set_up(struct aggregation *work, struct size size, int32_t num_samples)
{
    struct eplb_error error;
    *work = (struct aggregation){.num_samples = num_samples};
    struct eplb_shape *shape = &work->shape;
    if (eplb_shape_init(shape, size.num_layers, size.num_experts, size.ep_size, 1, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
    size_t layers = (size_t)shape->num_layers;
    size_t reports = (size_t)num_samples * (size_t)shape->ep_size;
    work->report_entries = layers * (size_t)shape->slots_per_rank;
    work->expert_ids = eplb_bench_allocate(layers * (size_t)shape->num_slots, sizeof(int32_t));
    work->generations = eplb_bench_allocate(layers, sizeof(uint64_t));
    work->prefixes = eplb_bench_allocate(reports * work->report_entries, sizeof(int64_t));
    work->ranks = eplb_bench_allocate(reports, sizeof(struct eplb_rank_report));
    work->logical = eplb_bench_allocate(layers * (size_t)shape->num_experts, sizeof(int64_t));
    work->physical = eplb_bench_allocate(sample_entries(work), sizeof(int64_t));
    work->copy = eplb_bench_allocate(sample_entries(work), sizeof(int64_t));
    for (size_t layer = 0; layer < layers; layer++)
        eplb_placement_initial(shape, work->expert_ids + layer * (size_t)shape->num_slots);
    fill(work);
    if (eplb_aggregator_create(shape, 1, work->expert_ids, NULL, NULL, &work->aggregator, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
}

static void tear_down(struct aggregation *work)
{
    eplb_aggregator_destroy(work->aggregator);
    free(work->copy);
    free(work->physical);
    free(work->logical);
    free(work->ranks);
    free(work->prefixes);
    free(work->generations);
    free(work->expert_ids);
}

/* A figure of code that computes something else is worth nothing. */
static void check_against_the_twin(struct aggregation *work)
{
    add_all(work);
    add_all_plainly(work);
    const struct eplb_window *window = eplb_aggregator_open(work->aggregator);
    size_t experts = (size_t)work->shape.num_layers * (size_t)work->shape.num_experts;
    if (memcmp(window->logical, work->logical, experts * sizeof(int64_t)) != 0 ||
        memcmp(window->physical, work->physical, sample_entries(work) * sizeof(int64_t)) != 0)
        eplb_bench_fail("the aggregator and its plain twin disagree");
}

static void bench_size(struct eplb_bench_report *report, struct size size, int quick)
{
    int repetitions = quick ? 3 : 50;
    int warm_up = quick ? 1 : 5;
    struct aggregation work;
    set_up(&work, size, quick ? 2 : 16);
    check_against_the_twin(&work);
    double bytes = (double)sample_entries(&work) * sizeof(int64_t);
    double gigabytes = bytes * work.num_samples * 1e-9;
    struct eplb_bench_time added = eplb_bench_measure(add_all, &work, warm_up, repetitions);
    struct eplb_bench_time plain = eplb_bench_measure(add_all_plainly, &work, warm_up, repetitions);
    struct eplb_bench_time copied = eplb_bench_measure(copy_all, &work, warm_up, repetitions);
    const struct eplb_bench_cell cells[] = {
        EPLB_BENCH_CELL_INT("layers", size.num_layers),
        EPLB_BENCH_CELL_INT("experts", size.num_experts),
        EPLB_BENCH_CELL_INT("ranks", size.ep_size),
        EPLB_BENCH_CELL_INT("slots", work.shape.num_slots),
        EPLB_BENCH_CELL_INT("bytes", (int64_t)bytes),
        EPLB_BENCH_CELL_REAL("us_per_sample", added.minimum / work.num_samples * 1e6),
        EPLB_BENCH_CELL_REAL("us_per_sample_median", added.median / work.num_samples * 1e6),
        EPLB_BENCH_CELL_REAL("gb_per_s", gigabytes / added.minimum),
        EPLB_BENCH_CELL_REAL("plain_gb_per_s", gigabytes / plain.minimum),
        EPLB_BENCH_CELL_REAL("memcpy_gb_per_s", gigabytes / copied.minimum),
    };
    eplb_bench_row(report, cells, sizeof cells / sizeof cells[0]);
    tear_down(&work);
}

int main(int argc, char **argv)
{
    struct eplb_bench_options options;
    int code = eplb_bench_parse(
        argc, argv, "Aggregation of samples (one redundant slot per rank) beside a copy of the same bytes.",
        &options);
    if (code >= 0)
        return code;
    struct eplb_bench_report report = {.json = options.json};
    const struct size *chosen = options.quick ? quick_sizes : sizes;
    size_t count =
        options.quick ? sizeof quick_sizes / sizeof quick_sizes[0] : sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < count; i++)
        bench_size(&report, chosen[i], options.quick);
    return eplb_bench_end(&report);
}
