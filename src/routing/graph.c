/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Building the graph of a placement.
 */
#include "routing/graph.h"

#include <string.h>

#include "base/arena.h"
#include "base/assert.h"

/* A shared expert has two arcs or more, so there are at most as many arcs as slots and half as many experts.
 */
static struct eplb_split_graph *layout(struct eplb_split_graph *graph, struct eplb_arena *arena,
                                       const struct eplb_shape *shape)
{
    size_t experts = (size_t)shape->num_experts;
    size_t ranks = (size_t)shape->ep_size;
    size_t arcs = (size_t)shape->num_slots;
    struct eplb_split_graph *header = eplb_arena_take(arena, 1, sizeof *header);
    graph->home_rank = eplb_arena_take(arena, experts, sizeof(int32_t));
    graph->home_slot = eplb_arena_take(arena, experts, sizeof(int32_t));
    graph->shared_expert = eplb_arena_take(arena, experts, sizeof(int32_t));
    graph->first = eplb_arena_take(arena, experts + 1, sizeof(int32_t));
    graph->arc_rank = eplb_arena_take(arena, arcs, sizeof(int32_t));
    graph->arc_slot = eplb_arena_take(arena, arcs, sizeof(int32_t));
    graph->rank_first = eplb_arena_take(arena, ranks + 1, sizeof(int32_t));
    graph->rank_arc = eplb_arena_take(arena, arcs, sizeof(int32_t));
    graph->rank_shared = eplb_arena_take(arena, arcs, sizeof(int32_t));
    graph->component = eplb_arena_take(arena, ranks, sizeof(int32_t));
    graph->component_size = eplb_arena_take(arena, ranks, sizeof(int32_t));
    graph->base = eplb_arena_take(arena, ranks + 1, sizeof(int64_t));
    graph->load = eplb_arena_take(arena, ranks, sizeof(int64_t));
    graph->flow = eplb_arena_take(arena, arcs, sizeof(int64_t));
    graph->least = eplb_arena_take(arena, arcs, sizeof(int64_t));
    graph->saved = eplb_arena_take(arena, arcs, sizeof(int64_t));
    graph->total = eplb_arena_take(arena, experts, sizeof(int64_t));
    graph->distance = eplb_arena_take(arena, ranks, sizeof(int32_t));
    graph->queue = eplb_arena_take(arena, ranks, sizeof(int32_t));
    graph->open = eplb_arena_take(arena, ranks, sizeof(int32_t));
    graph->seen = eplb_arena_take(arena, experts, sizeof(uint8_t));
    graph->in_cut = eplb_arena_take(arena, ranks, sizeof(uint8_t));
    return header;
}

size_t eplb_split_graph_size(const struct eplb_shape *shape)
{
    struct eplb_split_graph graph;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&graph, &arena, shape);
    return arena.used;
}

/** Numbers the shared experts and makes room for their arcs; home_slot holds the replica counts on entry. */
static void number_shared(struct eplb_split_graph *graph)
{
    graph->num_shared = 0;
    graph->num_arcs = 0;
    for (int32_t expert = 0; expert < graph->num_experts; expert++) {
        int32_t replicas = graph->home_slot[expert];
        EPLB_ASSERT(replicas >= 1);
        graph->home_rank[expert] = graph->num_ranks;
        if (replicas == 1)
            continue;
        graph->shared_expert[graph->num_shared] = expert;
        graph->first[graph->num_shared] = graph->num_arcs;
        graph->home_slot[expert] = -1 - graph->num_shared;
        graph->num_shared++;
        graph->num_arcs += replicas;
    }
    graph->first[graph->num_shared] = graph->num_arcs;
}

/** Fills the arcs, slot by slot, which orders them by slot; `first` serves as cursor and is put back. */
static void fill_arcs(struct eplb_split_graph *graph, const int32_t *expert_ids)
{
    int32_t entry = 0;
    for (int32_t rank = 0; rank < graph->num_ranks; rank++) {
        graph->rank_first[rank] = entry;
        for (int32_t i = 0; i < graph->slots_per_rank; i++) {
            int32_t slot = rank * graph->slots_per_rank + i;
            int32_t expert = expert_ids[slot];
            if (graph->home_slot[expert] >= 0) {
                graph->home_slot[expert] = slot;
                graph->home_rank[expert] = rank;
                continue;
            }
            int32_t shared = -1 - graph->home_slot[expert];
            int32_t arc = graph->first[shared]++;
            graph->arc_rank[arc] = rank;
            graph->arc_slot[arc] = slot;
            graph->rank_arc[entry] = arc;
            graph->rank_shared[entry] = shared;
            entry++;
        }
    }
    EPLB_ASSERT(entry == graph->num_arcs);
    graph->rank_first[graph->num_ranks] = entry;
    for (int32_t shared = graph->num_shared; shared > 0; shared--)
        graph->first[shared] = graph->first[shared - 1];
    graph->first[0] = 0;
}

/** Visits everything joined to the rank by shared experts. Returns how many ranks that are. */
static int32_t flood(struct eplb_split_graph *graph, int32_t start, int32_t component)
{
    int32_t tail = 0;
    graph->queue[tail++] = start;
    graph->component[start] = component;
    for (int32_t head = 0; head < tail; head++) {
        int32_t rank = graph->queue[head];
        for (int32_t entry = graph->rank_first[rank]; entry < graph->rank_first[rank + 1]; entry++) {
            int32_t shared = graph->rank_shared[entry];
            if (graph->seen[shared])
                continue;
            graph->seen[shared] = 1;
            for (int32_t arc = graph->first[shared]; arc < graph->first[shared + 1]; arc++) {
                int32_t next = graph->arc_rank[arc];
                if (graph->component[next] >= 0)
                    continue;
                graph->component[next] = component;
                graph->queue[tail++] = next;
            }
        }
    }
    return tail;
}

struct eplb_split_graph *eplb_split_graph_build(const struct eplb_shape *shape, const int32_t *expert_ids,
                                                void *memory)
{
    struct eplb_split_graph graph = {.num_experts = shape->num_experts,
                                     .num_ranks = shape->ep_size,
                                     .slots_per_rank = shape->slots_per_rank};
    struct eplb_arena arena;
    eplb_arena_init(&arena, memory, eplb_split_graph_size(shape));
    struct eplb_split_graph *header = layout(&graph, &arena, shape);
    EPLB_ASSERT(!arena.overflow);

    memset(graph.home_slot, 0, (size_t)shape->num_experts * sizeof graph.home_slot[0]);
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        graph.home_slot[expert_ids[slot]]++;
    number_shared(&graph);
    fill_arcs(&graph, expert_ids);

    memset(graph.seen, 0, (size_t)graph.num_shared);
    memset(graph.component, -1, (size_t)graph.num_ranks * sizeof graph.component[0]);
    for (int32_t rank = 0; rank < graph.num_ranks; rank++) {
        if (graph.component[rank] >= 0)
            continue;
        int32_t component = graph.num_components++;
        graph.component_size[component] = flood(&graph, rank, component);
    }
    *header = graph;
    return header;
}

int32_t eplb_split_graph_components(const struct eplb_split_graph *graph)
{
    return graph->num_components;
}
