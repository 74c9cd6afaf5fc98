/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The plain twins of the split solvers: the textbook flow of plain_flow.h, and the densest rank set by
 * looking at all of them; and random problems for both.
 */
#ifndef ROUTING_TWIN_H
#define ROUTING_TWIN_H

#include "base/prng.h"
#include "eplb/placement.h"

struct twin_ratio {
    int64_t load;
    int64_t size;
};

/** The smallest possible largest rank when loads may be divided at will. */
struct twin_ratio twin_best_peak(const struct eplb_shape *shape, const int32_t *ids, const int64_t *load);

/** The same from all rank sets; at most 20 ranks. */
struct twin_ratio twin_densest(const struct eplb_shape *shape, const int32_t *ids, const int64_t *load);

/** The smallest possible largest rank when tokens are whole. */
int64_t twin_integral_peak(const struct eplb_shape *shape, const int32_t *ids, const int64_t *load);

/** A random shape of at most max_ranks ranks, with 0 to 3 redundant slots per rank. */
struct eplb_shape twin_random_shape(struct eplb_prng *prng, int32_t max_ranks);

/** A random load: none, flat, or spread over some orders of magnitude; each below 2^20. */
void twin_random_load(struct eplb_prng *prng, int32_t num_experts, int64_t *load);

#endif
