/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "executor/shell.h"

#include "base/assert.h"

#define HEARTBEAT_NS (60 * INT64_C(1000000000))

void eplb_executor_log_prepare(const struct eplb_executor *executor, int32_t layer,
                               struct eplb_prepare_token token, int64_t ns, const char *status,
                               const char *reason)
{
    EPLB_LOG(executor->params.log, PREPARE_EXPERT_WEIGHT,
             EPLB_VALUE_INT(eplb_executor_layer_id(executor, layer)),
             EPLB_VALUE_INT(executor->params.ep_rank), EPLB_VALUE_INT(token.value),
             EPLB_VALUE_INT(executor->params.shape.num_slots), eplb_executor_ms(ns), EPLB_VALUE_TEXT(status),
             EPLB_VALUE_TEXT(reason));
}

/** The model's part and ours, without the lock: the plan is this thread's until it is reported. */
static bool build(struct eplb_executor *executor, struct eplb_layer_plan *plan)
{
    const struct eplb_model_hooks *hooks = executor->params.hooks;
    struct eplb_error error = {.status = EPLB_OK};
    int64_t start = eplb_executor_now(executor);
    eplb_executor_core_build(executor->core, plan);
    bool ok = hooks->prepare_expert_weight(hooks->context, plan, &error) == EPLB_OK;
    eplb_executor_log_prepare(executor, plan->layer, plan->token, eplb_executor_now(executor) - start,
                              ok ? "ok" : "failed", ok ? eplb_reason_text(EPLB_REASON_NONE) : error.text);
    return ok;
}

/** Called with the lock, and returns with it. */
static void prepare(struct eplb_executor *executor, struct eplb_layer_plan *plan)
{
    struct eplb_executor_event event = {.type = EPLB_EXECUTOR_PREPARE_BEGAN, .token = plan->token};
    eplb_executor_core_step(executor->core, &event, eplb_executor_now(executor));
    executor->background = (struct hook_call){"prepare_expert_weight", plan->layer};
    eplb_mutex_unlock(&executor->lock);

    event.type = EPLB_EXECUTOR_PREPARED;
    event.ok = build(executor, plan);

    eplb_mutex_lock(&executor->lock);
    executor->background.hook = NULL;
    eplb_executor_core_step(executor->core, &event, eplb_executor_now(executor));
    struct path_numbers *path = &executor->prepares;
    path->last_token = event.token.value;
    path->ok += event.ok;
    path->failed += !event.ok;
    path->completed += event.ok;
}

static void log_heartbeat(const struct eplb_executor *executor, const char *name,
                          const struct path_numbers *path, int64_t sample_age_ns)
{
    EPLB_LOG(executor->params.log, HEARTBEAT, EPLB_VALUE_TEXT(name), EPLB_VALUE_INT(executor->params.ep_rank),
             EPLB_VALUE_INT(path->ok), EPLB_VALUE_INT(path->failed), EPLB_VALUE_INT(path->completed),
             EPLB_VALUE_INT(path->timed_out),
             EPLB_VALUE_REAL(sample_age_ns < 0 ? -1.0 : (double)sample_age_ns / 1e9),
             EPLB_VALUE_INT(path->last_token));
}

/**
 * Called with the lock, and returns with it. Both paths' heartbeats come from this thread: it is
 * awake also when the engine has nothing to run. A prepare hook that hangs silences both.
 */
static void beat_if_due(struct eplb_executor *executor)
{
    int64_t now = eplb_executor_now(executor);
    if (now - executor->heartbeat_at < HEARTBEAT_NS)
        return;
    struct path_numbers prepares = executor->prepares;
    struct path_numbers activations = executor->activations;
    int64_t age = executor->last_output_at < 0 ? -1 : now - executor->last_output_at;
    executor->heartbeat_at = now;
    executor->prepares.ok = executor->prepares.failed = 0;
    executor->activations.ok = executor->activations.failed = 0;
    eplb_mutex_unlock(&executor->lock);
    log_heartbeat(executor, "executor", &prepares, age);
    log_heartbeat(executor, "p2p", &activations, age);
    eplb_mutex_lock(&executor->lock);
}

void eplb_executor_run_background(void *argument)
{
    struct eplb_executor *executor = argument;
    eplb_mutex_lock(&executor->lock);
    while (!executor->stopping) {
        beat_if_due(executor);
        struct eplb_layer_plan *plan = eplb_executor_core_queued(executor->core);
        if (executor->stopping)
            break;
        if (plan != NULL) {
            prepare(executor, plan);
            continue;
        }
        int64_t rest = HEARTBEAT_NS - (eplb_executor_now(executor) - executor->heartbeat_at);
        EPLB_ASSERT(rest <= HEARTBEAT_NS);
        (void)eplb_condition_wait_until(&executor->wake, &executor->lock,
                                        eplb_clock_system()->now(NULL) + (rest < 0 ? 0 : rest));
    }
    executor->thread_ended = true;
    eplb_condition_broadcast(&executor->changed);
    eplb_mutex_unlock(&executor->lock);
}
