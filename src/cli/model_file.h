/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The shapes of the reference model from a file, format eplb-model-1 (JSON):
 *
 *   {"format": "eplb-model-1", "num_layers": 8, "num_experts": 32, "top_k": 4}
 *
 * Its keys are the members of struct eplb_model_config, all integers; what is missing takes its default.
 */
#ifndef CLI_MODEL_FILE_H
#define CLI_MODEL_FILE_H

#include "model/config.h"
#include "trace/input.h"

/**
 * Reads a model file.
 *
 * @param config written on success only
 * @return EPLB_INVALID, EPLB_IO or EPLB_NO_MEMORY with a sentence that names file, key and value
 */
enum eplb_status eplb_model_file_read(const char *path, struct eplb_model_config *config,
                                      struct eplb_error *error);

/** The same from a content already in memory. */
enum eplb_status eplb_model_file_parse(const struct eplb_input *input, struct eplb_model_config *config,
                                       struct eplb_error *error);

#endif
