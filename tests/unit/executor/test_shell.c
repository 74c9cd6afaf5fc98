/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The executor with its threads, hooks, logs and bounds, over a `threads` group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "worker.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

/* One rank: every change is local. Two ranks: two experts change sides. */
static const int32_t swapped[] = {1, 0, 2, 3};
static const int32_t exchanged[] = {0, 2, 1, 3};

static const struct eplb_group *engine_of(const struct eplb_threads *threads)
{
    return eplb_threads_group(threads, EPLB_NO_RANK);
}

static void open_record(const struct eplb_threads *threads, uint64_t token)
{
    const struct eplb_group *engine = engine_of(threads);
    engine->record_open(engine->self, (struct eplb_activation_token){token});
}

/* ------------------------------------------------------------------------------------- create */

static void test_a_missing_hook_is_named(void **state)
{
    (void)state;
    struct eplb_threads *threads = worker_group(1);
    struct worker w;
    worker_init(&w, threads, 0, 1);
    struct eplb_model_hooks all = w.hooks;
    struct eplb_error error;

    w.hooks.prepare_expert_weight = NULL;
    assert_int_equal(eplb_executor_create(&w.params, &w.executor, &error), EPLB_UNSUPPORTED);
    assert_string_equal(error.text, "the model lacks the hook prepare_expert_weight; without it its experts "
                                    "cannot move");
    w.hooks = all;
    w.hooks.start_expert_weight_transfer = NULL;
    assert_int_equal(eplb_executor_create(&w.params, &w.executor, &error), EPLB_UNSUPPORTED);
    assert_non_null(strstr(error.text, "the hook start_expert_weight_transfer;"));
    w.hooks = all;
    w.hooks.update_expert_weight = NULL;
    assert_int_equal(eplb_executor_create(&w.params, &w.executor, &error), EPLB_UNSUPPORTED);
    assert_non_null(strstr(error.text, "the hook update_expert_weight;"));
    assert_null(w.executor);
    worker_destroy(&w);
    eplb_threads_destroy(threads);
}

static void refuse_create(struct worker *w, const char *sentence)
{
    struct eplb_error error;
    assert_int_equal(eplb_executor_create(&w->params, &w->executor, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_null(w->executor);
}

static void test_wrong_parameters_are_refused(void **state)
{
    (void)state;
    struct eplb_threads *threads = worker_group(2);
    struct worker w;
    worker_init(&w, threads, 1, 2);
    struct eplb_executor_params good = w.params;

    w.params.ep_rank = 0;
    refuse_create(&w, "the process group is rank 1 of 2, and the executor rank 0 of ep_size 2; they must be "
                      "equal");
    w.params = good;
    w.params.ep_rank = 2;
    refuse_create(&w, "ep_rank is 2 of ep_size 2; allowed is 0 to ep_size - 1");
    w.params = good;
    w.params.transfer_timeout_seconds = 0;
    refuse_create(&w, "the transfer timeout is 0 s; it must be above 0");
    w.params = good;
    w.params.weights = NULL;
    refuse_create(&w, "an executor needs registered weights and a clock");
    w.params = good;
    struct eplb_group narrow = *good.group;
    narrow.max_ops = 7;
    w.params.group = &narrow;
    refuse_create(&w,
                  "the process group takes 7 operations of a rank; a transfer may need 4 sends and as many "
                  "receives");
    w.params = good;
    static const int32_t tables[] = {0, 1, 2, 3, 0, 0, 2, 3};
    static const int32_t names[] = {3, 4};
    w.params.initial = tables;
    w.params.layer_ids = names;
    struct eplb_error error;
    assert_int_equal(eplb_executor_create(&w.params, &w.executor, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "the initial table of layer 4 is not legal: "));
    assert_non_null(strstr(error.text, "rank 0"));
    w.params = good;
    assert_int_equal(eplb_shape_init(&w.params.shape, 1, WORKER_EXPERTS, 2, 0, NULL), EPLB_OK);
    refuse_create(&w,
                  "the weights are registered with num_layers 2, and the executor has 1; they must be equal");
    assert_int_equal(eplb_shape_init(&w.params.shape, WORKER_LAYERS, 8, 2, 0, NULL), EPLB_OK);
    refuse_create(
        &w, "the weights are registered with num_experts 4, and the executor has 8; they must be equal");
    assert_int_equal(eplb_shape_init(&w.params.shape, WORKER_LAYERS, WORKER_EXPERTS, 2, 1, NULL), EPLB_OK);
    refuse_create(&w, "the weights are registered with redundant_experts_num 0, and the executor has 1; they "
                      "must be equal");
    w.params = good;
    w.params.ep_rank = 0;
    w.params.group = eplb_threads_group(threads, 0);
    refuse_create(&w,
                  "the weights are registered with ep_rank 1, and the executor has 0; they must be equal");
    w.params = good;
    w.params.size = 8;
    assert_int_equal(eplb_executor_create(&w.params, &w.executor, NULL), EPLB_INVALID);
    worker_destroy(&w);
    eplb_threads_destroy(threads);
}

/* ----------------------------------------------------------------------------------- one rank */

struct solo {
    struct eplb_threads *threads;
    struct worker worker;
    _Atomic int64_t now; /* of the clock that tests set */
    struct eplb_clock clock;
};

static int64_t read_now(void *context)
{
    return ((struct solo *)context)->now;
}

/* Every reading takes a tenth of a second. */
static int64_t read_hurried(void *context)
{
    return atomic_fetch_add(&((struct solo *)context)->now, 100 * MS);
}

static void solo_init(struct solo *solo)
{
    solo->threads = worker_group(1);
    worker_init(&solo->worker, solo->threads, 0, 1);
    solo->worker.params.log = &solo->worker.sink;
    solo->now = 0;
    solo->clock = (struct eplb_clock){.size = sizeof solo->clock, .context = solo, .now = read_now};
    solo->worker.params.clock = &solo->clock;
}

static void solo_destroy(struct solo *solo)
{
    worker_destroy(&solo->worker);
    eplb_threads_destroy(solo->threads);
}

/* A plan for layer 1, finished; then its activation's command with an open record. */
static struct eplb_command prepared_activation(struct solo *solo)
{
    struct worker *w = &solo->worker;
    struct eplb_command command = worker_prepare(w, 1, 1, swapped);
    worker_forward(w, &command);
    assert_int_equal(worker_await_prepare(w, 1), EPLB_PREPARE_OK);
    open_record(solo->threads, 1);
    return worker_activate(w, 1, 1, 1);
}

static void test_a_layer_switches_between_two_forwards(void **state)
{
    (void)state;
    static const int32_t names[] = {3, 4};
    struct solo solo;
    struct worker *w = &solo.worker;
    struct eplb_worker_output output;
    solo_init(&solo);
    w->params.layer_ids = names;
    w->params.fused_mc2 = 2;
    worker_create(w);
    struct eplb_error error;
    assert_int_equal(eplb_executor_output(w->executor, NULL, &output, &error), EPLB_REFUSED);
    assert_string_equal(error.text,
                        "rank 0: there is no output before finish_step of forward 1 has returned");

    struct eplb_command command = prepared_activation(&solo);
    int64_t prefix[8] = {0};
    assert_int_equal(eplb_executor_start_step(w->executor, &command, NULL), EPLB_OK);
    assert_int_equal(eplb_executor_output(w->executor, NULL, &output, NULL), EPLB_REFUSED);
    assert_memory_equal(w->matrices[1][0], "\x14\x14", 2);
    assert_int_equal(eplb_executor_finish_step(w->executor, NULL), EPLB_OK);
    assert_int_equal(w->output_inside, EPLB_REFUSED);
    assert_int_equal(eplb_executor_output(w->executor, prefix, &output, NULL), EPLB_OK);

    assert_int_equal(output.size, sizeof output);
    assert_int_equal(output.seq, command.seq);
    assert_int_equal(output.ep_rank, 0);
    assert_int_equal(output.num_layers, WORKER_LAYERS);
    assert_int_equal(output.slots_per_rank, WORKER_EXPERTS);
    assert_ptr_equal(output.prefix, prefix);
    assert_int_equal(output.generations[0], 0);
    assert_int_equal(output.generations[1], 0);
    assert_int_equal(output.levels.activation_token.value, 1);
    assert_int_equal(output.levels.activation_outcome, EPLB_ACTIVATION_SWITCHED);
    assert_int_equal(eplb_executor_generations(w->executor)[1], 1);
    assert_memory_equal(eplb_executor_tables(w->executor) + 4, swapped, sizeof swapped);
    assert_memory_equal(w->matrices[1][0], "\x15\x15", 2);
    assert_int_equal(w->log2phy[1][0], 1);
    assert_int_equal(w->commits, 1);
    worker_check_weights(w);

    /* Levels are repeated, and the next forward runs under the new generation. */
    command = worker_command(w);
    worker_forward(w, &command);
    assert_int_equal(eplb_executor_output(w->executor, NULL, &output, NULL), EPLB_OK);
    assert_int_equal(output.generations[1], 1);
    assert_int_equal(output.levels.activation_token.value, 1);
    assert_int_equal(output.levels.prepare_status, EPLB_PREPARE_OK);
    assert_string_equal(
        w->log,
        "prepare_expert_weight | layer=4 | rank=0 | prepare_token=1 | table_size=4 | ms=0 | "
        "status=ok | reason=none\n"
        "materialize_expert_weight | layer=4 | rank=0 | activation_token=1 | ms=0 | status=ok\n"
        "update_expert_weight | layer=4 | rank=0 | activation_token=1 | mc2_mode=2 | changed_slots=2 | "
        "p2p_messages=0 | transfer_ms=0 | activation_ms=0 | total_ms=0 | outcome=switched | "
        "reason=none\n");
    solo_destroy(&solo);
}

static void test_a_failed_prepare_hook_is_reported_with_its_sentence(void **state)
{
    (void)state;
    struct solo solo;
    struct worker *w = &solo.worker;
    solo_init(&solo);
    worker_create(w);
    worker_set_moods(w, WORKER_FAILS, WORKER_WORKS, WORKER_WORKS);
    struct eplb_command command = worker_prepare(w, 1, 0, swapped);
    worker_forward(w, &command);
    assert_int_equal(worker_await_prepare(w, 1), EPLB_PREPARE_FAILED);
    assert_int_equal(worker_levels(w).prepare_reason, EPLB_REASON_HOOK_FAILED);
    command = worker_prepare(w, 2, 0, (const int32_t[]){0, 0, 2, 3});
    worker_forward(w, &command);
    assert_int_equal(worker_levels(w).prepare_status, EPLB_PREPARE_FAILED);
    assert_string_equal(w->log, "prepare_expert_weight | layer=0 | rank=0 | prepare_token=1 | table_size=4 | "
                                "ms=0 | status=failed | reason=the model has no room\n"
                                "prepare_expert_weight | layer=0 | rank=0 | prepare_token=2 | table_size=4 | "
                                "ms=0 | status=refused | reason=the table is not legal\n");
    solo_destroy(&solo);
}

static void test_a_failed_start_hook_keeps_the_layer(void **state)
{
    (void)state;
    struct solo solo;
    struct worker *w = &solo.worker;
    solo_init(&solo);
    worker_create(w);
    struct eplb_command command = prepared_activation(&solo);
    worker_set_moods(w, WORKER_WORKS, WORKER_FAILS, WORKER_WORKS);
    worker_forward(w, &command);
    assert_int_equal(worker_levels(w).activation_outcome, EPLB_ACTIVATION_KEPT);
    assert_int_equal(worker_levels(w).activation_reason, EPLB_REASON_HOOK_FAILED);
    assert_int_equal(w->drops, 1);
    assert_int_equal(eplb_executor_generations(w->executor)[1], 0);
    worker_check_weights(w);
    assert_non_null(strstr(w->log, "activation_token=1 | ms=0 | status=the model has no room\n"));
    assert_non_null(strstr(w->log, "outcome=kept | reason=a model hook failed\n"));
    solo_destroy(&solo);
}

static void test_reloaded_weights_are_not_overwritten_by_an_old_plan(void **state)
{
    (void)state;
    struct solo solo;
    struct worker *w = &solo.worker;
    solo_init(&solo);
    worker_create(w);
    struct eplb_command command = prepared_activation(&solo);
    struct eplb_tensor again = {.size = sizeof again,
                                .name = "matrix",
                                .data = w->matrices[1],
                                .first_dimension = w->shape.slots_per_rank,
                                .bytes_per_expert = sizeof w->matrices[0][0],
                                .per_expert = 1};
    assert_int_equal(eplb_weights_reregister(w->weights, 1, 0, &again, NULL), EPLB_OK);
    worker_forward(w, &command);
    assert_int_equal(worker_levels(w).activation_reason, EPLB_REASON_STORAGE_CHANGED);
    assert_memory_equal(w->matrices[1][0], "\x14\x14", 2);
    solo_destroy(&solo);
}

static void test_commands_are_refused_without_a_trace(void **state)
{
    (void)state;
    struct solo solo;
    struct worker *w = &solo.worker;
    struct eplb_error error;
    solo_init(&solo);
    worker_create(w);
    struct eplb_command command = worker_command(w);
    worker_forward(w, &command);
    assert_int_equal(eplb_executor_start_step(w->executor, &command, &error), EPLB_INVALID);
    assert_string_equal(error.text, "forward 1 cannot start: numbers rise, and this rank has begun 1");
    assert_int_equal(eplb_executor_abort_step(w->executor, &command, NULL), EPLB_OK);
    command.seq = 0;
    assert_int_equal(eplb_executor_abort_step(w->executor, &command, NULL), EPLB_INVALID);
    solo_destroy(&solo);
}

static void test_a_forward_that_has_not_begun_is_given_up(void **state)
{
    (void)state;
    struct solo solo;
    struct worker *w = &solo.worker;
    solo_init(&solo);
    worker_create(w);
    struct eplb_command command = prepared_activation(&solo);
    command.prepare_layer_id = 0;
    command.prepare_token.value = 2;
    command.expert_ids = swapped;
    command.num_expert_ids = 4;
    assert_int_equal(eplb_executor_abort_step(w->executor, &command, NULL), EPLB_OK);
    struct eplb_worker_levels levels = worker_levels(w);
    assert_int_equal(levels.prepare_token.value, 2);
    assert_int_equal(levels.prepare_reason, EPLB_REASON_STEP_ABORTED);
    assert_int_equal(levels.activation_token.value, 1);
    assert_int_equal(levels.activation_reason, EPLB_REASON_STEP_ABORTED);
    assert_int_equal(w->drops, 1);
    solo_destroy(&solo);
}

/* A host that forgot to open the record: nothing is assumed, and nothing hangs. */
static void test_a_record_that_was_never_opened(void **state)
{
    (void)state;
    struct solo solo;
    struct worker *w = &solo.worker;
    struct eplb_error error;
    solo_init(&solo);
    worker_create(w);
    struct eplb_command command = worker_activate(w, 9, 0, 4);
    assert_int_equal(eplb_executor_start_step(w->executor, &command, NULL), EPLB_OK);
    assert_int_equal(eplb_executor_finish_step(w->executor, &error), EPLB_RANK_SILENT);
    assert_string_equal(error.text,
                        "rank 0, layer 0: activation_token 9 of forward 1 is unresolved after twice the "
                        "transfer timeout of 1 s: the decision record does not hold it");
    command = worker_command(w);
    assert_int_equal(eplb_executor_start_step(w->executor, &command, &error), EPLB_REFUSED);
    open_record(solo.threads, 9);
    const struct eplb_group *engine = engine_of(solo.threads);
    engine->record_abort(engine->self, (struct eplb_activation_token){9});
    assert_int_equal(eplb_executor_finish_step(w->executor, NULL), EPLB_OK);
    assert_int_equal(worker_levels(w).activation_reason, EPLB_REASON_NO_PLAN);
    solo_destroy(&solo);
}

/* Lets a minute pass, and a prepare hook begin, before which the heartbeats are written. */
static void pass_a_minute(struct solo *solo, uint64_t token)
{
    struct worker *w = &solo->worker;
    worker_set_moods(w, WORKER_HANGS, WORKER_WORKS, WORKER_WORKS);
    solo->now += 61 * SECOND;
    struct eplb_command command = worker_prepare(w, token, 0, swapped);
    worker_forward(w, &command);
    worker_await_hang(w);
    worker_set_moods(w, WORKER_WORKS, WORKER_WORKS, WORKER_WORKS);
}

static void test_heartbeats_of_both_paths(void **state)
{
    (void)state;
    struct solo solo;
    struct worker *w = &solo.worker;
    solo_init(&solo);
    worker_create(w);
    struct eplb_command command = prepared_activation(&solo);
    worker_forward(w, &command);
    (void)worker_levels(w);
    pass_a_minute(&solo, 2);
    assert_non_null(strstr(w->log, "EPLB heartbeat | path=executor | rank=0 | tasks_ok_since_last=1 | "
                                   "tasks_failed_since_last=0 | layers_completed=1 | layers_timed_out=0 | "
                                   "last_sample_age_s=61 | last_tokens=1\n"));
    assert_non_null(strstr(w->log, "EPLB heartbeat | path=p2p | rank=0 | tasks_ok_since_last=1 | "
                                   "tasks_failed_since_last=0 | layers_completed=1 | layers_timed_out=0 | "
                                   "last_sample_age_s=61 | last_tokens=1\n"));
    assert_int_equal(worker_await_prepare(w, 2), EPLB_PREPARE_OK);
    pass_a_minute(&solo, 3);
    assert_non_null(strstr(w->log,
                           "path=executor | rank=0 | tasks_ok_since_last=1 | tasks_failed_since_last=0 "
                           "| layers_completed=2 | layers_timed_out=0 | last_sample_age_s=61 | "
                           "last_tokens=2\n"));
    assert_non_null(strstr(w->log, "path=p2p | rank=0 | tasks_ok_since_last=0 | tasks_failed_since_last=0 | "
                                   "layers_completed=1 | layers_timed_out=0 | last_sample_age_s=61 | "
                                   "last_tokens=1\n"));
    solo_destroy(&solo);
}

/* --------------------------------------------------------------------------------------- stop */

static void test_stop_names_a_prepare_hook_that_hangs(void **state)
{
    (void)state;
    struct solo solo;
    struct worker *w = &solo.worker;
    struct eplb_error error;
    solo_init(&solo);
    worker_create(w);
    worker_set_moods(w, WORKER_HANGS, WORKER_WORKS, WORKER_WORKS);
    struct eplb_command command = worker_prepare(w, 1, 1, swapped);
    worker_forward(w, &command);
    worker_await_hang(w);
    assert_int_equal(worker_levels(w).prepare_status, EPLB_PREPARE_RUNNING);
    assert_int_equal(eplb_executor_stop(w->executor, 20 * MS, &error), EPLB_RANK_SILENT);
    assert_string_equal(error.text,
                        "rank 0 does not stop: the model's hook prepare_expert_weight for layer 1 "
                        "has not returned");
    command = worker_command(w);
    assert_int_equal(eplb_executor_start_step(w->executor, &command, &error), EPLB_REFUSED);
    assert_string_equal(error.text, "rank 0: forward 2 cannot start: the executor was stopped");
    worker_set_moods(w, WORKER_WORKS, WORKER_WORKS, WORKER_WORKS);
    assert_int_equal(eplb_executor_stop(w->executor, 20 * SECOND, NULL), EPLB_OK);
    assert_int_equal(eplb_executor_stop(w->executor, 0, NULL), EPLB_OK);
    solo_destroy(&solo);
}

struct runner {
    struct worker *worker;
    struct eplb_command command;
    enum eplb_status started, finished;
};

static void run_forward(void *argument)
{
    struct runner *runner = argument;
    runner->started = eplb_executor_start_step(runner->worker->executor, &runner->command, NULL);
    runner->finished = eplb_executor_finish_step(runner->worker->executor, NULL);
}

static void stop_during(enum worker_mood start, enum worker_mood update, const char *hook)
{
    struct solo solo;
    struct worker *w = &solo.worker;
    struct eplb_thread thread;
    struct eplb_error error;
    solo_init(&solo);
    worker_create(w);
    struct runner runner = {.worker = w, .command = prepared_activation(&solo)};
    worker_set_moods(w, WORKER_WORKS, start, update);
    assert_int_equal(eplb_thread_start(&thread, "forward", run_forward, &runner, NULL), EPLB_OK);
    worker_await_hang(w);
    assert_int_equal(eplb_executor_stop(w->executor, 20 * MS, &error), EPLB_RANK_SILENT);
    assert_non_null(strstr(error.text, hook));
    assert_int_equal(eplb_executor_finish_step(w->executor, &error), EPLB_REFUSED);
    assert_string_equal(error.text,
                        "rank 0: another call of the executor is under way; allowed is one at a time");
    worker_set_moods(w, WORKER_WORKS, WORKER_WORKS, WORKER_WORKS);
    assert_int_equal(eplb_executor_stop(w->executor, 20 * SECOND, NULL), EPLB_OK);
    eplb_thread_join(&thread);
    assert_int_equal(runner.started, EPLB_OK);
    assert_int_equal(runner.finished, EPLB_OK);
    assert_int_equal(w->commits, 1);
    worker_check_weights(w);
    solo_destroy(&solo);
}

static void test_stop_names_a_forward_hook_that_hangs(void **state)
{
    (void)state;
    stop_during(WORKER_HANGS, WORKER_WORKS, "the model's hook start_expert_weight_transfer for layer 1 ");
    stop_during(WORKER_WORKS, WORKER_HANGS, "the model's hook update_expert_weight for layer 1 ");
}

/* Nobody but the forward's thread may resolve it: another might copy weights under a running forward. */
static void test_stop_names_an_unresolved_activation(void **state)
{
    (void)state;
    struct solo solo;
    struct worker *w = &solo.worker;
    struct eplb_error error;
    solo_init(&solo);
    worker_create(w);
    struct eplb_command command = prepared_activation(&solo);
    assert_int_equal(eplb_executor_start_step(w->executor, &command, NULL), EPLB_OK);
    assert_int_equal(eplb_executor_stop(w->executor, 20 * MS, &error), EPLB_RANK_SILENT);
    assert_non_null(strstr(error.text, "rank 0 does not stop: activation_token 1 of layer 1 waits for "
                                       "finish_step or abort_step of forward "));
    assert_int_equal(eplb_executor_abort_step(w->executor, &command, NULL), EPLB_OK);
    assert_int_equal(worker_levels(w).activation_outcome, EPLB_ACTIVATION_SWITCHED);
    assert_int_equal(eplb_executor_stop(w->executor, 20 * SECOND, NULL), EPLB_OK);
    solo_destroy(&solo);
}

/* ---------------------------------------------------------------------------------- two ranks */

static void run_finish(void *argument)
{
    struct runner *runner = argument;
    runner->finished = eplb_executor_finish_step(runner->worker->executor, NULL);
}

/* The other rank never comes. The deadline ends the wait; so does a stop, long before it. */
static void wait_alone(int64_t (*read_clock)(void *), bool stop, enum eplb_reason reason)
{
    struct solo solo;
    solo.threads = worker_group(2);
    solo.now = 0;
    struct worker *w = &solo.worker;
    struct eplb_thread thread;
    worker_init(w, solo.threads, 0, 2);
    solo.clock = (struct eplb_clock){.size = sizeof solo.clock, .context = &solo, .now = read_clock};
    w->params.clock = &solo.clock;
    w->params.transfer_timeout_seconds = 20;
    worker_create(w);
    struct eplb_command command = worker_prepare(w, 1, 0, exchanged);
    worker_forward(w, &command);
    assert_int_equal(worker_await_prepare(w, 1), EPLB_PREPARE_OK);
    open_record(solo.threads, 1);
    struct runner runner = {.worker = w, .command = worker_activate(w, 1, 0, 1)};
    assert_int_equal(eplb_executor_start_step(w->executor, &runner.command, NULL), EPLB_OK);
    assert_int_equal(eplb_thread_start(&thread, "forward", run_finish, &runner, NULL), EPLB_OK);
    if (stop)
        assert_int_equal(eplb_executor_stop(w->executor, 10 * SECOND, NULL), EPLB_OK);
    eplb_thread_join(&thread);
    assert_int_equal(runner.finished, EPLB_OK);
    assert_int_equal(worker_levels(w).activation_outcome, EPLB_ACTIVATION_KEPT);
    assert_int_equal(worker_levels(w).activation_reason, reason);
    const struct eplb_group *engine = engine_of(solo.threads);
    assert_int_equal(engine->record_read(engine->self, runner.command.activation_token), EPLB_ABORT);
    worker_check_weights(w);
    solo_destroy(&solo);
}

static void test_a_rank_alone_is_not_kept_waiting(void **state)
{
    (void)state;
    wait_alone(read_hurried, false, EPLB_REASON_DEADLINE);
    wait_alone(read_now, true, EPLB_REASON_STEP_ABORTED);
}

static enum eplb_status refuse_post(void *self, int32_t from, const struct eplb_message_tag *tag,
                                    const struct eplb_part *parts, size_t num_parts, struct eplb_op op)
{
    (void)self, (void)from, (void)tag, (void)parts, (void)num_parts, (void)op;
    return EPLB_REFUSED;
}

/* The operation never was: waiting for its completion would be for ever. */
static void test_a_post_that_the_group_refuses_is_a_no(void **state)
{
    (void)state;
    struct worker w;
    struct eplb_threads *threads = worker_group(2);
    worker_init(&w, threads, 0, 2);
    struct eplb_group group = *w.params.group;
    group.post_recv = refuse_post;
    group.post_send = refuse_post;
    w.params.group = &group;
    w.params.transfer_timeout_seconds = 20;
    worker_create(&w);
    struct eplb_command command = worker_prepare(&w, 1, 0, exchanged);
    worker_forward(&w, &command);
    assert_int_equal(worker_await_prepare(&w, 1), EPLB_PREPARE_OK);
    open_record(threads, 1);
    command = worker_activate(&w, 1, 0, 1);
    worker_forward(&w, &command);
    assert_int_equal(worker_levels(&w).activation_reason, EPLB_REASON_TRANSFER_FAILED);
    worker_check_weights(&w);
    worker_destroy(&w);
    eplb_threads_destroy(threads);
}

/* ------------------------------------------------------------------------------------ weights */

static struct {
    int calls;
    int32_t layer;
    uint64_t generation, version;
    int32_t weights[WORKER_EXPERTS];
} told;

static void take_weights(void *context, int32_t layer, uint64_t generation, uint64_t version,
                         const int32_t *weights)
{
    (void)context;
    told.calls++;
    told.layer = layer;
    told.generation = generation;
    told.version = version;
    memcpy(told.weights, weights, sizeof told.weights);
}

/* Every expert has one replica: there is one set of weights. */
static const int32_t whole[] = {EPLB_WEIGHT_UNIT, EPLB_WEIGHT_UNIT, EPLB_WEIGHT_UNIT, EPLB_WEIGHT_UNIT};

static void forward_with_weights(struct worker *w, uint64_t version, const int32_t *weights)
{
    struct eplb_command command = worker_command(w);
    command.num_weight_updates = 1;
    command.weight_updates[0] = (struct eplb_weight_update){1, 0, version, weights};
    worker_forward(w, &command);
}

static uint64_t reported_version(struct worker *w)
{
    struct eplb_worker_output output;
    const int64_t prefix[WORKER_LAYERS * WORKER_MAX_SLOTS] = {0};
    assert_int_equal(eplb_executor_output(w->executor, prefix, &output, NULL), EPLB_OK);
    return output.weight_versions[1];
}

static void test_the_model_is_told_of_weights(void **state)
{
    (void)state;
    struct eplb_threads *threads = worker_group(1);
    struct worker w;
    worker_init(&w, threads, 0, 1);
    w.hooks.update_replica_weights = take_weights;
    w.params.log = &w.sink;
    worker_create(&w);
    memset(&told, 0, sizeof told);
    forward_with_weights(&w, 3, whole);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.layer, 1);
    assert_int_equal(told.generation, 0);
    assert_int_equal(told.version, 3);
    assert_memory_equal(told.weights, whole, sizeof whole);
    assert_int_equal(reported_version(&w), 3);
    assert_int_equal(eplb_executor_weight_versions(w.executor)[0], 0);
    assert_memory_equal(eplb_executor_replica_weights(w.executor) + WORKER_EXPERTS, whole, sizeof whole);
    const int32_t half[] = {EPLB_WEIGHT_UNIT / 2, EPLB_WEIGHT_UNIT, EPLB_WEIGHT_UNIT, EPLB_WEIGHT_UNIT};
    forward_with_weights(&w, 4, half);
    assert_int_equal(told.calls, 1);
    assert_int_equal(reported_version(&w), 3);
    assert_non_null(strstr(w.log,
                           "rank 0, layer 1: a weight update is not legal for the placement; it is left "
                           "out"));
    worker_destroy(&w);
    eplb_threads_destroy(threads);
}

static void test_a_table_of_hooks_may_end_before_the_weights(void **state)
{
    (void)state;
    struct eplb_threads *threads = worker_group(1);
    struct worker w;
    worker_init(&w, threads, 0, 1);
    w.hooks.update_replica_weights = take_weights;
    w.hooks.size = offsetof(struct eplb_model_hooks, update_replica_weights);
    worker_create(&w);
    memset(&told, 0, sizeof told);
    forward_with_weights(&w, 3, whole);
    assert_int_equal(told.calls, 0);
    assert_int_equal(reported_version(&w), 0);
    worker_destroy(&w);
    w.executor = NULL;
    worker_init(&w, threads, 0, 1);
    w.hooks.size = offsetof(struct eplb_model_hooks, update_replica_weights) - 1;
    struct eplb_error error;
    assert_int_equal(eplb_executor_create(&w.params, &w.executor, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "an executor needs a table of model hooks of at least "));
    worker_destroy(&w);
    eplb_threads_destroy(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_missing_hook_is_named),
        cmocka_unit_test(test_wrong_parameters_are_refused),
        cmocka_unit_test(test_a_layer_switches_between_two_forwards),
        cmocka_unit_test(test_a_failed_prepare_hook_is_reported_with_its_sentence),
        cmocka_unit_test(test_a_failed_start_hook_keeps_the_layer),
        cmocka_unit_test(test_reloaded_weights_are_not_overwritten_by_an_old_plan),
        cmocka_unit_test(test_commands_are_refused_without_a_trace),
        cmocka_unit_test(test_a_forward_that_has_not_begun_is_given_up),
        cmocka_unit_test(test_a_record_that_was_never_opened),
        cmocka_unit_test(test_heartbeats_of_both_paths),
        cmocka_unit_test(test_stop_names_a_prepare_hook_that_hangs),
        cmocka_unit_test(test_stop_names_a_forward_hook_that_hangs),
        cmocka_unit_test(test_stop_names_an_unresolved_activation),
        cmocka_unit_test(test_a_rank_alone_is_not_kept_waiting),
        cmocka_unit_test(test_a_post_that_the_group_refuses_is_a_no),
        cmocka_unit_test(test_the_model_is_told_of_weights),
        cmocka_unit_test(test_a_table_of_hooks_may_end_before_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
