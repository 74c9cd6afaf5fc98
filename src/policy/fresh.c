/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/fresh.h"

#include "base/assert.h"
#include "policy/sort_pairs.h"

void eplb_fresh_layout(struct eplb_fresh *fresh, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t experts = (size_t)shape->num_experts;
    size_t ranks = (size_t)shape->ep_size;
    fresh->by_load = eplb_arena_take(arena, experts, sizeof *fresh->by_load);
    fresh->copies = eplb_arena_take(arena, experts, sizeof *fresh->copies);
    fresh->keys = eplb_arena_take(arena, experts, sizeof *fresh->keys);
    fresh->ids = eplb_arena_take(arena, experts, sizeof *fresh->ids);
    fresh->heap = eplb_arena_take(arena, ranks, sizeof *fresh->heap);
    fresh->ranks = eplb_arena_take(arena, ranks, sizeof *fresh->ranks);
    fresh->used = eplb_arena_take(arena, ranks, sizeof *fresh->used);
}

void eplb_fresh_start(struct eplb_fresh *fresh, const struct eplb_even *even)
{
    int32_t experts = even->shape->num_experts;
    for (int32_t expert = 0; expert < experts; expert++) {
        fresh->by_load[expert] = expert;
        fresh->keys[expert] = even->units[expert];
    }
    eplb_sort_pairs(fresh->keys, fresh->by_load, experts);
    EPLB_ASSERT(even->units[fresh->by_load[0]] >= even->units[fresh->by_load[experts - 1]]);
}

/** Lets the root of a heap whose root is the largest sink to where its key belongs. */
static void sink_largest(int64_t *keys, int32_t *ids, int32_t count)
{
    int64_t key = keys[0];
    int32_t id = ids[0];
    int32_t hole = 0;
    for (int32_t child = 1; child < count; child = 2 * hole + 1) {
        child += child + 1 < count && keys[child + 1] > keys[child];
        if (key >= keys[child])
            break;
        keys[hole] = keys[child];
        ids[hole] = ids[child];
        hole = child;
    }
    keys[hole] = key;
    ids[hole] = id;
}

/** Whether an expert may get one of the copies that are handed out. */
static bool may_get(const struct eplb_fresh *fresh, const struct eplb_even *even, int32_t expert,
                    int64_t below)
{
    return fresh->copies[expert] < even->shape->ep_size &&
           even->units[expert] / fresh->copies[expert] <= below;
}

/**
 * Gives the rest of the copies to the largest shares among those at most `below`. Returns what is left.
 * Of the experts without a copy only the first `rest` can get one: the others stay out of the heap.
 */
static int32_t hand_out(struct eplb_fresh *fresh, const struct eplb_even *even, int64_t below, int32_t rest)
{
    int32_t count = 0;
    int32_t singles = 0;
    EPLB_ASSERT(rest >= 0);
    for (int32_t i = 0; i < even->shape->num_experts && singles < rest; i++) {
        int32_t expert = fresh->by_load[i];
        if (!may_get(fresh, even, expert, below))
            continue;
        singles += fresh->copies[expert] == 1;
        fresh->keys[count] = even->units[expert] / fresh->copies[expert];
        fresh->ids[count++] = expert;
    }
    eplb_sort_pairs(fresh->keys, fresh->ids, count); /* sorted, largest first, is a heap */
    for (; rest > 0 && count > 0; rest--) {
        int32_t expert = fresh->ids[0];
        EPLB_ASSERT(fresh->copies[expert] < even->shape->ep_size);
        fresh->copies[expert]++;
        fresh->keys[0] = even->units[expert] / fresh->copies[expert];
        if (fresh->copies[expert] == even->shape->ep_size) {
            fresh->keys[0] = fresh->keys[--count];
            fresh->ids[0] = fresh->ids[count];
        }
        sink_largest(fresh->keys, fresh->ids, count);
    }
    return rest;
}

bool eplb_fresh_copies(struct eplb_fresh *fresh, const struct eplb_even *even, int64_t cap,
                       int64_t rest_below)
{
    const struct eplb_shape *shape = even->shape;
    int64_t rest = shape->num_slots - shape->num_experts;
    EPLB_ASSERT(cap > 0 && rest >= 0);
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        int64_t units = even->units[expert];
        int64_t copies = units <= cap ? 1 : (units - 1) / cap + 1;
        copies = copies > shape->ep_size ? shape->ep_size : copies;
        fresh->copies[expert] = (int32_t)copies;
        rest -= copies - 1;
    }
    if (rest < 0)
        return false;
    int32_t left = hand_out(fresh, even, rest_below, (int32_t)rest);
    left = hand_out(fresh, even, INT64_MAX, left);
    EPLB_ASSERT(left == 0);
    return true;
}

/** Lets the root of the heap of ranks, smallest sum first, then lowest rank, sink. */
static void sink_rank(struct eplb_fresh *fresh, int32_t count, int32_t hole, int64_t sum, int32_t rank)
{
    const int64_t *heap = fresh->heap;
    const int32_t *ranks = fresh->ranks;
    for (int32_t child = 2 * hole + 1; child < count; child = 2 * hole + 1) {
        child += child + 1 < count && heap[child + 1] < heap[child];
        if (sum <= heap[child])
            break;
        fresh->heap[hole] = heap[child];
        fresh->ranks[hole] = ranks[child];
        hole = child;
    }
    fresh->heap[hole] = sum;
    fresh->ranks[hole] = rank;
}

/** Lets the last rank of the heap rise. */
static void rise(struct eplb_fresh *fresh, int32_t hole, int64_t sum, int32_t rank)
{
    for (; hole > 0 && fresh->heap[(hole - 1) / 2] > sum; hole = (hole - 1) / 2) {
        fresh->heap[hole] = fresh->heap[(hole - 1) / 2];
        fresh->ranks[hole] = fresh->ranks[(hole - 1) / 2];
    }
    fresh->heap[hole] = sum;
    fresh->ranks[hole] = rank;
}

static int32_t position(const int32_t *row, int32_t count, int32_t expert)
{
    for (int32_t i = 0; i < count; i++)
        if (row[i] == expert)
            return i;
    return -1;
}

/**
 * Dead end: all ranks with a free slot hold the expert. The first of them takes over an expert that it
 * lacks from a full rank without this one. There is such a rank, for copies are at most R, and such
 * an expert, for the full rank holds K experts, not this one, the other fewer and this one.
 */
static void squeeze_in(struct eplb_fresh *fresh, struct eplb_even *even, int32_t expert)
{
    int32_t count = even->shape->slots_per_rank;
    int32_t open = fresh->ranks[0];
    int32_t *open_row = eplb_even_row(even, open);
    EPLB_ASSERT(position(open_row, fresh->used[open], expert) >= 0);
    int32_t full = 0;
    while (fresh->used[full] < count || position(eplb_even_row(even, full), count, expert) >= 0)
        full++;
    EPLB_ASSERT(full < even->shape->ep_size);
    int32_t *row = eplb_even_row(even, full);
    int32_t i = count - 1;
    while (position(open_row, fresh->used[open], row[i]) >= 0)
        i--;
    EPLB_ASSERT(i >= 0);
    open_row[fresh->used[open]++] = row[i];
    row[i] = expert;
}

/** Deals the replicas of one expert to as many ranks, those with the smallest sums. Returns the heap's size.
 */
static int32_t deal(struct eplb_fresh *fresh, struct eplb_even *even, int32_t expert, int32_t count)
{
    int32_t slots_per_rank = even->shape->slots_per_rank;
    int32_t copies = even->copies[expert];
    int32_t dealt = copies < count ? copies : count;
    EPLB_ASSERT(copies >= 1 && copies <= even->shape->ep_size);
    /* What leaves the heap lies behind its end, the smallest last. */
    for (int32_t copy = 0; copy < dealt; copy++) {
        int64_t sum = fresh->heap[0];
        int32_t rank = fresh->ranks[0];
        count--;
        sink_rank(fresh, count, 0, fresh->heap[count], fresh->ranks[count]);
        fresh->heap[count] = sum;
        fresh->ranks[count] = rank;
    }
    for (int32_t at = count, end = count + dealt; at < end; at++) {
        int32_t rank = fresh->ranks[at];
        EPLB_ASSERT(fresh->used[rank] < slots_per_rank);
        eplb_even_row(even, rank)[fresh->used[rank]++] = expert;
        if (fresh->used[rank] < slots_per_rank)
            rise(fresh, count++, fresh->heap[at] + even->shares[expert], rank);
    }
    for (; dealt < copies; dealt++) {
        EPLB_ASSERT(count > 0);
        squeeze_in(fresh, even, expert);
        if (fresh->used[fresh->ranks[0]] == slots_per_rank) {
            count--;
            sink_rank(fresh, count, 0, fresh->heap[count], fresh->ranks[count]);
        }
    }
    return count;
}

/** Lists the experts with several replicas, largest share first. Returns their number. */
static int32_t sort_split(struct eplb_fresh *fresh, const struct eplb_even *even)
{
    int32_t count = 0;
    for (int32_t i = 0; i < even->shape->num_experts; i++) {
        int32_t expert = fresh->by_load[i];
        if (even->copies[expert] == 1)
            continue;
        fresh->ids[count] = expert;
        fresh->keys[count++] = even->shares[expert];
    }
    EPLB_ASSERT(count <= even->shape->num_slots - even->shape->num_experts);
    eplb_sort_pairs(fresh->keys, fresh->ids, count);
    return count;
}

void eplb_fresh_pack(struct eplb_fresh *fresh, struct eplb_even *even)
{
    const struct eplb_shape *shape = even->shape;
    eplb_even_set_copies(even, fresh->copies);
    int32_t split = sort_split(fresh, even);
    int32_t count = shape->ep_size;
    for (int32_t rank = 0; rank < count; rank++) {
        fresh->heap[rank] = 0;
        fresh->ranks[rank] = rank;
        fresh->used[rank] = 0;
    }
    int32_t next_split = 0;
    for (int32_t i = 0; i < shape->num_experts; i++) {
        int32_t expert = fresh->by_load[i];
        if (even->copies[expert] > 1)
            continue;
        while (next_split < split && fresh->keys[next_split] >= even->shares[expert])
            count = deal(fresh, even, fresh->ids[next_split++], count);
        count = deal(fresh, even, expert, count);
    }
    while (next_split < split)
        count = deal(fresh, even, fresh->ids[next_split++], count);
    EPLB_ASSERT(count == 0);
    eplb_even_place(even, even->rows);
}
