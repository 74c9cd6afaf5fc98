/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <string.h>

#include "executor/state.h"

static bool is_new(const struct eplb_executor_core *core, const struct eplb_weight_update *update)
{
    if (update->layer < 0 || update->layer >= core->shape.num_layers)
        return false;
    bool is_own = update->generation == core->generations[update->layer];
    if (EPLB_PLANTED(WEIGHTS_OF_ANOTHER_GENERATION))
        is_own = true;
    return is_own && update->version > core->versions[update->layer];
}

static void take(struct eplb_executor_core *core, const struct eplb_weight_update *update)
{
    const int32_t *table = eplb_executor_table(core, update->layer);
    if (!EPLB_PLANTED(WEIGHTS_OF_ANOTHER_GENERATION) &&
        eplb_weights_check(&core->shape, table, update->weights, core->weight_sums, NULL) != EPLB_OK) {
        eplb_executor_act(core, EPLB_EXECUTOR_REFUSED)->layer = update->layer;
        return;
    }
    memcpy(eplb_executor_weights_row(core, update->layer), update->weights,
           (size_t)core->shape.num_slots * sizeof *update->weights);
    core->versions[update->layer] = update->version;
    eplb_executor_act(core, EPLB_EXECUTOR_WEIGHTS)->layer = update->layer;
}

void eplb_executor_weights_take(struct eplb_executor_core *core, const struct eplb_command *command)
{
    EPLB_ASSERT(command->num_weight_updates >= 0 && command->num_weight_updates <= EPLB_MAX_WEIGHT_UPDATES);
    for (int32_t i = 0; core->takes_weights && i < command->num_weight_updates; i++)
        if (is_new(core, &command->weight_updates[i]))
            take(core, &command->weight_updates[i]);
    memcpy(core->ran_versions, core->versions, (size_t)core->shape.num_layers * sizeof *core->versions);
}

bool eplb_executor_weights_legal(const struct eplb_executor_core *core, const struct eplb_command *command)
{
    return command->replica_weights == NULL ||
           eplb_weights_check(&core->shape, command->expert_ids, command->replica_weights, core->weight_sums,
                              NULL) == EPLB_OK;
}

void eplb_executor_weights_plan(struct eplb_executor_core *core, const struct eplb_command *command,
                                struct eplb_layer_plan *plan)
{
    if (command->replica_weights == NULL)
        eplb_weights_equal(&core->shape, command->expert_ids, core->weight_sums, plan->replica_weights);
    else
        memcpy(plan->replica_weights, command->replica_weights,
               (size_t)core->shape.num_slots * sizeof *plan->replica_weights);
}

void eplb_executor_weights_switch(struct eplb_executor_core *core, const struct eplb_layer_plan *plan)
{
    memcpy(eplb_executor_weights_row(core, plan->layer), plan->replica_weights,
           (size_t)core->shape.num_slots * sizeof *plan->replica_weights);
    if (!EPLB_PLANTED(VERSION_NOT_RESET))
        core->versions[plan->layer] = 0;
}
