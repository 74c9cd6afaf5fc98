/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/placement.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"

/** A slot that holds an expert in the old placement. */
struct holder {
    int32_t slot;
    int32_t rank;
    int32_t sends; /* of its rank when last looked at: no more than now */
};

/**
 * Where each expert is in the old placement, in one block of memory. The holders of an expert are a heap:
 * first the one with the fewest sends, ties to the lowest rank. Ranks send for other experts too, so a
 * heap is put right only when its first holder is asked for; as sends only grow, it is the right one once
 * its own number is.
 */
struct sources {
    struct holder *holders; /* [num_slots] by expert; those of e are [first[e], first[e + 1]) */
    int32_t *first;         /* [num_experts + 1] */
    int32_t *sends;         /* [ep_size] messages that each rank sends so far */
    int32_t *own;           /* [num_experts] the expert's slot on the last rank looked at that holds it */
};

size_t eplb_placement_diff_scratch(const struct eplb_shape *shape)
{
    return (size_t)shape->num_slots * sizeof(struct holder) +
           (2 * (size_t)shape->num_experts + 1 + (size_t)shape->ep_size) * sizeof(int32_t);
}

static struct sources list_sources(const struct eplb_shape *shape, const int32_t *old_ids, void *scratch)
{
    struct sources sources = {.holders = scratch};
    sources.first = (int32_t *)(sources.holders + shape->num_slots);
    sources.sends = sources.first + shape->num_experts + 1;
    sources.own = sources.sends + shape->ep_size;
    memset(sources.sends, 0, (size_t)shape->ep_size * sizeof *sources.sends);
    memset(sources.own, -1, (size_t)shape->num_experts * sizeof *sources.own);

    eplb_placement_replicas(shape, old_ids, sources.first);
    int32_t end = 0;
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        end += sources.first[expert];
        sources.first[expert] = end;
    }
    EPLB_ASSERT(end == shape->num_slots);
    sources.first[shape->num_experts] = end;
    /* Filled from the back, each list ends up ascending, a heap while nobody sends, with `first` at its
     * start. */
    int32_t slot = shape->num_slots - 1;
    for (int32_t rank = shape->ep_size - 1; rank >= 0; rank--)
        for (int32_t i = 0; i < shape->slots_per_rank; i++, slot--)
            sources.holders[--sources.first[old_ids[slot]]] = (struct holder){.slot = slot, .rank = rank};
    EPLB_ASSERT(sources.first[0] == 0);
    return sources;
}

static bool comes_before(const struct holder *a, const struct holder *b)
{
    return a->sends != b->sends ? a->sends < b->sends : a->rank < b->rank;
}

static void sink(struct holder *heap, int32_t count)
{
    const struct holder moved = heap[0];
    int32_t hole = 0;
    for (int32_t child = 1; child < count; child = 2 * hole + 1) {
        if (child + 1 < count && comes_before(&heap[child + 1], &heap[child]))
            child++;
        if (comes_before(&moved, &heap[child]))
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = moved;
}

/** The holder with the fewest sends, ties to the lowest rank; it sends once more. */
static int32_t send(const struct sources *sources, int32_t expert)
{
    struct holder *heap = sources->holders + sources->first[expert];
    const int32_t count = sources->first[expert + 1] - sources->first[expert];
    EPLB_ASSERT(count > 0);
    while (count > 1 && heap[0].sends != sources->sends[heap[0].rank]) {
        EPLB_ASSERT(heap[0].sends < sources->sends[heap[0].rank]);
        heap[0].sends = sources->sends[heap[0].rank];
        sink(heap, count);
    }
    sources->sends[heap[0].rank]++;
    return heap[0].slot;
}

int32_t eplb_placement_diff(const struct eplb_shape *shape, const int32_t *old_ids, const int32_t *new_ids,
                            void *scratch, struct eplb_move *moves)
{
    const struct sources sources = list_sources(shape, old_ids, scratch);
    int32_t count = 0;
    for (int32_t begin = 0; begin < shape->num_slots; begin += shape->slots_per_rank) {
        const int32_t end = begin + shape->slots_per_rank;
        for (int32_t slot = begin; slot < end; slot++)
            sources.own[old_ids[slot]] = slot;
        for (int32_t slot = begin; slot < end; slot++) {
            const int32_t expert = new_ids[slot];
            EPLB_ASSERT(expert >= 0 && expert < shape->num_experts);
            if (expert == old_ids[slot])
                continue;
            const int32_t own = sources.own[expert];
            moves[count++] = own >= begin
                                 ? (struct eplb_move){slot, expert, own, EPLB_MOVE_LOCAL}
                                 : (struct eplb_move){slot, expert, send(&sources, expert), EPLB_MOVE_P2P};
        }
    }
    return count;
}
