/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The integral split of one batch.
 */
#include "routing/batch.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "routing/flow.h"

enum {
    PASSES = 3, /* of evening out and of moving home: more bring next to nothing */
};

void eplb_batch_problem_init(struct eplb_batch_problem *problem)
{
    *problem = (struct eplb_batch_problem){.size = sizeof *problem, .cost_per_token = 1};
}

/** The tokens of every expert, the unshared ones of every rank, and how many of these experts have any. */
static void add_counts(struct eplb_split_graph *graph, const int32_t *counts)
{
    size_t experts = (size_t)graph->num_experts;
    size_t ranks = (size_t)graph->num_ranks;
    size_t source = 0;
    memset(graph->total, 0, experts * sizeof graph->total[0]);
    for (; source + 4 <= ranks; source += 4) { /* four rows at a time: the sums are touched less often */
        const int32_t *row = counts + source * experts;
        for (size_t expert = 0; expert < experts; expert++)
            graph->total[expert] += ((int64_t)row[expert] + row[experts + expert]) +
                                    ((int64_t)row[2 * experts + expert] + row[3 * experts + expert]);
    }
    for (; source < ranks; source++)
        for (size_t expert = 0; expert < experts; expert++)
            graph->total[expert] += counts[source * experts + expert];
    memset(graph->base, 0, (size_t)(graph->num_ranks + 1) * sizeof graph->base[0]);
    for (size_t expert = 0; expert < experts; expert++)
        graph->base[graph->home_rank[expert]] += graph->total[expert];
}

static void count_open(struct eplb_split_graph *graph)
{
    memset(graph->open, 0, (size_t)graph->num_ranks * sizeof graph->open[0]);
    for (int32_t expert = 0; expert < graph->num_experts; expert++)
        if (graph->home_slot[expert] >= 0)
            graph->open[graph->home_rank[expert]] += graph->total[expert] > 0;
}

/** What no split can be below, in tokens or cost. */
static int64_t lower_bound(const struct eplb_split_graph *graph, const struct eplb_batch_problem *problem)
{
    int64_t sum = 0;
    int64_t bound = 0;
    for (int32_t rank = 0; rank < graph->num_ranks; rank++) {
        int64_t cost = graph->base[rank] * problem->cost_per_token +
                       (int64_t)graph->open[rank] * problem->cost_per_active_slot;
        bound = cost > bound ? cost : bound;
        sum += cost;
    }
    for (int32_t shared = 0; shared < graph->num_shared; shared++) {
        int64_t tokens = graph->total[graph->shared_expert[shared]];
        sum += tokens * problem->cost_per_token + (tokens > 0 ? problem->cost_per_active_slot : 0);
    }
    int64_t mean = (sum + graph->num_ranks - 1) / graph->num_ranks;
    return mean > bound ? mean : bound;
}

/** The flow that the table makes. */
static void flow_by_table(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem)
{
    memset(graph->flow, 0, (size_t)graph->num_arcs * sizeof graph->flow[0]);
    for (int32_t source = 0; source < graph->num_ranks; source++) {
        size_t row = (size_t)source * (size_t)graph->num_experts;
        for (int32_t shared = 0; shared < graph->num_shared; shared++) {
            size_t at = row + (size_t)graph->shared_expert[shared];
            int32_t arc = graph->first[shared];
            while (graph->arc_slot[arc] != problem->table[at] && arc + 1 < graph->first[shared + 1])
                arc++;
            graph->flow[arc] += problem->counts[at];
        }
    }
}

/**
 * A first flow: every source's own tokens on its own replica, which `least` keeps there at first, and the
 * others shared out evenly. Which replica gets what does not divide turns with the rotation.
 */
static void flow_from_home(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem)
{
    for (int32_t shared = 0; shared < graph->num_shared; shared++) {
        size_t expert = (size_t)graph->shared_expert[shared];
        int32_t first = graph->first[shared];
        int32_t replicas = graph->first[shared + 1] - first;
        int64_t left = graph->total[expert];
        for (int32_t arc = first; arc < first + replicas; arc++) {
            size_t row = (size_t)graph->arc_rank[arc] * (size_t)graph->num_experts;
            graph->least[arc] = problem->counts[row + expert];
            left -= graph->least[arc];
        }
        int64_t part = left / replicas;
        int64_t rest = left - part * replicas;
        int32_t turn = (int32_t)((problem->rotation + (uint64_t)shared) % (uint32_t)replicas);
        for (int32_t i = 0; i < replicas; i++) {
            int32_t arc = first + (i + turn < replicas ? i + turn : i + turn - replicas);
            graph->flow[arc] = graph->least[arc] + part + (i < rest);
        }
    }
}

/** Rank loads in tokens. What a slot costs counts as tokens, rounded up, for the slots of unshared experts.
 */
static void load_tokens(struct eplb_split_graph *graph, int64_t slot, int64_t token)
{
    for (int32_t rank = 0; rank < graph->num_ranks; rank++)
        graph->load[rank] = graph->base[rank];
    if (slot > 0)
        for (int32_t rank = 0; rank < graph->num_ranks; rank++)
            graph->load[rank] += (graph->open[rank] * slot + token - 1) / token;
    for (int32_t arc = 0; arc < graph->num_arcs; arc++)
        graph->load[graph->arc_rank[arc]] += graph->flow[arc];
}

/** The smallest level that the loads in graph->load may fit: their mean, or the largest unshared one. */
static int64_t first_level(const struct eplb_split_graph *graph)
{
    int64_t sum = 0;
    int64_t level = 0;
    for (int32_t rank = 0; rank < graph->num_ranks; rank++) {
        sum += graph->load[rank];
        level = graph->base[rank] > level ? graph->base[rank] : level;
    }
    int64_t mean = (sum + graph->num_ranks - 1) / graph->num_ranks;
    return mean > level ? mean : level;
}

/** The integral level of the set that the last flow could not relieve. */
static int64_t next_level(const struct eplb_split_graph *graph)
{
    int64_t load = 0;
    int64_t size = 0;
    for (int32_t rank = 0; rank < graph->num_ranks; rank++) {
        bool inside = graph->distance[rank] < 0;
        load += inside ? graph->load[rank] : 0;
        size += inside;
    }
    EPLB_ASSERT(size > 0);
    return (load + size - 1) / size;
}

/** Moves tokens back to their source's replica where the level has room. */
static void move_home(struct eplb_split_graph *graph, int64_t level)
{
    for (int32_t shared = 0; shared < graph->num_shared; shared++) {
        for (int32_t to = graph->first[shared]; to < graph->first[shared + 1]; to++) {
            int64_t *load = &graph->load[graph->arc_rank[to]];
            for (int32_t from = graph->first[shared]; from < graph->first[shared + 1]; from++) {
                int64_t missing = graph->least[to] - graph->flow[to];
                int64_t spare = graph->flow[from] - graph->least[from];
                int64_t amount = level - *load < missing ? level - *load : missing;
                amount = spare < amount ? spare : amount;
                if (amount <= 0)
                    continue;
                graph->flow[from] -= amount;
                graph->load[graph->arc_rank[from]] -= amount;
                graph->flow[to] += amount;
                *load += amount;
            }
        }
    }
}

/** The fewest tokens on the largest rank, where a slot of an unshared expert may count as tokens. Returns
 * them. */
static int64_t solve_tokens(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem,
                            int64_t cost_per_slot)
{
    flow_from_home(graph, problem);
    load_tokens(graph, cost_per_slot, problem->cost_per_token);
    int64_t level = first_level(graph);
    for (int pass = 0; pass < PASSES && eplb_flow_peak(graph) > level; pass++)
        eplb_flow_even_out(graph, graph->least);
    while (!eplb_flow_fit(graph, level, (uint32_t)problem->rotation)) {
        int64_t next = next_level(graph);
        EPLB_ASSERT(next > level);
        level = next;
    }
    for (int pass = 0; pass < PASSES; pass++)
        move_home(graph, level);
    return eplb_flow_peak(graph);
}

/** Lowers the cost of the flow and saves it when it is the best so far. Returns the best cost so far. */
static int64_t improve(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem, int64_t best)
{
    eplb_batch_charge(graph, problem);
    int64_t cost = eplb_batch_lower_cost(graph, problem);
    if (cost >= best)
        return best;
    memcpy(graph->saved, graph->flow, (size_t)graph->num_arcs * sizeof graph->flow[0]);
    return cost;
}

/** The best of three starts: the fewest tokens, the same beside the slots that are open anyway, all closed.
 */
static int64_t solve_cost(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem)
{
    solve_tokens(graph, problem, 0);
    int64_t best = improve(graph, problem, INT64_MAX);
    solve_tokens(graph, problem, problem->cost_per_active_slot);
    best = improve(graph, problem, best);
    eplb_batch_close_all(graph, problem);
    best = improve(graph, problem, best);
    memcpy(graph->flow, graph->saved, (size_t)graph->num_arcs * sizeof graph->flow[0]);
    return best;
}

static void write_tokens(const struct eplb_split_graph *graph, int64_t *tokens)
{
    for (int32_t expert = 0; expert < graph->num_experts; expert++)
        if (graph->home_slot[expert] >= 0)
            tokens[graph->home_slot[expert]] = graph->total[expert];
    for (int32_t arc = 0; arc < graph->num_arcs; arc++)
        tokens[graph->arc_slot[arc]] = graph->flow[arc];
}

void eplb_batch_split(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem,
                      int64_t *tokens, struct eplb_batch_result *result)
{
    EPLB_ASSERT(problem->size == sizeof *problem && problem->counts && problem->cost_per_token >= 1 &&
                problem->cost_per_active_slot >= 0);
    add_counts(graph, problem->counts);
    count_open(graph);
    *result = (struct eplb_batch_result){.bound = lower_bound(graph, problem)};
    if (problem->table) {
        flow_by_table(graph, problem);
        eplb_batch_charge(graph, problem);
        result->peak = eplb_flow_peak(graph);
        result->kept = result->peak <= result->bound;
    }
    if (!result->kept)
        result->peak = problem->cost_per_active_slot > 0
                           ? solve_cost(graph, problem)
                           : solve_tokens(graph, problem, 0) * problem->cost_per_token;
    result->proved = problem->cost_per_active_slot == 0 || result->peak == result->bound;
    write_tokens(graph, tokens);
}
