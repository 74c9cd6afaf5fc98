/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "executor/shell.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"

#define SECOND_NS INT64_C(1000000000)

void eplb_executor_params_init(struct eplb_executor_params *params)
{
    *params = (struct eplb_executor_params){.size = sizeof *params,
                                            .transfer_timeout_seconds = 10,
                                            .transfer_chunk_bytes = INT64_C(4) << 20,
                                            .transfer_inflight_bytes = INT64_C(64) << 20,
                                            .clock = eplb_clock_system()};
}

int64_t eplb_executor_now(const struct eplb_executor *executor)
{
    return executor->params.clock->now(executor->params.clock->context);
}

int32_t eplb_executor_layer_id(const struct eplb_executor *executor, int32_t layer)
{
    return eplb_executor_core_layer_id(executor->core, layer);
}

struct eplb_log_value eplb_executor_ms(int64_t ns)
{
    return EPLB_VALUE_REAL((double)ns / 1e6);
}

/* ------------------------------------------------------------------------------------- create */

static enum eplb_status check_hooks(const struct eplb_model_hooks *hooks, struct eplb_error *error)
{
    const size_t least = offsetof(struct eplb_model_hooks, update_replica_weights);
    if (hooks == NULL || hooks->size < least)
        EPLB_FAIL(EPLB_INVALID, "an executor needs a table of model hooks of at least %zu bytes", least);
    const char *lacking = hooks->prepare_expert_weight == NULL          ? "prepare_expert_weight"
                          : hooks->start_expert_weight_transfer == NULL ? "start_expert_weight_transfer"
                          : hooks->update_expert_weight == NULL         ? "update_expert_weight"
                                                                        : NULL;
    if (lacking != NULL)
        EPLB_FAIL(EPLB_UNSUPPORTED, "the model lacks the hook %s; without it its experts cannot move",
                  lacking);
    return EPLB_OK;
}

static enum eplb_status check_group(const struct eplb_executor_params *params, struct eplb_error *error)
{
    const struct eplb_group *group = params->group;
    if (group == NULL || group->size < sizeof *group)
        EPLB_FAIL(EPLB_INVALID, "an executor needs a process group table of %zu bytes", sizeof *group);
    if (group->post_send == NULL || group->post_recv == NULL || group->poll == NULL || group->wait == NULL ||
        group->cancel == NULL || group->record_vote == NULL || group->record_abort == NULL ||
        group->record_read == NULL)
        EPLB_FAIL(EPLB_INVALID, "the process group lacks an operation that transfers or votes need");
    if (group->num_ranks != params->shape.ep_size || group->rank != params->ep_rank)
        EPLB_FAIL(EPLB_INVALID,
                  "the process group is rank %d of %d, and the executor rank %d of ep_size %d; they must be "
                  "equal",
                  group->rank, group->num_ranks, params->ep_rank, params->shape.ep_size);
    return EPLB_OK;
}

/** Of another shape or rank, a switch would copy into the wrong slots. */
static enum eplb_status check_weights(const struct eplb_executor_params *params, struct eplb_error *error)
{
    const struct eplb_shape *theirs = eplb_weights_shape(params->weights);
    const struct eplb_shape *ours = &params->shape;
    const struct {
        const char *name;
        int32_t theirs, ours;
    } sizes[] = {
        {"num_layers", theirs->num_layers, ours->num_layers},
        {"num_experts", theirs->num_experts, ours->num_experts},
        {"ep_size", theirs->ep_size, ours->ep_size},
        {"redundant_experts_num", theirs->redundant_experts_num, ours->redundant_experts_num},
        {"slots_per_rank", theirs->slots_per_rank, ours->slots_per_rank},
        {"num_slots", theirs->num_slots, ours->num_slots},
        {"ep_rank", eplb_weights_ep_rank(params->weights), params->ep_rank},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].theirs != sizes[i].ours)
            EPLB_FAIL(EPLB_INVALID,
                      "the weights are registered with %s %d, and the executor has %d; they must be equal",
                      sizes[i].name, sizes[i].theirs, sizes[i].ours);
    return EPLB_OK;
}

static enum eplb_status check_initial(const struct eplb_executor_params *params, struct eplb_error *error)
{
    for (int32_t layer = 0; params->initial != NULL && layer < params->shape.num_layers; layer++) {
        struct eplb_error reason;
        const int32_t *table = params->initial + (size_t)layer * (size_t)params->shape.num_slots;
        if (eplb_placement_check(&params->shape, table, &reason) != EPLB_OK)
            EPLB_FAIL(EPLB_INVALID, "the initial table of layer %d is not legal: %s",
                      params->layer_ids == NULL ? layer : params->layer_ids[layer], reason.text);
    }
    return EPLB_OK;
}

static enum eplb_status check_params(const struct eplb_executor_params *params, struct eplb_error *error)
{
    if (params->size != sizeof *params)
        EPLB_FAIL(EPLB_INVALID, "eplb_executor_params.size is %zu; this library's is %zu", params->size,
                  sizeof *params);
    if (params->shape.num_slots < 1 || params->ep_rank < 0 || params->ep_rank >= params->shape.ep_size)
        EPLB_FAIL(EPLB_INVALID, "ep_rank is %d of ep_size %d; allowed is 0 to ep_size - 1", params->ep_rank,
                  params->shape.ep_size);
    if (params->weights == NULL || params->clock == NULL || params->clock->now == NULL)
        EPLB_FAIL(EPLB_INVALID, "an executor needs registered weights and a clock");
    if (params->transfer_timeout_seconds < 1)
        EPLB_FAIL(EPLB_INVALID, "the transfer timeout is %d s; it must be above 0",
                  params->transfer_timeout_seconds);
    EPLB_TRY(check_hooks(params->hooks, error));
    EPLB_TRY(check_group(params, error));
    EPLB_TRY(check_weights(params, error));
    return check_initial(params, error);
}

/** A post that the group refuses would fail every activation that needs as many. */
static enum eplb_status check_operations(const struct eplb_executor_params *params,
                                         const struct eplb_transfer_limits *limits, int64_t expert_bytes,
                                         struct eplb_error *error)
{
    int64_t chunks = eplb_transfer_chunks(expert_bytes, limits->chunk_bytes);
    int64_t most = chunks * params->shape.num_slots;
    most = most < EPLB_TRANSFER_MAX_OPS ? most : EPLB_TRANSFER_MAX_OPS;
    if (params->group->max_ops < 2 * most)
        EPLB_FAIL(EPLB_INVALID,
                  "the process group takes %d operations of a rank; a transfer may need %" PRId64
                  " sends and as many receives",
                  params->group->max_ops, most);
    return EPLB_OK;
}

static enum eplb_status create_core(struct eplb_executor *executor, const struct eplb_executor_params *params,
                                    struct eplb_error *error)
{
    struct eplb_executor_core_params core = {
        .shape = params->shape,
        .ep_rank = params->ep_rank,
        .initial = params->initial,
        .initial_weights = params->initial_weights,
        .takes_weights =
            params->hooks->size >= sizeof *params->hooks && params->hooks->update_replica_weights != NULL,
        .layer_ids = params->layer_ids,
        .expert_bytes = eplb_weights_expert_bytes(params->weights),
        .limits = {.chunk_bytes = params->transfer_chunk_bytes,
                   .inflight_bytes = params->transfer_inflight_bytes,
                   .timeout_ns = params->transfer_timeout_seconds * SECOND_NS},
    };
    EPLB_TRY(eplb_transfer_limits_check(&core.limits, core.expert_bytes, error));
    EPLB_TRY(check_operations(params, &core.limits, core.expert_bytes, error));
    return eplb_executor_core_create(&core, &executor->core, error);
}

static enum eplb_status start_thread(struct eplb_executor *executor, struct eplb_error *error)
{
    EPLB_TRY(eplb_mutex_init(&executor->lock, error));
    enum eplb_status status = eplb_condition_init(&executor->wake, error);
    if (status != EPLB_OK)
        goto undo_lock;
    status = eplb_condition_init(&executor->changed, error);
    if (status != EPLB_OK)
        goto undo_wake;
    status =
        eplb_thread_start(&executor->thread, "eplb-executor", eplb_executor_run_background, executor, error);
    if (status != EPLB_OK)
        goto undo_changed;
    return EPLB_OK;
undo_changed:
    eplb_condition_destroy(&executor->changed);
undo_wake:
    eplb_condition_destroy(&executor->wake);
undo_lock:
    eplb_mutex_destroy(&executor->lock);
    return status;
}

enum eplb_status eplb_executor_create(const struct eplb_executor_params *params,
                                      struct eplb_executor **executor, struct eplb_error *error)
{
    EPLB_TRY(check_params(params, error));
    struct eplb_executor *created = eplb_arena_block(sizeof *created);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for an executor");
    created->params = *params;
    created->params.initial = NULL;
    created->params.initial_weights = NULL;
    created->params.layer_ids = NULL;
    created->heartbeat_at = eplb_executor_now(created);
    created->last_output_at = -1;
    enum eplb_status status = create_core(created, params, error);
    if (status == EPLB_OK)
        status = start_thread(created, error);
    if (status != EPLB_OK) {
        eplb_executor_core_destroy(created->core);
        eplb_arena_free(created);
        return status;
    }
    *executor = created;
    return EPLB_OK;
}

/* ----------------------------------------------------------------------------------- forwards */

/** Makes the calling thread the one that is in a call. Every call that got in leaves. */
static enum eplb_status enter(struct eplb_executor *executor, struct eplb_error *error)
{
    eplb_mutex_lock(&executor->lock);
    bool busy = executor->in_call;
    executor->in_call = true;
    eplb_mutex_unlock(&executor->lock);
    if (busy)
        EPLB_FAIL(EPLB_REFUSED,
                  "rank %d: another call of the executor is under way; allowed is one at a time",
                  executor->params.ep_rank);
    return EPLB_OK;
}

static enum eplb_status leave(struct eplb_executor *executor, enum eplb_status status)
{
    eplb_mutex_lock(&executor->lock);
    EPLB_ASSERT(executor->in_call && executor->forward.hook == NULL);
    executor->in_call = false;
    /* With the lock: once a stop sees the call ended, the executor may be gone. */
    eplb_condition_broadcast(&executor->changed);
    eplb_mutex_unlock(&executor->lock);
    return status;
}

/** Whether a command of a forward that has not begun may be taken. */
static enum eplb_status admit(struct eplb_executor *executor, const struct eplb_command *command,
                              struct eplb_error *error)
{
    eplb_mutex_lock(&executor->lock);
    enum eplb_status status =
        executor->stopping ? eplb_fail(error, EPLB_REFUSED,
                                       "rank %d: forward %" PRIu64 " cannot start: the executor was stopped",
                                       executor->params.ep_rank, command->seq)
                           : eplb_executor_core_check(executor->core, command, error);
    eplb_mutex_unlock(&executor->lock);
    return status;
}

static void log_refused_prepare(struct eplb_executor *executor, const struct eplb_command *command)
{
    eplb_mutex_lock(&executor->lock);
    struct eplb_worker_levels levels = eplb_executor_core_levels(executor->core);
    /* A hook that failed has been logged by the background thread, which may be that quick. */
    bool refused = command->prepare_token.value != 0 && levels.prepare_status == EPLB_PREPARE_FAILED &&
                   levels.prepare_reason != EPLB_REASON_HOOK_FAILED;
    EPLB_ASSERT(!refused || levels.prepare_token.value == command->prepare_token.value);
    executor->prepares.failed += refused;
    eplb_mutex_unlock(&executor->lock);
    if (refused)
        eplb_executor_log_prepare(executor, command->prepare_layer_id, command->prepare_token, 0, "refused",
                                  eplb_reason_text(levels.prepare_reason));
}

/** Feeds the event that takes a command. */
static enum eplb_status take(struct eplb_executor *executor, enum eplb_executor_event_type type,
                             const struct eplb_command *command, struct eplb_error *error)
{
    EPLB_TRY(admit(executor, command, error));
    if (command->activation_token.value != 0)
        executor->activation = (struct activation_numbers){.token = command->activation_token,
                                                           .started_at = eplb_executor_now(executor)};
    struct eplb_executor_event event = {
        .type = type, .command = command, .weights_epoch = eplb_weights_epoch(executor->params.weights)};
    eplb_executor_feed(executor, &event);
    log_refused_prepare(executor, command);
    return EPLB_OK;
}

enum eplb_status eplb_executor_start_step(struct eplb_executor *executor, const struct eplb_command *command,
                                          struct eplb_error *error)
{
    EPLB_TRY(enter(executor, error));
    return leave(executor, take(executor, EPLB_EXECUTOR_START_STEP, command, error));
}

enum eplb_status eplb_executor_finish_step(struct eplb_executor *executor, struct eplb_error *error)
{
    EPLB_TRY(enter(executor, error));
    eplb_executor_feed(executor, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_FINISH_STEP});
    return leave(executor, eplb_executor_drain(executor, error));
}

static enum eplb_status abandon(struct eplb_executor *executor, const struct eplb_command *command,
                                struct eplb_error *error)
{
    eplb_mutex_lock(&executor->lock);
    bool begun = command->seq == eplb_executor_core_seq(executor->core);
    eplb_mutex_unlock(&executor->lock);
    if (begun)
        eplb_executor_feed(executor, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_ABORT_STEP});
    else
        EPLB_TRY(take(executor, EPLB_EXECUTOR_ABORT_STEP, command, error));
    return eplb_executor_drain(executor, error);
}

enum eplb_status eplb_executor_abort_step(struct eplb_executor *executor, const struct eplb_command *command,
                                          struct eplb_error *error)
{
    EPLB_TRY(enter(executor, error));
    return leave(executor, abandon(executor, command, error));
}

enum eplb_status eplb_executor_output(struct eplb_executor *executor, const int64_t *prefix,
                                      struct eplb_worker_output *output, struct eplb_error *error)
{
    const struct eplb_shape *shape = &executor->params.shape;
    int64_t now = eplb_executor_now(executor);
    eplb_mutex_lock(&executor->lock);
    uint64_t seq = eplb_executor_core_seq(executor->core);
    /* In a call, `switched` may stand in the levels before the model was told. */
    bool over = seq != 0 && !executor->in_call && eplb_executor_core_idle(executor->core);
    struct eplb_worker_levels levels = eplb_executor_core_levels(executor->core);
    if (over)
        executor->last_output_at = now;
    eplb_mutex_unlock(&executor->lock);
    if (!over)
        EPLB_FAIL(EPLB_REFUSED,
                  "rank %d: there is no output before finish_step of forward %" PRIu64 " has returned",
                  executor->params.ep_rank, seq == 0 ? UINT64_C(1) : seq);
    *output = (struct eplb_worker_output){.size = sizeof *output,
                                          .seq = seq,
                                          .ep_rank = executor->params.ep_rank,
                                          .num_layers = shape->num_layers,
                                          .slots_per_rank = shape->slots_per_rank,
                                          .prefix = prefix,
                                          .generations = eplb_executor_core_ran_generations(executor->core),
                                          .weight_versions = eplb_executor_core_ran_versions(executor->core),
                                          .levels = levels};
    return EPLB_OK;
}

const uint64_t *eplb_executor_generations(const struct eplb_executor *executor)
{
    return eplb_executor_core_generations(executor->core);
}

const int32_t *eplb_executor_tables(const struct eplb_executor *executor)
{
    return eplb_executor_core_tables(executor->core);
}

const uint64_t *eplb_executor_weight_versions(const struct eplb_executor *executor)
{
    return eplb_executor_core_versions(executor->core);
}

const int32_t *eplb_executor_replica_weights(const struct eplb_executor *executor)
{
    return eplb_executor_core_replica_weights(executor->core);
}

/* --------------------------------------------------------------------------------------- stop */

static bool is_busy(const struct eplb_executor *executor)
{
    return !executor->thread_ended || executor->in_call || !eplb_executor_core_idle(executor->core);
}

/** Called with the lock. */
static enum eplb_status fail_busy(const struct eplb_executor *executor, struct eplb_error *error)
{
    const struct hook_call *call =
        executor->forward.hook != NULL ? &executor->forward : &executor->background;
    if (call->hook != NULL)
        EPLB_FAIL(EPLB_RANK_SILENT,
                  "rank %d does not stop: the model's hook %s for layer %d has not returned",
                  executor->params.ep_rank, call->hook, eplb_executor_layer_id(executor, call->layer));
    if (!eplb_executor_core_idle(executor->core))
        EPLB_FAIL(EPLB_RANK_SILENT,
                  "rank %d does not stop: activation_token %" PRIu64
                  " of layer %d waits for finish_step or abort_step of forward %" PRIu64,
                  executor->params.ep_rank, eplb_executor_core_attempt(executor->core).value,
                  eplb_executor_layer_id(executor, eplb_executor_core_attempt_layer(executor->core)),
                  eplb_executor_core_seq(executor->core));
    EPLB_FAIL(EPLB_RANK_SILENT, "rank %d does not stop: a call of another thread has not returned",
              executor->params.ep_rank);
}

enum eplb_status eplb_executor_stop(struct eplb_executor *executor, int64_t timeout_ns,
                                    struct eplb_error *error)
{
    int64_t deadline;
    if (__builtin_add_overflow(eplb_clock_system()->now(NULL), timeout_ns, &deadline))
        deadline = INT64_MAX;
    enum eplb_status status = EPLB_OK;
    eplb_mutex_lock(&executor->lock);
    executor->stopping = true;
    eplb_condition_broadcast(&executor->wake);
    eplb_condition_broadcast(&executor->changed);
    while (is_busy(executor) && eplb_condition_wait_until(&executor->changed, &executor->lock, deadline))
        continue;
    if (is_busy(executor))
        status = fail_busy(executor, error);
    bool join = status == EPLB_OK && !executor->joined;
    executor->joined = executor->joined || join;
    eplb_mutex_unlock(&executor->lock);
    if (join)
        eplb_thread_join(&executor->thread);
    return status;
}

void eplb_executor_destroy(struct eplb_executor *executor)
{
    if (executor == NULL || eplb_executor_stop(executor, 0, NULL) != EPLB_OK)
        return;
    eplb_condition_destroy(&executor->changed);
    eplb_condition_destroy(&executor->wake);
    eplb_mutex_destroy(&executor->lock);
    eplb_executor_core_destroy(executor->core);
    eplb_arena_free(executor);
}
