/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The batch solver's cost model: a rank pays for every slot that has a token as well as for tokens.
 */
#include "routing/batch.h"

#include <stddef.h>
#include <string.h>

void eplb_batch_charge(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem)
{
    for (int32_t rank = 0; rank < graph->num_ranks; rank++)
        graph->load[rank] = graph->base[rank] * problem->cost_per_token +
                            (int64_t)graph->open[rank] * problem->cost_per_active_slot;
    for (int32_t arc = 0; arc < graph->num_arcs; arc++)
        if (graph->flow[arc] > 0)
            graph->load[graph->arc_rank[arc]] +=
                graph->flow[arc] * problem->cost_per_token + problem->cost_per_active_slot;
}

void eplb_batch_close_all(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem)
{
    memset(graph->flow, 0, (size_t)graph->num_arcs * sizeof graph->flow[0]);
    memset(graph->seen, 0, (size_t)graph->num_shared);
    eplb_batch_charge(graph, problem);
    for (;;) {
        int32_t heaviest = -1;
        int64_t most = 0;
        for (int32_t shared = 0; shared < graph->num_shared; shared++) {
            int64_t tokens = graph->total[graph->shared_expert[shared]];
            if (!graph->seen[shared] && tokens > most) {
                heaviest = shared;
                most = tokens;
            }
        }
        if (heaviest < 0)
            return;
        graph->seen[heaviest] = 1;
        int32_t best = graph->first[heaviest];
        for (int32_t arc = best + 1; arc < graph->first[heaviest + 1]; arc++)
            if (graph->load[graph->arc_rank[arc]] < graph->load[graph->arc_rank[best]])
                best = arc;
        graph->flow[best] = most;
        graph->load[graph->arc_rank[best]] += most * problem->cost_per_token + problem->cost_per_active_slot;
    }
}

/** Tokens that change from one arc of an expert to another, and what the two ranks pay then. */
struct step {
    int32_t from;
    int32_t to;
    int64_t tokens;
    int64_t worst; /* the larger of the two costs */
};

static void consider(const struct eplb_split_graph *graph, const struct eplb_batch_problem *problem,
                     struct step step, struct step *best)
{
    int64_t moved = step.tokens * problem->cost_per_token;
    int64_t from = graph->load[graph->arc_rank[step.from]] - moved;
    int64_t to = graph->load[graph->arc_rank[step.to]] + moved;
    if (step.tokens == graph->flow[step.from])
        from -= problem->cost_per_active_slot;
    if (graph->flow[step.to] == 0)
        to += problem->cost_per_active_slot;
    step.worst = from > to ? from : to;
    if (step.worst < best->worst)
        *best = step;
}

/** The best single step that takes tokens from the rank; worst is the rank's own cost when there is none. */
static struct step find_step(const struct eplb_split_graph *graph, const struct eplb_batch_problem *problem,
                             int32_t rank)
{
    struct step best = {.worst = graph->load[rank]};
    for (int32_t entry = graph->rank_first[rank]; entry < graph->rank_first[rank + 1]; entry++) {
        int32_t from = graph->rank_arc[entry];
        int32_t shared = graph->rank_shared[entry];
        int64_t all = graph->flow[from];
        if (all == 0)
            continue;
        for (int32_t to = graph->first[shared]; to < graph->first[shared + 1]; to++) {
            if (to == from)
                continue;
            consider(graph, problem, (struct step){.from = from, .to = to, .tokens = all}, &best);
            int64_t gap = graph->load[rank] - graph->load[graph->arc_rank[to]];
            int64_t half = (gap - (graph->flow[to] == 0 ? problem->cost_per_active_slot : 0)) / 2 /
                           problem->cost_per_token;
            if (half > 0 && half < all)
                consider(graph, problem, (struct step){.from = from, .to = to, .tokens = half}, &best);
        }
    }
    return best;
}

int64_t eplb_batch_lower_cost(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem)
{
    for (;;) {
        int32_t worst_rank = 0;
        for (int32_t rank = 1; rank < graph->num_ranks; rank++)
            if (graph->load[rank] > graph->load[worst_rank])
                worst_rank = rank;
        int64_t peak = graph->load[worst_rank];
        struct step step = find_step(graph, problem, worst_rank);
        if (step.worst >= peak)
            return peak;
        graph->flow[step.from] -= step.tokens;
        graph->flow[step.to] += step.tokens;
        eplb_batch_charge(graph, problem);
    }
}
