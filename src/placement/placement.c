/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/placement.h"

#include <stdbool.h>

#include "base/error.h"
#include "placement/expert_set.h"

void eplb_placement_initial(const struct eplb_shape *shape, int32_t *expert_ids)
{
    int32_t owned = shape->num_experts / shape->ep_size;
    EPLB_ASSERT(owned + shape->redundant_experts_num == shape->slots_per_rank);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        int32_t *row = expert_ids + (size_t)rank * (size_t)shape->slots_per_rank;
        /* Owned and redundant slots are one run of neighbouring ids that wraps around at most once. */
        int32_t expert = rank * owned;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
            row[slot] = expert;
            expert = expert + 1 < shape->num_experts ? expert + 1 : 0;
        }
    }
}

/** on_rank is empty before and, when the row is legal, after: emptying it costs the row, not the experts. */
static enum eplb_status check_rank(const struct eplb_shape *shape, int32_t rank, const int32_t *row,
                                   struct eplb_expert_set *on_rank, struct eplb_expert_set *anywhere,
                                   struct eplb_error *error)
{
    for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
        int32_t expert = row[slot];
        if (expert < 0 || expert >= shape->num_experts)
            EPLB_FAIL(EPLB_INVALID, "rank %d slot %d holds expert %d; allowed is 0 to %d", rank, slot, expert,
                      shape->num_experts - 1);
        if (eplb_expert_set_has(on_rank, expert))
            EPLB_FAIL(EPLB_INVALID, "rank %d slot %d repeats expert %d; a rank may hold an expert once", rank,
                      slot, expert);
        eplb_expert_set_add(on_rank, expert);
        eplb_expert_set_add(anywhere, expert);
    }
    for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
        eplb_expert_set_drop_word(on_rank, row[slot]);
    return EPLB_OK;
}

enum eplb_status eplb_placement_check(const struct eplb_shape *shape, const int32_t *expert_ids,
                                      struct eplb_error *error)
{
    EPLB_ASSERT(shape->num_experts <= EPLB_MAX_EXPERTS);
    struct eplb_expert_set on_rank;
    struct eplb_expert_set anywhere;
    eplb_expert_set_clear(&on_rank, shape->num_experts);
    eplb_expert_set_clear(&anywhere, shape->num_experts);
    for (int32_t rank = 0; rank < shape->ep_size; rank++)
        EPLB_TRY(check_rank(shape, rank, expert_ids + (size_t)rank * (size_t)shape->slots_per_rank, &on_rank,
                            &anywhere, error));
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        if (!eplb_expert_set_has(&anywhere, expert))
            EPLB_FAIL(EPLB_INVALID, "expert %d is on no rank; every one of the %d experts needs a slot",
                      expert, shape->num_experts);
    return EPLB_OK;
}

void eplb_placement_replicas(const struct eplb_shape *shape, const int32_t *expert_ids, int32_t *replicas)
{
    memset(replicas, 0, (size_t)shape->num_experts * sizeof *replicas);
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        EPLB_ASSERT(expert_ids[slot] >= 0 && expert_ids[slot] < shape->num_experts);
        replicas[expert_ids[slot]]++;
    }
}

static uint64_t mix(uint64_t value)
{
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    return value ^ (value >> 32);
}

uint64_t eplb_placement_hash(const struct eplb_shape *shape, const int32_t *expert_ids)
{
    uint64_t hash = mix(((uint64_t)(uint32_t)shape->ep_size << 32) | (uint32_t)shape->slots_per_rank);
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        hash = mix(hash + UINT64_C(0x9e3779b97f4a7c15) + (uint32_t)expert_ids[slot]);
    return hash;
}

/** before is empty at the start and, when the sets are the same, at the end. */
static bool rank_sets_differ(const struct eplb_shape *shape, const int32_t *old_row, const int32_t *new_row,
                             struct eplb_expert_set *before)
{
    for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
        eplb_expert_set_add(before, old_row[slot]);
    /* Rows repeat no expert, so equal counts and one inclusion make equal sets. */
    for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
        if (!eplb_expert_set_has(before, new_row[slot]))
            return true;
    for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
        eplb_expert_set_drop_word(before, old_row[slot]);
    return false;
}

int eplb_placement_sets_differ(const struct eplb_shape *shape, const int32_t *old_ids, const int32_t *new_ids)
{
    struct eplb_expert_set before;
    eplb_expert_set_clear(&before, shape->num_experts);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        size_t row = (size_t)rank * (size_t)shape->slots_per_rank;
        if (rank_sets_differ(shape, old_ids + row, new_ids + row, &before))
            return 1;
    }
    return 0;
}
