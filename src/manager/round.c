/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "manager/state.h"

void eplb_round_arm_timer(struct eplb_manager_core *core, int64_t now)
{
    core->timer_armed = true;
    core->timer_due = now + core->params.update_interval_ns;
    core->timer_due_at = core->next_seq + (uint64_t)core->params.update_interval_forwards;
}

static bool timer_has_fired(const struct eplb_manager_core *core, int64_t now)
{
    if (!core->timer_armed)
        return false;
    if (core->params.update_interval_forwards > 0)
        return core->next_seq >= core->timer_due_at;
    return now >= core->timer_due;
}

/** After a shift it is the tokens that count, and not the time. */
static bool is_due(const struct eplb_manager_core *core, int64_t now)
{
    return (core->early.shifted || timer_has_fired(core, now)) && eplb_early_has_tokens(core);
}

void eplb_round_start_if_due(struct eplb_manager_core *core, int64_t now)
{
    if (!is_due(core, now) || core->round || !core->sample_since_run || core->num_dead > 0)
        return;
    EPLB_ASSERT(!core->policy_running && core->num_waiting == 0);
    core->round = true;
    core->policy_running = true;
    core->policy_started_at = now;
    eplb_round_arm_timer(core, now);
    core->sample_since_run = false;
    core->totals.policy_runs++;
    eplb_early_round(core);
    const struct eplb_migration_cost cost = eplb_measure_cost(core, eplb_aggregator_closed(core->aggregator));
    enum eplb_status status = eplb_planner_set_cost(core->planner, &cost, NULL);
    EPLB_ASSERT(status == EPLB_OK);
    (void)status;
    eplb_manager_act(core, EPLB_MANAGER_RUN_POLICY);
}

static void collect_published(struct eplb_manager_core *core)
{
    const struct eplb_benefit *benefits = eplb_planner_benefits(core->planner);
    for (int32_t layer = 0; layer < core->shape.num_layers; layer++) {
        EPLB_ASSERT(core->layers[layer] == LAYER_IDLE);
        if (!benefits[layer].publish) {
            eplb_planner_abort_layer(core->planner, layer);
            continue;
        }
        core->waiting[layer] = 1;
        core->num_waiting++;
    }
}

/** A plan made before a rank died is for ranks that no longer are. */
static void discard_result(struct eplb_manager_core *core)
{
    for (int32_t layer = 0; layer < core->shape.num_layers; layer++)
        eplb_planner_abort_layer(core->planner, layer);
    eplb_round_end_if_over(core);
}

void eplb_round_policy_done(struct eplb_manager_core *core, const struct eplb_manager_event *event,
                            int64_t now)
{
    if (!core->policy_running) {
        eplb_manager_warn(core, "a policy result arrived and no policy run was asked for; it is ignored");
        return;
    }
    core->policy_running = false;
    if (core->num_dead > 0) {
        discard_result(core);
        return;
    }
    if (event->status != EPLB_OK) {
        core->totals.policy_failures++;
        core->rebalance.failed++;
        eplb_manager_warn(core, "policy run failed: %s",
                          event->reason == NULL ? eplb_status_text(event->status) : event->reason);
    } else {
        core->rebalance.ok++;
    }
    collect_published(core);
    EPLB_LOG(core->params.log, REBALANCE, EPLB_VALUE_TEXT(core->params.ops->name),
             EPLB_VALUE_REAL((double)(now - core->policy_started_at) / 1e6),
             EPLB_VALUE_INT(core->num_waiting), EPLB_VALUE_INT(core->shape.num_layers));
    core->totals.layers_published += (uint64_t)core->num_waiting;
    core->totals.rounds += core->num_waiting > 0;
    eplb_round_end_if_over(core);
}

int32_t eplb_round_take_layer(struct eplb_manager_core *core)
{
    for (int32_t layer = 0; core->num_waiting > 0 && layer < core->shape.num_layers; layer++)
        if (core->waiting[layer]) {
            core->waiting[layer] = 0;
            core->num_waiting--;
            return layer;
        }
    return EPLB_NO_LAYER;
}

void eplb_round_abort_layer(struct eplb_manager_core *core, int32_t layer, enum eplb_abort_reason why)
{
    if (core->layers[layer] != LAYER_IDLE)
        eplb_layer_enter(core, layer, LAYER_IDLE);
    eplb_planner_abort_layer(core->planner, layer);
    core->totals.layers_aborted++;
    core->totals.layers_timed_out += why == EPLB_ABORT_TIMEOUT;
    core->layers_tasks.failed++;
    struct eplb_manager_action *action = eplb_manager_act(core, EPLB_MANAGER_ABORTED);
    action->layer = layer;
    action->why = why;
    eplb_round_end_if_over(core);
}

void eplb_round_abort_waiting(struct eplb_manager_core *core)
{
    int32_t layer;
    while ((layer = eplb_round_take_layer(core)) != EPLB_NO_LAYER)
        eplb_round_abort_layer(core, layer, EPLB_ABORT_RANK_DEAD);
}

void eplb_round_end_if_over(struct eplb_manager_core *core)
{
    if (!core->policy_running && core->num_waiting == 0 && core->preparing.layer == EPLB_NO_LAYER &&
        core->activating.layer == EPLB_NO_LAYER)
        core->round = false;
}
