/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "next_window/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "eplb/policy.h"
#include "load/recent.h"
#include "support/bench.h"

const enum eplb_replica_routing scored_routings[NUM_SCORED_ROUTINGS] = {
    EPLB_ROUTING_STATIC, EPLB_ROUTING_WEIGHTED, EPLB_ROUTING_ADAPTIVE, EPLB_ROUTING_BATCH};

/* The manager's default decay, and after how many forwards nothing is left. */
static const double default_decay = 0.97;
enum { RECENT_UNIT = 1024, REMEMBERED = 200 };

void scorer_init(struct scorer *scorer, const struct traffic *traffic, const struct eplb_shape *shape)
{
    size_t experts = (size_t)shape->num_experts;
    size_t ranks = (size_t)shape->ep_size;
    size_t slots = (size_t)shape->num_slots;
    *scorer = (struct scorer){.traffic = traffic, .shape = *shape};
    scorer->graph_memory = aligned_alloc(64, (eplb_split_graph_size(shape) + 63) / 64 * 64);
    if (scorer->graph_memory == NULL)
        eplb_bench_fail("no memory for the graph of a placement");
    scorer->replicas = eplb_bench_allocate(experts, sizeof *scorer->replicas);
    scorer->adapted = eplb_bench_allocate(slots, sizeof *scorer->adapted);
    scorer->maps = eplb_bench_allocate(ranks * experts, sizeof *scorer->maps);
    scorer->counts = eplb_bench_allocate(ranks * experts, sizeof *scorer->counts);
    scorer->tokens = eplb_bench_allocate(slots, sizeof *scorer->tokens);
    scorer->load = eplb_bench_allocate(experts, sizeof *scorer->load);
    scorer->recent = eplb_bench_allocate(experts, sizeof *scorer->recent);
    scorer->rank_sums = eplb_bench_allocate(ranks, sizeof *scorer->rank_sums);
    scorer->window_sums = eplb_bench_allocate(ranks, sizeof *scorer->window_sums);
}

void scorer_free(struct scorer *scorer)
{
    free(scorer->graph_memory);
    free(scorer->replicas);
    free(scorer->adapted);
    free(scorer->maps);
    free(scorer->counts);
    free(scorer->tokens);
    free(scorer->load);
    free(scorer->recent);
    free(scorer->rank_sums);
    free(scorer->window_sums);
}

static double peak_over_mean(const double *sums, int32_t count)
{
    double peak = 0;
    double total = 0;
    for (int32_t rank = 0; rank < count; rank++) {
        peak = sums[rank] > peak ? sums[rank] : peak;
        total += sums[rank];
    }
    return total > 0 ? peak * count / total : NAN;
}

static double by_weights(struct scorer *scorer, const int32_t *expert_ids, const int32_t *weights,
                         const int64_t *load)
{
    const struct eplb_shape *shape = &scorer->shape;
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        double *sum = &scorer->rank_sums[slot / shape->slots_per_rank];
        double share = (double)load[expert_ids[slot]] * weights[slot] / EPLB_WEIGHT_UNIT;
        *sum = slot % shape->slots_per_rank == 0 ? share : *sum + share;
    }
    return peak_over_mean(scorer->rank_sums, shape->ep_size);
}

static double evenly(struct scorer *scorer, const int32_t *expert_ids, const int64_t *load)
{
    struct eplb_balance balance = eplb_balance_of(&scorer->shape, expert_ids, load, scorer->replicas);
    return balance.mean > 0 ? balance.peak / balance.mean : NAN;
}

static double by_flow(struct scorer *scorer, const int64_t *load)
{
    struct eplb_best_split best;
    eplb_split_graph_solve(scorer->graph, load, NULL, NULL, &best);
    return best.mean > 0 ? best.peak / best.mean : NAN;
}

double scorer_flow(struct scorer *scorer, int32_t layer, int32_t window)
{
    return by_flow(scorer, traffic_load(scorer->traffic, window, layer));
}

/* ---- one forward, whole tokens ---- */

static void forward_static(struct scorer *scorer)
{
    const struct eplb_shape *shape = &scorer->shape;
    memset(scorer->rank_sums, 0, (size_t)shape->ep_size * sizeof *scorer->rank_sums);
    for (int32_t i = 0; i < shape->ep_size * shape->num_experts; i++)
        scorer->rank_sums[scorer->maps[i] / shape->slots_per_rank] += scorer->counts[i];
}

/** Every expert's tokens by the weights, whole: a replica gets those between two rounded running sums. */
static void forward_weighted(struct scorer *scorer, const int32_t *expert_ids, const int32_t *weights)
{
    const struct eplb_shape *shape = &scorer->shape;
    memset(scorer->rank_sums, 0, (size_t)shape->ep_size * sizeof *scorer->rank_sums);
    int64_t *given = scorer->tokens;
    memset(given, 0, (size_t)shape->num_experts * sizeof *given);
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int32_t expert = expert_ids[slot];
        int64_t before = given[expert];
        given[expert] += weights[slot];
        int64_t half = EPLB_WEIGHT_UNIT / 2;
        int64_t tokens = (scorer->load[expert] * given[expert] + half) / EPLB_WEIGHT_UNIT -
                         (scorer->load[expert] * before + half) / EPLB_WEIGHT_UNIT;
        scorer->rank_sums[slot / shape->slots_per_rank] += (double)tokens;
    }
}

static void forward_batch(struct scorer *scorer, int32_t forward)
{
    const struct eplb_shape *shape = &scorer->shape;
    struct eplb_batch_problem problem;
    struct eplb_batch_result result;
    eplb_batch_problem_init(&problem);
    problem.counts = scorer->counts;
    problem.table = scorer->maps;
    problem.rotation = (uint64_t)forward;
    eplb_batch_split(scorer->graph, &problem, scorer->tokens, &result);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        scorer->rank_sums[rank] = 0;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
            scorer->rank_sums[rank] += (double)scorer->tokens[rank * shape->slots_per_rank + slot];
    }
}

/** As the manager's aggregator does with a sample. */
static void remember(struct scorer *scorer, int32_t layer, int32_t forward)
{
    int64_t rows = 0;
    traffic_count(scorer->traffic, layer, forward, forward + 1, scorer->load);
    for (int32_t expert = 0; expert < scorer->shape.num_experts; expert++)
        rows += scorer->load[expert];
    int64_t kept =
        eplb_recent_kept((int32_t)(default_decay * EPLB_RECENT_ONE), rows, scorer->shape.num_experts);
    for (int32_t expert = 0; expert < scorer->shape.num_experts; expert++)
        scorer->recent[expert] =
            scorer->recent[expert] * kept / EPLB_RECENT_ONE + scorer->load[expert] * RECENT_UNIT;
}

/** Before a window, adaptive routing knows the recent load of all forwards so far. */
static void start_adapting(struct scorer *scorer, int32_t layer, int32_t window)
{
    const struct traffic *traffic = scorer->traffic;
    int32_t end = traffic->first_forward[window + 1];
    memset(scorer->recent, 0, (size_t)scorer->shape.num_experts * sizeof *scorer->recent);
    for (int32_t forward = end > REMEMBERED ? end - REMEMBERED : 0; forward < end; forward++)
        remember(scorer, layer, forward);
}

static void run_forward(struct scorer *scorer, enum eplb_replica_routing routing, int32_t layer,
                        int32_t forward, const int32_t *expert_ids, const int32_t *weights)
{
    const struct traffic *traffic = scorer->traffic;
    struct eplb_best_split best;
    if (routing == EPLB_ROUTING_STATIC || routing == EPLB_ROUTING_BATCH)
        traffic_sources(traffic, layer, forward, scorer->shape.ep_size, scorer->counts);
    switch (routing) {
    case EPLB_ROUTING_STATIC:
        forward_static(scorer);
        break;
    case EPLB_ROUTING_BATCH:
        forward_batch(scorer, forward);
        break;
    case EPLB_ROUTING_ADAPTIVE:
        eplb_split_graph_solve(scorer->graph, scorer->recent, scorer->adapted, NULL, &best);
        traffic_count(traffic, layer, forward, forward + 1, scorer->load);
        forward_weighted(scorer, expert_ids, scorer->adapted);
        remember(scorer, layer, forward);
        break;
    case EPLB_ROUTING_WEIGHTED:
    case EPLB_ROUTING_LOCAL:
        traffic_count(traffic, layer, forward, forward + 1, scorer->load);
        forward_weighted(scorer, expert_ids, weights);
        break;
    }
}

/** Runs the forwards of a window; returns the mean of their peak / mean, and leaves the window's sums. */
static double run_window(struct scorer *scorer, enum eplb_replica_routing routing, int32_t layer,
                         int32_t window, const int32_t *expert_ids, const int32_t *weights)
{
    const struct traffic *traffic = scorer->traffic;
    int32_t ranks = scorer->shape.ep_size;
    double sum = 0;
    memset(scorer->window_sums, 0, (size_t)ranks * sizeof *scorer->window_sums);
    for (int32_t forward = traffic->first_forward[window]; forward < traffic->first_forward[window + 1];
         forward++) {
        run_forward(scorer, routing, layer, forward, expert_ids, weights);
        sum += peak_over_mean(scorer->rank_sums, ranks);
        for (int32_t rank = 0; rank < ranks; rank++)
            scorer->window_sums[rank] += scorer->rank_sums[rank];
    }
    return sum / (traffic->first_forward[window + 1] - traffic->first_forward[window]);
}

/** The forwards of a window by one routing: the window's sums, and its forwards one by one. */
static void score_forwards(struct scorer *scorer, enum eplb_replica_routing routing, int32_t layer,
                           int32_t window, const int32_t *expert_ids, const int32_t *weights,
                           struct score *score)
{
    int32_t ranks = scorer->shape.ep_size;
    if (routing == EPLB_ROUTING_ADAPTIVE)
        start_adapting(scorer, layer, window);
    if (routing == EPLB_ROUTING_BATCH) {
        (void)run_window(scorer, routing, layer, window, expert_ids, weights);
        score->same_window = peak_over_mean(scorer->window_sums, ranks);
    }
    score->next_step = run_window(scorer, routing, layer, window + 1, expert_ids, weights);
    if (routing == EPLB_ROUTING_ADAPTIVE || routing == EPLB_ROUTING_BATCH)
        score->next_window = peak_over_mean(scorer->window_sums, ranks);
}

void scorer_score(struct scorer *scorer, int32_t layer, int32_t window, const int32_t *expert_ids,
                  const int32_t *weights, struct score *scores)
{
    const struct traffic *traffic = scorer->traffic;
    const int64_t *same = traffic_load(traffic, window, layer);
    const int64_t *next = traffic_load(traffic, window + 1, layer);
    scorer->placement = expert_ids;
    scorer->graph = eplb_split_graph_build(&scorer->shape, expert_ids, scorer->graph_memory);
    for (int32_t rank = 0; rank < scorer->shape.ep_size; rank++)
        eplb_log2phy(&scorer->shape, expert_ids, rank, 0,
                     scorer->maps + (size_t)rank * (size_t)scorer->shape.num_experts);
    for (int i = 0; i < NUM_SCORED_ROUTINGS; i++) {
        enum eplb_replica_routing routing = scored_routings[i];
        struct score *score = &scores[i];
        *score = (struct score){NAN, NAN, NAN};
        if (routing == EPLB_ROUTING_STATIC) {
            score->same_window = evenly(scorer, expert_ids, same);
            score->next_window = evenly(scorer, expert_ids, next);
        } else {
            score->same_window = by_flow(scorer, same);
        }
        if (routing == EPLB_ROUTING_WEIGHTED) {
            score->same_window = by_weights(scorer, expert_ids, weights, same);
            score->next_window = by_weights(scorer, expert_ids, weights, next);
        }
        if (traffic->num_forwards > 0)
            score_forwards(scorer, routing, layer, window, expert_ids, weights, score);
    }
}

/* ---- what chance leaves ---- */

/** Draws rows one by one with the chances of `rates`, whose sum is `total`. */
static void draw(struct eplb_prng *prng, const int64_t *rates, int64_t total, int32_t num_experts,
                 int64_t *cumulative, int64_t *load)
{
    int64_t sum = 0;
    for (int32_t expert = 0; expert < num_experts; expert++) {
        load[expert] = 0;
        sum += rates[expert];
        cumulative[expert] = sum;
    }
    for (int64_t row = 0; row < total; row++) {
        int64_t number = (int64_t)eplb_prng_below(prng, (uint64_t)total);
        int32_t low = 0;
        for (int32_t high = num_experts - 1; low < high;) {
            int32_t middle = (low + high) / 2;
            if (cumulative[middle] > number)
                high = middle;
            else
                low = middle + 1;
        }
        load[low]++;
    }
}

double scorer_floor(struct scorer *scorer, int32_t layer, int32_t window, int32_t num_draws)
{
    const struct eplb_shape *shape = &scorer->shape;
    const int64_t *rates = traffic_load(scorer->traffic, window, layer);
    int64_t total = 0;
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        total += rates[expert];
    struct eplb_prng prng;
    eplb_prng_seed(&prng, (uint64_t)window * 1000 + (uint64_t)layer);
    struct eplb_best_split best;
    eplb_split_graph_solve(scorer->graph, rates, scorer->adapted, NULL, &best);
    double sum = 0;
    for (int32_t i = 0; i < num_draws; i++) {
        draw(&prng, rates, total, shape->num_experts, scorer->tokens, scorer->load);
        sum += by_weights(scorer, scorer->placement, scorer->adapted, scorer->load);
    }
    return sum / num_draws;
}
