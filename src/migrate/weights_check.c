/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* What a registration must be like. Everything here is input of the model, so nothing is asserted. */
#include "migrate/weights_state.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* A tensor and where it stands, for sentences. */
struct place {
    int32_t layer;
    int32_t index;
    const struct eplb_tensor *tensor;
};

#define PLACE "layer %d, tensor %d (%s)"
#define PLACE_VALUES(place) (place)->layer, (place)->index, (place)->tensor->name

/* The memory of a tensor. */
struct range {
    uintptr_t begin;
    uintptr_t end;
    bool per_expert;
};

static struct range range_of(const struct eplb_shape *shape, const void *data, size_t bytes, bool per_expert)
{
    size_t size = per_expert ? bytes * (size_t)shape->slots_per_rank : bytes;
    EPLB_ASSERT(size >= bytes && (uintptr_t)data <= UINTPTR_MAX - size);
    return (struct range){(uintptr_t)data, (uintptr_t)data + size, per_expert};
}

/* What never moves may be shared, for instance one router for two layers. */
static bool collide(struct range a, struct range b)
{
    return (a.per_expert || b.per_expert) && a.begin < b.end && b.begin < a.end;
}

static enum eplb_status check_memory(const struct eplb_shape *shape, const struct place *place,
                                     struct eplb_error *error)
{
    const struct eplb_tensor *tensor = place->tensor;
    int64_t count = tensor->per_expert == EPLB_PER_EXPERT_YES ? shape->slots_per_rank : 1;
    int64_t bytes;
    if (tensor->data == NULL)
        EPLB_FAIL(EPLB_INVALID, PLACE " has no address", PLACE_VALUES(place));
    if (tensor->bytes_per_expert <= 0)
        EPLB_FAIL(EPLB_INVALID, PLACE " has %lld bytes per expert; allowed is 1 and more",
                  PLACE_VALUES(place), (long long)tensor->bytes_per_expert);
    if (__builtin_mul_overflow(count, tensor->bytes_per_expert, &bytes) ||
        (uint64_t)bytes > UINTPTR_MAX - (uintptr_t)tensor->data)
        EPLB_FAIL(EPLB_INVALID, PLACE ": %lld times %lld bytes reach beyond the end of memory",
                  PLACE_VALUES(place), (long long)count, (long long)tensor->bytes_per_expert);
    return EPLB_OK;
}

static enum eplb_status check_tensor(const struct eplb_shape *shape, const struct place *place,
                                     struct eplb_error *error)
{
    const struct eplb_tensor *tensor = place->tensor;
    if (tensor->size != sizeof *tensor)
        EPLB_FAIL(EPLB_INVALID, "layer %d, tensor %d: eplb_tensor.size is %zu; this library's is %zu",
                  place->layer, place->index, tensor->size, sizeof *tensor);
    if (tensor->name == NULL || tensor->name[0] == '\0')
        EPLB_FAIL(EPLB_INVALID, "layer %d, tensor %d has no name", place->layer, place->index);
    if (tensor->per_expert != EPLB_PER_EXPERT_YES && tensor->per_expert != EPLB_PER_EXPERT_NO)
        EPLB_FAIL(EPLB_INVALID, PLACE " does not say whether it is per expert: per_expert is %d",
                  PLACE_VALUES(place), (int)tensor->per_expert);
    if (tensor->per_expert == EPLB_PER_EXPERT_YES && tensor->first_dimension != shape->slots_per_rank)
        EPLB_FAIL(EPLB_INVALID, PLACE " is per expert with first dimension %lld; slots_per_rank is %d",
                  PLACE_VALUES(place), (long long)tensor->first_dimension, shape->slots_per_rank);
    if (tensor->first_dimension < 0)
        EPLB_FAIL(EPLB_INVALID, PLACE " has first dimension %lld; allowed is 0 (a scalar) and more",
                  PLACE_VALUES(place), (long long)tensor->first_dimension);
    return check_memory(shape, place, error);
}

static enum eplb_status check_same(const struct place *place, const char *name, bool per_expert, size_t bytes,
                                   struct eplb_error *error)
{
    const struct eplb_tensor *tensor = place->tensor;
    if (strncmp(tensor->name, name, EPLB_TENSOR_NAME - 1) != 0)
        EPLB_FAIL(EPLB_INVALID, PLACE " is %.31s in layer 0; all layers have the same tensors",
                  PLACE_VALUES(place), name);
    if ((tensor->per_expert == EPLB_PER_EXPERT_YES) != per_expert)
        EPLB_FAIL(EPLB_INVALID, PLACE " is per expert in one layer and not in another", PLACE_VALUES(place));
    if ((size_t)tensor->bytes_per_expert != bytes)
        EPLB_FAIL(EPLB_INVALID,
                  PLACE " has %lld bytes per expert, but %zu in layer 0; staging serves all layers",
                  PLACE_VALUES(place), (long long)tensor->bytes_per_expert, bytes);
    return EPLB_OK;
}

static enum eplb_status check_names(const struct eplb_weights_params *params, struct eplb_error *error)
{
    for (int32_t t = 0; t < params->num_tensors; t++) {
        for (int32_t other = 0; other < t; other++) {
            if (strncmp(params->tensors[t].name, params->tensors[other].name, EPLB_TENSOR_NAME - 1) == 0)
                EPLB_FAIL(EPLB_INVALID, "tensors %d and %d have the same first 31 bytes of name, %.31s",
                          other, t, params->tensors[t].name);
        }
    }
    return EPLB_OK;
}

static struct place place_of(const struct eplb_weights_params *params, size_t number)
{
    size_t per_layer = (size_t)params->num_tensors;
    return (struct place){(int32_t)(number / per_layer), (int32_t)(number % per_layer),
                          &params->tensors[number]};
}

static struct range range_at(const struct eplb_weights_params *params, size_t number)
{
    const struct eplb_tensor *tensor = &params->tensors[number];
    return range_of(&params->shape, tensor->data, (size_t)tensor->bytes_per_expert,
                    tensor->per_expert == EPLB_PER_EXPERT_YES);
}

/* The usual mistake: the loop that registers takes the first layer's address every time. */
static enum eplb_status check_apart(const struct eplb_weights_params *params, size_t number,
                                    struct eplb_error *error)
{
    struct range range = range_at(params, number);
    for (size_t other = 0; other < number; other++) {
        if (!collide(range, range_at(params, other)))
            continue;
        struct place a = place_of(params, other);
        struct place b = place_of(params, number);
        EPLB_FAIL(EPLB_INVALID, PLACE " and " PLACE " share memory", PLACE_VALUES(&a), PLACE_VALUES(&b));
    }
    return EPLB_OK;
}

static enum eplb_status check_sum(const struct eplb_weights_params *params, struct eplb_error *error)
{
    int64_t sum = 0;
    for (int32_t t = 0; t < params->num_tensors; t++) {
        const struct eplb_tensor *tensor = &params->tensors[t];
        if (tensor->per_expert == EPLB_PER_EXPERT_YES &&
            __builtin_add_overflow(sum, tensor->bytes_per_expert, &sum))
            EPLB_FAIL(EPLB_INVALID, "the per-expert tensors of a layer add up to more than 2^63 bytes");
    }
    if (sum == 0)
        EPLB_FAIL(EPLB_INVALID, "none of the %d tensors of a layer is per expert", params->num_tensors);
    if (params->expert_bytes != 0 && params->expert_bytes != sum)
        EPLB_FAIL(EPLB_INVALID,
                  "an expert has %lld bytes, but its registered tensors add up to %lld: the list lacks a "
                  "tensor or has one too many",
                  (long long)params->expert_bytes, (long long)sum);
    return EPLB_OK;
}

static enum eplb_status check_head(const struct eplb_weights_params *params, struct eplb_error *error)
{
    const struct eplb_shape *shape = &params->shape;
    struct eplb_shape again;
    if (params->size != sizeof *params)
        EPLB_FAIL(EPLB_INVALID, "eplb_weights_params.size is %zu; this library's is %zu", params->size,
                  sizeof *params);
    EPLB_TRY(eplb_shape_init(&again, shape->num_layers, shape->num_experts, shape->ep_size,
                             shape->redundant_experts_num, error));
    if (shape->slots_per_rank != again.slots_per_rank || shape->num_slots != again.num_slots)
        EPLB_FAIL(EPLB_INVALID,
                  "eplb_weights_params.shape has %d slots per rank and %d slots; %d experts on %d ranks with "
                  "%d redundant have %d and %d",
                  shape->slots_per_rank, shape->num_slots, shape->num_experts, shape->ep_size,
                  shape->redundant_experts_num, again.slots_per_rank, again.num_slots);
    if (params->ep_rank < 0 || params->ep_rank >= shape->ep_size)
        EPLB_FAIL(EPLB_INVALID, "ep_rank %d is not in [0, %d)", params->ep_rank, shape->ep_size);
    if (params->num_tensors < 1 || params->num_tensors > EPLB_MAX_TENSORS)
        EPLB_FAIL(EPLB_INVALID, "%d tensors per layer are not in [1, %d]", params->num_tensors,
                  EPLB_MAX_TENSORS);
    if (params->tensors == NULL)
        EPLB_FAIL(EPLB_INVALID, "the list of tensors is missing");
    return EPLB_OK;
}

enum eplb_status eplb_weights_check_params(const struct eplb_weights_params *params, struct eplb_error *error)
{
    EPLB_TRY(check_head(params, error));
    size_t count = (size_t)params->shape.num_layers * (size_t)params->num_tensors;
    for (size_t number = 0; number < count; number++) {
        struct place place = place_of(params, number);
        const struct eplb_tensor *first = &params->tensors[place.index];
        EPLB_TRY(check_tensor(&params->shape, &place, error));
        EPLB_TRY(check_same(&place, first->name, first->per_expert == EPLB_PER_EXPERT_YES,
                            (size_t)first->bytes_per_expert, error));
        EPLB_TRY(check_apart(params, number, error));
    }
    EPLB_TRY(check_names(params, error));
    return check_sum(params, error);
}

static enum eplb_status check_apart_from_all(const struct eplb_weights *weights, const struct place *place,
                                             struct eplb_error *error)
{
    const struct eplb_shape *shape = &weights->shape;
    const struct eplb_tensor_kind *kind = &weights->kinds[place->index];
    struct range range = range_of(shape, place->tensor->data, kind->bytes, kind->per_expert);
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        for (int32_t t = 0; t < weights->num_tensors; t++) {
            const unsigned char *data = eplb_weights_data(weights, layer, t);
            const struct eplb_tensor_kind *other = &weights->kinds[t];
            if (data == NULL || (layer == place->layer && t == place->index))
                continue;
            if (collide(range, range_of(shape, data, other->bytes, other->per_expert)))
                EPLB_FAIL(EPLB_INVALID, PLACE " shares memory with layer %d, tensor %d (%s)",
                          PLACE_VALUES(place), layer, t, other->name);
        }
    }
    return EPLB_OK;
}

enum eplb_status eplb_weights_check_replacement(const struct eplb_weights *weights, int32_t layer,
                                                int32_t tensor, const struct eplb_tensor *replacement,
                                                struct eplb_error *error)
{
    EPLB_ASSERT(layer >= 0 && layer < weights->shape.num_layers);
    EPLB_ASSERT(tensor >= 0 && tensor < weights->num_tensors);
    struct place place = {layer, tensor, replacement};
    const struct eplb_tensor_kind *kind = &weights->kinds[tensor];
    EPLB_TRY(check_tensor(&weights->shape, &place, error));
    EPLB_TRY(check_same(&place, kind->name, kind->per_expert, kind->bytes, error));
    return check_apart_from_all(weights, &place, error);
}
