/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What engine and workers tell each other: one command with every forward, one output back.
 * Belongs to src/wire.
 *
 * A command is part of the forward's input: no rank runs a forward without having read its
 * command. An output carries the worker's state as levels that are repeated in every output, not
 * as events, so a lost or refused output loses no token and repetition is no news.
 *
 * Both structs travel as fixed-size little-endian records (eplb_command_encode and so on); a
 * record that comes from a peer is checked as hostile when it is decoded.
 */
#ifndef EPLB_WIRE_H
#define EPLB_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/placement.h"
#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Largest value of a token: a decision record holds token and state in one 64-bit word. */
#define EPLB_MAX_TOKEN ((UINT64_C(1) << 62) - 1)

/** Names one attempt to prepare a layer; 0 is none. Never reused in the life of a manager. */
struct eplb_prepare_token {
    uint64_t value;
};

/** Names one attempt to activate a layer; 0 is none. Never reused in the life of a manager. */
struct eplb_activation_token {
    uint64_t value;
};

/** The layer field of a command that names no layer. */
#define EPLB_NO_LAYER (-1)

/** Most weight updates that one command carries. */
#define EPLB_MAX_WEIGHT_UPDATES 8

/** New weights for the replicas of a layer's present placement. Nothing moves. */
struct eplb_weight_update {
    int32_t layer;       /**< Layer row. */
    uint64_t generation; /**< Of the placement that the weights are for: a worker of another ignores them. */
    uint64_t version;    /**< >= 1, rising within the generation: a worker ignores one not above its own. */
    const int32_t *weights; /**< [num_slots] as eplb_weights_check allows for that placement; borrowed. */
};

/**
 * EplbInfo: the command of one forward, the same for all ranks. Never prepares and activates one layer,
 * never updates the weights of a layer twice, nor of the one that it activates.
 */
struct eplb_command {
    size_t size;                             /**< sizeof(struct eplb_command). */
    uint64_t seq;                            /**< Number of the forward, >= 1. */
    int32_t prepare_layer_id;                /**< Layer row to prepare, or EPLB_NO_LAYER. */
    struct eplb_prepare_token prepare_token; /**< Its token; 0 when there is none. */
    uint64_t base_generation;                /**< Generation of that layer that the table was planned from. */
    uint64_t base_hash;                      /**< eplb_placement_hash of that generation's table. */
    const int32_t *expert_ids; /**< New table [num_expert_ids], borrowed; NULL without a prepare. */
    int32_t num_expert_ids;    /**< num_slots of the sender. */
    int32_t update_layer_id;   /**< Layer row to activate, or EPLB_NO_LAYER. */
    struct eplb_activation_token activation_token;  /**< Its token; 0 when there is none. */
    struct eplb_prepare_token update_prepare_token; /**< The prepare that this activation completes. */
    const int32_t *replica_weights; /**< First weights [num_expert_ids] of the new table, borrowed, in force
                                         from the switch on; NULL: equal ones. */
    int32_t num_weight_updates;     /**< 0 to EPLB_MAX_WEIGHT_UPDATES. */
    struct eplb_weight_update weight_updates[EPLB_MAX_WEIGHT_UPDATES]; /**< The first ones are used. */
};

/** Makes the empty command of a forward. */
EPLB_API void eplb_command_init(struct eplb_command *command, uint64_t seq);

/** Level of the last prepare that a worker took. */
enum eplb_prepare_status {
    EPLB_PREPARE_NONE = 0,
    EPLB_PREPARE_RUNNING = 1,
    EPLB_PREPARE_OK = 2,
    EPLB_PREPARE_FAILED = 3,
};

/** Level of the last activation that a worker finished. */
enum eplb_activation_outcome {
    EPLB_ACTIVATION_NONE = 0,
    EPLB_ACTIVATION_SWITCHED = 1,
    EPLB_ACTIVATION_KEPT = 2,
};

/**
 * Why a prepare failed or an activation was kept: REASON(name, value, text). Values are stable; 11 is
 * not used.
 */
#define EPLB_REASON_MAP(REASON)                                                  \
    REASON(NONE, 0, "none")                                                      \
    REASON(WRONG_LENGTH, 1, "the table has another length")                      \
    REASON(ILLEGAL_TABLE, 2, "the table is not legal")                           \
    REASON(WRONG_LAYER, 3, "there is no such layer")                             \
    REASON(BASE_GENERATION, 4, "the worker runs another generation")             \
    REASON(BASE_HASH, 5, "the worker runs another table")                        \
    REASON(HOOK_FAILED, 6, "a model hook failed")                                \
    REASON(NO_PLAN, 7, "the worker does not hold the plan")                      \
    REASON(TRANSFER_FAILED, 8, "a transfer failed")                              \
    REASON(DEADLINE, 9, "the transfer timeout passed")                           \
    REASON(ABORTED_BY_ANOTHER, 10, "another aborted the record")                 \
    REASON(STEP_ABORTED, 12, "the forward was given up")                         \
    REASON(STORAGE_CHANGED, 13, "a registered tensor moved or changed its size") \
    REASON(ILLEGAL_WEIGHTS, 14, "the replica weights are not legal")

/** Why something failed; EPLB_REASON_NONE when nothing did. */
enum eplb_reason {
#define EPLB_REASON_ENUM(name, value, text) EPLB_REASON_##name = value,
    EPLB_REASON_MAP(EPLB_REASON_ENUM)
#undef EPLB_REASON_ENUM
};

/** The text of a reason; "unknown reason" for a value that is none. Thread-safe. */
EPLB_API const char *eplb_reason_text(enum eplb_reason reason);

/** A worker's state as it stands in every output. */
struct eplb_worker_levels {
    struct eplb_prepare_token prepare_token;         /**< Last prepare taken, or 0. */
    enum eplb_prepare_status prepare_status;         /**< NONE exactly when the token is 0. */
    enum eplb_reason prepare_reason;                 /**< Why it failed; else NONE. */
    struct eplb_activation_token activation_token;   /**< Last activation resolved, or 0. */
    enum eplb_activation_outcome activation_outcome; /**< NONE exactly when the token is 0. */
    enum eplb_reason activation_reason;              /**< Why it was kept; else NONE. */
};

/** What one worker returns for one forward. */
struct eplb_worker_output {
    size_t size;                 /**< sizeof(struct eplb_worker_output). */
    uint64_t seq;                /**< The forward. */
    int32_t ep_rank;             /**< Who reports. */
    int32_t num_layers;          /**< The worker's own sizes, so that a mismatch is seen. */
    int32_t slots_per_rank;      /**< As above. */
    const int64_t *prefix;       /**< [num_layers][slots_per_rank] inclusive prefix sums, borrowed. */
    const uint64_t *generations; /**< [num_layers] generation each layer's forward ran under, borrowed. */
    struct eplb_worker_levels levels; /**< State after the forward. */
    const uint64_t *weight_versions;  /**< [num_layers] version of the replica weights each layer's forward
                                           ran under, borrowed; NULL: all 0. */
};

/** Rows of num_slots numbers that a command has at most: table, first weights, weight updates. */
#define EPLB_COMMAND_ROWS (2 + EPLB_MAX_WEIGHT_UPDATES)

/** Bytes of an encoded command for a shape. */
EPLB_API size_t eplb_command_bytes(const struct eplb_shape *shape);

/**
 * Encodes into eplb_command_bytes(shape) bytes, not aligned. The command is our own: that it is one
 * which eplb_command_decode takes is asserted.
 */
EPLB_API void eplb_command_encode(const struct eplb_shape *shape, const struct eplb_command *command,
                                  void *bytes);

/**
 * Decodes and checks a record: every layer exists and has its token, none is named twice, table and
 * first weights are legal, every weight of an update is 1 to EPLB_WEIGHT_UNIT (what they add up to
 * depends on a placement that the record does not have: the worker checks that), and what is not used
 * is zero, so that every command has one record only. `bytes` must not change meanwhile: copy a record
 * out of memory that a peer can write.
 *
 * @param bytes   eplb_command_bytes(shape) bytes, any content, not aligned
 * @param room    [EPLB_COMMAND_ROWS][num_slots]; the arrays of `command` point there. Overwritten also
 *                when the record is refused
 * @param command written on success only
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the field
 */
EPLB_API enum eplb_status eplb_command_decode(const struct eplb_shape *shape, const void *bytes,
                                              int32_t *room, struct eplb_command *command,
                                              struct eplb_error *error);

/** Bytes of an encoded output for a shape. */
EPLB_API size_t eplb_worker_output_bytes(const struct eplb_shape *shape);

/** Encodes into eplb_worker_output_bytes(shape) bytes, not aligned; as eplb_command_encode. */
EPLB_API void eplb_worker_output_encode(const struct eplb_shape *shape,
                                        const struct eplb_worker_output *output, void *bytes);

/**
 * Decodes and checks a record: sizes, states and reasons are known and fit their tokens. Counts,
 * generations and versions are taken as they are: the aggregator and the manager judge them. As
 * eplb_command_decode; here every result is written on success only.
 *
 * @param bytes           eplb_worker_output_bytes(shape) bytes, any content, not aligned
 * @param prefix          room for [num_layers][slots_per_rank]
 * @param generations     room for [num_layers]
 * @param weight_versions room for [num_layers]
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the field
 */
EPLB_API enum eplb_status eplb_worker_output_decode(const struct eplb_shape *shape, const void *bytes,
                                                    int64_t *prefix, uint64_t *generations,
                                                    uint64_t *weight_versions,
                                                    struct eplb_worker_output *output,
                                                    struct eplb_error *error);

#ifdef __cplusplus
}
#endif
#endif
