/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/statistics.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/histogram.h"
#include "base/mix.h"
#include "base/wide.h"
#include "eplb/load.h"
#include "eplb/policy.h"

/** Loads of one window. No entry is above its layer's total, which is at most EPLB_MAX_LOAD. */
struct window {
    int64_t *rank_loads; /* [num_layers][ep_size] as measured */
    int64_t *logical;    /* [num_layers][num_experts] */
    int64_t *totals;     /* [num_layers] */
};

struct eplb_statistics_keeper {
    struct eplb_statistics_params params;
    struct window open;
    struct window last; /* the last one that had load */
    bool has_last;
    int32_t open_forwards;
    struct eplb_window_balance first_balance; /* of the windows with load; nothing before has_last */
    struct eplb_window_balance last_balance;
    struct eplb_window_balance last_initial_balance;

    uint64_t forwards, tokens, windows, digest;
    eplb_u128 critical_ns, critical_rows, rows, routing_ns;
    struct eplb_histogram steps;

    int64_t *counts;   /* [ep_size][num_layers][slots_per_rank] of the forward that is added */
    eplb_u128 *added;  /* [num_layers] their sums */
    int32_t *replicas; /* [num_experts] scratch */
};

/* -------------------------------------------------------------------------------------- create */

static struct window take_window(struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t layers = (size_t)shape->num_layers;
    struct window window;
    window.rank_loads = eplb_arena_take(arena, layers * (size_t)shape->ep_size, sizeof *window.rank_loads);
    window.logical = eplb_arena_take(arena, layers * (size_t)shape->num_experts, sizeof *window.logical);
    window.totals = eplb_arena_take(arena, layers, sizeof *window.totals);
    return window;
}

struct eplb_statistics_keeper *eplb_statistics_take(struct eplb_arena *arena,
                                                    const struct eplb_statistics_params *params)
{
    const struct eplb_shape *shape = &params->shape;
    size_t layers = (size_t)shape->num_layers;
    struct eplb_statistics_keeper *keeper = eplb_arena_take(arena, 1, sizeof *keeper);
    struct window open = take_window(arena, shape);
    struct window last = take_window(arena, shape);
    int64_t *counts = eplb_arena_take(arena, layers * (size_t)shape->num_slots, sizeof *counts);
    eplb_u128 *added = eplb_arena_take(arena, layers, sizeof *added);
    int32_t *replicas = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *replicas);
    if (keeper == NULL)
        return NULL;
    keeper->params = *params;
    keeper->open = open;
    keeper->last = last;
    keeper->counts = counts;
    keeper->added = added;
    keeper->replicas = replicas;
    return keeper;
}

static void clear_window(const struct eplb_shape *shape, struct window *window)
{
    size_t layers = (size_t)shape->num_layers;
    memset(window->rank_loads, 0, layers * (size_t)shape->ep_size * sizeof *window->rank_loads);
    memset(window->logical, 0, layers * (size_t)shape->num_experts * sizeof *window->logical);
    memset(window->totals, 0, layers * sizeof *window->totals);
}

void eplb_statistics_init(struct eplb_statistics_keeper *keeper, const struct eplb_statistics_params *params)
{
    EPLB_ASSERT(params->window_forwards >= 1 && params->initial != NULL);
    EPLB_ASSERT(memcmp(&params->shape, &keeper->params.shape, sizeof params->shape) == 0);
    keeper->params = *params;
    clear_window(&params->shape, &keeper->open);
    clear_window(&params->shape, &keeper->last);
    keeper->has_last = false;
    keeper->open_forwards = 0;
    keeper->forwards = 0;
    keeper->tokens = 0;
    keeper->windows = 0;
    keeper->digest = 0;
    keeper->critical_ns = 0;
    keeper->critical_rows = 0;
    keeper->routing_ns = 0;
    keeper->rows = 0;
    eplb_histogram_init(&keeper->steps);
}

/* ------------------------------------------------------------------------------------- balance */

/** The layers of a window, one after another. */
struct tally {
    struct eplb_window_balance balance; /* of the layers so far */
    double sum;
    int32_t layers;
};

static const struct tally no_layers = {.balance = {.mean = 1, .worst = 1, .worst_layer = EPLB_NO_LAYER}};

static void tally_layer(struct tally *tally, int32_t layer, double ratio)
{
    if (tally->layers == 0 || ratio > tally->balance.worst) {
        tally->balance.worst = ratio;
        tally->balance.worst_layer = layer;
    }
    tally->sum += ratio;
    tally->layers++;
    tally->balance.mean = tally->sum / tally->layers;
}

static const int64_t *rank_loads_of(const struct eplb_shape *shape, const struct window *window,
                                    int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < shape->num_layers);
    return window->rank_loads + (size_t)layer * (size_t)shape->ep_size;
}

static const int64_t *logical_of(const struct eplb_shape *shape, const struct window *window, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < shape->num_layers);
    return window->logical + (size_t)layer * (size_t)shape->num_experts;
}

static bool has_load(const struct eplb_shape *shape, const struct window *window)
{
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        if (window->totals[layer] > 0)
            return true;
    return false;
}

static struct eplb_window_balance measured_balance(const struct eplb_shape *shape,
                                                   const struct window *window)
{
    struct tally tally = no_layers;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        const int64_t *loads = rank_loads_of(shape, window, layer);
        int64_t peak = 0;
        for (int32_t rank = 0; rank < shape->ep_size; rank++)
            peak = loads[rank] > peak ? loads[rank] : peak;
        /* peak / (total / ranks) as one ratio of integers: below 2^53 rounded once. */
        eplb_u128 peak_of_all = (eplb_u128)(uint64_t)peak * (uint32_t)shape->ep_size;
        if (window->totals[layer] > 0)
            tally_layer(&tally, layer, (double)peak_of_all / (double)window->totals[layer]);
    }
    return tally.balance;
}

static struct eplb_window_balance initial_balance(const struct eplb_statistics_keeper *keeper,
                                                  const struct window *window)
{
    const struct eplb_shape *shape = &keeper->params.shape;
    struct tally tally = no_layers;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        const int32_t *table = keeper->params.initial + (size_t)layer * (size_t)shape->num_slots;
        if (window->totals[layer] == 0)
            continue;
        struct eplb_balance balance =
            eplb_balance_of(shape, table, logical_of(shape, window, layer), keeper->replicas);
        tally_layer(&tally, layer, balance.peak / balance.mean);
    }
    return tally.balance;
}

static void close_window(struct eplb_statistics_keeper *keeper)
{
    const struct eplb_shape *shape = &keeper->params.shape;
    keeper->windows++;
    keeper->open_forwards = 0;
    if (!has_load(shape, &keeper->open))
        return;
    keeper->last_balance = measured_balance(shape, &keeper->open);
    keeper->last_initial_balance = initial_balance(keeper, &keeper->open);
    if (!keeper->has_last)
        keeper->first_balance = keeper->last_balance;
    struct window before = keeper->last;
    keeper->last = keeper->open;
    keeper->open = before;
    keeper->has_last = true;
    clear_window(shape, &keeper->open);
}

/* ---------------------------------------------------------------------------------------- load */

static int64_t *counts_of(const struct eplb_statistics_keeper *keeper, int32_t rank, int32_t layer)
{
    const struct eplb_shape *shape = &keeper->params.shape;
    size_t row = (size_t)rank * (size_t)shape->num_layers + (size_t)layer;
    return keeper->counts + row * (size_t)shape->slots_per_rank;
}

/** Restores a rank's counts and adds them to the layers' sums; false when a prefix is none. */
static bool restore(struct eplb_statistics_keeper *keeper, int32_t rank, const int64_t *prefix)
{
    const struct eplb_shape *shape = &keeper->params.shape;
    size_t slots = (size_t)shape->slots_per_rank;
    for (int32_t layer = 0; layer < shape->num_layers; layer++, prefix += slots) {
        if (eplb_prefix_decode(prefix, slots, counts_of(keeper, rank, layer), NULL) != EPLB_OK)
            return false;
        keeper->added[layer] += (uint64_t)prefix[slots - 1];
    }
    return true;
}

/** Restores all counts of a forward; false when it has to be left out. */
static bool restore_all(struct eplb_statistics_keeper *keeper, const struct eplb_worker_output *outputs)
{
    const struct eplb_shape *shape = &keeper->params.shape;
    memset(keeper->added, 0, (size_t)shape->num_layers * sizeof *keeper->added);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        if (outputs[rank].prefix == NULL)
            return false;
        EPLB_ASSERT(outputs[rank].num_layers == shape->num_layers &&
                    outputs[rank].slots_per_rank == shape->slots_per_rank);
        if (!restore(keeper, rank, outputs[rank].prefix))
            return false;
    }
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        if (keeper->added[layer] > (uint64_t)(EPLB_MAX_LOAD - keeper->open.totals[layer]))
            return false;
    return true;
}

static void add_layer(struct eplb_statistics_keeper *keeper, int32_t layer, const int32_t *table)
{
    const struct eplb_shape *shape = &keeper->params.shape;
    int64_t *logical = keeper->open.logical + (size_t)layer * (size_t)shape->num_experts;
    int64_t *rank_loads = keeper->open.rank_loads + (size_t)layer * (size_t)shape->ep_size;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        const int64_t *counts = counts_of(keeper, rank, layer);
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
            int32_t expert = *table++;
            EPLB_ASSERT(expert >= 0 && expert < shape->num_experts);
            logical[expert] += counts[slot];
            rank_loads[rank] += counts[slot];
        }
    }
    keeper->open.totals[layer] += (int64_t)keeper->added[layer];
}

/* ------------------------------------------------------------------------------------- results */

static void add_samples(struct eplb_statistics_keeper *keeper, const struct eplb_result *result)
{
    EPLB_ASSERT(result->num_samples >= 0);
    for (int32_t i = 0; i < result->num_samples; i++) {
        const struct eplb_model_sample *sample = &result->samples[i];
        uint64_t hash = eplb_mix(0, sample->sequence);
        hash = eplb_mix(hash, (uint64_t)(uint32_t)sample->position << 32 | (uint32_t)sample->token);
        /* A sum of hashes is the same in any order, and two equal ones do not cancel out. */
        keeper->digest += eplb_mix(hash, sample->digest);
    }
    keeper->tokens += (uint32_t)result->num_samples;
}

static void add_paths(struct eplb_statistics_keeper *keeper, const struct eplb_result *results)
{
    const struct eplb_shape *shape = &keeper->params.shape;
    for (int32_t rank = 0; rank < shape->ep_size; rank++)
        if (results[rank].samples == NULL)
            return;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        struct eplb_moe_work largest = {0};
        for (int32_t rank = 0; rank < shape->ep_size; rank++) {
            const struct eplb_moe_work *work = &results[rank].work[layer];
            EPLB_ASSERT(work->rows >= 0 && work->cpu_ns >= 0 && work->route_ns >= 0);
            largest.rows = work->rows > largest.rows ? work->rows : largest.rows;
            largest.cpu_ns = work->cpu_ns > largest.cpu_ns ? work->cpu_ns : largest.cpu_ns;
            largest.route_ns = work->route_ns > largest.route_ns ? work->route_ns : largest.route_ns;
            keeper->rows += (uint64_t)work->rows;
        }
        keeper->routing_ns += (uint64_t)largest.route_ns;
        keeper->critical_rows += (uint64_t)largest.rows;
        keeper->critical_ns += (uint64_t)largest.cpu_ns;
    }
}

void eplb_statistics_add(struct eplb_statistics_keeper *keeper, const struct eplb_worker_output *outputs,
                         const struct eplb_result *results, const int32_t *tables, int64_t step_ns)
{
    const struct eplb_shape *shape = &keeper->params.shape;
    keeper->forwards++;
    eplb_histogram_record(&keeper->steps, step_ns);
    for (int32_t rank = 0; rank < shape->ep_size; rank++)
        if (results[rank].samples != NULL)
            add_samples(keeper, &results[rank]);
    add_paths(keeper, results);
    if (restore_all(keeper, outputs))
        for (int32_t layer = 0; layer < shape->num_layers; layer++)
            add_layer(keeper, layer, tables + (size_t)layer * (size_t)shape->num_slots);
    if (++keeper->open_forwards == keeper->params.window_forwards)
        close_window(keeper);
}

/* ---------------------------------------------------------------------------------------- read */

static int64_t told(eplb_u128 value)
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static const struct window *last_window(const struct eplb_statistics_keeper *keeper)
{
    return keeper->has_last ? &keeper->last : &keeper->open;
}

void eplb_statistics_read(const struct eplb_statistics_keeper *keeper, struct eplb_statistics *statistics)
{
    *statistics = (struct eplb_statistics){
        .forwards = keeper->forwards,
        .tokens = keeper->tokens,
        .windows = keeper->windows,
        .first_window = keeper->first_balance,
        .last_window = keeper->last_balance,
        .last_window_initial = keeper->last_initial_balance,
        .critical_path_ns = told(keeper->critical_ns),
        .critical_path_tokens = told(keeper->critical_rows),
        .routing_path_ns = told(keeper->routing_ns),
        .mean_path_tokens = told(keeper->rows / (uint32_t)keeper->params.shape.ep_size),
        .digest = keeper->digest,
    };
    if (!keeper->has_last) {
        statistics->first_window = eplb_statistics_now(keeper);
        statistics->last_window = statistics->first_window;
        statistics->last_window_initial = initial_balance(keeper, &keeper->open);
    }
}

struct eplb_window_balance eplb_statistics_now(const struct eplb_statistics_keeper *keeper)
{
    return measured_balance(&keeper->params.shape, &keeper->open);
}

int64_t eplb_statistics_step_ns(const struct eplb_statistics_keeper *keeper, double percentile)
{
    EPLB_ASSERT(percentile > 0 && percentile <= 100);
    double parts = percentile * ((double)EPLB_QUANTILE_UNIT / 100);
    return eplb_histogram_quantile(&keeper->steps, (int32_t)(parts + 0.5));
}

void eplb_statistics_rank_loads(const struct eplb_statistics_keeper *keeper, int32_t layer, double *measured,
                                double *initial)
{
    const struct eplb_shape *shape = &keeper->params.shape;
    const int64_t *loads = rank_loads_of(shape, last_window(keeper), layer);
    const int64_t *logical = logical_of(shape, last_window(keeper), layer);
    const int32_t *expert = keeper->params.initial + (size_t)layer * (size_t)shape->num_slots;
    eplb_placement_replicas(shape, expert, keeper->replicas);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        measured[rank] = (double)loads[rank];
        initial[rank] = 0;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++, expert++)
            initial[rank] += (double)logical[*expert] / keeper->replicas[*expert];
    }
}

int32_t eplb_statistics_hottest(const struct eplb_statistics_keeper *keeper, int32_t layer, double *share)
{
    const struct eplb_shape *shape = &keeper->params.shape;
    const int64_t *logical = logical_of(shape, last_window(keeper), layer);
    int64_t total = last_window(keeper)->totals[layer];
    int32_t hottest = 0;
    *share = 0;
    if (total == 0)
        return -1;
    for (int32_t expert = 1; expert < shape->num_experts; expert++)
        hottest = logical[expert] > logical[hottest] ? expert : hottest;
    *share = (double)logical[hottest] / (double)total;
    return hottest;
}
