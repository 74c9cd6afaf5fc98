/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Scenarios of the coming window. Each is a piece of the last window, as a sample of what one
 * stretch of traffic looks like, mixed with the history as the windows say it lasts, and a little of every
 * expert, times noise. The noise is larger than what is estimated, or a search on it would leave no margin;
 * where two slots or more are redundant on every rank a plan has room for much more of it.
 */
#include "policy/robust.h"

#include <math.h>

#include "base/assert.h"
#include "base/mix.h"

static const double share_of_all = 0.03; /* of every expert alike */
static const double noise = 0.12;
static const double ample_noise = 1.5; /* of the deviation between windows, with room */
static const double without_parts = 5.0 / 3;
static const double noise_of_one = 0.08; /* more, over the number of windows that are known */

enum { PIECES = 8 };

/** About normal, mean 0, variance 1: four uniform numbers of 16 bits of one draw. */
static double about_normal(uint64_t draw)
{
    double sum = 0;
    for (int i = 0; i < 4; i++, draw >>= 16)
        sum += (double)(draw & 0xffff);
    return (sum - 2 * 65535.0) / 37837.0; /* 65536 / sqrt(3) */
}

/** About exp(x), x > -8: enough for noise, and the same bits everywhere. */
static double about_exp(double x)
{
    EPLB_ASSERT(x > -8);
    double y = 1 + x / 8;
    y *= y;
    y *= y;
    return y * y;
}

/** A run of an eighth of the parts, or one part; returns its tokens. */
static double piece_of(const struct eplb_policy_problem *problem, uint64_t key, int32_t *first,
                       int32_t *length)
{
    int32_t count = problem->num_parts;
    EPLB_ASSERT(count >= 1 && problem->parts != NULL);
    *length = count >= PIECES ? count / PIECES : 1;
    *first = (int32_t)(eplb_mix(key, 0) % (uint64_t)(count - *length + 1));
    double tokens = 0;
    for (int32_t part = *first; part < *first + *length; part++)
        for (int32_t i = 0; i < problem->shape->num_experts; i++)
            tokens += (double)problem->parts[(size_t)part * (size_t)problem->shape->num_experts + (size_t)i];
    return tokens;
}

static double deviation_of(const struct eplb_forecast *forecast, const struct eplb_policy_problem *problem,
                           bool has_piece)
{
    bool has_room = problem->shape->redundant_experts_num > 1;
    double deviation = has_room ? ample_noise * forecast->deviation : noise;
    return (has_piece ? deviation : without_parts * deviation) + noise_of_one / forecast->windows;
}

static void draw_one(const struct eplb_forecast *forecast, const struct eplb_policy_problem *problem,
                     int32_t scenario, struct eplb_lanes *lanes)
{
    int32_t count = problem->shape->num_experts;
    uint64_t key = eplb_mix(UINT64_C(0x65706c62), (uint64_t)scenario);
    int32_t first = 0;
    int32_t length = 0;
    double tokens = problem->num_parts > 0 ? piece_of(problem, key, &first, &length) : 0;
    double deviation = deviation_of(forecast, problem, tokens > 0);
    double share_of_past = 1 - forecast->persistence - share_of_all;
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        double normal = about_normal(eplb_mix(key, (uint64_t)i + 1));
        double value = forecast->now[i];
        double factor = about_exp(deviation * normal);
        if (tokens > 0) {
            value = 0;
            for (int32_t part = first; part < first + length; part++)
                value += (double)problem->parts[(size_t)part * (size_t)count + (size_t)i];
            value /= tokens;
        } else {
            double other = about_normal(eplb_mix(key, (uint64_t)(i + count) + 1));
            value += other * sqrt(value * forecast->dispersion / forecast->tokens);
            value = value > 0 ? value : 0;
        }
        value = forecast->persistence * value + share_of_past * forecast->past[i] + share_of_all / count;
        lanes[i].at[scenario] = (float)(value * factor);
        sum += lanes[i].at[scenario];
    }
    EPLB_ASSERT(sum > 0);
    for (int32_t i = 0; i < count; i++)
        lanes[i].at[scenario] = (float)(int32_t)(lanes[i].at[scenario] * (EPLB_ROBUST_TOTAL / sum));
}

void eplb_scenarios_draw(const struct eplb_forecast *forecast, const struct eplb_policy_problem *problem,
                         struct eplb_lanes *lanes)
{
    for (int32_t scenario = 0; scenario < EPLB_ROBUST_SCENARIOS; scenario++)
        draw_one(forecast, problem, scenario, lanes);
}
