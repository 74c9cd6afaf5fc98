/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/placement_file.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"

/* Equal weights in every layer, by way of one scratch array of [num_experts]. */
static bool set_equal_weights(struct eplb_placement_file *file)
{
    int32_t *scratch = calloc((size_t)file->shape.num_experts, sizeof *scratch);
    if (scratch == NULL)
        return false;
    for (int32_t layer = 0; layer < file->shape.num_layers; layer++) {
        size_t row = (size_t)layer * (size_t)file->shape.num_slots;
        eplb_weights_equal(&file->shape, file->expert_ids + row, scratch, file->weights + row);
    }
    free(scratch);
    return true;
}

enum eplb_status eplb_placement_file_init(struct eplb_placement_file *file, const struct eplb_shape *shape,
                                          bool with_weights, struct eplb_error *error)
{
    EPLB_ASSERT(shape->num_layers > 0 && shape->num_slots > 0);
    size_t num_layers = (size_t)shape->num_layers;
    size_t row_bytes = (size_t)shape->num_slots * sizeof(int32_t);
    struct eplb_placement_file made = {
        .shape = *shape,
        .layer_ids = calloc(num_layers, sizeof *made.layer_ids),
        .expert_ids = calloc(num_layers, row_bytes),
        .weights = with_weights ? calloc(num_layers, row_bytes) : NULL,
    };
    if (made.layer_ids == NULL || made.expert_ids == NULL || (with_weights && made.weights == NULL))
        goto free_arrays;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        made.layer_ids[layer] = layer;
        eplb_placement_initial(shape, made.expert_ids + (size_t)layer * (size_t)shape->num_slots);
    }
    if (with_weights && !set_equal_weights(&made))
        goto free_arrays;
    *file = made;
    return EPLB_OK;

free_arrays:
    eplb_placement_file_free(&made);
    EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a placement of %d layers x %d slots", shape->num_layers,
              shape->num_slots);
}

void eplb_placement_file_free(struct eplb_placement_file *file)
{
    free(file->layer_ids);
    free(file->expert_ids);
    free(file->weights);
    *file = (struct eplb_placement_file){0};
}

enum eplb_status eplb_placement_file_match(const struct eplb_placement_file *file, int32_t num_experts,
                                           int32_t ep_size, int32_t redundant_experts_num,
                                           struct eplb_error *error)
{
    const struct eplb_shape *shape = &file->shape;
    if (shape->num_experts != num_experts)
        EPLB_FAIL(EPLB_INVALID, "the placement is for %d experts; num_experts is %d", shape->num_experts,
                  num_experts);
    if (shape->ep_size != ep_size)
        EPLB_FAIL(EPLB_INVALID, "the placement is for %d ranks; ep_size is %d", shape->ep_size, ep_size);
    int64_t needed = (int64_t)num_experts / ep_size + redundant_experts_num;
    if (shape->slots_per_rank != needed)
        EPLB_FAIL(EPLB_INVALID,
                  "the placement has %d slots (%d on each of %d ranks); %d experts with "
                  "redundant_experts_num %d need "
                  "%" PRId64 " (%" PRId64 " on each)",
                  shape->num_slots, shape->slots_per_rank, ep_size, num_experts, redundant_experts_num,
                  needed * ep_size, needed);
    return EPLB_OK;
}

int32_t eplb_placement_file_row(const struct eplb_placement_file *file, int32_t layer_id)
{
    int32_t first = 0;
    int32_t end = file->shape.num_layers;
    EPLB_ASSERT(end > 0);
    while (first < end) {
        int32_t middle = first + (end - first) / 2;
        if (file->layer_ids[middle] == layer_id)
            return middle;
        if (file->layer_ids[middle] < layer_id)
            first = middle + 1;
        else
            end = middle;
    }
    return -1;
}
