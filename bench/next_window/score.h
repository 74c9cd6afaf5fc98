/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * How balanced one layer's placement is on the traffic after it, under every routing.
 */
#ifndef NEXT_WINDOW_SCORE_H
#define NEXT_WINDOW_SCORE_H

#include <stdint.h>

#include "eplb/placement.h"
#include "eplb/routing.h"
#include "next_window/traffic.h"

/** The routings that a recording can tell of; local needs nodes. */
enum { NUM_SCORED_ROUTINGS = 4 };
extern const enum eplb_replica_routing scored_routings[NUM_SCORED_ROUTINGS];

/** Peak / mean of one layer and window; NaN where the recording has no forwards. */
struct score {
    double same_window; /* on the window that was planned from */
    double next_window;
    double next_step; /* mean over the forwards of the next window, whole tokens */
};

/** Room to score layers of one shape in. */
struct scorer {
    const struct traffic *traffic;
    struct eplb_shape shape;
    struct eplb_split_graph *graph;
    void *graph_memory;
    const int32_t *placement; /* [num_slots] scored last */
    int32_t *replicas;        /* [num_experts] */
    int32_t *adapted;         /* [num_slots] weights that follow the load */
    int32_t *maps;            /* [ep_size][num_experts] static choice */
    int32_t *counts;          /* [ep_size][num_experts] */
    int64_t *tokens;          /* [num_slots] */
    int64_t *load;            /* [num_experts] */
    int64_t *recent;          /* [num_experts] decayed, in units of 1 / 1024 token */
    double *rank_sums;        /* [ep_size] of a forward */
    double *window_sums;      /* [ep_size] of a window */
};

void scorer_init(struct scorer *scorer, const struct traffic *traffic, const struct eplb_shape *shape);
void scorer_free(struct scorer *scorer);

/**
 * Scores a placement with the weights of its window on that window and the next.
 *
 * @param scores receives [NUM_SCORED_ROUTINGS]
 */
void scorer_score(struct scorer *scorer, int32_t layer, int32_t window, const int32_t *expert_ids,
                  const int32_t *weights, struct score *scores);

/** The flow optimum of a window on the placement scored last: what no routing can be below. */
double scorer_flow(struct scorer *scorer, int32_t layer, int32_t window);

/**
 * What chance leaves: mean peak / mean of draws of as many rows with the window's own rates, split by the
 * weights that are best for those rates. No rule that has not seen the window can expect less.
 */
double scorer_floor(struct scorer *scorer, int32_t layer, int32_t window, int32_t num_draws);

#endif
