/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/ids_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "os/file.h"
#include "trace/ids_sidecar.h"

static bool ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path);
    size_t tail = strlen(ending);
    return length >= tail && strcmp(path + length - tail, ending) == 0;
}

size_t eplb_ids_item_bytes(const char *path)
{
    return ends_with(path, ".ids.u8") ? 1 : ends_with(path, ".ids.u16") ? 2 : 0;
}

bool eplb_ids_is_name(const char *path)
{
    return eplb_ids_item_bytes(path) != 0;
}

char *eplb_ids_sidecar_path(const char *path)
{
    static const char ending[] = ".json";
    size_t item_bytes = eplb_ids_item_bytes(path);
    EPLB_ASSERT(item_bytes != 0);
    size_t stem = strlen(path) - strlen(item_bytes == 1 ? ".ids.u8" : ".ids.u16");
    char *sidecar = malloc(stem + sizeof ending);
    if (sidecar == NULL)
        return NULL;
    memcpy(sidecar, path, stem);
    memcpy(sidecar + stem, ending, sizeof ending);
    return sidecar;
}

void eplb_ids_free(struct eplb_ids *ids)
{
    for (int32_t phase = 0; phase < ids->num_phases; phase++)
        free(ids->phases[phase].name);
    free(ids->phases);
    free(ids->layer_ids);
    free(ids->experts);
    *ids = (struct eplb_ids){0};
}

/* Where a row of top_k ids is, counted over the whole recording. */
static enum eplb_status refuse_row(const struct eplb_input *data, const struct eplb_ids *ids, size_t row,
                                   int32_t k, const char *problem, struct eplb_error *error)
{
    size_t token = row / (size_t)ids->num_layers;
    int32_t layer = ids->layer_ids[row % (size_t)ids->num_layers];
    int32_t expert = ids->experts[row * (size_t)ids->top_k + (size_t)k];
    if (!ids->has_sequences)
        EPLB_FAIL(EPLB_INVALID, "%s: token %zu, layer %d, k %d is expert %d; %s", data->name, token, layer, k,
                  expert, problem);
    EPLB_FAIL(EPLB_INVALID, "%s: step %zu, sequence %zu, layer %d, k %d is expert %d; %s", data->name,
              token / (size_t)ids->num_sequences, token % (size_t)ids->num_sequences, layer, k, expert,
              problem);
}

static size_t num_rows(const struct eplb_ids *ids)
{
    return (size_t)ids->num_steps * (size_t)ids->num_sequences * (size_t)ids->num_layers;
}

/* last_row[expert] is 1 + the row that named it last: so one pass over a row finds an expert twice. */
static enum eplb_status check_rows(const struct eplb_input *data, const struct eplb_ids *ids,
                                   size_t *last_row, struct eplb_error *error)
{
    const uint16_t *expert = ids->experts;
    for (size_t row = 0; row < num_rows(ids); row++)
        for (int32_t k = 0; k < ids->top_k; k++, expert++) {
            if (*expert >= ids->num_experts)
                return refuse_row(data, ids, row, k, "ids are below num_experts of the sidecar", error);
            if (last_row[*expert] == row + 1)
                return refuse_row(data, ids, row, k, "this token has it already in this layer", error);
            last_row[*expert] = row + 1;
        }
    return EPLB_OK;
}

static enum eplb_status read_experts(const struct eplb_input *data, size_t item_bytes, struct eplb_ids *ids,
                                     struct eplb_error *error)
{
    const unsigned char *bytes = (const unsigned char *)data->bytes;
    size_t count = num_rows(ids) * (size_t)ids->top_k;
    EPLB_ASSERT(count <= data->size / item_bytes);
    ids->experts = calloc(count, sizeof *ids->experts);
    size_t *last_row = calloc((size_t)ids->num_experts, sizeof *last_row);
    if (ids->experts == NULL || last_row == NULL) {
        free(last_row);
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the %zu ids of %s", count, data->name);
    }
    for (size_t i = 0; i < count; i++)
        ids->experts[i] = item_bytes == 1 ? bytes[i] : (uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
    enum eplb_status status = check_rows(data, ids, last_row, error);
    free(last_row);
    return status;
}

enum eplb_status eplb_ids_parse(const struct eplb_input *data, const struct eplb_input *sidecar,
                                struct eplb_ids *ids, struct eplb_error *error)
{
    size_t item_bytes = eplb_ids_item_bytes(data->name);
    EPLB_ASSERT(item_bytes != 0);
    struct eplb_ids parsed = {0};
    enum eplb_status status = eplb_ids_parse_sidecar(sidecar, data, item_bytes, &parsed, error);
    if (status == EPLB_OK)
        status = read_experts(data, item_bytes, &parsed, error);
    if (status == EPLB_OK)
        *ids = parsed;
    else
        eplb_ids_free(&parsed);
    return status;
}

static enum eplb_status read_both(const char *path, const struct eplb_input *sidecar, struct eplb_ids *ids,
                                  struct eplb_error *error)
{
    char *bytes;
    size_t size;
    EPLB_TRY(eplb_file_read(path, &bytes, &size, error));
    struct eplb_input data = {.name = eplb_input_name(path), .bytes = bytes, .size = size};
    enum eplb_status status = eplb_ids_parse(&data, sidecar, ids, error);
    free(bytes);
    return status;
}

/* The sidecar first: one that says a final shape was written after the last id, so the ids that are read
 * later are all of them. */
enum eplb_status eplb_ids_read(const char *path, struct eplb_ids *ids, struct eplb_error *error)
{
    if (!eplb_ids_is_name(path))
        EPLB_FAIL(EPLB_INVALID, "%s is no name of routed ids: they end with .ids.u8 or .ids.u16",
                  eplb_input_name(path));
    char *sidecar_path = eplb_ids_sidecar_path(path);
    if (sidecar_path == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the name of the sidecar of %s", eplb_input_name(path));
    char *bytes;
    size_t size;
    struct eplb_error reason;
    enum eplb_status status = eplb_file_read(sidecar_path, &bytes, &size, &reason);
    if (status != EPLB_OK) {
        status = eplb_fail(error, status, "the sidecar of %s: %s", eplb_input_name(path), reason.text);
    } else {
        struct eplb_input sidecar = {.name = eplb_input_name(sidecar_path), .bytes = bytes, .size = size};
        status = read_both(path, &sidecar, ids, error);
        free(bytes);
    }
    free(sidecar_path);
    return status;
}

const uint16_t *eplb_ids_at(const struct eplb_ids *ids, int32_t step, int32_t sequence, int32_t layer)
{
    EPLB_ASSERT(step >= 0 && step < ids->num_steps);
    EPLB_ASSERT(sequence >= 0 && sequence < ids->num_sequences);
    EPLB_ASSERT(layer >= 0 && layer < ids->num_layers);
    size_t token = (size_t)step * (size_t)ids->num_sequences + (size_t)sequence;
    return ids->experts + (token * (size_t)ids->num_layers + (size_t)layer) * (size_t)ids->top_k;
}

int32_t eplb_ids_find_phase(const struct eplb_ids *ids, const char *name)
{
    for (int32_t phase = 0; phase < ids->num_phases; phase++)
        if (strcmp(ids->phases[phase].name, name) == 0)
            return phase;
    return -1;
}

void eplb_ids_count(const struct eplb_ids *ids, int32_t first, int32_t end, int64_t *load)
{
    EPLB_ASSERT(first >= 0 && first <= end && end <= ids->num_steps);
    memset(load, 0, (size_t)ids->num_layers * (size_t)ids->num_experts * sizeof *load);
    for (int32_t step = first; step < end; step++)
        for (int32_t sequence = 0; sequence < ids->num_sequences; sequence++)
            for (int32_t layer = 0; layer < ids->num_layers; layer++) {
                const uint16_t *experts = eplb_ids_at(ids, step, sequence, layer);
                int64_t *row = load + (size_t)layer * (size_t)ids->num_experts;
                for (int32_t k = 0; k < ids->top_k; k++)
                    row[experts[k]]++;
            }
}
