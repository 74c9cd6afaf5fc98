/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Placement files, format eplb-placement-1 (JSON): which expert each slot of each layer holds.
 */
#ifndef TRACE_PLACEMENT_FILE_H
#define TRACE_PLACEMENT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "eplb/placement.h"
#include "trace/input.h"
#include "trace/text.h"

/** Room for the name of a policy, with its terminating zero. */
#define EPLB_POLICY_TEXT 64

/** Every layer's table is legal, and so are the weights. Row i belongs to layer_ids[i]. */
struct eplb_placement_file {
    struct eplb_shape shape;
    int32_t *layer_ids;  /**< [num_layers], ascending model layer numbers. */
    int32_t *expert_ids; /**< [num_layers][ep_size][slots_per_rank] */
    int32_t *weights;    /**< The same shape, in units of EPLB_WEIGHT_UNIT; NULL where there are none. */
    char policy[EPLB_POLICY_TEXT];          /**< Which policy made it; "" where the file does not say. */
    char replica_routing[EPLB_POLICY_TEXT]; /**< How tokens are routed that it was planned for; likewise. */
};

/**
 * Reads a placement file. What it predicts (keys "predicted" and "gate") is passed over.
 *
 * @param file receives the placement, to be freed with eplb_placement_file_free; untouched on failure
 * @return EPLB_INVALID, EPLB_IO or EPLB_NO_MEMORY with a sentence that names file, layer, rank and slot
 */
enum eplb_status eplb_placement_file_read(const char *path, struct eplb_placement_file *file,
                                          struct eplb_error *error);

/** The same from a content already in memory. */
enum eplb_status eplb_placement_file_parse(const struct eplb_input *input, struct eplb_placement_file *file,
                                           struct eplb_error *error);

/**
 * Makes a file in memory: layer ids 0, 1, .., the initial placement in every layer, no policy.
 *
 * @param with_weights whether to make room for weights; they start equal
 */
enum eplb_status eplb_placement_file_init(struct eplb_placement_file *file, const struct eplb_shape *shape,
                                          bool with_weights, struct eplb_error *error);

/** Frees the arrays; a zeroed file is allowed. */
void eplb_placement_file_free(struct eplb_placement_file *file);

/**
 * Checks that the placement is one for these sizes.
 *
 * @return EPLB_INVALID with a sentence that names what the file has and what is needed
 */
enum eplb_status eplb_placement_file_match(const struct eplb_placement_file *file, int32_t num_experts,
                                           int32_t ep_size, int32_t redundant_experts_num,
                                           struct eplb_error *error);

/** The row of a layer id; -1 when the file does not have that layer. */
int32_t eplb_placement_file_row(const struct eplb_placement_file *file, int32_t layer_id);

/** What a layer's placement promises, in tokens. Ranks are joined by the experts that they share. */
struct eplb_placement_prediction {
    double peak;            /* largest rank load, as tokens are routed */
    double mean;            /* mean rank load */
    double lower_bound;     /* of every placement and routing */
    double even_split_peak; /* if every expert's tokens were split evenly over its replicas */
    double best_split_peak; /* under the best split that there is */
    int32_t components;     /* of the ranks; no split moves load from one to another */
    const uint64_t
        *cut;        /* the ranks that limit the best split, bit (r % 64) of word r / 64; NULL: left out */
    double cut_load; /* what no split moves out of them */
    const int32_t *replicas; /* [num_experts] of each expert; NULL: left out */
};

/** What the gate said of a layer, and what putting the candidate in force would cost. */
struct eplb_placement_verdict {
    bool publish;
    double current_peak;
    double candidate_peak;
    double improvement;
    double unbounded_peak; /* of the candidate that a bound on the moves did not allow, else candidate_peak */
    int32_t moved_slots;
    int32_t sent_slots;
    int64_t bytes;              /* negative: unknown, written as null */
    double break_even_forwards; /* negative: unknown, infinite: never; both are written as null */
    bool pays; /* false: it passed the gate, and does not pay in time; written as null when unknown */
};

/**
 * Appends the file's text, one line per layer in each array, so that two files differ by lines.
 *
 * @param predicted [num_layers] finite figures, or NULL to leave the key out
 * @param gate      [num_layers] finite figures, or NULL to leave the key out
 * @return EPLB_NO_MEMORY when the text could not grow
 */
enum eplb_status eplb_placement_file_write(const struct eplb_placement_file *file,
                                           const struct eplb_placement_prediction *predicted,
                                           const struct eplb_placement_verdict *gate, struct eplb_text *text,
                                           struct eplb_error *error);

#endif
