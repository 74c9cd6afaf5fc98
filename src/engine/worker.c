/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/worker.h"

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "engine/lifeline.h"
#include "engine/records.h"
#include "engine/routes.h"
#include "eplb/channel.h"
#include "eplb/clock.h"
#include "eplb/executor.h"
#include "eplb/shm.h"
#include "model/model.h"
#include "os/process.h"

/* Often enough for the shortest silence timeout, and nothing to be seen in a list of processes. */
#define BEAT_INTERVAL_NS INT64_C(200000000)

/* A hook that hangs is named; the process ends anyway. */
#define STOP_TIMEOUT_NS INT64_C(2000000000)

/** One rank's process. Without balancing its experts never move, and it has no executor. */
struct worker {
    const struct eplb_worker_params *params;
    struct eplb_channel *channel;
    struct eplb_lifeline *lifeline;
    struct eplb_shm *shm;
    const struct eplb_shape *shape;
    struct eplb_run_setup setup;
    struct eplb_routes routes;
    struct eplb_model *model;
    struct eplb_executor *executor; /* NULL without balancing */
    uint64_t *generations;          /* [L] zeros, without an executor */
    bool bereaved;                  /* another rank has died */
    uint64_t *fingerprints;         /* [L][E]; NULL without verify */
    struct eplb_model_row *rows;    /* [max_rows] */
    struct eplb_result result;
    unsigned char *result_bytes; /* the encoded result, behind the routes when they are recorded */
};

static int64_t now(void)
{
    return eplb_clock_system()->now(NULL);
}

/* --------------------------------------------------------------------------------------- the tie */

static void beat(void *context)
{
    const struct worker *worker = context;
    eplb_channel_beat(worker->channel);
}

static int engine_lives(void *context)
{
    const struct worker *worker = context;
    return eplb_channel_engine_lives(worker->channel);
}

/* Other threads may be blocked on ranks that end now as well: nothing is waited for. */
static void orphaned(void *context)
{
    (void)context;
    _exit(eplb_status_exit_code(EPLB_RANK_DEAD));
}

static enum eplb_status attach(struct worker *worker, struct eplb_error *error)
{
    const struct eplb_worker_params *params = worker->params;
    struct eplb_channel_attach_params channel;
    eplb_channel_attach_params_init(&channel);
    channel.instance_name = params->instance_name;
    channel.directory = params->directory;
    channel.generation = params->generation;
    channel.ep_rank = params->ep_rank;
    EPLB_TRY(eplb_channel_attach(&channel, &worker->channel, error));
    worker->shape = eplb_channel_shape(worker->channel);
    size_t size;
    const void *bytes = eplb_channel_setup(worker->channel, &size);
    EPLB_TRY(eplb_setup_decode(bytes, size, worker->shape, &worker->setup, error));
    const struct eplb_lifeline_params lifeline = {.engine_pid = worker->setup.engine_pid,
                                                  .beat_interval_ns = BEAT_INTERVAL_NS,
                                                  .context = worker,
                                                  .beat = beat,
                                                  .engine_lives = engine_lives,
                                                  .orphaned = orphaned};
    EPLB_TRY(eplb_lifeline_create(&lifeline, &worker->lifeline, error));
    struct eplb_shm_attach_params group;
    eplb_shm_attach_params_init(&group);
    group.instance_name = params->instance_name;
    group.directory = params->directory;
    group.generation = params->generation;
    group.rank = params->ep_rank;
    return eplb_shm_attach(&group, &worker->shm, error);
}

/* ------------------------------------------------------------------------------------- the model */

static int64_t cpu_time(void *clock)
{
    (void)clock;
    return eplb_thread_cpu_time();
}

static enum eplb_status log_memory(const struct worker *worker, struct eplb_error *error)
{
    const struct eplb_run_setup *setup = &worker->setup;
    struct eplb_memory_plan plan;
    EPLB_TRY(eplb_memory_plan_make(&setup->model, worker->shape, setup->replica_routing, setup->max_rows,
                                   setup->num_caches, !setup->eplb, &plan, error));
    EPLB_LOG(worker->params->log, MEMORY_PLAN, EPLB_VALUE_INT(worker->params->ep_rank),
             EPLB_VALUE_INT(plan.weights), EPLB_VALUE_INT(plan.redundant_slots), EPLB_VALUE_INT(plan.staging),
             EPLB_VALUE_INT(plan.kv_cache), EPLB_VALUE_INT(plan.graph_pool), EPLB_VALUE_INT(plan.activations),
             EPLB_VALUE_INT(plan.total));
    return EPLB_OK;
}

static enum eplb_status make_model(struct worker *worker, struct eplb_error *error)
{
    const struct eplb_run_setup *setup = &worker->setup;
    EPLB_TRY(eplb_routes_make(setup, &worker->routes, error));
    const struct eplb_model_params params = {.config = setup->model,
                                             .shape = *worker->shape,
                                             .ep_rank = worker->params->ep_rank,
                                             .max_rows = setup->max_rows,
                                             .num_caches = setup->num_caches,
                                             .initial = setup->initial,
                                             .initial_weights = setup->initial_weights,
                                             .replica_routing = setup->replica_routing,
                                             .node_of_rank = setup->node_of_rank,
                                             .cost_per_active_slot = setup->cost_per_active_slot,
                                             .cost_per_token = setup->cost_per_token,
                                             .decode_only_load = setup->decode_only_load,
                                             .fixed = !setup->eplb,
                                             .group = eplb_shm_group(worker->shm),
                                             .routes = eplb_routes_source(&worker->routes),
                                             .log = worker->params->log,
                                             .cpu_time = cpu_time};
    return eplb_model_create(&params, &worker->model, error);
}

static enum eplb_status make_executor(struct worker *worker, struct eplb_error *error)
{
    const struct eplb_run_setup *setup = &worker->setup;
    struct eplb_executor_params params;
    if (!setup->eplb)
        return EPLB_OK;
    eplb_executor_params_init(&params);
    params.shape = *worker->shape;
    params.ep_rank = worker->params->ep_rank;
    params.initial = setup->initial;
    params.initial_weights = setup->initial_weights;
    params.group = eplb_shm_group(worker->shm);
    params.weights = eplb_model_registered(worker->model);
    params.hooks = eplb_model_hooks(worker->model);
    params.transfer_timeout_seconds = setup->transfer_timeout_seconds;
    params.transfer_chunk_bytes = setup->transfer_chunk_bytes;
    params.transfer_inflight_bytes = setup->transfer_inflight_bytes;
    params.fused_mc2 = setup->fused_mc2;
    params.log = worker->params->log;
    return eplb_executor_create(&params, &worker->executor, error);
}

static enum eplb_status make_buffers(struct worker *worker, struct eplb_error *error)
{
    const struct eplb_run_setup *setup = &worker->setup;
    size_t layers = (size_t)worker->shape->num_layers;
    size_t rows = (size_t)setup->max_rows;
    worker->rows = calloc(rows, sizeof *worker->rows);
    worker->result.samples = calloc(rows, sizeof *worker->result.samples);
    worker->result.work = calloc(layers, sizeof *worker->result.work);
    worker->result_bytes =
        malloc(eplb_routed_bytes(setup->max_rows, setup->model.num_layers * setup->model.top_k) +
               eplb_result_bytes(setup->max_rows, worker->shape->num_layers));
    worker->generations = calloc(layers, sizeof *worker->generations);
    if (worker->rows == NULL || worker->result.samples == NULL || worker->result.work == NULL ||
        worker->result_bytes == NULL || worker->generations == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "rank %d: no memory for batches of %d rows", worker->params->ep_rank,
                  setup->max_rows);
    if (!setup->verify)
        return EPLB_OK;
    worker->fingerprints = calloc(layers * (size_t)worker->shape->num_experts, sizeof *worker->fingerprints);
    if (worker->fingerprints == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "rank %d: no memory for the fingerprints of %d experts in %d layers",
                  worker->params->ep_rank, worker->shape->num_experts, worker->shape->num_layers);
    return eplb_model_expected_fingerprints(&setup->model, worker->fingerprints, error);
}

static enum eplb_status set_up(struct worker *worker, struct eplb_error *error)
{
    EPLB_TRY(attach(worker, error));
    EPLB_TRY(log_memory(worker, error));
    EPLB_TRY(make_model(worker, error));
    EPLB_TRY(make_executor(worker, error));
    EPLB_TRY(make_buffers(worker, error));
#if EPLB_TEST_BUILD
    eplb_model_inject_wrong_slot = worker->setup.inject != 0;
#endif
    /* Once with the tables that the run begins with, so that a later difference came with an activation. */
    if (worker->fingerprints != NULL)
        return eplb_model_check_slots(worker->model, worker->setup.initial, worker->fingerprints, error);
    return EPLB_OK;
}

/* ----------------------------------------------------------------------------------------- serve */

/** The generations that the next forward runs under. */
static const uint64_t *generations(const struct worker *worker)
{
    return worker->executor == NULL ? worker->generations : eplb_executor_generations(worker->executor);
}

/**
 * Gives a forward up, begun or not, because a rank has died. So does every forward after it: what it
 * needs of this one does not exist. The engine, who knows of the death too, ends the run.
 */
static enum eplb_status give_up(struct worker *worker, const struct eplb_command *command,
                                struct eplb_error *error)
{
    struct eplb_result *result = &worker->result;
    worker->bereaved = true;
    result->num_samples = 0;
    result->step_ns = result->switch_ns = 0;
    memset(result->work, 0, (size_t)worker->shape->num_layers * sizeof *result->work);
    eplb_model_forget(worker->model);
    return worker->executor == NULL ? EPLB_OK : eplb_executor_abort_step(worker->executor, command, error);
}

static enum eplb_status run_step(struct worker *worker, const struct eplb_command *command,
                                 struct eplb_model_batch *batch, struct eplb_error *error)
{
    struct eplb_result *result = &worker->result;
    int64_t begun = now();
    if (worker->executor != NULL)
        EPLB_TRY(eplb_executor_start_step(worker->executor, command, error));
    batch->generations = generations(worker);
    int64_t started = now();
    enum eplb_status status =
        eplb_model_forward(worker->model, batch, result->samples, &result->num_samples, error);
    if (status == EPLB_RANK_DEAD)
        return give_up(worker, command, error);
    EPLB_TRY(status);
    int64_t computed = now();
    if (worker->executor != NULL)
        EPLB_TRY(eplb_executor_finish_step(worker->executor, error));
    int64_t finished = now();
    result->step_ns = finished - begun;
    result->switch_ns = (started - begun) + (finished - computed);
    memcpy(result->work, eplb_model_work(worker->model),
           (size_t)worker->shape->num_layers * sizeof *result->work);
    return EPLB_OK;
}

static enum eplb_status verify(struct worker *worker, const struct eplb_command *command,
                               struct eplb_error *error)
{
    worker->result.slots_checked = 0;
    if (worker->fingerprints == NULL || worker->executor == NULL || worker->bereaved ||
        command->update_layer_id == EPLB_NO_LAYER)
        return EPLB_OK;
    EPLB_TRY(eplb_model_check_slots(worker->model, eplb_executor_tables(worker->executor),
                                    worker->fingerprints, error));
    worker->result.slots_checked =
        (uint64_t)worker->shape->num_layers * (uint64_t)worker->shape->slots_per_rank;
    return EPLB_OK;
}

static enum eplb_status fill_output(struct worker *worker, uint64_t seq, struct eplb_worker_output *output,
                                    struct eplb_error *error)
{
    const int64_t *prefix = eplb_model_prefix(worker->model);
    if (worker->executor != NULL)
        return eplb_executor_output(worker->executor, prefix, output, error);
    *output = (struct eplb_worker_output){.size = sizeof *output,
                                          .seq = seq,
                                          .ep_rank = worker->params->ep_rank,
                                          .num_layers = worker->shape->num_layers,
                                          .slots_per_rank = worker->shape->slots_per_rank,
                                          .prefix = prefix,
                                          .generations = worker->generations};
    return EPLB_OK;
}

static enum eplb_status reply(struct worker *worker, uint64_t seq, struct eplb_error *error)
{
    struct eplb_worker_output output;
    EPLB_TRY(fill_output(worker, seq, &output, error));
    size_t routed = eplb_routes_encode(&worker->routes, worker->result_bytes);
    size_t size = routed + eplb_result_encode(&worker->result, worker->shape->num_layers,
                                              worker->result_bytes + routed);
    return eplb_channel_reply(worker->channel, &output, worker->result_bytes, size, error);
}

static enum eplb_status serve(struct worker *worker, const struct eplb_channel_request *request,
                              struct eplb_error *error)
{
    struct eplb_model_batch batch = {.seq = request->command.seq, .rows = worker->rows};
    EPLB_TRY(eplb_input_decode(request->input, request->input_bytes, worker->setup.max_rows, &batch.flags,
                               worker->rows, &batch.num_rows, error));
    eplb_routes_begin(&worker->routes, worker->rows, batch.num_rows);
    EPLB_TRY(worker->bereaved ? give_up(worker, &request->command, error)
                              : run_step(worker, &request->command, &batch, error));
    EPLB_TRY(verify(worker, &request->command, error));
    return reply(worker, request->command.seq, error);
}

static enum eplb_status serve_all(struct worker *worker, struct eplb_error *error)
{
    for (;;) {
        struct eplb_channel_request request;
        int arrived;
        EPLB_TRY(eplb_channel_receive(worker->channel, INT64_MAX, &request, &arrived, error));
        if (!arrived)
            continue;
        /* Every forward has an input; a request without one is the engine's last word. */
        if (request.input_bytes == 0)
            return EPLB_OK;
        EPLB_TRY(serve(worker, &request, error));
    }
}

/* ------------------------------------------------------------------------------------------ ends */

static enum eplb_status tear_down(struct worker *worker, struct eplb_error *error)
{
    /* A hook that hangs still uses the model: both are left to the end of the process. */
    if (worker->executor != NULL)
        EPLB_TRY(eplb_executor_stop(worker->executor, STOP_TIMEOUT_NS, error));
    eplb_executor_destroy(worker->executor);
    eplb_model_destroy(worker->model);
    eplb_routes_free(&worker->routes);
    free(worker->fingerprints);
    free(worker->generations);
    free(worker->result_bytes);
    free(worker->result.work);
    free(worker->result.samples);
    free(worker->rows);
    eplb_shm_destroy(worker->shm);
    eplb_lifeline_destroy(worker->lifeline);
    eplb_channel_destroy(worker->channel);
    return EPLB_OK;
}

/** Everything that could end this process before the engine wants it to, or keep it longer. */
static void take_signals(void)
{
    /* A terminal sends Ctrl-C to the whole group; when the workers end is for the engine to say. */
    signal(SIGINT, SIG_IGN);
    /* Nobody may read the log any more. */
    signal(SIGPIPE, SIG_IGN);
    /* The lifeline ends this process with the engine's, but a stopped process runs no lifeline; the kernel
     * does. The run starts its workers from the thread that stays in eplb_run to its end. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

enum eplb_status eplb_worker_run(const struct eplb_worker_params *params, struct eplb_error *error)
{
    take_signals();
    struct worker worker = {.params = params};
    struct eplb_error ignored;
    enum eplb_status status = set_up(&worker, error);
    if (status == EPLB_OK)
        status = serve_all(&worker, error);
    enum eplb_status torn_down = tear_down(&worker, status == EPLB_OK ? error : &ignored);
    return status == EPLB_OK ? torn_down : status;
}
