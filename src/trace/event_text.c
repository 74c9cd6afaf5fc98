/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <inttypes.h>
#include <stdio.h>

#include "trace/event_replay.h"

static int32_t layer_id(const struct eplb_manager_core_params *params, int32_t layer)
{
    return params->layer_ids == NULL ? layer : params->layer_ids[layer];
}

static void command_text(const struct eplb_manager_core_params *params, const struct eplb_command *command,
                         char text[EPLB_ERROR_TEXT])
{
    char prepare[EPLB_ERROR_TEXT / 4] = "";
    char activate[EPLB_ERROR_TEXT / 4] = "";
    if (command->prepare_layer_id != EPLB_NO_LAYER)
        snprintf(prepare, sizeof prepare,
                 ", prepare layer %d as %" PRIu64 " on generation %" PRIu64 ", table %016" PRIx64,
                 layer_id(params, command->prepare_layer_id), command->prepare_token.value,
                 command->base_generation, eplb_placement_hash(&params->shape, command->expert_ids));
    if (command->update_layer_id != EPLB_NO_LAYER)
        snprintf(activate, sizeof activate, ", activate layer %d as %" PRIu64 " after %" PRIu64,
                 layer_id(params, command->update_layer_id), command->activation_token.value,
                 command->update_prepare_token.value);
    snprintf(text, EPLB_ERROR_TEXT, "the command of forward %" PRIu64 "%s%s%s", command->seq, activate,
             prepare, activate[0] == '\0' && prepare[0] == '\0' ? ", an empty one" : "");
}

void eplb_event_action_text(const struct eplb_manager_core_params *params,
                            const struct eplb_manager_action *action, uint64_t table_hash,
                            char text[EPLB_ERROR_TEXT])
{
    switch (action->type) {
    case EPLB_MANAGER_COMMAND:
        command_text(params, action->command, text);
        break;
    case EPLB_MANAGER_OPEN_RECORD:
        snprintf(text, EPLB_ERROR_TEXT, "decision record %" PRIu64 " opened", action->token.value);
        break;
    case EPLB_MANAGER_ABORT_RECORD:
        snprintf(text, EPLB_ERROR_TEXT, "decision record %" PRIu64 " aborted", action->token.value);
        break;
    case EPLB_MANAGER_RUN_POLICY:
        snprintf(text, EPLB_ERROR_TEXT, "a policy run asked for");
        break;
    case EPLB_MANAGER_SOLVE_WEIGHTS:
        snprintf(text, EPLB_ERROR_TEXT, "solved weights asked for");
        break;
    case EPLB_MANAGER_COMMITTED:
        snprintf(text, EPLB_ERROR_TEXT,
                 "layer %d committed, generation %" PRIu64 ", table %016" PRIx64 ", after %" PRId64 " ns",
                 layer_id(params, action->layer), action->generation, table_hash, action->wait_ns);
        break;
    case EPLB_MANAGER_ABORTED:
        snprintf(text, EPLB_ERROR_TEXT, "layer %d given up: %s", layer_id(params, action->layer),
                 eplb_abort_reason_text(action->why));
        break;
    case EPLB_MANAGER_STOP:
        snprintf(text, EPLB_ERROR_TEXT, "the run stopped (%s): %.400s",
                 eplb_status_text(action->error->status), action->error->text);
        break;
    }
}

void eplb_event_text(const struct eplb_manager_event *event, char text[EPLB_ERROR_TEXT])
{
    switch (event->type) {
    case EPLB_MANAGER_SUBMIT:
        snprintf(text, EPLB_ERROR_TEXT, "forward %" PRIu64 " submitted", event->seq);
        break;
    case EPLB_MANAGER_DROPPED:
        snprintf(text, EPLB_ERROR_TEXT, "forward %" PRIu64 " dropped", event->seq);
        break;
    case EPLB_MANAGER_OUTPUTS:
        snprintf(text, EPLB_ERROR_TEXT, "outputs of forward %" PRIu64, event->seq);
        break;
    case EPLB_MANAGER_POLICY_DONE:
        snprintf(text, EPLB_ERROR_TEXT, "policy run done (%s)", eplb_status_text(event->status));
        break;
    case EPLB_MANAGER_RANK_DEAD:
        snprintf(text, EPLB_ERROR_TEXT, "rank %d dead", event->rank);
        break;
    case EPLB_MANAGER_TICK:
        snprintf(text, EPLB_ERROR_TEXT, "a tick");
        break;
    case EPLB_MANAGER_WEIGHTS_DONE:
        snprintf(text, EPLB_ERROR_TEXT, "weights of %d layers solved", event->num_weights);
        break;
    }
}
