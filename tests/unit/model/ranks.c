/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/prng.h"
#include "os/thread.h"

static void must(enum eplb_status status, const struct eplb_error *error)
{
    if (status != EPLB_OK)
        fail_msg("%s", error->text);
}

static void create_rank(struct ranks *ranks, int32_t rank)
{
    const struct ranks_params *params = &ranks->params;
    const struct eplb_group *group = eplb_threads_group(ranks->threads, rank);
    struct eplb_error error;
    struct eplb_executor_params executor;
    const struct eplb_model_params model = {.config = params->config,
                                            .shape = ranks->shape,
                                            .ep_rank = rank,
                                            .max_rows = params->max_rows,
                                            .num_caches = params->num_caches,
                                            .initial = params->initial,
                                            .decode_only_load = params->decode_only_load,
                                            .group = group,
                                            .routes = params->routes,
                                            .replica_routing = params->replica_routing,
                                            .node_of_rank = params->node_of_rank,
                                            .cost_per_active_slot = params->cost_per_active_slot};
    must(eplb_model_create(&model, &ranks->models[rank], &error), &error);
    eplb_executor_params_init(&executor);
    executor.shape = ranks->shape;
    executor.ep_rank = rank;
    executor.initial = params->initial;
    executor.group = group;
    executor.weights = eplb_model_registered(ranks->models[rank]);
    executor.hooks = eplb_model_hooks(ranks->models[rank]);
    executor.transfer_chunk_bytes = 1000;
    executor.transfer_timeout_seconds = 30;
    must(eplb_executor_create(&executor, &ranks->executors[rank], &error), &error);
}

void ranks_create(struct ranks *ranks, const struct ranks_params *params)
{
    struct eplb_error error;
    struct eplb_threads_params threads;
    *ranks = (struct ranks){.params = *params};
    must(eplb_shape_init(&ranks->shape, params->config.num_layers, params->config.num_experts,
                         params->ep_size, params->redundant, &error),
         &error);
    assert_in_range(params->max_rows, 1, RANKS_MAX_ROWS);
    assert_in_range(params->ep_size, 1, RANKS_MAX);
    assert_in_range(params->config.num_layers, 1, RANKS_MAX_LAYERS);
    assert_in_range(ranks->shape.num_slots, 1, RANKS_MAX_SLOTS);
    eplb_threads_params_init(&threads);
    threads.num_ranks = params->ep_size;
    must(eplb_threads_create(&threads, &ranks->threads, &error), &error);
    for (int32_t rank = 0; rank < params->ep_size; rank++)
        create_rank(ranks, rank);
    eplb_command_init(&ranks->command, 1);
}

void ranks_destroy(struct ranks *ranks)
{
    for (int32_t rank = 0; rank < ranks->params.ep_size; rank++) {
        struct eplb_error error;
        must(eplb_executor_stop(ranks->executors[rank], INT64_C(60000000000), &error), &error);
        eplb_executor_destroy(ranks->executors[rank]);
        eplb_model_destroy(ranks->models[rank]);
    }
    eplb_threads_destroy(ranks->threads);
}

const struct eplb_group *ranks_engine(const struct ranks *ranks)
{
    return eplb_threads_group(ranks->threads, EPLB_NO_RANK);
}

struct rank_thread {
    struct ranks *ranks;
    int32_t rank;
    struct eplb_thread thread;
};

/** The model alone is told of new weights, as if the command had reached this rank only. */
static void raise_version(const struct ranks *ranks, int32_t rank, int32_t layer, uint64_t ahead)
{
    const struct eplb_model_hooks *hooks = eplb_model_hooks(ranks->models[rank]);
    const size_t first = (size_t)layer * (size_t)ranks->shape.num_slots;
    hooks->update_replica_weights(hooks->context, layer,
                                  eplb_executor_generations(ranks->executors[rank])[layer],
                                  eplb_model_replicas(ranks->models[rank], layer)->version + ahead,
                                  eplb_executor_replica_weights(ranks->executors[rank]) + first);
}

static enum eplb_status run_model(struct ranks *ranks, int32_t rank, struct eplb_error *error)
{
    struct rank_forward *forward = &ranks->forwards[rank];
    int32_t layers = ranks->shape.num_layers;
    uint64_t generations[RANKS_MAX_LAYERS];
    for (int32_t layer = 0; layer < layers; layer++)
        generations[layer] = eplb_executor_generations(ranks->executors[rank])[layer];
    generations[layers - 1] += forward->generation_ahead;
    if (forward->version_ahead > 0)
        raise_version(ranks, rank, layers - 1, forward->version_ahead);
    const struct eplb_model_batch batch = {.seq = ranks->command.seq + forward->seq_ahead,
                                           .rows = forward->rows,
                                           .num_rows = forward->num_rows,
                                           .flags = ranks->flags,
                                           .generations = generations};
    return eplb_model_forward(ranks->models[rank], &batch, forward->samples, &forward->num_samples, error);
}

static enum eplb_status run_step(struct ranks *ranks, int32_t rank, struct eplb_error *error)
{
    struct eplb_executor *executor = ranks->executors[rank];
    enum eplb_status status = eplb_executor_start_step(executor, &ranks->command, error);
    if (status == EPLB_OK)
        status = run_model(ranks, rank, error);
    /* Where ranks disagree, all see it, and none waits. */
    if (status == EPLB_INCONSISTENT)
        return status;
    if (status != EPLB_OK) {
        const struct eplb_group *group = eplb_threads_group(ranks->threads, rank);
        group->member_dead(group->self, rank);
        return status;
    }
    status = eplb_executor_finish_step(executor, error);
    if (status == EPLB_OK)
        status = eplb_executor_output(executor, eplb_model_prefix(ranks->models[rank]),
                                      &ranks->forwards[rank].output, error);
    return status;
}

static void run_rank(void *argument)
{
    struct rank_thread *thread = argument;
    struct rank_forward *forward = &thread->ranks->forwards[thread->rank];
    forward->num_samples = -1;
    forward->status = run_step(thread->ranks, thread->rank, &forward->error);
}

void ranks_forward(struct ranks *ranks)
{
    struct rank_thread threads[RANKS_MAX];
    for (int32_t rank = 0; rank < ranks->params.ep_size; rank++) {
        struct eplb_error error;
        threads[rank] = (struct rank_thread){.ranks = ranks, .rank = rank};
        must(eplb_thread_start(&threads[rank].thread, "rank", run_rank, &threads[rank], &error), &error);
    }
    for (int32_t rank = 0; rank < ranks->params.ep_size; rank++)
        eplb_thread_join(&threads[rank].thread);
}

void ranks_expect_ok(const struct ranks *ranks)
{
    for (int32_t rank = 0; rank < ranks->params.ep_size; rank++)
        must(ranks->forwards[rank].status, &ranks->forwards[rank].error);
}

int64_t ranks_counted(const struct ranks *ranks, int32_t layer)
{
    int64_t sum = 0;
    int32_t slots = ranks->shape.slots_per_rank;
    for (int32_t rank = 0; rank < ranks->params.ep_size; rank++)
        sum += eplb_model_prefix(ranks->models[rank])[(layer + 1) * slots - 1];
    return sum;
}

struct eplb_model_config ranks_random_config(uint64_t seed)
{
    struct eplb_prng prng;
    struct eplb_model_config config;
    eplb_prng_seed(&prng, seed);
    eplb_model_config_init(&config);
    config.vocab_size = 2 + (int32_t)eplb_prng_below(&prng, 60);
    config.hidden_size = 8 * (1 + (int32_t)eplb_prng_below(&prng, 5));
    config.num_layers = 1 + (int32_t)eplb_prng_below(&prng, 3);
    config.num_heads = 1 + (int32_t)eplb_prng_below(&prng, 3);
    config.head_dim = 8 * (1 + (int32_t)eplb_prng_below(&prng, 2));
    config.kv_window = 1 + (int32_t)eplb_prng_below(&prng, 12);
    config.num_experts = 4 * (1 + (int32_t)eplb_prng_below(&prng, 3));
    config.top_k = 1 + (int32_t)eplb_prng_below(&prng, 4);
    config.expert_hidden_size = 8 * (1 + (int32_t)eplb_prng_below(&prng, 3));
    config.shared_hidden_size = 8 * (int32_t)eplb_prng_below(&prng, 3);
    config.seed = eplb_prng_next(&prng);
    return config;
}
