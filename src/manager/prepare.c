/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "manager/state.h"

#include <inttypes.h>
#include <string.h>

static void begin(struct eplb_manager_core *core, int32_t layer)
{
    struct preparing *preparing = &core->preparing;
    eplb_layer_enter(core, layer, LAYER_PREPARING);
    preparing->layer = layer;
    preparing->token = (struct eplb_prepare_token){core->next_token++};
    preparing->sent = false;
    preparing->output_at = NEVER;
    preparing->ready_at = NEVER;
    memset(preparing->rank_ok, 0, (size_t)core->shape.ep_size);
}

void eplb_prepare_hand_out(struct eplb_manager_core *core, struct eplb_command *command, int64_t now)
{
    struct preparing *preparing = &core->preparing;
    if (preparing->layer == EPLB_NO_LAYER) {
        int32_t layer = eplb_round_take_layer(core);
        if (layer == EPLB_NO_LAYER)
            return;
        begin(core, layer);
    }
    if (preparing->sent)
        return;
    size_t row = eplb_manager_row(core, preparing->layer);
    EPLB_ASSERT(preparing->layer != command->update_layer_id);
    preparing->sent = true;
    preparing->seq = command->seq;
    preparing->sent_at = now;
    preparing->output_at = NEVER;
    command->prepare_layer_id = preparing->layer;
    command->prepare_token = preparing->token;
    command->base_generation = eplb_manager_core_generation(core, preparing->layer);
    command->base_hash = eplb_placement_hash(&core->shape, eplb_planner_active(core->planner) + row);
    command->expert_ids = eplb_planner_candidates(core->planner) + row;
    command->num_expert_ids = core->shape.num_slots;
    if (eplb_replica_weights_come_with_tables(core))
        command->replica_weights = eplb_planner_weights(core->planner) + row;
}

void eplb_prepare_report(struct eplb_manager_core *core, int32_t rank, uint64_t seq,
                         const struct eplb_worker_levels *levels)
{
    struct preparing *preparing = &core->preparing;
    if (preparing->layer == EPLB_NO_LAYER || !preparing->sent)
        return;
    bool is_ours = levels->prepare_token.value == preparing->token.value && seq >= preparing->seq;
    if (EPLB_PLANTED(STALE_TOKEN_ACCEPTED))
        is_ours = levels->prepare_token.value != 0;
    if (!is_ours)
        return;
    if (levels->prepare_status == EPLB_PREPARE_OK)
        preparing->rank_ok[rank] = 1;
    if (levels->prepare_status != EPLB_PREPARE_FAILED)
        return;
    eplb_manager_warn(
        core, "layer %d: rank %d could not prepare (prepare_token %" PRIu64 "): %s; the layer is skipped",
        eplb_manager_layer_id(core, preparing->layer), rank, preparing->token.value,
        eplb_reason_text(levels->prepare_reason));
    eplb_prepare_abort(core, EPLB_ABORT_FAILED);
}

static bool all_live_ok(const struct eplb_manager_core *core)
{
    for (int32_t rank = 0; rank < core->shape.ep_size; rank++)
        if (!core->dead[rank] && !core->preparing.rank_ok[rank])
            return false;
    return true;
}

void eplb_prepare_output(struct eplb_manager_core *core, uint64_t seq, int64_t now)
{
    struct preparing *preparing = &core->preparing;
    if (preparing->layer == EPLB_NO_LAYER || !preparing->sent)
        return;
    if (seq == preparing->seq)
        preparing->output_at = now;
    if (core->layers[preparing->layer] == LAYER_PREPARING && all_live_ok(core)) {
        eplb_layer_enter(core, preparing->layer, LAYER_READY);
        preparing->ready_at = now;
        preparing->ready_seq = core->next_seq;
        core->layers_tasks.ok++;
    }
}

/** Whether a forward after `seq` has itself been in flight for the timeout. */
static bool later_flight_is_old(const struct eplb_manager_core *core, uint64_t seq, int64_t now)
{
    for (int32_t i = 0; i < core->num_flights; i++) {
        const struct flight *flight = &core->flights[i];
        if (flight->seq > seq && now - flight->submitted_at >= core->params.prepare_timeout_ns)
            return true;
    }
    return false;
}

/**
 * An engine with nothing to run times nothing out: a worker can report only with a forward, so a
 * later output must have had the chance to bring the report and not have brought it.
 */
void eplb_prepare_judge(struct eplb_manager_core *core, uint64_t seq, int64_t now)
{
    const struct preparing *preparing = &core->preparing;
    if (preparing->layer == EPLB_NO_LAYER || !preparing->sent ||
        core->layers[preparing->layer] == LAYER_READY)
        return;
    int64_t due = preparing->output_at == NEVER ? preparing->sent_at + 2 * core->params.prepare_timeout_ns
                                                : preparing->output_at + core->params.prepare_timeout_ns;
    if (now < due || (seq <= preparing->seq && !later_flight_is_old(core, preparing->seq, now)))
        return;
    for (int32_t rank = 0; rank < core->shape.ep_size; rank++)
        if (!core->dead[rank] && !preparing->rank_ok[rank])
            eplb_manager_warn(core,
                              "layer %d: rank %d has not prepared in time (prepare_token %" PRIu64
                              "); the layer is skipped",
                              eplb_manager_layer_id(core, preparing->layer), rank, preparing->token.value);
    eplb_prepare_abort(core, EPLB_ABORT_TIMEOUT);
}

void eplb_prepare_dropped(struct eplb_manager_core *core, uint64_t seq)
{
    struct preparing *preparing = &core->preparing;
    if (preparing->layer != EPLB_NO_LAYER && preparing->sent && preparing->seq == seq) {
        EPLB_ASSERT(core->layers[preparing->layer] == LAYER_PREPARING);
        preparing->sent = false;
    }
}

void eplb_prepare_abort(struct eplb_manager_core *core, enum eplb_abort_reason why)
{
    int32_t layer = core->preparing.layer;
    if (layer == EPLB_NO_LAYER)
        return;
    core->preparing.layer = EPLB_NO_LAYER;
    eplb_round_abort_layer(core, layer, why);
}
