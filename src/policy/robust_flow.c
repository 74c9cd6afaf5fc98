/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The flow that a search asks 64 times for each placement: whether a scenario fits under a level that is
 * mostly right already, on a table that changes slot by slot. Augmenting paths from what fitted the last
 * scenario; the general and exact solver is that of src/routing.
 */
#include "policy/robust.h"

#include <string.h>

#include "base/assert.h"

/* Parts of the level that count as nothing. */
static const double tolerance = 1e-6;
static const double nothing = 1e-7;

void eplb_trial_flow_layout(struct eplb_trial_flow *flow, struct eplb_arena *arena,
                            const struct eplb_shape *shape)
{
    size_t slots = (size_t)shape->num_slots;
    size_t ranks = (size_t)shape->ep_size;
    flow->fraction = eplb_arena_take(arena, slots, sizeof *flow->fraction);
    flow->share = eplb_arena_take(arena, slots, sizeof *flow->share);
    flow->rank = eplb_arena_take(arena, ranks, sizeof *flow->rank);
    flow->seen = eplb_arena_take(arena, ranks, sizeof *flow->seen);
    flow->from = eplb_arena_take(arena, ranks, sizeof *flow->from);
    flow->to = eplb_arena_take(arena, ranks, sizeof *flow->to);
    flow->queue = eplb_arena_take(arena, ranks, sizeof *flow->queue);
    flow->work = 0;
}

void eplb_trial_flow_start(struct eplb_trial_flow *flow, const struct eplb_table *table)
{
    for (int32_t slot = 0; slot < table->num_ranks * table->slots_per_rank; slot++) {
        EPLB_ASSERT(table->expert_ids[slot] >= 0);
        flow->fraction[slot] = 1.0F / (float)table->copies[table->expert_ids[slot]];
    }
    memset(flow->seen, 0, (size_t)table->num_ranks * sizeof *flow->seen);
    flow->search = 0;
}

static void set_shares(struct eplb_trial_flow *flow, const struct eplb_table *table,
                       const struct eplb_lanes *lanes, int32_t scenario)
{
    int32_t slot = 0;
    flow->work += (int64_t)table->num_ranks * table->slots_per_rank;
    for (int32_t rank = 0; rank < table->num_ranks; rank++) {
        double sum = 0;
        for (int32_t end = slot + table->slots_per_rank; slot < end; slot++) {
            double load = lanes[table->expert_ids[slot]].at[scenario];
            flow->share[slot] = (double)flow->fraction[slot] * load;
            sum += flow->share[slot];
        }
        EPLB_ASSERT(sum >= 0);
        flow->rank[rank] = sum;
    }
}

/** Where load can go from here: reaches the other ranks of the shared experts that have some here. */
static int32_t widen(struct eplb_trial_flow *flow, const struct eplb_table *table, int32_t from, double level,
                     int32_t *tail)
{
    int32_t slot = from * table->slots_per_rank;
    flow->work += table->slots_per_rank;
    for (int32_t end = slot + table->slots_per_rank; slot < end; slot++) {
        int32_t expert = table->expert_ids[slot];
        if (table->copies[expert] == 1 || flow->share[slot] <= level * nothing)
            continue;
        for (int32_t other = table->first[expert]; other >= 0; other = table->next[other]) {
            int32_t rank = other / table->slots_per_rank;
            if (flow->seen[rank] == flow->search)
                continue;
            flow->seen[rank] = flow->search;
            flow->from[rank] = slot;
            flow->to[rank] = other;
            flow->queue[(*tail)++] = rank;
            if (flow->rank[rank] < level * (1 - nothing))
                return rank;
        }
    }
    return -1;
}

/** The nearest rank with room, or -1: then the queue holds `reached` ranks that nothing can leave. */
static int32_t find_room(struct eplb_trial_flow *flow, const struct eplb_table *table, int32_t start,
                         double level, int32_t *reached)
{
    int32_t tail = 0;
    EPLB_ASSERT(flow->search < INT32_MAX && flow->rank[start] > level);
    flow->search++;
    flow->queue[tail++] = start;
    flow->seen[start] = flow->search;
    for (int32_t head = 0; head < tail; head++) {
        int32_t rank = widen(flow, table, flow->queue[head], level, &tail);
        if (rank >= 0)
            return rank;
    }
    EPLB_ASSERT(tail >= 1 && tail <= table->num_ranks);
    *reached = tail;
    return -1;
}

static void push(struct eplb_trial_flow *flow, const struct eplb_table *table, int32_t start, int32_t end,
                 double level)
{
    EPLB_ASSERT(start != end && flow->rank[start] > level && flow->rank[end] < level);
    double amount = flow->rank[start] - level;
    if (level - flow->rank[end] < amount)
        amount = level - flow->rank[end];
    for (int32_t rank = end; rank != start; rank = flow->from[rank] / table->slots_per_rank)
        if (flow->share[flow->from[rank]] < amount)
            amount = flow->share[flow->from[rank]];
    EPLB_ASSERT(amount > 0);
    for (int32_t rank = end; rank != start; rank = flow->from[rank] / table->slots_per_rank) {
        flow->share[flow->from[rank]] -= amount;
        flow->share[flow->to[rank]] += amount;
    }
    flow->rank[start] -= amount;
    flow->rank[end] += amount;
}

static void keep_fractions(struct eplb_trial_flow *flow, const struct eplb_table *table,
                           const struct eplb_lanes *lanes, int32_t scenario)
{
    for (int32_t slot = 0; slot < table->num_ranks * table->slots_per_rank; slot++) {
        int32_t expert = table->expert_ids[slot];
        if (table->copies[expert] > 1 && lanes[expert].at[scenario] > 0)
            flow->fraction[slot] = (float)(flow->share[slot] / (double)lanes[expert].at[scenario]);
    }
}

int32_t eplb_trial_flow_fit(struct eplb_trial_flow *flow, const struct eplb_table *table,
                            const struct eplb_lanes *lanes, int32_t scenario, double level)
{
    EPLB_ASSERT(level > 0 && scenario >= 0 && scenario < EPLB_ROBUST_SCENARIOS);
    set_shares(flow, table, lanes, scenario);
    for (int32_t rank = 0; rank < table->num_ranks; rank++)
        while (flow->rank[rank] > level * (1 + tolerance)) {
            int32_t reached = 0;
            int32_t end = find_room(flow, table, rank, level, &reached);
            if (end < 0)
                return reached;
            push(flow, table, rank, end, level);
        }
    keep_fractions(flow, table, lanes, scenario);
    return 0;
}
