/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A flow of the shared experts' loads to the ranks, and what lowers its largest rank. graph->load holds
 * the rank loads and graph->flow what each arc carries of them, in units of the caller's choice.
 */
#ifndef ROUTING_FLOW_H
#define ROUTING_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "routing/graph.h"

/** Largest rank load. */
int64_t eplb_flow_peak(const struct eplb_split_graph *graph);

/**
 * One pass over the shared experts: evens out the two ranks of each pair of neighbouring arcs as far as
 * the arcs allow. It never raises the peak.
 *
 * @param least what an arc keeps at least, [num_arcs]; NULL: 0
 */
void eplb_flow_even_out(struct eplb_split_graph *graph, const int64_t *least);

/**
 * Moves load along the arcs until no rank is above the level, or a set of ranks proves that this cannot be.
 *
 * @param rotation which of equals comes first
 * @return true: no rank is above the level. false: no more can be moved out of the ranks r with
 *         graph->distance[r] < 0, which hold more than the level on average
 */
bool eplb_flow_fit(struct eplb_split_graph *graph, int64_t level, uint32_t rotation);

#endif
