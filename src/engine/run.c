/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "engine/crew.h"
#include "engine/run_state.h"
#include "engine/wake.h"
#include "eplb/clock.h"

#define SECOND_NS INT64_C(1000000000)

/* How late an interruption may be seen while an output is awaited. A death wakes the wait. */
#define LOOK_INTERVAL_NS (SECOND_NS / 10)

/* How long what is in flight may take after an interruption. */
#define PATIENCE_NS (10 * SECOND_NS)

/* How much later than a worker the engine may learn that both were interrupted. */
#define HEARING_NS (SECOND_NS / 5)

enum { MISSING_TEXT = 128 };

static const struct eplb_manager_status no_manager = {.size = sizeof no_manager,
                                                      .preparing_layer = EPLB_NO_LAYER,
                                                      .activating_layer = EPLB_NO_LAYER,
                                                      .last_sample_age_ns = -1};

static int64_t now(void)
{
    return eplb_clock_system()->now(NULL);
}

/* ------------------------------------------------------------------------------ what ends a run */

static bool is_interrupted(struct eplb_run *run)
{
    const struct eplb_run_params *params = run->params;
    struct eplb_run_outcome *outcome = run->outcome;
    if (outcome->interrupted == 0 && params->interrupted != NULL) {
        outcome->interrupted = params->interrupted(params->context);
        if (outcome->interrupted != 0)
            run->interrupted_at = now();
    }
    return outcome->interrupted != 0;
}

/** Ends the run in the middle of something, because it was interrupted. That is no failure. */
static enum eplb_status abandon(struct eplb_run *run, struct eplb_error *error)
{
    run->abandoned = true;
    EPLB_FAIL(EPLB_REFUSED, "the run was interrupted");
}

/**
 * Whether a rank was ended by what interrupts the engine: a terminal and a service manager signal all
 * processes together, and a worker may die of it before the engine's own handler has run.
 */
static bool was_interrupted_with_us(struct eplb_run *run, const struct eplb_rank_life *life)
{
    if (life->fate != EPLB_RANK_ENDED_BY_ITSELF ||
        (life->end.signal != SIGINT && life->end.signal != SIGTERM))
        return false;
    if (!is_interrupted(run))
        eplb_wake_await(NULL, 0, now() + HEARING_NS);
    return is_interrupted(run);
}

/** What it means for the run that a rank was lost. */
static enum eplb_status fail_lost(struct eplb_run *run, int32_t rank, struct eplb_error *error)
{
    struct eplb_rank_life life = eplb_supervisor_report(run->crew.supervisor, rank);
    if (was_interrupted_with_us(run, &life))
        return abandon(run, error);
    struct eplb_statistics statistics;
    char text[EPLB_RANK_LIFE_TEXT];
    eplb_statistics_read(run->keeper, &statistics);
    eplb_rank_life_text(&life, text);
    run->outcome->lost_rank = rank;
    EPLB_FAIL(eplb_crew_loss_status(&life), "%s; %" PRIu64 " forwards and %" PRIu64 " tokens were done", text,
              statistics.forwards, statistics.tokens);
}

/** "1,3": the ranks whose outputs of the forward that is awaited are not here, as far as they fit. */
static void list_missing(const struct eplb_run *run, char text[MISSING_TEXT])
{
    int length = 0;
    text[0] = '\0';
    for (int32_t rank = 0; rank < run->params->shape.ep_size && length < MISSING_TEXT - 16; rank++)
        if (!run->taken[rank])
            length += snprintf(text + length, (size_t)(MISSING_TEXT - length), "%s%d", length == 0 ? "" : ",",
                               rank);
}

/** "; activation_token 7 of layer 2 is not resolved", or nothing. */
static void write_activation(const struct eplb_run *run, char *text, size_t capacity)
{
    struct eplb_manager_status status = no_manager;
    text[0] = '\0';
    if (run->manager != NULL)
        eplb_manager_status(run->manager, &status);
    if (status.activating_layer != EPLB_NO_LAYER)
        snprintf(text, capacity, "; activation_token %" PRIu64 " of layer %d is not resolved",
                 status.activation_token.value, status.activating_layer);
}

/** A rank that computes and computes, or hangs in a hook, is neither dead nor silent: it is told of. */
static void warn_when_late(struct eplb_run *run)
{
    uint64_t seq = run->collected + 1;
    int64_t age = now() - run->given_at[seq % EPLB_CHANNEL_DEPTH];
    if (age < run->late_ns)
        return;
    run->late_ns *= 2;
    char missing[MISSING_TEXT];
    char activation[96];
    int64_t seconds = age / SECOND_NS;
    int tenths = (int)(age % SECOND_NS / (SECOND_NS / 10));
    list_missing(run, missing);
    write_activation(run, activation, sizeof activation);
    if (run->started_at == 0)
        eplb_run_warn(run->params->log, "rank %s is not ready after %" PRId64 ".%d s", missing, seconds,
                      tenths);
    else
        eplb_run_warn(run->params->log,
                      "forward %" PRIu64 " is under way for %" PRId64 ".%d s: no output from rank %s%s", seq,
                      seconds, tenths, missing, activation);
}

/** What may end the wait for a forward, beside its outputs. */
static enum eplb_status look_around(struct eplb_run *run, struct eplb_error *error)
{
    int32_t lost = eplb_supervisor_first_lost(run->crew.supervisor);
    if (lost >= 0)
        return fail_lost(run, lost, error);
    if (is_interrupted(run) && run->started_at == 0)
        return abandon(run, error);
    if (is_interrupted(run) && now() - run->interrupted_at > PATIENCE_NS) {
        char missing[MISSING_TEXT];
        list_missing(run, missing);
        EPLB_FAIL(EPLB_RANK_SILENT,
                  "%d s after the interruption, there is no output of forward %" PRIu64
                  " from rank %s; the ranks are killed",
                  (int)(PATIENCE_NS / SECOND_NS), run->collected + 1, missing);
    }
    warn_when_late(run);
    return EPLB_OK;
}

/* ------------------------------------------------------------------------------------- handing out */

/** Gets the command of a forward whose batches are made, and hands both to all ranks. */
static enum eplb_status submit(struct eplb_run *run, unsigned flags, struct eplb_error *error)
{
    int32_t ranks = run->params->shape.ep_size;
    struct eplb_command command;
    uint64_t seq = run->submitted + 1;
    for (int32_t rank = 0; rank < ranks; rank++)
        run->dp_batches[rank] = run->batches[rank].tokens;
    const struct eplb_forward forward = {.size = sizeof forward,
                                         .seq = seq,
                                         .batches = run->dp_batches,
                                         .num_batches = ranks,
                                         .warmup = flags == EPLB_FORWARD_WARMUP};
    eplb_command_init(&command, seq);
    if (run->manager != NULL)
        EPLB_TRY(eplb_manager_submit(run->manager, &forward, &command, error));
    run->given_at[seq % EPLB_CHANNEL_DEPTH] = now();
    for (int32_t rank = 0; rank < ranks; rank++) {
        const struct eplb_rank_batch *batch = &run->batches[rank];
        size_t size = eplb_input_encode(flags, batch->rows, batch->num_rows, run->input);
        EPLB_TRY(eplb_channel_submit(run->crew.channels[rank], &command, run->input, size, error));
    }
    run->submitted = seq;
    return EPLB_OK;
}

/* ------------------------------------------------------------------------------------- collecting */

/** Decodes what a worker gave beside its output: its rows' routes, when they are recorded, and its result. */
static enum eplb_status decode_result(struct eplb_run *run, int32_t rank,
                                      const struct eplb_channel_reply *reply, struct eplb_error *error)
{
    const struct eplb_run_params *params = run->params;
    size_t routed = 0;
    if (run->recorder != NULL)
        EPLB_TRY(eplb_routed_decode(reply->result, reply->result_bytes, params->max_rows,
                                    params->shape.num_layers * params->model.top_k, params->shape.num_experts,
                                    &run->routed[rank], &routed, error));
    return eplb_result_decode((const unsigned char *)reply->result + routed, reply->result_bytes - routed,
                              params->max_rows, params->shape.num_layers, &run->results[rank], error);
}

/** Takes a rank's decoded reply. A result that makes no sense counts as lacking; the output is good. */
static void take_reply(struct eplb_run *run, int32_t rank, const struct eplb_channel_reply *reply)
{
    struct eplb_error reason;
    run->outputs[rank] = reply->output;
    if (decode_result(run, rank, reply, &reason) == EPLB_OK)
        return;
    run->results[rank].samples = NULL;
    eplb_run_warn(run->params->log, "rank %d: the result of forward %" PRIu64 " is refused: %s", rank,
                  run->collected + 1, reason.text);
}

/** Tries to take a rank's reply to the forward that is being collected. One that is refused lacks. */
static enum eplb_status try_rank(struct eplb_run *run, int32_t rank, int64_t deadline,
                                 struct eplb_error *error)
{
    struct eplb_channel_reply reply;
    struct eplb_error reason;
    int arrived = 0;
    enum eplb_status status =
        eplb_channel_collect(run->crew.channels[rank], deadline, &reply, &arrived, &reason);
    if (!arrived && status != EPLB_OK)
        EPLB_FAIL(status, "%s", reason.text);
    if (!arrived)
        return EPLB_OK;
    run->taken[rank] = true;
    run->outputs[rank] = (struct eplb_worker_output){.size = sizeof run->outputs[rank]};
    run->results[rank] = run->result_rooms[rank];
    if (status == EPLB_OK) {
        take_reply(run, rank, &reply);
        return EPLB_OK;
    }
    run->results[rank].samples = NULL;
    eplb_run_warn(run->params->log, "the output of forward %" PRIu64 " is refused: %s", run->collected + 1,
                  reason.text);
    return EPLB_OK;
}

/** Takes what is there of the ranks that were not waited for: they are not to be named as missing. */
static enum eplb_status try_all(struct eplb_run *run, struct eplb_error *error)
{
    for (int32_t rank = 0; rank < run->params->shape.ep_size; rank++)
        if (!run->taken[rank])
            EPLB_TRY(try_rank(run, rank, 0, error));
    return EPLB_OK;
}

/** Waits for all outputs of the oldest forward in flight. */
static enum eplb_status await_outputs(struct eplb_run *run, struct eplb_error *error)
{
    int32_t ranks = run->params->shape.ep_size;
    memset(run->taken, 0, (size_t)ranks * sizeof *run->taken);
    run->late_ns = 2 * SECOND_NS * run->params->transfer_timeout_seconds;
    for (int32_t rank = 0; rank < ranks; rank++) {
        while (!run->taken[rank]) {
            EPLB_TRY(try_rank(run, rank, now() + LOOK_INTERVAL_NS, error));
            if (run->taken[rank])
                break;
            EPLB_TRY(try_all(run, error));
            EPLB_TRY(look_around(run, error));
        }
    }
    return EPLB_OK;
}

/**
 * Whether the forward ran under the tables that are held here, which follow what ranks report. It did not
 * when the manager does not know yet what they did, because an output before was refused.
 */
static bool follow_generations(struct eplb_run *run)
{
    const struct eplb_shape *shape = &run->params->shape;
    size_t bytes = (size_t)shape->num_layers * sizeof *run->generations;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        const uint64_t *ran = run->outputs[rank].generations;
        if (ran == NULL || memcmp(ran, run->generations, bytes) == 0)
            continue;
        for (int32_t layer = 0; run->manager != NULL && layer < shape->num_layers; layer++)
            if (ran[layer] != run->generations[layer])
                run->generations[layer] = eplb_manager_placement(
                    run->manager, layer, run->tables + (size_t)layer * (size_t)shape->num_slots);
        if (memcmp(ran, run->generations, bytes) != 0)
            return false;
    }
    return true;
}

/**
 * Adds the forward to the statistics. Its time is from when it was handed out, or from the end of the
 * forward before it, if that came later: with overlap it had to wait for that one.
 */
static void count(struct eplb_run *run, int64_t begun_at)
{
    int32_t ranks = run->params->shape.ep_size;
    bool followed = follow_generations(run);
    for (int32_t rank = 0; rank < ranks; rank++) {
        if (!followed)
            run->outputs[rank].prefix = NULL;
        if (run->results[rank].samples != NULL)
            run->outcome->slots_checked += run->results[rank].slots_checked;
    }
    eplb_statistics_add(run->keeper, run->outputs, run->results, run->tables, run->last_output_at - begun_at);
}

/** Tells what became of the layers that had switched, once a window after it has ended. */
static void tell_outcomes(struct eplb_run *run)
{
    const struct eplb_run_params *params = run->params;
    struct eplb_outcome outcome;
    while (run->observers != NULL && eplb_observers_next(run->observers, &outcome)) {
        EPLB_LOG(params->log, PLACEMENT_OUTCOME, EPLB_VALUE_INT(outcome.layer),
                 EPLB_VALUE_INT(outcome.generation), EPLB_VALUE_INT(outcome.forwards),
                 EPLB_VALUE_REAL(outcome.predicted), EPLB_VALUE_REAL(outcome.even),
                 EPLB_VALUE_REAL(outcome.measured), EPLB_VALUE_REAL(outcome.mean));
        if (params->switched != NULL)
            params->switched(params->context, &outcome);
    }
}

/** Records the forward, unless something of it lacks: then a warning told of that. */
static enum eplb_status record(struct eplb_run *run, struct eplb_error *error)
{
    if (run->recorder == NULL)
        return EPLB_OK;
    for (int32_t rank = 0; rank < run->params->shape.ep_size; rank++)
        if (run->results[rank].samples == NULL)
            return EPLB_OK;
    return eplb_recorder_add(run->recorder, run->routed, error);
}

/** Collects the oldest forward in flight, and tells the manager of it. */
static enum eplb_status collect(struct eplb_run *run, unsigned flags, struct eplb_error *error)
{
    EPLB_TRY(await_outputs(run, error));
    run->collected++;
    int64_t begun_at = run->given_at[run->collected % EPLB_CHANNEL_DEPTH];
    if (begun_at < run->last_output_at)
        begun_at = run->last_output_at;
    run->last_output_at = now();
    enum eplb_status status = EPLB_OK;
    /* Counted before the manager takes the outputs: it may commit a layer with them, which this forward did
     * not run under. */
    if (flags != EPLB_FORWARD_WARMUP) {
        count(run, begun_at);
        EPLB_TRY(record(run, error));
    }
    if (run->manager != NULL)
        status = eplb_manager_outputs(run->manager, run->collected, run->outputs, run->params->shape.ep_size,
                                      error);
    tell_outcomes(run);
    return status;
}

/* ------------------------------------------------------------------------------------- serving */

static void read_outcome(struct eplb_run *run)
{
    struct eplb_run_outcome *outcome = run->outcome;
    eplb_statistics_read(run->keeper, &outcome->statistics);
    outcome->step_ns_p50 = eplb_statistics_step_ns(run->keeper, 50);
    outcome->step_ns_p99 = eplb_statistics_step_ns(run->keeper, 99);
    outcome->manager = no_manager;
    if (run->manager != NULL)
        eplb_manager_status(run->manager, &outcome->manager);
    outcome->bytes_moved =
        (int64_t)outcome->manager.slots_moved * eplb_model_expert_bytes(&run->params->model);
    outcome->wall_ns = run->started_at == 0 ? 0 : run->last_output_at - run->started_at;
}

static void show_progress(struct eplb_run *run)
{
    const struct eplb_run_params *params = run->params;
    const struct eplb_run_outcome *outcome = run->outcome;
    if (params->progress == NULL)
        return;
    read_outcome(run);
    const struct eplb_run_progress progress = {.step = outcome->statistics.forwards,
                                               .steps = params->steps,
                                               .elapsed_ns = outcome->wall_ns,
                                               .statistics = outcome->statistics,
                                               .balance = eplb_statistics_now(run->keeper),
                                               .step_ns_p50 = outcome->step_ns_p50,
                                               .step_ns_p99 = outcome->step_ns_p99,
                                               .manager = run->manager == NULL ? NULL : &outcome->manager,
                                               .bytes_moved = outcome->bytes_moved,
                                               .keeper = run->keeper};
    params->progress(params->context, &progress);
}

/** A forward without rows: it is done when all ranks have made their models; then time begins to count. */
static enum eplb_status warm_up(struct eplb_run *run, struct eplb_error *error)
{
    for (int32_t rank = 0; rank < run->params->shape.ep_size; rank++)
        run->batches[rank] = (struct eplb_rank_batch){0};
    EPLB_TRY(submit(run, EPLB_FORWARD_WARMUP, error));
    EPLB_TRY(collect(run, EPLB_FORWARD_WARMUP, error));
    run->started_at = run->last_output_at;
    return EPLB_OK;
}

/** Forwards until the run's end; what is in flight then is collected. */
static enum eplb_status serve(struct eplb_run *run, struct eplb_error *error)
{
    const struct eplb_run_params *params = run->params;
    for (uint64_t made = 0;;) {
        bool more = !is_interrupted(run) && (params->steps == 0 || made < params->steps);
        if (more) {
            eplb_scheduler_next(run->scheduler, run->batches);
            EPLB_TRY(submit(run, 0, error));
            made++;
        } else if (run->collected == run->submitted) {
            return EPLB_OK;
        }
        if (more && run->submitted - run->collected <= (uint64_t)params->overlap)
            continue;
        EPLB_TRY(collect(run, 0, error));
        show_progress(run);
    }
}

/* ------------------------------------------------------------------------------------- the whole */

static enum eplb_status check_params(const struct eplb_run_params *params, struct eplb_error *error)
{
    const struct eplb_shape *shape = &params->shape;
    if (params->overlap < 0 || params->overlap > 1)
        EPLB_FAIL(EPLB_INVALID, "overlap is %d; allowed is 0 or 1", params->overlap);
    if (params->window_forwards < 1)
        EPLB_FAIL(EPLB_INVALID, "a window of %d forwards; allowed is 1 or more", params->window_forwards);
    if (params->eplb && (shape->ep_size < 2 || params->policy == NULL))
        EPLB_FAIL(EPLB_INVALID, "ep_size is %d; balancing needs 2 ranks or more, and a policy",
                  shape->ep_size);
    if (!params->eplb && shape->redundant_experts_num != 0)
        EPLB_FAIL(EPLB_INVALID, "redundant_experts_num is %d; without balancing there are no redundant slots",
                  shape->redundant_experts_num);
    if (params->transfer_timeout_seconds < 1 ||
        params->silence_timeout_ns <= params->transfer_timeout_seconds * SECOND_NS)
        EPLB_FAIL(EPLB_INVALID,
                  "a rank counts as silent after %" PRId64
                  " ms, and the transfer timeout is %d s; the first must be longer, and both above 0: a rank "
                  "that waits for a transfer is not to be blamed for another",
                  params->silence_timeout_ns / 1000000, params->transfer_timeout_seconds);
    return eplb_crew_check(params, error);
}

static enum eplb_status create_manager(struct eplb_run *run, struct eplb_error *error)
{
    const struct eplb_run_params *params = run->params;
    if (!params->eplb)
        return EPLB_OK;
    struct eplb_manager_params manager;
    eplb_manager_params_init(&manager);
    manager.shape = params->shape;
    manager.ops = params->policy;
    manager.min_peak_load_improvement = params->min_peak_load_improvement;
    manager.update_interval_seconds = params->update_interval_seconds;
    manager.update_interval_steps = params->update_interval_steps;
    manager.prepare_timeout_seconds = params->prepare_timeout_seconds;
    manager.transfer_timeout_seconds = params->transfer_timeout_seconds;
    manager.overlap = params->overlap;
    manager.initial = params->initial;
    manager.initial_weights = params->initial_weights;
    manager.replica_routing = params->replica_routing;
    manager.settings = params->policy_settings;
    manager.max_moves_per_layer = params->max_moves_per_layer;
    manager.max_break_even_steps = params->max_break_even_steps;
    manager.shift_trigger = params->shift_trigger;
    manager.min_tokens_per_layer = params->min_tokens_per_layer;
    manager.bandwidth_bytes_per_second = params->bandwidth_bytes_per_second;
    manager.expert_bytes =
        params->expert_bytes > 0 ? params->expert_bytes : eplb_model_expert_bytes(&params->model);
    manager.group = eplb_shm_group(run->crew.shm);
    manager.log = params->log;
    EPLB_TRY(eplb_observers_create(&params->shape, params->initial, params->record, params->log,
                                   &run->observers, error));
    manager.observer = eplb_observers_observer(run->observers);
    return eplb_manager_create(&manager, &run->manager, error);
}

/** A rank's death as the manager's affair, before the processes are ended. */
static void tell_of_loss(struct eplb_run *run)
{
    if (run->crew.supervisor == NULL || run->manager == NULL)
        return;
    int32_t lost = eplb_supervisor_first_lost(run->crew.supervisor);
    if (lost >= 0)
        eplb_manager_rank_dead(run->manager, lost);
}

/** What a worker had still to do when it was told to end, and did not end well, it may not have done. */
static enum eplb_status check_ends(struct eplb_run *run, struct eplb_error *error)
{
    for (int32_t rank = 0; rank < run->params->shape.ep_size; rank++) {
        struct eplb_rank_life life = eplb_supervisor_report(run->crew.supervisor, rank);
        bool exited_well = life.end.exit_code == 0 || life.end.exit_code == EPLB_PROCESS_CODE_LOST;
        if (life.fate != EPLB_RANK_STOPPED || life.end.signal != 0 || !exited_well)
            EPLB_TRY(fail_lost(run, rank, error));
    }
    return EPLB_OK;
}

static enum eplb_status create_recorder(struct eplb_run *run, struct eplb_error *error)
{
    const struct eplb_run_params *params = run->params;
    const struct eplb_recorder_params recorder = {.prefix = params->record,
                                                  .shape = params->shape,
                                                  .top_k = params->model.top_k,
                                                  .max_rows = params->max_rows,
                                                  .is_decode = params->routing == EPLB_ROUTING_TRACE,
                                                  .layer_ids = params->record_layer_ids};
    return params->record == NULL ? EPLB_OK : eplb_recorder_create(&recorder, &run->recorder, error);
}

/** The workers are started last: what can be refused was refused then. */
static enum eplb_status run_all(struct eplb_run *run, struct eplb_error *error)
{
    EPLB_TRY(create_recorder(run, error));
    EPLB_TRY(eplb_crew_create(run->params, &run->crew, error));
    EPLB_TRY(create_manager(run, error));
    EPLB_TRY(eplb_crew_start(run->params, &run->crew, error));
    EPLB_TRY(warm_up(run, error));
    EPLB_TRY(serve(run, error));
    EPLB_TRY(eplb_crew_dismiss(&run->crew, run->submitted + 1, error));
    return check_ends(run, error);
}

/** After the manager's destruction. The first failure counts. */
static enum eplb_status end_recording(struct eplb_run *run, enum eplb_status status, struct eplb_error *error)
{
    struct eplb_error untold;
    enum eplb_status routes = eplb_recorder_close(run->recorder, status == EPLB_OK ? error : &untold);
    status = status == EPLB_OK ? routes : status;
    enum eplb_status events = eplb_observers_close(run->observers, status == EPLB_OK ? error : &untold);
    return status == EPLB_OK ? events : status;
}

enum eplb_status eplb_run(const struct eplb_run_params *params, struct eplb_run_outcome *outcome,
                          struct eplb_error *error)
{
    struct eplb_run *run;
    *outcome = (struct eplb_run_outcome){.manager = no_manager, .lost_rank = EPLB_NO_RANK};
    EPLB_TRY(check_params(params, error));
    EPLB_TRY(eplb_run_state_create(params, &run, error));
    run->outcome = outcome;
    enum eplb_status status = run_all(run, error);
    tell_of_loss(run);
    eplb_crew_end(&run->crew);
    read_outcome(run);
    if (run->abandoned)
        status = EPLB_OK;
    if (run->observers != NULL)
        eplb_observers_finish(run->observers);
    tell_outcomes(run);
    eplb_manager_destroy(run->manager);
    status = end_recording(run, status, error);
    eplb_crew_free(&run->crew);
    eplb_run_state_destroy(run);
    return status;
}
