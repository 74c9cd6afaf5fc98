/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The spread construction: copies that join as many ranks as possible. Shared experts come first,
 * hottest first, each copy on the rank with the least weight, where a rank that is already joined to
 * one of the expert's ranks counts as heavier, and one that shares an expert with it as heavier still.
 * Where few slots are to move, a rank that holds the expert already counts as lighter.
 */
#include "policy/robust.h"

#include "base/assert.h"
#include "base/mix.h"
#include "policy/robust_sort.h"

/* In mean rank loads. */
static const double same_component = 0.5;
static const double same_link = 1.0;
static const double largest_share = 0.4;
static const double jitter = 0.1;

void eplb_spread_layout(struct eplb_spread *spread, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t num_experts = (size_t)shape->num_experts;
    size_t ranks = (size_t)shape->ep_size;
    spread->jittered = eplb_arena_take(arena, num_experts, sizeof *spread->jittered);
    spread->weight = eplb_arena_take(arena, ranks, sizeof *spread->weight);
    spread->copies = eplb_arena_take(arena, num_experts, sizeof *spread->copies);
    spread->order = eplb_arena_take(arena, num_experts, sizeof *spread->order);
    spread->heap = eplb_arena_take(arena, num_experts, sizeof *spread->heap);
    spread->free = eplb_arena_take(arena, ranks, sizeof *spread->free);
    spread->parent = eplb_arena_take(arena, ranks, sizeof *spread->parent);
    spread->linked = eplb_arena_take(arena, ranks, sizeof *spread->linked);
    spread->together = eplb_arena_take(arena, ranks, sizeof *spread->together);
}

static double share_of(const struct eplb_spread *spread, int32_t expert)
{
    return spread->jittered[expert] / spread->copies[expert];
}

/** Lets an expert of a heap with the largest share first sink to its place. */
static void sink(struct eplb_spread *spread, int32_t at, int32_t count)
{
    int32_t *heap = spread->heap;
    for (int32_t child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
        if (child + 1 < count && eplb_before(share_of(spread, heap[child + 1]), heap[child + 1],
                                             share_of(spread, heap[child]), heap[child]))
            child++;
        if (!eplb_before(share_of(spread, heap[child]), heap[child], share_of(spread, heap[at]), heap[at]))
            break;
        int32_t held = heap[at];
        heap[at] = heap[child];
        heap[child] = held;
    }
}

/** One more copy of the expert with the largest share, while there are copies and it is above `least`. */
static int32_t copy_largest(struct eplb_spread *spread, const struct eplb_table *table, double least,
                            int32_t left)
{
    int32_t count = 0;
    for (int32_t i = 0; i < table->num_experts; i++)
        if (spread->copies[i] < table->num_ranks)
            spread->heap[count++] = i;
    for (int32_t at = count / 2; at-- > 0;)
        sink(spread, at, count);
    while (left > 0 && count > 0 && share_of(spread, spread->heap[0]) >= least) {
        left--;
        if (++spread->copies[spread->heap[0]] == table->num_ranks)
            spread->heap[0] = spread->heap[--count];
        sink(spread, 0, count);
    }
    return left;
}

static void choose_copies(struct eplb_spread *spread, const struct eplb_table *table)
{
    int32_t left = table->num_ranks * table->slots_per_rank - table->num_experts;
    EPLB_ASSERT(left >= 0);
    for (int32_t i = 0; i < table->num_experts; i++)
        spread->copies[i] = 1;
    left = copy_largest(spread, table, largest_share, left);
    for (int32_t i = 0; i < table->num_experts && left > 0; i++)
        if (spread->copies[spread->order[i]] == 1) {
            spread->copies[spread->order[i]]++;
            left--;
        }
    if (left > 0)
        left = copy_largest(spread, table, 0, left);
    EPLB_ASSERT(left == 0);
}

static int32_t root_of(struct eplb_spread *spread, int32_t rank)
{
    int32_t *parent = spread->parent;
    while (parent[rank] != rank) {
        parent[rank] = parent[parent[rank]];
        rank = parent[rank];
    }
    return rank;
}

static int32_t free_slot(const struct eplb_table *table, int32_t rank)
{
    int32_t slot = rank * table->slots_per_rank;
    while (table->expert_ids[slot] >= 0)
        slot++;
    EPLB_ASSERT(slot < (rank + 1) * table->slots_per_rank);
    return slot;
}

/** The best rank with a free slot that does not hold the expert; -1: every such rank holds it. */
static int32_t choose_rank(struct eplb_spread *spread, const struct eplb_table *table, int32_t expert)
{
    int32_t best = -1;
    double least = 0;
    for (int32_t rank = 0; rank < table->num_ranks; rank++) {
        if (spread->free[rank] == 0 || eplb_table_holds(table, rank, expert))
            continue;
        double cost = spread->weight[rank];
        if (spread->linked[rank] == expert)
            cost += same_link;
        else if (spread->together[root_of(spread, rank)] == expert)
            cost += same_component;
        if (spread->active != NULL && eplb_table_holds(spread->active, rank, expert))
            cost -= spread->bonus;
        if (best < 0 || cost < least) {
            best = rank;
            least = cost;
        }
    }
    return best;
}

/**
 * Makes room on a rank that does not hold the expert: one of its experts goes to a rank with a free
 * slot. There is always one: the other rank has room, so it lacks at least one of a full rank's.
 */
static int32_t make_room(struct eplb_spread *spread, struct eplb_table *table, int32_t expert)
{
    int32_t roomy = 0;
    int32_t full = 0;
    while (spread->free[roomy] == 0)
        roomy++;
    EPLB_ASSERT(roomy < table->num_ranks && eplb_table_holds(table, roomy, expert));
    while (eplb_table_holds(table, full, expert))
        full++;
    EPLB_ASSERT(full < table->num_ranks);
    int32_t slot = full * table->slots_per_rank;
    while (eplb_table_holds(table, roomy, table->expert_ids[slot]))
        slot++;
    EPLB_ASSERT(slot < (full + 1) * table->slots_per_rank);
    EPLB_ASSERT(spread->free[full] == 0);
    int32_t other = table->expert_ids[slot];
    eplb_table_empty(table, slot);
    eplb_table_fill(table, free_slot(table, roomy), other);
    spread->free[roomy]--;
    spread->free[full]++;
    spread->weight[roomy] += share_of(spread, other);
    spread->weight[full] -= share_of(spread, other);
    return full;
}

/** Marks what the ranks of an expert, whose newest is `rank`, are linked to and joined with. */
static void mark(struct eplb_spread *spread, const struct eplb_table *table, int32_t rank, int32_t expert)
{
    for (int32_t i = 0; i < table->slots_per_rank; i++) {
        int32_t other = table->expert_ids[rank * table->slots_per_rank + i];
        if (other < 0 || table->copies[other] == 1)
            continue;
        for (int32_t slot = table->first[other]; slot >= 0; slot = table->next[slot])
            spread->linked[slot / table->slots_per_rank] = expert;
    }
    spread->together[root_of(spread, rank)] = expert;
}

static void place(struct eplb_spread *spread, struct eplb_table *table, int32_t expert)
{
    for (int32_t copy = 0; copy < spread->copies[expert]; copy++) {
        int32_t rank = choose_rank(spread, table, expert);
        if (rank < 0)
            rank = make_room(spread, table, expert);
        EPLB_ASSERT(rank >= 0 && spread->free[rank] >= 1);
        if (spread->copies[expert] > 1)
            mark(spread, table, rank, expert);
        eplb_table_fill(table, free_slot(table, rank), expert);
        spread->free[rank]--;
        spread->weight[rank] += share_of(spread, expert);
    }
    EPLB_ASSERT(table->copies[expert] == spread->copies[expert]);
    int32_t first = root_of(spread, table->first[expert] / table->slots_per_rank);
    for (int32_t slot = table->first[expert]; slot >= 0; slot = table->next[slot])
        spread->parent[root_of(spread, slot / table->slots_per_rank)] = first;
}

static void construct(struct eplb_spread *spread, const double *load, uint64_t start,
                      struct eplb_table *table)
{
    for (int32_t expert = 0; expert < table->num_experts; expert++) {
        double draw = (double)(eplb_mix(start, (uint64_t)expert) >> 11) * 0x1p-53;
        EPLB_ASSERT(load[expert] >= 0);
        spread->jittered[expert] = load[expert] * (start == 0 ? 1 : 1 + jitter * (2 * draw - 1));
    }
    eplb_sort_hottest(spread->jittered, table->num_experts, spread->order, spread->heap);
    choose_copies(spread, table);
    eplb_table_clear(table);
    for (int32_t rank = 0; rank < table->num_ranks; rank++) {
        spread->weight[rank] = 0;
        spread->free[rank] = table->slots_per_rank;
        spread->parent[rank] = rank;
        spread->linked[rank] = -1;
        spread->together[rank] = -1;
    }
    for (int32_t shared = 1; shared >= 0; shared--)
        for (int32_t i = 0; i < table->num_experts; i++)
            if ((spread->copies[spread->order[i]] > 1) == shared)
                place(spread, table, spread->order[i]);
}

void eplb_spread_construct(struct eplb_spread *spread, const double *load, uint64_t start,
                           struct eplb_table *table)
{
    spread->active = NULL;
    construct(spread, load, start, table);
}

void eplb_spread_construct_near(struct eplb_spread *spread, const double *load, uint64_t start,
                                const struct eplb_table *active, double bonus, struct eplb_table *table)
{
    EPLB_ASSERT(active->num_ranks == table->num_ranks && bonus >= 0);
    spread->active = active;
    spread->bonus = bonus;
    construct(spread, load, start, table);
}
