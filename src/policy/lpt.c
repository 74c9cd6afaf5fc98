/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/lpt.h"

#include <string.h>

#include "base/assert.h"

void eplb_lpt_layout(struct eplb_lpt *lpt, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    const size_t num_ranks = (size_t)shape->ep_size;
    const size_t num_slots = (size_t)shape->num_slots;
    *lpt = (struct eplb_lpt){.shape = shape, .leaves = 1};
    while (lpt->leaves < num_ranks)
        lpt->leaves *= 2;
    EPLB_ASSERT((lpt->leaves & (lpt->leaves - 1)) == 0);
    lpt->least = eplb_arena_take(arena, 2 * lpt->leaves, sizeof *lpt->least);
    lpt->winner = eplb_arena_take(arena, 2 * lpt->leaves, sizeof *lpt->winner);
    lpt->sums = eplb_arena_take(arena, num_ranks, sizeof *lpt->sums);
    lpt->used = eplb_arena_take(arena, num_ranks, sizeof *lpt->used);
    lpt->first = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *lpt->first);
    lpt->next = eplb_arena_take(arena, num_slots, sizeof *lpt->next);
    lpt->rank_of = eplb_arena_take(arena, num_slots, sizeof *lpt->rank_of);
    lpt->holds = eplb_arena_take(arena, num_ranks, sizeof *lpt->holds);
    lpt->passed = eplb_arena_take(arena, num_ranks, sizeof *lpt->passed);
}

void eplb_lpt_reset(struct eplb_lpt *lpt, int32_t *expert_ids)
{
    const size_t num_ranks = (size_t)lpt->shape->ep_size;
    lpt->expert_ids = expert_ids;
    lpt->num_replicas = 0;
    lpt->current = -1;
    lpt->num_passed = 0;
    memset(lpt->sums, 0, num_ranks * sizeof *lpt->sums);
    memset(lpt->used, 0, num_ranks * sizeof *lpt->used);
    memset(lpt->first, -1, (size_t)lpt->shape->num_experts * sizeof *lpt->first);
    memset(lpt->holds, -1, num_ranks * sizeof *lpt->holds);
    for (size_t rank = 0; rank < lpt->leaves; rank++) {
        lpt->least[lpt->leaves + rank] = rank < num_ranks ? 0 : EPLB_LPT_CLOSED;
        lpt->winner[lpt->leaves + rank] = (uint32_t)rank;
    }
    /* Leaves that stand for no rank are on the right, so the left one wins everywhere. */
    for (size_t node = lpt->leaves - 1; node >= 1; node--) {
        lpt->least[node] = lpt->least[2 * node];
        lpt->winner[node] = lpt->winner[2 * node];
    }
    EPLB_ASSERT(lpt->winner[1] == 0 && lpt->least[1] == 0);
}

/** Gives a rank's leaf another sum and plays its games up to the root. */
static inline void play(struct eplb_lpt *lpt, size_t rank, uint64_t sum)
{
    uint64_t *const least = lpt->least;
    uint32_t *const winner = lpt->winner;
    uint32_t leader = (uint32_t)rank;
    size_t node = lpt->leaves + rank;
    least[node] = sum;
    for (; node > 1; node /= 2) {
        const uint64_t other = least[node ^ 1];
        const uint32_t other_leader = winner[node ^ 1];
        /* A tie goes to the left node. Two selections, no branch: nothing can predict who wins. */
        const bool lost = other < sum + (node & 1);
        sum = lost ? other : sum;
        leader = lost ? other_leader : leader;
        least[node / 2] = sum;
        winner[node / 2] = leader;
    }
}

static inline void put(struct eplb_lpt *lpt, size_t rank, int32_t expert, uint64_t load)
{
    const int32_t slots_per_rank = lpt->shape->slots_per_rank;
    const int32_t slot = lpt->used[rank]++;
    EPLB_ASSERT(slot < slots_per_rank);
    lpt->expert_ids[rank * (size_t)slots_per_rank + (size_t)slot] = expert;
    lpt->sums[rank] += load;
    play(lpt, rank, slot + 1 < slots_per_rank ? lpt->sums[rank] : EPLB_LPT_CLOSED);
}

/** A rank that was passed over had a free slot and has it still. */
static void reopen(struct eplb_lpt *lpt)
{
    while (lpt->num_passed > 0) {
        const size_t rank = (size_t)lpt->passed[--lpt->num_passed];
        play(lpt, rank, lpt->sums[rank]);
    }
}

void eplb_lpt_add_only(struct eplb_lpt *lpt, int32_t expert, uint64_t load)
{
    if (lpt->num_passed > 0)
        reopen(lpt);
    EPLB_ASSERT(lpt->least[1] < EPLB_LPT_CLOSED);
    put(lpt, lpt->winner[1], expert, load);
}

static void turn_to(struct eplb_lpt *lpt, int32_t expert)
{
    EPLB_ASSERT(expert >= 0 && expert < lpt->shape->num_experts);
    reopen(lpt);
    lpt->current = expert;
    for (int32_t i = lpt->first[expert]; i >= 0; i = lpt->next[i])
        lpt->holds[lpt->rank_of[i]] = expert;
}

bool eplb_lpt_add_replica(struct eplb_lpt *lpt, int32_t expert, uint64_t load)
{
    if (lpt->current != expert)
        turn_to(lpt, expert);
    size_t rank = lpt->winner[1];
    while (lpt->least[1] < EPLB_LPT_CLOSED && lpt->holds[rank] == expert) {
        lpt->passed[lpt->num_passed++] = (int32_t)rank;
        play(lpt, rank, EPLB_LPT_CLOSED);
        rank = lpt->winner[1];
    }
    if (lpt->least[1] == EPLB_LPT_CLOSED)
        return false;
    put(lpt, rank, expert, load);
    EPLB_ASSERT(lpt->num_replicas < lpt->shape->num_slots);
    lpt->holds[rank] = expert;
    lpt->rank_of[lpt->num_replicas] = (int32_t)rank;
    lpt->next[lpt->num_replicas] = lpt->first[expert];
    lpt->first[expert] = lpt->num_replicas++;
    return true;
}
