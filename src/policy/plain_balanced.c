/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The plain twin of `balanced`: loads of any size, exact in 128 bits.
 */
#include "policy/plain.h"

#include "base/arena.h"
#include "base/assert.h"
#include "policy/copies.h"
#include "policy/cyclic.h"
#include "policy/packing.h"
#include "policy/share.h"

struct balanced {
    struct eplb_packing packing;
    struct eplb_share *physical; /* [num_slots] physical experts, heaviest first once sorted */
    struct eplb_share *spare;    /* [2 * num_slots] for sorting, and for the fallback */
    int32_t *replicas;           /* [E] */
    int32_t *heap;               /* [E] while copies are chosen */
    int32_t *chosen;             /* [num_slots - E] experts of the copies, in order */
    int32_t *packed;             /* [R][K] before slots are kept */
};

static void layout(struct balanced *work, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t num_slots = (size_t)shape->num_slots;
    EPLB_ASSERT(shape->num_slots >= shape->num_experts);
    eplb_packing_layout(&work->packing, arena, shape);
    work->physical = eplb_arena_take(arena, num_slots, sizeof *work->physical);
    work->spare = eplb_arena_take(arena, 2 * num_slots, sizeof *work->spare);
    work->replicas = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->replicas);
    work->heap = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->heap);
    work->chosen = eplb_arena_take(arena, num_slots - (size_t)shape->num_experts, sizeof *work->chosen);
    work->packed = eplb_arena_take(arena, num_slots, sizeof *work->packed);
}

static size_t scratch_size(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)settings;
    struct balanced work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape);
    return arena.used;
}

/** Primaries in id order, then copies in the order chosen, sorted by replica load. */
static void list_physical(struct balanced *work, const struct eplb_shape *shape, const int64_t *load)
{
    int32_t count = 0;
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        work->physical[count++] = (struct eplb_share){load[expert], work->replicas[expert], expert};
    for (int32_t copy = 0; copy < shape->num_slots - shape->num_experts; copy++) {
        int32_t expert = work->chosen[copy];
        EPLB_ASSERT(expert >= 0 && expert < shape->num_experts);
        work->physical[count++] = (struct eplb_share){load[expert], work->replicas[expert], expert};
    }
    EPLB_ASSERT(count == shape->num_slots);
    eplb_share_sort(work->physical, (size_t)count, work->spare);
}

static bool pack(struct balanced *work, const struct eplb_shape *shape)
{
    work->packing.expert_ids = work->packed;
    eplb_packing_reset(&work->packing);
    for (int32_t i = 0; i < shape->num_slots; i++) {
        const struct eplb_share *item = &work->physical[i];
        EPLB_ASSERT(item->replicas >= 1 && item->load >= 0);
        eplb_u128 share = ((eplb_u128)(uint64_t)item->load << 20) / (uint32_t)item->replicas;
        if (!eplb_packing_add(&work->packing, item->expert, share))
            return false;
    }
    return true;
}

static int32_t find(const int32_t *row, int32_t count, int32_t expert)
{
    for (int32_t slot = 0; slot < count; slot++)
        if (row[slot] == expert)
            return slot;
    return -1;
}

/** An expert that stays on the rank keeps its slot; the others fill the free slots in order. */
static void keep_slots(const int32_t *active, const int32_t *packed, int32_t slots_per_rank, int32_t *row)
{
    for (int32_t slot = 0; slot < slots_per_rank; slot++)
        row[slot] = find(packed, slots_per_rank, active[slot]) >= 0 ? active[slot] : -1;
    int32_t next_free = 0;
    for (int32_t i = 0; i < slots_per_rank; i++) {
        if (find(active, slots_per_rank, packed[i]) >= 0)
            continue;
        while (row[next_free] >= 0)
            next_free++;
        EPLB_ASSERT(next_free < slots_per_rank);
        row[next_free] = packed[i];
    }
    EPLB_ASSERT(row[slots_per_rank - 1] >= 0); /* they fill in order, so all are */
}

static enum eplb_status plan_layer(const struct eplb_policy_problem *problem, void *scratch,
                                   struct eplb_policy_answer *answer, struct eplb_error *error)
{
    const struct eplb_shape *shape = problem->shape;
    (void)error;
    struct balanced work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, scratch_size(shape, problem->settings));
    layout(&work, &arena, shape);
    EPLB_ASSERT(!arena.overflow);

    eplb_choose_copies(shape, problem->load, work.replicas, work.heap, work.chosen);
    list_physical(&work, shape, problem->load);
    if (!pack(&work, shape))
        eplb_cyclic_place(shape, problem->load, work.replicas, work.spare, work.packed);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        size_t row = (size_t)rank * (size_t)shape->slots_per_rank;
        keep_slots(problem->active + row, work.packed + row, shape->slots_per_rank, answer->expert_ids + row);
    }
    return EPLB_OK;
}

const struct eplb_policy_ops eplb_plain_balanced = {
    .size = sizeof(struct eplb_policy_ops),
    .name = "balanced",
    .scratch_size = scratch_size,
    .plan_layer = plan_layer,
};
