/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* eplb-ids-1: {"format":..,"axes":[..],"shape":[..],"dtype":..,"num_experts":E,"top_k":k,"layer_ids":[..],
 * "phases":[{"name":..,"first":..,"end":..}],"kind":..} */
#include "trace/ids_sidecar.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/placement.h"
#include "trace/json_input.h"

enum { MAX_AXES = 4 };

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *const top_keys[] = {"format", "axes",      "shape",  "dtype", "num_experts",
                                       "top_k",  "layer_ids", "phases", "kind"};
static const char *const phase_keys[] = {"name", "first", "end"};

/* An axis that a recording may have, in its order, and how long it may be. */
struct axis {
    const char *name;
    int32_t high;
};

static const struct axis with_sequences[] = {{"step", INT32_MAX},
                                             {"sequence", EPLB_MAX_IDS_SEQUENCES},
                                             {"layer", EPLB_MAX_LAYERS},
                                             {"k", EPLB_MAX_EXPERTS}};
static const struct axis tokens_only[] = {
    {"token", INT32_MAX}, {"layer", EPLB_MAX_LAYERS}, {"k", EPLB_MAX_EXPERTS}};

/* What is being read. */
struct sidecar {
    const struct eplb_input *input;
    const struct eplb_input *data;
    size_t item_bytes;
    json_t *root;
    const struct axis *axes;
    size_t num_axes;
    int32_t shape[MAX_AXES];
    bool open; /* the first length is -1: it is being written, or its writer was killed */
};

static enum eplb_status read_dtype(const struct sidecar *sidecar, struct eplb_error *error)
{
    const json_t *value = json_object_get(sidecar->root, "dtype");
    const char *expected = sidecar->item_bytes == 1 ? "uint8" : "uint16";
    if (!json_is_string(value))
        EPLB_FAIL(EPLB_INVALID, "%s: \"dtype\" is %s; for %s it must be \"%s\"", sidecar->input->name,
                  eplb_json_describe(value).text, sidecar->data->name, expected);
    if (strcmp(json_string_value(value), expected) != 0)
        EPLB_FAIL(EPLB_INVALID, "%s: \"dtype\" is \"%s\"; for %s it must be \"%s\"", sidecar->input->name,
                  eplb_quote(json_string_value(value), json_string_length(value)).text, sidecar->data->name,
                  expected);
    return EPLB_OK;
}

static bool has_axes(const json_t *names, const struct axis *axes, size_t count)
{
    if (json_array_size(names) != count)
        return false;
    for (size_t axis = 0; axis < count; axis++) {
        const char *name = json_string_value(json_array_get(names, axis));
        if (name == NULL || strcmp(name, axes[axis].name) != 0)
            return false;
    }
    return true;
}

static enum eplb_status read_axes(struct sidecar *sidecar, struct eplb_error *error)
{
    static const char allowed[] =
        "allowed are [\"step\", \"sequence\", \"layer\", \"k\"] and [\"token\", \"layer\", \"k\"]";
    const json_t *names = json_object_get(sidecar->root, "axes");
    if (!json_is_array(names))
        EPLB_FAIL(EPLB_INVALID, "%s: \"axes\" is %s; %s", sidecar->input->name,
                  eplb_json_describe(names).text, allowed);
    if (has_axes(names, with_sequences, COUNT(with_sequences))) {
        sidecar->axes = with_sequences;
        sidecar->num_axes = COUNT(with_sequences);
    } else if (has_axes(names, tokens_only, COUNT(tokens_only))) {
        sidecar->axes = tokens_only;
        sidecar->num_axes = COUNT(tokens_only);
    } else {
        EPLB_FAIL(EPLB_INVALID, "%s: \"axes\" names other axes than can be read; %s", sidecar->input->name,
                  allowed);
    }
    return EPLB_OK;
}

static enum eplb_status read_shape(struct sidecar *sidecar, struct eplb_error *error)
{
    const char *name = sidecar->input->name;
    const json_t *lengths = json_object_get(sidecar->root, "shape");
    if (!json_is_array(lengths))
        EPLB_FAIL(EPLB_INVALID, "%s: \"shape\" is %s; it must be an array of %zu lengths, one per axis", name,
                  eplb_json_describe(lengths).text, sidecar->num_axes);
    if (json_array_size(lengths) != sidecar->num_axes)
        EPLB_FAIL(EPLB_INVALID, "%s: \"shape\" has %zu lengths; there are %zu axes", name,
                  json_array_size(lengths), sidecar->num_axes);
    for (size_t axis = 0; axis < sidecar->num_axes; axis++) {
        const json_t *value = json_array_get(lengths, axis);
        int64_t length;
        if (axis == 0 && eplb_json_integer(value, -1, -1, &length))
            sidecar->open = true;
        else if (!eplb_json_integer(value, 1, sidecar->axes[axis].high, &length))
            EPLB_FAIL(EPLB_INVALID, "%s: shape[%zu] (%s) is %s; allowed is an integer from 1 to %d%s", name,
                      axis, sidecar->axes[axis].name, eplb_json_describe(value).text,
                      sidecar->axes[axis].high,
                      axis == 0 ? ", or -1 while the recording is being written" : "");
        sidecar->shape[axis] = (int32_t)length;
    }
    return EPLB_OK;
}

static enum eplb_status read_experts(const struct sidecar *sidecar, struct eplb_ids *ids,
                                     struct eplb_error *error)
{
    const struct eplb_input *input = sidecar->input;
    int32_t last = sidecar->shape[sidecar->num_axes - 1];
    int32_t most = sidecar->item_bytes == 1 ? 256 : EPLB_MAX_EXPERTS;
    EPLB_TRY(eplb_json_size(input, sidecar->root, "num_experts", most, &ids->num_experts, error));
    EPLB_TRY(eplb_json_size(input, sidecar->root, "top_k", ids->num_experts, &ids->top_k, error));
    if (ids->top_k != last)
        EPLB_FAIL(EPLB_INVALID, "%s: \"top_k\" is %d; shape[%zu] (k) is %d", input->name, ids->top_k,
                  sidecar->num_axes - 1, last);
    return EPLB_OK;
}

/* Steps that the data holds; a recording that its writer could not close has what was written whole. */
static enum eplb_status read_steps(const struct sidecar *sidecar, struct eplb_ids *ids,
                                   struct eplb_error *error)
{
    /* At most 2 * 2^20 * 2^16 * 2^16 bytes: no overflow. The number of steps is compared, not multiplied. */
    size_t step_bytes = sidecar->item_bytes;
    for (size_t axis = 1; axis < sidecar->num_axes; axis++)
        step_bytes *= (size_t)sidecar->shape[axis];
    size_t whole = sidecar->data->size / step_bytes;
    size_t rest = sidecar->data->size % step_bytes;
    const char *word = sidecar->axes[0].name;
    if (!sidecar->open && (whole != (size_t)sidecar->shape[0] || rest != 0))
        EPLB_FAIL(
            EPLB_INVALID,
            "%s has %zu bytes: %zu %ss of %zu bytes and %zu bytes over; by the shape of %s it must hold "
            "exactly %d",
            sidecar->data->name, sidecar->data->size, whole, word, step_bytes, rest, sidecar->input->name,
            sidecar->shape[0]);
    if (whole == 0 || whole > INT32_MAX)
        EPLB_FAIL(EPLB_INVALID, "%s has %zu whole %ss of %zu bytes; allowed are 1 to %d", sidecar->data->name,
                  whole, word, step_bytes, INT32_MAX);
    ids->num_steps = (int32_t)whole;
    ids->has_sequences = sidecar->axes == with_sequences;
    ids->num_sequences = ids->has_sequences ? sidecar->shape[1] : 1;
    return EPLB_OK;
}

static enum eplb_status read_layers(const struct sidecar *sidecar, struct eplb_ids *ids,
                                    struct eplb_error *error)
{
    size_t axis = sidecar->num_axes - 2;
    int32_t count = sidecar->shape[axis];
    if (json_object_get(sidecar->root, "layer_ids") != NULL) {
        int32_t named;
        EPLB_TRY(eplb_json_layers(sidecar->input, sidecar->root, NULL, "layer_ids", &named, error));
        if (named != count)
            EPLB_FAIL(EPLB_INVALID, "%s: \"layer_ids\" has %d entries; shape[%zu] (layer) is %d",
                      sidecar->input->name, named, axis, count);
    }
    ids->layer_ids = calloc((size_t)count, sizeof *ids->layer_ids);
    if (ids->layer_ids == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the %d layer ids of %s", count, sidecar->input->name);
    for (int32_t layer = 0; layer < count; layer++)
        ids->layer_ids[layer] = eplb_json_layer_id(sidecar->root, layer);
    ids->num_layers = count;
    return EPLB_OK;
}

static enum eplb_status read_kind(const struct sidecar *sidecar, struct eplb_ids *ids,
                                  struct eplb_error *error)
{
    const json_t *value = json_object_get(sidecar->root, "kind");
    const char *kind = json_string_value(value);
    ids->is_prefill = kind != NULL && strcmp(kind, "prefill") == 0;
    if (!ids->is_prefill && (kind == NULL || strcmp(kind, "decode") != 0))
        EPLB_FAIL(EPLB_INVALID, "%s: \"kind\" is %s%s%s; allowed are \"decode\" and \"prefill\"",
                  sidecar->input->name, kind == NULL ? "" : "\"",
                  kind == NULL ? eplb_json_describe(value).text : eplb_quote(kind, strlen(kind)).text,
                  kind == NULL ? "" : "\"");
    return EPLB_OK;
}

static enum eplb_status add_phase(struct eplb_ids *ids, const char *name, int32_t first, int32_t end,
                                  struct eplb_error *error)
{
    char *copy = strdup(name);
    if (copy == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the name of phase %d", ids->num_phases);
    ids->phases[ids->num_phases++] = (struct eplb_ids_phase){copy, first, end};
    return EPLB_OK;
}

static enum eplb_status read_phase_name(const struct sidecar *sidecar, const struct eplb_ids *ids,
                                        const json_t *object, char name[EPLB_IDS_PHASE_TEXT],
                                        struct eplb_error *error)
{
    char where[40];
    snprintf(where, sizeof where, "phases[%d].name", ids->num_phases);
    const json_t *value = json_object_get(object, "name");
    EPLB_TRY(eplb_json_text(sidecar->input, where, value, name, EPLB_IDS_PHASE_TEXT, error));
    if (name[0] == '\0')
        EPLB_FAIL(EPLB_INVALID, "%s: %s is %s; a phase has a name", sidecar->input->name, where,
                  value == NULL ? "missing" : "empty");
    int32_t other = eplb_ids_find_phase(ids, name);
    if (other >= 0)
        EPLB_FAIL(EPLB_INVALID, "%s: %s is \"%s\" like that of phases[%d]; names of phases differ",
                  sidecar->input->name, where, eplb_quote(name, strlen(name)).text, other);
    return EPLB_OK;
}

static enum eplb_status read_phase(const struct sidecar *sidecar, struct eplb_ids *ids, json_t *object,
                                   struct eplb_error *error)
{
    const char *file = sidecar->input->name;
    int32_t index = ids->num_phases;
    int32_t expected = index == 0 ? 0 : ids->phases[index - 1].end;
    char where[32];
    snprintf(where, sizeof where, "phases[%d]", index);
    if (!json_is_object(object))
        EPLB_FAIL(EPLB_INVALID, "%s: %s is %s; a phase is an object", file, where,
                  eplb_json_describe(object).text);
    EPLB_TRY(eplb_json_check_keys(sidecar->input, where, object, phase_keys, COUNT(phase_keys), error));
    char name[EPLB_IDS_PHASE_TEXT];
    EPLB_TRY(read_phase_name(sidecar, ids, object, name, error));
    const json_t *value = json_object_get(object, "first");
    int64_t first;
    if (!eplb_json_integer(value, expected, expected, &first))
        EPLB_FAIL(EPLB_INVALID, "%s: %s.first is %s; it must be %d, where %s", file, where,
                  eplb_json_describe(value).text, expected,
                  index == 0 ? "the recording begins" : "the phase before it ends");
    value = json_object_get(object, "end");
    int64_t end;
    if (!eplb_json_integer(value, first + 1, ids->num_steps, &end))
        EPLB_FAIL(EPLB_INVALID, "%s: %s.end is %s; allowed is an integer from %" PRId64 " to %d", file, where,
                  eplb_json_describe(value).text, first + 1, ids->num_steps);
    return add_phase(ids, name, (int32_t)first, (int32_t)end, error);
}

static enum eplb_status read_phases(const struct sidecar *sidecar, struct eplb_ids *ids,
                                    struct eplb_error *error)
{
    const char *file = sidecar->input->name;
    json_t *phases = json_object_get(sidecar->root, "phases");
    size_t count = phases == NULL ? 1 : json_array_size(phases);
    if (phases != NULL && !json_is_array(phases))
        EPLB_FAIL(EPLB_INVALID, "%s: \"phases\" is %s; it must be an array of phases", file,
                  eplb_json_describe(phases).text);
    if (count == 0 || count > EPLB_MAX_IDS_PHASES)
        EPLB_FAIL(EPLB_INVALID, "%s: \"phases\" has %zu entries; allowed are 1 to %d", file, count,
                  EPLB_MAX_IDS_PHASES);
    ids->phases = calloc(count, sizeof *ids->phases);
    if (ids->phases == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the %zu phases of %s", count, file);
    if (phases == NULL)
        return add_phase(ids, EPLB_IDS_WHOLE, 0, ids->num_steps, error);
    for (size_t phase = 0; phase < count; phase++)
        EPLB_TRY(read_phase(sidecar, ids, json_array_get(phases, phase), error));
    int32_t end = ids->phases[count - 1].end;
    if (end != ids->num_steps)
        EPLB_FAIL(EPLB_INVALID, "%s: phases[%zu].end is %d; the last phase ends with the recording, at %d",
                  file, count - 1, end, ids->num_steps);
    return EPLB_OK;
}

static enum eplb_status read_document(struct sidecar *sidecar, struct eplb_ids *ids, struct eplb_error *error)
{
    EPLB_TRY(eplb_json_check_format(sidecar->input, sidecar->root, "eplb-ids-1",
                                    "the sidecar of routed ids, with \"format\":\"eplb-ids-1\"", error));
    EPLB_TRY(eplb_json_check_keys(sidecar->input, "the top level", sidecar->root, top_keys, COUNT(top_keys),
                                  error));
    EPLB_TRY(read_dtype(sidecar, error));
    EPLB_TRY(read_axes(sidecar, error));
    EPLB_TRY(read_shape(sidecar, error));
    EPLB_TRY(read_experts(sidecar, ids, error));
    EPLB_TRY(read_kind(sidecar, ids, error));
    EPLB_TRY(read_steps(sidecar, ids, error));
    EPLB_TRY(read_layers(sidecar, ids, error));
    return read_phases(sidecar, ids, error);
}

enum eplb_status eplb_ids_parse_sidecar(const struct eplb_input *sidecar, const struct eplb_input *data,
                                        size_t item_bytes, struct eplb_ids *ids, struct eplb_error *error)
{
    EPLB_ASSERT(item_bytes == 1 || item_bytes == 2);
    struct sidecar read = {.input = sidecar, .data = data, .item_bytes = item_bytes};
    EPLB_TRY(eplb_json_parse(sidecar, &read.root, error));
    enum eplb_status status = read_document(&read, ids, error);
    json_decref(read.root);
    return status;
}
