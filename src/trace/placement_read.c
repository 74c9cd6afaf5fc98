/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/placement_file.h"

#include <stdlib.h>

#include "base/error.h"
#include "os/file.h"
#include "trace/json_input.h"

static const char *const known_keys[] = {"format",    "num_experts", "ep_size",        "slots_per_rank",
                                         "layer_ids", "expert_ids",  "weights",        "policy",
                                         "predicted", "gate",        "replica_routing"};

/* The key of a table [num_layers][ep_size][slots_per_rank] and what its entries may be. */
struct table {
    const char *key;
    const char *entry;
    int32_t low;
    int32_t high;
};

static enum eplb_status read_shape(const struct eplb_input *input, const json_t *root,
                                   struct eplb_shape *shape, struct eplb_error *error)
{
    int32_t num_experts;
    int32_t ep_size;
    int32_t slots_per_rank;
    int32_t num_layers;
    EPLB_TRY(eplb_json_size(input, root, "num_experts", EPLB_MAX_EXPERTS, &num_experts, error));
    EPLB_TRY(eplb_json_size(input, root, "ep_size", EPLB_MAX_RANKS, &ep_size, error));
    EPLB_TRY(eplb_json_size(input, root, "slots_per_rank", EPLB_MAX_SLOTS, &slots_per_rank, error));
    EPLB_TRY(eplb_json_layers(input, root, json_object_get(root, "expert_ids"), "\"expert_ids\"", &num_layers,
                              error));
    int32_t owned = num_experts / ep_size;
    if (slots_per_rank < owned)
        EPLB_FAIL(EPLB_INVALID, "%s: slots_per_rank is %d; %d experts on %d ranks need at least %d",
                  input->name, slots_per_rank, num_experts, ep_size, owned);
    struct eplb_error reason;
    enum eplb_status status =
        eplb_shape_init(shape, num_layers, num_experts, ep_size, slots_per_rank - owned, &reason);
    if (status != EPLB_OK)
        EPLB_FAIL(status, "%s: %s", input->name, reason.text);
    return EPLB_OK;
}

static enum eplb_status check_layer(const struct eplb_input *input, const json_t *root,
                                    const struct table *table, const struct eplb_shape *shape, int32_t layer,
                                    struct eplb_error *error)
{
    const json_t *ranks = json_array_get(json_object_get(root, table->key), (size_t)layer);
    int32_t id = eplb_json_layer_id(root, layer);
    if (!json_is_array(ranks))
        EPLB_FAIL(EPLB_INVALID, "%s: %s[%d] (layer %d) is %s; it must be an array of %d ranks", input->name,
                  table->key, layer, id, eplb_json_describe(ranks).text, shape->ep_size);
    if (json_array_size(ranks) != (size_t)shape->ep_size)
        EPLB_FAIL(EPLB_INVALID, "%s: %s[%d] (layer %d) has %zu ranks; ep_size is %d", input->name, table->key,
                  layer, id, json_array_size(ranks), shape->ep_size);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        const json_t *slots = json_array_get(ranks, (size_t)rank);
        if (!json_is_array(slots))
            EPLB_FAIL(EPLB_INVALID,
                      "%s: %s[%d][%d] (layer %d, rank %d) is %s; it must be an array of %d slots",
                      input->name, table->key, layer, rank, id, rank, eplb_json_describe(slots).text,
                      shape->slots_per_rank);
        if (json_array_size(slots) != (size_t)shape->slots_per_rank)
            EPLB_FAIL(EPLB_INVALID, "%s: %s[%d][%d] (layer %d, rank %d) has %zu slots; slots_per_rank is %d",
                      input->name, table->key, layer, rank, id, rank, json_array_size(slots),
                      shape->slots_per_rank);
    }
    return EPLB_OK;
}

static enum eplb_status check_table(const struct eplb_input *input, const json_t *root,
                                    const struct table *table, const struct eplb_shape *shape,
                                    struct eplb_error *error)
{
    const json_t *layers = json_object_get(root, table->key);
    if (!json_is_array(layers))
        EPLB_FAIL(EPLB_INVALID, "%s: \"%s\" is %s; it must be an array of %d layers", input->name, table->key,
                  eplb_json_describe(layers).text, shape->num_layers);
    if (json_array_size(layers) != (size_t)shape->num_layers)
        EPLB_FAIL(EPLB_INVALID, "%s: \"%s\" has %zu layers; the file has %d layer ids", input->name,
                  table->key, json_array_size(layers), shape->num_layers);
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        EPLB_TRY(check_layer(input, root, table, shape, layer, error));
    return EPLB_OK;
}

static enum eplb_status read_layer(const struct eplb_input *input, const json_t *root,
                                   const struct table *table, const struct eplb_shape *shape, int32_t layer,
                                   int32_t *entries, struct eplb_error *error)
{
    const json_t *ranks = json_array_get(json_object_get(root, table->key), (size_t)layer);
    for (int32_t rank = 0; rank < shape->ep_size; rank++)
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
            const json_t *value = json_array_get(json_array_get(ranks, (size_t)rank), (size_t)slot);
            int64_t entry;
            if (!eplb_json_integer(value, table->low, table->high, &entry))
                EPLB_FAIL(
                    EPLB_INVALID,
                    "%s: %s[%d][%d][%d] (layer %d, rank %d, slot %d) is %s; %s is an integer from %d to %d",
                    input->name, table->key, layer, rank, slot, eplb_json_layer_id(root, layer), rank, slot,
                    eplb_json_describe(value).text, table->entry, table->low, table->high);
            *entries++ = (int32_t)entry;
        }
    return EPLB_OK;
}

static enum eplb_status read_table(const struct eplb_input *input, const json_t *root,
                                   const struct table *table, const struct eplb_shape *shape,
                                   int32_t *entries, struct eplb_error *error)
{
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        EPLB_TRY(read_layer(input, root, table, shape, layer,
                            entries + (size_t)layer * (size_t)shape->num_slots, error));
    return EPLB_OK;
}

static enum eplb_status check_legal(const struct eplb_input *input, const struct eplb_placement_file *file,
                                    int32_t *scratch, struct eplb_error *error)
{
    for (int32_t layer = 0; layer < file->shape.num_layers; layer++) {
        size_t row = (size_t)layer * (size_t)file->shape.num_slots;
        struct eplb_error reason;
        enum eplb_status status = eplb_placement_check(&file->shape, file->expert_ids + row, &reason);
        if (status == EPLB_OK && file->weights != NULL)
            status = eplb_weights_check(&file->shape, file->expert_ids + row, file->weights + row, scratch,
                                        &reason);
        if (status != EPLB_OK)
            EPLB_FAIL(status, "%s: layer %d: %s", input->name, file->layer_ids[layer], reason.text);
    }
    return EPLB_OK;
}

static enum eplb_status fill_file(const struct eplb_input *input, const json_t *root,
                                  const struct table *experts, const struct table *weights,
                                  struct eplb_placement_file *file, struct eplb_error *error)
{
    EPLB_TRY(eplb_json_text(input, "\"policy\"", json_object_get(root, "policy"), file->policy,
                            sizeof file->policy, error));
    EPLB_TRY(eplb_json_text(input, "\"replica_routing\"", json_object_get(root, "replica_routing"),
                            file->replica_routing, sizeof file->replica_routing, error));
    for (int32_t layer = 0; layer < file->shape.num_layers; layer++)
        file->layer_ids[layer] = eplb_json_layer_id(root, layer);
    EPLB_TRY(read_table(input, root, experts, &file->shape, file->expert_ids, error));
    if (file->weights != NULL)
        EPLB_TRY(read_table(input, root, weights, &file->shape, file->weights, error));
    int32_t *scratch = calloc((size_t)file->shape.num_experts, sizeof *scratch);
    if (scratch == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to check the placement in %s", input->name);
    enum eplb_status status = check_legal(input, file, scratch, error);
    free(scratch);
    return status;
}

static enum eplb_status read_document(const struct eplb_input *input, json_t *root,
                                      struct eplb_placement_file *file, struct eplb_error *error)
{
    EPLB_TRY(eplb_json_check_format(input, root, "eplb-placement-1",
                                    "JSON with \"format\":\"eplb-placement-1\"", error));
    EPLB_TRY(eplb_json_check_keys(input, "the top level", root, known_keys,
                                  sizeof known_keys / sizeof known_keys[0], error));
    struct eplb_shape shape;
    EPLB_TRY(read_shape(input, root, &shape, error));
    const struct table experts = {"expert_ids", "an expert id", 0, shape.num_experts - 1};
    const struct table weights = {"weights", "a weight", 1, EPLB_WEIGHT_UNIT};
    bool with_weights = json_object_get(root, "weights") != NULL;
    /* All rows are checked before memory is taken: it becomes as much as they need, never as much
     * as the file only declares. */
    EPLB_TRY(check_table(input, root, &experts, &shape, error));
    if (with_weights)
        EPLB_TRY(check_table(input, root, &weights, &shape, error));
    struct eplb_placement_file made;
    EPLB_TRY(eplb_placement_file_init(&made, &shape, with_weights, error));
    enum eplb_status status = fill_file(input, root, &experts, &weights, &made, error);
    if (status == EPLB_OK)
        *file = made;
    else
        eplb_placement_file_free(&made);
    return status;
}

enum eplb_status eplb_placement_file_parse(const struct eplb_input *input, struct eplb_placement_file *file,
                                           struct eplb_error *error)
{
    json_t *root;
    EPLB_TRY(eplb_json_parse(input, &root, error));
    enum eplb_status status = read_document(input, root, file, error);
    json_decref(root);
    return status;
}

enum eplb_status eplb_placement_file_read(const char *path, struct eplb_placement_file *file,
                                          struct eplb_error *error)
{
    char *bytes;
    size_t size;
    EPLB_TRY(eplb_file_read(path, &bytes, &size, error));
    struct eplb_input input = {.name = eplb_input_name(path), .bytes = bytes, .size = size};
    enum eplb_status status = eplb_placement_file_parse(&input, file, error);
    free(bytes);
    return status;
}
