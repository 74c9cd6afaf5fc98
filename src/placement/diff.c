/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/placement.h"

#include <string.h>

#include "base/assert.h"

/**
 * Where each expert is in the old placement, as lists in one array:
 *
 *   first   [num_experts + 1]  list of expert e is holders[first[e] .. first[e + 1])
 *   holders [num_slots]        global slots, ascending, so ranks ascend too
 *   sends   [ep_size]          messages that each rank sends so far
 */
struct holders {
    int32_t *first;
    int32_t *slots;
    int32_t *sends;
};

size_t eplb_placement_diff_scratch(const struct eplb_shape *shape)
{
    return ((size_t)shape->num_experts + 1 + (size_t)shape->num_slots + (size_t)shape->ep_size) *
           sizeof(int32_t);
}

static struct holders list_holders(const struct eplb_shape *shape, const int32_t *old_ids, void *scratch)
{
    struct holders holders = {.first = scratch};
    holders.slots = holders.first + shape->num_experts + 1;
    holders.sends = holders.slots + shape->num_slots;
    memset(holders.sends, 0, (size_t)shape->ep_size * sizeof(int32_t));

    eplb_placement_replicas(shape, old_ids, holders.first);
    int32_t end = 0;
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        end += holders.first[expert];
        holders.first[expert] = end;
    }
    EPLB_ASSERT(end == shape->num_slots);
    holders.first[shape->num_experts] = end;
    /* Filled from the back, each list ends up in ascending order with `first` at its start. */
    for (int32_t slot = shape->num_slots - 1; slot >= 0; slot--)
        holders.slots[--holders.first[old_ids[slot]]] = slot;
    EPLB_ASSERT(holders.first[0] == 0);
    return holders;
}

static struct eplb_move source_of(const struct eplb_shape *shape, struct holders *holders, int32_t slot,
                                  int32_t expert)
{
    int32_t rank = slot / shape->slots_per_rank;
    int32_t begin = holders->first[expert];
    int32_t end = holders->first[expert + 1];
    EPLB_ASSERT(begin < end);
    int32_t best = holders->slots[begin];
    for (int32_t i = begin; i < end; i++) {
        int32_t candidate = holders->slots[i];
        int32_t candidate_rank = candidate / shape->slots_per_rank;
        if (candidate_rank == rank)
            return (struct eplb_move){slot, expert, candidate, EPLB_MOVE_LOCAL};
        if (holders->sends[candidate_rank] < holders->sends[best / shape->slots_per_rank])
            best = candidate;
    }
    holders->sends[best / shape->slots_per_rank]++;
    return (struct eplb_move){slot, expert, best, EPLB_MOVE_P2P};
}

int32_t eplb_placement_diff(const struct eplb_shape *shape, const int32_t *old_ids, const int32_t *new_ids,
                            void *scratch, struct eplb_move *moves)
{
    struct holders holders = list_holders(shape, old_ids, scratch);
    int32_t count = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        if (new_ids[slot] == old_ids[slot])
            continue;
        EPLB_ASSERT(new_ids[slot] >= 0 && new_ids[slot] < shape->num_experts);
        moves[count++] = source_of(shape, &holders, slot, new_ids[slot]);
    }
    return count;
}
