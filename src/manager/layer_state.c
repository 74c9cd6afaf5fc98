/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "manager/state.h"

/**
 *   IDLE -> PREPARING -> READY -> ACTIVATING -> IDLE
 *             |            |
 *             +--> IDLE <--+         given up
 */
static bool may_follow(enum layer_state from, enum layer_state to)
{
    switch (to) {
    case LAYER_IDLE:
        return from != LAYER_IDLE;
    case LAYER_PREPARING:
        return from == LAYER_IDLE;
    case LAYER_READY:
        return from == LAYER_PREPARING;
    case LAYER_ACTIVATING:
        return from == LAYER_READY;
    }
    return false;
}

void eplb_layer_enter(struct eplb_manager_core *core, int32_t layer, enum layer_state to)
{
    EPLB_ASSERT(layer >= 0 && layer < core->shape.num_layers);
    EPLB_ASSERT(may_follow(core->layers[layer], to));
    core->layers[layer] = to;
}
