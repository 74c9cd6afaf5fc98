/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "manager/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/**
 * Traffic may have turned while a ready layer waited for a decode boundary: after an interval (and
 * no less than the prepare timeout) the plan must still pass the gate, on the present window.
 */
static bool still_worth_it(struct eplb_manager_core *core, int64_t now)
{
    const struct preparing *preparing = &core->preparing;
    int64_t forwards = core->params.update_interval_forwards;
    int64_t age = now - preparing->ready_at;
    bool within_interval = forwards > 0 ? core->next_seq - preparing->ready_seq <= (uint64_t)forwards
                                        : age <= core->params.update_interval_ns;
    if (within_interval || age <= core->params.prepare_timeout_ns)
        return true;
    const struct eplb_window *window = eplb_aggregator_open(core->aggregator);
    const struct eplb_migration_cost cost = eplb_measure_cost(core, window);
    return eplb_planner_still_publishes(core->planner, preparing->layer,
                                        window->logical +
                                            (size_t)preparing->layer * (size_t)core->shape.num_experts,
                                        window->physical + eplb_manager_row(core, preparing->layer), &cost);
}

static void begin(struct eplb_manager_core *core)
{
    struct activating *activating = &core->activating;
    EPLB_ASSERT(activating->layer == EPLB_NO_LAYER);
    eplb_layer_enter(core, core->preparing.layer, LAYER_ACTIVATING);
    activating->layer = core->preparing.layer;
    activating->prepare_token = core->preparing.token;
    activating->token = (struct eplb_activation_token){core->next_token++};
    activating->handed_out = false;
    activating->handed_at = NEVER;
    activating->stuck = false;
    memset(activating->outcome, EPLB_ACTIVATION_NONE, (size_t)core->shape.ep_size);
    core->preparing.layer = EPLB_NO_LAYER;
    eplb_manager_act(core, EPLB_MANAGER_OPEN_RECORD)->token = activating->token;
}

void eplb_activation_hand_out(struct eplb_manager_core *core, struct eplb_command *command, int64_t now)
{
    struct activating *activating = &core->activating;
    if (activating->layer == EPLB_NO_LAYER) {
        if (core->preparing.layer == EPLB_NO_LAYER || core->layers[core->preparing.layer] != LAYER_READY)
            return;
        if (!still_worth_it(core, now)) {
            eplb_prepare_abort(core, EPLB_ABORT_STALE);
            return;
        }
        begin(core);
    }
    if (activating->handed_out)
        return;
    activating->handed_out = true;
    activating->seq = command->seq;
    activating->handed_at = now;
    command->update_layer_id = activating->layer;
    command->activation_token = activating->token;
    command->update_prepare_token = activating->prepare_token;
}

void eplb_activation_report(struct eplb_manager_core *core, int32_t rank, uint64_t seq,
                            const struct eplb_worker_levels *levels)
{
    const struct eplb_worker_levels *last = &core->last_levels[rank];
    uint64_t token = levels->activation_token.value;
    bool is_news =
        token != last->activation_token.value || levels->activation_outcome != last->activation_outcome;
    if (token == 0)
        return;
    if (is_news && token >= core->next_token)
        eplb_manager_warn(
            core, "rank %d reports activation_token %" PRIu64 ", which was never issued; it is ignored", rank,
            token);
    if (is_news && token == last->activation_token.value)
        eplb_manager_warn(core,
                          "rank %d reports another outcome of activation_token %" PRIu64
                          " than before; it is ignored",
                          rank, token);
    struct activating *activating = &core->activating;
    if (activating->layer == EPLB_NO_LAYER || !activating->handed_out || seq < activating->seq ||
        token != activating->token.value)
        return;
    if (activating->outcome[rank] == EPLB_ACTIVATION_NONE)
        activating->outcome[rank] = (uint8_t)levels->activation_outcome;
}

static void count_moves(struct eplb_manager_core *core, int32_t layer, int64_t wait_ns)
{
    size_t row = eplb_manager_row(core, layer);
    int32_t count =
        eplb_placement_diff(&core->shape, eplb_planner_active(core->planner) + row,
                            eplb_planner_candidates(core->planner) + row, core->diff_scratch, core->moves);
    core->totals.slots_moved += (uint64_t)count;
    for (int32_t i = 0; i < count; i++)
        core->totals.slots_sent += core->moves[i].kind == EPLB_MOVE_P2P;
    eplb_measure_activation(core, eplb_most_received(&core->shape, core->moves, count), wait_ns);
}

static void commit(struct eplb_manager_core *core, int64_t now)
{
    int32_t layer = core->activating.layer;
    count_moves(core, layer, now - core->activating.handed_at);
    core->activating.layer = EPLB_NO_LAYER;
    eplb_layer_enter(core, layer, LAYER_IDLE);
    eplb_replica_weights_commit(core, layer);
    eplb_planner_commit_layer(core->planner, layer);
    enum eplb_status status = eplb_aggregator_commit(
        core->aggregator, layer, eplb_planner_active(core->planner) + eplb_manager_row(core, layer), NULL);
    EPLB_ASSERT(status == EPLB_OK);
    (void)status;
    core->totals.layers_committed++;
    core->layers_tasks.ok++;
    struct eplb_manager_action *action = eplb_manager_act(core, EPLB_MANAGER_COMMITTED);
    action->layer = layer;
    action->generation = eplb_manager_core_generation(core, layer);
    action->wait_ns = now - core->activating.handed_at;
    action->expert_ids = eplb_planner_active(core->planner) + eplb_manager_row(core, layer);
    eplb_round_end_if_over(core);
}

static void abort_layer(struct eplb_manager_core *core, enum eplb_abort_reason why)
{
    int32_t layer = core->activating.layer;
    core->activating.layer = EPLB_NO_LAYER;
    eplb_round_abort_layer(core, layer, why);
}

/** How many live ranks reported each outcome. */
static void count_outcomes(const struct eplb_manager_core *core, int32_t counts[3])
{
    counts[EPLB_ACTIVATION_NONE] = counts[EPLB_ACTIVATION_SWITCHED] = counts[EPLB_ACTIVATION_KEPT] = 0;
    for (int32_t rank = 0; rank < core->shape.ep_size; rank++) {
        EPLB_ASSERT(core->activating.outcome[rank] <= EPLB_ACTIVATION_KEPT);
        if (!core->dead[rank])
            counts[core->activating.outcome[rank]]++;
    }
}

void eplb_activation_resolve(struct eplb_manager_core *core, int64_t now)
{
    struct activating *activating = &core->activating;
    if (activating->layer == EPLB_NO_LAYER || !activating->handed_out)
        return;
    int32_t counts[3];
    count_outcomes(core, counts);
    if (counts[EPLB_ACTIVATION_NONE] > 0)
        return;
    if (counts[EPLB_ACTIVATION_KEPT] == 0)
        commit(core, now);
    else if (counts[EPLB_ACTIVATION_SWITCHED] == 0)
        abort_layer(core, core->num_dead > 0 ? EPLB_ABORT_RANK_DEAD : EPLB_ABORT_KEPT);
    else
        eplb_manager_stop(core, EPLB_INCONSISTENT,
                          "layer %d, activation_token %" PRIu64
                          ": %d ranks switched and %d kept the old placement",
                          eplb_manager_layer_id(core, activating->layer), activating->token.value,
                          counts[EPLB_ACTIVATION_SWITCHED], counts[EPLB_ACTIVATION_KEPT]);
}

static void list_missing(const struct eplb_manager_core *core, char *text, size_t capacity)
{
    size_t length = 0;
    text[0] = '\0';
    for (int32_t rank = 0; rank < core->shape.ep_size && length + 12 < capacity; rank++)
        if (!core->dead[rank] && core->activating.outcome[rank] == EPLB_ACTIVATION_NONE)
            length +=
                (size_t)snprintf(text + length, capacity - length, "%s%d", length == 0 ? "" : ",", rank);
}

void eplb_activation_judge(struct eplb_manager_core *core, uint64_t seq, int64_t now)
{
    struct activating *activating = &core->activating;
    if (activating->layer == EPLB_NO_LAYER || !activating->handed_out || activating->stuck ||
        seq <= activating->seq || now - activating->handed_at < 2 * core->params.transfer_timeout_ns)
        return;
    char missing[128];
    list_missing(core, missing, sizeof missing);
    activating->stuck = true;
    eplb_manager_warn(core,
                      "activation is stuck: layer %d, activation_token %" PRIu64
                      ", age %.3f s, no report from rank %s",
                      eplb_manager_layer_id(core, activating->layer), activating->token.value,
                      (double)(now - activating->handed_at) / 1e9, missing);
}

void eplb_activation_dropped(struct eplb_manager_core *core, uint64_t seq, int64_t now)
{
    struct activating *activating = &core->activating;
    if (activating->layer == EPLB_NO_LAYER || !activating->handed_out || activating->seq != seq)
        return;
    activating->handed_out = false;
    if (core->num_dead > 0 && !EPLB_PLANTED(DROPPED_AFTER_ABORT))
        eplb_activation_rank_dead(core, now);
}

void eplb_activation_rank_dead(struct eplb_manager_core *core, int64_t now)
{
    struct activating *activating = &core->activating;
    if (activating->layer == EPLB_NO_LAYER)
        return;
    eplb_manager_act(core, EPLB_MANAGER_ABORT_RECORD)->token = activating->token;
    if (!activating->handed_out || EPLB_PLANTED(DEATH_ABORTS_DECIDED))
        abort_layer(core, EPLB_ABORT_RANK_DEAD);
    else
        eplb_activation_resolve(core, now);
}
