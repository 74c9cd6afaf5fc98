/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "protocol/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void table_text(const int32_t *table, char text[TRACE_LINE])
{
    size_t length = 0;
    for (int32_t slot = 0; slot < NUM_SLOTS; slot++)
        length += (size_t)snprintf(text + length, TRACE_LINE - length, "%s%d",
                                   slot == 0                 ? ""
                                   : slot % LOCAL_SLOTS == 0 ? " | "
                                                             : " ",
                                   table[slot]);
}

/* ---------------------------------------------------------------------------------- the log lines */

static const struct eplb_log_field *field_of(const struct eplb_log_record *record, const char *key)
{
    for (size_t i = 0; i < record->num_fields; i++)
        if (strcmp(record->fields[i].key, key) == 0)
            return &record->fields[i];
    return NULL;
}

static void log_line(void *context, const struct eplb_log_record *record)
{
    struct world *world = context;
    const struct eplb_log_field *message = field_of(record, "message");
    const struct eplb_log_field *verdict = field_of(record, "verdict");
    if (record->level == EPLB_LOG_WARNING && message != NULL)
        trace_say(&world->trace, "manager warns: %s", message->value.text);
    if (verdict != NULL)
        trace_say(&world->trace, "policy: layer %d, peak %.0f now and %.0f planned: %s",
                  (int)field_of(record, "layer")->value.integer, field_of(record, "current_peak")->value.real,
                  field_of(record, "candidate_peak")->value.real, verdict->value.text);
}

/** `living` is a worker that runs; NULL: they have just begun. */
static void create(struct world *world, uint64_t first_token, const struct eplb_executor_core *living)
{
    struct engine *engine = &world->engine;
    engine->log = (struct eplb_log_sink){sizeof engine->log, world, log_line};
    struct eplb_manager_core_params params = {
        .shape = world->shape,
        .ops = eplb_policy_find("balanced").ops,
        .min_peak_load_improvement = 0.05,
        .update_interval_ns = world->settings.interval,
        .prepare_timeout_ns = world->settings.prepare_timeout,
        .transfer_timeout_ns = world->settings.transfer_timeout,
        .overlap = world->settings.overlap,
        .first_token = first_token,
        .first_seq = engine->last_seq + 1,
        .initial = living == NULL ? NULL : eplb_executor_core_tables(living),
        .generations = living == NULL ? NULL : eplb_executor_core_generations(living),
        .weight_versions = living == NULL ? NULL : eplb_executor_core_versions(living),
        .initial_weights = living == NULL ? NULL : eplb_executor_core_replica_weights(living),
        .replica_routing = world->settings.adaptive ? EPLB_ROUTING_ADAPTIVE : EPLB_ROUTING_STATIC,
        .weights_decay = 0.5,
        .log = &engine->log,
        .policy_log = &engine->log,
    };
    struct eplb_error error;
    if (eplb_manager_core_create(&params, &engine->manager, &error) != EPLB_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(2);
    }
    eplb_manager_core_status(engine->manager, 0, &engine->status);
}

void engine_init(struct world *world)
{
    create(world, 1, NULL);
}

void engine_restart(struct world *world)
{
    const struct eplb_executor_core *worker = world->ranks[0].core;
    uint64_t last_token = 0;
    for (int32_t rank = 0; rank < NUM_RANKS; rank++) {
        struct eplb_worker_levels levels = eplb_executor_core_levels(world->ranks[rank].core);
        if (levels.prepare_token.value > last_token)
            last_token = levels.prepare_token.value;
        if (levels.activation_token.value > last_token)
            last_token = levels.activation_token.value;
    }
    engine_destroy(world);
    create(world, last_token + 1, worker);
}

void engine_destroy(struct world *world)
{
    eplb_manager_core_destroy(world->engine.manager);
}

/* ------------------------------------------------------------------------------------ the manager */

static void say_command(struct world *world, const struct eplb_command *command)
{
    char activates[TRACE_LINE] = "", prepares[TRACE_LINE] = "", table[TRACE_LINE];
    bool empty = command->update_layer_id == EPLB_NO_LAYER && command->prepare_layer_id == EPLB_NO_LAYER;
    bool both = command->update_layer_id != EPLB_NO_LAYER && command->prepare_layer_id != EPLB_NO_LAYER;
    if (command->update_layer_id != EPLB_NO_LAYER)
        snprintf(activates, sizeof activates,
                 " activates layer %d (activation %" PRIu64 " of prepare %" PRIu64 ")",
                 command->update_layer_id, command->activation_token.value,
                 command->update_prepare_token.value);
    if (command->prepare_layer_id != EPLB_NO_LAYER) {
        table_text(command->expert_ids, table);
        snprintf(prepares, sizeof prepares,
                 " prepares layer %d (prepare %" PRIu64 " on generation %" PRIu64 ": %.64s)",
                 command->prepare_layer_id, command->prepare_token.value, command->base_generation, table);
    }
    if (empty && command->num_weight_updates == 0)
        snprintf(activates, sizeof activates, " has an empty command");
    if (!empty || command->num_weight_updates == 0)
        trace_say(&world->trace, "manager: forward %" PRIu64 "%s%s%s", command->seq, activates,
                  both ? " and" : "", prepares);
    for (int32_t i = 0; i < command->num_weight_updates; i++)
        trace_say(&world->trace,
                  "manager: forward %" PRIu64 " brings layer %d weights (version %" PRIu64
                  " of generation %" PRIu64 ")",
                  command->seq, command->weight_updates[i].layer, command->weight_updates[i].version,
                  command->weight_updates[i].generation);
}

static void act(struct world *world, const struct eplb_manager_action *action, struct eplb_command *command)
{
    switch (action->type) {
    case EPLB_MANAGER_COMMAND:
        *command = *action->command;
        say_command(world, command);
        break;
    case EPLB_MANAGER_OPEN_RECORD:
        record_open(world, action->token);
        break;
    case EPLB_MANAGER_ABORT_RECORD:
        trace_say(&world->trace, "manager: asks to abort activation %" PRIu64, action->token.value);
        record_abort(world, action->token);
        break;
    case EPLB_MANAGER_RUN_POLICY:
        trace_say(&world->trace, "manager: a policy run is due");
        break;
    case EPLB_MANAGER_SOLVE_WEIGHTS:
        trace_say(&world->trace, "manager: a solve of weights is due");
        break;
    case EPLB_MANAGER_COMMITTED:
        trace_say(&world->trace, "manager: layer %d is committed, generation %" PRIu64, action->layer,
                  action->generation);
        break;
    case EPLB_MANAGER_ABORTED:
        trace_say(&world->trace, "manager: layer %d is given up: %s", action->layer,
                  eplb_abort_reason_text(action->why));
        break;
    case EPLB_MANAGER_STOP:
        trace_say(&world->trace, "manager: the run stops: %s", action->error->text);
        break;
    }
}

/** Writes down what the states of the layers have become. */
static void say_states(struct world *world)
{
    struct eplb_manager_status *before = &world->engine.status;
    struct eplb_manager_status after;
    eplb_manager_core_status(world->engine.manager, world->now, &after);
    if (after.activating_layer != before->activating_layer && after.activating_layer != EPLB_NO_LAYER)
        trace_say(&world->trace, "manager: layer %d is activating", after.activating_layer);
    bool same = after.preparing_layer == before->preparing_layer &&
                after.prepare_token.value == before->prepare_token.value && after.ready == before->ready;
    if (!same && after.preparing_layer != EPLB_NO_LAYER)
        trace_say(&world->trace, "manager: layer %d is %s", after.preparing_layer,
                  after.ready ? "ready" : "preparing");
    if (before->round && !after.round)
        trace_say(&world->trace, "manager: the round is over");
    *before = after;
}

static struct eplb_command feed(struct world *world, const struct eplb_manager_event *event)
{
    struct eplb_manager_action action;
    struct eplb_command command;
    eplb_command_init(&command, event->seq);
    eplb_manager_core_step(world->engine.manager, event, world->now);
    while (eplb_manager_core_next(world->engine.manager, &action))
        act(world, &action, &command);
    say_states(world);
    return command;
}

void engine_submit(struct world *world, const char *batches, bool warmup, uint64_t base_generation)
{
    uint64_t seq = ++world->engine.last_seq;
    if (seq >= MAX_FORWARDS) {
        fprintf(stderr, "a story may have %d forwards\n", MAX_FORWARDS - 1);
        exit(2);
    }
    struct forward *forward = &world->forwards[seq];
    struct eplb_dp_batch batch[NUM_RANKS] = {{0, 0}};
    for (int32_t rank = 0; rank < NUM_RANKS; rank++) {
        forward->batches[rank] = batches[rank];
        batch[rank].prefill_tokens = batches[rank] == 'p' || batches[rank] == 'm';
        batch[rank].decode_tokens = batches[rank] == 'd' || batches[rank] == 'm';
    }
    forward->warmup = warmup;
    struct eplb_command command = feed(world, &(struct eplb_manager_event){.type = EPLB_MANAGER_SUBMIT,
                                                                           .seq = seq,
                                                                           .batches = batch,
                                                                           .num_batches = NUM_RANKS,
                                                                           .warmup = warmup});
    if (base_generation != 0)
        command.base_generation = base_generation;
    eplb_command_encode(&world->shape, &command, forward->command);
}

void engine_drop(struct world *world, uint64_t seq)
{
    struct forward *forward = &world->forwards[seq];
    for (int32_t rank = 0; rank < NUM_RANKS; rank++)
        if (forward->begun[rank]) {
            trace_say(&world->trace, "engine: rank %d has begun forward %" PRIu64, rank, seq);
            return;
        }
    forward->dropped = true;
    feed(world, &(struct eplb_manager_event){.type = EPLB_MANAGER_DROPPED, .seq = seq});
}

/* -------------------------------------------------------------------------------------- outputs */

static const char *reason_text(enum eplb_reason reason)
{
    return reason == EPLB_REASON_NONE ? "" : eplb_reason_text(reason);
}

static void say_prepare(struct world *world, int32_t rank, const struct eplb_worker_levels *levels)
{
    static const char *const statuses[] = {"none", "running", "ok", "failed: "};
    const struct eplb_worker_levels *seen = &world->engine.seen[rank];
    if (levels->prepare_token.value != seen->prepare_token.value ||
        levels->prepare_status != seen->prepare_status)
        trace_rank(&world->trace, rank, "reported prepare %" PRIu64 " %s%s", levels->prepare_token.value,
                   statuses[levels->prepare_status], reason_text(levels->prepare_reason));
}

static void say_activation(struct world *world, int32_t rank, const struct eplb_worker_levels *levels)
{
    static const char *const outcomes[] = {"none", "switched", "kept: "};
    const struct eplb_worker_levels *seen = &world->engine.seen[rank];
    if (levels->activation_token.value != seen->activation_token.value ||
        levels->activation_outcome != seen->activation_outcome)
        trace_rank(&world->trace, rank, "reported activation %" PRIu64 " %s%s",
                   levels->activation_token.value, outcomes[levels->activation_outcome],
                   reason_text(levels->activation_reason));
}

/** Writes down what the engine has not been told before: repetition is no news. */
static void say_news(struct world *world, const struct eplb_worker_output outputs[NUM_RANKS])
{
    for (int32_t rank = 0; rank < NUM_RANKS; rank++)
        if (outputs[rank].prefix != NULL)
            say_prepare(world, rank, &outputs[rank].levels);
    for (int32_t rank = 0; rank < NUM_RANKS; rank++) {
        if (outputs[rank].prefix == NULL)
            continue;
        say_activation(world, rank, &outputs[rank].levels);
        world->engine.seen[rank] = outputs[rank].levels;
    }
}

/** The oldest forward whose output was not processed; 0: none. */
static uint64_t oldest_forward(const struct world *world)
{
    for (uint64_t seq = 1; seq <= world->engine.last_seq; seq++)
        if (!world->forwards[seq].dropped && !world->forwards[seq].processed)
            return seq;
    return 0;
}

static bool is_complete(struct world *world, uint64_t seq, const bool lacking[NUM_RANKS])
{
    for (int32_t rank = 0; rank < NUM_RANKS; rank++)
        if (!lacking[rank] && !world->ranks[rank].dead && !world->forwards[seq].reported[rank]) {
            trace_say(&world->trace, "engine: rank %d has not reported forward %" PRIu64, rank, seq);
            return false;
        }
    return true;
}

void engine_output(struct world *world, const bool lacking[NUM_RANKS])
{
    struct eplb_worker_output outputs[NUM_RANKS] = {{0}};
    int64_t prefix[NUM_RANKS][MAX_LAYERS * LOCAL_SLOTS];
    uint64_t generations[NUM_RANKS][MAX_LAYERS];
    uint64_t versions[NUM_RANKS][MAX_LAYERS];
    uint64_t seq = oldest_forward(world);
    if (seq == 0) {
        trace_say(&world->trace, "engine: no forward is in flight");
        return;
    }
    if (!is_complete(world, seq, lacking))
        return;
    for (int32_t rank = 0; rank < NUM_RANKS; rank++) {
        struct eplb_error error;
        if (lacking[rank] || !world->forwards[seq].reported[rank])
            continue;
        if (eplb_worker_output_decode(&world->shape, world->forwards[seq].outputs[rank], prefix[rank],
                                      generations[rank], versions[rank], &outputs[rank], &error) != EPLB_OK)
            trace_say(&world->trace, "engine: %s", error.text);
    }
    say_news(world, outputs);
    world->forwards[seq].processed = true;
    feed(world, &(struct eplb_manager_event){
                    .type = EPLB_MANAGER_OUTPUTS, .seq = seq, .outputs = outputs, .num_outputs = NUM_RANKS});
}

/* --------------------------------------------------------------------------------- other events */

void engine_policy(struct world *world, bool fails)
{
    struct eplb_error error = {.status = EPLB_OK};
    if (!world->engine.status.policy_running) {
        trace_say(&world->trace, "manager: no policy run was asked for");
        return;
    }
    enum eplb_status status = eplb_manager_core_run_policy(world->engine.manager, &error);
    feed(world, &(struct eplb_manager_event){.type = EPLB_MANAGER_POLICY_DONE,
                                             .status = fails ? EPLB_REFUSED : status,
                                             .reason = fails ? "it was told to fail" : error.text});
}

void engine_solved(struct world *world, int32_t layer, int32_t expert, int32_t percent, uint64_t generation)
{
    const int32_t *table = eplb_manager_core_tables(world->engine.manager) + layer * NUM_SLOTS;
    int32_t weights[NUM_SLOTS], replicas[NUM_EXPERTS], seen = 0, left = EPLB_WEIGHT_UNIT;
    eplb_weights_equal(&world->shape, table, replicas, weights);
    eplb_placement_replicas(&world->shape, table, replicas);
    for (int32_t slot = 0; slot < NUM_SLOTS; slot++) {
        if (table[slot] != expert)
            continue;
        int32_t others = replicas[expert] - seen++;
        weights[slot] = seen == 1 ? EPLB_WEIGHT_UNIT / 100 * percent : left / others;
        left -= weights[slot];
    }
    const struct eplb_weight_update update = {.layer = layer, .generation = generation, .weights = weights};
    feed(world, &(struct eplb_manager_event){
                    .type = EPLB_MANAGER_WEIGHTS_DONE, .weights = &update, .num_weights = 1});
}

void engine_tick(struct world *world)
{
    feed(world, &(struct eplb_manager_event){.type = EPLB_MANAGER_TICK});
}

void engine_dead(struct world *world, int32_t rank)
{
    network_member_dead(world, rank);
    feed(world, &(struct eplb_manager_event){.type = EPLB_MANAGER_RANK_DEAD, .rank = rank});
}

/* ---------------------------------------------------------------------------------------- views */

static void numbers_text(const int64_t *numbers, int32_t count, char text[TRACE_LINE])
{
    size_t length = 0;
    for (int32_t i = 0; i < count; i++)
        length +=
            (size_t)snprintf(text + length, TRACE_LINE - length, "%s%" PRId64, i == 0 ? "" : " ", numbers[i]);
}

void engine_show_window(struct world *world, int32_t layer)
{
    const struct eplb_window *window = eplb_manager_core_window(world->engine.manager);
    char experts[TRACE_LINE], slots[TRACE_LINE];
    numbers_text(window->logical + layer * NUM_EXPERTS, NUM_EXPERTS, experts);
    numbers_text(window->physical + layer * NUM_SLOTS, NUM_SLOTS, slots);
    trace_say(&world->trace,
              "window of layer %d: tokens of experts %.64s, of slots %.128s, generation %" PRIu64, layer,
              experts, slots, window->generations[layer]);
}

void engine_show_state(struct world *world)
{
    for (int32_t layer = 0; layer < world->shape.num_layers; layer++) {
        const int32_t *table = eplb_manager_core_tables(world->engine.manager) + layer * NUM_SLOTS;
        char text[TRACE_LINE];
        table_text(table, text);
        trace_say(&world->trace, "layer %d: generation %" PRIu64 " committed, %.64s", layer,
                  eplb_manager_core_generation(world->engine.manager, layer), text);
        for (int32_t rank = 0; rank < NUM_RANKS; rank++) {
            const struct rank *self = &world->ranks[rank];
            if (self->dead)
                continue;
            table_text(eplb_executor_core_tables(self->core) + layer * NUM_SLOTS, text);
            trace_rank(&world->trace, rank, "layer %d runs under generation %" PRIu64 ", %.64s", layer,
                       eplb_executor_core_generations(self->core)[layer], text);
            if (world->settings.adaptive)
                trace_rank(&world->trace, rank, "layer %d has weights of version %" PRIu64, layer,
                           eplb_executor_core_versions(self->core)[layer]);
        }
    }
}
