/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * How long a policy run takes per layer, gate and legality check included, and how good the tables
 * are. Beside it, in the same run: a sort of as many keys as a layer has slots, which every policy
 * needs at least.
 */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "eplb/policy.h"
#include "support/bench.h"
#include "trace/workload.h"

enum { TOKENS = 1000000 }; /* rows of one layer in the window */

struct size {
    int32_t num_experts;
    int32_t ep_size;
};

static const struct size sizes[] = {{256, 32}, {256, 64}, {384, 128}};
static const char *const policies[] = {"balanced", "greedy"};

struct workload {
    const char *name;
    enum eplb_status (*make)(struct eplb_prng *prng, int32_t num_experts, double spread, int64_t tokens,
                             int64_t *load, struct eplb_error *error);
    double spread;
};

static const struct workload workloads[] = {
    {"lognormal:1.0", eplb_workload_lognormal, 1.0},
    {"zipf:1.1", eplb_workload_zipf, 1.1},
};

struct key {
    int64_t load;
    int32_t slot;
};

struct planning {
    struct eplb_shape shape;
    struct eplb_planner *planner;
    int32_t *active;   /* [num_slots], the same for all layers */
    int64_t *logical;  /* [num_layers][num_experts] */
    int64_t *physical; /* [num_layers][num_slots] */
    struct key *keys;  /* [num_layers][num_slots], what is sorted */
    struct key *sorted;
    int32_t *scratch; /* [num_experts] */
    void *diff_scratch;
    struct eplb_move *moves; /* [num_slots] */
};

static void plan(void *context)
{
    struct planning *work = context;
    struct eplb_error error;
    if (eplb_planner_rebalance(work->planner, work->logical, work->physical, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
}

static int heaviest_first(const void *a, const void *b)
{
    const struct key *x = a;
    const struct key *y = b;
    if (x->load != y->load)
        return x->load > y->load ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static void sort_keys(void *context)
{
    struct planning *work = context;
    size_t slots = (size_t)work->shape.num_slots;
    size_t layers = (size_t)work->shape.num_layers;
    memcpy(work->sorted, work->keys, layers * slots * sizeof work->keys[0]);
    for (size_t layer = 0; layer < layers; layer++)
        qsort(work->sorted + layer * slots, slots, sizeof work->sorted[0], heaviest_first);
}

static void make_loads(struct planning *work, const struct workload *workload)
{
    const struct eplb_shape *shape = &work->shape;
    struct eplb_prng prng;
    struct eplb_error error;
    eplb_prng_seed(&prng, 1);
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        int64_t *load = work->logical + (size_t)layer * (size_t)shape->num_experts;
        int64_t *physical = work->physical + (size_t)layer * (size_t)shape->num_slots;
        if (workload->make(&prng, shape->num_experts, workload->spread, TOKENS, load, &error) != EPLB_OK)
            eplb_bench_fail(error.text);
        eplb_split_evenly(shape, work->active, load, work->scratch, physical);
        struct key *keys = work->keys + (size_t)layer * (size_t)shape->num_slots;
        for (int32_t slot = 0; slot < shape->num_slots; slot++)
            keys[slot] = (struct key){.load = physical[slot], .slot = slot};
    }
}

static void set_up(struct planning *work, struct size size, int32_t num_layers, const char *policy)
{
    struct eplb_error error;
    struct eplb_shape *shape = &work->shape;
    if (eplb_shape_init(shape, num_layers, size.num_experts, size.ep_size, 1, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
    size_t layers = (size_t)shape->num_layers;
    size_t slots = (size_t)shape->num_slots;
    size_t experts = (size_t)shape->num_experts;
    work->active = eplb_bench_allocate(slots, sizeof *work->active);
    work->logical = eplb_bench_allocate(layers * experts, sizeof *work->logical);
    work->physical = eplb_bench_allocate(layers * slots, sizeof *work->physical);
    work->keys = eplb_bench_allocate(layers * slots, sizeof *work->keys);
    work->sorted = eplb_bench_allocate(layers * slots, sizeof *work->sorted);
    work->scratch = eplb_bench_allocate(experts, sizeof *work->scratch);
    work->diff_scratch = eplb_bench_allocate(1, eplb_placement_diff_scratch(shape));
    work->moves = eplb_bench_allocate(slots, sizeof *work->moves);
    eplb_placement_initial(shape, work->active);
    struct eplb_planner_params params;
    eplb_planner_params_init(&params);
    params.shape = *shape;
    params.ops = eplb_policy_find(policy).ops;
    if (eplb_planner_create(&params, &work->planner, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
}

static void tear_down(struct planning *work)
{
    eplb_planner_destroy(work->planner);
    free(work->moves);
    free(work->diff_scratch);
    free(work->scratch);
    free(work->sorted);
    free(work->keys);
    free(work->physical);
    free(work->logical);
    free(work->active);
}

struct quality {
    double peak_over_mean; /* means over the layers */
    double peak_over_lower_bound;
    double moved_per_rank_layer;
};

static struct quality judge(struct planning *work)
{
    const struct eplb_shape *shape = &work->shape;
    struct quality sum = {0};
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        const int32_t *candidate =
            eplb_planner_candidates(work->planner) + (size_t)layer * (size_t)shape->num_slots;
        const int64_t *load = work->logical + (size_t)layer * (size_t)shape->num_experts;
        struct eplb_balance balance = eplb_balance_of(shape, candidate, load, work->scratch);
        sum.peak_over_mean += balance.peak / balance.mean;
        sum.peak_over_lower_bound += balance.peak / balance.lower_bound;
        sum.moved_per_rank_layer +=
            eplb_placement_diff(shape, work->active, candidate, work->diff_scratch, work->moves);
    }
    return (struct quality){.peak_over_mean = sum.peak_over_mean / shape->num_layers,
                            .peak_over_lower_bound = sum.peak_over_lower_bound / shape->num_layers,
                            .moved_per_rank_layer =
                                sum.moved_per_rank_layer / shape->num_layers / shape->ep_size};
}

static void bench_case(struct eplb_bench_report *report, const char *policy, struct size size,
                       const struct workload *workload, int quick)
{
    int32_t num_layers = quick ? 2 : 58;
    int repetitions = quick ? 3 : 20;
    struct planning work = {.planner = NULL};
    set_up(&work, size, num_layers, policy);
    make_loads(&work, workload);
    struct eplb_bench_time planned = eplb_bench_measure(plan, &work, 1, repetitions);
    struct eplb_bench_time sorted = eplb_bench_measure(sort_keys, &work, 1, repetitions);
    struct quality quality = judge(&work);
    const struct eplb_bench_cell cells[] = {
        EPLB_BENCH_CELL_TEXT("policy", policy),
        EPLB_BENCH_CELL_INT("experts", size.num_experts),
        EPLB_BENCH_CELL_INT("ranks", size.ep_size),
        EPLB_BENCH_CELL_INT("slots", work.shape.num_slots),
        EPLB_BENCH_CELL_INT("layers", num_layers),
        EPLB_BENCH_CELL_TEXT("load", workload->name),
        EPLB_BENCH_CELL_REAL("us_per_layer", planned.minimum / num_layers * 1e6),
        EPLB_BENCH_CELL_REAL("us_per_layer_median", planned.median / num_layers * 1e6),
        EPLB_BENCH_CELL_REAL("qsort_us", sorted.minimum / num_layers * 1e6),
        EPLB_BENCH_CELL_REAL("peak_over_mean", quality.peak_over_mean),
        EPLB_BENCH_CELL_REAL("peak_over_lower_bound", quality.peak_over_lower_bound),
        EPLB_BENCH_CELL_REAL("moved_per_rank_layer", quality.moved_per_rank_layer),
    };
    eplb_bench_row(report, cells, sizeof cells / sizeof cells[0]);
    tear_down(&work);
}

int main(int argc, char **argv)
{
    struct eplb_bench_options options;
    int code = eplb_bench_parse(
        argc, argv,
        "Time per layer of a policy run (one redundant slot per rank, from the initial placement), beside a\n"
        "sort of as many keys; and how balanced the tables are, mean over the layers.",
        &options);
    if (code >= 0)
        return code;
    struct eplb_bench_report report = {.json = options.json};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof workloads / sizeof workloads[0]; j++)
            for (size_t k = 0; k < sizeof policies / sizeof policies[0]; k++)
                bench_case(&report, policies[k], sizes[i], &workloads[j], options.quick);
    return eplb_bench_end(&report);
}
