/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "expert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[EPLB_MAX_TENSORS] = {"w13", "w2",  "scale", "bias", "alpha", "t5",
                                                    "t6",  "t7",  "t8",    "t9",   "t10",   "t11",
                                                    "t12", "t13", "t14",   "t15"};

static unsigned char fingerprint(int32_t layer, int32_t expert, int32_t tensor, int64_t byte)
{
    uint64_t x = (uint64_t)layer << 48 ^ (uint64_t)expert << 28 ^ (uint64_t)tensor << 20 ^ (uint64_t)byte;
    x *= UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 32;
    x *= UINT64_C(0xD6E8FEB86659FD93);
    return (unsigned char)(x >> 56);
}

static int holds(const unsigned char *data, int32_t layer, int32_t expert, int32_t tensor, int64_t bytes)
{
    for (int64_t byte = 0; byte < bytes; byte++)
        if (data[byte] != fingerprint(layer, expert, tensor, byte))
            return 0;
    return 1;
}

static void put(unsigned char *data, int32_t layer, int32_t expert, int32_t tensor, int64_t bytes)
{
    for (int64_t byte = 0; byte < bytes; byte++)
        data[byte] = fingerprint(layer, expert, tensor, byte);
}

static struct eplb_tensor *tensor_of(const struct expert_model *model, int32_t layer, int32_t tensor)
{
    return &model->tensors[layer * model->num_tensors + tensor];
}

static void *allocate(int64_t bytes)
{
    void *data = calloc(1, (size_t)bytes);
    assert_non_null(data);
    return data;
}

static void add_layer(struct expert_model *model, const struct expert_sizes *sizes, int32_t layer)
{
    int32_t slots = model->shape.slots_per_rank;
    for (int32_t t = 0; t < model->num_tensors - 1; t++)
        *tensor_of(model, layer, t) = (struct eplb_tensor){.size = sizeof(struct eplb_tensor),
                                                           .name = names[t],
                                                           .data = allocate(slots * sizes->bytes[t]),
                                                           .first_dimension = slots,
                                                           .bytes_per_expert = sizes->bytes[t],
                                                           .per_expert = EPLB_PER_EXPERT_YES};
    *tensor_of(model, layer, model->num_tensors - 1) =
        (struct eplb_tensor){.size = sizeof(struct eplb_tensor),
                             .name = "shared expert",
                             .data = allocate(sizes->shared),
                             .first_dimension = slots,
                             .bytes_per_expert = sizes->shared,
                             .per_expert = EPLB_PER_EXPERT_NO};
}

void expert_model_init(struct expert_model *model, const struct eplb_shape *shape, int32_t ep_rank,
                       const struct expert_sizes *sizes, const int32_t *tables)
{
    struct eplb_error error;
    *model = (struct expert_model){.shape = *shape, .ep_rank = ep_rank, .num_tensors = 1};
    int64_t sum = 0;
    for (int32_t t = 0; t < EPLB_MAX_TENSORS && sizes->bytes[t] > 0; t++) {
        sum += sizes->bytes[t];
        model->num_tensors++;
    }
    assert_in_range(model->num_tensors, 2, EPLB_MAX_TENSORS);
    model->tensors = calloc((size_t)(shape->num_layers * model->num_tensors), sizeof *model->tensors);
    assert_non_null(model->tensors);
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        add_layer(model, sizes, layer);
        put(tensor_of(model, layer, model->num_tensors - 1)->data, layer, -1, 0, sizes->shared);
        expert_model_load(model, layer, tables + layer * shape->num_slots);
    }
    struct eplb_weights_params params = {.size = sizeof params,
                                         .shape = *shape,
                                         .ep_rank = ep_rank,
                                         .num_tensors = model->num_tensors,
                                         .tensors = model->tensors,
                                         .expert_bytes = sum};
    if (eplb_weights_create(&params, &model->weights, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

void expert_model_destroy(struct expert_model *model)
{
    for (int32_t layer = 0; layer < model->shape.num_layers; layer++)
        for (int32_t t = 0; t < model->num_tensors; t++)
            free(tensor_of(model, layer, t)->data);
    free(model->tensors);
    eplb_weights_destroy(model->weights);
}

void expert_model_load(struct expert_model *model, int32_t layer, const int32_t *expert_ids)
{
    const int32_t *own = expert_ids + model->ep_rank * model->shape.slots_per_rank;
    for (int32_t t = 0; t < model->num_tensors - 1; t++) {
        const struct eplb_tensor *tensor = tensor_of(model, layer, t);
        for (int32_t slot = 0; slot < model->shape.slots_per_rank; slot++)
            put((unsigned char *)tensor->data + slot * tensor->bytes_per_expert, layer, own[slot], t,
                tensor->bytes_per_expert);
    }
}

int32_t expert_model_wrong_slot(const struct expert_model *model, int32_t layer, const int32_t *expert_ids)
{
    const int32_t *own = expert_ids + model->ep_rank * model->shape.slots_per_rank;
    const struct eplb_tensor *shared = tensor_of(model, layer, model->num_tensors - 1);
    for (int32_t slot = 0; slot < model->shape.slots_per_rank; slot++) {
        for (int32_t t = 0; t < model->num_tensors - 1; t++) {
            const struct eplb_tensor *tensor = tensor_of(model, layer, t);
            if (!holds((const unsigned char *)tensor->data + slot * tensor->bytes_per_expert, layer,
                       own[slot], t, tensor->bytes_per_expert))
                return slot;
        }
    }
    return holds(shared->data, layer, -1, 0, shared->bytes_per_expert) ? -1 : model->shape.num_slots;
}

static int staging_holds(const struct expert_model *model, int32_t layer, int32_t slot, int32_t expert)
{
    struct eplb_part parts[EPLB_MAX_PARTS];
    size_t count = eplb_weights_parts(model->weights, layer, EPLB_SIDE_STAGING, slot, 0,
                                      eplb_weights_expert_bytes(model->weights), parts);
    for (size_t t = 0; t < count; t++)
        if (!holds(parts[t].data, layer, expert, (int32_t)t, (int64_t)parts[t].size))
            return 0;
    return count == (size_t)model->num_tensors - 1;
}

int32_t expert_model_wrong_staging(const struct expert_model *model, const struct eplb_layer_plan *plan)
{
    int32_t slots = model->shape.slots_per_rank;
    for (int32_t move = 0; move < plan->num_moves; move++) {
        int32_t slot = plan->moves[move].slot;
        if (slot / slots == model->ep_rank &&
            !staging_holds(model, plan->layer, slot % slots, plan->moves[move].expert))
            return slot % slots;
    }
    return -1;
}
