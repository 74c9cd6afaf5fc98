/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "bench.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void note(struct bench *bench, const char *format, ...) EPLB_PRINTF(2, 3);

static void note(struct bench *bench, const char *format, ...)
{
    size_t length = strlen(bench->trace);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(bench->trace + length, sizeof bench->trace - length, format, arguments);
    va_end(arguments);
}

static void keep_line(void *context, const struct eplb_log_record *record)
{
    struct bench *bench = context;
    size_t length = strlen(bench->log);
    if (length + 1024 > sizeof bench->log)
        return;
    length += eplb_log_format(record, bench->log + length, sizeof bench->log - length - 1);
    bench->log[length] = '\n';
    bench->log[length + 1] = '\0';
}

static void note_command(struct bench *bench, const struct eplb_command *command)
{
    bench->command = *command;
    note(bench, "command %" PRIu64, command->seq);
    if (command->update_layer_id != EPLB_NO_LAYER)
        note(bench, ", activate layer %d as %" PRIu64 " after %" PRIu64, command->update_layer_id,
             command->activation_token.value, command->update_prepare_token.value);
    if (command->prepare_layer_id != EPLB_NO_LAYER)
        note(bench, ", prepare layer %d as %" PRIu64 " on generation %" PRIu64, command->prepare_layer_id,
             command->prepare_token.value, command->base_generation);
    for (int32_t i = 0; i < command->num_weight_updates; i++)
        note(bench, ", weights of layer %d on generation %" PRIu64 " as version %" PRIu64,
             command->weight_updates[i].layer, command->weight_updates[i].generation,
             command->weight_updates[i].version);
    note(bench, "\n");
}

static void note_action(struct bench *bench, const struct eplb_manager_action *action)
{
    switch (action->type) {
    case EPLB_MANAGER_COMMAND:
        note_command(bench, action->command);
        break;
    case EPLB_MANAGER_OPEN_RECORD:
        note(bench, "open record %" PRIu64 "\n", action->token.value);
        break;
    case EPLB_MANAGER_ABORT_RECORD:
        note(bench, "abort record %" PRIu64 "\n", action->token.value);
        break;
    case EPLB_MANAGER_RUN_POLICY:
        note(bench, "run policy\n");
        break;
    case EPLB_MANAGER_SOLVE_WEIGHTS:
        note(bench, "solve weights\n");
        break;
    case EPLB_MANAGER_COMMITTED:
        note(bench, "committed layer %d, generation %" PRIu64 "\n", action->layer, action->generation);
        for (int rank = 0; rank < BENCH_RANKS; rank++)
            bench->generations[rank][action->layer] = action->generation;
        break;
    case EPLB_MANAGER_ABORTED:
        note(bench, "aborted layer %d: %s\n", action->layer, eplb_abort_reason_text(action->why));
        break;
    case EPLB_MANAGER_STOP:
        note(bench, "stop: %s\n", action->error->text);
        break;
    }
}

static void step(struct bench *bench, struct eplb_manager_event event)
{
    struct eplb_manager_action action;
    eplb_manager_core_step(bench->core, &event, bench->now);
    while (eplb_manager_core_next(bench->core, &action))
        note_action(bench, &action);
}

void bench_start(struct bench *bench, const struct bench_options *options)
{
    memset(bench, 0, sizeof *bench);
    struct eplb_log_sink sink = {.size = sizeof sink, .context = bench, .write = keep_line};
    static struct eplb_log_sink kept;
    kept = sink;
    bench->num_layers = options->num_layers;
    struct eplb_manager_core_params params = {
        .ops = options->ops == NULL ? eplb_policy_find("balanced").ops : options->ops,
        .min_peak_load_improvement = 0.05,
        .update_interval_ns = (int64_t)(options->interval_s * 1e9),
        .update_interval_forwards = options->interval_forwards,
        .prepare_timeout_ns = (int64_t)(options->prepare_timeout_s * 1e9),
        .transfer_timeout_ns = (int64_t)(options->transfer_timeout_s * 1e9),
        .overlap = options->overlap,
        .replica_routing = options->routing,
        .weights_decay = 0.5,
        .first_token = 1,
        .first_seq = 1,
        .max_moves = options->max_moves,
        .expert_bytes = options->expert_bytes,
        .bytes_per_second = options->bytes_per_second,
        .max_break_even_forwards = options->max_break_even_forwards,
        .shift_trigger = options->shift_trigger,
        .min_tokens_per_layer = options->min_tokens_per_layer,
        .log = &kept,
        .policy_log = options->log_policy ? &kept : NULL,
    };
    struct eplb_error error;
    assert_int_equal(
        eplb_shape_init(&params.shape, options->num_layers, BENCH_EXPERTS, BENCH_RANKS, 1, &error), EPLB_OK);
    if (eplb_manager_core_create(&params, &bench->core, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    /* Ranks 0, 1, 2 hold 0 1 2, 2 3 4, 4 5 0. All counts fall on rank 0's first slot. */
    for (int layer = 0; layer < options->num_layers; layer++)
        for (int slot = 0; slot < BENCH_SLOTS; slot++)
            for (int rank = 0; rank < BENCH_RANKS; rank++)
                bench->prefix[rank][layer][slot] = rank == 0 ? 100 + 20 * slot : 5 * (slot + 1);
    bench->log[0] = '\0';
}

void bench_end(struct bench *bench)
{
    eplb_manager_core_destroy(bench->core);
}

void bench_wait(struct bench *bench, double seconds)
{
    bench->now += (int64_t)(seconds * 1e9);
}

void bench_tick(struct bench *bench)
{
    step(bench, (struct eplb_manager_event){.type = EPLB_MANAGER_TICK});
}

uint64_t bench_submit(struct bench *bench, const char *batches)
{
    struct eplb_dp_batch batch[BENCH_RANKS] = {{0, 0}};
    bool warmup = batches[0] == 'w';
    batches += warmup;
    for (int rank = 0; rank < BENCH_RANKS; rank++) {
        batch[rank].prefill_tokens = batches[rank] == 'p' || batches[rank] == 'm' ? 7 : 0;
        batch[rank].decode_tokens = batches[rank] == 'd' || batches[rank] == 'm' ? 4 : 0;
    }
    step(bench, (struct eplb_manager_event){.type = EPLB_MANAGER_SUBMIT,
                                            .seq = ++bench->seq,
                                            .batches = batch,
                                            .num_batches = BENCH_RANKS,
                                            .warmup = warmup});
    return bench->seq;
}

void bench_drop(struct bench *bench, uint64_t seq)
{
    step(bench, (struct eplb_manager_event){.type = EPLB_MANAGER_DROPPED, .seq = seq});
}

void bench_output(struct bench *bench, uint64_t seq)
{
    struct eplb_worker_output outputs[BENCH_RANKS];
    for (int32_t rank = 0; rank < BENCH_RANKS; rank++)
        outputs[rank] =
            (struct eplb_worker_output){.size = sizeof outputs[rank],
                                        .seq = seq,
                                        .ep_rank = rank,
                                        .num_layers = bench->num_layers,
                                        .slots_per_rank = BENCH_SLOTS,
                                        .prefix = bench->lacking[rank] ? NULL : bench->prefix[rank][0],
                                        .generations = bench->generations[rank],
                                        .weight_versions = bench->versions[rank],
                                        .levels = bench->levels[rank]};
    step(bench,
         (struct eplb_manager_event){
             .type = EPLB_MANAGER_OUTPUTS, .seq = seq, .outputs = outputs, .num_outputs = BENCH_RANKS});
}

void bench_solved(struct bench *bench, const struct eplb_weight_update *updates, int32_t count)
{
    step(bench, (struct eplb_manager_event){
                    .type = EPLB_MANAGER_WEIGHTS_DONE, .weights = updates, .num_weights = count});
}

void bench_prepare_ok(struct bench *bench, int32_t first_rank, int32_t end_rank)
{
    for (int32_t rank = first_rank; rank < end_rank; rank++) {
        bench->levels[rank].prepare_token = bench->command.prepare_token;
        bench->levels[rank].prepare_status = EPLB_PREPARE_OK;
    }
}

static void resolved(struct bench *bench, int32_t first_rank, int32_t end_rank,
                     enum eplb_activation_outcome outcome)
{
    for (int32_t rank = first_rank; rank < end_rank; rank++) {
        bench->levels[rank].activation_token = bench->command.activation_token;
        bench->levels[rank].activation_outcome = outcome;
    }
}

void bench_switched(struct bench *bench, int32_t first_rank, int32_t end_rank)
{
    resolved(bench, first_rank, end_rank, EPLB_ACTIVATION_SWITCHED);
}

void bench_kept(struct bench *bench, int32_t first_rank, int32_t end_rank)
{
    resolved(bench, first_rank, end_rank, EPLB_ACTIVATION_KEPT);
}

void bench_forward(struct bench *bench, const char *batches)
{
    uint64_t seq = bench_submit(bench, batches);
    if (bench->command.prepare_layer_id != EPLB_NO_LAYER)
        bench_prepare_ok(bench, 0, BENCH_RANKS);
    if (bench->command.update_layer_id != EPLB_NO_LAYER)
        bench_switched(bench, 0, BENCH_RANKS);
    bench_output(bench, seq);
}

void bench_dead(struct bench *bench, int32_t rank)
{
    step(bench, (struct eplb_manager_event){.type = EPLB_MANAGER_RANK_DEAD, .rank = rank});
}

void bench_policy(struct bench *bench)
{
    struct eplb_error error = {.status = EPLB_OK};
    enum eplb_status status = eplb_manager_core_run_policy(bench->core, &error);
    step(bench, (struct eplb_manager_event){
                    .type = EPLB_MANAGER_POLICY_DONE, .status = status, .reason = error.text});
}

void bench_start_round(struct bench *bench)
{
    bench_forward(bench, "ddd");
    bench_policy(bench);
}

void bench_expect(struct bench *bench, const char *trace)
{
    assert_string_equal(bench->trace, trace);
    bench->trace[0] = '\0';
}

struct eplb_manager_status bench_status(const struct bench *bench)
{
    struct eplb_manager_status status;
    eplb_manager_core_status(bench->core, bench->now, &status);
    return status;
}
