/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "fault/rank.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/prng.h"
#include "engine/lifeline.h"
#include "eplb/channel.h"
#include "eplb/executor.h"
#include "eplb/shm.h"
#include "os/futex.h"
#include "os/process.h"

#define BEAT_INTERVAL_NS (INT64_C(250) * 1000000)
#define STOP_PATIENCE_NS (INT64_C(20) * 1000000000)

/* A maker's locks go a moment before its process does. */
enum { ORPHAN_PATIENCE_MS = 2000 };

struct rank {
    const char *instance, *directory;
    uint64_t generation;
    int32_t number;
    int64_t engine_pid;
    struct rank_setup setup;
    const struct eplb_shape *shape;
    struct eplb_channel *channel;
    struct eplb_lifeline *lifeline;
    struct eplb_shm *shm;
    const struct eplb_group *group;
    struct standin *model;
    struct eplb_executor *executor;
    struct toy *toy;
    struct eplb_prng prng;
    unsigned char *record; /* room for an encoded command */
    uint64_t commands_hash, commands;
    uint64_t checked;
    bool bereaved; /* another rank died: what is left is given up */
    struct eplb_error bereavement;
};

uint64_t rank_state(const struct eplb_shape *shape, const int32_t *tables, const uint64_t *generations)
{
    uint64_t state = UINT64_C(0xcbf29ce484222325);
    for (int32_t i = 0; i < shape->num_layers * shape->num_slots; i++)
        state = (state ^ (uint32_t)tables[i]) * UINT64_C(0x100000001b3);
    for (int32_t i = 0; i < shape->num_layers; i++)
        state = (state ^ generations[i]) * UINT64_C(0x100000001b3);
    return state;
}

/* ------------------------------------------------------------------------------ what one is told */

static const char *_Atomic doing = "starts";
static int32_t own_number;

/** For whoever finds that a rank hangs. */
static void tell(int signal)
{
    (void)signal;
    char line[96] = "  rank ";
    size_t length = strlen(line);
    line[length++] = (char)('0' + own_number % 10);
    line[length++] = ':';
    line[length++] = ' ';
    /* Relaxed: the texts are constants. */
    const char *text = atomic_load_explicit(&doing, memory_order_relaxed);
    for (; *text != '\0' && length + 1 < sizeof line; text++)
        line[length++] = *text;
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written;
}

static void now_doing(const char *text)
{
    /* Relaxed: see tell. */
    atomic_store_explicit(&doing, text, memory_order_relaxed);
}

static _Noreturn void wrong(const struct rank *rank, const char *format, ...) EPLB_PRINTF(2, 3);

static _Noreturn void wrong(const struct rank *rank, const char *format, ...)
{
    char sentence[EPLB_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    fprintf(stderr, "rank %d (pid %d), %s: %s\n", rank->number, (int)getpid(),
            atomic_load_explicit(&doing, memory_order_relaxed), sentence);
    _exit(RANK_WRONG);
}

static void must(const struct rank *rank, enum eplb_status status, const struct eplb_error *error)
{
    if (status != EPLB_OK)
        wrong(rank, "%s", error->text);
}

/* ----------------------------------------------------------------------------------------- engine */

static void beat(void *context)
{
    struct rank *rank = context;
    eplb_channel_beat(rank->channel);
}

static int engine_lives(void *context)
{
    const struct rank *rank = context;
    return eplb_channel_engine_lives(rank->channel);
}

static void orphaned(void *context)
{
    (void)context;
    _exit(RANK_ORPHANED);
}

static bool engine_has_ended(const struct rank *rank)
{
    struct pollfd watch = {.fd = eplb_process_watch(rank->engine_pid), .events = POLLIN};
    bool ended = watch.fd < 0 || poll(&watch, 1, ORPHAN_PATIENCE_MS) == 1;
    if (watch.fd >= 0)
        close(watch.fd);
    return ended;
}

/** What cannot be attached is no wonder when its maker has ended. */
static void must_attach(const struct rank *rank, enum eplb_status status, const struct eplb_error *error)
{
    if (status != EPLB_OK && engine_has_ended(rank))
        _exit(RANK_ORPHANED);
    must(rank, status, error);
}

static void take_channel(struct rank *rank)
{
    struct eplb_channel_attach_params params;
    struct eplb_error error;
    size_t size;
    eplb_channel_attach_params_init(&params);
    params.instance_name = rank->instance;
    params.directory = rank->directory;
    params.generation = rank->generation;
    params.ep_rank = rank->number;
    must_attach(rank, eplb_channel_attach(&params, &rank->channel, &error), &error);
    const void *setup = eplb_channel_setup(rank->channel, &size);
    if (size != sizeof rank->setup)
        wrong(rank, "a setup of %zu bytes; it must be %zu", size, sizeof rank->setup);
    memcpy(&rank->setup, setup, size);
    rank->shape = eplb_channel_shape(rank->channel);
    eplb_prng_seed(&rank->prng, rank->setup.seed + (uint64_t)rank->number);
}

static void tie_to_engine(struct rank *rank)
{
    struct eplb_error error;
    const struct eplb_lifeline_params params = {.engine_pid = rank->engine_pid,
                                                .beat_interval_ns = BEAT_INTERVAL_NS,
                                                .context = rank,
                                                .beat = beat,
                                                .engine_lives = engine_lives,
                                                .orphaned = orphaned};
    must(rank, eplb_lifeline_create(&params, &rank->lifeline, &error), &error);
}

static void join_group(struct rank *rank)
{
    struct eplb_shm_attach_params params;
    struct eplb_error error;
    eplb_shm_attach_params_init(&params);
    params.instance_name = rank->instance;
    params.directory = rank->directory;
    params.generation = rank->generation;
    params.rank = rank->number;
    must_attach(rank, eplb_shm_attach(&params, &rank->shm, &error), &error);
    rank->group = eplb_shm_group(rank->shm);
}

/* ------------------------------------------------------------------------------------------ model */

static void check_bytes(struct rank *rank)
{
    struct eplb_error error;
    const int32_t *tables = eplb_executor_tables(rank->executor);
    now_doing("compares every byte");
    must(rank, standin_check(rank->model, tables, &error), &error);
    rank->checked = rank_state(rank->shape, tables, eplb_executor_generations(rank->executor));
}

static void create_executor(struct rank *rank)
{
    struct eplb_executor_params params;
    struct eplb_error error;
    eplb_executor_params_init(&params);
    params.shape = *rank->shape;
    params.ep_rank = rank->number;
    params.group = rank->group;
    params.weights = standin_weights(rank->model);
    params.hooks = standin_hooks(rank->model);
    params.transfer_timeout_seconds = rank->setup.transfer_timeout_seconds;
    params.transfer_chunk_bytes = rank->setup.chunk_bytes;
    params.transfer_inflight_bytes = rank->setup.inflight_bytes;
    must(rank, eplb_executor_create(&params, &rank->executor, &error), &error);
}

static void create_model(struct rank *rank)
{
    struct eplb_error error;
    const struct standin_params standin = {.shape = *rank->shape,
                                           .ep_rank = rank->number,
                                           .checkpoint = 1,
                                           .matrix_bytes = rank->setup.matrix_bytes};
    must(rank, standin_create(&standin, &rank->model, &error), &error);
    create_executor(rank);
    const struct toy_params toy = {.shape = *rank->shape,
                                   .ep_rank = rank->number,
                                   .tokens = rank->setup.tokens,
                                   .top_k = rank->setup.top_k,
                                   .traffic = rank->setup.traffic,
                                   .group = rank->group,
                                   .model = rank->model};
    must(rank, toy_create(&toy, &rank->toy, &error), &error);
    rank->record = malloc(eplb_command_bytes(rank->shape));
    if (rank->record == NULL)
        wrong(rank, "no memory");
    check_bytes(rank);
}

/* --------------------------------------------------------------------------------------- forwards */

/** A place where ranks come and go in every order. */
static void pass(struct rank *rank, const char *next)
{
    static const _Atomic uint32_t never;
    int64_t most = rank->setup.jitter_ns;
    if (most > 0) {
        int64_t until =
            eplb_clock_system()->now(NULL) + (int64_t)eplb_prng_below(&rank->prng, (uint64_t)most);
        while (eplb_clock_system()->now(NULL) < until)
            eplb_futex_wait(&never, 0, until);
    }
    now_doing(next);
}

static void note_command(struct rank *rank, const struct eplb_command *command)
{
    eplb_command_encode(rank->shape, command, rank->record);
    for (size_t i = 0; i < eplb_command_bytes(rank->shape); i++)
        rank->commands_hash = (rank->commands_hash ^ rank->record[i]) * UINT64_C(0x100000001b3);
    rank->commands++;
}

static void give_up(struct rank *rank, const struct eplb_command *command)
{
    struct eplb_error error;
    now_doing("abort_step");
    rank->bereaved = true;
    toy_forget(rank->toy);
    must(rank, eplb_executor_abort_step(rank->executor, command, &error), &error);
}

/** False when another rank is dead, so that the forward cannot be finished. */
static bool run_model(struct rank *rank, const struct eplb_command *command,
                      const struct eplb_dp_batch *batch)
{
    struct eplb_error error;
    enum eplb_status status = rank->group->barrier(rank->group->self, &error);
    now_doing("toy forward");
    if (status == EPLB_OK)
        status =
            toy_forward(rank->toy, command->seq, batch, 0, eplb_executor_generations(rank->executor), &error);
    if (status != EPLB_RANK_DEAD)
        must(rank, status, &error);
    else
        rank->bereavement = error;
    return status == EPLB_OK;
}

static void run_steps(struct rank *rank, const struct eplb_command *command,
                      const struct eplb_dp_batch *batch)
{
    struct eplb_error error;
    pass(rank, "start_step");
    if (rank->bereaved) {
        give_up(rank, command);
        return;
    }
    must(rank, eplb_executor_start_step(rank->executor, command, &error), &error);
    pass(rank, "barrier");
    if (!run_model(rank, command, batch)) {
        give_up(rank, command);
        return;
    }
    pass(rank, "finish_step");
    must(rank, eplb_executor_finish_step(rank->executor, &error), &error);
    pass(rank, "check and reply");
}

static void reply(struct rank *rank)
{
    struct eplb_worker_output output;
    struct eplb_error error;
    struct rank_result result = {.state = rank_state(rank->shape, eplb_executor_tables(rank->executor),
                                                     eplb_executor_generations(rank->executor)),
                                 .checked = rank->checked,
                                 .commands_hash = rank->commands_hash,
                                 .commands = rank->commands};
    snprintf(result.bereavement, sizeof result.bereavement, "%.*s", RANK_SENTENCE - 1,
             rank->bereavement.text);
    must(rank, eplb_executor_output(rank->executor, toy_prefix(rank->toy), &output, &error), &error);
    must(rank, eplb_channel_reply(rank->channel, &output, &result, sizeof result, &error), &error);
}

/** One forward, or none when the wait for it was ended by something else. False when the rank is to end. */
static bool serve(struct rank *rank)
{
    struct eplb_channel_request request;
    struct eplb_error error;
    struct rank_input input;
    int arrived;
    now_doing("waits for a forward");
    must(rank, eplb_channel_receive(rank->channel, INT64_MAX, &request, &arrived, &error), &error);
    if (!arrived)
        return true;
    if (request.input_bytes < sizeof input)
        wrong(rank, "an input of %zu bytes; it must be %zu or more", request.input_bytes, sizeof input);
    memcpy(&input, request.input, sizeof input);
    if (input.leave)
        return false;
    for (enum standin_hook hook = 0; hook < STANDIN_HOOKS; hook++)
        standin_set_fault(rank->model, hook, (struct standin_fault){.mood = input.moods[hook]});
    note_command(rank, &request.command);
    run_steps(rank, &request.command, &input.batch);
    if (request.command.update_layer_id != EPLB_NO_LAYER || rank->bereaved)
        check_bytes(rank);
    reply(rank);
    return true;
}

static void clean_up(struct rank *rank)
{
    struct eplb_error error;
    now_doing("cleans up");
    must(rank, eplb_executor_stop(rank->executor, STOP_PATIENCE_NS, &error), &error);
    eplb_executor_destroy(rank->executor);
    free(rank->record);
    toy_destroy(rank->toy);
    standin_destroy(rank->model);
    eplb_shm_destroy(rank->shm);
    eplb_lifeline_destroy(rank->lifeline);
    eplb_channel_destroy(rank->channel);
}

int rank_main(char **argv)
{
    struct rank rank = {.instance = argv[2],
                        .directory = argv[3],
                        .generation = strtoull(argv[4], NULL, 10),
                        .number = (int32_t)strtol(argv[5], NULL, 10),
                        .engine_pid = strtoll(argv[6], NULL, 10)};
    own_number = rank.number;
    /* A terminal sends an interrupt to all processes; what becomes of it is the engine's affair. */
    signal(SIGINT, SIG_IGN);
    signal(SIGUSR1, tell);
    take_channel(&rank);
    tie_to_engine(&rank);
    join_group(&rank);
    create_model(&rank);
    while (serve(&rank))
        ;
    clean_up(&rank);
    return 0;
}
