/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Placements: which logical expert each physical slot holds. Belongs to src/placement.
 *
 * Terms. A logical expert is an id that the router produces, in [0, num_experts). A physical slot
 * is one resident copy of an expert's weights. EP rank r, in [0, ep_size), has the local slots
 * [0, slots_per_rank); slot s of rank r has the global slot id p = r * slots_per_rank + s.
 *
 * A placement of one layer is an array `int32_t expert_ids[ep_size][slots_per_rank]`, row-major,
 * so expert_ids[p] is the expert of global slot p. A table of all layers is
 * `int32_t [num_layers][ep_size][slots_per_rank]`. Only MoE layers count as layers.
 *
 * A placement is legal when every id is in range, every expert is on at least one rank, and no
 * rank holds an expert twice.
 *
 * All functions here are pure: no allocation, no I/O, no state; they may be called from any
 * thread. Arrays belong to the caller.
 */
#ifndef EPLB_PLACEMENT_H
#define EPLB_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Largest num_experts, ep_size and num_layers that a shape may have. */
#define EPLB_MAX_EXPERTS 65536
#define EPLB_MAX_RANKS 65536
#define EPLB_MAX_LAYERS 65536
/** Largest number of slots of one layer over all ranks. */
#define EPLB_MAX_SLOTS 16777216
/** Largest load of one expert or slot, in tokens: 2^62. */
#define EPLB_MAX_LOAD (INT64_C(1) << 62)

/** The sizes that everything else is measured in. Fill it with eplb_shape_init only. */
struct eplb_shape {
    int32_t num_layers;            /**< MoE layers, >= 1. */
    int32_t num_experts;           /**< Logical experts per layer, >= 1, divisible by ep_size. */
    int32_t ep_size;               /**< EP ranks, >= 1. */
    int32_t redundant_experts_num; /**< Extra slots of each rank, >= 0. */
    int32_t slots_per_rank;        /**< num_experts / ep_size + redundant_experts_num, <= num_experts. */
    int32_t num_slots;             /**< ep_size * slots_per_rank. */
};

/**
 * Checks the four sizes and fills *shape.
 *
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the values when a size is out of range,
 *         num_experts % ep_size != 0, or a rank would hold more slots than there are experts
 */
EPLB_API enum eplb_status eplb_shape_init(struct eplb_shape *shape, int64_t num_layers, int64_t num_experts,
                                          int64_t ep_size, int64_t redundant_experts_num,
                                          struct eplb_error *error);

/**
 * Writes the initial placement of one layer: rank r owns the experts [r*E/R, (r+1)*E/R) in order;
 * its redundant slot j holds expert ((r+1)*E/R + j) mod E, a neighbour's, so no rank repeats one.
 *
 * @param expert_ids receives [ep_size][slots_per_rank]
 */
EPLB_API void eplb_placement_initial(const struct eplb_shape *shape, int32_t *expert_ids);

/**
 * Checks that one layer's placement is legal.
 *
 * @param expert_ids [ep_size][slots_per_rank], any content
 * @return EPLB_OK; EPLB_INVALID with a sentence that names rank and slot (or the missing expert)
 */
EPLB_API enum eplb_status eplb_placement_check(const struct eplb_shape *shape, const int32_t *expert_ids,
                                               struct eplb_error *error);

/**
 * Writes the map from logical expert to global slot that one rank sends its tokens by: replica
 * number (ep_rank + moe_tp_rank) mod replicas, replicas in ascending global slot order.
 *
 * @param expert_ids  a legal placement [ep_size][slots_per_rank]
 * @param ep_rank     the source rank, in [0, ep_size)
 * @param moe_tp_rank its rank in the MoE tensor-parallel group, >= 0; 0 without MoE TP
 * @param log2phy     receives [num_experts] global slot ids
 */
EPLB_API void eplb_log2phy(const struct eplb_shape *shape, const int32_t *expert_ids, int32_t ep_rank,
                           int32_t moe_tp_rank, int32_t *log2phy);

/**
 * Counts the replicas of every expert.
 *
 * @param expert_ids a legal placement [ep_size][slots_per_rank]
 * @param replicas   receives [num_experts], each >= 1, their sum num_slots
 */
EPLB_API void eplb_placement_replicas(const struct eplb_shape *shape, const int32_t *expert_ids,
                                      int32_t *replicas);

/**
 * A 64-bit hash of one layer's placement: the same on every machine and build, different with high
 * probability when any slot differs. Not cryptographic.
 */
EPLB_API uint64_t eplb_placement_hash(const struct eplb_shape *shape, const int32_t *expert_ids);

/**
 * Whether some rank's set of experts differs between two legal placements. A pure reorder of
 * slots inside ranks is no change.
 */
EPLB_API int eplb_placement_sets_differ(const struct eplb_shape *shape, const int32_t *old_ids,
                                        const int32_t *new_ids);

/** How a changed slot gets its weights. */
enum eplb_move_kind {
    EPLB_MOVE_LOCAL = 0, /**< Copy from a slot of the same rank. */
    EPLB_MOVE_P2P = 1,   /**< One message from another rank. */
};

/** One changed slot. */
struct eplb_move {
    int32_t slot;             /**< Global slot that changes. */
    int32_t expert;           /**< Expert that it will hold. */
    int32_t source_slot;      /**< Global slot that holds the expert in the old placement. */
    enum eplb_move_kind kind; /**< Local copy, or message from source_slot's rank. */
};

/** Bytes of scratch memory that eplb_placement_diff needs for a shape, aligned to 8. */
EPLB_API size_t eplb_placement_diff_scratch(const struct eplb_shape *shape);

/**
 * Lists the changed slots between two legal placements of one layer, ascending, each with where
 * its weights come from: a slot of the same rank that holds the expert in the old placement, else
 * the old holder with the fewest sends so far, ties to the lowest rank. Every rank computes the
 * same list from the same two tables.
 *
 * @param scratch   eplb_placement_diff_scratch(shape) bytes, aligned to 8
 * @param moves     receives the list; room for num_slots entries
 * @return number of entries
 */
EPLB_API int32_t eplb_placement_diff(const struct eplb_shape *shape, const int32_t *old_ids,
                                     const int32_t *new_ids, void *scratch, struct eplb_move *moves);

/** A slot's share of its expert's tokens is weight / EPLB_WEIGHT_UNIT. */
#define EPLB_WEIGHT_UNIT 1048576

/**
 * Writes equal weights: every replica of an expert gets unit / replicas, and the first
 * unit % replicas of them, in ascending slot order, one more.
 *
 * @param expert_ids a legal placement [ep_size][slots_per_rank]
 * @param scratch    room for [num_experts], overwritten
 * @param weights    receives [ep_size][slots_per_rank], each > 0, adding up to the unit per expert
 */
EPLB_API void eplb_weights_equal(const struct eplb_shape *shape, const int32_t *expert_ids, int32_t *scratch,
                                 int32_t *weights);

/**
 * Checks that weights are positive and add up to the unit for every expert.
 *
 * @param expert_ids a legal placement [ep_size][slots_per_rank]
 * @param weights    [ep_size][slots_per_rank], any content
 * @param scratch    room for [num_experts], overwritten
 * @return EPLB_OK; EPLB_INVALID with a sentence that names rank and slot, or the expert
 */
EPLB_API enum eplb_status eplb_weights_check(const struct eplb_shape *shape, const int32_t *expert_ids,
                                             const int32_t *weights, int32_t *scratch,
                                             struct eplb_error *error);

#ifdef __cplusplus
}
#endif
#endif
