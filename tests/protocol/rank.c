/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "protocol/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/state.h"

void rank_init(struct world *world, int32_t rank)
{
    struct rank *self = &world->ranks[rank];
    struct eplb_executor_core_params params = {
        .shape = world->shape,
        .ep_rank = rank,
        .takes_weights = world->settings.adaptive,
        .expert_bytes = world->settings.chunks,
        .limits = {.chunk_bytes = 1,
                   .inflight_bytes = MAX_OPERATIONS,
                   .timeout_ns = world->settings.transfer_timeout},
    };
    struct eplb_error error;
    if (eplb_executor_core_create(&params, &self->core, &error) != EPLB_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(2);
    }
    for (int32_t layer = 0; layer < world->shape.num_layers; layer++)
        for (int32_t slot = 0; slot < LOCAL_SLOTS; slot++)
            for (int32_t chunk = 0; chunk < MAX_CHUNKS; chunk++) {
                const int32_t *table = eplb_executor_core_tables(self->core) + layer * NUM_SLOTS;
                self->active[layer][slot][chunk] = piece_of(layer, table[rank * LOCAL_SLOTS + slot], chunk);
            }
}

/* ------------------------------------------------------------------------------------- the hooks */

/** Whether a move fills a slot of this rank, and which. */
static bool is_own(const struct eplb_move *move, int32_t rank, int32_t *slot)
{
    *slot = move->slot % LOCAL_SLOTS;
    return move->slot / LOCAL_SLOTS == rank;
}

/** start_expert_weight_transfer: copies the local experts into staging, and says how many. */
static int32_t materialise(struct rank *self, int32_t rank, const struct eplb_layer_plan *plan)
{
    int32_t copies = 0;
    for (int32_t i = 0; i < plan->num_moves; i++) {
        const struct eplb_move *move = &plan->moves[i];
        int32_t slot;
        if (!is_own(move, rank, &slot) || move->kind != EPLB_MOVE_LOCAL)
            continue;
        memcpy(self->staging[slot], self->active[plan->layer][move->source_slot % LOCAL_SLOTS],
               sizeof self->staging[slot]);
        copies++;
    }
    return copies;
}

static void check_slot(struct world *world, int32_t rank, int32_t layer, int32_t slot)
{
    const struct rank *self = &world->ranks[rank];
    int32_t global = rank * LOCAL_SLOTS + slot;
    int32_t expert = eplb_executor_core_tables(self->core)[layer * NUM_SLOTS + global];
    for (int32_t chunk = 0; chunk < world->settings.chunks; chunk++) {
        int32_t piece = self->active[layer][slot][chunk];
        if (piece == piece_of(layer, expert, chunk))
            continue;
        trace_rank(&world->trace, rank,
                   "WRONG: slot %d of layer %d should hold expert %d and holds expert %d of layer %d", global,
                   layer, expert, piece / MAX_CHUNKS % NUM_EXPERTS, piece / MAX_CHUNKS / NUM_EXPERTS);
    }
}

/** update_expert_weight. */
static void update(struct world *world, int32_t rank, const struct eplb_layer_plan *plan, bool commit)
{
    struct rank *self = &world->ranks[rank];
    if (!commit) {
        trace_rank(&world->trace, rank, "layer %d kept as it is", plan->layer);
        return;
    }
    trace_rank(&world->trace, rank, "layer %d switched to generation %" PRIu64, plan->layer,
               eplb_executor_core_generations(self->core)[plan->layer]);
    for (int32_t i = 0; i < plan->num_moves; i++) {
        int32_t slot;
        if (!is_own(&plan->moves[i], rank, &slot))
            continue;
        memcpy(self->active[plan->layer][slot], self->staging[slot], sizeof self->staging[slot]);
        check_slot(world, rank, plan->layer, slot);
    }
}

/* ------------------------------------------------------------------------------------- the core */

static void run_transfer(struct world *world, int32_t rank, const struct eplb_transfer_action *action)
{
    struct rank *self = &world->ranks[rank];
    switch (action->type) {
    case EPLB_TRANSFER_POST_SEND:
        network_post(world, rank, action, &self->active[action->layer][action->local_slot][action->offset]);
        break;
    case EPLB_TRANSFER_POST_RECV:
        network_post(world, rank, action, &self->staging[action->local_slot][action->offset]);
        break;
    case EPLB_TRANSFER_CANCEL:
        network_cancel(world, rank, action->op);
        break;
    case EPLB_TRANSFER_VOTE:
        record_vote(world, rank, action->token, action->yes);
        break;
    case EPLB_TRANSFER_ABORT_RECORD:
        trace_rank(&world->trace, rank, "deadline passed, abort of activation %" PRIu64 " asked",
                   action->token.value);
        record_abort(world, action->token);
        break;
    }
}

static void feed(struct world *world, int32_t rank, const struct eplb_executor_event *event,
                 bool materialise_ok);

static void start_transfer(struct world *world, int32_t rank, const struct eplb_layer_plan *plan, bool ok)
{
    int32_t copies = materialise(&world->ranks[rank], rank, plan);
    uint64_t token = eplb_executor_core_attempt(world->ranks[rank].core).value;
    if (ok && copies > 0)
        trace_rank(&world->trace, rank, "materialised for activation %" PRIu64 ", local copies: %d", token,
                   copies);
    else if (ok)
        trace_rank(&world->trace, rank, "materialised for activation %" PRIu64, token);
    else
        trace_rank(&world->trace, rank, "materialise failed for activation %" PRIu64, token);
    feed(world, rank, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_MATERIALISED, .ok = ok}, ok);
}

static void take_actions(struct world *world, int32_t rank, bool materialise_ok)
{
    struct eplb_executor_action action;
    while (eplb_executor_core_next(world->ranks[rank].core, &action))
        switch (action.type) {
        case EPLB_EXECUTOR_RUN_PREPARE:
            trace_rank(&world->trace, rank, "prepare %" PRIu64 " queued", action.plan->token.value);
            break;
        case EPLB_EXECUTOR_MATERIALISE:
            start_transfer(world, rank, action.plan, materialise_ok);
            break;
        case EPLB_EXECUTOR_TRANSFER:
            run_transfer(world, rank, &action.transfer);
            break;
        case EPLB_EXECUTOR_UPDATE:
            update(world, rank, action.plan, action.commit);
            break;
        case EPLB_EXECUTOR_WEIGHTS:
            trace_rank(&world->trace, rank, "takes weights of layer %d, version %" PRIu64, action.layer,
                       eplb_executor_core_versions(world->ranks[rank].core)[action.layer]);
            break;
        case EPLB_EXECUTOR_REFUSED:
            trace_rank(&world->trace, rank, "refuses weights of layer %d", action.layer);
            break;
        }
}

/** The output goes out when finish_step or abort_step returns. */
static void report(struct world *world, int32_t rank)
{
    struct rank *self = &world->ranks[rank];
    struct forward *forward = &world->forwards[self->seq];
    int64_t prefix[MAX_LAYERS * LOCAL_SLOTS];
    for (int32_t layer = 0; layer < world->shape.num_layers; layer++) {
        prefix[layer * LOCAL_SLOTS] = self->counts[layer][0];
        prefix[layer * LOCAL_SLOTS + 1] = self->counts[layer][0] + self->counts[layer][1];
    }
    struct eplb_worker_output output = {.size = sizeof output,
                                        .seq = self->seq,
                                        .ep_rank = rank,
                                        .num_layers = world->shape.num_layers,
                                        .slots_per_rank = LOCAL_SLOTS,
                                        .prefix = prefix,
                                        .generations = eplb_executor_core_ran_generations(self->core),
                                        .weight_versions = eplb_executor_core_ran_versions(self->core),
                                        .levels = eplb_executor_core_levels(self->core)};
    eplb_worker_output_encode(&world->shape, &output, forward->outputs[rank]);
    forward->reported[rank] = true;
    self->state = RANK_IDLE;
}

static void feed(struct world *world, int32_t rank, const struct eplb_executor_event *event,
                 bool materialise_ok)
{
    struct rank *self = &world->ranks[rank];
    eplb_executor_core_step(self->core, event, world->now);
    take_actions(world, rank, materialise_ok);
    if (self->state == RANK_FINISHING && eplb_executor_core_idle(self->core))
        report(world, rank);
}

void rank_complete(struct world *world, int32_t rank, struct eplb_op op, enum eplb_op_result result)
{
    struct rank *self = &world->ranks[rank];
    if (self->dead || eplb_executor_core_idle(self->core))
        return;
    feed(world, rank,
         &(struct eplb_executor_event){.type = EPLB_EXECUTOR_COMPLETED, .completion = {op, result}}, true);
}

/* ------------------------------------------------------------------------------- the rank's thread */

/** The next forward that was submitted and not dropped; 0: none. */
static uint64_t next_forward(const struct world *world, int32_t rank)
{
    for (uint64_t seq = world->ranks[rank].seq + 1; seq <= world->engine.last_seq; seq++)
        if (!world->forwards[seq].dropped)
            return seq;
    return 0;
}

bool rank_can_start(const struct world *world, int32_t rank)
{
    return !world->ranks[rank].dead && world->ranks[rank].state == RANK_IDLE &&
           next_forward(world, rank) != 0;
}

/** What an expert's replicas on this rank get of a source's rows, by weights. */
static void count_by_weights(struct rank *self, int32_t rank, int32_t layer, int32_t expert, int64_t rows)
{
    const int32_t *table = eplb_executor_core_tables(self->core) + layer * NUM_SLOTS;
    const int32_t *weights = eplb_executor_core_replica_weights(self->core) + layer * NUM_SLOTS;
    int64_t before = 0;
    for (int32_t slot = 0; slot < NUM_SLOTS; slot++) {
        if (table[slot] != expert)
            continue;
        int64_t after = before + weights[slot];
        if (slot / LOCAL_SLOTS == rank)
            self->counts[layer][slot % LOCAL_SLOTS] +=
                rows * after / EPLB_WEIGHT_UNIT - rows * before / EPLB_WEIGHT_UNIT;
        before = after;
    }
}

/** The rows that reach each slot of this rank, under the placement that it runs. */
static void count(struct world *world, int32_t rank)
{
    struct rank *self = &world->ranks[rank];
    const struct forward *forward = &world->forwards[self->seq];
    memset(self->counts, 0, sizeof self->counts);
    for (int32_t layer = 0; layer < world->shape.num_layers; layer++)
        for (int32_t source = 0; source < NUM_RANKS; source++) {
            static const int64_t rows[NUM_EXPERTS] = {10, 3, 1}; /* the hot expert's, the next one's, ... */
            int32_t map[NUM_EXPERTS];
            eplb_log2phy(&world->shape, eplb_executor_core_tables(self->core) + layer * NUM_SLOTS, source, 0,
                         map);
            for (int32_t i = 0; i < NUM_EXPERTS && forward->batches[source] != '-'; i++) {
                int32_t slot = map[(world->hot[layer] + i) % NUM_EXPERTS];
                if (world->settings.adaptive && !forward->warmup)
                    count_by_weights(self, rank, layer, (world->hot[layer] + i) % NUM_EXPERTS, rows[i]);
                else if (slot / LOCAL_SLOTS == rank && !forward->warmup)
                    self->counts[layer][slot % LOCAL_SLOTS] += rows[i];
            }
        }
}

/** Reads the command of the next forward, as it stands in its record. */
static bool read_command(struct world *world, int32_t rank, int32_t *room, struct eplb_command *command)
{
    uint64_t seq = next_forward(world, rank);
    struct eplb_error error;
    if (seq == 0) {
        trace_rank(&world->trace, rank, "no forward to start");
        return false;
    }
    if (eplb_command_decode(&world->shape, world->forwards[seq].command, room, command, &error) != EPLB_OK ||
        eplb_executor_core_check(world->ranks[rank].core, command, &error) != EPLB_OK) {
        trace_rank(&world->trace, rank, "refused: %s", error.text);
        return false;
    }
    world->ranks[rank].seq = seq;
    world->forwards[seq].begun[rank] = true;
    return true;
}

static void say_refused_prepare(struct world *world, int32_t rank, const struct eplb_command *command)
{
    struct eplb_worker_levels levels = eplb_executor_core_levels(world->ranks[rank].core);
    if (command->prepare_token.value != 0 && levels.prepare_status == EPLB_PREPARE_FAILED)
        trace_rank(&world->trace, rank, "prepare %" PRIu64 " refused: %s", command->prepare_token.value,
                   eplb_reason_text(levels.prepare_reason));
}

void rank_start(struct world *world, int32_t rank, bool materialise_ok)
{
    struct rank *self = &world->ranks[rank];
    int32_t room[EPLB_COMMAND_ROWS * NUM_SLOTS];
    struct eplb_command command;
    if (self->state == RANK_FORWARD) {
        trace_rank(&world->trace, rank, "still in forward %" PRIu64, self->seq);
        return;
    }
    if (!read_command(world, rank, room, &command))
        return;
    self->state = RANK_FORWARD;
    feed(world, rank,
         &(struct eplb_executor_event){
             .type = EPLB_EXECUTOR_START_STEP, .command = &command, .weights_epoch = 1},
         materialise_ok);
    count(world, rank);
    say_refused_prepare(world, rank, &command);
}

static void say_waits(struct world *world, int32_t rank)
{
    if (world->ranks[rank].state == RANK_FINISHING)
        trace_rank(&world->trace, rank, "waiting for activation %" PRIu64,
                   eplb_executor_core_attempt(world->ranks[rank].core).value);
}

bool rank_can_finish(const struct world *world, int32_t rank)
{
    return world->ranks[rank].state == RANK_FORWARD;
}

void rank_finish(struct world *world, int32_t rank)
{
    struct rank *self = &world->ranks[rank];
    if (!rank_can_finish(world, rank)) {
        trace_rank(&world->trace, rank, "in no forward");
        return;
    }
    self->state = RANK_FINISHING;
    feed(world, rank, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_FINISH_STEP}, true);
    say_waits(world, rank);
}

void rank_abort(struct world *world, int32_t rank)
{
    struct rank *self = &world->ranks[rank];
    int32_t room[EPLB_COMMAND_ROWS * NUM_SLOTS];
    struct eplb_command command;
    bool begun = self->state != RANK_IDLE;
    if (!begun && !read_command(world, rank, room, &command))
        return;
    if (!begun)
        memset(self->counts, 0, sizeof self->counts);
    self->state = RANK_FINISHING;
    feed(world, rank,
         &(struct eplb_executor_event){.type = EPLB_EXECUTOR_ABORT_STEP, .command = begun ? NULL : &command},
         true);
    say_waits(world, rank);
}

/** The plans that the worker has: finished ones, and the one being activated. */
void rank_show_plans(struct world *world, int32_t rank)
{
    char text[TRACE_LINE] = "";
    size_t length = 0;
    for (int32_t i = 0; i < NUM_PLACES; i++) {
        const struct place *place = &world->ranks[rank].core->places[i];
        if (place->state == PLACE_HELD || place->state == PLACE_ACTIVATING)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s %" PRIu64 "%s",
                                       length == 0 ? "" : ",", place->plan.token.value,
                                       place->state == PLACE_HELD ? "" : " (being activated)");
    }
    trace_rank(&world->trace, rank, "plans held:%s", length == 0 ? " none" : text);
}

bool rank_can_poll(const struct world *world, int32_t rank)
{
    return !world->ranks[rank].dead && !eplb_executor_core_idle(world->ranks[rank].core);
}

void rank_poll(struct world *world, int32_t rank)
{
    if (!rank_can_poll(world, rank)) {
        trace_rank(&world->trace, rank, "no activation under way");
        return;
    }
    network_end_cancelled(world, rank);
    if (!rank_can_poll(world, rank))
        return;
    enum eplb_decision decision = record_read(world, eplb_executor_core_attempt(world->ranks[rank].core));
    feed(world, rank, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_DECIDED, .decision = decision},
         true);
}

/* -------------------------------------------------------------------------- the background thread */

bool rank_can_prepare(const struct world *world, int32_t rank)
{
    const struct rank *self = &world->ranks[rank];
    return !self->dead && self->job == NULL && eplb_executor_core_queued(self->core) != NULL;
}

void rank_begin_prepare(struct world *world, int32_t rank)
{
    struct rank *self = &world->ranks[rank];
    if (!rank_can_prepare(world, rank)) {
        trace_rank(&world->trace, rank, "nothing to prepare");
        return;
    }
    self->job = eplb_executor_core_queued(self->core);
    feed(world, rank,
         &(struct eplb_executor_event){.type = EPLB_EXECUTOR_PREPARE_BEGAN, .token = self->job->token}, true);
    eplb_executor_core_build(self->core, self->job);
}

void rank_end_prepare(struct world *world, int32_t rank, bool ok)
{
    struct rank *self = &world->ranks[rank];
    if (self->job == NULL) {
        trace_rank(&world->trace, rank, "no prepare under way");
        return;
    }
    struct eplb_prepare_token token = self->job->token;
    self->job = NULL;
    trace_rank(&world->trace, rank, "prepare %" PRIu64 " %s", token.value, ok ? "done" : "failed");
    feed(world, rank, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_PREPARED, .token = token, .ok = ok},
         true);
}

void rank_die(struct world *world, int32_t rank)
{
    world->ranks[rank].dead = true;
    network_process_ended(world, rank);
}
