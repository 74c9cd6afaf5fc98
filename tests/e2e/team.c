/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "e2e/team.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "e2e/chatter.h"
#include "eplb/threads.h"
#include "os/thread.h"

enum { MAX_FLIGHTS = 2 };

/** A forward as a rank is given it, and what it gives back. */
struct flight {
    enum { FREE, SUBMITTED, DONE } state;
    bool warmup;
    struct eplb_dp_batch batch;
    unsigned char *command; /* encoded */
    unsigned char *output;  /* encoded, when DONE */
};

struct worker {
    struct team *team;
    int32_t rank;
    struct standin *model;
    struct eplb_executor *executor;
    struct toy *toy;
    struct chatter *chatter; /* NULL: the toy forward is run */
    struct eplb_thread thread;
    const char *_Atomic doing;

    /* The thread's own. */
    int32_t *rows; /* [EPLB_COMMAND_ROWS][num_slots] of the command */
    struct eplb_prng prng;
    uint64_t commands_hash, commands;
    bool bereaved; /* another rank died: what is left is given up */
    struct eplb_error bereavement;

    struct eplb_mutex lock; /* everything below */
    struct eplb_condition changed;
    struct flight flights[MAX_FLIGHTS]; /* number n at n % num_flights */
    bool stopping, ended;
    int32_t hold_at; /* enum team_point, or NOWHERE */
    bool held, killed;
};

struct team {
    struct team_params params;
    struct eplb_threads *threads;
    int32_t num_flights; /* overlap + 1 */
    uint64_t submitted, collected;
    struct worker workers[TEAM_MAX_RANKS];
    struct eplb_worker_output outputs[TEAM_MAX_RANKS];
    int64_t *prefixes;         /* [R][L][slots_per_rank] */
    uint64_t *generations;     /* [R][L] */
    uint64_t *weight_versions; /* [R][L] */
};

enum { NOWHERE = -1 };

void team_params_init(struct team_params *params)
{
    *params = (struct team_params){.tokens = 6,
                                   .top_k = 2,
                                   .traffic = {.seed = 1, .period = 50},
                                   .matrix_bytes = STANDIN_MATRIX_BYTES,
                                   .chunk_bytes = 1000,
                                   .inflight_bytes = 3500,
                                   .transfer_timeout_seconds = 30,
                                   .seed = 1};
    assert_int_equal(eplb_shape_init(&params->shape, 3, 16, 8, 1, NULL), EPLB_OK);
}

/* ----------------------------------------------------------------------------------------- ends */

int64_t team_deadline(void)
{
    return eplb_clock_system()->now(NULL) + TEAM_PATIENCE_NS;
}

void team_fail(const struct team *team, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    for (int32_t rank = 0; rank < team->params.shape.ep_size; rank++)
        fprintf(stderr, "  rank %d: %s\n", rank, atomic_load(&team->workers[rank].doing));
    fflush(NULL);
    _Exit(EXIT_FAILURE);
}

static void must(const struct worker *worker, enum eplb_status status, const struct eplb_error *error)
{
    if (status != EPLB_OK)
        team_fail(worker->team, "rank %d: %s", worker->rank, error->text);
}

/** Waits for a change of a worker with its lock held. */
static void await_change(struct worker *worker, int64_t deadline, const char *what)
{
    if (!eplb_condition_wait_until(&worker->changed, &worker->lock, deadline))
        team_fail(worker->team, "rank %d: %s does not come", worker->rank, what);
}

/* ---------------------------------------------------------------------------- in a rank's thread */

/** Waits a random time, so that ranks come and go in every order. A stop cuts it short. */
static void jitter(struct worker *worker)
{
    int64_t most = worker->team->params.jitter_ns;
    if (most == 0)
        return;
    int64_t end = eplb_clock_system()->now(NULL) + (int64_t)eplb_prng_below(&worker->prng, (uint64_t)most);
    eplb_mutex_lock(&worker->lock);
    while (!worker->stopping && eplb_condition_wait_until(&worker->changed, &worker->lock, end))
        continue;
    eplb_mutex_unlock(&worker->lock);
}

/** A place where a test may hold the rank. False when it dies there. */
static bool pass(struct worker *worker, enum team_point point, const char *doing)
{
    jitter(worker);
    eplb_mutex_lock(&worker->lock);
    while (worker->hold_at == (int32_t)point && !worker->killed) {
        worker->held = true;
        atomic_store(&worker->doing, "held by the test");
        eplb_condition_broadcast(&worker->changed);
        eplb_condition_wait(&worker->changed, &worker->lock);
    }
    worker->held = false;
    bool alive = !worker->killed;
    eplb_mutex_unlock(&worker->lock);
    atomic_store(&worker->doing, doing);
    return alive;
}

static void note_command(struct worker *worker, const unsigned char *bytes)
{
    for (size_t i = 0; i < eplb_command_bytes(&worker->team->params.shape); i++)
        worker->commands_hash = (worker->commands_hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    worker->commands++;
}

/** Takes the place of the forward, and runs beside everything else until the output is due. */
static void begin_chatter(struct worker *worker)
{
    if (worker->chatter != NULL)
        chatter_begin(worker->chatter, worker->team->params.chatter);
}

static void await_chatter(struct worker *worker)
{
    struct eplb_error error;
    if (worker->chatter != NULL)
        must(worker, chatter_await(worker->chatter, &error), &error);
}

/** The forward itself. False when another rank is dead, so that it cannot be finished. */
static bool run_model(struct worker *worker, const struct eplb_command *command, const struct flight *flight)
{
    struct eplb_error error;
    const struct eplb_group *group = team_group(worker->team, worker->rank);
    if (worker->chatter != NULL)
        return true;
    enum eplb_status status = group->barrier(group->self, &error);
    atomic_store(&worker->doing, "toy forward");
    if (status == EPLB_OK)
        status =
            toy_forward(worker->toy, command->seq, &flight->batch, flight->warmup ? EPLB_FORWARD_WARMUP : 0,
                        eplb_executor_generations(worker->executor), &error);
    if (status != EPLB_RANK_DEAD)
        must(worker, status, &error);
    else
        worker->bereavement = error;
    return status == EPLB_OK;
}

static void give_up(struct worker *worker, const struct eplb_command *command)
{
    struct eplb_error error;
    atomic_store(&worker->doing, "abort_step");
    worker->bereaved = true;
    toy_forget(worker->toy);
    must(worker, eplb_executor_abort_step(worker->executor, command, &error), &error);
}

/** One forward, up to its output. False when the rank dies in it. */
static bool run_steps(struct worker *worker, const struct eplb_command *command, const struct flight *flight)
{
    struct eplb_error error;
    if (!pass(worker, TEAM_BEFORE_START, "start_step"))
        return false;
    if (worker->bereaved) {
        give_up(worker, command);
        return true;
    }
    begin_chatter(worker);
    must(worker, eplb_executor_start_step(worker->executor, command, &error), &error);
    if (!pass(worker, TEAM_BEFORE_FORWARD, "barrier"))
        return false;
    if (!run_model(worker, command, flight)) {
        give_up(worker, command);
        return true;
    }
    if (!pass(worker, TEAM_BEFORE_FINISH, "finish_step"))
        return false;
    must(worker, eplb_executor_finish_step(worker->executor, &error), &error);
    atomic_store(&worker->doing, "waits for its second thread");
    await_chatter(worker);
    return pass(worker, TEAM_BEFORE_REPORT, "check and report");
}

static bool run_forward(struct worker *worker, struct flight *flight)
{
    const struct eplb_shape *shape = &worker->team->params.shape;
    struct eplb_command command;
    struct eplb_worker_output output;
    struct eplb_error error;
    must(worker, eplb_command_decode(shape, flight->command, worker->rows, &command, &error), &error);
    note_command(worker, flight->command);
    if (!run_steps(worker, &command, flight))
        return false;
    if (command.update_layer_id != EPLB_NO_LAYER)
        must(worker, standin_check(worker->model, eplb_executor_tables(worker->executor), &error), &error);
    must(worker, eplb_executor_output(worker->executor, toy_prefix(worker->toy), &output, &error), &error);
    eplb_worker_output_encode(shape, &output, flight->output);
    return true;
}

/** The next forward, once it is handed out; NULL when there will be none. */
static struct flight *next_flight(struct worker *worker)
{
    struct flight *flight = &worker->flights[worker->commands % (uint64_t)worker->team->num_flights];
    atomic_store(&worker->doing, "waits for a forward");
    eplb_mutex_lock(&worker->lock);
    while (flight->state != SUBMITTED && !worker->stopping)
        eplb_condition_wait(&worker->changed, &worker->lock);
    bool given = flight->state == SUBMITTED;
    eplb_mutex_unlock(&worker->lock);
    return given ? flight : NULL;
}

static void serve(void *argument)
{
    struct worker *worker = argument;
    struct flight *flight = next_flight(worker);
    while (flight != NULL && run_forward(worker, flight)) {
        eplb_mutex_lock(&worker->lock);
        flight->state = DONE;
        eplb_condition_broadcast(&worker->changed);
        eplb_mutex_unlock(&worker->lock);
        flight = next_flight(worker);
    }
    eplb_mutex_lock(&worker->lock);
    atomic_store(&worker->doing, worker->killed ? "dead" : "stopped");
    worker->ended = true;
    eplb_condition_broadcast(&worker->changed);
    eplb_mutex_unlock(&worker->lock);
}

/* --------------------------------------------------------------------------------------- create */

static void create_executor(struct worker *worker)
{
    const struct team_params *params = &worker->team->params;
    struct eplb_executor_params executor;
    struct eplb_error error;
    eplb_executor_params_init(&executor);
    executor.shape = params->shape;
    executor.ep_rank = worker->rank;
    executor.group = team_group(worker->team, worker->rank);
    executor.weights = standin_weights(worker->model);
    executor.hooks = standin_hooks(worker->model);
    executor.transfer_timeout_seconds = params->transfer_timeout_seconds;
    executor.transfer_chunk_bytes = params->chunk_bytes;
    executor.transfer_inflight_bytes = params->inflight_bytes;
    executor.log = params->log;
    if (params->adjust != NULL)
        params->adjust(params->context, worker->rank, &executor);
    must(worker, eplb_executor_create(&executor, &worker->executor, &error), &error);
}

static void create_parts(struct worker *worker)
{
    const struct team_params *params = &worker->team->params;
    const struct standin_params standin = {.shape = params->shape,
                                           .ep_rank = worker->rank,
                                           .checkpoint = 1,
                                           .matrix_bytes = params->matrix_bytes,
                                           .log = params->log};
    struct eplb_error error;
    must(worker, standin_create(&standin, &worker->model, &error), &error);
    create_executor(worker);
    const struct toy_params toy = {.shape = params->shape,
                                   .ep_rank = worker->rank,
                                   .tokens = params->tokens,
                                   .top_k = params->top_k,
                                   .traffic = params->traffic,
                                   .group = team_group(worker->team, worker->rank),
                                   .model = worker->model};
    must(worker, toy_create(&toy, &worker->toy, &error), &error);
    if (params->chatter > 0)
        must(worker,
             chatter_create(team_group(worker->team, worker->rank), params->seed, params->jitter_ns,
                            &worker->chatter, &error),
             &error);
}

static void create_worker(struct team *team, int32_t rank)
{
    const struct eplb_shape *shape = &team->params.shape;
    struct worker *worker = &team->workers[rank];
    worker->team = team;
    worker->rank = rank;
    worker->hold_at = NOWHERE;
    eplb_prng_seed(&worker->prng, team->params.seed + (uint64_t)rank);
    assert_int_equal(eplb_mutex_init(&worker->lock, NULL), EPLB_OK);
    assert_int_equal(eplb_condition_init(&worker->changed, NULL), EPLB_OK);
    worker->rows = calloc(EPLB_COMMAND_ROWS * (size_t)shape->num_slots, sizeof *worker->rows);
    assert_non_null(worker->rows);
    for (int32_t i = 0; i < team->num_flights; i++) {
        worker->flights[i].command = malloc(eplb_command_bytes(shape));
        worker->flights[i].output = malloc(eplb_worker_output_bytes(shape));
        assert_non_null(worker->flights[i].command);
        assert_non_null(worker->flights[i].output);
    }
    create_parts(worker);
}

static struct eplb_threads *create_group(int32_t ranks)
{
    struct eplb_threads *threads;
    struct eplb_threads_params params;
    eplb_threads_params_init(&params);
    params.num_ranks = ranks;
    assert_int_equal(eplb_threads_create(&params, &threads, NULL), EPLB_OK);
    return threads;
}

struct team *team_create(const struct team_params *params)
{
    size_t ranks = (size_t)params->shape.ep_size;
    size_t layers = (size_t)params->shape.num_layers;
    struct team *team = calloc(1, sizeof *team);
    assert_non_null(team);
    assert_in_range(ranks, 1, TEAM_MAX_RANKS);
    assert_in_range(params->shape.num_slots, 1, TEAM_MAX_SLOTS);
    team->params = *params;
    team->num_flights = params->overlap + 1;
    team->prefixes = calloc(ranks * layers * (size_t)params->shape.slots_per_rank, sizeof *team->prefixes);
    team->generations = calloc(ranks * layers, sizeof *team->generations);
    team->weight_versions = calloc(ranks * layers, sizeof *team->weight_versions);
    assert_non_null(team->prefixes);
    assert_non_null(team->generations);
    assert_non_null(team->weight_versions);
    team->threads = create_group(params->shape.ep_size);
    for (int32_t rank = 0; rank < params->shape.ep_size; rank++)
        atomic_store(&team->workers[rank].doing, "is being created");
    for (int32_t rank = 0; rank < params->shape.ep_size; rank++)
        create_worker(team, rank);
    for (int32_t rank = 0; rank < params->shape.ep_size; rank++)
        assert_int_equal(
            eplb_thread_start(&team->workers[rank].thread, "rank", serve, &team->workers[rank], NULL),
            EPLB_OK);
    return team;
}

static void stop_worker(struct worker *worker)
{
    struct eplb_error error;
    int64_t deadline = team_deadline();
    eplb_mutex_lock(&worker->lock);
    worker->stopping = true;
    eplb_condition_broadcast(&worker->changed);
    while (!worker->ended)
        await_change(worker, deadline, "the end of its thread");
    eplb_mutex_unlock(&worker->lock);
    eplb_thread_join(&worker->thread);
    /* A dead rank may have left an activation open; its process would be gone, this one has to clear it. */
    if (worker->killed)
        must(worker, eplb_executor_finish_step(worker->executor, &error), &error);
    must(worker, eplb_executor_stop(worker->executor, TEAM_PATIENCE_NS, &error), &error);
}

static void free_worker(struct worker *worker)
{
    eplb_executor_destroy(worker->executor);
    chatter_destroy(worker->chatter);
    toy_destroy(worker->toy);
    standin_destroy(worker->model);
    for (int32_t i = 0; i < worker->team->num_flights; i++) {
        free(worker->flights[i].command);
        free(worker->flights[i].output);
    }
    free(worker->rows);
    eplb_condition_destroy(&worker->changed);
    eplb_mutex_destroy(&worker->lock);
}

void team_destroy(struct team *team)
{
    for (int32_t rank = 0; rank < team->params.shape.ep_size; rank++)
        stop_worker(&team->workers[rank]);
    for (int32_t rank = 0; rank < team->params.shape.ep_size; rank++)
        free_worker(&team->workers[rank]);
    eplb_threads_destroy(team->threads);
    free(team->generations);
    free(team->weight_versions);
    free(team->prefixes);
    free(team);
}

/* ---------------------------------------------------------------------------------------- views */

const struct eplb_shape *team_shape(const struct team *team)
{
    return &team->params.shape;
}

const struct eplb_group *team_engine_group(const struct team *team)
{
    return eplb_threads_group(team->threads, EPLB_NO_RANK);
}

const struct eplb_group *team_group(const struct team *team, int32_t rank)
{
    return eplb_threads_group(team->threads, rank);
}

struct standin *team_model(const struct team *team, int32_t rank)
{
    return team->workers[rank].model;
}

struct eplb_executor *team_executor(const struct team *team, int32_t rank)
{
    return team->workers[rank].executor;
}

uint64_t team_commands_seen(const struct team *team, int32_t rank, uint64_t *count)
{
    *count = team->workers[rank].commands;
    return team->workers[rank].commands_hash;
}

void team_check(const struct team *team, const int32_t *tables)
{
    struct eplb_error error;
    for (int32_t rank = 0; rank < team->params.shape.ep_size; rank++)
        if (!team_is_dead(team, rank) && standin_check(team->workers[rank].model, tables, &error) != EPLB_OK)
            fail_msg("%s", error.text);
}

void team_check_all(const struct team *team, const int32_t *tables, const uint64_t *generations)
{
    const struct eplb_shape *shape = &team->params.shape;
    size_t layers = (size_t)shape->num_layers;
    size_t slots = (size_t)shape->num_slots;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        if (team_is_dead(team, rank))
            continue;
        const struct eplb_executor *executor = team->workers[rank].executor;
        assert_memory_equal(eplb_executor_tables(executor), tables, layers * slots * sizeof *tables);
        assert_memory_equal(eplb_executor_generations(executor), generations, layers * sizeof *generations);
    }
    team_check(team, tables);
}

/* ------------------------------------------------------------------------------------- forwards */

int32_t team_in_flight(const struct team *team)
{
    return (int32_t)(team->submitted - team->collected);
}

static void submit_to(struct worker *worker, const struct eplb_command *command,
                      const struct eplb_dp_batch *batch, bool warmup)
{
    const struct team *team = worker->team;
    struct flight *flight = &worker->flights[team->submitted % (uint64_t)team->num_flights];
    eplb_mutex_lock(&worker->lock);
    assert_int_equal(flight->state, FREE);
    assert_true(batch->prefill_tokens + batch->decode_tokens <= team->params.tokens);
    eplb_command_encode(&team->params.shape, command, flight->command);
    flight->batch = *batch;
    flight->warmup = warmup;
    flight->state = SUBMITTED;
    eplb_condition_broadcast(&worker->changed);
    eplb_mutex_unlock(&worker->lock);
}

void team_submit(struct team *team, const struct eplb_command *command, const struct eplb_dp_batch *batches,
                 bool warmup)
{
    for (int32_t rank = 0; rank < team->params.shape.ep_size; rank++)
        if (!team_is_dead(team, rank))
            submit_to(&team->workers[rank], command, &batches[rank], warmup);
    team->submitted++;
}

/** False when the rank is dead, or dies before it answers. */
static bool collect_from(struct worker *worker, struct eplb_worker_output *output)
{
    struct team *team = worker->team;
    const struct eplb_shape *shape = &team->params.shape;
    size_t layers = (size_t)shape->num_layers;
    size_t rank = (size_t)worker->rank;
    struct flight *flight = &worker->flights[team->collected % (uint64_t)team->num_flights];
    struct eplb_error error;
    int64_t deadline = team_deadline();
    eplb_mutex_lock(&worker->lock);
    while (flight->state != DONE && !worker->killed)
        await_change(worker, deadline, "the output");
    bool done = flight->state == DONE;
    flight->state = FREE;
    eplb_mutex_unlock(&worker->lock);
    if (done)
        must(worker,
             eplb_worker_output_decode(
                 shape, flight->output, team->prefixes + rank * layers * (size_t)shape->slots_per_rank,
                 team->generations + rank * layers, team->weight_versions + rank * layers, output, &error),
             &error);
    return done;
}

const struct eplb_worker_output *team_collect(struct team *team)
{
    assert_true(team_in_flight(team) > 0);
    for (int32_t rank = 0; rank < team->params.shape.ep_size; rank++)
        if (!collect_from(&team->workers[rank], &team->outputs[rank]))
            team->outputs[rank] = (struct eplb_worker_output){.size = sizeof team->outputs[rank]};
    team->collected++;
    return team->outputs;
}

/* --------------------------------------------------------------------------------------- faults */

void team_hold(struct team *team, int32_t rank, enum team_point point)
{
    struct worker *worker = &team->workers[rank];
    eplb_mutex_lock(&worker->lock);
    worker->hold_at = (int32_t)point;
    eplb_mutex_unlock(&worker->lock);
}

void team_await_held(struct team *team, int32_t rank)
{
    struct worker *worker = &team->workers[rank];
    int64_t deadline = team_deadline();
    eplb_mutex_lock(&worker->lock);
    while (!worker->held)
        await_change(worker, deadline, "the point where it is to be held");
    eplb_mutex_unlock(&worker->lock);
}

void team_release(struct team *team, int32_t rank)
{
    struct worker *worker = &team->workers[rank];
    eplb_mutex_lock(&worker->lock);
    worker->hold_at = NOWHERE;
    eplb_condition_broadcast(&worker->changed);
    eplb_mutex_unlock(&worker->lock);
}

void team_kill(struct team *team, int32_t rank)
{
    struct worker *worker = &team->workers[rank];
    const struct eplb_group *group = team_engine_group(team);
    int64_t deadline = team_deadline();
    eplb_mutex_lock(&worker->lock);
    assert_true(worker->held);
    worker->killed = true;
    eplb_condition_broadcast(&worker->changed);
    while (!worker->ended)
        await_change(worker, deadline, "the end of its thread");
    eplb_mutex_unlock(&worker->lock);
    group->member_dead(group->self, rank);
}

const char *team_bereavement(const struct team *team, int32_t rank)
{
    return team->workers[rank].bereavement.text;
}

bool team_is_dead(const struct team *team, int32_t rank)
{
    return team->workers[rank].killed;
}

void team_await_finishing(struct team *team, int32_t rank)
{
    const struct worker *worker = &team->workers[rank];
    int64_t deadline = team_deadline();
    while (strcmp(atomic_load(&worker->doing), "finish_step") != 0) {
        if (eplb_clock_system()->now(NULL) > deadline)
            team_fail(team, "rank %d: finish_step does not come", rank);
        sched_yield();
    }
}
