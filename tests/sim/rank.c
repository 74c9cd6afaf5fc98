/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/rank.h"

#include <inttypes.h>
#include <stdlib.h>

#include "sim/engine.h"

void sim_rank_init(struct world *world, int32_t rank)
{
    const struct sim_config *config = &world->config;
    struct sim_rank *self = &world->ranks[rank];
    int32_t initial[SIM_LAYERS * SIM_SLOTS];
    for (int32_t layer = 0; layer < config->shape.num_layers; layer++)
        eplb_placement_initial(&config->shape, initial + layer * config->shape.num_slots);
    sim_model_init(&self->model, config, rank);
    struct eplb_executor_core_params params = {
        .shape = config->shape,
        .ep_rank = rank,
        .initial = initial,
        .takes_weights = config->routing >= EPLB_ROUTING_WEIGHTED,
        .expert_bytes = 8 * config->words,
        .limits = {.chunk_bytes = 8 * config->chunk_words,
                   .inflight_bytes = config->inflight_bytes,
                   .timeout_ns = config->transfer_timeout},
    };
    struct eplb_error error;
    if (eplb_executor_core_create(&params, &self->core, &error) != EPLB_OK)
        sim_fail(&world->sim, "rank", "%s", error.text);
}

void sim_rank_destroy(struct world *world, int32_t rank)
{
    eplb_executor_core_destroy(world->ranks[rank].core);
    world->ranks[rank].core = NULL;
}

/* ------------------------------------------------------------------------------------- actions */

static void run_transfer(struct world *world, int32_t rank, const struct eplb_executor_action *action)
{
    struct sim_model *model = &world->ranks[rank].model;
    const struct eplb_transfer_action *transfer = &action->transfer;
    int64_t word = transfer->offset / 8;
    bool posted = true;
    switch (transfer->type) {
    case EPLB_TRANSFER_POST_SEND:
        posted = sim_group_post(world, rank, transfer,
                                &model->active[transfer->layer][transfer->local_slot][word]);
        break;
    case EPLB_TRANSFER_POST_RECV:
        posted = sim_group_post(world, rank, transfer, &model->staging[transfer->local_slot][word]);
        break;
    case EPLB_TRANSFER_CANCEL:
        sim_group_cancel(world, rank, transfer->op);
        break;
    case EPLB_TRANSFER_VOTE:
        SIM_TRACE(&world->sim, "rank", rank, "votes %s, activation %" PRIu64, transfer->yes ? "yes" : "NO",
                  action->token.value);
        sim_record_vote(world, rank, action->token, transfer->yes);
        break;
    case EPLB_TRANSFER_ABORT_RECORD:
        SIM_TRACE(&world->sim, "rank", rank, "deadline, activation %" PRIu64, action->token.value);
        if (sim_record_abort(world, action->token))
            SIM_COUNT(&world->sim, DEADLINES);
        else
            SIM_COUNT(&world->sim, DEADLINES_LATE);
        break;
    }
    if (posted)
        return;
    sim_check_operation_failed(world, rank, action->token.value);
    struct eplb_executor_event refused = {.type = EPLB_EXECUTOR_COMPLETED,
                                          .completion = {transfer->op, EPLB_OP_FAILED}};
    eplb_executor_core_step(world->ranks[rank].core, &refused, world->sim.now);
}

static void materialised(struct world *world, int32_t rank, uint64_t unused);
static void begin_job(struct world *world, int32_t rank, uint64_t unused);

static void wake_background(struct world *world, int32_t rank)
{
    struct sim_rank *self = &world->ranks[rank];
    if (self->waking || self->job != NULL)
        return;
    self->waking = true;
    sim_after(&world->sim, sim_below(&world->sim, SIM_MILLISECOND), rank, begin_job, 0);
}

static void queue_prepare(struct world *world, int32_t rank, const struct eplb_layer_plan *plan)
{
    struct sim_rank *self = &world->ranks[rank];
    if (self->queued != 0)
        SIM_COUNT(&world->sim, PREPARES_SUPERSEDED);
    self->queued = plan->token.value;
    wake_background(world, rank);
}

static void update(struct world *world, int32_t rank, const struct eplb_executor_action *action)
{
    SIM_TRACE(&world->sim, "rank", rank, "update_expert_weight: layer %d, activation %" PRIu64 " %s",
              action->plan->layer, action->token.value, action->commit ? "switches" : "keeps");
    sim_check_update(world, rank, action->token.value, action->plan->layer, action->commit);
    if (action->commit)
        sim_model_switch(&world->ranks[rank].model, &world->config, action->plan);
}

static void take_weights(struct world *world, int32_t rank, int32_t layer)
{
    struct sim_rank *self = &world->ranks[rank];
    const struct eplb_executor_core *core = self->core;
    uint64_t version = eplb_executor_core_versions(core)[layer];
    const int32_t *weights = eplb_executor_core_replica_weights(core) + layer * world->config.shape.num_slots;
    SIM_TRACE(&world->sim, "rank", rank, "takes weights of layer %d, version %" PRIu64, layer, version);
    SIM_COUNT(&world->sim, WEIGHTS_TAKEN);
    sim_model_take_weights(&self->model, &world->config, layer, version, weights);
}

static void take_actions(struct world *world, int32_t rank)
{
    struct sim_rank *self = &world->ranks[rank];
    struct eplb_executor_action action;
    while (eplb_executor_core_next(self->core, &action))
        switch (action.type) {
        case EPLB_EXECUTOR_RUN_PREPARE:
            queue_prepare(world, rank, action.plan);
            break;
        case EPLB_EXECUTOR_MATERIALISE:
            self->materialising = action.plan;
            sim_after(&world->sim, sim_below(&world->sim, SIM_MILLISECOND), rank, materialised, 0);
            break;
        case EPLB_EXECUTOR_TRANSFER:
            run_transfer(world, rank, &action);
            break;
        case EPLB_EXECUTOR_UPDATE:
            update(world, rank, &action);
            break;
        case EPLB_EXECUTOR_WEIGHTS:
            take_weights(world, rank, action.layer);
            break;
        case EPLB_EXECUTOR_REFUSED:
            SIM_COUNT(&world->sim, WEIGHTS_REFUSED);
            break;
        }
}

static void step(struct world *world, int32_t rank, const struct eplb_executor_event *event)
{
    eplb_executor_core_step(world->ranks[rank].core, event, world->sim.now);
    take_actions(world, rank);
}

/* ------------------------------------------------------------------------ the background thread */

static void build_plan(struct world *world, int32_t rank, uint64_t unused)
{
    struct sim_rank *self = &world->ranks[rank];
    (void)unused;
    eplb_executor_core_build(self->core, self->job);
    sim_check_plan(world, rank, self->job);
}

static void end_job(struct world *world, int32_t rank, uint64_t hangs)
{
    struct sim_rank *self = &world->ranks[rank];
    if (hangs && !world->engine.calm) {
        sim_after(&world->sim, world->config.prepare_timeout, rank, end_job, hangs);
        return;
    }
    struct eplb_prepare_token token = self->job->token;
    SIM_TRACE(&world->sim, "rank", rank, "prepare %" PRIu64 " of layer %d: %s", token.value, self->job->layer,
              self->job_fails ? "failed" : "done");
    self->job = NULL;
    if (self->job_fails)
        sim_check_hook_failed(world, rank, token.value);
    step(world, rank,
         &(struct eplb_executor_event){
             .type = EPLB_EXECUTOR_PREPARED, .token = token, .ok = !self->job_fails});
    wake_background(world, rank);
}

/** How long the hook runs; whether it fails, is slow or hangs. */
static int64_t draw_job(struct world *world, struct sim_rank *self, bool *hangs)
{
    struct sim *sim = &world->sim;
    const struct sim_faults *faults = &world->config.faults;
    bool faulty = !world->engine.calm;
    self->job_fails = faulty && sim_chance(sim, faults->prepare_fail);
    *hangs = faulty && sim_chance(sim, faults->prepare_hang);
    if (self->job_fails)
        SIM_COUNT(sim, PREPARES_FAILED);
    if (*hangs)
        SIM_COUNT(sim, PREPARES_HUNG);
    if (!faulty || !sim_chance(sim, faults->prepare_slow))
        return sim_between(sim, 1, 15 * SIM_MILLISECOND);
    SIM_COUNT(sim, PREPARES_SLOW);
    return sim_below(sim, 2 * world->config.prepare_timeout);
}

static void begin_job(struct world *world, int32_t rank, uint64_t unused)
{
    struct sim_rank *self = &world->ranks[rank];
    (void)unused;
    self->waking = false;
    struct eplb_layer_plan *plan = eplb_executor_core_queued(self->core);
    if (plan == NULL)
        return;
    self->job = plan;
    self->queued = 0;
    step(world, rank,
         &(struct eplb_executor_event){.type = EPLB_EXECUTOR_PREPARE_BEGAN, .token = plan->token});
    bool hangs;
    int64_t duration = draw_job(world, self, &hangs);
    sim_after(&world->sim, duration / 2, rank, build_plan, 0);
    sim_after(&world->sim, duration, rank, end_job, hangs);
}

/* -------------------------------------------------------------------------------- finishing a step */

static void begin_next(struct world *world, int32_t rank, uint64_t unused);
static void poll(struct world *world, int32_t rank, uint64_t unused);

static void poll_soon(struct world *world, int32_t rank)
{
    struct sim_rank *self = &world->ranks[rank];
    if (self->poll_pending)
        return;
    self->poll_pending = true;
    sim_after(&world->sim, sim_between(&world->sim, 20, 300) * SIM_MICROSECOND, rank, poll, 0);
}

/** finish_step or abort_step returns when nothing is unresolved; then the output goes out. */
static void settle(struct world *world, int32_t rank)
{
    struct sim_rank *self = &world->ranks[rank];
    if (!eplb_executor_core_idle(self->core)) {
        poll_soon(world, rank);
        return;
    }
    self->state = SIM_RANK_IDLE;
    struct eplb_worker_levels levels = eplb_executor_core_levels(self->core);
    sim_check_levels(world, rank, &levels);
    sim_engine_send_output(world, rank, sim_forward_at(world, self->seq));
    sim_after(&world->sim, sim_below(&world->sim, SIM_MILLISECOND / 2), rank, begin_next, 0);
}

static void poll(struct world *world, int32_t rank, uint64_t unused)
{
    struct sim_rank *self = &world->ranks[rank];
    (void)unused;
    self->poll_pending = false;
    struct eplb_activation_token attempt = eplb_executor_core_attempt(self->core);
    if (attempt.value == 0)
        return;
    struct eplb_completion completions[SIM_COMPLETIONS];
    int32_t count = sim_group_poll(world, rank, attempt, completions);
    for (int32_t i = 0; i < count && !eplb_executor_core_idle(self->core); i++) {
        if (completions[i].result == EPLB_OP_FAILED)
            sim_check_operation_failed(world, rank, attempt.value);
        step(world, rank,
             &(struct eplb_executor_event){.type = EPLB_EXECUTOR_COMPLETED, .completion = completions[i]});
    }
    if (!eplb_executor_core_idle(self->core))
        step(world, rank,
             &(struct eplb_executor_event){.type = EPLB_EXECUTOR_DECIDED,
                                           .decision = sim_record_read(&world->group, attempt)});
    if (self->state == SIM_RANK_FINISHING)
        settle(world, rank);
    else if (!eplb_executor_core_idle(self->core))
        poll_soon(world, rank);
}

static void abort_step(struct world *world, int32_t rank, const struct eplb_command *command)
{
    struct sim_rank *self = &world->ranks[rank];
    SIM_TRACE(&world->sim, "rank", rank, "abort_step of forward %" PRIu64, self->seq);
    self->state = SIM_RANK_FINISHING;
    sim_check_finishing(world, rank);
    step(world, rank, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_ABORT_STEP, .command = command});
    settle(world, rank);
}

/* ------------------------------------------------------------------------------------ the forward */

static bool is_blocked(const struct sim_forward *forward, int32_t rank)
{
    return !forward->passing || forward->blocked[rank];
}

static void pass(struct world *world, int32_t rank, uint64_t seq)
{
    struct sim_rank *self = &world->ranks[rank];
    struct sim_forward *forward = sim_forward_at(world, seq);
    if (self->state != SIM_RANK_FORWARD || self->seq != seq || forward->blocked[rank])
        return;
    sim_check_forward(world, rank, forward);
    forward->passed[rank] = true;
    SIM_TRACE(&world->sim, "rank", rank, "finish_step of forward %" PRIu64, seq);
    self->state = SIM_RANK_FINISHING;
    sim_check_finishing(world, rank);
    step(world, rank, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_FINISH_STEP});
    settle(world, rank);
}

static void enter_forward(struct world *world, int32_t rank)
{
    struct sim_rank *self = &world->ranks[rank];
    struct sim_forward *forward = sim_forward_at(world, self->seq);
    self->state = SIM_RANK_FORWARD;
    forward->begun[rank] = true;
    sim_model_count(&self->model, &world->config, forward->rows, forward->counts[rank]);
    sim_check_forward(world, rank, forward);
    if (world->config.polls_in_forward && !eplb_executor_core_idle(self->core))
        poll_soon(world, rank);
    for (int32_t other = 0; other < world->config.shape.ep_size; other++)
        if (!forward->begun[other])
            return;
    forward->passing = true;
    for (int32_t other = 0; other < world->config.shape.ep_size; other++)
        sim_after(&world->sim, sim_between(&world->sim, SIM_MILLISECOND, 8 * SIM_MILLISECOND), other, pass,
                  forward->seq);
}

/** After start_step: the forward begins, unless it is known that it cannot end. */
static void go_on(struct world *world, int32_t rank)
{
    struct sim_rank *self = &world->ranks[rank];
    if (!self->told) {
        enter_forward(world, rank);
        return;
    }
    SIM_COUNT(&world->sim, STEPS_ABORTED_BEGUN);
    abort_step(world, rank, NULL);
}

static void materialised(struct world *world, int32_t rank, uint64_t unused)
{
    struct sim_rank *self = &world->ranks[rank];
    struct eplb_layer_plan *plan = self->materialising;
    struct eplb_activation_token attempt = eplb_executor_core_attempt(self->core);
    (void)unused;
    self->materialising = NULL;
    bool fails = !world->engine.calm && sim_chance(&world->sim, world->config.faults.materialise_fail);
    sim_check_materialise(world, rank, plan, attempt.value, fails);
    int32_t copies = sim_model_materialise(&self->model, &world->config, plan);
    world->sim.counts[SIM_COUNT_LOCAL_MOVES] += (uint64_t)copies;
    if (fails)
        SIM_COUNT(&world->sim, MATERIALISE_FAILED);
    step(world, rank, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_MATERIALISED, .ok = !fails});
    go_on(world, rank);
}

static void trace_start(struct world *world, int32_t rank, const struct eplb_command *command)
{
    if (command->update_layer_id == EPLB_NO_LAYER && command->prepare_layer_id == EPLB_NO_LAYER)
        return;
    SIM_TRACE(&world->sim, "rank", rank,
              "takes forward %" PRIu64 ": activation %" PRIu64 " of layer %d, prepare %" PRIu64
              " of layer %d",
              command->seq, command->activation_token.value, command->update_layer_id,
              command->prepare_token.value, command->prepare_layer_id);
}

static void start_step(struct world *world, int32_t rank, const struct eplb_command *command)
{
    struct sim_rank *self = &world->ranks[rank];
    if (!world->engine.calm && sim_chance(&world->sim, world->config.faults.reload)) {
        SIM_COUNT(&world->sim, RELOADS);
        self->model.epoch++;
    }
    self->state = SIM_RANK_STARTING;
    step(world, rank,
         &(struct eplb_executor_event){
             .type = EPLB_EXECUTOR_START_STEP, .command = command, .weights_epoch = self->model.epoch});
    if (self->materialising == NULL)
        go_on(world, rank);
}

static void begin_next(struct world *world, int32_t rank, uint64_t unused)
{
    struct sim_rank *self = &world->ranks[rank];
    (void)unused;
    if (self->state != SIM_RANK_IDLE || self->num_inbox == 0)
        return;
    self->seq = self->inbox[0];
    self->inbox[0] = self->inbox[1];
    self->num_inbox--;
    struct sim_forward *forward = sim_forward_at(world, self->seq);
    struct eplb_command command;
    int32_t room[EPLB_COMMAND_ROWS * SIM_SLOTS];
    struct eplb_error error;
    if (eplb_command_decode(&world->config.shape, forward->command, room, &command, &error) != EPLB_OK ||
        eplb_executor_core_check(self->core, &command, &error) != EPLB_OK)
        sim_fail(&world->sim, "rank", "rank %d refuses the command of forward %" PRIu64 ": %s", rank,
                 self->seq, error.text);
    trace_start(world, rank, &command);
    sim_check_attempt(world, rank, &command);
    if (!self->told || !is_blocked(forward, rank)) {
        start_step(world, rank, &command);
        return;
    }
    SIM_COUNT(&world->sim, STEPS_ABORTED_UNBEGUN);
    abort_step(world, rank, &command);
}

/* ------------------------------------------------------------------------------- from the outside */

void sim_rank_give(struct world *world, int32_t rank, uint64_t seq)
{
    struct sim_rank *self = &world->ranks[rank];
    if (self->num_inbox == 2)
        sim_fail(&world->sim, "rank", "rank %d was given forward %" PRIu64 " behind two others", rank, seq);
    self->inbox[self->num_inbox++] = seq;
    begin_next(world, rank, 0);
}

void sim_rank_tell_dead(struct world *world, int32_t rank, uint64_t unused)
{
    struct sim_rank *self = &world->ranks[rank];
    (void)unused;
    self->told = true;
    if (self->state == SIM_RANK_IDLE)
        begin_next(world, rank, 0);
    if (self->state != SIM_RANK_FORWARD || !is_blocked(sim_forward_at(world, self->seq), rank))
        return;
    SIM_COUNT(&world->sim, STEPS_ABORTED_BEGUN);
    abort_step(world, rank, NULL);
}

/** Who has begun a forward with the dead rank may or may not get what it needs to end it. */
static void block_forward(struct world *world, int32_t dead, uint64_t seq)
{
    struct sim_forward *forward = sim_forward_at(world, seq);
    if (forward->passed[dead])
        return;
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++)
        if (!forward->passed[rank] && (!forward->passing || sim_chance(&world->sim, 500)))
            forward->blocked[rank] = true;
}

void sim_rank_kill(struct world *world, int32_t rank, uint64_t unused)
{
    struct sim_rank *self = &world->ranks[rank];
    (void)unused;
    SIM_TRACE(&world->sim, "rank", rank, "dies");
    SIM_COUNT(&world->sim, DEATHS);
    sim_check_dies(world, rank);
    self->dead = true;
    sim_group_process_ended(world, rank);
    for (int32_t i = 0; i < world->engine.num_flights; i++)
        block_forward(world, rank, world->engine.flights[i]);
    sim_engine_lost_rank(world, rank);
}
