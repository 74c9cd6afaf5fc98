/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The gate for routing that does not split evenly. Peaks are fractions, compared exactly. */
#include <stdbool.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/wide.h"
#include "eplb/policy.h"

enum { PEAK_BITS = 40, WEIGHT_BITS = 20 };

_Static_assert(EPLB_WEIGHT_UNIT == 1 << WEIGHT_BITS, "a weighted load is exact in units of a peak");

/** A peak in units of 2^-PEAK_BITS tokens, and the tokens in all that it belongs to. */
struct peak {
    eplb_u128 value;
    eplb_u128 total;
};

struct work {
    void *split;       /* eplb_best_split's */
    int32_t *replicas; /* [E] */
    int64_t *physical; /* [R][K] */
};

static void layout(struct work *work, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    work->split = eplb_arena_take(arena, 1, eplb_split_graph_size(shape));
    work->replicas = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->replicas);
    work->physical = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *work->physical);
}

size_t eplb_gate_routed_scratch(const struct eplb_shape *shape)
{
    struct work work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape);
    return arena.used;
}

static eplb_u128 sum_of(const int64_t *loads, int32_t count)
{
    eplb_u128 sum = 0;
    for (int32_t i = 0; i < count; i++) {
        EPLB_ASSERT(loads[i] >= 0);
        sum += (uint64_t)loads[i];
    }
    return sum;
}

static struct peak measured_peak(const struct eplb_shape *shape, const int64_t *physical)
{
    struct peak peak = {0};
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        eplb_u128 sum =
            sum_of(physical + (size_t)rank * (size_t)shape->slots_per_rank, shape->slots_per_rank);
        peak.total += sum;
        peak.value = sum << PEAK_BITS > peak.value ? sum << PEAK_BITS : peak.value;
    }
    return peak;
}

static eplb_u128 weighted_peak(const struct eplb_shape *shape, const int32_t *expert_ids,
                               const int32_t *weights, const int64_t *load)
{
    eplb_u128 peak = 0;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        eplb_u128 sum = 0;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
            int32_t at = rank * shape->slots_per_rank + slot;
            EPLB_ASSERT(weights[at] > 0 && weights[at] <= EPLB_WEIGHT_UNIT);
            sum += (eplb_u128)(uint64_t)load[expert_ids[at]] * (uint32_t)weights[at];
        }
        peak = sum > peak ? sum : peak;
    }
    return peak << (PEAK_BITS - WEIGHT_BITS);
}

/** `up` rounds up: a plan without gain must not look like one. */
static eplb_u128 best_peak(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load,
                           bool up, void *scratch)
{
    struct eplb_best_split split;
    eplb_best_split(shape, expert_ids, load, scratch, NULL, NULL, &split);
    EPLB_ASSERT(split.cut_size >= 1 && split.cut_load >= 0);
    eplb_u128 cut = (eplb_u128)(uint64_t)split.cut_load;
    /* Scaled loads were rounded down, each by less than one. */
    if (up && split.scale > 0)
        cut += (uint32_t)shape->num_experts;
    uint32_t ranks = (uint32_t)split.cut_size;
    return ((cut << PEAK_BITS << split.scale) + (up ? ranks - 1 : 0)) / ranks;
}

static double tokens(eplb_u128 peak)
{
    return (double)peak / (double)((eplb_u128)1 << PEAK_BITS);
}

/** A peak under the logical load as it would be in a window of `total`. */
static double scaled(eplb_u128 peak, eplb_u128 logical_total, eplb_u128 total)
{
    return logical_total == 0 ? 0 : tokens(peak) * ((double)total / (double)logical_total);
}

struct eplb_benefit eplb_gate_routed(const struct eplb_shape *shape, const struct eplb_gate_routing *routing,
                                     const int32_t *active, const int32_t *candidate, const int64_t *logical,
                                     const int64_t *physical, double threshold, void *scratch)
{
    struct work work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, eplb_gate_routed_scratch(shape));
    layout(&work, &arena, shape);
    EPLB_ASSERT(!arena.overflow && threshold >= 0 && threshold <= 1);
    if (routing->routing < EPLB_ROUTING_WEIGHTED)
        return eplb_gate(shape, active, candidate, logical, physical, threshold, work.replicas);

    bool by_weights = routing->routing == EPLB_ROUTING_WEIGHTED;
    eplb_u128 logical_total = sum_of(logical, shape->num_experts);
    if (physical == NULL) {
        eplb_split_evenly(shape, active, logical, work.replicas, work.physical);
        physical = work.physical;
    }
    struct peak current = measured_peak(shape, physical);
    struct eplb_benefit benefit = {.current_peak = tokens(current.value),
                                   .sets_changed = eplb_placement_sets_differ(shape, active, candidate)};
    eplb_u128 window_total = current.total;
    if (!by_weights && logical_total > 0) {
        struct peak repaired = {best_peak(shape, active, logical, false, work.split), logical_total};
        if (eplb_product_less(repaired.value, current.total, current.value, repaired.total)) {
            benefit.current_peak = scaled(repaired.value, logical_total, window_total);
            current = repaired;
        }
    }
    eplb_u128 promised = by_weights ? weighted_peak(shape, candidate, routing->weights, logical)
                                    : best_peak(shape, candidate, logical, true, work.split);
    benefit.candidate_peak = scaled(promised, logical_total, window_total);
    if (benefit.current_peak > 0)
        benefit.improvement = (benefit.current_peak - benefit.candidate_peak) / benefit.current_peak;
    bool gains = eplb_product_less(promised, current.total, current.value, logical_total);
    benefit.publish = logical_total > 0 && benefit.sets_changed && gains && benefit.improvement > 0 &&
                      benefit.improvement >= threshold - 1e-9 * threshold;
    return benefit;
}
