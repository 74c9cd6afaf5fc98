/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "migrate/weights_state.h"

#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"

unsigned char *eplb_weights_data(const struct eplb_weights *weights, int32_t layer, int32_t tensor)
{
    EPLB_ASSERT(layer >= 0 && layer < weights->shape.num_layers);
    EPLB_ASSERT(tensor >= 0 && tensor < weights->num_tensors);
    return weights->data[(size_t)layer * (size_t)weights->num_tensors + (size_t)tensor];
}

int32_t eplb_weights_lost(const struct eplb_weights *weights, int32_t layer)
{
    for (int32_t t = 0; t < weights->num_tensors; t++)
        if (eplb_weights_data(weights, layer, t) == NULL)
            return t;
    return -1;
}

static void take_staging(struct eplb_arena *arena, const struct eplb_weights_params *params,
                         struct eplb_tensor_kind *kinds)
{
    for (int32_t t = 0; t < params->num_tensors; t++) {
        if (params->tensors[t].per_expert != EPLB_PER_EXPERT_YES)
            continue;
        unsigned char *staging = eplb_arena_take(arena, (size_t)params->shape.slots_per_rank,
                                                 (size_t)params->tensors[t].bytes_per_expert);
        if (kinds != NULL)
            kinds[t].staging = staging;
    }
}

/* struct | kinds | addresses | staging of each per-expert tensor */
static struct eplb_weights *lay_out(struct eplb_arena *arena, const struct eplb_weights_params *params)
{
    size_t tensors = (size_t)params->num_tensors;
    struct eplb_weights layout = {.shape = params->shape, .ep_rank = params->ep_rank, .epoch = 1};
    struct eplb_weights *weights = eplb_arena_take(arena, 1, sizeof *weights);
    layout.num_tensors = params->num_tensors;
    layout.kinds = eplb_arena_take(arena, tensors, sizeof *layout.kinds);
    layout.data = eplb_arena_take(arena, (size_t)params->shape.num_layers * tensors, sizeof *layout.data);
    size_t before = arena->used;
    take_staging(arena, params, layout.kinds);
    layout.staging_bytes = arena->used - before;
    if (weights != NULL)
        *weights = layout;
    return weights;
}

static void fill(struct eplb_weights *weights, const struct eplb_weights_params *params)
{
    size_t count = (size_t)weights->shape.num_layers * (size_t)weights->num_tensors;
    for (int32_t t = 0; t < weights->num_tensors; t++) {
        const struct eplb_tensor *tensor = &params->tensors[t];
        struct eplb_tensor_kind *kind = &weights->kinds[t];
        size_t length = strlen(tensor->name);
        memcpy(kind->name, tensor->name, length < EPLB_TENSOR_NAME ? length : EPLB_TENSOR_NAME - 1);
        kind->bytes = (size_t)tensor->bytes_per_expert;
        kind->per_expert = tensor->per_expert == EPLB_PER_EXPERT_YES;
        weights->num_per_expert += kind->per_expert;
        weights->expert_bytes += kind->per_expert ? tensor->bytes_per_expert : 0;
        EPLB_ASSERT((kind->staging != NULL) == kind->per_expert);
    }
    for (size_t number = 0; number < count; number++)
        weights->data[number] = params->tensors[number].data;
    EPLB_ASSERT(weights->num_per_expert > 0 && weights->expert_bytes > 0);
}

enum eplb_status eplb_weights_create(const struct eplb_weights_params *params, struct eplb_weights **weights,
                                     struct eplb_error *error)
{
    EPLB_TRY(eplb_weights_check_params(params, error));
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    lay_out(&arena, params);
    /* The block comes zeroed, which touches every page of staging. */
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for staging of %d slots with %d tensors",
                  params->shape.slots_per_rank, params->num_tensors);
    struct eplb_weights *created = lay_out(&arena, params);
    EPLB_ASSERT(created == block && !arena.overflow);
    fill(created, params);
    EPLB_LOG(params->log, STAGING_WARMED, EPLB_VALUE_INT(created->ep_rank),
             EPLB_VALUE_INT(created->staging_bytes), EPLB_VALUE_INT(created->num_per_expert));
    *weights = created;
    return EPLB_OK;
}

void eplb_weights_destroy(struct eplb_weights *weights)
{
    eplb_arena_free(weights);
}

const struct eplb_shape *eplb_weights_shape(const struct eplb_weights *weights)
{
    return &weights->shape;
}

int32_t eplb_weights_ep_rank(const struct eplb_weights *weights)
{
    return weights->ep_rank;
}

size_t eplb_weights_staging_bytes(const struct eplb_weights *weights)
{
    return weights->staging_bytes;
}

int32_t eplb_weights_staging_tensors(const struct eplb_weights *weights)
{
    return weights->num_per_expert;
}

int64_t eplb_weights_expert_bytes(const struct eplb_weights *weights)
{
    return weights->expert_bytes;
}

uint64_t eplb_weights_epoch(const struct eplb_weights *weights)
{
    return weights->epoch;
}

enum eplb_status eplb_weights_reregister(struct eplb_weights *weights, int32_t layer, int32_t tensor,
                                         const struct eplb_tensor *replacement, struct eplb_error *error)
{
    if (layer < 0 || layer >= weights->shape.num_layers)
        EPLB_FAIL(EPLB_INVALID, "layer %d is not in [0, %d)", layer, weights->shape.num_layers);
    if (tensor < 0 || tensor >= weights->num_tensors)
        EPLB_FAIL(EPLB_INVALID, "layer %d: tensor %d is not in [0, %d)", layer, tensor, weights->num_tensors);
    unsigned char **data = &weights->data[(size_t)layer * (size_t)weights->num_tensors + (size_t)tensor];
    *data = NULL;
    weights->epoch++;
    EPLB_TRY(eplb_weights_check_replacement(weights, layer, tensor, replacement, error));
    *data = replacement->data;
    return EPLB_OK;
}
