/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What the windows say about the next one. History counts back to the last shift: the last pair of
 * neighbouring windows that are further apart than the traffic's own drift and chance explain.
 */
#include "policy/robust.h"

#include <math.h>

#include "base/assert.h"

/* Neighbouring windows of the same traffic were at most 0.175 apart, at shifts 0.37 and more. */
static const double drift = 0.22;
static const double decay = 0.8;       /* of a window's part for every window after it */
static const double part_of_now = 0.7; /* of the last window, where there are others */
/* Where no two windows tell it: a count's variance over that of a Poisson one. */
static const double usual_dispersion = 3;

void eplb_forecast_layout(struct eplb_forecast *forecast, struct eplb_arena *arena,
                          const struct eplb_shape *shape)
{
    size_t num_experts = (size_t)shape->num_experts;
    forecast->now = eplb_arena_take(arena, num_experts, sizeof *forecast->now);
    forecast->past = eplb_arena_take(arena, num_experts, sizeof *forecast->past);
    forecast->mean = eplb_arena_take(arena, num_experts, sizeof *forecast->mean);
}

static double total_of(const int64_t *load, int32_t count)
{
    double total = 0;
    for (int32_t i = 0; i < count; i++)
        total += (double)load[i];
    return total;
}

/** How far apart two windows are, and what the same rates would give on average. */
struct distance {
    double variation;  /* total variation */
    double chance;     /* its mean for Poisson counts of the same rates */
    double dispersion; /* squared differences over what Poisson counts would give */
};

static struct distance distance_of(const int64_t *a, const int64_t *b, int32_t count)
{
    struct distance distance = {0};
    EPLB_ASSERT(count >= 1);
    double a_total = total_of(a, count);
    double b_total = total_of(b, count);
    EPLB_ASSERT(a_total > 0 && b_total > 0);
    double squares = 0;
    double expected = 0;
    double chance = 0;
    for (int32_t i = 0; i < count; i++) {
        double difference = (double)a[i] / a_total - (double)b[i] / b_total;
        double rate = ((double)a[i] + (double)b[i]) / (a_total + b_total);
        double variance = rate * (1 / a_total + 1 / b_total);
        distance.variation += 0.5 * (difference < 0 ? -difference : difference);
        squares += difference * difference;
        expected += variance;
        chance += sqrt(variance);
    }
    distance.dispersion = squares / expected;
    distance.chance = 0.4 * chance; /* half of the mean size of a normal number, sqrt(2 / pi) */
    return distance;
}

/** Drift and chance are independent, so their squares add up; chance is taken twice. */
static bool is_shift(struct distance distance)
{
    return distance.variation * distance.variation > drift * drift + 4 * distance.chance * distance.chance;
}

static void add_past(struct eplb_forecast *forecast, const int64_t *window, int32_t count, double weight)
{
    double total = total_of(window, count);
    EPLB_ASSERT(total > 0 && weight > 0);
    for (int32_t i = 0; i < count; i++)
        forecast->past[i] += weight * ((double)window[i] / total);
}

void eplb_forecast_make(struct eplb_forecast *forecast, const struct eplb_policy_problem *problem)
{
    int32_t count = problem->shape->num_experts;
    const int64_t *newer = problem->load;
    double sum = 0;
    double weight = 1;
    double dispersion = 0;
    forecast->tokens = total_of(problem->load, count);
    EPLB_ASSERT(forecast->tokens > 0);
    for (int32_t i = 0; i < count; i++) {
        forecast->now[i] = (double)problem->load[i] / forecast->tokens;
        forecast->past[i] = 0;
    }
    EPLB_ASSERT(problem->num_history >= 0 && (problem->num_history == 0 || problem->history != NULL));
    forecast->windows = 1;
    for (int32_t back = problem->num_history - 1; back >= 0; back--) {
        const int64_t *older = problem->history + (size_t)back * (size_t)count;
        if (total_of(older, count) <= 0)
            continue;
        struct distance distance = distance_of(newer, older, count);
        if (is_shift(distance))
            break;
        add_past(forecast, older, count, weight);
        dispersion += distance.dispersion;
        sum += weight;
        weight *= decay;
        forecast->windows++;
        newer = older;
    }
    forecast->dispersion = forecast->windows > 1 ? dispersion / (forecast->windows - 1) : usual_dispersion;
    if (forecast->dispersion < 1)
        forecast->dispersion = 1;
    double now_weight = forecast->windows > 1 ? part_of_now : 1;
    for (int32_t i = 0; i < count; i++) {
        forecast->past[i] = forecast->windows > 1 ? forecast->past[i] / sum : forecast->now[i];
        forecast->mean[i] =
            problem->shape->ep_size * (now_weight * forecast->now[i] + (1 - now_weight) * forecast->past[i]);
    }
}
