/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/placement.h"

#include "base/assert.h"

/**
 * The map itself serves as the work space: first it holds the replica counts, then, as the
 * negative number -1 - k, how many replicas to pass over before the one that is taken.
 */
void eplb_log2phy(const struct eplb_shape *shape, const int32_t *expert_ids, int32_t ep_rank,
                  int32_t moe_tp_rank, int32_t *log2phy)
{
    EPLB_ASSERT(ep_rank >= 0 && ep_rank < shape->ep_size);
    EPLB_ASSERT(moe_tp_rank >= 0);
    eplb_placement_replicas(shape, expert_ids, log2phy);
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        EPLB_ASSERT(log2phy[expert] > 0);
        log2phy[expert] = -1 - (int32_t)(((int64_t)ep_rank + moe_tp_rank) % log2phy[expert]);
    }
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int32_t *entry = &log2phy[expert_ids[slot]];
        if (*entry == -1)
            *entry = slot;
        else if (*entry < -1)
            ++*entry;
    }
}
