/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * One layer of DeepSeek's function, for the public call and for the policy.
 */
#ifndef POLICY_DEEPSEEK_H
#define POLICY_DEEPSEEK_H

#include <stdbool.h>

#include "base/arena.h"
#include "eplb/deepseek.h"
#include "eplb/policy.h"

/** Whether the policy can pack groups onto nodes in a shape; else it goes the global way. */
bool eplb_deepseek_groups_fit(const struct eplb_shape *shape, const struct eplb_policy_settings *settings);

/** A physical expert: a replica of a logical one. */
struct eplb_deepseek_replica {
    int32_t expert; /* logical */
    int32_t number; /* in order of creation, 0 for the first */
    float weight;   /* of the expert / its replicas */
};

/** The memory of one layer, and its result. Experts of one node stand together in `order`. */
struct eplb_deepseek_layer {
    const struct eplb_deepseek_sizes *sizes;
    struct eplb_deepseek_replica *slots;    /* [P] the result, rank by rank */
    int32_t *count;                         /* [E] replicas of each expert */
    int32_t *order;                         /* [E] experts, node by node */
    struct eplb_deepseek_replica *replicas; /* [P / nodes] of one node, in order of creation */
    uint64_t *keys;                         /* [max(P / nodes, groups)] */
    uint64_t *spare;                        /* the same, for sorting */
    uint64_t *nodes;                        /* of the tournament of experts, ranks or nodes */
    float *sums;                            /* [max(ranks of a node, nodes)] */
    float *group_weight;                    /* [groups] */
    int32_t *used;                          /* [max(ranks of a node, nodes)] */
    int32_t *packed;                        /* [max(P / nodes, groups)] item of each place */
    int32_t *held;                          /* [E] for the removal of repeats */
    double *rank_sums;                      /* [ranks of a node] likewise */
};

/** Takes the layer's memory. sizes must outlive the layer. */
void eplb_deepseek_layer_layout(struct eplb_deepseek_layer *layer, struct eplb_arena *arena,
                                const struct eplb_deepseek_sizes *sizes);

/**
 * Plans one layer: fills `slots` and `count`. With at_most_one no expert gets more replicas than its node
 * has ranks, which needs P / G <= E / num_nodes, so that eplb_deepseek_remove_repeats can follow.
 */
void eplb_deepseek_layer_plan(struct eplb_deepseek_layer *layer, const float *weight, bool at_most_one);

/** Exchanges slots within nodes until no rank holds an expert twice. */
void eplb_deepseek_remove_repeats(struct eplb_deepseek_layer *layer);

#endif
