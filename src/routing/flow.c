/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Flows of shared experts over ranks.
 */
#include "routing/flow.h"

#include <string.h>

#include "base/assert.h"

int64_t eplb_flow_peak(const struct eplb_split_graph *graph)
{
    int64_t peak = 0;
    for (int32_t rank = 0; rank < graph->num_ranks; rank++)
        peak = graph->load[rank] > peak ? graph->load[rank] : peak;
    return peak;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void even_out_pair(struct eplb_split_graph *graph, int32_t left, int32_t right, const int64_t *least)
{
    int64_t *left_load = &graph->load[graph->arc_rank[left]];
    int64_t *right_load = &graph->load[graph->arc_rank[right]];
    /* Division towards zero: a difference of 1 stays, whichever side has it. */
    int64_t amount = (*left_load - *right_load) / 2;
    int64_t from_left = graph->flow[left] - (least ? least[left] : 0);
    int64_t from_right = graph->flow[right] - (least ? least[right] : 0);
    amount = amount > from_left ? from_left : amount;
    amount = amount < -from_right ? -from_right : amount;
    graph->flow[left] -= amount;
    *left_load -= amount;
    graph->flow[right] += amount;
    *right_load += amount;
}

void eplb_flow_even_out(struct eplb_split_graph *graph, const int64_t *least)
{
    for (int32_t shared = 0; shared < graph->num_shared; shared++)
        for (int32_t arc = graph->first[shared] + 1; arc < graph->first[shared + 1]; arc++)
            even_out_pair(graph, arc - 1, arc, least);
}

/** What one labelling found. */
struct labels {
    int32_t num_queued; /* ranks in the queue, nearest first */
    int32_t num_above;  /* ranks above the level */
    int32_t num_beyond; /* of these, those that reach no rank below it */
};

/** Queues the ranks below the level and counts those above. */
static struct labels label_sinks(struct eplb_split_graph *graph, int64_t level, int32_t start)
{
    struct labels labels = {0};
    for (int32_t i = 0, rank = start; i < graph->num_ranks; i++) {
        bool below = graph->load[rank] < level;
        graph->distance[rank] = below ? 0 : -1;
        graph->queue[labels.num_queued] = rank;
        labels.num_queued += below;
        labels.num_above += graph->load[rank] > level;
        rank = rank + 1 < graph->num_ranks ? rank + 1 : 0;
    }
    labels.num_beyond = labels.num_above;
    return labels;
}

/**
 * Labels every rank with its distance to the ranks below the level: the number of times that load must
 * change ranks. Stops when all ranks above the level have theirs.
 */
static struct labels label(struct eplb_split_graph *graph, int64_t level, int32_t start)
{
    struct labels labels = label_sinks(graph, level, start);
    memset(graph->seen, 0, (size_t)graph->num_shared);
    for (int32_t head = 0; head < labels.num_queued && labels.num_beyond > 0; head++) {
        int32_t rank = graph->queue[head];
        for (int32_t entry = graph->rank_first[rank]; entry < graph->rank_first[rank + 1]; entry++) {
            int32_t shared = graph->rank_shared[entry];
            if (graph->seen[shared])
                continue;
            graph->seen[shared] = 1;
            for (int32_t arc = graph->first[shared]; arc < graph->first[shared + 1]; arc++) {
                int32_t from = graph->arc_rank[arc];
                if (graph->flow[arc] == 0 || graph->distance[from] >= 0)
                    continue;
                graph->distance[from] = graph->distance[rank] + 1;
                graph->queue[labels.num_queued++] = from;
                labels.num_beyond -= graph->load[from] > level;
            }
        }
    }
    return labels;
}

/** Where load goes in one flow. */
struct target {
    int64_t level;
    uint32_t rotation;
};

/** Pushes from one arc what its rank has above the level to ranks that are one step nearer. */
static void push(struct eplb_split_graph *graph, struct target target, int32_t rank, int32_t arc,
                 int32_t shared)
{
    int32_t nearer = graph->distance[rank] - 1;
    int32_t replicas = graph->first[shared + 1] - graph->first[shared];
    int32_t turn = replicas > 2 ? (int32_t)(target.rotation % (uint32_t)(replicas - 1)) : 0;
    int32_t other = arc + turn;
    other = other < graph->first[shared + 1] ? other : other - replicas;
    for (int32_t i = 0; i < replicas; i++) {
        other = other + 1 < graph->first[shared + 1] ? other + 1 : graph->first[shared];
        int32_t to = graph->arc_rank[other];
        if (graph->distance[to] != nearer)
            continue;
        int64_t amount = smaller(graph->load[rank] - target.level, graph->flow[arc]);
        if (nearer == 0)
            amount = smaller(amount, target.level - graph->load[to]);
        if (amount <= 0)
            continue;
        graph->flow[arc] -= amount;
        graph->load[rank] -= amount;
        graph->flow[other] += amount;
        graph->load[to] += amount;
    }
}

/*
 * A preflow: pushing only what is above the level keeps a rank from falling below it, so the ranks below
 * only grow fewer and no distance ever shrinks. Farthest first, one pass carries load all the way. Some
 * load enters a rank below the level in every pass, hence it ends.
 */
bool eplb_flow_fit(struct eplb_split_graph *graph, int64_t level, uint32_t rotation)
{
    int32_t start = (int32_t)(rotation % (uint32_t)graph->num_ranks);
    struct target target = {level, rotation};
    for (;;) {
        struct labels labels = label(graph, level, start);
        if (labels.num_above == 0)
            return true;
        if (labels.num_beyond > 0)
            return false;
        for (int32_t i = labels.num_queued - 1; i >= 0; i--) {
            int32_t rank = graph->queue[i];
            for (int32_t entry = graph->rank_first[rank];
                 entry < graph->rank_first[rank + 1] && graph->load[rank] > level; entry++)
                push(graph, target, rank, graph->rank_arc[entry], graph->rank_shared[entry]);
        }
    }
}
