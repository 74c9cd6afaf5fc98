/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/policy.h"

#include <stdbool.h>

#include "base/assert.h"
#include "base/wide.h"

static eplb_u128 sum_of(const int64_t *loads, int32_t count)
{
    eplb_u128 sum = 0;
    for (int32_t i = 0; i < count; i++) {
        EPLB_ASSERT(loads[i] >= 0);
        sum += (uint64_t)loads[i];
    }
    return sum;
}

enum { PEAK_BITS = 40 };

enum rounding { ROUND_DOWN, ROUND_UP };

/** Peaks count in units of 2^-PEAK_BITS, totals in tokens. */
struct measured {
    eplb_u128 peak;
    eplb_u128 total;
};

static struct measured measure(const struct eplb_shape *shape, const int64_t *physical)
{
    struct measured measured = {0};
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        eplb_u128 sum =
            sum_of(physical + (size_t)rank * (size_t)shape->slots_per_rank, shape->slots_per_rank);
        measured.total += sum;
        measured.peak = sum << PEAK_BITS > measured.peak ? sum << PEAK_BITS : measured.peak;
    }
    return measured;
}

/** load / replicas in units of 2^-PEAK_BITS, exactly rounded: divided in 64 bits, whole tokens first. */
static eplb_u128 even_share(int64_t load, int32_t replicas, enum rounding rounding)
{
    EPLB_ASSERT(load >= 0 && replicas >= 1);
    if (replicas == 1)
        return (eplb_u128)(uint64_t)load << PEAK_BITS;
    const uint64_t count = (uint64_t)replicas;
    const uint64_t rest = (uint64_t)load % count;
    const uint64_t up = rounding == ROUND_UP ? count - 1 : 0;
    return ((eplb_u128)((uint64_t)load / count) << PEAK_BITS) + ((rest << PEAK_BITS) + up) / count;
}

/**
 * Largest rank sum of the even split. A candidate's shares are rounded up, the current placement's
 * down, so that a plan without gain never looks like a small one.
 */
static eplb_u128 even_split_peak(const struct eplb_shape *shape, const int32_t *expert_ids,
                                 const int64_t *load, enum rounding rounding, int32_t *replicas)
{
    eplb_placement_replicas(shape, expert_ids, replicas);
    eplb_u128 peak = 0;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        const int32_t *row = expert_ids + (size_t)rank * (size_t)shape->slots_per_rank;
        eplb_u128 sum = 0;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
            sum += even_share(load[row[slot]], replicas[row[slot]], rounding);
        peak = sum > peak ? sum : peak;
    }
    return peak;
}

static double tokens(eplb_u128 peak)
{
    return (double)peak / (double)((eplb_u128)1 << PEAK_BITS);
}

struct eplb_benefit eplb_gate(const struct eplb_shape *shape, const int32_t *active, const int32_t *candidate,
                              const int64_t *logical, const int64_t *physical, double threshold,
                              int32_t *scratch)
{
    EPLB_ASSERT(threshold >= 0 && threshold <= 1);
    EPLB_ASSERT(shape->num_slots == shape->ep_size * shape->slots_per_rank);
    struct eplb_benefit benefit = {.sets_changed = eplb_placement_sets_differ(shape, active, candidate)};
    struct measured measured = {.total = sum_of(logical, shape->num_experts)};
    eplb_u128 logical_total = measured.total;
    if (physical == NULL)
        measured.peak = even_split_peak(shape, active, logical, ROUND_DOWN, scratch);
    else
        measured = measure(shape, physical);
    eplb_u128 even_peak = even_split_peak(shape, candidate, logical, ROUND_UP, scratch);

    benefit.current_peak = tokens(measured.peak);
    if (logical_total > 0)
        benefit.candidate_peak = tokens(even_peak) * ((double)measured.total / (double)logical_total);
    if (measured.peak > 0)
        benefit.improvement = (benefit.current_peak - benefit.candidate_peak) / benefit.current_peak;
    /* The doubles above may round a gain of zero up to a tiny one: whether there is any is exact. */
    bool gains = eplb_product_less(even_peak, measured.total, measured.peak, logical_total);
    benefit.publish = logical_total > 0 && benefit.sets_changed && gains && benefit.improvement > 0 &&
                      benefit.improvement >= threshold - 1e-9 * threshold;
    return benefit;
}
