/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * How long the best split of a window and the integral split of a batch take per layer. Beside them,
 * in the same run: the textbook flow that they are tested against, one pass over the batch's counts,
 * which every rank that knows them must make, and a copy of the same bytes.
 *
 * Placements: the hottest experts of each rank once more on other ranks, in two shapes. `tree` hangs
 * every rank below one of half its number, so that no two are far apart; in a `ring` they are.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "eplb/routing.h"
#include "support/bench.h"
#include "trace/workload.h"
#include "unit/routing/plain_flow.h"

enum {
    WINDOW_TOKENS = 1000000, /* rows of one layer in the window */
    SLOT_COST = 16,          /* what an active slot costs, in tokens */
    RANK_TOKENS = 1024,      /* rows of one rank in the batch: 128 sequences, 8 experts each */
};

struct shape_case {
    const char *model;
    int32_t num_experts;
    int32_t ep_size;
    int32_t redundant;
};

static const struct shape_case cases[] = {
    {"gpt-oss", 32, 8, 1},           {"gpt-oss", 32, 16, 1},       {"deepseek-v2-lite", 64, 16, 1},
    {"deepseek-v2-lite", 64, 32, 1}, {"deepseek-v3", 256, 32, 1},  {"deepseek-v3", 256, 32, 2},
    {"deepseek-v3", 256, 128, 1},    {"deepseek-v3", 256, 128, 2},
};

struct bench {
    struct eplb_shape shape;
    int32_t *ids;    /* [L][num_slots] */
    int64_t *load;   /* [L][E] of the window that is split */
    int32_t *counts; /* [L][R][E] of the batch */
    int32_t *tables; /* [L][R][E] */
    unsigned char *memory;
    struct eplb_split_graph **graphs; /* [L] */
    int32_t *weights;                 /* [num_slots] */
    int64_t *tokens;                  /* [num_slots] */
    int64_t *sums;                    /* [E] */
    int32_t *copy;                    /* [R][E] */
    int32_t *sends;                   /* [num_slots] */
    double split_excess;              /* peak / mean - 1, mean over the layers */
    double batch_excess;
    int64_t plain_peak;
};

static size_t layer_of(int32_t layer, int32_t size)
{
    return (size_t)layer * (size_t)size;
}

static const int64_t *load_of(const struct bench *bench, int32_t layer)
{
    return bench->load + layer_of(layer, bench->shape.num_experts);
}

static const int32_t *counts_of(const struct bench *bench, int32_t layer)
{
    return bench->counts + layer_of(layer, bench->shape.num_experts * bench->shape.ep_size);
}

static void build_graphs(void *context)
{
    struct bench *bench = context;
    size_t size = eplb_split_graph_size(&bench->shape);
    for (int32_t layer = 0; layer < bench->shape.num_layers; layer++)
        bench->graphs[layer] =
            eplb_split_graph_build(&bench->shape, bench->ids + layer_of(layer, bench->shape.num_slots),
                                   bench->memory + (size_t)layer * size);
}

static void split_layers(void *context)
{
    struct bench *bench = context;
    bench->split_excess = 0;
    for (int32_t layer = 0; layer < bench->shape.num_layers; layer++) {
        struct eplb_best_split result;
        eplb_split_graph_solve(bench->graphs[layer], load_of(bench, layer), bench->weights, NULL, &result);
        bench->split_excess += (result.peak / result.mean - 1) / bench->shape.num_layers;
    }
}

static void peak_layers(void *context)
{
    struct bench *bench = context;
    for (int32_t layer = 0; layer < bench->shape.num_layers; layer++)
        if (!(eplb_split_graph_peak(bench->graphs[layer], load_of(bench, layer), INFINITY) > 0))
            eplb_bench_fail("a window without load");
}

static void solve_batches(struct bench *bench, int with_table, int32_t cost_per_active_slot)
{
    int64_t mean = RANK_TOKENS;
    bench->batch_excess = 0;
    for (int32_t layer = 0; layer < bench->shape.num_layers; layer++) {
        struct eplb_batch_problem problem;
        struct eplb_batch_result result;
        eplb_batch_problem_init(&problem);
        problem.counts = counts_of(bench, layer);
        if (with_table)
            problem.table = bench->tables + (problem.counts - bench->counts);
        problem.rotation = (uint64_t)layer;
        problem.cost_per_active_slot = cost_per_active_slot;
        eplb_batch_split(bench->graphs[layer], &problem, bench->tokens, &result);
        bench->batch_excess += ((double)result.peak / (double)mean - 1) / bench->shape.num_layers;
    }
}

static void cost_layers(void *context)
{
    solve_batches(context, 0, SLOT_COST);
}

/** With a table to look at first, which is hardly ever as good as it gets. */
static void table_layers(void *context)
{
    solve_batches(context, 1, 0);
}

static void batch_layers(void *context)
{
    solve_batches(context, 0, 0);
}

static void send_layers(void *context)
{
    struct bench *bench = context;
    int32_t last = bench->shape.num_layers - 1; /* the one whose tokens are there */
    for (int32_t layer = 0; layer < bench->shape.num_layers; layer++)
        eplb_batch_sends(bench->graphs[last], counts_of(bench, last), bench->tokens,
                         layer % bench->shape.ep_size, bench->sends);
}

static void sum_counts(void *context)
{
    struct bench *bench = context;
    size_t experts = (size_t)bench->shape.num_experts;
    for (int32_t layer = 0; layer < bench->shape.num_layers; layer++) {
        const int32_t *row = counts_of(bench, layer);
        memset(bench->sums, 0, experts * sizeof bench->sums[0]);
        for (int32_t source = 0; source < bench->shape.ep_size; source++, row += experts)
            for (size_t expert = 0; expert < experts; expert++)
                bench->sums[expert] += row[expert];
    }
}

static void copy_counts(void *context)
{
    struct bench *bench = context;
    size_t size = (size_t)bench->shape.num_experts * (size_t)bench->shape.ep_size;
    for (int32_t layer = 0; layer < bench->shape.num_layers; layer++)
        memcpy(bench->copy, counts_of(bench, layer), size * sizeof bench->copy[0]);
}

/** One layer: the last, whose sums are there. */
static void plain_layer(void *context)
{
    struct bench *bench = context;
    size_t last = (size_t)bench->shape.num_layers - 1;
    bench->plain_peak = plain_flow_capacity(&bench->shape, bench->ids + last * (size_t)bench->shape.num_slots,
                                            bench->sums, 1);
}

/** Primaries by load, back and forth over the ranks; then the copies. Primaries descend within a rank. */
static void place(const struct eplb_shape *shape, const int64_t *load, int ring, int32_t *ids)
{
    int32_t own = shape->num_experts / shape->ep_size;
    int32_t ranks = shape->ep_size;
    unsigned char *taken = eplb_bench_allocate((size_t)shape->num_experts, 1);
    for (int32_t i = 0; i < shape->num_experts; i++) {
        int32_t hottest = -1;
        for (int32_t expert = 0; expert < shape->num_experts; expert++)
            if (!taken[expert] && (hottest < 0 || load[expert] > load[hottest]))
                hottest = expert;
        taken[hottest] = 1;
        int32_t row = i / ranks;
        int32_t rank = row % 2 ? ranks - 1 - i % ranks : i % ranks;
        ids[rank * shape->slots_per_rank + row] = hottest;
    }
    free(taken);
    for (int32_t rank = 0; rank < ranks; rank++) {
        for (int32_t j = 0; j < shape->redundant_experts_num; j++) {
            int32_t near = ring ? (rank + 1) % ranks : rank > 0 ? (rank - 1) / 2 : ranks - 1;
            int32_t other = j == 0 ? near : (rank + ranks / 2 + j) % ranks;
            other += j > 0 && other == near ? 1 : 0;
            int32_t nth = j > 0 ? j + 1 : ring ? 0 : rank % 2;
            ids[rank * shape->slots_per_rank + own + j] = ids[other * shape->slots_per_rank + nth % own];
        }
    }
}

/** The batch: every source's rows, drawn one by one with the window's rates. */
static void draw_counts(struct eplb_prng *prng, const struct eplb_shape *shape, const int64_t *load,
                        int32_t *counts)
{
    int64_t total = 0;
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        total += load[expert];
    for (int32_t source = 0; source < shape->ep_size; source++) {
        for (int32_t row = 0; row < RANK_TOKENS; row++) {
            int64_t at = (int64_t)eplb_prng_below(prng, (uint64_t)total);
            int32_t expert = 0;
            while (at >= load[expert])
                at -= load[expert++];
            counts[source * shape->num_experts + expert]++;
        }
    }
}

static void set_up(struct bench *bench, const struct shape_case *shape_case, int ring, int32_t num_layers)
{
    struct eplb_shape *shape = &bench->shape;
    struct eplb_error error;
    if (eplb_shape_init(shape, num_layers, shape_case->num_experts, shape_case->ep_size,
                        shape_case->redundant, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
    size_t layers = (size_t)num_layers;
    size_t slots = (size_t)shape->num_slots;
    size_t experts = (size_t)shape->num_experts;
    size_t pairs = experts * (size_t)shape->ep_size;
    bench->ids = eplb_bench_allocate(layers * slots, sizeof bench->ids[0]);
    bench->load = eplb_bench_allocate(layers * experts, sizeof bench->load[0]);
    bench->counts = eplb_bench_allocate(layers * pairs, sizeof bench->counts[0]);
    bench->tables = eplb_bench_allocate(layers * pairs, sizeof bench->tables[0]);
    bench->graphs = eplb_bench_allocate(layers, sizeof bench->graphs[0]);
    bench->weights = eplb_bench_allocate(slots, sizeof bench->weights[0]);
    bench->tokens = eplb_bench_allocate(slots, sizeof bench->tokens[0]);
    bench->sums = eplb_bench_allocate(experts, sizeof bench->sums[0]);
    bench->copy = eplb_bench_allocate(pairs, sizeof bench->copy[0]);
    bench->sends = eplb_bench_allocate(slots, sizeof bench->sends[0]);
    bench->memory = aligned_alloc(64, layers * eplb_split_graph_size(shape));
    if (!bench->memory)
        eplb_bench_fail("out of memory");
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 1);
    for (int32_t layer = 0; layer < num_layers; layer++) {
        int64_t *load = bench->load + layer_of(layer, shape->num_experts);
        if (eplb_workload_lognormal(&prng, shape->num_experts, 0.5, WINDOW_TOKENS, load, &error) != EPLB_OK)
            eplb_bench_fail(error.text);
        int32_t *ids = bench->ids + layer_of(layer, shape->num_slots);
        place(shape, load, ring, ids);
        if (eplb_placement_check(shape, ids, &error) != EPLB_OK)
            eplb_bench_fail(error.text);
        int32_t *table = bench->tables + (size_t)layer * pairs;
        for (int32_t source = 0; source < shape->ep_size; source++)
            eplb_log2phy(shape, ids, source, 0, table + layer_of(source, shape->num_experts));
        /* The window after the one that was planned for: each expert up to 30 % away. */
        for (int32_t expert = 0; expert < shape->num_experts; expert++)
            load[expert] = (int64_t)((double)load[expert] * (0.7 + 0.6 * eplb_prng_real(&prng)));
        draw_counts(&prng, shape, load, bench->counts + (size_t)layer * pairs);
    }
}

static void tear_down(struct bench *bench)
{
    free(bench->memory);
    free(bench->sends);
    free(bench->copy);
    free(bench->sums);
    free(bench->tokens);
    free(bench->weights);
    free(bench->graphs);
    free(bench->tables);
    free(bench->counts);
    free(bench->load);
    free(bench->ids);
}

static void bench_case(struct eplb_bench_report *report, const struct shape_case *shape_case, int ring,
                       int quick)
{
    int32_t num_layers = quick ? 2 : 58;
    int repetitions = quick ? 3 : 50;
    struct bench bench = {0};
    set_up(&bench, shape_case, ring, num_layers);
    double per_layer = 1e6 / num_layers;
    struct eplb_bench_time built = eplb_bench_measure(build_graphs, &bench, 1, repetitions);
    struct eplb_bench_time split = eplb_bench_measure(split_layers, &bench, 1, repetitions);
    struct eplb_bench_time peak = eplb_bench_measure(peak_layers, &bench, 1, repetitions);
    struct eplb_bench_time cost = eplb_bench_measure(cost_layers, &bench, 1, repetitions);
    struct eplb_bench_time table = eplb_bench_measure(table_layers, &bench, 1, repetitions);
    struct eplb_bench_time batch = eplb_bench_measure(batch_layers, &bench, 1, repetitions);
    struct eplb_bench_time sends = eplb_bench_measure(send_layers, &bench, 1, repetitions);
    struct eplb_bench_time summed = eplb_bench_measure(sum_counts, &bench, 1, repetitions);
    struct eplb_bench_time copied = eplb_bench_measure(copy_counts, &bench, 1, repetitions);
    struct eplb_bench_time plain = eplb_bench_measure(plain_layer, &bench, 0, 1);
    const struct eplb_bench_cell cells[] = {
        EPLB_BENCH_CELL_TEXT("model", shape_case->model),
        EPLB_BENCH_CELL_INT("experts", shape_case->num_experts),
        EPLB_BENCH_CELL_INT("ranks", shape_case->ep_size),
        EPLB_BENCH_CELL_INT("slots", bench.shape.num_slots),
        EPLB_BENCH_CELL_TEXT("graph", ring ? "ring" : "tree"),
        EPLB_BENCH_CELL_REAL("build_us", built.minimum * per_layer),
        EPLB_BENCH_CELL_REAL("split_us", split.minimum * per_layer),
        EPLB_BENCH_CELL_REAL("split_us_median", split.median * per_layer),
        EPLB_BENCH_CELL_REAL("peak_us", peak.minimum * per_layer),
        EPLB_BENCH_CELL_REAL("split_peak_over_mean", 1 + bench.split_excess),
        EPLB_BENCH_CELL_REAL("batch_us", batch.minimum * per_layer),
        EPLB_BENCH_CELL_REAL("batch_us_median", batch.median * per_layer),
        EPLB_BENCH_CELL_REAL("batch_peak_over_mean", 1 + bench.batch_excess),
        EPLB_BENCH_CELL_REAL("batch_table_us", table.minimum * per_layer),
        EPLB_BENCH_CELL_REAL("batch_cost_us", cost.minimum * per_layer),
        EPLB_BENCH_CELL_REAL("sends_us", sends.minimum * per_layer),
        EPLB_BENCH_CELL_REAL("sum_us", summed.minimum * per_layer),
        EPLB_BENCH_CELL_REAL("memcpy_us", copied.minimum * per_layer),
        EPLB_BENCH_CELL_REAL("plain_us", plain.minimum * 1e6),
    };
    eplb_bench_row(report, cells, sizeof cells / sizeof cells[0]);
    tear_down(&bench);
}

int main(int argc, char **argv)
{
    struct eplb_bench_options options;
    int code = eplb_bench_parse(
        argc, argv,
        "Time per layer of the best split of a window (graph, weights, peak alone) and of the integral "
        "split\n"
        "of a batch (from all counts; what one source then sends), beside a textbook flow, a pass over the\n"
        "counts and a copy of them.",
        &options);
    if (code >= 0)
        return code;
    struct eplb_bench_report report = {.json = options.json};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int ring = 0; ring < 2; ring++)
            bench_case(&report, &cases[i], ring, options.quick);
    return eplb_bench_end(&report);
}
