/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Recorded load: how many tokens the router sent to each expert, per step and layer.
 *
 * Read from eplb-load-1 JSON, CSV with the header step,label,layer,e0,e1,.. and NumPy .npy
 * (int32 or int64, little-endian, C order, [layer][expert] or [step][layer][expert]); which one it
 * is, the content tells. Routed ids (ids_file.h) are known by their name, and each phase of them is a
 * step with its name as label. A layer's id is its number in the model, its row its place among the
 * MoE layers: rows are in ascending order of ids, and steps in ascending order of step ids.
 */
#ifndef TRACE_LOAD_FILE_H
#define TRACE_LOAD_FILE_H

#include <stdint.h>

#include "eplb/placement.h"
#include "trace/input.h"

/** Largest number of steps of a file. */
#define EPLB_MAX_STEPS 1048576
/** Room for a step's label, with its terminating zero. */
#define EPLB_LABEL_TEXT 64

/** Filled by the functions below only; all arrays are owned by it. */
struct eplb_load {
    int32_t num_steps;
    int32_t num_layers;
    int32_t num_experts;
    int32_t top_k;                   /**< Experts per token; 0 where the file does not say. */
    int64_t *step_ids;               /**< [num_steps], ascending: the CSV's step column, else 0, 1, .. */
    int32_t *layer_ids;              /**< [num_layers], ascending. */
    char (*labels)[EPLB_LABEL_TEXT]; /**< [num_steps], "" where the file has none. */
    int64_t *load;                   /**< [num_steps][num_layers][num_experts], each in [0, 2^62]. */
    char warning[EPLB_ERROR_TEXT];   /**< What was read but is doubtful, one sentence; "" otherwise. */
};

/**
 * Reads a load file of any format.
 *
 * @param load receives the load, to be freed with eplb_load_free; untouched on failure
 * @return EPLB_INVALID, EPLB_IO or EPLB_NO_MEMORY with a sentence that names the file and the place
 */
enum eplb_status eplb_load_read(const char *path, struct eplb_load *load, struct eplb_error *error);

/** The same from a content already in memory. */
enum eplb_status eplb_load_parse(const struct eplb_input *input, struct eplb_load *load,
                                 struct eplb_error *error);

/** Makes a load of zeros: ids 0, 1, .., no labels, top_k 0. The three sizes are positive. */
enum eplb_status eplb_load_init(struct eplb_load *load, int32_t num_steps, int32_t num_layers,
                                int32_t num_experts, struct eplb_error *error);

/** Frees the arrays; a zeroed load is allowed. */
void eplb_load_free(struct eplb_load *load);

/** The counts of one step and layer row, [num_experts]. */
int64_t *eplb_load_row(const struct eplb_load *load, int32_t step, int32_t layer);

/**
 * Adds up the steps [first, end).
 *
 * @param sum receives [num_layers][num_experts]; undefined on failure
 * @return EPLB_INVALID, naming layer and expert, when an expert's counts add up to more than 2^62
 */
enum eplb_status eplb_load_sum(const struct eplb_load *load, int32_t first, int32_t end, int64_t *sum,
                               struct eplb_error *error);

#endif
