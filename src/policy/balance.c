/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/policy.h"

#include "base/assert.h"
#include "base/wide.h"

/**
 * Shares are added in units of 1 / (720720 * 2^20): 720720 is the least common multiple of 1 to 16,
 * so up to 16 replicas, and any power of two up to 2^24, divide without a rest. Other shares are
 * rounded up, and the mean down, so that no peak comes out below the mean.
 */
static const uint64_t UNIT = UINT64_C(720720) << 20;

static double from_units(eplb_u128 units)
{
    return (double)(units / UNIT) + (double)(units % UNIT) / (double)UNIT;
}

static eplb_u128 share_of(int64_t load, int32_t replicas)
{
    EPLB_ASSERT(load >= 0 && replicas >= 1);
    if (replicas == 1)
        return (eplb_u128)(uint64_t)load * UNIT;
    /* Whole tokens first: then 64 bits are enough to divide in, as replicas are fewer than 2^17. */
    const uint64_t count = (uint64_t)replicas;
    const uint64_t rest = (uint64_t)load % count;
    return (eplb_u128)((uint64_t)load / count) * UNIT + (rest * UNIT + count - 1) / count;
}

static eplb_u128 peak_of(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load,
                         const int32_t *replicas)
{
    eplb_u128 peak = 0;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        const int32_t *row = expert_ids + (size_t)rank * (size_t)shape->slots_per_rank;
        eplb_u128 sum = 0;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
            sum += share_of(load[row[slot]], replicas[row[slot]]);
        peak = sum > peak ? sum : peak;
    }
    return peak;
}

/**
 * The smallest possible largest replica, 0 where it cannot exceed the mean. Without redundant slots no
 * expert is split. With them there are at least num_experts + ep_size slots, and load / mean replicas,
 * rounded up, are at most ep_size of each expert and fewer than that in all.
 */
static int64_t largest_unsplit(const struct eplb_shape *shape, const int64_t *load)
{
    int64_t largest = 0;
    if (shape->redundant_experts_num > 0)
        return 0;
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        largest = load[expert] > largest ? load[expert] : largest;
    return largest;
}

struct eplb_balance eplb_balance_of(const struct eplb_shape *shape, const int32_t *expert_ids,
                                    const int64_t *load, int32_t *scratch)
{
    eplb_u128 total = 0;
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        total += (uint64_t)load[expert];
    struct eplb_balance balance = {.mean = from_units(total * UNIT / (uint32_t)shape->ep_size)};

    eplb_placement_replicas(shape, expert_ids, scratch);
    balance.peak = from_units(peak_of(shape, expert_ids, load, scratch));
    double replica = (double)largest_unsplit(shape, load);
    balance.lower_bound = replica > balance.mean ? replica : balance.mean;
    return balance;
}

void eplb_split_evenly(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load,
                       int32_t *scratch, int64_t *physical)
{
    eplb_placement_replicas(shape, expert_ids, scratch);
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        EPLB_ASSERT(scratch[expert_ids[slot]] > 0);
        physical[slot] = load[expert_ids[slot]] / scratch[expert_ids[slot]];
    }
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        scratch[expert] = (int32_t)(load[expert] % scratch[expert]);
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int32_t *left = &scratch[expert_ids[slot]];
        physical[slot] += *left > 0;
        *left -= *left > 0;
    }
}
