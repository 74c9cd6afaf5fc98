/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The shell around the manager core: a lock, a clock, the decision record, and two threads: one that runs
 * policies and ticks, and, with adaptive routing, one that solves weights, which a long policy run must not
 * hold up.
 */
#include "eplb/manager.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/log_buffer.h"
#include "eplb/group.h"
#include "manager/core.h"
#include "metrics/metrics.h"
#include "os/thread.h"
#include "wire/levels.h"

/** How often time is told to the core while nothing else happens. */
#define TICK_NS INT64_C(100000000)

enum { COMMAND_TABLES = 2 };

/** A thread of the manager's own, and what it waits for. */
struct worker {
    struct eplb_thread thread;
    bool started;
    struct eplb_condition wake;
    bool wanted; /* there is work */
};

struct eplb_manager {
    struct eplb_manager_core *core;
    struct eplb_shape shape;
    const struct eplb_group *group;
    const struct eplb_log_sink *log;
    const struct eplb_clock *clock;
    const struct eplb_manager_observer *observer;
    struct eplb_metrics *metrics;
    int64_t expert_bytes;

    int64_t solve_budget_ns;

    struct eplb_mutex lock; /* everything below */
    struct worker policy;   /* the core asked for a policy run */
    struct worker solver;   /* the core asked for weights; not started unless routing is adaptive */
    bool stopping;
    struct eplb_error stop_error; /* status EPLB_OK while the run may go on */
    struct eplb_log_buffer pending;
    struct eplb_log_sink pending_sink;
    int32_t *tables; /* [COMMAND_TABLES][EPLB_COMMAND_ROWS][num_slots] of the last commands */
    int32_t next_table;
    struct eplb_manager_status counted; /* what the metrics hold already */
};

void eplb_manager_params_init(struct eplb_manager_params *params)
{
    *params = (struct eplb_manager_params){.size = sizeof *params,
                                           .ops = eplb_policy_find("balanced").ops,
                                           .min_peak_load_improvement = 0.05,
                                           .update_interval_seconds = 1000,
                                           .prepare_timeout_seconds = 30,
                                           .transfer_timeout_seconds = 10,
                                           .first_token = 1,
                                           .first_seq = 1,
                                           .replica_routing = EPLB_ROUTING_STATIC,
                                           .weights_decay = 0.97,
                                           .solve_budget_us = 20000,
                                           .clock = eplb_clock_system()};
    eplb_policy_settings_init(&params->settings);
}

static const int32_t *copy_row(const struct eplb_manager *manager, const int32_t *from, int32_t **room)
{
    size_t slots = (size_t)manager->shape.num_slots;
    int32_t *row = *room;
    if (from == NULL)
        return NULL;
    memcpy(row, from, slots * sizeof *row);
    *room += slots;
    return row;
}

/** The command outlives the candidate and weights that it names: another thread may drop them meanwhile. */
static void copy_command(struct eplb_manager *manager, const struct eplb_command *from,
                         struct eplb_command *to)
{
    int32_t *room =
        manager->tables + (size_t)manager->next_table * EPLB_COMMAND_ROWS * (size_t)manager->shape.num_slots;
    *to = *from;
    if (from->expert_ids == NULL && from->num_weight_updates == 0)
        return;
    manager->next_table = (manager->next_table + 1) % COMMAND_TABLES;
    to->expert_ids = copy_row(manager, from->expert_ids, &room);
    to->replica_weights = copy_row(manager, from->replica_weights, &room);
    for (int32_t i = 0; i < from->num_weight_updates; i++)
        to->weight_updates[i].weights = copy_row(manager, from->weight_updates[i].weights, &room);
}

/** Called with the lock held. */
static void want(struct worker *worker)
{
    worker->wanted = true;
    eplb_condition_broadcast(&worker->wake);
}

static void tell_resolved(struct eplb_manager *manager, const struct eplb_manager_action *action)
{
    int32_t layer_id = eplb_manager_layer_id(manager->core, action->layer);
    if (action->type == EPLB_MANAGER_COMMITTED && manager->metrics != NULL)
        eplb_metrics_set(manager->metrics, EPLB_METRIC_LAST_ACTIVATION_WAIT, action->wait_ns);
    if (action->type == EPLB_MANAGER_COMMITTED)
        EPLB_LOG(&manager->pending_sink, LAYER_COMMITTED, EPLB_VALUE_INT(layer_id),
                 EPLB_VALUE_INT(action->generation));
    else
        EPLB_LOG(&manager->pending_sink, LAYER_ABORTED, EPLB_VALUE_INT(layer_id),
                 EPLB_VALUE_TEXT(eplb_abort_reason_text(action->why)));
}

/* The observer sees all in the order of the core: it is told with the lock held. */

static void show_event(const struct eplb_manager *manager, const struct eplb_manager_event *event,
                       int64_t now)
{
    const struct eplb_manager_observer *observer = manager->observer;
    if (observer != NULL && observer->event != NULL)
        observer->event(observer->context, event, now);
}

static void show_action(const struct eplb_manager *manager, const struct eplb_manager_action *action)
{
    const struct eplb_manager_observer *observer = manager->observer;
    if (observer != NULL && observer->action != NULL)
        observer->action(observer->context, action);
}

/** Does what the core asks for. Called with the lock held; nothing here blocks. */
static void act(struct eplb_manager *manager, struct eplb_command *command)
{
    struct eplb_manager_action action;
    while (eplb_manager_core_next(manager->core, &action)) {
        show_action(manager, &action);
        switch (action.type) {
        case EPLB_MANAGER_COMMAND:
            EPLB_ASSERT(command != NULL);
            copy_command(manager, action.command, command);
            break;
        case EPLB_MANAGER_OPEN_RECORD:
            manager->group->record_open(manager->group->self, action.token);
            break;
        case EPLB_MANAGER_ABORT_RECORD:
            manager->group->record_abort(manager->group->self, action.token);
            break;
        case EPLB_MANAGER_RUN_POLICY:
            want(&manager->policy);
            break;
        case EPLB_MANAGER_SOLVE_WEIGHTS:
            want(&manager->solver);
            break;
        case EPLB_MANAGER_COMMITTED:
        case EPLB_MANAGER_ABORTED:
            tell_resolved(manager, &action);
            break;
        case EPLB_MANAGER_STOP:
            manager->stop_error = *action.error;
            break;
        }
    }
}

static const struct {
    enum eplb_metric metric;
    size_t offset; /* of the total in struct eplb_manager_status */
} totals[] = {
    {EPLB_METRIC_SAMPLES_TAKEN, offsetof(struct eplb_manager_status, samples_taken)},
    {EPLB_METRIC_SAMPLES_REFUSED, offsetof(struct eplb_manager_status, samples_refused)},
    {EPLB_METRIC_SAMPLES_LACKING, offsetof(struct eplb_manager_status, samples_lacking)},
    {EPLB_METRIC_REBALANCES_STARTED, offsetof(struct eplb_manager_status, policy_runs)},
    {EPLB_METRIC_TRAFFIC_SHIFTS, offsetof(struct eplb_manager_status, shifts)},
    {EPLB_METRIC_WEIGHT_SOLVES, offsetof(struct eplb_manager_status, weight_solves)},
    {EPLB_METRIC_WEIGHT_UPDATES, offsetof(struct eplb_manager_status, weight_updates)},
    {EPLB_METRIC_LAYERS_PUBLISHED, offsetof(struct eplb_manager_status, layers_published)},
    {EPLB_METRIC_LAYERS_ACTIVATED, offsetof(struct eplb_manager_status, layers_committed)},
    {EPLB_METRIC_LAYERS_ABORTED, offsetof(struct eplb_manager_status, layers_aborted)},
    {EPLB_METRIC_LAYERS_TIMED_OUT, offsetof(struct eplb_manager_status, layers_timed_out)},
    {EPLB_METRIC_MOVED_SLOTS, offsetof(struct eplb_manager_status, slots_moved)},
};

static uint64_t total_at(const struct eplb_manager_status *status, size_t offset)
{
    uint64_t total;
    memcpy(&total, (const char *)status + offset, sizeof total);
    return total;
}

/** Brings the metrics up to the core's totals. Called with the lock held. */
static void count(struct eplb_manager *manager)
{
    if (manager->metrics == NULL)
        return;
    struct eplb_manager_status now;
    const struct eplb_manager_status *before = &manager->counted;
    eplb_manager_core_status(manager->core, manager->clock->now(manager->clock->context), &now);
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++)
        eplb_metrics_add(manager->metrics, totals[i].metric,
                         (int64_t)(total_at(&now, totals[i].offset) - total_at(before, totals[i].offset)));
    eplb_metrics_add(manager->metrics, EPLB_METRIC_MOVED_BYTES,
                     (int64_t)(now.slots_sent - before->slots_sent) * manager->expert_bytes);
    eplb_metrics_set(manager->metrics, EPLB_METRIC_ACTIVATION_STUCK, now.activation_stuck);
    if (now.last_sample_age_ns >= 0)
        eplb_metrics_set(manager->metrics, EPLB_METRIC_LAST_SAMPLE_AGE, now.last_sample_age_ns);
    manager->counted = now;
}

/** One event under the lock. The log goes out after it. */
static enum eplb_status step(struct eplb_manager *manager, const struct eplb_manager_event *event,
                             struct eplb_command *command, struct eplb_error *error)
{
    struct eplb_log_buffer records;
    eplb_mutex_lock(&manager->lock);
    int64_t now = manager->clock->now(manager->clock->context);
    show_event(manager, event, now);
    eplb_manager_core_step(manager->core, event, now);
    act(manager, command);
    count(manager);
    struct eplb_error stop_error = manager->stop_error;
    eplb_log_buffer_take(&manager->pending, &records);
    eplb_mutex_unlock(&manager->lock);
    eplb_log_buffer_flush(&records, manager->log);
    if (stop_error.status != EPLB_OK && error != NULL)
        *error = stop_error;
    return stop_error.status;
}

static void run_policy(struct eplb_manager *manager)
{
    struct eplb_error reason = {.status = EPLB_OK};
    struct eplb_manager_event done = {.type = EPLB_MANAGER_POLICY_DONE, .reason = reason.text};
    int64_t began = manager->clock->now(manager->clock->context);
    done.status = eplb_manager_core_run_policy(manager->core, &reason);
    if (manager->metrics != NULL)
        eplb_metrics_observe(manager->metrics, EPLB_METRIC_POLICY_SECONDS,
                             manager->clock->now(manager->clock->context) - began);
    done.benefits = eplb_manager_core_benefits(manager->core);
    done.candidates = eplb_manager_core_candidates(manager->core);
    step(manager, &done, NULL, NULL);
}

static void solve_weights(struct eplb_manager *manager)
{
    struct eplb_manager_event done = {.type = EPLB_MANAGER_WEIGHTS_DONE};
    done.weights = eplb_manager_core_solve_weights(manager->core, eplb_clock_system(),
                                                   manager->solve_budget_ns, &done.num_weights);
    step(manager, &done, NULL, NULL);
}

/** Waits for work, a stop, or the deadline. Returns whether there is work. */
static bool wait_for_work(struct eplb_manager *manager, struct worker *worker, int64_t deadline,
                          bool *stopping)
{
    eplb_mutex_lock(&manager->lock);
    while (!manager->stopping && !worker->wanted &&
           eplb_condition_wait_until(&worker->wake, &manager->lock, deadline))
        continue;
    bool wanted = worker->wanted;
    worker->wanted = false;
    *stopping = manager->stopping;
    eplb_mutex_unlock(&manager->lock);
    return wanted;
}

static void work(void *argument)
{
    struct eplb_manager *manager = argument;
    const struct eplb_manager_event tick = {.type = EPLB_MANAGER_TICK};
    bool stopping = false;
    while (!stopping) {
        if (wait_for_work(manager, &manager->policy, eplb_clock_system()->now(NULL) + TICK_NS, &stopping))
            run_policy(manager);
        else if (!stopping)
            step(manager, &tick, NULL, NULL);
    }
}

static void solve(void *argument)
{
    struct eplb_manager *manager = argument;
    bool stopping = false;
    while (!stopping)
        if (wait_for_work(manager, &manager->solver, INT64_MAX, &stopping))
            solve_weights(manager);
}

static enum eplb_status check_params(const struct eplb_manager_params *params, struct eplb_error *error)
{
    if (params->size != sizeof *params)
        EPLB_FAIL(EPLB_INVALID, "eplb_manager_params.size is %zu; this library's is %zu", params->size,
                  sizeof *params);
    if (params->expert_bytes < 0)
        EPLB_FAIL(EPLB_INVALID, "expert_bytes is %" PRId64 "; it must be 0 or more", params->expert_bytes);
    if (params->solve_budget_us < 1)
        EPLB_FAIL(EPLB_INVALID, "solve_budget_us is %d; it must be above 0", params->solve_budget_us);
    if (params->bandwidth_bytes_per_second < 0)
        EPLB_FAIL(EPLB_INVALID, "bandwidth_bytes_per_second is %" PRId64 "; it must be 0 or more",
                  params->bandwidth_bytes_per_second);
    if (params->max_moves_per_layer < 0 || params->max_break_even_steps < 0)
        EPLB_FAIL(EPLB_INVALID,
                  "max_moves_per_layer is %d and max_break_even_steps %d; both must be 0 or more",
                  params->max_moves_per_layer, params->max_break_even_steps);
    if (params->group == NULL || params->clock == NULL || params->clock->now == NULL)
        EPLB_FAIL(EPLB_INVALID, "a manager needs a process group and a clock");
    if (params->observer != NULL && params->observer->size != sizeof *params->observer)
        EPLB_FAIL(EPLB_INVALID, "eplb_manager_observer.size is %zu; this library's is %zu",
                  params->observer->size, sizeof *params->observer);
    if (params->group->record_open == NULL || params->group->record_abort == NULL)
        EPLB_FAIL(EPLB_INVALID, "the process group lacks record_open or record_abort");
    if (params->shape.ep_size < 2)
        EPLB_FAIL(EPLB_INVALID, "ep_size is %d; a manager balances 2 ranks or more", params->shape.ep_size);
    if (params->group->num_ranks != params->shape.ep_size)
        EPLB_FAIL(EPLB_INVALID, "the process group has %d ranks and ep_size is %d; they must be equal",
                  params->group->num_ranks, params->shape.ep_size);
    if (params->update_interval_seconds < 0 || params->prepare_timeout_seconds < 1 ||
        params->transfer_timeout_seconds < 1)
        EPLB_FAIL(EPLB_INVALID,
                  "update interval %d s, prepare timeout %d s, transfer timeout %d s: allowed are 0 or "
                  "more, 1 or more, 1 or more",
                  params->update_interval_seconds, params->prepare_timeout_seconds,
                  params->transfer_timeout_seconds);
    return EPLB_OK;
}

static enum eplb_status create_core(struct eplb_manager *manager, const struct eplb_manager_params *params,
                                    struct eplb_error *error)
{
    struct eplb_manager_core_params core = eplb_manager_core_params_of(params);
    core.log = &manager->pending_sink;
    core.policy_log = params->log;
    return eplb_manager_core_create(&core, &manager->core, error);
}

static enum eplb_status start_worker(struct eplb_manager *manager, struct worker *worker, const char *name,
                                     void (*run)(void *), struct eplb_error *error)
{
    EPLB_TRY(eplb_condition_init(&worker->wake, error));
    enum eplb_status status = eplb_thread_start(&worker->thread, name, run, manager, error);
    worker->started = status == EPLB_OK;
    if (!worker->started)
        eplb_condition_destroy(&worker->wake);
    return status;
}

static void stop_workers(struct eplb_manager *manager)
{
    struct worker *workers[] = {&manager->policy, &manager->solver};
    eplb_mutex_lock(&manager->lock);
    manager->stopping = true;
    eplb_mutex_unlock(&manager->lock);
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        if (!workers[i]->started)
            continue;
        eplb_condition_broadcast(&workers[i]->wake);
        eplb_thread_join(&workers[i]->thread);
    }
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
        if (workers[i]->started)
            eplb_condition_destroy(&workers[i]->wake);
}

static enum eplb_status start(struct eplb_manager *manager, enum eplb_replica_routing routing,
                              struct eplb_error *error)
{
    EPLB_TRY(eplb_mutex_init(&manager->lock, error));
    enum eplb_status status = start_worker(manager, &manager->policy, "eplb-manager", work, error);
    if (status == EPLB_OK && routing == EPLB_ROUTING_ADAPTIVE)
        status = start_worker(manager, &manager->solver, "eplb-weights", solve, error);
    if (status == EPLB_OK)
        return EPLB_OK;
    stop_workers(manager);
    eplb_mutex_destroy(&manager->lock);
    return status;
}

static void release(struct eplb_manager *manager)
{
    eplb_manager_core_destroy(manager->core);
    free(manager->tables);
    free(manager);
}

enum eplb_status eplb_manager_create(const struct eplb_manager_params *params, struct eplb_manager **manager,
                                     struct eplb_error *error)
{
    EPLB_TRY(check_params(params, error));
    struct eplb_manager *created = calloc(1, sizeof *created);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a manager");
    created->shape = params->shape;
    created->group = params->group;
    created->log = params->log;
    created->clock = params->clock;
    created->observer = params->observer;
    created->metrics = params->metrics;
    created->expert_bytes = params->expert_bytes;
    created->solve_budget_ns = params->solve_budget_us * INT64_C(1000);
    created->pending_sink = eplb_log_buffer_sink(&created->pending);
    created->tables =
        calloc(COMMAND_TABLES * EPLB_COMMAND_ROWS * (size_t)params->shape.num_slots, sizeof *created->tables);
    enum eplb_status status = created->tables != NULL
                                  ? create_core(created, params, error)
                                  : eplb_fail(error, EPLB_NO_MEMORY, "no memory for a manager's commands");
    if (status == EPLB_OK && params->observer != NULL && params->observer->start != NULL)
        params->observer->start(params->observer->context, params);
    if (status == EPLB_OK)
        status = start(created, params->replica_routing, error);
    if (status != EPLB_OK) {
        release(created);
        return status;
    }
    *manager = created;
    return EPLB_OK;
}

void eplb_manager_destroy(struct eplb_manager *manager)
{
    if (manager == NULL)
        return;
    stop_workers(manager);
    eplb_mutex_destroy(&manager->lock);
    release(manager);
}

enum eplb_status eplb_manager_submit(struct eplb_manager *manager, const struct eplb_forward *forward,
                                     struct eplb_command *command, struct eplb_error *error)
{
    if (forward->size != sizeof *forward)
        EPLB_FAIL(EPLB_INVALID, "eplb_forward.size is %zu; this library's is %zu", forward->size,
                  sizeof *forward);
    if (forward->batches == NULL || forward->num_batches < 1)
        EPLB_FAIL(EPLB_INVALID, "forward %" PRIu64 " has %d batches; every DP rank has one, if an empty one",
                  forward->seq, forward->batches == NULL ? 0 : forward->num_batches);
    for (int32_t i = 0; i < forward->num_batches; i++)
        if (forward->batches[i].prefill_tokens < 0 || forward->batches[i].decode_tokens < 0)
            EPLB_FAIL(EPLB_INVALID,
                      "forward %" PRIu64 ", DP rank %d: %" PRId64 " prefill and %" PRId64
                      " decode tokens; both must be 0 or more",
                      forward->seq, i, forward->batches[i].prefill_tokens, forward->batches[i].decode_tokens);
    struct eplb_manager_event event = {.type = EPLB_MANAGER_SUBMIT,
                                       .seq = forward->seq,
                                       .batches = forward->batches,
                                       .num_batches = forward->num_batches,
                                       .warmup = forward->warmup != 0};
    eplb_command_init(command, forward->seq);
    return step(manager, &event, command, error);
}

enum eplb_status eplb_manager_dropped(struct eplb_manager *manager, uint64_t seq, struct eplb_error *error)
{
    struct eplb_manager_event event = {.type = EPLB_MANAGER_DROPPED, .seq = seq};
    return step(manager, &event, NULL, error);
}

static enum eplb_status check_outputs(const struct eplb_worker_output *outputs, int32_t num_outputs,
                                      struct eplb_error *error)
{
    if (num_outputs < 0 || (outputs == NULL && num_outputs > 0))
        EPLB_FAIL(EPLB_INVALID, "%d outputs were announced and none was given", num_outputs);
    for (int32_t i = 0; i < num_outputs; i++) {
        if (outputs[i].prefix == NULL)
            continue;
        if (outputs[i].size != sizeof outputs[i])
            EPLB_FAIL(EPLB_INVALID, "eplb_worker_output.size of output %d is %zu; this library's is %zu", i,
                      outputs[i].size, sizeof outputs[i]);
        EPLB_TRY(eplb_worker_levels_check(&outputs[i], error));
    }
    return EPLB_OK;
}

enum eplb_status eplb_manager_outputs(struct eplb_manager *manager, uint64_t seq,
                                      const struct eplb_worker_output *outputs, int32_t num_outputs,
                                      struct eplb_error *error)
{
    EPLB_TRY(check_outputs(outputs, num_outputs, error));
    struct eplb_manager_event event = {
        .type = EPLB_MANAGER_OUTPUTS, .seq = seq, .outputs = outputs, .num_outputs = num_outputs};
    return step(manager, &event, NULL, error);
}

void eplb_manager_rank_dead(struct eplb_manager *manager, int32_t rank)
{
    struct eplb_manager_event event = {.type = EPLB_MANAGER_RANK_DEAD, .rank = rank};
    EPLB_ASSERT(rank >= 0 && rank < manager->shape.ep_size);
    step(manager, &event, NULL, NULL);
}

void eplb_manager_status(struct eplb_manager *manager, struct eplb_manager_status *status)
{
    eplb_mutex_lock(&manager->lock);
    eplb_manager_core_status(manager->core, manager->clock->now(manager->clock->context), status);
    eplb_mutex_unlock(&manager->lock);
}

uint64_t eplb_manager_placement(struct eplb_manager *manager, int32_t layer, int32_t *expert_ids)
{
    EPLB_ASSERT(layer >= 0 && layer < manager->shape.num_layers);
    size_t slots = (size_t)manager->shape.num_slots;
    eplb_mutex_lock(&manager->lock);
    uint64_t generation = eplb_manager_core_generation(manager->core, layer);
    if (expert_ids != NULL)
        memcpy(expert_ids, eplb_manager_core_tables(manager->core) + (size_t)layer * slots,
               slots * sizeof *expert_ids);
    eplb_mutex_unlock(&manager->lock);
    return generation;
}
