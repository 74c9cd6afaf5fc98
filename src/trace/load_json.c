/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* eplb-load-1: {"format":..,"num_experts":E,"top_k":k,"layer_ids":[..],"steps":[{"label":..,"load":[[..]]}]}
 */
#include "trace/load_formats.h"

#include <stdio.h>

#include "base/error.h"
#include "eplb/placement.h"
#include "trace/json_input.h"

static const char *const top_keys[] = {"format", "num_experts", "top_k", "layer_ids", "steps"};
static const char *const step_keys[] = {"label", "load"};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* What the document declares; its rows are checked against it. */
struct sizes {
    const json_t *root;
    json_t *steps;
    int32_t num_steps;
    int32_t num_layers;
    int32_t num_experts;
    int32_t top_k;
};

static enum eplb_status read_sizes(const struct eplb_input *input, const json_t *root, struct sizes *sizes,
                                   struct eplb_error *error)
{
    sizes->root = root;
    EPLB_TRY(eplb_json_size(input, root, "num_experts", EPLB_MAX_EXPERTS, &sizes->num_experts, error));
    if (json_object_get(root, "top_k") != NULL)
        EPLB_TRY(eplb_json_size(input, root, "top_k", sizes->num_experts, &sizes->top_k, error));
    sizes->steps = json_object_get(root, "steps");
    if (!json_is_array(sizes->steps))
        EPLB_FAIL(EPLB_INVALID, "%s: \"steps\" is %s; it must be an array of steps", input->name,
                  eplb_json_describe(sizes->steps).text);
    size_t num_steps = json_array_size(sizes->steps);
    if (num_steps == 0 || num_steps > EPLB_MAX_STEPS)
        EPLB_FAIL(EPLB_INVALID, "%s: \"steps\" has %zu entries; allowed are 1 to %d", input->name, num_steps,
                  EPLB_MAX_STEPS);
    sizes->num_steps = (int32_t)num_steps;
    const json_t *first_rows = json_object_get(json_array_get(sizes->steps, 0), "load");
    return eplb_json_layers(input, root, first_rows, "steps[0].load", &sizes->num_layers, error);
}

static enum eplb_status check_step(const struct eplb_input *input, const struct sizes *sizes, int32_t step,
                                   struct eplb_error *error)
{
    json_t *object = json_array_get(sizes->steps, (size_t)step);
    char where[32];
    snprintf(where, sizeof where, "steps[%d]", step);
    if (!json_is_object(object))
        EPLB_FAIL(EPLB_INVALID, "%s: %s is %s; a step is an object", input->name, where,
                  eplb_json_describe(object).text);
    EPLB_TRY(eplb_json_check_keys(input, where, object, step_keys, COUNT(step_keys), error));
    const json_t *rows = json_object_get(object, "load");
    if (!json_is_array(rows))
        EPLB_FAIL(EPLB_INVALID, "%s: %s.load is %s; it must be an array, one row per layer", input->name,
                  where, eplb_json_describe(rows).text);
    if (json_array_size(rows) != (size_t)sizes->num_layers)
        EPLB_FAIL(EPLB_INVALID, "%s: %s.load has %zu rows; the file has %d layers", input->name, where,
                  json_array_size(rows), sizes->num_layers);
    for (int32_t layer = 0; layer < sizes->num_layers; layer++) {
        const json_t *row = json_array_get(rows, (size_t)layer);
        if (!json_is_array(row))
            EPLB_FAIL(EPLB_INVALID, "%s: %s.load[%d] (layer %d) is %s; it must be an array of %d counts",
                      input->name, where, layer, eplb_json_layer_id(sizes->root, layer),
                      eplb_json_describe(row).text, sizes->num_experts);
        if (json_array_size(row) != (size_t)sizes->num_experts)
            EPLB_FAIL(EPLB_INVALID, "%s: %s.load[%d] (layer %d) has %zu counts; num_experts is %d",
                      input->name, where, layer, eplb_json_layer_id(sizes->root, layer), json_array_size(row),
                      sizes->num_experts);
    }
    return EPLB_OK;
}

static enum eplb_status read_step(const struct eplb_input *input, json_t *steps, int32_t step,
                                  struct eplb_load *load, struct eplb_error *error)
{
    const json_t *object = json_array_get(steps, (size_t)step);
    char where[40];
    snprintf(where, sizeof where, "steps[%d].label", step);
    EPLB_TRY(eplb_json_text(input, where, json_object_get(object, "label"), load->labels[step],
                            sizeof load->labels[step], error));
    const json_t *rows = json_object_get(object, "load");
    for (int32_t layer = 0; layer < load->num_layers; layer++) {
        const json_t *row = json_array_get(rows, (size_t)layer);
        int64_t *counts = eplb_load_row(load, step, layer);
        for (int32_t expert = 0; expert < load->num_experts; expert++) {
            const json_t *value = json_array_get(row, (size_t)expert);
            if (!eplb_json_integer(value, 0, EPLB_MAX_LOAD, &counts[expert]))
                EPLB_FAIL(EPLB_INVALID,
                          "%s: steps[%d].load[%d][%d] (layer %d) is %s; a count is an integer from 0 to 2^62",
                          input->name, step, layer, expert, load->layer_ids[layer],
                          eplb_json_describe(value).text);
        }
    }
    return EPLB_OK;
}

static enum eplb_status read_document(const struct eplb_input *input, json_t *root, struct eplb_load *load,
                                      struct eplb_error *error)
{
    EPLB_TRY(eplb_json_check_format(input, root, "eplb-load-1", EPLB_LOAD_FORMATS, error));
    EPLB_TRY(eplb_json_check_keys(input, "the top level", root, top_keys, COUNT(top_keys), error));
    struct sizes sizes = {0};
    EPLB_TRY(read_sizes(input, root, &sizes, error));
    /* All rows are checked before the load is made: it becomes as large as they are, never as
     * large as the file only declares. */
    for (int32_t step = 0; step < sizes.num_steps; step++)
        EPLB_TRY(check_step(input, &sizes, step, error));
    EPLB_TRY(eplb_load_init(load, sizes.num_steps, sizes.num_layers, sizes.num_experts, error));
    load->top_k = sizes.top_k;
    for (int32_t layer = 0; layer < load->num_layers; layer++)
        load->layer_ids[layer] = eplb_json_layer_id(root, layer);
    for (int32_t step = 0; step < load->num_steps; step++)
        EPLB_TRY(read_step(input, sizes.steps, step, load, error));
    return EPLB_OK;
}

enum eplb_status eplb_load_parse_json(const struct eplb_input *input, struct eplb_load *load,
                                      struct eplb_error *error)
{
    json_t *root;
    EPLB_TRY(eplb_json_parse(input, &root, error));
    enum eplb_status status = read_document(input, root, load, error);
    json_decref(root);
    return status;
}
