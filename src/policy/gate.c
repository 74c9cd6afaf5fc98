/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/policy.h"

#include "base/assert.h"
#include "base/wide.h"

static eplb_u128 rank_sum(const int64_t *physical, int32_t slots_per_rank)
{
    eplb_u128 sum = 0;
    for (int32_t slot = 0; slot < slots_per_rank; slot++) {
        EPLB_ASSERT(physical[slot] >= 0);
        sum += (uint64_t)physical[slot];
    }
    return sum;
}

enum rounding { ROUND_DOWN, ROUND_UP };

struct measured {
    double peak;
    double total;
};

static struct measured measure(const struct eplb_shape *shape, const int64_t *physical)
{
    eplb_u128 peak = 0;
    eplb_u128 total = 0;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        eplb_u128 sum =
            rank_sum(physical + (size_t)rank * (size_t)shape->slots_per_rank, shape->slots_per_rank);
        total += sum;
        peak = sum > peak ? sum : peak;
    }
    return (struct measured){.peak = (double)peak, .total = (double)total};
}

/**
 * Largest rank sum of the even split. Shares count in units of 2^-40, a candidate's rounded up, the
 * current placement's down, so that a plan without gain never looks like a small one.
 */
static double even_split_peak(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load,
                              enum rounding rounding, int32_t *replicas)
{
    eplb_placement_replicas(shape, expert_ids, replicas);
    eplb_u128 peak = 0;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        const int32_t *row = expert_ids + (size_t)rank * (size_t)shape->slots_per_rank;
        eplb_u128 sum = 0;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
            uint32_t count = (uint32_t)replicas[row[slot]];
            EPLB_ASSERT(count >= 1);
            uint32_t up = rounding == ROUND_UP ? count - 1 : 0;
            sum += (((eplb_u128)(uint64_t)load[row[slot]] << 40) + up) / count;
        }
        peak = sum > peak ? sum : peak;
    }
    return (double)peak / 0x1p40;
}

static eplb_u128 total_of(const int64_t *load, int32_t num_experts)
{
    eplb_u128 total = 0;
    for (int32_t expert = 0; expert < num_experts; expert++) {
        EPLB_ASSERT(load[expert] >= 0);
        total += (uint64_t)load[expert];
    }
    return total;
}

struct eplb_benefit eplb_gate(const struct eplb_shape *shape, const int32_t *active, const int32_t *candidate,
                              const int64_t *logical, const int64_t *physical, double threshold,
                              int32_t *scratch)
{
    EPLB_ASSERT(threshold >= 0 && threshold <= 1);
    EPLB_ASSERT(shape->num_slots == shape->ep_size * shape->slots_per_rank);
    struct eplb_benefit benefit = {0};
    double logical_total = (double)total_of(logical, shape->num_experts);
    struct measured measured;
    if (physical == NULL)
        measured = (struct measured){.peak = even_split_peak(shape, active, logical, ROUND_DOWN, scratch),
                                     .total = logical_total};
    else
        measured = measure(shape, physical);
    benefit.current_peak = measured.peak;
    benefit.sets_changed = eplb_placement_sets_differ(shape, active, candidate);
    if (logical_total > 0)
        benefit.candidate_peak =
            even_split_peak(shape, candidate, logical, ROUND_UP, scratch) * (measured.total / logical_total);
    if (measured.peak > 0)
        benefit.improvement = (benefit.current_peak - benefit.candidate_peak) / benefit.current_peak;
    benefit.publish = logical_total > 0 && benefit.sets_changed && benefit.improvement > 0 &&
                      benefit.improvement >= threshold - 1e-9 * threshold;
    return benefit;
}
