/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "executor/state.h"

#include <string.h>

static void set_level(struct eplb_executor_core *core, struct eplb_prepare_token token,
                      enum eplb_prepare_status status, enum eplb_reason reason)
{
    EPLB_ASSERT(token.value != 0);
    EPLB_ASSERT((status == EPLB_PREPARE_FAILED) == (reason != EPLB_REASON_NONE));
    core->levels.prepare_token = token;
    core->levels.prepare_status = status;
    core->levels.prepare_reason = reason;
}

static enum eplb_reason judge(const struct eplb_executor_core *core, const struct eplb_command *command)
{
    if (command->num_expert_ids != core->shape.num_slots || command->expert_ids == NULL)
        return EPLB_REASON_WRONG_LENGTH;
    if (eplb_placement_check(&core->shape, command->expert_ids, NULL) != EPLB_OK)
        return EPLB_REASON_ILLEGAL_TABLE;
    if (!eplb_executor_weights_legal(core, command))
        return EPLB_REASON_ILLEGAL_WEIGHTS;
    return eplb_executor_judge_base(core, command->prepare_layer_id, command->base_generation,
                                    command->base_hash);
}

/** A free place; the prepare that has not begun is replaced, the one that runs is superseded. */
static struct place *make_room(struct eplb_executor_core *core)
{
    struct place *queued = eplb_place_in(core, PLACE_QUEUED);
    if (queued != NULL)
        eplb_place_enter(queued, PLACE_FREE);
    struct place *running = eplb_place_in(core, PLACE_RUNNING);
    if (running != NULL)
        running->superseded = true;
    struct place *place = eplb_place_in(core, PLACE_FREE);
    EPLB_ASSERT(place != NULL);
    return place;
}

void eplb_executor_prepare_take(struct eplb_executor_core *core, const struct eplb_command *command,
                                uint64_t weights_epoch)
{
    if (command->prepare_layer_id == EPLB_NO_LAYER)
        return;
    EPLB_ASSERT(command->prepare_token.value > core->levels.prepare_token.value);
    enum eplb_reason reason = judge(core, command);
    if (reason != EPLB_REASON_NONE) {
        eplb_executor_prepare_refuse(core, command, reason);
        return;
    }
    size_t bytes = (size_t)core->shape.num_slots * sizeof *command->expert_ids;
    struct place *place = make_room(core);
    place->superseded = false;
    place->plan.token = command->prepare_token;
    place->plan.layer = command->prepare_layer_id;
    place->plan.base_generation = command->base_generation;
    place->plan.base_hash = command->base_hash;
    place->plan.weights_epoch = weights_epoch;
    memcpy(place->plan.expert_ids, command->expert_ids, bytes);
    eplb_executor_weights_plan(core, command, &place->plan);
    memcpy(place->base_ids, eplb_executor_table(core, command->prepare_layer_id), bytes);
    eplb_place_enter(place, PLACE_QUEUED);
    set_level(core, command->prepare_token, EPLB_PREPARE_RUNNING, EPLB_REASON_NONE);
    eplb_executor_act(core, EPLB_EXECUTOR_RUN_PREPARE)->plan = &place->plan;
}

/** A refused prepare changes nothing but the level: what runs or waits goes on. */
void eplb_executor_prepare_refuse(struct eplb_executor_core *core, const struct eplb_command *command,
                                  enum eplb_reason reason)
{
    if (command->prepare_layer_id != EPLB_NO_LAYER)
        set_level(core, command->prepare_token, EPLB_PREPARE_FAILED, reason);
}

void eplb_executor_prepare_began(struct eplb_executor_core *core, struct eplb_prepare_token token)
{
    struct place *place = eplb_place_in(core, PLACE_QUEUED);
    EPLB_ASSERT(place != NULL && place->plan.token.value == token.value);
    EPLB_ASSERT(eplb_place_in(core, PLACE_RUNNING) == NULL);
    eplb_place_enter(place, PLACE_RUNNING);
}

void eplb_executor_prepare_done(struct eplb_executor_core *core, struct eplb_prepare_token token, bool ok)
{
    struct place *place = eplb_place_in(core, PLACE_RUNNING);
    EPLB_ASSERT(place != NULL && place->plan.token.value == token.value);
    if (!ok || place->superseded) {
        eplb_place_enter(place, PLACE_FREE);
    } else {
        eplb_place_evict(core, 1);
        eplb_place_enter(place, PLACE_HELD);
    }
    /* A newer token in the level stays there: late results are of no interest. */
    if (core->levels.prepare_token.value != token.value)
        return;
    EPLB_ASSERT(!place->superseded && core->levels.prepare_status == EPLB_PREPARE_RUNNING);
    set_level(core, token, ok ? EPLB_PREPARE_OK : EPLB_PREPARE_FAILED,
              ok ? EPLB_REASON_NONE : EPLB_REASON_HOOK_FAILED);
}
