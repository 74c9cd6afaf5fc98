/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The gate, for every way of routing. Peaks are fractions, compared exactly. */
#include "eplb/policy.h"

#include <stdbool.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/wide.h"
#include "placement/weighted.h"

enum { PEAK_BITS = 40, WEIGHT_BITS = 20 };

_Static_assert(EPLB_WEIGHT_UNIT == 1 << WEIGHT_BITS, "a weighted load is exact in units of a peak");

enum rounding { ROUND_DOWN, ROUND_UP };

/** A peak in units of 2^-PEAK_BITS tokens, and the tokens in all that it belongs to. */
struct peak {
    eplb_u128 value;
    eplb_u128 total;
};

struct work {
    void *split;       /* eplb_best_split's */
    int32_t *replicas; /* [E] */
};

static void layout(struct work *work, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    work->split = eplb_arena_take(arena, 1, eplb_split_graph_size(shape));
    work->replicas = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *work->replicas);
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

/** Largest rank sum of the best split; rounded as that of the even one. */
static eplb_u128 best_peak(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load,
                           enum rounding rounding, void *scratch)
{
    const bool up = rounding == ROUND_UP;
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

/* ------------------------------------------------------------------------------------ verdicts */

/** Two peaks: of what runs, in the window that was measured, and of the candidate, under the logical load. */
struct question {
    int sets_changed;
    struct peak current;
    struct peak promised;
    eplb_u128 window_total;
    double threshold;
};

/** A peak in tokens, as it would be in a window of `total`. */
static double scaled(struct peak peak, eplb_u128 total)
{
    const double tokens = (double)peak.value / (double)((eplb_u128)1 << PEAK_BITS);
    return peak.total == 0 ? 0 : tokens * ((double)total / (double)peak.total);
}

static struct eplb_benefit answer(const struct question *question)
{
    const struct peak *current = &question->current;
    const struct peak *promised = &question->promised;
    struct eplb_benefit benefit = {.current_peak = scaled(*current, question->window_total),
                                   .candidate_peak = scaled(*promised, question->window_total),
                                   .sets_changed = question->sets_changed};
    if (current->value > 0)
        benefit.improvement = (benefit.current_peak - benefit.candidate_peak) / benefit.current_peak;
    /* The doubles above may round a gain of zero up to a tiny one: whether there is any is exact. */
    bool gains = eplb_product_less(promised->value, current->total, current->value, promised->total);
    benefit.publish = promised->total > 0 && benefit.sets_changed && gains && benefit.improvement > 0 &&
                      benefit.improvement >= question->threshold - 1e-9 * question->threshold;
    return benefit;
}

/** What was measured of the active placement; without a measurement its even split. */
static struct question ask(const struct eplb_shape *shape, const int32_t *active, const int32_t *candidate,
                           const int64_t *logical, const int64_t *physical, double threshold,
                           int32_t *replicas)
{
    EPLB_ASSERT(threshold >= 0 && threshold <= 1);
    EPLB_ASSERT(shape->num_slots == shape->ep_size * shape->slots_per_rank);
    struct question question = {.sets_changed = eplb_placement_sets_differ(shape, active, candidate),
                                .promised = {.total = sum_of(logical, shape->num_experts)},
                                .threshold = threshold};
    if (physical != NULL)
        question.current = measured_peak(shape, physical);
    else
        question.current = (struct peak){even_split_peak(shape, active, logical, ROUND_DOWN, replicas),
                                         question.promised.total};
    question.window_total = question.current.total;
    return question;
}

struct eplb_benefit eplb_gate(const struct eplb_shape *shape, const int32_t *active, const int32_t *candidate,
                              const int64_t *logical, const int64_t *physical, double threshold,
                              int32_t *scratch)
{
    struct question question = ask(shape, active, candidate, logical, physical, threshold, scratch);
    question.promised.value = even_split_peak(shape, candidate, logical, ROUND_UP, scratch);
    return answer(&question);
}

struct eplb_benefit eplb_gate_routed(const struct eplb_shape *shape, const struct eplb_gate_routing *routing,
                                     const int32_t *active, const int32_t *candidate, const int64_t *logical,
                                     const int64_t *physical, double threshold, void *scratch)
{
    struct work work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, eplb_gate_routed_scratch(shape));
    layout(&work, &arena, shape);
    EPLB_ASSERT(!arena.overflow);
    if (routing->routing < EPLB_ROUTING_WEIGHTED)
        return eplb_gate(shape, active, candidate, logical, physical, threshold, work.replicas);

    struct question question = ask(shape, active, candidate, logical, physical, threshold, work.replicas);
    if (routing->routing == EPLB_ROUTING_WEIGHTED) {
        question.promised.value = eplb_weighted_peak(shape, candidate, routing->weights, logical)
                                  << (PEAK_BITS - WEIGHT_BITS);
        return answer(&question);
    }
    question.promised.value = best_peak(shape, candidate, logical, ROUND_UP, work.split);
    /* What new weights repair is not migrated. */
    const struct peak repaired = {best_peak(shape, active, logical, ROUND_DOWN, work.split),
                                  question.promised.total};
    const struct peak *current = &question.current;
    if (repaired.total > 0 &&
        eplb_product_less(repaired.value, current->total, current->value, repaired.total))
        question.current = repaired;
    return answer(&question);
}
