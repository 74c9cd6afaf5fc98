/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "executor/state.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "migrate/layer_plan.h"

/* ------------------------------------------------------------------------------------- create */

static struct eplb_executor_core *layout(struct eplb_arena *arena,
                                         const struct eplb_executor_core_params *params)
{
    const struct eplb_shape *shape = &params->shape;
    size_t layers = (size_t)shape->num_layers;
    size_t slots = (size_t)shape->num_slots;
    struct eplb_executor_core parts = {
        .shape = *shape, .ep_rank = params->ep_rank, .takes_weights = params->takes_weights};
    struct eplb_executor_core *core = eplb_arena_take(arena, 1, sizeof *core);
    if (params->layer_ids != NULL)
        parts.layer_ids = eplb_arena_take(arena, layers, sizeof *parts.layer_ids);
    parts.tables = eplb_arena_take(arena, layers * slots, sizeof *parts.tables);
    parts.generations = eplb_arena_take(arena, layers, sizeof *parts.generations);
    parts.ran_generations = eplb_arena_take(arena, layers, sizeof *parts.ran_generations);
    parts.hashes = eplb_arena_take(arena, layers, sizeof *parts.hashes);
    parts.replica_weights = eplb_arena_take(arena, layers * slots, sizeof *parts.replica_weights);
    parts.versions = eplb_arena_take(arena, layers, sizeof *parts.versions);
    parts.ran_versions = eplb_arena_take(arena, layers, sizeof *parts.ran_versions);
    parts.weight_sums = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *parts.weight_sums);
    for (int32_t i = 0; i < NUM_PLACES; i++) {
        eplb_layer_plan_take(arena, shape, &parts.places[i].plan);
        parts.places[i].plan.place = i;
        parts.places[i].base_ids = eplb_arena_take(arena, slots, sizeof *parts.places[i].base_ids);
    }
    parts.scratch = eplb_arena_take(arena, 1, eplb_placement_diff_scratch(shape));
    void *transfer =
        eplb_arena_take(arena, 1, eplb_transfer_size(shape, params->expert_bytes, &params->limits));
    if (core == NULL)
        return NULL;
    parts.transfer =
        eplb_transfer_init(transfer, shape, params->ep_rank, params->expert_bytes, &params->limits);
    *core = parts;
    return core;
}

static enum eplb_status take_weights(struct eplb_executor_core *core, int32_t layer, const int32_t *weights,
                                     struct eplb_error *error)
{
    const int32_t *table = eplb_executor_table(core, layer);
    int32_t *row = eplb_executor_weights_row(core, layer);
    if (weights == NULL) {
        eplb_weights_equal(&core->shape, table, core->weight_sums, row);
        return EPLB_OK;
    }
    struct eplb_error reason;
    size_t slots = (size_t)core->shape.num_slots;
    memcpy(row, weights + (size_t)layer * slots, slots * sizeof *row);
    if (eplb_weights_check(&core->shape, table, row, core->weight_sums, &reason) != EPLB_OK)
        EPLB_FAIL(EPLB_INVALID, "the initial weights of layer %d are not legal: %s",
                  eplb_executor_core_layer_id(core, layer), reason.text);
    return EPLB_OK;
}

static enum eplb_status take_initial(struct eplb_executor_core *core,
                                     const struct eplb_executor_core_params *params, struct eplb_error *error)
{
    const int32_t *initial = params->initial;
    size_t slots = (size_t)core->shape.num_slots;
    for (int32_t layer = 0; layer < core->shape.num_layers; layer++) {
        int32_t *table = eplb_executor_table(core, layer);
        if (initial == NULL)
            eplb_placement_initial(&core->shape, table);
        else
            memcpy(table, initial + (size_t)layer * slots, slots * sizeof *table);
        EPLB_ASSERT(eplb_placement_check(&core->shape, table, NULL) == EPLB_OK);
        core->hashes[layer] = eplb_placement_hash(&core->shape, table);
        EPLB_TRY(take_weights(core, layer, params->initial_weights, error));
    }
    return EPLB_OK;
}

enum eplb_status eplb_executor_core_create(const struct eplb_executor_core_params *params,
                                           struct eplb_executor_core **core, struct eplb_error *error)
{
    EPLB_ASSERT(params->ep_rank >= 0 && params->ep_rank < params->shape.ep_size);
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&arena, params);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for an executor of %d layers", params->shape.num_layers);
    struct eplb_executor_core *created = layout(&arena, params);
    EPLB_ASSERT(created != NULL && !arena.overflow);
    created->attempt.layer = EPLB_NO_LAYER;
    if (created->layer_ids != NULL)
        memcpy(created->layer_ids, params->layer_ids,
               (size_t)params->shape.num_layers * sizeof *created->layer_ids);
    enum eplb_status status = take_initial(created, params, error);
    if (status == EPLB_OK)
        *core = created;
    else
        eplb_executor_core_destroy(created);
    return status;
}

void eplb_executor_core_destroy(struct eplb_executor_core *core)
{
    eplb_arena_free(core);
}

/* -------------------------------------------------------------------------------------- check */

static enum eplb_status check_prepare(const struct eplb_executor_core *core,
                                      const struct eplb_command *command, struct eplb_error *error)
{
    uint64_t token = command->prepare_token.value;
    if ((command->prepare_layer_id == EPLB_NO_LAYER) != (token == 0))
        EPLB_FAIL(EPLB_INVALID,
                  "the command of forward %" PRIu64 " has prepare_layer_id %d and prepare_token %" PRIu64
                  "; it must have both or neither (%d and 0)",
                  command->seq, command->prepare_layer_id, token, EPLB_NO_LAYER);
    if (token != 0 && token <= core->levels.prepare_token.value)
        EPLB_FAIL(EPLB_INVALID,
                  "the command of forward %" PRIu64 " has prepare_token %" PRIu64
                  "; tokens rise, and this rank has taken %" PRIu64,
                  command->seq, token, core->levels.prepare_token.value);
    return EPLB_OK;
}

static enum eplb_status check_activation(const struct eplb_executor_core *core,
                                         const struct eplb_command *command, struct eplb_error *error)
{
    uint64_t token = command->activation_token.value;
    bool none = command->update_layer_id == EPLB_NO_LAYER;
    if (none != (token == 0) || none != (command->update_prepare_token.value == 0))
        EPLB_FAIL(EPLB_INVALID,
                  "the command of forward %" PRIu64 " has update_layer_id %d, activation_token %" PRIu64
                  " and update_prepare_token %" PRIu64 "; it must have all or none (%d, 0 and 0)",
                  command->seq, command->update_layer_id, token, command->update_prepare_token.value,
                  EPLB_NO_LAYER);
    /* The attempt and not the level: a report that was lost must not let a token in twice. */
    if (token != 0 && token <= core->attempt.token.value)
        EPLB_FAIL(EPLB_INVALID,
                  "the command of forward %" PRIu64 " has activation_token %" PRIu64
                  "; tokens rise, and this rank has taken %" PRIu64,
                  command->seq, token, core->attempt.token.value);
    return EPLB_OK;
}

enum eplb_status eplb_executor_core_check(const struct eplb_executor_core *core,
                                          const struct eplb_command *command, struct eplb_error *error)
{
    if (core->attempt.active)
        EPLB_FAIL(EPLB_REFUSED,
                  "forward %" PRIu64 " cannot start: activation_token %" PRIu64
                  " of layer %d is unresolved; finish_step or abort_step of forward %" PRIu64 " comes first",
                  command->seq, core->attempt.token.value,
                  eplb_executor_core_layer_id(core, core->attempt.layer), core->seq);
    if (command->seq <= core->seq)
        EPLB_FAIL(EPLB_INVALID,
                  "forward %" PRIu64 " cannot start: numbers rise, and this rank has begun %" PRIu64,
                  command->seq, core->seq);
    if (command->update_layer_id != EPLB_NO_LAYER && command->update_layer_id == command->prepare_layer_id)
        EPLB_FAIL(EPLB_INVALID,
                  "the command of forward %" PRIu64 " names layer %d to prepare and to activate; one of the "
                  "two is allowed",
                  command->seq, eplb_executor_core_layer_id(core, command->update_layer_id));
    EPLB_TRY(check_prepare(core, command, error));
    return check_activation(core, command, error);
}

enum eplb_reason eplb_executor_judge_base(const struct eplb_executor_core *core, int32_t layer,
                                          uint64_t base_generation, uint64_t base_hash)
{
    if (layer < 0 || layer >= core->shape.num_layers)
        return EPLB_REASON_WRONG_LAYER;
    if (EPLB_PLANTED(PREPARE_ON_ANOTHER_BASE))
        return EPLB_REASON_NONE;
    if (base_generation != core->generations[layer])
        return EPLB_REASON_BASE_GENERATION;
    return base_hash == core->hashes[layer] ? EPLB_REASON_NONE : EPLB_REASON_BASE_HASH;
}

/* ------------------------------------------------------------------------------------- events */

static void begin_forward(struct eplb_executor_core *core, const struct eplb_command *command)
{
    EPLB_ASSERT(eplb_executor_core_check(core, command, NULL) == EPLB_OK);
    EPLB_ASSERT(core->next_action == core->num_actions);
    core->seq = command->seq;
    memcpy(core->ran_generations, core->generations,
           (size_t)core->shape.num_layers * sizeof *core->generations);
    if (EPLB_PLANTED(REPORT_LOST_ONCE))
        core->levels = (struct eplb_worker_levels){.prepare_token = core->levels.prepare_token,
                                                   .prepare_status = core->levels.prepare_status,
                                                   .prepare_reason = core->levels.prepare_reason};
}

/**
 * Activation first: a prepare that is done at once would otherwise evict the very plan that the
 * command activates. Weights need no decision: all ranks have the same command and the same generations.
 */
static void start_step(struct eplb_executor_core *core, const struct eplb_executor_event *event, int64_t now)
{
    begin_forward(core, event->command);
    if (EPLB_PLANTED(PREPARE_BEFORE_ACTIVATION) && event->command->prepare_layer_id != EPLB_NO_LAYER)
        eplb_place_evict(core, 0);
    eplb_executor_activation_take(core, event->command, event->weights_epoch, now);
    eplb_executor_weights_take(core, event->command);
    eplb_executor_prepare_take(core, event->command, event->weights_epoch);
}

static void abort_step(struct eplb_executor_core *core, const struct eplb_command *command, int64_t now)
{
    if (command == NULL || command->seq == core->seq) {
        eplb_executor_activation_give_up(core, now);
        return;
    }
    begin_forward(core, command);
    eplb_executor_activation_refuse(core, command, EPLB_REASON_STEP_ABORTED, now);
    eplb_executor_weights_take(core, command);
    eplb_executor_prepare_refuse(core, command, EPLB_REASON_STEP_ABORTED);
}

void eplb_executor_core_step(struct eplb_executor_core *core, const struct eplb_executor_event *event,
                             int64_t now)
{
    switch (event->type) {
    case EPLB_EXECUTOR_PREPARE_BEGAN:
        eplb_executor_prepare_began(core, event->token);
        break;
    case EPLB_EXECUTOR_PREPARED:
        eplb_executor_prepare_done(core, event->token, event->ok);
        break;
    case EPLB_EXECUTOR_START_STEP:
        start_step(core, event, now);
        break;
    case EPLB_EXECUTOR_FINISH_STEP:
        eplb_executor_activation_finish(core, now);
        break;
    case EPLB_EXECUTOR_ABORT_STEP:
        abort_step(core, event->command, now);
        break;
    case EPLB_EXECUTOR_MATERIALISED:
    case EPLB_EXECUTOR_COMPLETED:
    case EPLB_EXECUTOR_DECIDED:
        eplb_executor_activation_event(core, event, now);
        break;
    }
}

/* ------------------------------------------------------------------------------------ actions */

struct eplb_executor_action *eplb_executor_act(struct eplb_executor_core *core,
                                               enum eplb_executor_action_type type)
{
    if (core->next_action == core->num_actions)
        core->next_action = core->num_actions = 0;
    EPLB_ASSERT(core->num_actions < MAX_ACTIONS);
    struct eplb_executor_action *action = &core->actions[core->num_actions++];
    *action = (struct eplb_executor_action){.type = type};
    return action;
}

/** The transfer's actions first: the model is told of a decision after everything that led to it. */
bool eplb_executor_core_next(struct eplb_executor_core *core, struct eplb_executor_action *action)
{
    struct eplb_transfer_action transfer;
    if (eplb_transfer_next(core->transfer, &transfer)) {
        struct place *place = core->attempt.place;
        *action = (struct eplb_executor_action){.type = EPLB_EXECUTOR_TRANSFER,
                                                .plan = place == NULL ? NULL : &place->plan,
                                                .token = core->attempt.token,
                                                .transfer = transfer};
        return true;
    }
    if (core->next_action == core->num_actions)
        return false;
    *action = core->actions[core->next_action++];
    return true;
}

struct eplb_layer_plan *eplb_executor_core_queued(struct eplb_executor_core *core)
{
    struct place *queued = eplb_place_in(core, PLACE_QUEUED);
    if (queued == NULL || eplb_place_in(core, PLACE_RUNNING) != NULL)
        return NULL;
    return &queued->plan;
}

void eplb_executor_core_build(struct eplb_executor_core *core, struct eplb_layer_plan *plan)
{
    EPLB_ASSERT(plan->place >= 0 && plan->place < NUM_PLACES);
    const struct place *place = &core->places[plan->place];
    EPLB_ASSERT(plan == &place->plan);
    eplb_layer_plan_build(plan, &core->shape, core->ep_rank, place->base_ids, plan->expert_ids,
                          core->scratch);
}

/* -------------------------------------------------------------------------------------- views */

bool eplb_executor_core_idle(const struct eplb_executor_core *core)
{
    return !core->attempt.active;
}

struct eplb_activation_token eplb_executor_core_attempt(const struct eplb_executor_core *core)
{
    return core->attempt.active ? core->attempt.token : (struct eplb_activation_token){0};
}

int32_t eplb_executor_core_attempt_layer(const struct eplb_executor_core *core)
{
    return core->attempt.layer;
}

int32_t eplb_executor_core_layer_id(const struct eplb_executor_core *core, int32_t layer)
{
    bool named = core->layer_ids != NULL && layer >= 0 && layer < core->shape.num_layers;
    return named ? core->layer_ids[layer] : layer;
}

struct eplb_worker_levels eplb_executor_core_levels(const struct eplb_executor_core *core)
{
    return core->levels;
}

uint64_t eplb_executor_core_seq(const struct eplb_executor_core *core)
{
    return core->seq;
}

const uint64_t *eplb_executor_core_ran_generations(const struct eplb_executor_core *core)
{
    return core->ran_generations;
}

const uint64_t *eplb_executor_core_generations(const struct eplb_executor_core *core)
{
    return core->generations;
}

const int32_t *eplb_executor_core_tables(const struct eplb_executor_core *core)
{
    return core->tables;
}

const uint64_t *eplb_executor_core_ran_versions(const struct eplb_executor_core *core)
{
    return core->ran_versions;
}

const uint64_t *eplb_executor_core_versions(const struct eplb_executor_core *core)
{
    return core->versions;
}

const int32_t *eplb_executor_core_replica_weights(const struct eplb_executor_core *core)
{
    return core->replica_weights;
}
