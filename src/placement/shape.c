/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/placement.h"

#include <inttypes.h>

#include "base/error.h"

static enum eplb_status check_ranges(int64_t num_layers, int64_t num_experts, int64_t ep_size,
                                     int64_t redundant_experts_num, struct eplb_error *error)
{
    if (num_layers < 1 || num_layers > EPLB_MAX_LAYERS)
        EPLB_FAIL(EPLB_INVALID, "num_layers is %" PRId64 "; allowed is 1 to %d", num_layers, EPLB_MAX_LAYERS);
    if (num_experts < 1 || num_experts > EPLB_MAX_EXPERTS)
        EPLB_FAIL(EPLB_INVALID, "num_experts is %" PRId64 "; allowed is 1 to %d", num_experts,
                  EPLB_MAX_EXPERTS);
    if (ep_size < 1 || ep_size > EPLB_MAX_RANKS)
        EPLB_FAIL(EPLB_INVALID, "ep_size is %" PRId64 "; allowed is 1 to %d", ep_size, EPLB_MAX_RANKS);
    if (redundant_experts_num < 0)
        EPLB_FAIL(EPLB_INVALID,
                  "redundant_experts_num is %" PRId64
                  "; it counts extra slots per rank and must be 0 or more",
                  redundant_experts_num);
    return EPLB_OK;
}

enum eplb_status eplb_shape_init(struct eplb_shape *shape, int64_t num_layers, int64_t num_experts,
                                 int64_t ep_size, int64_t redundant_experts_num, struct eplb_error *error)
{
    EPLB_TRY(check_ranges(num_layers, num_experts, ep_size, redundant_experts_num, error));
    if (num_experts % ep_size != 0)
        EPLB_FAIL(EPLB_INVALID,
                  "num_experts %" PRId64 " is not divisible by ep_size %" PRId64
                  ": every rank must own the same number of experts",
                  num_experts, ep_size);
    int64_t owned = num_experts / ep_size;
    if (redundant_experts_num > num_experts - owned)
        EPLB_FAIL(EPLB_INVALID,
                  "redundant_experts_num %" PRId64 " gives a rank %" PRId64 " + %" PRId64
                  " slots for %" PRId64
                  " experts, so it would hold one twice; the largest allowed is %" PRId64,
                  redundant_experts_num, owned, redundant_experts_num, num_experts, num_experts - owned);
    int64_t slots_per_rank = owned + redundant_experts_num;
    if (slots_per_rank > EPLB_MAX_SLOTS / ep_size)
        EPLB_FAIL(EPLB_INVALID,
                  "ep_size %" PRId64 " x %" PRId64 " slots per rank is more than %d slots in a layer",
                  ep_size, slots_per_rank, EPLB_MAX_SLOTS);
    *shape = (struct eplb_shape){.num_layers = (int32_t)num_layers,
                                 .num_experts = (int32_t)num_experts,
                                 .ep_size = (int32_t)ep_size,
                                 .redundant_experts_num = (int32_t)redundant_experts_num,
                                 .slots_per_rank = (int32_t)slots_per_rank,
                                 .num_slots = (int32_t)(ep_size * slots_per_rank)};
    return EPLB_OK;
}
