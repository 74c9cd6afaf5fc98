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
static const double decay = 0.8; /* of a window's part for every window after it */
/* What is assumed where the windows do not tell, and as how many windows that counts where they do. */
static const double usual_dispersion = 3;
static const double usual_deviation = 0.15;
static const double usual_persistence = 0.6;
static const double usual_deviation_counts = 2;
static const double most_deviation = 0.4; /* windows of few tokens say nothing */
static const double usual_persistence_counts = 1;
/* A window has enough tokens with so many for each expert; with fewer, beside those of the largest. */
static const double enough_per_expert = 16;
static const double enough_of_most = 1.0 / 8;
static const double least_persistence = 0.1;
static const double most_persistence = 0.9;

void eplb_forecast_layout(struct eplb_forecast *forecast, struct eplb_arena *arena,
                          const struct eplb_shape *shape)
{
    size_t num_experts = (size_t)shape->num_experts;
    forecast->now = eplb_arena_take(arena, num_experts, sizeof *forecast->now);
    forecast->past = eplb_arena_take(arena, num_experts, sizeof *forecast->past);
    forecast->mean = eplb_arena_take(arena, num_experts, sizeof *forecast->mean);
    forecast->last = eplb_arena_take(arena, num_experts, sizeof *forecast->last);
    forecast->older = eplb_arena_take(arena, num_experts, sizeof *forecast->older);
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
    double deviation;  /* mean square of an expert's relative difference, less that of Poisson counts */
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
        if (rate > 0)
            distance.deviation += (difference * difference - variance) / rate;
    }
    if (distance.deviation < 0)
        distance.deviation = 0;
    distance.dispersion = squares / expected;
    distance.chance = 0.4 * chance; /* half of the mean size of a normal number, sqrt(2 / pi) */
    return distance;
}

/** Drift and chance are independent, so their squares add up; chance is taken twice. */
static bool is_shift(struct distance distance)
{
    return distance.variation * distance.variation > drift * drift + 4 * distance.chance * distance.chance;
}

/** The window `back` steps before the last one. */
static const int64_t *window_at(const struct eplb_policy_problem *problem, int32_t back)
{
    EPLB_ASSERT(back >= 0 && back <= problem->num_history);
    if (back == 0)
        return problem->load;
    return problem->history + (size_t)(problem->num_history - back) * (size_t)problem->shape->num_experts;
}

/** Whether an earlier window is left out: what a few tokens say of an expert's share is chance. */
static bool says_nothing(const struct eplb_forecast *forecast, const struct eplb_policy_problem *problem,
                         int32_t back)
{
    double total = total_of(window_at(problem, back), problem->shape->num_experts);
    return total <= 0 || (back > 0 && total < forecast->enough);
}

static double enough_for(const struct eplb_policy_problem *problem)
{
    double most = 0;
    for (int32_t back = 0; back <= problem->num_history; back++) {
        double total = total_of(window_at(problem, back), problem->shape->num_experts);
        most = total > most ? total : most;
    }
    double absolute = enough_per_expert * problem->shape->num_experts;
    double relative = enough_of_most * most;
    return absolute < relative ? absolute : relative;
}

/** What neighbouring windows are like. */
struct neighbours {
    int32_t oldest;    /* how far back the first window since the last shift is */
    int32_t pairs;     /* of the same traffic, before the shift as well */
    double deviation;  /* sum over those pairs */
    double dispersion; /* sum over the pairs since the shift */
};

static struct neighbours compare_neighbours(const struct eplb_policy_problem *problem,
                                            struct eplb_forecast *forecast)
{
    struct neighbours found = {0};
    bool shifted = false;
    int32_t newer = 0;
    forecast->windows = 1;
    for (int32_t back = 1; back <= problem->num_history; back++) {
        if (says_nothing(forecast, problem, back))
            continue;
        struct distance distance =
            distance_of(window_at(problem, newer), window_at(problem, back), problem->shape->num_experts);
        newer = back;
        if (is_shift(distance)) {
            shifted = true;
            continue;
        }
        found.deviation += distance.deviation;
        found.pairs++;
        if (shifted)
            continue;
        found.dispersion += distance.dispersion;
        found.oldest = back;
        forecast->windows++;
    }
    return found;
}

/** Sums of a regression: what the next window was, on what the last one was, both less the past. */
struct regression {
    double product;
    double square;
};

static void add_prediction(const struct eplb_forecast *forecast, const int64_t *window, int32_t count,
                           double older_weight, struct regression *sums)
{
    double total = total_of(window, count);
    for (int32_t i = 0; i < count; i++) {
        double share = (double)window[i] / total;
        double older = forecast->older[i] / older_weight;
        double rate = share + forecast->last[i] + older;
        if (rate <= 0)
            continue;
        double step = forecast->last[i] - older;
        sums->product += step * (share - older) / rate;
        sums->square += step * step / rate;
    }
}

/**
 * Goes through the windows since the last shift, oldest first: what is past for the last one, and by how much
 * each was told better by the one before it than by those before that.
 */
static void learn(struct eplb_forecast *forecast, const struct eplb_policy_problem *problem, int32_t oldest)
{
    int32_t count = problem->shape->num_experts;
    struct regression sums = {0};
    double older_weight = 0;
    int32_t seen = 0;
    for (int32_t i = 0; i < count; i++)
        forecast->older[i] = 0;
    for (int32_t back = oldest; back >= 0; back--) {
        if (says_nothing(forecast, problem, back))
            continue;
        const int64_t *window = window_at(problem, back);
        if (seen >= 2)
            add_prediction(forecast, window, count, older_weight, &sums);
        double total = total_of(window, count);
        older_weight = older_weight * decay + (seen > 0);
        for (int32_t i = 0; i < count; i++) {
            forecast->older[i] = forecast->older[i] * decay + (seen > 0 ? forecast->last[i] : 0);
            forecast->last[i] = (double)window[i] / total;
        }
        seen++;
    }
    EPLB_ASSERT(seen == forecast->windows);
    for (int32_t i = 0; i < count; i++)
        forecast->past[i] = seen > 1 ? forecast->older[i] / older_weight : forecast->now[i];
    double predictions = seen > 2 && sums.square > 0 ? seen - 2 : 0;
    double persistence = predictions > 0 ? sums.product / sums.square : 0;
    persistence = persistence < least_persistence ? least_persistence : persistence;
    persistence = persistence > most_persistence ? most_persistence : persistence;
    forecast->persistence = (predictions * persistence + usual_persistence_counts * usual_persistence) /
                            (predictions + usual_persistence_counts);
    /* A last window of few tokens says little, too, where there are others. */
    double part = forecast->tokens / forecast->enough;
    if (seen > 1 && part < 1)
        forecast->persistence *= part;
}

void eplb_forecast_make(struct eplb_forecast *forecast, const struct eplb_policy_problem *problem)
{
    int32_t count = problem->shape->num_experts;
    forecast->tokens = total_of(problem->load, count);
    EPLB_ASSERT(forecast->tokens > 0);
    EPLB_ASSERT(problem->num_history >= 0 && (problem->num_history == 0 || problem->history != NULL));
    forecast->enough = enough_for(problem);
    for (int32_t i = 0; i < count; i++)
        forecast->now[i] = (double)problem->load[i] / forecast->tokens;
    const struct neighbours found = compare_neighbours(problem, forecast);
    forecast->dispersion =
        forecast->windows > 1 ? found.dispersion / (forecast->windows - 1) : usual_dispersion;
    if (forecast->dispersion < 1)
        forecast->dispersion = 1;
    forecast->deviation =
        sqrt((found.deviation + usual_deviation_counts * usual_deviation * usual_deviation) /
             (found.pairs + usual_deviation_counts));
    if (forecast->deviation > most_deviation)
        forecast->deviation = most_deviation;
    learn(forecast, problem, found.oldest);
    for (int32_t i = 0; i < count; i++)
        forecast->mean[i] = problem->shape->ep_size * (forecast->persistence * forecast->now[i] +
                                                       (1 - forecast->persistence) * forecast->past[i]);
}
