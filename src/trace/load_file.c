/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/load_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "os/file.h"
#include "trace/ids_file.h"
#include "trace/load_formats.h"

enum eplb_status eplb_load_init(struct eplb_load *load, int32_t num_steps, int32_t num_layers,
                                int32_t num_experts, struct eplb_error *error)
{
    EPLB_ASSERT(num_steps > 0 && num_layers > 0 && num_experts > 0);
    /* Each factor is below 2^31, so two of them cannot overflow, and calloc checks the third. */
    size_t rows = (size_t)num_steps * (size_t)num_layers;
    struct eplb_load made = {
        .num_steps = num_steps,
        .num_layers = num_layers,
        .num_experts = num_experts,
        .step_ids = calloc((size_t)num_steps, sizeof *made.step_ids),
        .layer_ids = calloc((size_t)num_layers, sizeof *made.layer_ids),
        .labels = calloc((size_t)num_steps, sizeof *made.labels),
        .load = calloc(rows, (size_t)num_experts * sizeof *made.load),
    };
    if (made.step_ids == NULL || made.layer_ids == NULL || made.labels == NULL || made.load == NULL) {
        eplb_load_free(&made);
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the load of %d steps x %d layers x %d experts", num_steps,
                  num_layers, num_experts);
    }
    for (int32_t step = 0; step < num_steps; step++)
        made.step_ids[step] = step;
    for (int32_t layer = 0; layer < num_layers; layer++)
        made.layer_ids[layer] = layer;
    *load = made;
    return EPLB_OK;
}

void eplb_load_free(struct eplb_load *load)
{
    free(load->step_ids);
    free(load->layer_ids);
    free(load->labels);
    free(load->load);
    *load = (struct eplb_load){0};
}

int64_t *eplb_load_row(const struct eplb_load *load, int32_t step, int32_t layer)
{
    EPLB_ASSERT(step >= 0 && step < load->num_steps && layer >= 0 && layer < load->num_layers);
    size_t row = (size_t)step * (size_t)load->num_layers + (size_t)layer;
    return load->load + row * (size_t)load->num_experts;
}

/* Adds a row to sum[num_experts]; returns the expert whose sum would pass 2^62, or num_experts. */
static int32_t add_row(const struct eplb_load *load, int32_t step, int32_t layer, int64_t *sum)
{
    const int64_t *row = eplb_load_row(load, step, layer);
    for (int32_t expert = 0; expert < load->num_experts; expert++) {
        EPLB_ASSERT(row[expert] >= 0 && row[expert] <= EPLB_MAX_LOAD);
        if (row[expert] > EPLB_MAX_LOAD - sum[expert])
            return expert;
        sum[expert] += row[expert];
    }
    return load->num_experts;
}

enum eplb_status eplb_load_sum(const struct eplb_load *load, int32_t first, int32_t end, int64_t *sum,
                               struct eplb_error *error)
{
    EPLB_ASSERT(first >= 0 && first < end && end <= load->num_steps);
    memset(sum, 0, (size_t)load->num_layers * (size_t)load->num_experts * sizeof *sum);
    for (int32_t layer = 0; layer < load->num_layers; layer++)
        for (int32_t step = first; step < end; step++) {
            int32_t expert = add_row(load, step, layer, sum + (size_t)layer * (size_t)load->num_experts);
            if (expert < load->num_experts)
                EPLB_FAIL(EPLB_INVALID,
                          "the counts of layer %d, expert %d, summed from step %" PRId64
                          ", pass 2^62 at step %" PRId64 "; sum fewer steps",
                          load->layer_ids[layer], expert, load->step_ids[first], load->step_ids[step]);
        }
    return EPLB_OK;
}

static size_t blank_length(const struct eplb_input *input)
{
    size_t length = 0;
    while (length < input->size && strchr(" \t\r\n", input->bytes[length]) != NULL &&
           input->bytes[length] != '\0')
        length++;
    return length;
}

static enum eplb_status parse_any(const struct eplb_input *input, struct eplb_load *load,
                                  struct eplb_error *error)
{
    EPLB_TRY(eplb_input_check_text(input, error));
    if ((unsigned char)input->bytes[0] == 0x93)
        return eplb_load_parse_npy(input, load, error);
    size_t blank = blank_length(input);
    if (blank < input->size && (input->bytes[blank] == '{' || input->bytes[blank] == '['))
        return eplb_load_parse_json(input, load, error);
    static const char first_column[] = "step,";
    if (input->size >= strlen(first_column) && memcmp(input->bytes, first_column, strlen(first_column)) == 0)
        return eplb_load_parse_csv(input, load, error);
    EPLB_FAIL(EPLB_INVALID, "%s begins with \"%s\", which no load format does; read here: %s", input->name,
              eplb_quote(input->bytes, input->size < 12 ? input->size : 12).text, EPLB_LOAD_FORMATS);
}

enum eplb_status eplb_load_parse(const struct eplb_input *input, struct eplb_load *load,
                                 struct eplb_error *error)
{
    struct eplb_load parsed = {0};
    enum eplb_status status = parse_any(input, &parsed, error);
    if (status == EPLB_OK)
        *load = parsed;
    else
        eplb_load_free(&parsed);
    return status;
}

enum eplb_status eplb_load_read(const char *path, struct eplb_load *load, struct eplb_error *error)
{
    if (eplb_ids_is_name(path))
        return eplb_load_read_ids(path, load, error);
    char *bytes;
    size_t size;
    EPLB_TRY(eplb_file_read(path, &bytes, &size, error));
    struct eplb_input input = {.name = eplb_input_name(path), .bytes = bytes, .size = size};
    enum eplb_status status = eplb_load_parse(&input, load, error);
    free(bytes);
    return status;
}
