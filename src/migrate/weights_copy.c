/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "migrate/weights_state.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* At least half of the slots: one copy of a whole tensor is cheaper than one per slot. */
static bool changes_whole(const struct eplb_weights *weights, const struct eplb_layer_plan *plan)
{
    EPLB_ASSERT(plan->num_local_changes >= 0);
    EPLB_ASSERT(plan->num_local_changes <= weights->shape.slots_per_rank);
    return plan->num_local_changes >= weights->shape.slots_per_rank - plan->num_local_changes;
}

/* The index of the first move of this rank; its others follow, as moves ascend by slot. */
static int32_t first_local(const struct eplb_weights *weights, const struct eplb_layer_plan *plan)
{
    int32_t begin = weights->ep_rank * weights->shape.slots_per_rank;
    int32_t move = 0;
    while (move < plan->num_moves && plan->moves[move].slot < begin)
        move++;
    EPLB_ASSERT(move + plan->num_local_changes <= plan->num_moves);
    return move;
}

/* The slot as this rank counts it. */
static size_t local_slot(const struct eplb_weights *weights, int32_t slot)
{
    int32_t local = slot - weights->ep_rank * weights->shape.slots_per_rank;
    EPLB_ASSERT(local >= 0 && local < weights->shape.slots_per_rank);
    return (size_t)local;
}

static void stage_slot(const struct eplb_weights *weights, int32_t layer, size_t to, size_t from)
{
    for (int32_t t = 0; t < weights->num_tensors; t++) {
        const struct eplb_tensor_kind *kind = &weights->kinds[t];
        if (kind->per_expert)
            memcpy(kind->staging + to * kind->bytes,
                   eplb_weights_data(weights, layer, t) + from * kind->bytes, kind->bytes);
    }
}

static enum eplb_status check_plan(const struct eplb_weights *weights, const struct eplb_layer_plan *plan,
                                   struct eplb_error *error)
{
    int32_t lost = eplb_weights_lost(weights, plan->layer);
    EPLB_ASSERT(plan->weights_epoch <= weights->epoch);
    if (lost >= 0)
        EPLB_FAIL(EPLB_REFUSED, "layer %d, tensor %d (%s) has no storage: its last registration was refused",
                  plan->layer, lost, weights->kinds[lost].name);
    if (plan->weights_epoch != weights->epoch)
        EPLB_FAIL(EPLB_REFUSED, "layer %d: a tensor was registered again after the plan was made",
                  plan->layer);
    return EPLB_OK;
}

enum eplb_status eplb_weights_materialise(struct eplb_weights *weights, const struct eplb_layer_plan *plan,
                                          struct eplb_error *error)
{
    EPLB_TRY(check_plan(weights, plan, error));
    int32_t begin = weights->ep_rank * weights->shape.slots_per_rank;
    int32_t slots = weights->shape.slots_per_rank;
    bool whole = changes_whole(weights, plan);
    int32_t move = first_local(weights, plan);
    int32_t end = move + plan->num_local_changes;
    for (int32_t slot = begin; slot < begin + slots; slot++) {
        if (move == end || plan->moves[move].slot != slot) {
            if (whole)
                stage_slot(weights, plan->layer, local_slot(weights, slot), local_slot(weights, slot));
            continue;
        }
        if (plan->moves[move].kind == EPLB_MOVE_LOCAL)
            stage_slot(weights, plan->layer, local_slot(weights, slot),
                       local_slot(weights, plan->moves[move].source_slot));
        move++;
    }
    EPLB_ASSERT(move == end);
    return EPLB_OK;
}

static void activate_slots(const struct eplb_weights *weights, const struct eplb_layer_plan *plan,
                           const struct eplb_tensor_kind *kind, unsigned char *data)
{
    int32_t first = first_local(weights, plan);
    for (int32_t move = first; move < first + plan->num_local_changes; move++) {
        size_t offset = local_slot(weights, plan->moves[move].slot) * kind->bytes;
        memcpy(data + offset, kind->staging + offset, kind->bytes);
    }
}

void eplb_weights_activate(struct eplb_weights *weights, const struct eplb_layer_plan *plan)
{
    EPLB_ASSERT(plan->weights_epoch == weights->epoch && eplb_weights_lost(weights, plan->layer) < 0);
    bool whole = changes_whole(weights, plan);
    for (int32_t t = 0; t < weights->num_tensors; t++) {
        const struct eplb_tensor_kind *kind = &weights->kinds[t];
        unsigned char *data = eplb_weights_data(weights, plan->layer, t);
        if (!kind->per_expert)
            continue;
        if (whole)
            memcpy(data, kind->staging, (size_t)weights->shape.slots_per_rank * kind->bytes);
        else
            activate_slots(weights, plan, kind, data);
    }
}

/* The part of [offset, offset + bytes) that lies in a tensor which begins at byte 0. */
static size_t overlap(size_t tensor_bytes, int64_t offset, int64_t bytes, size_t *first)
{
    int64_t begin = offset < 0 ? 0 : offset;
    int64_t end = offset + bytes < (int64_t)tensor_bytes ? offset + bytes : (int64_t)tensor_bytes;
    *first = (size_t)begin;
    return begin < end ? (size_t)(end - begin) : 0;
}

size_t eplb_weights_parts(const struct eplb_weights *weights, int32_t layer, enum eplb_side side,
                          int32_t local, int64_t offset, int64_t bytes,
                          struct eplb_part parts[EPLB_MAX_PARTS])
{
    EPLB_ASSERT(local >= 0 && local < weights->shape.slots_per_rank);
    EPLB_ASSERT(bytes > 0 && offset >= 0 && offset <= weights->expert_bytes - bytes);
    size_t count = 0;
    if (eplb_weights_lost(weights, layer) >= 0)
        return 0;
    for (int32_t t = 0; t < weights->num_tensors; t++) {
        const struct eplb_tensor_kind *kind = &weights->kinds[t];
        if (!kind->per_expert)
            continue;
        unsigned char *base = side == EPLB_SIDE_ACTIVE ? eplb_weights_data(weights, layer, t) : kind->staging;
        size_t first;
        size_t size = overlap(kind->bytes, offset, bytes, &first);
        if (size > 0)
            parts[count++] = (struct eplb_part){base + (size_t)local * kind->bytes + first, size};
        offset -= (int64_t)kind->bytes;
    }
    EPLB_ASSERT(count > 0 && count <= EPLB_MAX_PARTS);
    return count;
}
