/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "manager/shift.h"

#include <string.h>

#include "base/assert.h"

/* Before anything is learned the dispersion is so much, with the weight of so many neighbours; of more than
 * the most, the old ones fade. A neighbour that differs so many times more than they did before is not of
 * their kind, and teaches no more than that. */
enum { PRIOR = 2, PRIOR_WEIGHT = 4, MOST_LEARNED = 64, MOST_AT_ONCE = 3 };

static size_t experts_at(const struct eplb_shift *shift, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < shift->shape.num_layers);
    return (size_t)layer * (size_t)shift->shape.num_experts;
}

void eplb_shift_layout(struct eplb_arena *arena, const struct eplb_shape *shape, struct eplb_shift *shift)
{
    size_t layers = (size_t)shape->num_layers;
    size_t experts = layers * (size_t)shape->num_experts;
    shift->promise = eplb_arena_take(arena, experts, sizeof *shift->promise);
    shift->promised = eplb_arena_take(arena, layers, sizeof *shift->promised);
    shift->load = eplb_arena_take(arena, experts, sizeof *shift->load);
    shift->slots = eplb_arena_take(arena, layers * (size_t)shape->num_slots, sizeof *shift->slots);
    shift->versions = eplb_arena_take(arena, layers, sizeof *shift->versions);
    shift->block = eplb_arena_take(arena, experts, sizeof *shift->block);
    shift->before = eplb_arena_take(arena, experts, sizeof *shift->before);
    shift->dispersion = eplb_arena_take(arena, layers, sizeof *shift->dispersion);
    shift->score = eplb_arena_take(arena, layers, sizeof *shift->score);
    shift->measured = eplb_arena_take(arena, layers, sizeof *shift->measured);
    shift->departed = eplb_arena_take(arena, layers, sizeof *shift->departed);
}

void eplb_shift_start(struct eplb_shift *shift, const struct eplb_shape *shape, double trigger,
                      double improvement)
{
    EPLB_ASSERT(trigger > 0 && improvement >= 0 && improvement <= 1);
    shift->shape = *shape;
    shift->trigger = trigger;
    shift->improvement = improvement;
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        shift->dispersion[layer] = PRIOR;
}

bool eplb_shift_is_block(const struct eplb_shift *shift, uint64_t samples, int64_t rows)
{
    EPLB_ASSERT(rows >= 0);
    return samples >= EPLB_SHIFT_SAMPLES &&
           rows / shift->shape.num_layers >= (int64_t)EPLB_SHIFT_ROWS * shift->shape.num_experts;
}

void eplb_shift_promise(struct eplb_shift *shift, int32_t layer, const int64_t *load, double balance)
{
    EPLB_ASSERT(balance >= 0);
    memcpy(shift->promise + experts_at(shift, layer), load, (size_t)shift->shape.num_experts * sizeof *load);
    shift->promised[layer] = balance;
}

void eplb_shift_begin(struct eplb_shift *shift, const struct eplb_shift_counts *counts)
{
    size_t layers = (size_t)shift->shape.num_layers;
    memcpy(shift->load, counts->load, layers * (size_t)shift->shape.num_experts * sizeof *shift->load);
    memcpy(shift->slots, counts->slots, layers * (size_t)shift->shape.num_slots * sizeof *shift->slots);
    memcpy(shift->versions, counts->versions, layers * sizeof *shift->versions);
}

/* Sums are doubles: exact below 2^53, and beyond that a last digit decides nothing. */
static double sum_of(const int64_t *counts, int32_t length)
{
    double sum = 0;
    for (int32_t i = 0; i < length; i++) {
        EPLB_ASSERT(counts[i] >= 0);
        sum += (double)counts[i];
    }
    return sum;
}

struct distance {
    double mean_square; /* 1 on average when both are samples of independent tokens of one kind */
    int32_t freedom;    /* degrees of it; 0: nothing can be said */
};

static struct distance distance_of(const int64_t *x, const int64_t *y, int32_t num_experts)
{
    double n = sum_of(x, num_experts);
    double m = sum_of(y, num_experts);
    if (n <= 0 || m <= 0)
        return (struct distance){0};
    double sum = 0;
    int32_t loaded = 0;
    for (int32_t e = 0; e < num_experts; e++) {
        double both = (double)x[e] + (double)y[e];
        if (both <= 0)
            continue;
        double apart = (double)x[e] / n - (double)y[e] / m;
        /* p (1/n + 1/m) with p = both / (n + m) */
        sum += apart * apart * n * m / both;
        loaded++;
    }
    int32_t freedom = loaded - 1;
    if (freedom < 1)
        return (struct distance){0};
    double most = (double)EPLB_SHIFT_ROWS * num_experts;
    double counted = n < most ? n : most;
    return (struct distance){sum * (1 / n + 1 / m) / (1 / counted + 1 / m) / freedom, freedom};
}

/** Newton's method from above, until it falls no more. */
static double root(double value)
{
    EPLB_ASSERT(value >= 0);
    double above = value > 1 ? value : 1;
    for (;;) {
        double next = (above + value / above) / 2;
        if (!(next < above))
            return above;
        above = next;
    }
}

/** The z at which the quantile of chi-square by its degrees, 1 + z s + (z^2 - 1) s^2 / 3, is the ratio. */
static double deviations(double ratio, int32_t freedom)
{
    EPLB_ASSERT(freedom >= 1);
    double s = root(2.0 / freedom);
    double a = s * s / 3;
    double c = 1 - a - ratio;
    double below = s * s - 4 * a * c;
    return below <= 0 ? -s / (2 * a) : (root(below) - s) / (2 * a);
}

static double ratio_at(double z, int32_t freedom)
{
    double s = root(2.0 / freedom);
    return 1 + z * s + (z * z - 1) * s * s / 3;
}

static void learn(struct eplb_shift *shift, int32_t layer)
{
    size_t row = experts_at(shift, layer);
    struct distance step = distance_of(shift->block + row, shift->before + row, shift->shape.num_experts);
    if (step.freedom == 0)
        return;
    double *dispersion = &shift->dispersion[layer];
    double most = MOST_AT_ONCE * *dispersion;
    double seen = step.mean_square < most ? step.mean_square : most;
    *dispersion += (seen - *dispersion) / (PRIOR_WEIGHT + shift->learned + 1);
    EPLB_ASSERT(*dispersion >= 0);
}

/** Largest by mean rank load of the block, of its part under the newest weights; 0: it had no load. */
static double balance_of(const struct eplb_shift *shift, int32_t layer,
                         const struct eplb_shift_counts *counts)
{
    const struct eplb_shape *shape = &shift->shape;
    size_t row = (size_t)layer * (size_t)shape->num_slots;
    bool restarted = counts->versions[layer] != shift->versions[layer];
    double peak = 0;
    double total = 0;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        double load = 0;
        for (int32_t i = 0; i < shape->slots_per_rank; i++, row++)
            load += (double)(counts->slots[row] - (restarted ? 0 : shift->slots[row]));
        EPLB_ASSERT(load >= 0);
        peak = load > peak ? load : peak;
        total += load;
    }
    return total > 0 ? peak * shape->ep_size / total : 0;
}

/** Judges a layer. Returns its ratio by the one that the trigger asks for; 0: it was not judged. */
static double judge(struct eplb_shift *shift, int32_t layer)
{
    size_t row = experts_at(shift, layer);
    shift->score[layer] = 0;
    shift->departed[layer] = 0;
    struct distance found = distance_of(shift->block + row, shift->promise + row, shift->shape.num_experts);
    if (found.freedom == 0 || shift->promised[layer] <= 0 || shift->measured[layer] <= 0)
        return 0;
    double dispersion = shift->dispersion[layer] > 1 ? shift->dispersion[layer] : 1;
    double ratio = found.mean_square / dispersion;
    double asked = ratio_at(shift->trigger, found.freedom);
    shift->score[layer] = deviations(ratio, found.freedom);
    shift->departed[layer] =
        ratio >= asked && shift->measured[layer] * (1 - shift->improvement) > shift->promised[layer];
    return ratio / asked;
}

struct eplb_shift_verdict eplb_shift_end(struct eplb_shift *shift, const struct eplb_shift_counts *counts)
{
    struct eplb_shift_verdict verdict = {.worst = EPLB_SHIFT_NONE};
    bool strong = false;
    size_t all = (size_t)shift->shape.num_layers * (size_t)shift->shape.num_experts;
    for (size_t i = 0; i < all; i++)
        shift->block[i] = counts->load[i] - shift->load[i];
    for (int32_t layer = 0; layer < shift->shape.num_layers; layer++) {
        shift->measured[layer] = balance_of(shift, layer, counts);
        double times = judge(shift, layer);
        if (shift->has_before)
            learn(shift, layer);
        if (times <= 0)
            continue;
        verdict.judged++;
        verdict.departed += shift->departed[layer];
        strong = strong || (shift->departed[layer] && times >= EPLB_SHIFT_STRONG);
        if (shift->departed[layer] &&
            (verdict.worst == EPLB_SHIFT_NONE || shift->score[layer] > shift->score[verdict.worst]))
            verdict.worst = layer;
    }
    shift->learned += shift->has_before && shift->learned < MOST_LEARNED;
    shift->has_before = true;
    memcpy(shift->before, shift->block, all * sizeof *shift->block);
    verdict.shifted = strong || (verdict.departed > 0 && 2 * verdict.departed >= verdict.judged);
    return verdict;
}
