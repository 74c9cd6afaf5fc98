/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Parts of the batch solver.
 */
#ifndef ROUTING_BATCH_H
#define ROUTING_BATCH_H

#include "routing/graph.h"

/** Writes to graph->load what each rank pays for the flow; graph->base holds its unshared tokens. */
void eplb_batch_charge(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem);

/** A flow with one open replica per shared expert: heaviest first, each where it costs least. */
void eplb_batch_close_all(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem);

/**
 * Lowers the largest cost, in graph->load, by closing and evening out replicas of the ranks that pay it,
 * until no single step does. Each step takes tokens from such a rank and leaves whoever receives them
 * below what it paid, so this ends. Returns the largest cost.
 */
int64_t eplb_batch_lower_cost(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem);

#endif
