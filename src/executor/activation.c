/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "executor/state.h"

#include <string.h>

/** Makes the command's activation the attempt that is under way; false when it names none. */
static bool open_attempt(struct eplb_executor_core *core, const struct eplb_command *command)
{
    if (command->update_layer_id == EPLB_NO_LAYER)
        return false;
    EPLB_ASSERT(!core->attempt.active && core->attempt.token.value < command->activation_token.value);
    struct place *place = eplb_place_held(core, command->update_prepare_token);
    if (place != NULL && place->plan.layer != command->update_layer_id)
        place = NULL;
    if (place != NULL)
        eplb_place_enter(place, PLACE_ACTIVATING);
    core->attempt = (struct attempt){.active = true,
                                     .token = command->activation_token,
                                     .layer = command->update_layer_id,
                                     .place = place};
    return true;
}

static void vote_no(struct eplb_executor_core *core, enum eplb_reason reason, int64_t now)
{
    EPLB_ASSERT(reason != EPLB_REASON_NONE);
    struct eplb_transfer_event event = {
        .type = EPLB_TRANSFER_NO_PLAN, .token = core->attempt.token, .reason = reason};
    eplb_transfer_step(core->transfer, &event, now);
}

static enum eplb_reason judge(const struct eplb_executor_core *core, uint64_t weights_epoch)
{
    const struct attempt *attempt = &core->attempt;
    if (attempt->layer < 0 || attempt->layer >= core->shape.num_layers)
        return EPLB_REASON_WRONG_LAYER;
    if (attempt->place == NULL)
        return EPLB_REASON_NO_PLAN;
    const struct eplb_layer_plan *plan = &attempt->place->plan;
    if (plan->weights_epoch != weights_epoch)
        return EPLB_REASON_STORAGE_CHANGED;
    return eplb_executor_judge_base(core, plan->layer, plan->base_generation, plan->base_hash);
}

void eplb_executor_activation_take(struct eplb_executor_core *core, const struct eplb_command *command,
                                   uint64_t weights_epoch, int64_t now)
{
    if (!open_attempt(core, command))
        return;
    enum eplb_reason reason = judge(core, weights_epoch);
    if (reason != EPLB_REASON_NONE) {
        vote_no(core, reason, now);
        return;
    }
    struct eplb_layer_plan *plan = &core->attempt.place->plan;
    struct eplb_transfer_event begin = {
        .type = EPLB_TRANSFER_BEGIN, .token = core->attempt.token, .plan = plan};
    eplb_transfer_step(core->transfer, &begin, now);
    eplb_executor_act(core, EPLB_EXECUTOR_MATERIALISE)->plan = plan;
}

void eplb_executor_activation_refuse(struct eplb_executor_core *core, const struct eplb_command *command,
                                     enum eplb_reason reason, int64_t now)
{
    if (!open_attempt(core, command))
        return;
    core->attempt.finishing = true;
    vote_no(core, reason, now);
}

static void switch_layer(struct eplb_executor_core *core, const struct eplb_layer_plan *plan)
{
    int32_t *table = eplb_executor_table(core, plan->layer);
    EPLB_ASSERT(plan->base_generation == core->generations[plan->layer] ||
                EPLB_PLANTED(PREPARE_ON_ANOTHER_BASE));
    memcpy(table, plan->expert_ids, (size_t)core->shape.num_slots * sizeof *table);
    core->generations[plan->layer]++;
    core->hashes[plan->layer] = eplb_placement_hash(&core->shape, table);
    eplb_executor_weights_switch(core, plan);
}

/**
 * The record has decided, nothing of the token is outstanding, and the forward is over: switches or
 * keeps, and says so.
 */
static void resolve(struct eplb_executor_core *core)
{
    struct attempt *attempt = &core->attempt;
    if (!attempt->active || !attempt->finishing || eplb_transfer_state(core->transfer) != EPLB_TRANSFER_DONE)
        return;
    enum eplb_decision decision = eplb_transfer_decision(core->transfer);
    EPLB_ASSERT(decision == EPLB_COMMIT || decision == EPLB_ABORT);
    bool commit = decision == EPLB_COMMIT;
    EPLB_ASSERT(!commit || attempt->place != NULL);
    if (commit)
        switch_layer(core, &attempt->place->plan);
    attempt->active = false;
    core->levels.activation_token = attempt->token;
    core->levels.activation_outcome = commit ? EPLB_ACTIVATION_SWITCHED : EPLB_ACTIVATION_KEPT;
    core->levels.activation_reason = commit ? EPLB_REASON_NONE : eplb_transfer_reason(core->transfer);
    if (attempt->place == NULL)
        return;
    struct eplb_executor_action *update = eplb_executor_act(core, EPLB_EXECUTOR_UPDATE);
    update->plan = &attempt->place->plan;
    update->token = attempt->token;
    update->commit = commit;
    /* Only the next command's prepare may take the place, so the action's plan is still whole. */
    eplb_place_enter(attempt->place, PLACE_FREE);
}

/** What the record says, or, in a planted bug, what a rank that trusts its own transfers makes of it. */
static enum eplb_decision decision_of(const struct eplb_executor_core *core, enum eplb_decision read)
{
    if (EPLB_PLANTED(VOTE_SKIPPED) && eplb_transfer_state(core->transfer) == EPLB_TRANSFER_VOTED &&
        eplb_transfer_reason(core->transfer) == EPLB_REASON_NONE)
        return EPLB_COMMIT;
    return read;
}

void eplb_executor_activation_event(struct eplb_executor_core *core, const struct eplb_executor_event *event,
                                    int64_t now)
{
    /* A completion may be late; the transfer knows its own. */
    EPLB_ASSERT(core->attempt.active || event->type == EPLB_EXECUTOR_COMPLETED);
    struct eplb_transfer_event passed = {.token = core->attempt.token};
    switch (event->type) {
    case EPLB_EXECUTOR_MATERIALISED:
        EPLB_ASSERT(core->attempt.place != NULL);
        passed.type = EPLB_TRANSFER_MATERIALISED;
        passed.ok = event->ok;
        passed.reason = event->ok ? EPLB_REASON_NONE : EPLB_REASON_HOOK_FAILED;
        break;
    case EPLB_EXECUTOR_COMPLETED:
        passed.type = EPLB_TRANSFER_COMPLETED;
        passed.completion = event->completion;
        break;
    default:
        EPLB_ASSERT(event->type == EPLB_EXECUTOR_DECIDED);
        passed.type = EPLB_TRANSFER_DECIDED;
        passed.decision = decision_of(core, event->decision);
        break;
    }
    eplb_transfer_step(core->transfer, &passed, now);
    resolve(core);
}

void eplb_executor_activation_finish(struct eplb_executor_core *core, int64_t now)
{
    if (!core->attempt.active || core->attempt.finishing)
        return;
    core->attempt.finishing = true;
    struct eplb_transfer_event finish = {.type = EPLB_TRANSFER_FINISH, .token = core->attempt.token};
    eplb_transfer_step(core->transfer, &finish, now);
    resolve(core);
}

void eplb_executor_activation_give_up(struct eplb_executor_core *core, int64_t now)
{
    if (!core->attempt.active)
        return;
    core->attempt.finishing = true;
    struct eplb_transfer_event give_up = {
        .type = EPLB_TRANSFER_GIVE_UP, .token = core->attempt.token, .reason = EPLB_REASON_STEP_ABORTED};
    eplb_transfer_step(core->transfer, &give_up, now);
    resolve(core);
}
