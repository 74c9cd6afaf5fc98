/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What the readers of JSON files share: documents, keys, integers, layer ids.
 *
 * Every failure is EPLB_INVALID (or EPLB_NO_MEMORY) with a sentence that names the file and the
 * place in it, and what is allowed there.
 */
#ifndef TRACE_JSON_INPUT_H
#define TRACE_JSON_INPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "trace/input.h"

/** Parses one document whose top is an object, with no key twice; free it with json_decref. */
enum eplb_status eplb_json_parse(const struct eplb_input *input, json_t **root, struct eplb_error *error);

/**
 * Checks the value of the "format" key.
 *
 * @param allowed what may be read in this place, for the sentence
 */
enum eplb_status eplb_json_check_format(const struct eplb_input *input, const json_t *root,
                                        const char *format, const char *allowed, struct eplb_error *error);

/** Refuses a key that is not among the known ones, with the nearest of them; `where` names the object. */
enum eplb_status eplb_json_check_keys(const struct eplb_input *input, const char *where, json_t *object,
                                      const char *const *known, size_t count, struct eplb_error *error);

/** Whether value is an integer (not a real) in [low, high]; *out is written only then. */
bool eplb_json_integer(const json_t *value, int64_t low, int64_t high, int64_t *out);

/** How a value reads in a sentence: a number's digits, else its kind; NULL is "missing". */
struct eplb_quoted eplb_json_describe(const json_t *value);

/** Reads a key that must be there, an integer in [1, high]. */
enum eplb_status eplb_json_size(const struct eplb_input *input, const json_t *object, const char *key,
                                int32_t high, int32_t *out, struct eplb_error *error);

/** Copies a string of at most capacity - 1 bytes without control characters; NULL gives "". `where` names it.
 */
enum eplb_status eplb_json_text(const struct eplb_input *input, const char *where, const json_t *value,
                                char *text, size_t capacity, struct eplb_error *error);

/**
 * Checks "layer_ids" (ascending integers) and says how many layers there are; without this key
 * there are as many as `rows` (named `rows_name`) has entries.
 */
enum eplb_status eplb_json_layers(const struct eplb_input *input, const json_t *root, const json_t *rows,
                                  const char *rows_name, int32_t *num_layers, struct eplb_error *error);

/** The layer id of a row, after eplb_json_layers. */
int32_t eplb_json_layer_id(const json_t *root, int32_t row);

#endif
