/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/crew.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "eplb/clock.h"

/* Workers that were told to end have nothing left to do; a hook that hangs is killed. */
#define DISMISS_NS INT64_C(5000000000)
#define GRACE_NS INT64_C(500000000)

#define LOOK_INTERVAL_NS INT64_C(200000000)

/** A worker's command line. */
struct program {
    char generation[24], rank[16];
    char *arguments[8];
};

/* ------------------------------------------------------------------------------- what ranks do */

static uint64_t beats(void *context, int32_t rank)
{
    const struct eplb_crew *crew = context;
    return eplb_channel_beats(crew->channels[rank]);
}

/** Ends the waits of everybody: ranks in collectives, and the engine at a channel. */
static void ended(void *context, const struct eplb_rank_life *report)
{
    const struct eplb_crew *crew = context;
    const struct eplb_group *group = eplb_shm_group(crew->shm);
    if (report->fate == EPLB_RANK_STOPPED)
        return;
    group->member_dead(group->self, report->rank);
    for (int32_t rank = 0; rank < crew->num_ranks; rank++)
        eplb_channel_wake(crew->channels[rank]);
}

enum eplb_status eplb_crew_loss_status(const struct eplb_rank_life *report)
{
    if (report->fate == EPLB_RANK_WAS_SILENT)
        return EPLB_RANK_SILENT;
    /* A worker that gives up says why on standard error, and ends with the exit code of its status. */
    if (report->end.signal == 0) {
        static const enum eplb_status given_up[] = {EPLB_INTERNAL, EPLB_INVALID, EPLB_VERIFY,
                                                    EPLB_RANK_SILENT, EPLB_LAYOUT};
        for (size_t i = 0; i < sizeof given_up / sizeof *given_up; i++)
            if (eplb_status_exit_code(given_up[i]) == report->end.exit_code)
                return given_up[i];
    }
    return EPLB_RANK_DEAD;
}

/* --------------------------------------------------------------------------------------- create */

static enum eplb_status create_group(const struct eplb_run_params *params, struct eplb_crew *crew,
                                     struct eplb_error *error)
{
    struct eplb_shm_params group;
    eplb_shm_params_init(&group);
    group.instance_name = params->instance_name;
    group.directory = params->directory;
    group.num_ranks = params->shape.ep_size;
    return eplb_shm_create(&group, &crew->shm, error);
}

static struct eplb_run_setup setup_of(const struct eplb_run_params *params)
{
    return (struct eplb_run_setup){.model = params->model,
                                   .max_rows = params->max_rows,
                                   .num_caches = params->num_caches,
                                   .eplb = params->eplb,
                                   .decode_only_load = params->decode_only_load,
                                   .fused_mc2 = params->fused_mc2,
                                   .replica_routing = params->replica_routing,
                                   .cost_per_active_slot = params->cost_per_active_slot,
                                   .cost_per_token = params->cost_per_token == 0 ? 1 : params->cost_per_token,
                                   .initial_weights = params->initial_weights,
                                   .node_of_rank = params->node_of_rank,
                                   .transfer_timeout_seconds = params->transfer_timeout_seconds,
                                   .transfer_chunk_bytes = params->transfer_chunk_bytes,
                                   .transfer_inflight_bytes = params->transfer_inflight_bytes,
                                   .engine_pid = getpid(),
                                   .verify = params->verify,
                                   .inject = params->inject,
                                   .routing = params->routing,
                                   .skew_seed = params->skew_seed,
                                   .skew_period = params->skew_period,
                                   .skew_phases = params->skew_phases,
                                   .skew_rates = params->skew_rates,
                                   .initial = params->initial,
                                   .trace_path = params->trace_path,
                                   .trace_digest = params->trace_digest,
                                   .trace_sequences = params->trace_sequences,
                                   .trace_repeat = params->trace_repeat,
                                   .record = params->record != NULL};
}

enum eplb_status eplb_crew_check(const struct eplb_run_params *params, struct eplb_error *error)
{
    const struct eplb_run_setup setup = setup_of(params);
    return eplb_setup_check(&setup, &params->shape, error);
}

static enum eplb_status create_channels(const struct eplb_run_params *params, struct eplb_crew *crew,
                                        struct eplb_error *error)
{
    const struct eplb_run_setup setup = setup_of(params);
    struct eplb_channel_params channel;
    eplb_channel_params_init(&channel);
    channel.instance_name = params->instance_name;
    channel.directory = params->directory;
    channel.generation = eplb_shm_generation(crew->shm);
    channel.shape = params->shape;
    channel.max_input_bytes = eplb_input_bytes(params->max_rows);
    channel.max_result_bytes = eplb_result_bytes(params->max_rows, params->shape.num_layers);
    if (params->record != NULL)
        channel.max_result_bytes +=
            eplb_routed_bytes(params->max_rows, params->shape.num_layers * params->model.top_k);
    channel.setup_bytes = eplb_setup_bytes(&setup, &params->shape);
    void *bytes = malloc(channel.setup_bytes);
    if (bytes == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a setup of %zu bytes", channel.setup_bytes);
    eplb_setup_encode(&setup, &params->shape, bytes);
    channel.setup = bytes;
    enum eplb_status status = EPLB_OK;
    for (channel.ep_rank = 0; status == EPLB_OK && channel.ep_rank < crew->num_ranks; channel.ep_rank++)
        status = eplb_channel_create(&channel, &crew->channels[channel.ep_rank], error);
    free(bytes);
    return status;
}

enum eplb_status eplb_crew_create(const struct eplb_run_params *params, struct eplb_crew *crew,
                                  struct eplb_error *error)
{
    crew->num_ranks = params->shape.ep_size;
    crew->channels = calloc((size_t)crew->num_ranks, sizeof *crew->channels);
    if (crew->channels == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for %d channels", crew->num_ranks);
    EPLB_TRY(create_group(params, crew, error));
    return create_channels(params, crew, error);
}

/* --------------------------------------------------------------------------------------- start */

static void write_program(const struct eplb_run_params *params, uint64_t generation, int32_t rank,
                          struct program *program)
{
    snprintf(program->generation, sizeof program->generation, "%" PRIu64, generation);
    snprintf(program->rank, sizeof program->rank, "%d", rank);
    /* exec takes its arguments without const and does not change them. */
    const char *const arguments[] = {"eplb",
                                     params->worker_command,
                                     params->instance_name,
                                     params->directory,
                                     program->generation,
                                     program->rank,
                                     params->log_name,
                                     NULL};
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        program->arguments[i] = (char *)(uintptr_t)arguments[i];
}

enum eplb_status eplb_crew_start(const struct eplb_run_params *params, struct eplb_crew *crew,
                                 struct eplb_error *error)
{
    size_t ranks = (size_t)crew->num_ranks;
    struct program *programs = calloc(ranks, sizeof *programs);
    struct eplb_process_params *processes = calloc(ranks, sizeof *processes);
    enum eplb_status status = EPLB_OK;
    if (programs == NULL || processes == NULL) {
        status = eplb_fail(error, EPLB_NO_MEMORY, "no memory for the command lines of %d workers",
                           crew->num_ranks);
        goto free_both;
    }
    for (int32_t rank = 0; rank < crew->num_ranks; rank++) {
        write_program(params, eplb_shm_generation(crew->shm), rank, &programs[rank]);
        processes[rank] =
            (struct eplb_process_params){.path = params->worker_path, .arguments = programs[rank].arguments};
    }
    const struct eplb_supervisor_params supervisor = {.num_ranks = crew->num_ranks,
                                                      .programs = processes,
                                                      .silence_timeout_ns = params->silence_timeout_ns,
                                                      .look_interval_ns = LOOK_INTERVAL_NS,
                                                      .context = crew,
                                                      .beats = beats,
                                                      .ended = ended};
    status = eplb_supervisor_create(&supervisor, &crew->supervisor, error);
free_both:
    free(processes);
    free(programs);
    return status;
}

/* ------------------------------------------------------------------------------------------ ends */

enum eplb_status eplb_crew_dismiss(struct eplb_crew *crew, uint64_t seq, struct eplb_error *error)
{
    struct eplb_command command;
    eplb_command_init(&command, seq);
    eplb_supervisor_expect_end(crew->supervisor);
    for (int32_t rank = 0; rank < crew->num_ranks; rank++)
        EPLB_TRY(eplb_channel_submit(crew->channels[rank], &command, NULL, 0, error));
    if (eplb_supervisor_await_end(crew->supervisor, eplb_clock_system()->now(NULL) + DISMISS_NS))
        return EPLB_OK;
    return eplb_supervisor_stop(crew->supervisor, GRACE_NS, error);
}

void eplb_crew_end(struct eplb_crew *crew)
{
    struct eplb_error ignored;
    if (crew->supervisor != NULL)
        (void)eplb_supervisor_stop(crew->supervisor, GRACE_NS, &ignored);
    eplb_supervisor_destroy(crew->supervisor);
    crew->supervisor = NULL;
}

void eplb_crew_free(struct eplb_crew *crew)
{
    for (int32_t rank = 0; crew->channels != NULL && rank < crew->num_ranks; rank++)
        eplb_channel_destroy(crew->channels[rank]);
    free(crew->channels);
    eplb_shm_destroy(crew->shm);
}
