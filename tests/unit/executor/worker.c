/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "worker.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_NS (INT64_C(20) * 1000000000)

/* -------------------------------------------------------------------------------------- hooks */

static enum eplb_status behave(struct worker *worker, const enum worker_mood *mood, struct eplb_error *error)
{
    eplb_mutex_lock(&worker->lock);
    while (*mood == WORKER_HANGS) {
        worker->hanging = true;
        eplb_condition_broadcast(&worker->changed);
        eplb_condition_wait(&worker->changed, &worker->lock);
    }
    worker->hanging = false;
    bool fails = *mood == WORKER_FAILS;
    eplb_mutex_unlock(&worker->lock);
    return fails ? eplb_fail(error, EPLB_NO_MEMORY, "the model has no room") : EPLB_OK;
}

static enum eplb_status prepare_expert_weight(void *context, const struct eplb_layer_plan *plan,
                                              struct eplb_error *error)
{
    struct worker *worker = context;
    assert_in_range(plan->place, 0, EPLB_MAX_PLANS - 1);
    return behave(worker, &worker->prepare, error);
}

static enum eplb_status start_expert_weight_transfer(void *context, const struct eplb_layer_plan *plan,
                                                     struct eplb_error *error)
{
    struct worker *worker = context;
    enum eplb_status status = behave(worker, &worker->start, error);
    return status == EPLB_OK ? eplb_weights_materialise(worker->weights, plan, error) : status;
}

static void update_expert_weight(void *context, const struct eplb_layer_plan *plan, int commit)
{
    struct worker *worker = context;
    struct eplb_worker_output output;
    (void)behave(worker, &worker->update, NULL);
    worker->output_inside = eplb_executor_output(worker->executor, NULL, &output, NULL);
    if (commit) {
        eplb_weights_activate(worker->weights, plan);
        memcpy(worker->log2phy[plan->layer], plan->log2phy, sizeof worker->log2phy[plan->layer]);
    }
    worker->commits += commit != 0;
    worker->drops += commit == 0;
}

static void collect(void *context, const struct eplb_log_record *record)
{
    struct worker *worker = context;
    eplb_mutex_lock(&worker->lock);
    size_t length = strlen(worker->log);
    length += eplb_log_format(record, worker->log + length, WORKER_LOG - length);
    assert_true(length + 2 < WORKER_LOG);
    memcpy(worker->log + length, "\n", 2);
    eplb_mutex_unlock(&worker->lock);
}

/* ------------------------------------------------------------------------------------- worker */

static void paint(void *bytes, size_t size, int tensor, int32_t layer, int32_t expert)
{
    memset(bytes, 100 * tensor + 20 * layer + expert, size);
}

static void check_painted(const void *bytes, size_t size, int tensor, int32_t layer, int32_t expert)
{
    for (size_t i = 0; i < size; i++)
        assert_int_equal(((const unsigned char *)bytes)[i], 100 * tensor + 20 * layer + expert);
}

struct eplb_threads *worker_group(int32_t ep_size)
{
    struct eplb_threads *threads;
    struct eplb_threads_params params;
    eplb_threads_params_init(&params);
    params.num_ranks = ep_size;
    assert_int_equal(eplb_threads_create(&params, &threads, NULL), EPLB_OK);
    return threads;
}

static void register_weights(struct worker *worker, int32_t rank)
{
    struct eplb_tensor tensors[WORKER_LAYERS][2];
    int32_t slots = worker->shape.slots_per_rank;
    for (int32_t layer = 0; layer < WORKER_LAYERS; layer++) {
        tensors[layer][0] = (struct eplb_tensor){.size = sizeof(struct eplb_tensor),
                                                 .name = "matrix",
                                                 .data = worker->matrices[layer],
                                                 .first_dimension = slots,
                                                 .bytes_per_expert = sizeof worker->matrices[0][0],
                                                 .per_expert = 1};
        tensors[layer][1] = tensors[layer][0];
        tensors[layer][1].name = "scale";
        tensors[layer][1].data = worker->scales[layer];
        tensors[layer][1].bytes_per_expert = sizeof worker->scales[0][0];
    }
    struct eplb_weights_params params = {.size = sizeof params,
                                         .shape = worker->shape,
                                         .ep_rank = rank,
                                         .num_tensors = 2,
                                         .tensors = tensors[0]};
    assert_int_equal(eplb_weights_create(&params, &worker->weights, NULL), EPLB_OK);
}

void worker_init(struct worker *worker, const struct eplb_threads *threads, int32_t rank, int32_t ep_size)
{
    *worker = (struct worker){.prepare = WORKER_WORKS};
    assert_int_equal(eplb_mutex_init(&worker->lock, NULL), EPLB_OK);
    assert_int_equal(eplb_condition_init(&worker->changed, NULL), EPLB_OK);
    assert_int_equal(eplb_shape_init(&worker->shape, WORKER_LAYERS, WORKER_EXPERTS, ep_size, 0, NULL),
                     EPLB_OK);
    int32_t table[WORKER_MAX_SLOTS];
    eplb_placement_initial(&worker->shape, table);
    for (int32_t layer = 0; layer < WORKER_LAYERS; layer++)
        for (int32_t slot = 0; slot < worker->shape.slots_per_rank; slot++) {
            int32_t expert = table[rank * worker->shape.slots_per_rank + slot];
            paint(worker->matrices[layer][slot], sizeof worker->matrices[0][0], 0, layer, expert);
            paint(worker->scales[layer][slot], sizeof worker->scales[0][0], 1, layer, expert);
        }
    register_weights(worker, rank);
    worker->hooks = (struct eplb_model_hooks){.size = sizeof worker->hooks,
                                              .context = worker,
                                              .prepare_expert_weight = prepare_expert_weight,
                                              .start_expert_weight_transfer = start_expert_weight_transfer,
                                              .update_expert_weight = update_expert_weight};
    worker->sink = (struct eplb_log_sink){.size = sizeof worker->sink, .context = worker, .write = collect};
    eplb_executor_params_init(&worker->params);
    worker->params.shape = worker->shape;
    worker->params.ep_rank = rank;
    worker->params.group = eplb_threads_group(threads, rank);
    worker->params.weights = worker->weights;
    worker->params.hooks = &worker->hooks;
    worker->params.transfer_timeout_seconds = 1;
}

void worker_create(struct worker *worker)
{
    struct eplb_error error = {.status = EPLB_OK};
    if (eplb_executor_create(&worker->params, &worker->executor, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

void worker_destroy(struct worker *worker)
{
    if (worker->executor != NULL)
        assert_int_equal(eplb_executor_stop(worker->executor, PATIENCE_NS, NULL), EPLB_OK);
    eplb_executor_destroy(worker->executor);
    eplb_weights_destroy(worker->weights);
    eplb_condition_destroy(&worker->changed);
    eplb_mutex_destroy(&worker->lock);
}

/* ----------------------------------------------------------------------------------- forwards */

struct eplb_command worker_command(struct worker *worker)
{
    struct eplb_command command;
    eplb_command_init(&command, ++worker->seq);
    return command;
}

struct eplb_command worker_prepare(struct worker *worker, uint64_t token, int32_t layer,
                                   const int32_t *expert_ids)
{
    struct eplb_command command = worker_command(worker);
    const int32_t *table = eplb_executor_tables(worker->executor) + layer * worker->shape.num_slots;
    command.prepare_layer_id = layer;
    command.prepare_token.value = token;
    command.base_generation = eplb_executor_generations(worker->executor)[layer];
    command.base_hash = eplb_placement_hash(&worker->shape, table);
    command.expert_ids = expert_ids;
    command.num_expert_ids = worker->shape.num_slots;
    return command;
}

struct eplb_command worker_activate(struct worker *worker, uint64_t token, int32_t layer,
                                    uint64_t prepare_token)
{
    struct eplb_command command = worker_command(worker);
    command.update_layer_id = layer;
    command.activation_token.value = token;
    command.update_prepare_token.value = prepare_token;
    return command;
}

void worker_forward(struct worker *worker, const struct eplb_command *command)
{
    struct eplb_error error = {.status = EPLB_OK};
    if (eplb_executor_start_step(worker->executor, command, &error) != EPLB_OK ||
        eplb_executor_finish_step(worker->executor, &error) != EPLB_OK)
        fail_msg("forward %d: %s", (int)command->seq, error.text);
}

struct eplb_worker_levels worker_levels(struct worker *worker)
{
    struct eplb_worker_output output;
    assert_int_equal(eplb_executor_output(worker->executor, NULL, &output, NULL), EPLB_OK);
    return output.levels;
}

enum eplb_prepare_status worker_await_prepare(struct worker *worker, uint64_t token)
{
    int64_t end = eplb_clock_system()->now(NULL) + PATIENCE_NS;
    for (;;) {
        struct eplb_worker_levels levels = worker_levels(worker);
        assert_int_equal(levels.prepare_token.value, token);
        if (levels.prepare_status != EPLB_PREPARE_RUNNING)
            return levels.prepare_status;
        assert_true(eplb_clock_system()->now(NULL) < end);
        sched_yield();
        struct eplb_command command = worker_command(worker);
        worker_forward(worker, &command);
    }
}

void worker_check_weights(const struct worker *worker)
{
    const int32_t *table = eplb_executor_tables(worker->executor);
    int32_t slots = worker->shape.slots_per_rank;
    for (int32_t layer = 0; layer < WORKER_LAYERS; layer++, table += worker->shape.num_slots)
        for (int32_t slot = 0; slot < slots; slot++) {
            int32_t expert = table[worker->params.ep_rank * slots + slot];
            check_painted(worker->matrices[layer][slot], sizeof worker->matrices[0][0], 0, layer, expert);
            check_painted(worker->scales[layer][slot], sizeof worker->scales[0][0], 1, layer, expert);
        }
}

/* -------------------------------------------------------------------------------------- moods */

void worker_set_moods(struct worker *worker, enum worker_mood prepare, enum worker_mood start,
                      enum worker_mood update)
{
    eplb_mutex_lock(&worker->lock);
    worker->prepare = prepare;
    worker->start = start;
    worker->update = update;
    eplb_condition_broadcast(&worker->changed);
    eplb_mutex_unlock(&worker->lock);
}

void worker_await_hang(struct worker *worker)
{
    int64_t end = eplb_clock_system()->now(NULL) + PATIENCE_NS;
    eplb_mutex_lock(&worker->lock);
    while (!worker->hanging)
        assert_true(eplb_condition_wait_until(&worker->changed, &worker->lock, end));
    eplb_mutex_unlock(&worker->lock);
}
