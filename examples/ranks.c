/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * A whole engine in one process: two EP ranks as threads, a toy model of two layers with one tensor per
 * expert, and a manager that gives the hot experts a second slot while forwards run.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eplb/executor.h"
#include "eplb/load.h"
#include "eplb/manager.h"
#include "eplb/threads.h"

/* One redundant slot on each rank. A plan is due after the first forward, but it is made in the manager's
 * thread, so how many forwards it takes is left to the scheduler; this many are always enough. */
enum { LAYERS = 2, EXPERTS = 4, RANKS = 2, SLOTS = 3, WEIGHT = 8, TOKENS = 16, MOST_FORWARDS = 100000 };

struct worker {
    struct engine *engine;
    const struct eplb_group *group;
    int32_t weight[LAYERS][SLOTS][WEIGHT]; /* the experts, one per slot */
    int32_t log2phy[LAYERS][EXPERTS];      /* where this rank sends a token that wants an expert */
    int64_t prefix[LAYERS][SLOTS];
    struct eplb_model_hooks hooks;
    struct eplb_weights *weights;
    struct eplb_counter *counter;
    struct eplb_executor *executor;
    struct eplb_worker_output output;
    pthread_t thread;
};

struct engine {
    struct eplb_shape shape;
    struct eplb_threads *threads;
    struct eplb_manager *manager;
    struct worker workers[RANKS];
    pthread_barrier_t given, done; /* of a forward: every rank and the engine */
    struct eplb_command command;
    int stopping;
};

static _Thread_local struct eplb_error error;

/* A rank that went on after an error would leave the others waiting for it in a collective. */
static void must(enum eplb_status status)
{
    if (status == EPLB_OK)
        return;
    fprintf(stderr, "%s\n", error.text);
    exit(eplb_status_exit_code(status));
}

static int32_t weight_of(int32_t layer, int32_t expert, int32_t i)
{
    return 100 * layer + 10 * expert + i;
}

/* ------------------------------------------------------------------------------------ the model */

/* A plan brings its own log2phy, and this model needs nothing else that would take time to make. */
static enum eplb_status prepare(void *context, const struct eplb_layer_plan *plan, struct eplb_error *reason)
{
    (void)context, (void)plan, (void)reason;
    return EPLB_OK;
}

static enum eplb_status start_transfer(void *context, const struct eplb_layer_plan *plan,
                                       struct eplb_error *reason)
{
    struct worker *worker = context;
    return eplb_weights_materialise(worker->weights, plan, reason);
}

/* Weights and map change together, between two forwards: no token is sent to a slot that is not there. */
static void update(void *context, const struct eplb_layer_plan *plan, int commit)
{
    struct worker *worker = context;
    if (!commit)
        return;
    eplb_weights_activate(worker->weights, plan);
    memcpy(worker->log2phy[plan->layer], plan->log2phy, sizeof worker->log2phy[plan->layer]);
}

static void load_model(struct worker *worker, int32_t rank)
{
    const struct eplb_shape *shape = &worker->engine->shape;
    int32_t table[RANKS * SLOTS];
    eplb_placement_initial(shape, table);
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        eplb_log2phy(shape, table, rank, 0, worker->log2phy[layer]);
        for (int32_t slot = 0; slot < SLOTS; slot++)
            for (int32_t i = 0; i < WEIGHT; i++)
                worker->weight[layer][slot][i] = weight_of(layer, table[rank * SLOTS + slot], i);
    }
}

/* Most tokens want one expert, another one in each layer, of which the initial placement has one slot. */
static int32_t wanted(int32_t layer, int32_t token)
{
    return token % 8 < 4 ? 1 + 2 * layer : token % EXPERTS;
}

/* Each rank tells all where its tokens go, and counts those that come to it. A model would now compute. */
static void run_forward(struct worker *worker)
{
    int32_t own[TOKENS], all[RANKS][TOKENS];
    struct eplb_part received[RANKS], scratch[RANKS];
    for (int32_t rank = 0; rank < RANKS; rank++)
        received[rank] = (struct eplb_part){all[rank], sizeof all[rank]};
    must(eplb_counter_begin(worker->counter, 0, &error));
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        for (int32_t token = 0; token < TOKENS; token++)
            own[token] = worker->log2phy[layer][wanted(layer, token)];
        must(eplb_group_all_gather(worker->group, (struct eplb_part){own, sizeof own}, received, scratch,
                                   &error));
        must(eplb_counter_add_routed(worker->counter, layer, all[0], RANKS * TOKENS, 1, NULL, 0, &error));
    }
    eplb_counter_prefix(worker->counter, worker->prefix[0]);
}

/* ---------------------------------------------------------------------------------- the workers */

/* Between processes, command and output travel as bytes (eplb/wire.h); threads can look at them. */
static void *serve(void *argument)
{
    struct worker *worker = argument;
    struct engine *engine = worker->engine;
    for (;;) {
        pthread_barrier_wait(&engine->given);
        if (engine->stopping)
            return NULL;
        must(eplb_executor_start_step(worker->executor, &engine->command, &error));
        run_forward(worker);
        must(eplb_executor_finish_step(worker->executor, &error));
        must(eplb_executor_output(worker->executor, worker->prefix[0], &worker->output, &error));
        pthread_barrier_wait(&engine->done);
    }
}

static void register_weights(struct worker *worker, int32_t rank)
{
    struct eplb_tensor tensors[LAYERS];
    for (int32_t layer = 0; layer < LAYERS; layer++)
        tensors[layer] = (struct eplb_tensor){.size = sizeof tensors[layer],
                                              .name = "weight",
                                              .data = worker->weight[layer],
                                              .first_dimension = SLOTS,
                                              .bytes_per_expert = sizeof worker->weight[layer][0],
                                              .per_expert = EPLB_PER_EXPERT_YES};
    const struct eplb_weights_params params = {.size = sizeof params,
                                               .shape = worker->engine->shape,
                                               .ep_rank = rank,
                                               .num_tensors = 1,
                                               .tensors = tensors,
                                               .expert_bytes = WEIGHT * sizeof(int32_t)};
    must(eplb_weights_create(&params, &worker->weights, &error));
}

static void create_worker(struct engine *engine, int32_t rank)
{
    struct eplb_executor_params params;
    struct worker *worker = &engine->workers[rank];
    worker->engine = engine;
    worker->group = eplb_threads_group(engine->threads, rank);
    worker->hooks = (struct eplb_model_hooks){.size = sizeof worker->hooks,
                                              .context = worker,
                                              .prepare_expert_weight = prepare,
                                              .start_expert_weight_transfer = start_transfer,
                                              .update_expert_weight = update};
    load_model(worker, rank);
    register_weights(worker, rank);
    must(eplb_counter_create(&engine->shape, rank, &worker->counter, &error));
    eplb_executor_params_init(&params);
    params.shape = engine->shape;
    params.ep_rank = rank;
    params.group = worker->group;
    params.weights = worker->weights;
    params.hooks = &worker->hooks;
    must(eplb_executor_create(&params, &worker->executor, &error));
    if (pthread_create(&worker->thread, NULL, serve, worker) != 0)
        exit(1);
}

static void destroy_worker(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
    must(eplb_executor_stop(worker->executor, INT64_C(10000000000), &error));
    eplb_executor_destroy(worker->executor);
    eplb_counter_destroy(worker->counter);
    eplb_weights_destroy(worker->weights);
}

/* ----------------------------------------------------------------------------------- the engine */

static void create_engine(struct engine *engine)
{
    struct eplb_threads_params threads;
    struct eplb_manager_params params;
    must(eplb_shape_init(&engine->shape, LAYERS, EXPERTS, RANKS, 1, &error));
    eplb_threads_params_init(&threads);
    threads.num_ranks = RANKS;
    must(eplb_threads_create(&threads, &engine->threads, &error));
    eplb_manager_params_init(&params);
    params.shape = engine->shape;
    params.update_interval_seconds = 0; /* a server would wait for load that is worth a plan */
    params.group = eplb_threads_group(engine->threads, EPLB_NO_RANK);
    must(eplb_manager_create(&params, &engine->manager, &error));
    pthread_barrier_init(&engine->given, NULL, RANKS + 1);
    pthread_barrier_init(&engine->done, NULL, RANKS + 1);
    for (int32_t rank = 0; rank < RANKS; rank++)
        create_worker(engine, rank);
}

static void drive_forward(struct engine *engine, uint64_t seq)
{
    struct eplb_worker_output outputs[RANKS];
    struct eplb_dp_batch batches[RANKS];
    for (int32_t rank = 0; rank < RANKS; rank++)
        batches[rank] = (struct eplb_dp_batch){.decode_tokens = TOKENS};
    const struct eplb_forward forward = {
        .size = sizeof forward, .seq = seq, .batches = batches, .num_batches = RANKS};
    must(eplb_manager_submit(engine->manager, &forward, &engine->command, &error));
    pthread_barrier_wait(&engine->given);
    pthread_barrier_wait(&engine->done);
    for (int32_t rank = 0; rank < RANKS; rank++)
        outputs[rank] = engine->workers[rank].output;
    must(eplb_manager_outputs(engine->manager, seq, outputs, RANKS, &error));
}

/* Prints the layers that have switched since, and counts those that ever have. */
static int32_t count_switched(struct engine *engine, uint64_t generations[LAYERS])
{
    int32_t switched = 0;
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        int32_t table[RANKS * SLOTS];
        uint64_t generation = eplb_manager_placement(engine->manager, layer, table);
        if (generation != generations[layer])
            printf("layer %d switched to [%d %d %d] [%d %d %d]\n", layer, table[0], table[1], table[2],
                   table[3], table[4], table[5]);
        generations[layer] = generation;
        switched += generation > 0;
    }
    return switched;
}

static int32_t count_wrong_weights(struct engine *engine)
{
    int32_t wrong = 0;
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        int32_t table[RANKS * SLOTS];
        eplb_manager_placement(engine->manager, layer, table);
        for (int32_t slot = 0; slot < RANKS * SLOTS; slot++)
            for (int32_t i = 0; i < WEIGHT; i++)
                wrong += engine->workers[slot / SLOTS].weight[layer][slot % SLOTS][i] !=
                         weight_of(layer, table[slot], i);
    }
    return wrong;
}

int main(void)
{
    static struct engine engine;
    uint64_t generations[LAYERS] = {0};
    int32_t switched = 0;
    create_engine(&engine);
    for (uint64_t seq = 1; seq <= MOST_FORWARDS && switched < LAYERS; seq++) {
        drive_forward(&engine, seq);
        switched = count_switched(&engine, generations);
    }
    engine.stopping = 1;
    pthread_barrier_wait(&engine.given);
    for (int32_t rank = 0; rank < RANKS; rank++)
        destroy_worker(&engine.workers[rank]);
    int32_t wrong = count_wrong_weights(&engine);
    printf("%d of %d layers switched, %d wrong weights\n", switched, LAYERS, wrong);
    eplb_manager_destroy(engine.manager);
    eplb_threads_destroy(engine.threads);
    pthread_barrier_destroy(&engine.done);
    pthread_barrier_destroy(&engine.given);
    return switched == LAYERS && wrong == 0 ? 0 : 1;
}
