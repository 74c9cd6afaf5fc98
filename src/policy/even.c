/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/even.h"

#include <string.h>

#include "base/assert.h"
#include "base/wide.h"
#include "policy/sort_pairs.h"

enum { TOTAL_BITS = 61 };

void eplb_even_layout(struct eplb_even *even, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t experts = (size_t)shape->num_experts;
    size_t ranks = (size_t)shape->ep_size;
    size_t slots = (size_t)shape->num_slots;
    even->shape = shape;
    even->units = eplb_arena_take(arena, experts, sizeof *even->units);
    even->shares = eplb_arena_take(arena, experts, sizeof *even->shares);
    even->fewer = eplb_arena_take(arena, experts, sizeof *even->fewer);
    even->more = eplb_arena_take(arena, experts, sizeof *even->more);
    even->copies = eplb_arena_take(arena, experts, sizeof *even->copies);
    even->first = eplb_arena_take(arena, experts, sizeof *even->first);
    even->next = eplb_arena_take(arena, slots, sizeof *even->next);
    even->rank_of = eplb_arena_take(arena, slots, sizeof *even->rank_of);
    even->rows = eplb_arena_take(arena, slots, sizeof *even->rows);
    even->keys = eplb_arena_take(arena, slots, sizeof *even->keys);
    even->strange = eplb_arena_take(arena, slots, sizeof *even->strange);
    even->sums = eplb_arena_take(arena, ranks, sizeof *even->sums);
    even->order = eplb_arena_take(arena, ranks, sizeof *even->order);
    even->spare = eplb_arena_take(arena, ranks, sizeof *even->spare);
    even->place = eplb_arena_take(arena, ranks, sizeof *even->place);
}

void eplb_even_load(struct eplb_even *even, const int64_t *load)
{
    int32_t experts = even->shape->num_experts;
    eplb_u128 total = 0;
    for (int32_t expert = 0; expert < experts; expert++) {
        EPLB_ASSERT(load[expert] >= 0 && load[expert] <= EPLB_MAX_LOAD);
        total += (uint64_t)load[expert];
    }
    int down = 0;
    int up = 0;
    while (total >> down >> TOTAL_BITS != 0)
        down++;
    while (total != 0 && total << (up + 1) >> TOTAL_BITS == 0)
        up++;
    EPLB_ASSERT(down == 0 || up == 0);
    int64_t sum = 0;
    for (int32_t expert = 0; expert < experts; expert++) {
        even->units[expert] = (load[expert] >> down) << up;
        sum += even->units[expert];
    }
    EPLB_ASSERT(sum >= 0 && sum >> TOTAL_BITS == 0);
    even->mean = sum / even->shape->ep_size + (sum % even->shape->ep_size != 0);
}

int64_t eplb_even_bound(const struct eplb_even *even)
{
    int64_t bound = even->mean;
    for (int32_t expert = 0; expert < even->shape->num_experts; expert++)
        if (even->shape->redundant_experts_num == 0 && even->units[expert] > bound)
            bound = even->units[expert];
    return bound;
}

static void set_copies_of(struct eplb_even *even, int32_t expert, int32_t copies)
{
    EPLB_ASSERT(copies >= 1 && copies <= even->shape->ep_size);
    uint64_t units = (uint64_t)even->units[expert];
    even->copies[expert] = copies;
    even->shares[expert] = (int64_t)(units / (uint32_t)copies);
    even->fewer[expert] = copies > 1 ? (int64_t)(units / (uint32_t)(copies - 1)) : INT64_MAX;
    even->more[expert] =
        copies < even->shape->ep_size ? (int64_t)(units / (uint32_t)(copies + 1)) : INT64_MAX;
}

void eplb_even_set_copies(struct eplb_even *even, const int32_t *copies)
{
    for (int32_t expert = 0; expert < even->shape->num_experts; expert++)
        set_copies_of(even, expert, copies[expert]);
}

/** Moves the entry at a position of a row to where its share belongs, as that of an expert. */
static void sort_in(struct eplb_even *even, int32_t rank, int32_t at, int32_t expert, uint8_t strange)
{
    int32_t *row = eplb_even_row(even, rank);
    int64_t *keys = eplb_even_keys(even, rank);
    uint8_t *flags = even->strange + (row - even->rows);
    int64_t share = even->shares[expert];
    for (; at > 0 && keys[at - 1] < share; at--) {
        row[at] = row[at - 1];
        keys[at] = keys[at - 1];
        flags[at] = flags[at - 1];
    }
    for (; at + 1 < even->shape->slots_per_rank && keys[at + 1] > share; at++) {
        row[at] = row[at + 1];
        keys[at] = keys[at + 1];
        flags[at] = flags[at + 1];
    }
    row[at] = expert;
    keys[at] = share;
    flags[at] = strange;
}

/** Puts an expert into the place of another at a position of a row. */
static void put(struct eplb_even *even, int32_t rank, int32_t at, int32_t expert)
{
    uint8_t strange = even->home != NULL && !eplb_even_was_on(even, expert, rank);
    even->moves += strange - even->strange[eplb_even_row(even, rank) - even->rows + at];
    EPLB_ASSERT(even->moves >= 0 && even->moves <= even->shape->num_slots);
    sort_in(even, rank, at, expert, strange);
}

/** Moves a rank whose sum has changed to where it belongs in the order. */
static void reorder(struct eplb_even *even, int32_t rank)
{
    int64_t sum = even->sums[rank];
    int32_t at = even->place[rank];
    EPLB_ASSERT(even->order[at] == rank && sum >= 0);
    for (; at > 0 && even->sums[even->order[at - 1]] > sum; at--) {
        even->order[at] = even->order[at - 1];
        even->place[even->order[at]] = at;
    }
    for (; at + 1 < even->shape->ep_size && even->sums[even->order[at + 1]] < sum; at++) {
        even->order[at] = even->order[at + 1];
        even->place[even->order[at]] = at;
    }
    even->order[at] = rank;
    even->place[rank] = at;
}

static void add(struct eplb_even *even, int32_t rank, int64_t units)
{
    even->sums[rank] += units;
    reorder(even, rank);
}

static void sort_ranks(struct eplb_even *even)
{
    int32_t ranks = even->shape->ep_size;
    for (int32_t rank = 0; rank < ranks; rank++) {
        even->order[rank] = rank;
        even->spare[rank] = -even->sums[rank];
    }
    eplb_sort_pairs(even->spare, even->order, ranks);
    EPLB_ASSERT(even->sums[even->order[0]] <= even->sums[even->order[ranks - 1]]);
    for (int32_t at = 0; at < ranks; at++)
        even->place[even->order[at]] = at;
}

bool eplb_even_was_on(const struct eplb_even *even, int32_t expert, int32_t rank)
{
    EPLB_ASSERT(even->home != NULL);
    const int32_t *row = even->home + (size_t)rank * (size_t)even->shape->slots_per_rank;
    for (int32_t i = 0; i < even->shape->slots_per_rank; i++)
        if (row[i] == expert)
            return true;
    return false;
}

void eplb_even_place_home(struct eplb_even *even, const int32_t *home)
{
    EPLB_ASSERT(home != even->rows); /* which steps change */
    eplb_even_place(even, home);
    even->home = home;
}

void eplb_even_place(struct eplb_even *even, const int32_t *expert_ids)
{
    const struct eplb_shape *shape = even->shape;
    even->home = NULL;
    even->moves = 0;
    memset(even->strange, 0, (size_t)shape->num_slots * sizeof *even->strange);
    if (expert_ids != even->rows)
        memcpy(even->rows, expert_ids, (size_t)shape->num_slots * sizeof *even->rows);
    memset(even->first, 0xff, (size_t)shape->num_experts * sizeof *even->first);
    memset(even->copies, 0, (size_t)shape->num_experts * sizeof *even->copies);
    int32_t slot = 0;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        for (int32_t i = 0; i < shape->slots_per_rank; i++, slot++) {
            int32_t expert = even->rows[slot];
            even->rank_of[slot] = rank;
            even->next[slot] = even->first[expert];
            even->first[expert] = slot;
            even->copies[expert]++;
        }
    }
    EPLB_ASSERT(slot == shape->num_slots);
    eplb_even_set_copies(even, even->copies);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        int32_t *row = eplb_even_row(even, rank);
        int64_t *keys = eplb_even_keys(even, rank);
        even->sums[rank] = 0;
        for (int32_t i = 0; i < shape->slots_per_rank; i++) {
            keys[i] = even->shares[row[i]];
            even->sums[rank] += keys[i];
        }
        eplb_sort_pairs(keys, row, shape->slots_per_rank);
        EPLB_ASSERT(even->sums[rank] >= keys[0] && keys[0] >= keys[shape->slots_per_rank - 1]);
    }
    sort_ranks(even);
}

bool eplb_even_holds(const struct eplb_even *even, int32_t expert, int32_t rank)
{
    if (even->copies[expert] == even->shape->ep_size)
        return true;
    for (int32_t node = even->first[expert]; node >= 0; node = even->next[node])
        if (even->rank_of[node] == rank)
            return true;
    return false;
}

static int32_t node_on(const struct eplb_even *even, int32_t expert, int32_t rank)
{
    int32_t node = even->first[expert];
    while (node >= 0 && even->rank_of[node] != rank)
        node = even->next[node];
    EPLB_ASSERT(node >= 0);
    return node;
}

void eplb_even_swap(struct eplb_even *even, int32_t a, int32_t i, int32_t b, int32_t j)
{
    int32_t from_a = eplb_even_row(even, a)[i];
    int32_t from_b = eplb_even_row(even, b)[j];
    EPLB_ASSERT(a != b && !eplb_even_holds(even, from_a, b) && !eplb_even_holds(even, from_b, a));
    EPLB_ASSERT(even->copies[from_a] < even->shape->ep_size && even->copies[from_b] < even->shape->ep_size);
    int64_t difference = even->shares[from_a] - even->shares[from_b];
    even->rank_of[node_on(even, from_a, a)] = b;
    even->rank_of[node_on(even, from_b, b)] = a;
    put(even, a, i, from_b);
    put(even, b, j, from_a);
    add(even, a, -difference);
    add(even, b, difference);
}

/** Gives an expert's replicas their new share, wherever they are. */
static void reshare(struct eplb_even *even, int32_t expert, int64_t old_share)
{
    for (int32_t node = even->first[expert]; node >= 0; node = even->next[node]) {
        int32_t rank = even->rank_of[node];
        EPLB_ASSERT(rank >= 0 && rank < even->shape->ep_size);
        const int32_t *row = eplb_even_row(even, rank);
        int32_t at = 0;
        while (row[at] != expert)
            at++;
        sort_in(even, rank, at, expert, even->strange[row - even->rows + at]);
        add(even, rank, even->shares[expert] - old_share);
    }
}

void eplb_even_replace(struct eplb_even *even, int32_t rank, int32_t i, int32_t expert)
{
    int32_t old = eplb_even_row(even, rank)[i];
    EPLB_ASSERT(even->copies[old] > 1 && !eplb_even_holds(even, expert, rank));
    EPLB_ASSERT(expert != old && even->copies[expert] < even->shape->ep_size);
    int64_t old_share = even->shares[old];
    int64_t new_share = even->shares[expert];
    int32_t *link = &even->first[old];
    while (even->rank_of[*link] != rank)
        link = &even->next[*link];
    int32_t node = *link;
    *link = even->next[node];
    set_copies_of(even, old, even->copies[old] - 1);
    reshare(even, old, old_share);

    set_copies_of(even, expert, even->copies[expert] + 1);
    reshare(even, expert, new_share);
    even->next[node] = even->first[expert];
    even->first[expert] = node;
    const int32_t *row = eplb_even_row(even, rank);
    for (i = 0; row[i] != old; i++)
        ;
    put(even, rank, i, expert);
    add(even, rank, even->shares[expert] - old_share);
}
