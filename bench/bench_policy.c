/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * How long every policy takes for a whole model in one call of eplb_plan, one thread, legality check
 * included, beside its plain twin and a sort of as many keys; and how good the plans are: on the window
 * they were made from, on the next one, against the lower bound, and in slots moved from the plan before.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eplb/plan.h"
#include "support/bench.h"
#include "support/policy_twin.h"
#include "support/windows.h"

enum {
    MODEL_LAYERS = 58,
    QUICK_LAYERS = 2,
    LARGE_LAYERS = 4,
    LARGE_SLOTS = 1024,
    FEW_WINDOWS = 8,
    TEXT = 96
};

static const char *const policies[] = {"balanced", "greedy", "deepseek", "minmax"};

struct size {
    int32_t num_experts;
    int32_t ep_size;
};

static const struct size sizes[] = {{128, 32},  {256, 32},   {256, 64},   {384, 128},
                                    {512, 128}, {1024, 256}, {2048, 512}, {4096, 1024}};
enum { NUM_QUICK_SIZES = 2 };

static const struct recording {
    const char *file;
    int32_t ep_size;
} recordings[] = {
    {"gpt-oss-20b-decode/decode_3phases_steps.csv", 8},
    {"gpt-oss-20b-decode/decode_3phases_steps.csv", 16},
    {"deepseek-v2-lite-prefill/steps.csv", 16},
    {"deepseek-v2-lite-prefill/steps.csv", 32},
    {"qwen3-30b-a3b-prefill/counts_by_language.csv", 32},
    {"olmoe-mixtral-prefill/olmoe_counts_by_domain.csv", 16},
    {"olmoe-mixtral-prefill/mixtral_counts_by_domain.csv", 8},
};

struct planning {
    struct eplb_shape shape;
    const struct eplb_load *windows;
    const char *load_name;
    struct eplb_plan_request request;
    struct eplb_plan plan;
    void *plan_scratch;
    int32_t *active;  /* [num_layers][num_slots] what runs before the plan */
    int32_t *twin;    /* [num_slots] */
    int64_t *keys;    /* [num_layers][num_slots], what is sorted */
    int64_t *sorted;  /* the same */
    int32_t *scratch; /* [num_experts] */
    void *diff_scratch;
    struct eplb_move *moves; /* [num_slots] */
};

static size_t table_size(const struct planning *work)
{
    return (size_t)work->shape.num_layers * (size_t)work->shape.num_slots;
}

static void plan(void *context)
{
    struct planning *work = context;
    struct eplb_error error;
    if (eplb_plan(&work->request, work->plan_scratch, &work->plan, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
}

static void plan_plainly(void *context)
{
    struct planning *work = context;
    for (int32_t layer = 0; layer < work->shape.num_layers; layer++)
        eplb_policy_twin(work->request.policy->name, &work->shape,
                         work->request.load + (size_t)layer * (size_t)work->shape.num_experts,
                         work->active + (size_t)layer * (size_t)work->shape.num_slots, work->twin);
}

static int largest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

static void sort_keys(void *context)
{
    struct planning *work = context;
    size_t slots = (size_t)work->shape.num_slots;
    memcpy(work->sorted, work->keys, table_size(work) * sizeof work->keys[0]);
    for (int32_t layer = 0; layer < work->shape.num_layers; layer++)
        qsort(work->sorted + (size_t)layer * slots, slots, sizeof work->sorted[0], largest_first);
}

static void start_placement(struct planning *work)
{
    for (int32_t layer = 0; layer < work->shape.num_layers; layer++)
        eplb_placement_initial(&work->shape, work->active + (size_t)layer * (size_t)work->shape.num_slots);
}

static void set_up(struct planning *work, const struct eplb_load *windows, int32_t ep_size,
                   const char *policy)
{
    struct eplb_error error;
    struct eplb_shape *shape = &work->shape;
    work->windows = windows;
    if (eplb_shape_init(shape, windows->num_layers, windows->num_experts, ep_size, 1, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
    size_t slots = (size_t)shape->num_slots;
    work->active = eplb_bench_allocate(table_size(work), sizeof *work->active);
    work->twin = eplb_bench_allocate(slots, sizeof *work->twin);
    work->keys = eplb_bench_allocate(table_size(work), sizeof *work->keys);
    work->sorted = eplb_bench_allocate(table_size(work), sizeof *work->sorted);
    work->scratch = eplb_bench_allocate((size_t)shape->num_experts, sizeof *work->scratch);
    work->diff_scratch = eplb_bench_allocate(1, eplb_placement_diff_scratch(shape));
    work->moves = eplb_bench_allocate(slots, sizeof *work->moves);
    eplb_plan_request_init(&work->request);
    work->request.shape = *shape;
    work->request.policy = eplb_policy_find(policy).ops;
    work->request.load = windows->load;
    work->request.active = work->active;
    eplb_plan_init(&work->plan);
    work->plan.expert_ids = eplb_bench_allocate(table_size(work), sizeof *work->plan.expert_ids);
    size_t bytes = eplb_plan_scratch(&work->request);
    work->plan_scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (bytes == SIZE_MAX || work->plan_scratch == NULL)
        eplb_bench_fail("no memory to plan in");
    start_placement(work);
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        eplb_split_evenly(shape, work->active, windows->load + (size_t)layer * (size_t)shape->num_experts,
                          work->scratch, work->keys + (size_t)layer * slots);
}

static void tear_down(struct planning *work)
{
    free(work->plan_scratch);
    free(work->plan.expert_ids);
    free(work->moves);
    free(work->diff_scratch);
    free(work->scratch);
    free(work->sorted);
    free(work->keys);
    free(work->twin);
    free(work->active);
}

/** Means over layers and windows. */
struct quality {
    double peak_over_mean;
    double peak_over_lower_bound;
    double next_peak_over_mean;
    double moved_per_rank_layer;
};

/** Adds what the plan of one layer does on its own window and the next one; 0 when one of them is empty. */
static int judge_layer(struct planning *work, int32_t window, int32_t layer, struct quality *sum)
{
    const struct eplb_shape *shape = &work->shape;
    const struct eplb_load *windows = work->windows;
    size_t row = (size_t)layer * (size_t)shape->num_slots;
    const int32_t *made = work->plan.expert_ids + row;
    struct eplb_balance same =
        eplb_balance_of(shape, made, eplb_load_row(windows, window, layer), work->scratch);
    struct eplb_balance next =
        eplb_balance_of(shape, made, eplb_load_row(windows, window + 1, layer), work->scratch);
    if (same.mean <= 0 || next.mean <= 0)
        return 0;
    sum->peak_over_mean += same.peak / same.mean;
    sum->peak_over_lower_bound += same.peak / same.lower_bound;
    sum->next_peak_over_mean += next.peak / next.mean;
    sum->moved_per_rank_layer +=
        eplb_placement_diff(shape, work->active + row, made, work->diff_scratch, work->moves);
    return 1;
}

/** Whether a window and the next are of one kind; with few windows all are. */
static int is_judged(const struct eplb_load *windows, int32_t window)
{
    return windows->num_steps < FEW_WINDOWS ||
           strcmp(windows->labels[window], windows->labels[window + 1]) == 0;
}

/**
 * Plans on every window but the last: from the initial placement each time, or each from the plan before,
 * and then the first, which had none, does not count.
 */
static struct quality judge(struct planning *work, int from_plan_before)
{
    struct quality sum = {0};
    int count = 0;
    const struct eplb_load *windows = work->windows;
    start_placement(work);
    for (int32_t window = 0; window + 1 < windows->num_steps; window++) {
        work->request.load = eplb_load_row(windows, window, 0);
        plan(work);
        for (int32_t layer = 0; layer < work->shape.num_layers; layer++)
            if (is_judged(windows, window) && (!from_plan_before || window > 0))
                count += judge_layer(work, window, layer, &sum);
        if (from_plan_before)
            memcpy(work->active, work->plan.expert_ids, table_size(work) * sizeof *work->active);
    }
    return (struct quality){.peak_over_mean = sum.peak_over_mean / count,
                            .peak_over_lower_bound = sum.peak_over_lower_bound / count,
                            .next_peak_over_mean = sum.next_peak_over_mean / count,
                            .moved_per_rank_layer = sum.moved_per_rank_layer / count / work->shape.ep_size};
}

static void bench_windows(struct eplb_bench_report *report, const struct eplb_load *windows, const char *name,
                          int32_t ep_size, int quick)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        struct planning work = {.load_name = name};
        set_up(&work, windows, ep_size, policies[i]);
        int repetitions = quick ? 3 : work.shape.num_slots > LARGE_SLOTS ? 5 : 20;
        struct eplb_bench_time planned = eplb_bench_measure(plan, &work, 1, repetitions);
        struct eplb_bench_time plainly = {.minimum = NAN};
        if (work.shape.num_slots <= EPLB_TWIN_SLOTS)
            plainly = eplb_bench_measure(plan_plainly, &work, 0, quick ? 1 : 2);
        struct eplb_bench_time sorted = eplb_bench_measure(sort_keys, &work, 1, repetitions);
        struct quality fresh = judge(&work, 0);
        struct quality kept = judge(&work, 1);
        const struct eplb_bench_cell cells[] = {
            EPLB_BENCH_CELL_TEXT("policy", policies[i]),
            EPLB_BENCH_CELL_INT("experts", work.shape.num_experts),
            EPLB_BENCH_CELL_INT("ranks", ep_size),
            EPLB_BENCH_CELL_INT("slots", work.shape.num_slots),
            EPLB_BENCH_CELL_INT("layers", work.shape.num_layers),
            EPLB_BENCH_CELL_TEXT("load", name),
            EPLB_BENCH_CELL_REAL("ms", planned.minimum * 1e3),
            EPLB_BENCH_CELL_REAL("plain_ms", plainly.minimum * 1e3),
            EPLB_BENCH_CELL_REAL("qsort_ms", sorted.minimum * 1e3),
            EPLB_BENCH_CELL_REAL("peak_over_mean", fresh.peak_over_mean),
            EPLB_BENCH_CELL_REAL("peak_over_lower_bound", fresh.peak_over_lower_bound),
            EPLB_BENCH_CELL_REAL("next_peak_over_mean", fresh.next_peak_over_mean),
            EPLB_BENCH_CELL_REAL("followed_peak_over_mean", kept.peak_over_mean),
            EPLB_BENCH_CELL_REAL("moved_per_rank_layer", kept.moved_per_rank_layer),
        };
        eplb_bench_row(report, cells, sizeof cells / sizeof cells[0]);
        tear_down(&work);
    }
}

static void bench_size(struct eplb_bench_report *report, const struct eplb_bench_workload *workload,
                       struct size size, int quick)
{
    struct eplb_load windows;
    int32_t layers = quick                                           ? QUICK_LAYERS
                     : size.num_experts + size.ep_size > LARGE_SLOTS ? LARGE_LAYERS
                                                                     : MODEL_LAYERS;
    eplb_bench_make_windows(workload, quick ? 3 : 5, layers, size.num_experts, &windows);
    bench_windows(report, &windows, workload->name, size.ep_size, quick);
    eplb_load_free(&windows);
}

/** The name of a row: the recording's folder, without the machine's part of the path. */
static void bench_recording(struct eplb_bench_report *report, const struct recording *recording,
                            const char *data, int quick)
{
    struct eplb_load windows;
    char name[TEXT];
    if (!eplb_bench_read_windows(data, recording->file, &windows))
        return;
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(recording->file, "."), recording->file);
    bench_windows(report, &windows, name, recording->ep_size, quick);
    eplb_load_free(&windows);
}

int main(int argc, char **argv)
{
    struct eplb_bench_options options;
    int code = eplb_bench_parse(
        argc, argv,
        "Time of one call that plans all layers (one redundant slot per rank, one thread), beside the plain\n"
        "twin and a sort of as many keys; and how good the plans are, mean over layers and windows. Peaks "
        "are\n"
        "of plans from the initial placement, on their window and the next one; followed_peak_over_mean and\n"
        "moved_per_rank_layer of plans that start from the plan of the window before. Made-up windows "
        "differ\n"
        "by 10 % each; of recorded ones those count whose next window has the same label, or all when there\n"
        "are few.",
        &options);
    if (code >= 0)
        return code;
    struct eplb_bench_report report = {.json = options.json};
    size_t num_sizes = options.quick ? NUM_QUICK_SIZES : sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < num_sizes; i++)
        for (size_t j = 0; j < sizeof eplb_bench_workloads / sizeof eplb_bench_workloads[0]; j++)
            bench_size(&report, &eplb_bench_workloads[j], sizes[i], options.quick);
    for (size_t i = 0; options.data != NULL && i < sizeof recordings / sizeof recordings[0]; i++)
        bench_recording(&report, &recordings[i], options.data, options.quick);
    return eplb_bench_end(&report);
}
