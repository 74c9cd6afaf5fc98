/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "manager/state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { HEARTBEAT_SECONDS = 60 };

static_assert(EPLB_HISTORY_WINDOWS <= EPLB_MAX_POLICY_WINDOWS && EPLB_WINDOW_PARTS <= EPLB_MAX_POLICY_WINDOWS,
              "a policy is told of all windows and pieces that are kept");

struct eplb_manager_action *eplb_manager_act(struct eplb_manager_core *core,
                                             enum eplb_manager_action_type type)
{
    EPLB_ASSERT(core->num_actions < core->max_actions);
    struct eplb_manager_action *action = &core->actions[core->num_actions++];
    *action = (struct eplb_manager_action){.type = type, .layer = EPLB_NO_LAYER};
    return action;
}

void eplb_manager_stop(struct eplb_manager_core *core, enum eplb_status status, const char *format, ...)
{
    if (core->stopped)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(core->stop_error.text, sizeof core->stop_error.text, format, arguments);
    va_end(arguments);
    core->stopped = true;
    core->stop_error.status = status;
    eplb_manager_act(core, EPLB_MANAGER_STOP)->error = &core->stop_error;
}

void eplb_manager_warn(struct eplb_manager_core *core, const char *format, ...)
{
    char message[EPLB_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    EPLB_LOG(core->params.log, WARNING, EPLB_VALUE_TEXT(message));
}

const char *eplb_abort_reason_text(enum eplb_abort_reason why)
{
    switch (why) {
    case EPLB_ABORT_FAILED:
        return "a rank could not prepare";
    case EPLB_ABORT_TIMEOUT:
        return "not all ranks prepared in time";
    case EPLB_ABORT_KEPT:
        return "the ranks voted it down";
    case EPLB_ABORT_STALE:
        return "it no longer passes the gate";
    case EPLB_ABORT_RANK_DEAD:
        return "a rank died";
    }
    return "unknown";
}

int32_t eplb_manager_layer_id(const struct eplb_manager_core *core, int32_t layer)
{
    return core->params.layer_ids == NULL ? layer : core->params.layer_ids[layer];
}

/* ------------------------------------------------------------------------------------- create */

struct eplb_manager_core_params eplb_manager_core_params_of(const struct eplb_manager_params *params)
{
    const int64_t second_ns = INT64_C(1000000000);
    return (struct eplb_manager_core_params){
        .shape = params->shape,
        .ops = params->ops,
        .min_peak_load_improvement = params->min_peak_load_improvement,
        .update_interval_ns = params->update_interval_seconds * second_ns,
        .update_interval_forwards = params->update_interval_steps,
        .prepare_timeout_ns = params->prepare_timeout_seconds * second_ns,
        .transfer_timeout_ns = params->transfer_timeout_seconds * second_ns,
        .overlap = params->overlap,
        .first_token = params->first_token,
        .first_seq = params->first_seq,
        .initial = params->initial,
        .generations = params->generations,
        .weight_versions = params->weight_versions,
        .initial_weights = params->initial_weights,
        .replica_routing = params->replica_routing,
        .weights_decay = params->weights_decay,
        .layer_ids = params->layer_ids,
        .settings = params->settings,
        .max_moves = params->max_moves_per_layer,
        .expert_bytes = params->expert_bytes,
        .bytes_per_second = (double)params->bandwidth_bytes_per_second,
        .max_break_even_forwards = params->max_break_even_steps,
        .shift_trigger = params->shift_trigger,
        .min_tokens_per_layer = params->min_tokens_per_layer,
    };
}

static struct eplb_manager_core *layout(struct eplb_arena *arena,
                                        const struct eplb_manager_core_params *params)
{
    size_t layers = (size_t)params->shape.num_layers;
    size_t ranks = (size_t)params->shape.ep_size;
    size_t flights = (size_t)params->overlap + 1;
    struct eplb_manager_core parts = {.max_flights = (int32_t)flights,
                                      .max_actions = params->shape.num_layers + 16};
    struct eplb_manager_core *core = eplb_arena_take(arena, 1, sizeof *core);
    parts.layers = eplb_arena_take(arena, layers, sizeof *parts.layers);
    parts.waiting = eplb_arena_take(arena, layers, sizeof *parts.waiting);
    parts.preparing.rank_ok = eplb_arena_take(arena, ranks, sizeof *parts.preparing.rank_ok);
    parts.activating.outcome = eplb_arena_take(arena, ranks, sizeof *parts.activating.outcome);
    parts.flights = eplb_arena_take(arena, flights, sizeof *parts.flights);
    parts.dead = eplb_arena_take(arena, ranks, sizeof *parts.dead);
    parts.last_levels = eplb_arena_take(arena, ranks, sizeof *parts.last_levels);
    parts.reports = eplb_arena_take(arena, ranks, sizeof *parts.reports);
    eplb_replica_weights_layout(arena, &params->shape, params->replica_routing, &parts.weights);
    eplb_early_layout(arena, params, &parts.early);
    parts.moves = eplb_arena_take(arena, (size_t)params->shape.num_slots, sizeof *parts.moves);
    parts.diff_scratch = eplb_arena_take(arena, 1, eplb_placement_diff_scratch(&params->shape));
    parts.actions = eplb_arena_take(arena, (size_t)parts.max_actions, sizeof *parts.actions);
    int32_t *layer_ids = eplb_arena_take(arena, params->layer_ids == NULL ? 0 : layers, sizeof *layer_ids);
#if EPLB_TEST_BUILD
    uint64_t *generations = eplb_arena_take(arena, flights * layers, sizeof *generations);
#endif
    if (core == NULL)
        return NULL;
#if EPLB_TEST_BUILD
    for (size_t i = 0; i < flights; i++)
        parts.flights[i].generations = generations + i * layers;
#endif
    parts.params = *params;
    parts.shape = params->shape;
    if (params->layer_ids != NULL) {
        memcpy(layer_ids, params->layer_ids, layers * sizeof *layer_ids);
        parts.params.layer_ids = layer_ids;
    }
    parts.params.initial = NULL;
    parts.params.generations = NULL;
    parts.params.weight_versions = NULL;
    parts.params.initial_weights = NULL;
    *core = parts;
    return core;
}

static enum eplb_status check_params(const struct eplb_manager_core_params *params, struct eplb_error *error)
{
    if (params->update_interval_forwards < 0)
        EPLB_FAIL(EPLB_INVALID, "the update interval must be 0 or more forwards; it is %" PRId64,
                  params->update_interval_forwards);
    if (params->update_interval_ns < 0 || params->prepare_timeout_ns <= 0 || params->transfer_timeout_ns <= 0)
        EPLB_FAIL(EPLB_INVALID,
                  "the update interval must be 0 or more and the timeouts above 0; they are %" PRId64
                  ", %" PRId64 " and %" PRId64 " ns",
                  params->update_interval_ns, params->prepare_timeout_ns, params->transfer_timeout_ns);
    if ((unsigned)params->replica_routing >= EPLB_NUM_ROUTINGS)
        EPLB_FAIL(EPLB_INVALID, "the replica routing is %d; allowed is 0 to %d", (int)params->replica_routing,
                  EPLB_NUM_ROUTINGS - 1);
    if (!(params->shift_trigger >= 0 && params->shift_trigger <= EPLB_MAX_SHIFT_TRIGGER))
        EPLB_FAIL(EPLB_INVALID, "the shift trigger is %.17g; allowed is 0 to %d", params->shift_trigger,
                  EPLB_MAX_SHIFT_TRIGGER);
    if (params->min_tokens_per_layer < 0)
        EPLB_FAIL(EPLB_INVALID,
                  "a policy run is to wait for %" PRId64 " tokens per layer; allowed is 0 or more",
                  params->min_tokens_per_layer);
    if (params->overlap < 0 || params->overlap > 1)
        EPLB_FAIL(EPLB_INVALID, "overlap is %d; allowed is 0 or 1", params->overlap);
    if (params->first_token < 1 || params->first_token > EPLB_MAX_TOKEN / 2 || params->first_seq < 1)
        EPLB_FAIL(EPLB_INVALID,
                  "the first token is %" PRIu64 " and the first forward %" PRIu64
                  "; both must be 1 or more, and the token no more than 2^61",
                  params->first_token, params->first_seq);
    return EPLB_OK;
}

static enum eplb_status create_parts(struct eplb_manager_core *core,
                                     const struct eplb_manager_core_params *params, struct eplb_error *error)
{
    struct eplb_planner_params planner;
    eplb_planner_params_init(&planner);
    planner.shape = params->shape;
    planner.ops = params->ops;
    planner.min_peak_load_improvement = params->min_peak_load_improvement;
    planner.replica_routing = params->replica_routing;
    planner.initial = params->initial;
    planner.layer_ids = params->layer_ids;
    planner.log = params->policy_log;
    planner.max_moves = params->max_moves;
    planner.cost = (struct eplb_migration_cost){.expert_bytes = params->expert_bytes,
                                                .bytes_per_second = params->bytes_per_second,
                                                .max_break_even_forwards = params->max_break_even_forwards};
    if (params->settings.size != 0)
        planner.settings = params->settings;
    EPLB_TRY(eplb_planner_create(&planner, &core->planner, error));
    EPLB_TRY(eplb_aggregator_create(&params->shape, params->overlap, eplb_planner_active(core->planner),
                                    params->generations, params->log, &core->aggregator, error));
    eplb_aggregator_name_layers(core->aggregator, params->layer_ids);
    eplb_early_start(core);
    return eplb_replica_weights_start(core, params, error);
}

enum eplb_status eplb_manager_core_create(const struct eplb_manager_core_params *params,
                                          struct eplb_manager_core **core, struct eplb_error *error)
{
    EPLB_TRY(check_params(params, error));
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&arena, params);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a manager of %d layers", params->shape.num_layers);
    struct eplb_manager_core *created = layout(&arena, params);
    EPLB_ASSERT(created != NULL && !arena.overflow);
    enum eplb_status status = create_parts(created, params, error);
    if (status != EPLB_OK) {
        eplb_manager_core_destroy(created);
        return status;
    }
    created->preparing.layer = EPLB_NO_LAYER;
    created->activating.layer = EPLB_NO_LAYER;
    created->last_sample_at = NEVER;
    created->heartbeat_at = NEVER;
    created->measures.last_output_at = NEVER;
    created->next_token = params->first_token;
    created->next_seq = params->first_seq;
    EPLB_LOG(params->log, MANAGER_START, EPLB_VALUE_TEXT(params->ops->name),
             EPLB_VALUE_INT(params->shape.num_layers), EPLB_VALUE_INT(params->shape.ep_size),
             EPLB_VALUE_INT(params->shape.slots_per_rank));
    *core = created;
    return EPLB_OK;
}

void eplb_manager_core_destroy(struct eplb_manager_core *core)
{
    if (core == NULL)
        return;
    eplb_aggregator_destroy(core->aggregator);
    eplb_planner_destroy(core->planner);
    eplb_arena_free(core);
}

/* ------------------------------------------------------------------------------------- events */

/**
 * The boundary rule: at least one non-empty DP batch, every non-empty one all decode, no graph
 * warm-up. A prefill or a graph capture may still be reading the old weights.
 */
static bool allows(const struct eplb_manager_event *event)
{
    bool any = false;
    for (int32_t i = 0; i < event->num_batches; i++) {
        if (event->batches[i].prefill_tokens > 0)
            return false;
        any = any || event->batches[i].decode_tokens > 0;
    }
    return any && !event->warmup;
}

static bool add_flight(struct eplb_manager_core *core, const struct eplb_manager_event *event, int64_t now)
{
    if (event->seq != core->next_seq) {
        eplb_manager_stop(core, EPLB_INVALID, "forward %" PRIu64 " was submitted where %" PRIu64 " is next",
                          event->seq, core->next_seq);
        return false;
    }
    if (core->num_flights == core->max_flights) {
        eplb_manager_stop(core, EPLB_INVALID,
                          "forward %" PRIu64 " was submitted while %d are in flight; allowed is %d",
                          event->seq, core->num_flights, core->max_flights);
        return false;
    }
    struct flight *flight = &core->flights[core->num_flights++];
    flight->seq = event->seq;
    flight->submitted_at = now;
    flight->warmup = event->warmup;
    flight->num_carried = 0;
#if EPLB_TEST_BUILD
    memcpy(flight->generations, eplb_aggregator_open(core->aggregator)->generations,
           (size_t)core->shape.num_layers * sizeof *flight->generations);
#endif
    core->next_seq++;
    return true;
}

static void submit(struct eplb_manager_core *core, const struct eplb_manager_event *event, int64_t now)
{
    eplb_command_init(&core->command, event->seq);
    bool live = add_flight(core, event, now) && core->num_dead == 0;
    if (live && allows(event)) {
        eplb_activation_hand_out(core, &core->command, now);
        eplb_prepare_hand_out(core, &core->command, now);
    }
    /* Weights wait for no decode boundary: nothing moves. A capture must not record a change, though. */
    if (live && !event->warmup)
        eplb_replica_weights_hand_out(core, &core->flights[core->num_flights - 1], &core->command);
    eplb_manager_act(core, EPLB_MANAGER_COMMAND)->command = &core->command;
}

static void remove_flight(struct eplb_manager_core *core, int32_t index)
{
    struct flight removed = core->flights[index];
    core->num_flights--;
    memmove(&core->flights[index], &core->flights[index + 1],
            (size_t)(core->num_flights - index) * sizeof *core->flights);
    /* Its memory goes on with the free entries. */
    core->flights[core->num_flights] = removed;
}

static void dropped(struct eplb_manager_core *core, uint64_t seq, int64_t now)
{
    for (int32_t i = 0; i < core->num_flights; i++)
        if (core->flights[i].seq == seq) {
            eplb_replica_weights_dropped(core, &core->flights[i]);
            remove_flight(core, i);
            eplb_prepare_dropped(core, seq);
            eplb_activation_dropped(core, seq, now);
            return;
        }
    eplb_manager_stop(core, EPLB_INVALID, "forward %" PRIu64 " was dropped and is not in flight", seq);
}

static void take_levels(struct eplb_manager_core *core, const struct eplb_manager_event *event)
{
    for (int32_t rank = 0; rank < event->num_outputs; rank++) {
        const struct eplb_worker_output *output = &event->outputs[rank];
        if (!eplb_manager_has_output(event, rank) || core->dead[rank])
            continue;
        eplb_prepare_report(core, rank, event->seq, &output->levels);
        eplb_activation_report(core, rank, event->seq, &output->levels);
        core->last_levels[rank] = output->levels;
    }
}

/** A late or repeated output must not be taken for the one that is awaited. */
static void warn_of_strangers(struct eplb_manager_core *core, const struct eplb_manager_event *event)
{
    for (int32_t rank = 0; rank < event->num_outputs && rank < core->shape.ep_size; rank++) {
        const struct eplb_worker_output *output = &event->outputs[rank];
        if (output->prefix != NULL && !eplb_manager_has_output(event, rank))
            eplb_manager_warn(core,
                              "the output of rank %d for forward %" PRIu64
                              " is rank %d's for forward %" PRIu64 "; it counts as lost",
                              rank, event->seq, output->ep_rank, output->seq);
    }
}

static void outputs(struct eplb_manager_core *core, const struct eplb_manager_event *event, int64_t now)
{
    if (core->num_flights == 0 || core->flights[0].seq != event->seq) {
        eplb_manager_stop(core, EPLB_INVALID,
                          "the output of forward %" PRIu64 " came where %" PRIu64 " is next", event->seq,
                          core->num_flights == 0 ? core->next_seq : core->flights[0].seq);
        return;
    }
    warn_of_strangers(core, event);
    if (!eplb_samples_take(core, event, &core->flights[0], now))
        return;
    eplb_measure_output(core, now);
    remove_flight(core, 0);
    if (event->num_outputs != core->shape.ep_size)
        return;
    take_levels(core, event);
    eplb_prepare_output(core, event->seq, now);
    eplb_activation_resolve(core, now);
    eplb_prepare_judge(core, event->seq, now);
    eplb_activation_judge(core, event->seq, now);
}

static void warn_of_death(struct eplb_manager_core *core, int32_t rank)
{
    const struct activating *activating = &core->activating;
    if (activating->layer == EPLB_NO_LAYER)
        eplb_manager_warn(core, "rank %d died; no layer was activating", rank);
    else
        eplb_manager_warn(core,
                          "rank %d died while layer %d was activating (activation_token %" PRIu64
                          "); the decision record decides",
                          rank, eplb_manager_layer_id(core, activating->layer), activating->token.value);
}

static void rank_dead(struct eplb_manager_core *core, int32_t rank, int64_t now)
{
    EPLB_ASSERT(rank >= 0 && rank < core->shape.ep_size);
    if (core->dead[rank])
        return;
    core->dead[rank] = 1;
    core->num_dead++;
    warn_of_death(core, rank);
    eplb_prepare_abort(core, EPLB_ABORT_RANK_DEAD);
    eplb_round_abort_waiting(core);
    eplb_activation_rank_dead(core, now);
}

/** The last prepare token that each rank reported, `rank:token,...`: whoever lags behind stands out. */
static void list_prepare_tokens(const struct eplb_manager_core *core, char *text, size_t capacity)
{
    enum { LONGEST_ENTRY = 28 };
    size_t length = 0;
    text[0] = '\0';
    for (int32_t rank = 0; rank < core->shape.ep_size && length + LONGEST_ENTRY < capacity; rank++)
        length += (size_t)snprintf(text + length, capacity - length, "%s%d:%" PRIu64, rank == 0 ? "" : ",",
                                   rank, core->last_levels[rank].prepare_token.value);
}

static void log_path(struct eplb_manager_core *core, const char *path, struct path_tasks *tasks,
                     const char *tokens, int64_t now)
{
    double sample_age = core->last_sample_at == NEVER ? -1.0 : (double)(now - core->last_sample_at) / 1e9;
    EPLB_LOG(core->params.log, HEARTBEAT, EPLB_VALUE_TEXT(path), EPLB_VALUE_TEXT("all"),
             EPLB_VALUE_INT(tasks->ok), EPLB_VALUE_INT(tasks->failed),
             EPLB_VALUE_INT(core->totals.layers_committed), EPLB_VALUE_INT(core->totals.layers_timed_out),
             EPLB_VALUE_REAL(sample_age), EPLB_VALUE_TEXT(tokens));
    *tasks = (struct path_tasks){0};
}

static void log_heartbeat(struct eplb_manager_core *core, int64_t now)
{
    if (core->heartbeat_at == NEVER)
        core->heartbeat_at = now;
    if (now - core->heartbeat_at < HEARTBEAT_SECONDS * INT64_C(1000000000))
        return;
    char tokens[512];
    core->heartbeat_at = now;
    list_prepare_tokens(core, tokens, sizeof tokens);
    log_path(core, "rebalance", &core->rebalance, "", now);
    log_path(core, "manager", &core->layers_tasks, tokens, now);
}

static void dispatch(struct eplb_manager_core *core, const struct eplb_manager_event *event, int64_t now)
{
    switch (event->type) {
    case EPLB_MANAGER_SUBMIT:
        submit(core, event, now);
        break;
    case EPLB_MANAGER_DROPPED:
        dropped(core, event->seq, now);
        break;
    case EPLB_MANAGER_OUTPUTS:
        outputs(core, event, now);
        break;
    case EPLB_MANAGER_POLICY_DONE:
        eplb_round_policy_done(core, event, now);
        break;
    case EPLB_MANAGER_RANK_DEAD:
        rank_dead(core, event->rank, now);
        break;
    case EPLB_MANAGER_TICK:
        eplb_prepare_judge(core, 0, now);
        break;
    case EPLB_MANAGER_WEIGHTS_DONE:
        eplb_replica_weights_done(core, event);
        break;
    }
}

void eplb_manager_core_step(struct eplb_manager_core *core, const struct eplb_manager_event *event,
                            int64_t now)
{
    EPLB_ASSERT(core->next_action == core->num_actions);
    core->num_actions = 0;
    core->next_action = 0;
    if (core->stopped && event->type != EPLB_MANAGER_POLICY_DONE && event->type != EPLB_MANAGER_WEIGHTS_DONE)
        return;
    dispatch(core, event, now);
    if (core->stopped)
        return;
    eplb_round_start_if_due(core, now);
    eplb_replica_weights_solve_if_due(core);
    log_heartbeat(core, now);
}

bool eplb_manager_core_next(struct eplb_manager_core *core, struct eplb_manager_action *action)
{
    if (core->next_action == core->num_actions)
        return false;
    *action = core->actions[core->next_action++];
    return true;
}

enum eplb_status eplb_manager_core_run_policy(struct eplb_manager_core *core, struct eplb_error *error)
{
    EPLB_ASSERT(core->policy_running);
    const struct eplb_window *window = eplb_aggregator_closed(core->aggregator);
    struct eplb_planner_loads loads;
    eplb_planner_loads_init(&loads);
    loads.logical = window->num_samples == 0 ? NULL : window->logical;
    loads.physical = window->physical;
    /* The newest window of the history is the one that was closed; those before a shift are not told of. */
    loads.num_history = core->early.num_history;
    int32_t first = eplb_aggregator_history_length(core->aggregator) - 1 - loads.num_history;
    EPLB_ASSERT(first >= 0);
    for (int32_t i = 0; i < loads.num_history; i++)
        loads.history[i] = eplb_aggregator_history(core->aggregator, first + i, 0);
    loads.num_parts = eplb_aggregator_num_parts(core->aggregator);
    for (int32_t i = 0; i < loads.num_parts; i++)
        loads.parts[i] = eplb_aggregator_part(core->aggregator, i);
    return eplb_planner_plan(core->planner, &loads, error);
}

/* -------------------------------------------------------------------------------------- views */

void eplb_manager_core_status(const struct eplb_manager_core *core, int64_t now,
                              struct eplb_manager_status *status)
{
    const struct eplb_sample_counters *samples = eplb_aggregator_counters(core->aggregator);
    *status = core->totals;
    status->size = sizeof *status;
    status->num_dead = core->num_dead;
    status->policy_running = core->policy_running;
    status->round = core->round;
    status->layers_waiting = core->num_waiting;
    status->preparing_layer = core->preparing.layer;
    status->ready =
        core->preparing.layer != EPLB_NO_LAYER && core->layers[core->preparing.layer] == LAYER_READY;
    if (core->preparing.layer != EPLB_NO_LAYER)
        status->prepare_token = core->preparing.token;
    status->activating_layer = core->activating.layer;
    if (core->activating.layer != EPLB_NO_LAYER) {
        status->activation_token = core->activating.token;
        status->activation_stuck = core->activating.stuck;
        status->activation_age_ns = core->activating.handed_out ? now - core->activating.handed_at : 0;
    }
    status->last_sample_age_ns = core->last_sample_at == NEVER ? -1 : now - core->last_sample_at;
    status->samples_taken = samples->taken;
    status->samples_refused = samples->refused;
    status->samples_lacking = samples->lacking;
    const struct eplb_migration_cost cost = eplb_measure_cost(core, eplb_aggregator_open(core->aggregator));
    status->bytes_per_second = cost.bytes_per_second;
    status->seconds_per_token = cost.seconds_per_token;
}

const int32_t *eplb_manager_core_tables(const struct eplb_manager_core *core)
{
    return eplb_planner_active(core->planner);
}

const struct eplb_benefit *eplb_manager_core_benefits(const struct eplb_manager_core *core)
{
    return eplb_planner_benefits(core->planner);
}

const int32_t *eplb_manager_core_candidates(const struct eplb_manager_core *core)
{
    return eplb_planner_candidates(core->planner);
}

const uint64_t *eplb_manager_core_versions(const struct eplb_manager_core *core)
{
    return core->weights.versions;
}

const int32_t *eplb_manager_core_replica_weights(const struct eplb_manager_core *core)
{
    return core->weights.active;
}

uint64_t eplb_manager_core_generation(const struct eplb_manager_core *core, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < core->shape.num_layers);
    return eplb_aggregator_open(core->aggregator)->generations[layer];
}

const struct eplb_window *eplb_manager_core_window(const struct eplb_manager_core *core)
{
    return eplb_aggregator_open(core->aggregator);
}

const struct eplb_window *eplb_manager_core_closed_window(const struct eplb_manager_core *core)
{
    return eplb_aggregator_closed(core->aggregator);
}
