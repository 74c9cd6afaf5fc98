/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "recorded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void draw_params(struct recorded *run, struct eplb_prng *prng, uint64_t seed)
{
    struct eplb_manager_core_params *params = &run->params;
    struct eplb_error error;
    assert_int_equal(eplb_shape_init(&params->shape, WORKER_LAYERS, WORKER_EXPERTS, WORKER_RANKS, 1, &error),
                     EPLB_OK);
    params->ops = eplb_policy_find(eplb_prng_below(prng, 2) ? "balanced" : "greedy").ops;
    params->min_peak_load_improvement = 0.01 * (double)eplb_prng_below(prng, 10);
    params->update_interval_ns = (int64_t)eplb_prng_below(prng, 3) * RECORDED_SECOND;
    params->update_interval_forwards = eplb_prng_below(prng, 3) == 0 ? 7 : 0;
    params->prepare_timeout_ns = RECORDED_SECOND / 2;
    params->transfer_timeout_ns = RECORDED_SECOND;
    params->overlap = (int32_t)eplb_prng_below(prng, 2);
    params->first_token = 1 + eplb_prng_below(prng, 1000);
    params->first_seq = 1 + eplb_prng_below(prng, 1000);
    params->replica_routing = (enum eplb_replica_routing)(seed % EPLB_NUM_ROUTINGS);
    params->weights_decay = 0.125 * (double)(seed % 8);
    if (eplb_prng_below(prng, 2) == 0) {
        eplb_policy_settings_init(&params->settings);
        params->max_moves = (int32_t)eplb_prng_below(prng, 6);
        params->expert_bytes = 1 + (int64_t)eplb_prng_below(prng, 1000000);
        params->bytes_per_second = eplb_prng_below(prng, 2) ? 0 : 12345.5;
        params->max_break_even_forwards = (int32_t)eplb_prng_below(prng, 3) * 100;
    }
    params->shift_trigger = seed % 3 == 0 ? 2.5 : 0;
    params->min_tokens_per_layer = seed % 5 == 0 ? 100 : 0;
    if (eplb_prng_below(prng, 2) == 0)
        return;
    for (int layer = 0; layer < WORKER_LAYERS; layer++) {
        int32_t *table = run->initial + (size_t)layer * (size_t)params->shape.num_slots;
        eplb_placement_initial(&params->shape, table);
        table[WORKER_SLOTS - 1] = 7;
        run->generations[layer] = eplb_prng_below(prng, 100);
        run->layer_ids[layer] = 3 + 2 * layer;
        run->versions[layer] = (uint64_t)layer;
        int32_t replicas[WORKER_EXPERTS];
        eplb_weights_equal(&params->shape, table, replicas,
                           run->weights + (size_t)layer * (size_t)params->shape.num_slots);
    }
    params->initial = run->initial;
    params->generations = run->generations;
    if (seed % 2 == 0) {
        params->weight_versions = run->versions;
        params->initial_weights = run->weights;
    }
    params->layer_ids = run->layer_ids;
}

void recorded_start(struct recorded *run, uint64_t seed, struct eplb_event_writer *writer)
{
    struct eplb_prng prng;
    struct eplb_error error;
    memset(run, 0, sizeof *run);
    eplb_prng_seed(&prng, seed);
    draw_params(run, &prng, seed);
    run->observer = eplb_event_writer_observer(writer);
    workers_init(&run->workers, seed, run->params.generations);
    if (run->params.weight_versions != NULL)
        memcpy(run->workers.versions, run->versions, sizeof run->versions);
    run->next_seq = run->params.first_seq;
    run->now = (int64_t)eplb_prng_below(&prng, 1000000);
    eplb_event_writer_start(writer, &run->params);
    if (eplb_manager_core_create(&run->params, &run->core, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

void recorded_end(struct recorded *run)
{
    eplb_manager_core_destroy(run->core);
}

static void take(struct recorded *run, const struct eplb_manager_action *action)
{
    run->counts.actions++;
    if (run->counts.actions != run->left_out)
        run->observer->action(run->observer->context, action);
    if (action->type == EPLB_MANAGER_COMMAND) {
        run->command = *action->command;
        run->has_command = true;
        run->counts.weight_updates += (uint64_t)action->command->num_weight_updates;
        run->counts.tables_with_weights += action->command->replica_weights != NULL;
    }
    if (action->type == EPLB_MANAGER_RUN_POLICY) {
        run->counts.policy_runs++;
        run->asked = true;
        run->ran = false;
    }
    run->solving |= action->type == EPLB_MANAGER_SOLVE_WEIGHTS;
    run->counts.commits += action->type == EPLB_MANAGER_COMMITTED;
    run->counts.aborts += action->type == EPLB_MANAGER_ABORTED;
    run->counts.stops += action->type == EPLB_MANAGER_STOP;
    run->stopped |= action->type == EPLB_MANAGER_STOP;
}

void recorded_step(struct recorded *run, const struct eplb_manager_event *event)
{
    struct eplb_manager_action action;
    uint64_t before = run->counts.actions;
    run->observer->event(run->observer->context, event, run->now);
    eplb_manager_core_step(run->core, event, run->now);
    while (eplb_manager_core_next(run->core, &action))
        take(run, &action);
    run->counts.events++;
    run->counts.ticks += event->type == EPLB_MANAGER_TICK;
    run->counts.acting_ticks += event->type == EPLB_MANAGER_TICK && run->counts.actions > before;
}

/** The policy runs soon or late, beside whatever happens; and its end is told later still. */
static void go_on_with_policy(struct recorded *run)
{
    if (run->asked && !run->ran && workers_chance(&run->workers, 60)) {
        run->policy_reason = (struct eplb_error){.status = EPLB_OK};
        run->policy_status = eplb_manager_core_run_policy(run->core, &run->policy_reason);
        run->ran = true;
    }
    if (!run->asked || !run->ran || workers_chance(&run->workers, 50))
        return;
    run->asked = false;
    recorded_step(run, &(struct eplb_manager_event){.type = EPLB_MANAGER_POLICY_DONE,
                                                    .status = run->policy_status,
                                                    .reason = run->policy_reason.text,
                                                    .benefits = eplb_manager_core_benefits(run->core),
                                                    .candidates = eplb_manager_core_candidates(run->core)});
}

static int64_t frozen(void *context)
{
    (void)context;
    return 0;
}

static void go_on_with_weights(struct recorded *run)
{
    static const struct eplb_clock clock = {.size = sizeof clock, .now = frozen};
    struct eplb_manager_event done = {.type = EPLB_MANAGER_WEIGHTS_DONE};
    if (!run->solving || workers_chance(&run->workers, 50))
        return;
    run->solving = false;
    done.weights = eplb_manager_core_solve_weights(
        run->core, &clock, workers_chance(&run->workers, 30) ? 0 : 1, &done.num_weights);
    recorded_step(run, &done);
}

static void submit(struct recorded *run)
{
    struct eplb_dp_batch batches[WORKER_RANKS];
    /* Seldom a number that is not the next one, which stops the run. */
    bool wrong = workers_chance(&run->workers, 1) && workers_chance(&run->workers, 3);
    uint64_t seq = wrong ? run->next_seq + 5 : run->next_seq++;
    workers_batches(&run->workers, batches);
    run->has_command = false;
    recorded_step(run, &(struct eplb_manager_event){.type = EPLB_MANAGER_SUBMIT,
                                                    .seq = seq,
                                                    .batches = batches,
                                                    .num_batches = WORKER_RANKS,
                                                    .warmup = workers_chance(&run->workers, 3)});
    if (run->stopped || !run->has_command)
        return;
    if (workers_chance(&run->workers, 6)) {
        run->counts.drops++;
        recorded_step(run, &(struct eplb_manager_event){.type = EPLB_MANAGER_DROPPED, .seq = seq});
        return;
    }
    workers_take(&run->workers, &run->command);
    run->flights[run->num_flights++] = seq;
}

static void collect(struct recorded *run)
{
    uint64_t seq = run->flights[0];
    run->flights[0] = run->flights[1];
    run->num_flights--;
    recorded_step(run, &(struct eplb_manager_event){.type = EPLB_MANAGER_OUTPUTS,
                                                    .seq = seq,
                                                    .outputs = workers_outputs(&run->workers, seq),
                                                    .num_outputs = WORKER_RANKS});
}

void recorded_go(struct recorded *run, int forwards)
{
    struct workers *workers = &run->workers;
    for (int i = 0; i < forwards && !run->stopped; i++) {
        run->now += (int64_t)eplb_prng_below(
            &workers->prng, workers_chance(workers, 5) ? 3 * RECORDED_SECOND : RECORDED_SECOND / 100);
        for (uint64_t ticks = eplb_prng_below(&workers->prng, 4); ticks > 0; ticks--)
            recorded_step(run, &(struct eplb_manager_event){.type = EPLB_MANAGER_TICK});
        go_on_with_policy(run);
        go_on_with_weights(run);
        if (run->num_flights <= run->params.overlap)
            submit(run);
        if (!run->stopped && (run->num_flights > run->params.overlap || workers_chance(workers, 40)) &&
            run->num_flights > 0)
            collect(run);
        if (workers_chance(workers, 1) && i > forwards / 2) {
            int32_t rank = (int32_t)eplb_prng_below(&workers->prng, WORKER_RANKS);
            workers->dead[rank] = true;
            run->counts.deaths++;
            recorded_step(run, &(struct eplb_manager_event){.type = EPLB_MANAGER_RANK_DEAD, .rank = rank});
        }
    }
}

void recorded_write(const char *path, uint64_t seed, int forwards, struct recorded_counts *counts)
{
    struct eplb_event_writer *writer;
    struct eplb_error error;
    static struct recorded run;
    if (eplb_event_writer_create(path, NULL, &writer, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    recorded_start(&run, seed, writer);
    recorded_go(&run, forwards);
    *counts = run.counts;
    recorded_end(&run);
    assert_int_equal(eplb_event_writer_close(writer, &error), EPLB_OK);
}
