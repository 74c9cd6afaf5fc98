/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a placement comes to under a load, as its tokens are routed: `static` and `local` count as an even
 * split over the replicas, `weighted` by the placement's weights, `adaptive` and `batch` by the best split of
 * that very load.
 */
#ifndef CLI_ROUTED_H
#define CLI_ROUTED_H

#include <stdint.h>

#include "eplb/policy.h"

/** Of one layer, in tokens. */
struct eplb_routed_figures {
    struct eplb_balance even;    /* of the even split; its bound holds for every split */
    struct eplb_best_split best; /* of the best one */
    double peak;                 /* as routed */
};

/** Memory to judge with; set by eplb_routed_init. */
struct eplb_routed {
    struct eplb_shape shape;
    enum eplb_replica_routing routing;
    int32_t *replicas; /* [num_experts] scratch */
    int32_t *weights;  /* [num_slots] of the last best split */
    uint64_t *cut; /* [(ep_size + 63) / 64] the densest rank set of the last figures, a bit for each rank */
    void *split;   /* eplb_best_split's */
    void *block;
};

/** EPLB_NO_MEMORY when it cannot. */
enum eplb_status eplb_routed_init(struct eplb_routed *routed, const struct eplb_shape *shape,
                                  enum eplb_replica_routing routing, struct eplb_error *error);

/** A zeroed one is allowed. */
void eplb_routed_free(struct eplb_routed *routed);

/** Words of a set of ranks. */
static inline int32_t eplb_routed_words(const struct eplb_shape *shape)
{
    return (shape->ep_size + 63) / 64;
}

/**
 * All figures of a layer. The densest rank set is left in `cut`, the weights of the best split in `weights`.
 *
 * @param expert_ids [num_slots], legal
 * @param weights    [num_slots] for `weighted`; NULL: equal ones
 * @param load       [num_experts], each in [0, 2^62]
 */
struct eplb_routed_figures eplb_routed_measure(struct eplb_routed *routed, const int32_t *expert_ids,
                                               const int32_t *weights, const int64_t *load);

/** Largest rank load over the mean one, as routed; 0 of a layer without load. */
double eplb_routed_ratio(struct eplb_routed *routed, const int32_t *expert_ids, const int32_t *weights,
                         const int64_t *load);

/** Load of each rank, [ep_size], as routed. */
void eplb_routed_ranks(struct eplb_routed *routed, const int32_t *expert_ids, const int32_t *weights,
                       const int64_t *load, double *ranks);

/**
 * The load of the slots under weights, whole tokens that add up to the expert's.
 *
 * @param physical receives [num_slots]
 */
void eplb_routed_split(struct eplb_routed *routed, const int32_t *expert_ids, const int32_t *weights,
                       const int64_t *load, int64_t *physical);

#endif
