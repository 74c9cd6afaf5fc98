/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * DeepSeek's public `rebalance_experts`, written anew from its rules: hierarchical and global.
 * Belongs to src/policy.
 *
 * Hierarchical, when num_groups divides by num_nodes: groups of experts are packed onto nodes, copies are
 * chosen inside each node, and the node's replicas are packed onto its ranks. Else global: one group, one
 * node. Packing: by weight from the heaviest, each on the lightest rank that is not full, ties to the
 * lowest rank, as many on each; with one item per rank the identity. Copies: one after the other to the
 * expert with the largest weight / replicas, ties to the lowest.
 *
 * The same tables as the original on inputs where no two compared values are equal; its sort is not
 * stable, ours is, lowest index first. Weights are float32 and so is all arithmetic on them, as there: the
 * sum of a group, which the original adds in an order of its vector width, is the same where it is exact
 * (whole numbers up to 2^24).
 *
 * A call takes eplb_deepseek_sizes_init, memory of eplb_deepseek_scratch bytes, eplb_deepseek_rebalance, and
 * for the map from experts to slots eplb_deepseek_width and eplb_deepseek_log2phy.
 *
 * All functions are pure and thread-safe; nothing is allocated; arrays belong to the caller. Shapes:
 * L = num_layers, E = num_experts, P = num_replicas, G = num_gpus. A slot of a rank is
 * rank * (P / G) + local slot.
 *
 * The policy `deepseek` (eplb_policy_kind) is this function with repeats removed, for shapes with
 * P = num_slots; an expert that stays on a rank keeps its slot there, which changes no rank's load and
 * moves less. Where groups and nodes do not fit the shape it takes the global way. The old names
 * deepseek_flat and deepseek_hier mean `balanced`.
 */
#ifndef EPLB_DEEPSEEK_H
#define EPLB_DEEPSEEK_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The sizes of a call. Fill it with eplb_deepseek_sizes_init only. */
struct eplb_deepseek_sizes {
    int32_t num_layers;   /**< In [1, EPLB_MAX_LAYERS]. */
    int32_t num_experts;  /**< In [1, EPLB_MAX_EXPERTS]. */
    int32_t num_replicas; /**< Slots of all ranks: >= num_experts, divisible by num_gpus. */
    int32_t num_groups;   /**< Divides num_experts; 1 when the way is global. */
    int32_t num_nodes;    /**< Divides num_gpus and num_groups; 1 when the way is global. */
    int32_t num_gpus;     /**< Ranks, in [1, EPLB_MAX_RANKS]. */
};

/**
 * Checks the sizes of a call and fills *sizes.
 *
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the values when one is below 1 or too large,
 *         num_replicas < num_experts, num_replicas % num_gpus != 0, or, in the hierarchical way,
 *         num_experts % num_groups != 0 or num_gpus % num_nodes != 0
 */
EPLB_API enum eplb_status eplb_deepseek_sizes_init(struct eplb_deepseek_sizes *sizes, int64_t num_layers,
                                                   int64_t num_experts, int64_t num_replicas,
                                                   int64_t num_groups, int64_t num_nodes, int64_t num_gpus,
                                                   struct eplb_error *error);

/** Bytes of scratch memory that eplb_deepseek_rebalance needs, to be aligned to 64. */
EPLB_API size_t eplb_deepseek_scratch(const struct eplb_deepseek_sizes *sizes);

/**
 * Plans all layers. A layer costs O(P log P).
 *
 * With remove_repeats no rank holds an expert twice: no expert gets more replicas than its node has ranks,
 * and after the packing the second replica of an expert on one rank changes places with a slot of another
 * rank of the node, one that leaves both ranks below the layer's peak when there is such a slot, else the
 * one that raises it least. Each exchange costs O(P) at worst; without repeats nothing changes.
 *
 * @param weight  [L][E], each finite and >= 0
 * @param scratch eplb_deepseek_scratch(sizes) bytes, aligned to 64, any content
 * @param phy2log receives [L][P]: the expert of each slot
 * @param phyrank receives [L][P]: which replica of its expert a slot holds, in order of creation; NULL: not
 *                wanted
 * @param logcnt  receives [L][E]: replicas of each expert; they add up to P
 * @return EPLB_OK; EPLB_INVALID with a sentence, nothing written, when a weight is negative, infinite or NaN
 *         (layer and expert are named), or with remove_repeats a rank has more slots than its node has
 *         experts
 */
EPLB_API enum eplb_status eplb_deepseek_rebalance(const struct eplb_deepseek_sizes *sizes,
                                                  const float *weight, int remove_repeats, void *scratch,
                                                  int64_t *phy2log, int64_t *phyrank, int64_t *logcnt,
                                                  struct eplb_error *error);

/**
 * Reorders each rank so that an expert that was on it keeps its slot, as vLLM does: old slots take, in order,
 * the first replica of their expert, the replicas left over fill the slots left over in order. No rank's set
 * of experts changes. O(L * P * P / G) at worst.
 *
 * @param old_phy2log [L][P], any content; a slot whose number is no expert's takes what is left over
 * @param scratch     eplb_deepseek_scratch(sizes) bytes, aligned to 64, any content
 * @param phy2log     [L][P] of eplb_deepseek_rebalance, changed
 * @param phyrank     [L][P] of the same call, changed likewise
 */
EPLB_API void eplb_deepseek_keep_slots(const struct eplb_deepseek_sizes *sizes, const int64_t *old_phy2log,
                                       void *scratch, int64_t *phy2log, int64_t *phyrank);

/** The largest count of logcnt [L][E] over all layers: the last size of the original's log2phy. */
EPLB_API int64_t eplb_deepseek_width(const struct eplb_deepseek_sizes *sizes, const int64_t *logcnt);

/**
 * Writes the slots of every expert, replicas in order of creation, the rest -1.
 *
 * @param phy2log [L][P] of eplb_deepseek_rebalance
 * @param phyrank [L][P] of the same call
 * @param width   columns of log2phy, >= eplb_deepseek_width
 * @param log2phy receives [L][E][width]
 * @return EPLB_OK; EPLB_INVALID with a sentence, and log2phy in pieces, when an expert or a replica number is
 *         out of range (layer and slot are named)
 */
EPLB_API enum eplb_status eplb_deepseek_log2phy(const struct eplb_deepseek_sizes *sizes,
                                                const int64_t *phy2log, const int64_t *phyrank, int64_t width,
                                                int64_t *log2phy, struct eplb_error *error);

#ifdef __cplusplus
}
#endif
#endif
