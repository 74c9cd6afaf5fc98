/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "executor/shell.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/error.h"

/* Polls that find nothing and are repeated at once: peers usually answer within this. */
enum { SPINS = 100, COMPLETIONS = 64 };

/* Then the group wakes this thread; but a stop, or a deadline of the core, may come between. */
#define LONGEST_WAIT_NS INT64_C(5000000)

static void step(struct eplb_executor *executor, const struct eplb_executor_event *event)
{
    int64_t now = eplb_executor_now(executor);
    eplb_mutex_lock(&executor->lock);
    eplb_executor_core_step(executor->core, event, now);
    eplb_mutex_unlock(&executor->lock);
}

static bool next_action(struct eplb_executor *executor, struct eplb_executor_action *action)
{
    eplb_mutex_lock(&executor->lock);
    bool any = eplb_executor_core_next(executor->core, action);
    eplb_mutex_unlock(&executor->lock);
    return any;
}

static void enter_hook(struct eplb_executor *executor, const char *hook, int32_t layer)
{
    eplb_mutex_lock(&executor->lock);
    EPLB_ASSERT(executor->in_call && (executor->forward.hook == NULL || hook == NULL));
    executor->forward = (struct hook_call){hook, layer};
    eplb_mutex_unlock(&executor->lock);
}

/* ------------------------------------------------------------------------------------ actions */

static void materialise(struct eplb_executor *executor, const struct eplb_layer_plan *plan)
{
    const struct eplb_model_hooks *hooks = executor->params.hooks;
    struct eplb_error error = {.status = EPLB_OK};
    int64_t start = eplb_executor_now(executor);
    enter_hook(executor, "start_expert_weight_transfer", plan->layer);
    bool ok = hooks->start_expert_weight_transfer(hooks->context, plan, &error) == EPLB_OK;
    enter_hook(executor, NULL, 0);
    executor->activation.changed_slots = plan->num_local_changes;
    EPLB_LOG(executor->params.log, MATERIALIZE_EXPERT_WEIGHT,
             EPLB_VALUE_INT(eplb_executor_layer_id(executor, plan->layer)),
             EPLB_VALUE_INT(executor->params.ep_rank), EPLB_VALUE_INT(executor->activation.token.value),
             eplb_executor_ms(eplb_executor_now(executor) - start), EPLB_VALUE_TEXT(ok ? "ok" : error.text));
    step(executor, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_MATERIALISED, .ok = ok});
}

static void transfer(struct eplb_executor *executor, const struct eplb_transfer_action *action)
{
    enum eplb_status status =
        eplb_transfer_run_action(action, executor->params.group, executor->params.weights);
    bool posts = action->type == EPLB_TRANSFER_POST_SEND || action->type == EPLB_TRANSFER_POST_RECV;
    executor->activation.messages += posts && status == EPLB_OK;
    if (status == EPLB_OK)
        return;
    EPLB_ASSERT(posts);
    step(executor, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_COMPLETED,
                                                 .completion = {action->op, EPLB_OP_FAILED}});
}

static void update(struct eplb_executor *executor, const struct eplb_layer_plan *plan, bool commit)
{
    const struct eplb_model_hooks *hooks = executor->params.hooks;
    int64_t start = eplb_executor_now(executor);
    enter_hook(executor, "update_expert_weight", plan->layer);
    hooks->update_expert_weight(hooks->context, plan, commit);
    enter_hook(executor, NULL, 0);
    executor->activation.activation_ns = eplb_executor_now(executor) - start;
}

/** The rows are this thread's: they change in start_step and finish_step only. */
static void update_weights(struct eplb_executor *executor, int32_t layer)
{
    const struct eplb_model_hooks *hooks = executor->params.hooks;
    const struct eplb_executor_core *core = executor->core;
    size_t row = (size_t)layer * (size_t)executor->params.shape.num_slots;
    enter_hook(executor, "update_replica_weights", layer);
    hooks->update_replica_weights(hooks->context, layer, eplb_executor_core_generations(core)[layer],
                                  eplb_executor_core_versions(core)[layer],
                                  eplb_executor_core_replica_weights(core) + row);
    enter_hook(executor, NULL, 0);
}

static void warn_of_weights(const struct eplb_executor *executor, int32_t layer)
{
    char message[EPLB_ERROR_TEXT];
    snprintf(message, sizeof message,
             "rank %d, layer %d: a weight update is not legal for the placement; it is left out",
             executor->params.ep_rank, eplb_executor_layer_id(executor, layer));
    EPLB_LOG(executor->params.log, WARNING, EPLB_VALUE_TEXT(message));
}

/** An activation's last word, once it is resolved. */
static void log_update(struct eplb_executor *executor)
{
    struct activation_numbers *numbers = &executor->activation;
    eplb_mutex_lock(&executor->lock);
    struct eplb_worker_levels levels = eplb_executor_core_levels(executor->core);
    int32_t layer = eplb_executor_core_attempt_layer(executor->core);
    bool resolved = numbers->token.value != 0 && eplb_executor_core_idle(executor->core);
    bool switched = levels.activation_outcome == EPLB_ACTIVATION_SWITCHED;
    if (resolved) {
        struct path_numbers *path = &executor->activations;
        path->last_token = numbers->token.value;
        path->ok += switched;
        path->failed += !switched;
        path->completed += switched;
        path->timed_out += levels.activation_reason == EPLB_REASON_DEADLINE;
    }
    eplb_mutex_unlock(&executor->lock);
    if (!resolved)
        return;
    int64_t total = eplb_executor_now(executor) - numbers->started_at;
    EPLB_LOG(executor->params.log, UPDATE_EXPERT_WEIGHT,
             EPLB_VALUE_INT(eplb_executor_layer_id(executor, layer)),
             EPLB_VALUE_INT(executor->params.ep_rank), EPLB_VALUE_INT(numbers->token.value),
             EPLB_VALUE_INT(executor->params.fused_mc2), EPLB_VALUE_INT(numbers->changed_slots),
             EPLB_VALUE_INT(numbers->messages), eplb_executor_ms(total - numbers->activation_ns),
             eplb_executor_ms(numbers->activation_ns), eplb_executor_ms(total),
             EPLB_VALUE_TEXT(switched ? "switched" : "kept"),
             EPLB_VALUE_TEXT(eplb_reason_text(levels.activation_reason)));
    numbers->token.value = 0;
}

static void act(struct eplb_executor *executor, const struct eplb_executor_action *action)
{
    switch (action->type) {
    case EPLB_EXECUTOR_RUN_PREPARE:
        eplb_condition_broadcast(&executor->wake);
        break;
    case EPLB_EXECUTOR_MATERIALISE:
        materialise(executor, action->plan);
        break;
    case EPLB_EXECUTOR_TRANSFER:
        transfer(executor, &action->transfer);
        break;
    case EPLB_EXECUTOR_UPDATE:
        update(executor, action->plan, action->commit);
        break;
    case EPLB_EXECUTOR_WEIGHTS:
        update_weights(executor, action->layer);
        break;
    case EPLB_EXECUTOR_REFUSED:
        warn_of_weights(executor, action->layer);
        break;
    }
}

void eplb_executor_feed(struct eplb_executor *executor, const struct eplb_executor_event *event)
{
    struct eplb_executor_action action;
    step(executor, event);
    while (next_action(executor, &action))
        act(executor, &action);
    log_update(executor);
}

/* ------------------------------------------------------------------------------------ waiting */

static struct eplb_activation_token attempt_of(struct eplb_executor *executor)
{
    eplb_mutex_lock(&executor->lock);
    struct eplb_activation_token token = eplb_executor_core_attempt(executor->core);
    eplb_mutex_unlock(&executor->lock);
    return token;
}

/** One look at group and record. The record's reading also brings the core the time. */
static bool poll_once(struct eplb_executor *executor, struct eplb_activation_token token)
{
    const struct eplb_group *group = executor->params.group;
    struct eplb_completion completions[COMPLETIONS];
    size_t count = group->poll(group->self, token, completions, COMPLETIONS);
    for (size_t i = 0; i < count; i++)
        eplb_executor_feed(executor, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_COMPLETED,
                                                                   .completion = completions[i]});
    if (attempt_of(executor).value == token.value)
        eplb_executor_feed(executor,
                           &(struct eplb_executor_event){.type = EPLB_EXECUTOR_DECIDED,
                                                         .decision = group->record_read(group->self, token)});
    return count > 0;
}

static bool is_stopping(struct eplb_executor *executor)
{
    eplb_mutex_lock(&executor->lock);
    bool stopping = executor->stopping;
    eplb_mutex_unlock(&executor->lock);
    return stopping;
}

static enum eplb_status fail_undecided(struct eplb_executor *executor, struct eplb_activation_token token,
                                       struct eplb_error *error)
{
    eplb_mutex_lock(&executor->lock);
    int32_t layer = eplb_executor_core_attempt_layer(executor->core);
    uint64_t seq = eplb_executor_core_seq(executor->core);
    eplb_mutex_unlock(&executor->lock);
    EPLB_FAIL(EPLB_RANK_SILENT,
              "rank %d, layer %d: activation_token %" PRIu64 " of forward %" PRIu64
              " is unresolved after twice the transfer timeout of %d s: %s",
              executor->params.ep_rank, eplb_executor_layer_id(executor, layer), token.value, seq,
              executor->params.transfer_timeout_seconds,
              executor->params.group->record_read(executor->params.group->self, token) == EPLB_UNDECIDED
                  ? "the decision record does not hold it"
                  : "the group still holds operations of it");
}

enum eplb_status eplb_executor_drain(struct eplb_executor *executor, struct eplb_error *error)
{
    const struct eplb_group *group = executor->params.group;
    int64_t bound = 2 * INT64_C(1000000000) * executor->params.transfer_timeout_seconds;
    int64_t end = eplb_clock_system()->now(NULL) + bound;
    bool given_up = false;
    int32_t idle_polls = 0;
    for (;;) {
        struct eplb_activation_token token = attempt_of(executor);
        if (token.value == 0)
            return EPLB_OK;
        if (!given_up && is_stopping(executor)) {
            given_up = true;
            eplb_executor_feed(executor, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_ABORT_STEP});
        }
        idle_polls = poll_once(executor, token) ? 0 : idle_polls + 1;
        if (idle_polls <= SPINS || attempt_of(executor).value == 0)
            continue;
        int64_t now = eplb_clock_system()->now(NULL);
        if (now >= end)
            return fail_undecided(executor, token, error);
        group->wait(group->self, now + LONGEST_WAIT_NS);
    }
}
