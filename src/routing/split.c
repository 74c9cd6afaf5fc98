/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The best split: Newton's iteration on the level, each step a flow in units of 1 / (size of the cut).
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/wide.h"
#include "routing/flow.h"

enum {
    FIRST_PASSES = 4, /* of evening out before the first exact flow: cheaper than what they save */
    LAST_PASSES = 4,  /* after it, below the peak */
};

/** The load and the size of a rank set: its density is a level. */
struct level {
    int64_t load;
    int32_t size;
};

/** Exact, as load * R is at most 2^62. */
static bool denser(struct level a, struct level b)
{
    return a.load * b.size > b.load * a.size;
}

/** Halvings after which the loads, added up and multiplied by the number of ranks, are at most 2^62. */
static int32_t choose_scale(const struct eplb_split_graph *graph, const int64_t *load, double *total)
{
    eplb_u128 sum = 0;
    for (int32_t expert = 0; expert < graph->num_experts; expert++)
        sum += (uint64_t)load[expert];
    *total = (double)sum;
    int32_t scale = 0;
    while ((sum >> scale) * (uint32_t)graph->num_ranks > (uint64_t)EPLB_MAX_LOAD)
        scale++;
    return scale;
}

/** The unshared load of every rank, in tokens. */
static void add_base(struct eplb_split_graph *graph, const int64_t *load, int32_t scale)
{
    memset(graph->base, 0, (size_t)(graph->num_ranks + 1) * sizeof graph->base[0]);
    for (int32_t expert = 0; expert < graph->num_experts; expert++)
        graph->base[graph->home_rank[expert]] += load[expert] >> scale;
}

/** The densest of the components and of the single ranks with their unshared load; marks it as the cut. */
static struct level first_level(struct eplb_split_graph *graph, const int64_t *load, int32_t scale)
{
    int64_t *sums = graph->load; /* there are no more components than ranks */
    memset(sums, 0, (size_t)graph->num_components * sizeof sums[0]);
    for (int32_t rank = 0; rank < graph->num_ranks; rank++)
        sums[graph->component[rank]] += graph->base[rank];
    for (int32_t shared = 0; shared < graph->num_shared; shared++)
        sums[graph->component[graph->arc_rank[graph->first[shared]]]] +=
            load[graph->shared_expert[shared]] >> scale;

    int32_t densest = 0;
    for (int32_t i = 1; i < graph->num_components; i++)
        if (denser((struct level){sums[i], graph->component_size[i]},
                   (struct level){sums[densest], graph->component_size[densest]}))
            densest = i;
    int32_t hottest = 0;
    for (int32_t rank = 1; rank < graph->num_ranks; rank++)
        if (graph->base[rank] > graph->base[hottest])
            hottest = rank;

    struct level level = {sums[densest], graph->component_size[densest]};
    bool single = denser((struct level){graph->base[hottest], 1}, level);
    for (int32_t rank = 0; rank < graph->num_ranks; rank++)
        graph->in_cut[rank] = single ? rank == hottest : graph->component[rank] == densest;
    return single ? (struct level){graph->base[hottest], 1} : level;
}

/** An even split of every shared expert, in units of 1 / size. */
static void start_flow(struct eplb_split_graph *graph, const int64_t *load, int32_t scale, int32_t size)
{
    for (int32_t rank = 0; rank < graph->num_ranks; rank++)
        graph->load[rank] = graph->base[rank] * size;
    for (int32_t shared = 0; shared < graph->num_shared; shared++) {
        int64_t amount = (load[graph->shared_expert[shared]] >> scale) * size;
        int32_t first = graph->first[shared];
        int32_t replicas = graph->first[shared + 1] - first;
        int64_t part = amount / replicas;
        for (int32_t arc = first; arc < first + replicas; arc++) {
            graph->flow[arc] = arc == first ? amount - part * (replicas - 1) : part;
            graph->load[graph->arc_rank[arc]] += graph->flow[arc];
        }
    }
}

/** The same flow in other units, rounded to them; the last arc of an expert keeps its sum exact. */
static void change_units(struct eplb_split_graph *graph, const int64_t *load, int32_t scale, int32_t old_size,
                         int32_t new_size)
{
    for (int32_t rank = 0; rank < graph->num_ranks; rank++)
        graph->load[rank] = graph->base[rank] * new_size;
    for (int32_t shared = 0; shared < graph->num_shared; shared++) {
        int64_t left = (load[graph->shared_expert[shared]] >> scale) * new_size;
        int32_t last = graph->first[shared + 1] - 1;
        for (int32_t arc = graph->first[shared]; arc < last; arc++) {
            int64_t whole = graph->flow[arc] / old_size;
            int64_t rest = graph->flow[arc] - whole * old_size;
            graph->flow[arc] = whole * new_size + rest * new_size / old_size;
            graph->load[graph->arc_rank[arc]] += graph->flow[arc];
            left -= graph->flow[arc];
        }
        graph->flow[last] = left;
        graph->load[graph->arc_rank[last]] += left;
    }
}

/** The set that the last flow could not relieve, as the new cut and level. */
static struct level next_level(struct eplb_split_graph *graph, int32_t units)
{
    struct level level = {0, 0};
    for (int32_t rank = 0; rank < graph->num_ranks; rank++) {
        graph->in_cut[rank] = graph->distance[rank] < 0;
        level.load += graph->in_cut[rank] ? graph->load[rank] : 0;
        level.size += graph->in_cut[rank];
    }
    EPLB_ASSERT(level.size > 0 && level.load % units == 0);
    level.load /= units;
    return level;
}

static double level_tokens(struct level level, int32_t scale)
{
    return (double)level.load / (double)level.size * (double)(UINT64_C(1) << scale);
}

/** Finds the densest set; leaves a flow that reaches its level, in units of 1 / size, unless it stopped. */
static struct level solve(struct eplb_split_graph *graph, const int64_t *load, int32_t scale,
                          double stop_above)
{
    add_base(graph, load, scale);
    struct level level = first_level(graph, load, scale);
    start_flow(graph, load, scale, level.size);
    for (int pass = 0; pass < FIRST_PASSES; pass++)
        eplb_flow_even_out(graph, NULL);
    while (!(level_tokens(level, scale) > stop_above) && !eplb_flow_fit(graph, level.load, 0)) {
        struct level next = next_level(graph, level.size);
        EPLB_ASSERT(denser(next, level));
        change_units(graph, load, scale, level.size, next.size);
        level = next;
    }
    return level;
}

/** The expert's flow in weights: 1 for each replica, and the rest by the ends of its intervals, rounded down.
 */
static void write_weights(const struct eplb_split_graph *graph, int32_t shared, int32_t *weights)
{
    int32_t first = graph->first[shared];
    int32_t end = graph->first[shared + 1];
    int64_t total = 0;
    for (int32_t arc = first; arc < end; arc++)
        total += graph->flow[arc];
    int64_t whole = total > 0 ? total : end - first;
    int32_t units = EPLB_WEIGHT_UNIT - (end - first);
    int64_t sum = 0;
    int32_t given = 0;
    for (int32_t arc = first; arc < end; arc++) {
        sum += total > 0 ? graph->flow[arc] : 1;
        int32_t until = whole < INT64_C(1) << 42
                            ? (int32_t)(sum * units / whole)
                            : (int32_t)((eplb_u128)(uint64_t)sum * (uint32_t)units / (uint64_t)whole);
        weights[graph->arc_slot[arc]] = 1 + until - given;
        given = until;
    }
}

static void write_all_weights(const struct eplb_split_graph *graph, int32_t *weights)
{
    for (int32_t expert = 0; expert < graph->num_experts; expert++) {
        if (graph->home_slot[expert] >= 0)
            weights[graph->home_slot[expert]] = EPLB_WEIGHT_UNIT;
        else
            write_weights(graph, -1 - graph->home_slot[expert], weights);
    }
}

static void write_cut(const struct eplb_split_graph *graph, uint64_t *cut)
{
    memset(cut, 0, ((size_t)graph->num_ranks + 63) / 64 * sizeof cut[0]);
    for (int32_t rank = 0; rank < graph->num_ranks; rank++)
        cut[rank / 64] |= (uint64_t)graph->in_cut[rank] << rank % 64;
}

void eplb_split_graph_solve(struct eplb_split_graph *graph, const int64_t *load, int32_t *weights,
                            uint64_t *cut, struct eplb_best_split *result)
{
    double total;
    int32_t scale = choose_scale(graph, load, &total);
    struct level level = solve(graph, load, scale, INFINITY);
    if (weights) {
        for (int pass = 0; pass < LAST_PASSES; pass++)
            eplb_flow_even_out(graph, NULL);
        write_all_weights(graph, weights);
    }
    if (cut)
        write_cut(graph, cut);
    *result = (struct eplb_best_split){.peak = level_tokens(level, scale),
                                       .mean = total / graph->num_ranks,
                                       .cut_load = level.load,
                                       .cut_size = level.size,
                                       .scale = scale,
                                       .num_components = graph->num_components};
}

double eplb_split_graph_peak(struct eplb_split_graph *graph, const int64_t *load, double stop_above)
{
    double total;
    int32_t scale = choose_scale(graph, load, &total);
    return level_tokens(solve(graph, load, scale, stop_above), scale);
}

void eplb_best_split(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load,
                     void *scratch, int32_t *weights, uint64_t *cut, struct eplb_best_split *result)
{
    struct eplb_split_graph *graph = eplb_split_graph_build(shape, expert_ids, scratch);
    eplb_split_graph_solve(graph, load, weights, cut, result);
}

double eplb_best_split_peak(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load,
                            void *scratch)
{
    return eplb_split_graph_peak(eplb_split_graph_build(shape, expert_ids, scratch), load, INFINITY);
}
