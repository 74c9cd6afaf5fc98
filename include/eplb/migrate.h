/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Moving expert weights: tensors, staging, and the transfer of one layer. Belongs to src/migrate.
 *
 * A model registers, per layer, every tensor that belongs to its experts. When a layer's placement
 * changes, each rank fills staging (its own pending buffer) with what the changed slots will hold:
 * experts that are resident here are copied, the others arrive in messages. Then the ranks vote,
 * and on commit the staging is copied into the active tensors in place; addresses never change.
 */
#ifndef EPLB_MIGRATE_H
#define EPLB_MIGRATE_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/group.h"
#include "eplb/log.h"
#include "eplb/placement.h"
#include "eplb/status.h"
#include "eplb/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most tensors of a layer. */
#define EPLB_MAX_TENSORS EPLB_MAX_PARTS

/** Whether a tensor moves with its experts. Said, never guessed from a shape. */
enum eplb_per_expert {
    EPLB_PER_EXPERT_UNSAID = 0, /**< Refused, so that no tensor stays behind because of a forgotten field. */
    EPLB_PER_EXPERT_YES = 1,    /**< One piece per slot: weight, scale, bias, whatever is derived of them. */
    EPLB_PER_EXPERT_NO = 2,     /**< Never moves and is never touched: router, shared expert. */
};

/** One tensor of a layer. */
struct eplb_tensor {
    size_t size;              /**< sizeof(struct eplb_tensor). */
    const char *name;         /**< The same in every layer, for messages; copied, cut at 31 bytes. */
    void *data;               /**< First byte; owned by the model, stays at this address. */
    int64_t first_dimension;  /**< Its first dimension, 0 for a scalar; slots_per_rank when per expert. */
    int64_t bytes_per_expert; /**< Bytes of one slot when per expert, else of the whole; > 0. */
    enum eplb_per_expert per_expert; /**< Moves with its experts, or never. */
};

/** All tensors of all layers of one rank, and the staging they share. One thread at a time. */
struct eplb_weights;

/** What is registered. */
struct eplb_weights_params {
    size_t size;                       /**< sizeof(struct eplb_weights_params). */
    struct eplb_shape shape;           /**< Filled by eplb_shape_init. */
    int32_t ep_rank;                   /**< This rank. */
    int32_t num_tensors;               /**< Tensors of every layer, 1 to EPLB_MAX_TENSORS. */
    const struct eplb_tensor *tensors; /**< [num_layers][num_tensors], not kept. */
    /**
     * Bytes of one expert as the model counts them from its configuration, not from this list: a
     * list whose per-expert tensors add up to something else lacks one and is refused. 0: no check.
     */
    int64_t expert_bytes;
    const struct eplb_log_sink *log; /**< Takes "EPLB staging reservation warmed"; NULL: none. */
};

/**
 * Registers the tensors and reserves staging for one layer, a mirror of its per-expert tensors
 * that all layers use in turn. Every page of it is touched now; nothing is allocated later.
 *
 * @param weights receives the registration; free it with eplb_weights_destroy
 * @return EPLB_OK; EPLB_INVALID with a sentence that names layer and tensor: a missing name, address
 *         or per_expert, a first dimension that is not slots_per_rank, two tensors of one name, two
 *         that share memory, layers that differ in name, per_expert or bytes, no per-expert tensor
 *         at all, or a sum that is not expert_bytes; EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_weights_create(const struct eplb_weights_params *params,
                                              struct eplb_weights **weights, struct eplb_error *error);

/** Frees the registration and the staging, not the tensors. NULL is allowed. */
EPLB_API void eplb_weights_destroy(struct eplb_weights *weights);

/** The shape that was registered. Owned by the registration. */
EPLB_API const struct eplb_shape *eplb_weights_shape(const struct eplb_weights *weights);

/** The rank that was registered. */
EPLB_API int32_t eplb_weights_ep_rank(const struct eplb_weights *weights);

/** Bytes of staging that were reserved, with the padding between its tensors. */
EPLB_API size_t eplb_weights_staging_bytes(const struct eplb_weights *weights);

/** Number of tensors that staging mirrors: the per-expert ones of a layer. */
EPLB_API int32_t eplb_weights_staging_tensors(const struct eplb_weights *weights);

/** Bytes of one expert over all per-expert tensors, > 0: what one move sends. */
EPLB_API int64_t eplb_weights_expert_bytes(const struct eplb_weights *weights);

/**
 * Tells the registration that the model reloaded a tensor: other content, and maybe another
 * address. Plans made before are stale from now on, also when the call is refused. To be called
 * between forwards, by the thread that runs them, while no layer is between start_step and
 * finish_step; what is loaded belongs into the slots that the active placement names.
 *
 * @param replacement the tensor as it is now; name, per_expert, first dimension and bytes must be
 *                    those of the registration, because staging has its size from them
 * @return EPLB_OK; EPLB_INVALID with a sentence. When layer and tensor exist but the replacement
 *         does not fit, the old address is forgotten too (it may be freed memory): nothing of that
 *         layer moves until a later call registers a tensor that fits.
 */
EPLB_API enum eplb_status eplb_weights_reregister(struct eplb_weights *weights, int32_t layer, int32_t tensor,
                                                  const struct eplb_tensor *replacement,
                                                  struct eplb_error *error);

/** Raised by eplb_weights_reregister, >= 1; a plan remembers the value it was made under. */
EPLB_API uint64_t eplb_weights_epoch(const struct eplb_weights *weights);

/** Most plans that one rank has at a time: two finished, one in work, one that waits. */
#define EPLB_MAX_PLANS 4

/** One layer's change from the view of one rank: what a prepare produces. Memory is the owner's. */
struct eplb_layer_plan {
    int32_t place; /**< Which of the owner's EPLB_MAX_PLANS plans this is; a later one may take its place. */
    struct eplb_prepare_token token; /**< The prepare it came from. */
    int32_t layer;                   /**< Layer row. */
    uint64_t base_generation;        /**< Generation it starts from. */
    uint64_t base_hash;              /**< Hash of that table. */
    uint64_t weights_epoch;          /**< eplb_weights_epoch when it was made. */
    int32_t *expert_ids;             /**< [num_slots] the new table. */
    int32_t *log2phy;                /**< [num_experts] this rank's new map. */
    struct eplb_move *moves;         /**< [num_moves] changed slots of all ranks, ascending. */
    int32_t num_moves;
    int32_t num_local_changes; /**< Of these, slots of this rank. */
    int32_t *replica_weights;  /**< [num_slots] shares of the new table's slots, in force with it. */
};

/**
 * Copies experts that are resident on this rank into staging: those of this rank's changed slots
 * and, when at least half of its slots change, the unchanged ones too, so that activation is then
 * one copy per tensor. Reads only active tensors: self copies, swaps and cycles need no order.
 *
 * @return EPLB_OK; EPLB_REFUSED when a tensor was registered again after the plan was made, or the
 *         layer has one whose registration was refused; staging is then as it was
 */
EPLB_API enum eplb_status eplb_weights_materialise(struct eplb_weights *weights,
                                                   const struct eplb_layer_plan *plan,
                                                   struct eplb_error *error);

/**
 * Copies staging into the active tensors in place: fewer than half of the rank's slots changed,
 * those slots; else each tensor as a whole. Staging was filled for this plan by
 * eplb_weights_materialise and the messages, and no tensor was registered again since.
 */
EPLB_API void eplb_weights_activate(struct eplb_weights *weights, const struct eplb_layer_plan *plan);

/** Where an expert's message starts from (active tensors of a slot) or ends (staging of a slot). */
enum eplb_side { EPLB_SIDE_ACTIVE = 0, EPLB_SIDE_STAGING = 1 };

/**
 * The memory of bytes [offset, offset + bytes) of an expert's message: all per-expert tensors of
 * one local slot, one after the other in order of registration.
 *
 * @param layer in [0, num_layers)
 * @param bytes > 0, the range inside eplb_weights_expert_bytes
 * @param parts receives up to EPLB_MAX_PARTS pieces
 * @return number of pieces; 0 when eplb_weights_reregister has refused a tensor of the layer
 */
EPLB_API size_t eplb_weights_parts(const struct eplb_weights *weights, int32_t layer, enum eplb_side side,
                                   int32_t local_slot, int64_t offset, int64_t bytes,
                                   struct eplb_part parts[EPLB_MAX_PARTS]);

#ifdef __cplusplus
}
#endif
#endif
