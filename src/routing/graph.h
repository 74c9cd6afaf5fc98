/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The graph of a placement: the shared experts, an arc for each of their replicas, and the memory
 * that a solve works in.
 *
 *   shared expert s:  arcs first[s] .. first[s + 1] - 1, in ascending slot order
 *   rank r:           entries rank_first[r] .. rank_first[r + 1] - 1 of rank_arc and rank_shared
 */
#ifndef ROUTING_GRAPH_H
#define ROUTING_GRAPH_H

#include <stdint.h>

#include "eplb/routing.h"

struct eplb_split_graph {
    int32_t num_experts;
    int32_t num_ranks;
    int32_t slots_per_rank;
    int32_t num_shared;
    int32_t num_arcs;
    int32_t num_components;

    int32_t *home_rank;      /* [E] of an unshared expert; num_ranks, where nobody looks, of a shared one */
    int32_t *home_slot;      /* [E] of an unshared expert; -1 - s of the shared expert s */
    int32_t *shared_expert;  /* [num_shared] */
    int32_t *first;          /* [num_shared + 1] */
    int32_t *arc_rank;       /* [num_arcs] */
    int32_t *arc_slot;       /* [num_arcs] global slots */
    int32_t *rank_first;     /* [R + 1] */
    int32_t *rank_arc;       /* [num_arcs] */
    int32_t *rank_shared;    /* [num_arcs] */
    int32_t *component;      /* [R] in [0, num_components) */
    int32_t *component_size; /* [num_components] */

    /* Work of one solve. */
    int64_t *base;     /* [R + 1] load of the unshared experts; the last takes what is shared */
    int64_t *load;     /* [R] */
    int64_t *flow;     /* [num_arcs] */
    int64_t *least;    /* [num_arcs] */
    int64_t *saved;    /* [num_arcs] */
    int64_t *total;    /* [E] */
    int32_t *distance; /* [R] */
    int32_t *queue;    /* [R] */
    int32_t *open;     /* [R] */
    uint8_t *seen;     /* [num_shared] */
    uint8_t *in_cut;   /* [R] */
};

#endif
