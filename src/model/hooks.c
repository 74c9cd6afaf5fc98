/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* How the model's experts move. With a plan the model keeps the tables that its rows would be routed by. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "model/model_state.h"

static enum eplb_status prepare_expert_weight(void *context, const struct eplb_layer_plan *plan,
                                              struct eplb_error *error)
{
    struct eplb_model *model = context;
    EPLB_ASSERT(plan->layer >= 0 && plan->layer < model->shape.num_layers);
    for (int32_t expert = 0; expert < model->shape.num_experts; expert++) {
        int32_t slot = plan->log2phy[expert];
        if (slot < 0 || slot >= model->shape.num_slots || plan->expert_ids[slot] != expert)
            EPLB_FAIL(EPLB_INCONSISTENT,
                      "rank %d, layer %d: the plan's map sends expert %d to slot %d, which does not hold it",
                      model->ep_rank, plan->layer, expert, slot);
    }
    eplb_replicas_prepare(&model->replicas, plan->place, plan->expert_ids, plan->replica_weights);
    return EPLB_OK;
}

static enum eplb_status start_expert_weight_transfer(void *context, const struct eplb_layer_plan *plan,
                                                     struct eplb_error *error)
{
    struct eplb_model *model = context;
    return eplb_weights_materialise(model->registered, plan, error);
}

#if EPLB_TEST_BUILD
int eplb_model_inject_wrong_slot;

/** Puts the first slot's expert into the last slot, once. */
static void spoil_slot(const struct eplb_model *model, int32_t layer)
{
    const struct eplb_layer_weights *weights = &model->weights.layers[layer];
    struct eplb_expert_layout layout = eplb_expert_layout(&model->config);
    int32_t last = model->shape.slots_per_rank - 1;
    if (!eplb_model_inject_wrong_slot || last == 0)
        return;
    eplb_model_inject_wrong_slot = 0;
    memcpy(weights->gate_up + last * layout.gate_up_floats, weights->gate_up,
           (size_t)layout.gate_up_floats * sizeof(float));
    memcpy(weights->down + last * layout.down_floats, weights->down,
           (size_t)layout.down_floats * sizeof(float));
}
#endif

static void update_expert_weight(void *context, const struct eplb_layer_plan *plan, int commit)
{
    struct eplb_model *model = context;
    if (!commit)
        return;
    eplb_weights_activate(model->registered, plan);
    eplb_replicas_switch(&model->replicas, plan->layer, plan->place);
#if EPLB_TEST_BUILD
    spoil_slot(model, plan->layer);
#endif
}

static void update_replica_weights(void *context, int32_t layer, uint64_t generation, uint64_t version,
                                   const int32_t *weights)
{
    struct eplb_model *model = context;
    (void)generation; /* the executor has compared it with the layer's own */
    eplb_replicas_reweigh(&model->replicas, layer, version, weights);
}

struct eplb_model_hooks eplb_model_hooks_over(struct eplb_model *model)
{
    return (struct eplb_model_hooks){.size = sizeof(struct eplb_model_hooks),
                                     .context = model,
                                     .prepare_expert_weight = prepare_expert_weight,
                                     .start_expert_weight_transfer = start_expert_weight_transfer,
                                     .update_expert_weight = update_expert_weight,
                                     .update_replica_weights = update_replica_weights};
}
