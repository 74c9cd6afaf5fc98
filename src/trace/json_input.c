/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/json_input.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "eplb/placement.h"

static enum eplb_status refuse_document(const struct eplb_input *input, const json_error_t *problem,
                                        struct eplb_error *error)
{
    switch (json_error_code(problem)) {
    case json_error_out_of_memory:
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to parse %s", input->name);
    case json_error_numeric_overflow:
        EPLB_FAIL(EPLB_INVALID, "%s:%d:%d: %s; no number of that size is allowed", input->name, problem->line,
                  problem->column, problem->text);
    case json_error_stack_overflow:
        EPLB_FAIL(EPLB_INVALID, "%s:%d:%d: brackets are nested deeper than any file that is read here needs",
                  input->name, problem->line, problem->column);
    case json_error_duplicate_key:
        EPLB_FAIL(EPLB_INVALID, "%s:%d:%d: %s; a key stands once in an object", input->name, problem->line,
                  problem->column, problem->text);
    default:
        EPLB_FAIL(EPLB_INVALID, "%s:%d:%d: not JSON: %s", input->name, problem->line, problem->column,
                  problem->text);
    }
}

enum eplb_status eplb_json_parse(const struct eplb_input *input, json_t **root, struct eplb_error *error)
{
    EPLB_TRY(eplb_input_check_text(input, error));
    json_error_t problem;
    json_t *document = json_loadb(input->bytes, input->size, JSON_REJECT_DUPLICATES, &problem);
    if (document == NULL)
        return refuse_document(input, &problem, error);
    if (!json_is_object(document)) {
        json_decref(document);
        EPLB_FAIL(EPLB_INVALID, "the top of %s is an array; it must be an object", input->name);
    }
    *root = document;
    return EPLB_OK;
}

enum eplb_status eplb_json_check_format(const struct eplb_input *input, const json_t *root,
                                        const char *format, const char *allowed, struct eplb_error *error)
{
    const json_t *value = json_object_get(root, "format");
    if (value == NULL)
        EPLB_FAIL(EPLB_INVALID, "%s has no \"format\" key; read here: %s", input->name, allowed);
    if (!json_is_string(value))
        EPLB_FAIL(EPLB_INVALID, "%s: \"format\" is %s; read here: %s", input->name,
                  eplb_json_describe(value).text, allowed);
    if (strcmp(json_string_value(value), format) != 0)
        EPLB_FAIL(EPLB_INVALID, "%s has the format \"%s\"; read here: %s", input->name,
                  eplb_quote(json_string_value(value), json_string_length(value)).text, allowed);
    return EPLB_OK;
}

enum eplb_status eplb_json_check_keys(const struct eplb_input *input, const char *where, json_t *object,
                                      const char *const *known, size_t count, struct eplb_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t nearest = eplb_nearest(key, known, count);
        if (strcmp(key, known[nearest]) != 0)
            EPLB_FAIL(EPLB_INVALID, "%s: %s has an unknown key \"%s\"; the nearest known one is \"%s\"",
                      input->name, where, eplb_quote(key, strlen(key)).text, known[nearest]);
    }
    return EPLB_OK;
}

bool eplb_json_integer(const json_t *value, int64_t low, int64_t high, int64_t *out)
{
    if (!json_is_integer(value))
        return false;
    int64_t integer = json_integer_value(value);
    if (integer < low || integer > high)
        return false;
    *out = integer;
    return true;
}

struct eplb_quoted eplb_json_describe(const json_t *value)
{
    struct eplb_quoted quoted = {"missing"};
    if (value == NULL)
        return quoted;
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_TRUE] = "true",        [JSON_FALSE] = "false",    [JSON_NULL] = "null",
    };
    switch (json_typeof(value)) {
    case JSON_INTEGER:
        snprintf(quoted.text, sizeof quoted.text, "%" PRId64, (int64_t)json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(quoted.text, sizeof quoted.text, "the real %.6g", json_real_value(value));
        break;
    default:
        snprintf(quoted.text, sizeof quoted.text, "%s", kinds[json_typeof(value)]);
        break;
    }
    return quoted;
}

enum eplb_status eplb_json_size(const struct eplb_input *input, const json_t *object, const char *key,
                                int32_t high, int32_t *out, struct eplb_error *error)
{
    const json_t *value = json_object_get(object, key);
    int64_t size;
    if (!eplb_json_integer(value, 1, high, &size))
        EPLB_FAIL(EPLB_INVALID, "%s: \"%s\" is %s; allowed is an integer from 1 to %d", input->name, key,
                  eplb_json_describe(value).text, high);
    *out = (int32_t)size;
    return EPLB_OK;
}

enum eplb_status eplb_json_text(const struct eplb_input *input, const char *where, const json_t *value,
                                char *text, size_t capacity, struct eplb_error *error)
{
    text[0] = '\0';
    if (value == NULL)
        return EPLB_OK;
    if (!json_is_string(value))
        EPLB_FAIL(EPLB_INVALID, "%s: %s is %s; it must be a string", input->name, where,
                  eplb_json_describe(value).text);
    size_t length = json_string_length(value);
    if (length >= capacity)
        EPLB_FAIL(EPLB_INVALID, "%s: %s has %zu bytes; at most %zu are read", input->name, where, length,
                  capacity - 1);
    const char *string = json_string_value(value);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)string[i] < 0x20 || string[i] == 0x7f)
            EPLB_FAIL(EPLB_INVALID, "%s: %s has a control character at byte %zu", input->name, where, i);
    memcpy(text, string, length + 1);
    return EPLB_OK;
}

int32_t eplb_json_layer_id(const json_t *root, int32_t row)
{
    const json_t *ids = json_object_get(root, "layer_ids");
    return ids == NULL ? row : (int32_t)json_integer_value(json_array_get(ids, (size_t)row));
}

static enum eplb_status check_layer_ids(const struct eplb_input *input, const json_t *ids, int32_t num_layers,
                                        struct eplb_error *error)
{
    int64_t previous = -1;
    for (int32_t row = 0; row < num_layers; row++) {
        const json_t *value = json_array_get(ids, (size_t)row);
        int64_t id;
        if (!eplb_json_integer(value, 0, INT32_MAX, &id))
            EPLB_FAIL(EPLB_INVALID, "%s: layer_ids[%d] is %s; a layer id is an integer from 0 to %d",
                      input->name, row, eplb_json_describe(value).text, INT32_MAX);
        if (id <= previous)
            EPLB_FAIL(EPLB_INVALID,
                      "%s: layer_ids[%d] is %" PRId64 " after %" PRId64 "; layer ids must ascend",
                      input->name, row, id, previous);
        previous = id;
    }
    return EPLB_OK;
}

enum eplb_status eplb_json_layers(const struct eplb_input *input, const json_t *root, const json_t *rows,
                                  const char *rows_name, int32_t *num_layers, struct eplb_error *error)
{
    const json_t *ids = json_object_get(root, "layer_ids");
    const char *name = ids != NULL ? "\"layer_ids\"" : rows_name;
    const json_t *counted = ids != NULL ? ids : rows;
    if (!json_is_array(counted))
        EPLB_FAIL(EPLB_INVALID, "%s: %s is %s; it must be an array, one entry per layer", input->name, name,
                  eplb_json_describe(counted).text);
    size_t count = json_array_size(counted);
    if (count == 0 || count > EPLB_MAX_LAYERS)
        EPLB_FAIL(EPLB_INVALID, "%s: %s has %zu entries; allowed are 1 to %d layers", input->name, name,
                  count, EPLB_MAX_LAYERS);
    *num_layers = (int32_t)count;
    return ids == NULL ? EPLB_OK : check_layer_ids(input, ids, *num_layers, error);
}
