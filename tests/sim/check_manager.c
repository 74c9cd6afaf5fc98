/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

#include "sim/world.h"

static const char checker[] = "manager";

enum { SIM_GATE_BYTES = 1 << 16 };

static bool allows(const struct world *world, const struct sim_forward *forward)
{
    int32_t decoding = 0;
    for (int32_t i = 0; i < world->config.shape.ep_size; i++) {
        if (forward->batches[i].prefill_tokens != 0)
            return false;
        decoding += forward->batches[i].decode_tokens != 0;
    }
    return decoding > 0 && !forward->warmup && world->checks.num_dead == 0;
}

static bool all_live_ok(const struct world *world)
{
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++)
        if (!world->checks.dead[rank] && !world->checks.prepare.ok[rank])
            return false;
    return true;
}

/** Whether a table is worth its migration, on a window of this book. */
static bool passes_gate(struct world *world, int32_t layer, const int32_t *table, const int32_t *weights,
                        const struct sim_window *window)
{
    static _Alignas(64) unsigned char scratch[SIM_GATE_BYTES];
    const int32_t *active = sim_book_table(world, layer, world->checks.committed[layer]);
    const struct eplb_gate_routing routing = {world->config.routing, weights};
    if (eplb_gate_routed_scratch(&world->config.shape) > sizeof scratch)
        sim_fail(&world->sim, checker, "the gate needs more than %zu bytes", sizeof scratch);
    return eplb_gate_routed(&world->config.shape, &routing, active, table, window->logical[layer],
                            window->physical[layer], world->config.threshold, scratch)
        .publish;
}

/** A layer that was ready for so long must be worth it on the present window. */
static bool is_old(const struct world *world)
{
    int64_t age = world->sim.now - world->checks.prepare.ready_at;
    return world->checks.prepare.ready_at >= 0 && age > world->config.update_interval &&
           age > world->config.prepare_timeout;
}

static bool is_worth_it(struct world *world)
{
    const struct sim_open_prepare *prepare = &world->checks.prepare;
    return passes_gate(world, prepare->layer, prepare->table, prepare->weights, &world->checks.open);
}

static void take_new_token(struct world *world, uint64_t token)
{
    if (token <= world->checks.last_token)
        sim_fail(&world->sim, checker, "token %" PRIu64 " was issued after %" PRIu64, token,
                 world->checks.last_token);
    world->checks.last_token = token;
}

/* ----------------------------------------------------------------------------------- commands */

static void begin_activation(struct world *world, const struct eplb_command *command)
{
    struct sim_checks *checks = &world->checks;
    if (checks->activation.layer != EPLB_NO_LAYER)
        sim_fail(&world->sim, checker, "activation %" PRIu64 " begins while %" PRIu64 " is open",
                 command->activation_token.value, checks->activation.token);
    if (checks->prepare.layer != command->update_layer_id ||
        checks->prepare.token != command->update_prepare_token.value || checks->prepare.failed ||
        !all_live_ok(world))
        sim_fail(&world->sim, checker,
                 "activation %" PRIu64 " of layer %d, prepare %" PRIu64 ", which not all ranks have prepared",
                 command->activation_token.value, command->update_layer_id,
                 command->update_prepare_token.value);
    if (is_old(world) && !is_worth_it(world))
        sim_fail(&world->sim, checker,
                 "layer %d was ready for long, is not worth it any more and is activated",
                 command->update_layer_id);
    take_new_token(world, command->activation_token.value);
    checks->prepare.layer = EPLB_NO_LAYER;
    checks->activation = (struct sim_open_activation){.layer = command->update_layer_id,
                                                      .token = command->activation_token.value,
                                                      .prepare_token = command->update_prepare_token.value};
}

static void note_activation(struct world *world, const struct eplb_command *command)
{
    struct sim_open_activation *activation = &world->checks.activation;
    if (activation->layer == EPLB_NO_LAYER || activation->token != command->activation_token.value)
        begin_activation(world, command);
    else if (activation->sent || activation->layer != command->update_layer_id ||
             activation->prepare_token != command->update_prepare_token.value)
        sim_fail(&world->sim, checker, "activation %" PRIu64 " is handed out twice, or changed",
                 activation->token);
    if (world->checks.book.record_token != activation->token || world->group.decision != EPLB_UNDECIDED)
        sim_fail(&world->sim, checker, "activation %" PRIu64 " is handed out without an open record",
                 activation->token);
    activation->sent = true;
    activation->seq = command->seq;
    activation->sent_at = world->sim.now;
    world->checks.book.record_layer = activation->layer;
    world->checks.book.record_prepare = activation->prepare_token;
    SIM_COUNT(&world->sim, ACTIVATIONS);
}

static void begin_prepare(struct world *world, const struct eplb_command *command)
{
    struct sim_checks *checks = &world->checks;
    if (checks->prepare.layer != EPLB_NO_LAYER)
        sim_fail(&world->sim, checker, "prepare %" PRIu64 " begins while %" PRIu64 " is open",
                 command->prepare_token.value, checks->prepare.token);
    if (command->prepare_layer_id <= checks->last_layer)
        sim_fail(&world->sim, checker, "layer %d is prepared after layer %d of the same round",
                 command->prepare_layer_id, checks->last_layer);
    if (!passes_gate(world, command->prepare_layer_id, command->expert_ids, command->replica_weights,
                     &checks->closed))
        sim_fail(&world->sim, checker, "layer %d is prepared and did not pass the gate",
                 command->prepare_layer_id);
    take_new_token(world, command->prepare_token.value);
    checks->last_layer = command->prepare_layer_id;
    checks->prepare = (struct sim_open_prepare){
        .layer = command->prepare_layer_id, .token = command->prepare_token.value, .ready_at = -1};
    memcpy(checks->prepare.table, command->expert_ids,
           (size_t)world->config.shape.num_slots * sizeof *command->expert_ids);
    if (command->replica_weights != NULL)
        memcpy(checks->prepare.weights, command->replica_weights,
               (size_t)world->config.shape.num_slots * sizeof *command->replica_weights);
}

static void note_prepare(struct world *world, const struct eplb_command *command)
{
    struct sim_checks *checks = &world->checks;
    struct sim_open_prepare *prepare = &checks->prepare;
    if (prepare->layer == EPLB_NO_LAYER || prepare->token != command->prepare_token.value)
        begin_prepare(world, command);
    else if (prepare->sent || prepare->layer != command->prepare_layer_id ||
             memcmp(prepare->table, command->expert_ids,
                    (size_t)world->config.shape.num_slots * sizeof *command->expert_ids) != 0)
        sim_fail(&world->sim, checker, "prepare %" PRIu64 " is handed out twice, or changed", prepare->token);
    uint64_t generation = checks->committed[prepare->layer];
    const int32_t *base = sim_book_table(world, prepare->layer, generation);
    if (command->base_generation != generation ||
        command->base_hash != eplb_placement_hash(&world->config.shape, base) ||
        eplb_placement_check(&world->config.shape, command->expert_ids, NULL) != EPLB_OK ||
        !eplb_placement_sets_differ(&world->config.shape, base, command->expert_ids))
        sim_fail(&world->sim, checker,
                 "prepare %" PRIu64 " of layer %d has another base than generation %" PRIu64
                 ", or a table that changes nothing",
                 prepare->token, prepare->layer, generation);
    prepare->sent = true;
    prepare->seq = command->seq;
    prepare->sent_at = world->sim.now;
    prepare->output_at = -1;
    SIM_COUNT(&world->sim, PREPARES);
}

void sim_check_submitted(struct world *world, const struct sim_forward *forward,
                         const struct eplb_command *command)
{
    struct sim *sim = &world->sim;
    struct sim_checks *checks = &world->checks;
    bool prepares = command->prepare_layer_id != EPLB_NO_LAYER;
    bool activates = command->update_layer_id != EPLB_NO_LAYER;
    bool allowed = allows(world, forward);
    SIM_TRACE(sim, "manager", SIM_NOBODY,
              "forward %" PRIu64 ": activation %" PRIu64 " of layer %d, prepare %" PRIu64 " of layer %d%s",
              command->seq, command->activation_token.value, command->update_layer_id,
              command->prepare_token.value, command->prepare_layer_id, allowed ? "" : " (not allowed)");
    if (command->seq != forward->seq)
        sim_fail(sim, checker, "forward %" PRIu64 " got the command of %" PRIu64, forward->seq, command->seq);
    if (!allowed && (prepares || activates))
        sim_fail(sim, checker, "forward %" PRIu64 " is no decode boundary and carries a command",
                 command->seq);
    if (allowed && checks->activation.layer != EPLB_NO_LAYER && !checks->activation.sent && !activates)
        sim_fail(sim, checker, "activation %" PRIu64 " was dropped and is not handed out first",
                 checks->activation.token);
    if (checks->activation.layer != EPLB_NO_LAYER && checks->activation.sent)
        SIM_COUNT(sim, OVERLAPPED_ACTIVATIONS);
    if (activates && prepares)
        SIM_COUNT(sim, BOTH);
    if (activates)
        note_activation(world, command);
    if (prepares)
        note_prepare(world, command);
    if (activates && prepares && command->update_layer_id == command->prepare_layer_id)
        sim_fail(sim, checker, "forward %" PRIu64 " names layer %d twice", command->seq,
                 command->update_layer_id);
}

void sim_check_dropped(struct world *world, uint64_t seq)
{
    struct sim_checks *checks = &world->checks;
    if (checks->prepare.layer != EPLB_NO_LAYER && checks->prepare.sent && checks->prepare.seq == seq) {
        checks->prepare.sent = false;
        SIM_COUNT(&world->sim, DROPS_OF_PREPARE);
    }
    if (checks->activation.layer == EPLB_NO_LAYER || !checks->activation.sent ||
        checks->activation.seq != seq)
        return;
    checks->activation.sent = false;
    if (checks->num_dead > 0)
        SIM_COUNT(&world->sim, DROPS_OF_DEAD_ACTIVATION);
    else
        SIM_COUNT(&world->sim, DROPS_OF_ACTIVATION);
}

/* ------------------------------------------------------------------------------------- reports */

void sim_check_told_dead(struct world *world, int32_t rank)
{
    world->checks.dead[rank] = true;
    world->checks.num_dead++;
}

void sim_check_policy_done(struct world *world)
{
    world->checks.policy_running = false;
    world->checks.last_layer = EPLB_NO_LAYER;
}

static void take_levels(struct world *world, int32_t rank, const struct eplb_worker_levels *levels)
{
    struct sim_open_prepare *prepare = &world->checks.prepare;
    struct sim_open_activation *activation = &world->checks.activation;
    if (prepare->layer != EPLB_NO_LAYER && levels->prepare_token.value == prepare->token) {
        prepare->ok[rank] = levels->prepare_status == EPLB_PREPARE_OK;
        prepare->failed = prepare->failed || levels->prepare_status == EPLB_PREPARE_FAILED;
    }
    if (activation->layer != EPLB_NO_LAYER && levels->activation_token.value == activation->token)
        activation->outcomes[rank] = levels->activation_outcome;
}

/** Before the step: what the manager is about to be told. */
void sim_check_outputs(struct world *world, const struct sim_forward *forward)
{
    struct sim_open_prepare *prepare = &world->checks.prepare;
    world->checks.fed = forward->seq;
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++)
        if (forward->arrivals[rank] == SIM_ARRIVED && !world->checks.dead[rank])
            take_levels(world, rank, &forward->outputs[rank].levels);
    if (prepare->layer == EPLB_NO_LAYER || !prepare->sent)
        return;
    if (forward->seq == prepare->seq)
        prepare->output_at = world->sim.now;
    if (prepare->ready_at < 0 && !prepare->failed && all_live_ok(world))
        prepare->ready_at = world->sim.now;
}

/* ------------------------------------------------------------------------------------- actions */

static bool all_live_report(const struct world *world, enum eplb_activation_outcome outcome)
{
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++)
        if (!world->checks.dead[rank] && world->checks.activation.outcomes[rank] != outcome)
            return false;
    return true;
}

static void check_commit(struct world *world, const struct eplb_manager_action *action)
{
    struct sim_checks *checks = &world->checks;
    struct sim *sim = &world->sim;
    int32_t layer = action->layer;
    SIM_TRACE(sim, "manager", SIM_NOBODY, "commits layer %d, generation %" PRIu64, layer, action->generation);
    SIM_COUNT(sim, COMMITS);
    if (layer != checks->activation.layer || !checks->activation.sent ||
        !all_live_report(world, EPLB_ACTIVATION_SWITCHED) ||
        sim_record_read(&world->group, (struct eplb_activation_token){checks->activation.token}) !=
            EPLB_COMMIT)
        sim_fail(sim, checker, "layer %d is committed without all reports", layer);
    if (action->generation != checks->committed[layer] + 1)
        sim_fail(sim, checker, "layer %d goes from generation %" PRIu64 " to %" PRIu64, layer,
                 checks->committed[layer], action->generation);
    if (checks->activation.stuck)
        SIM_COUNT(sim, STUCK_RESOLVED);
    if (world->config.faultless)
        SIM_COUNT(sim, COMMITS_FAULTLESS);
    checks->committed[layer]++;
    checks->activation.layer = EPLB_NO_LAYER;
    sim_check_window_commit(world, layer);
    sim_check_weights_committed(world, layer);
}

static void check_activation_abort(struct world *world, enum eplb_abort_reason why)
{
    struct sim_open_activation *activation = &world->checks.activation;
    enum eplb_decision decision =
        sim_record_read(&world->group, (struct eplb_activation_token){activation->token});
    bool not_given = !activation->sent && world->checks.num_dead > 0;
    bool kept = decision == EPLB_ABORT && all_live_report(world, EPLB_ACTIVATION_KEPT);
    if (decision == EPLB_COMMIT || !(not_given || kept) ||
        (why != EPLB_ABORT_RANK_DEAD && (why != EPLB_ABORT_KEPT || not_given)))
        sim_fail(&world->sim, checker, "activation %" PRIu64 " of layer %d is aborted without cause",
                 activation->token, activation->layer);
    if (activation->stuck)
        SIM_COUNT(&world->sim, STUCK_RESOLVED);
    activation->layer = EPLB_NO_LAYER;
}

static bool prepare_abort_has_cause(struct world *world, enum eplb_abort_reason why)
{
    switch (why) {
    case EPLB_ABORT_FAILED:
        return world->checks.prepare.failed;
    case EPLB_ABORT_TIMEOUT:
        return sim_check_timeout_due(world);
    case EPLB_ABORT_STALE:
        return is_old(world) && !is_worth_it(world);
    case EPLB_ABORT_RANK_DEAD:
        return world->checks.num_dead > 0;
    case EPLB_ABORT_KEPT:
        break;
    }
    return false;
}

static void count_abort(struct world *world, enum eplb_abort_reason why)
{
    static const enum sim_count counts[] = {[EPLB_ABORT_FAILED] = SIM_COUNT_ABORTED_FAILED,
                                            [EPLB_ABORT_TIMEOUT] = SIM_COUNT_ABORTED_TIMEOUT,
                                            [EPLB_ABORT_KEPT] = SIM_COUNT_ABORTED_KEPT,
                                            [EPLB_ABORT_STALE] = SIM_COUNT_ABORTED_STALE,
                                            [EPLB_ABORT_RANK_DEAD] = SIM_COUNT_ABORTED_DEAD};
    world->sim.counts[counts[why]]++;
}

static void check_abort(struct world *world, const struct eplb_manager_action *action)
{
    struct sim_checks *checks = &world->checks;
    static const char *const causes[] = {"failed", "timeout", "kept", "stale", "rank dead"};
    SIM_TRACE(&world->sim, "manager", SIM_NOBODY, "aborts layer %d: %s", action->layer, causes[action->why]);
    count_abort(world, action->why);
    if (world->config.faultless && action->why != EPLB_ABORT_STALE)
        sim_fail(&world->sim, checker, "layer %d is aborted (%s) and nothing has gone wrong", action->layer,
                 causes[action->why]);
    if (action->layer == checks->activation.layer) {
        check_activation_abort(world, action->why);
    } else if (action->layer == checks->prepare.layer) {
        if (!prepare_abort_has_cause(world, action->why))
            sim_fail(&world->sim, checker, "prepare %" PRIu64 " of layer %d is aborted without cause (%s)",
                     checks->prepare.token, action->layer, causes[action->why]);
        if (action->why == EPLB_ABORT_TIMEOUT && checks->prepare.output_at < 0)
            SIM_COUNT(&world->sim, TIMEOUT_IN_FLIGHT);
        checks->prepare.layer = EPLB_NO_LAYER;
    } else if (action->why != EPLB_ABORT_RANK_DEAD || checks->num_dead == 0) {
        sim_fail(&world->sim, checker, "layer %d is aborted and was not begun", action->layer);
    }
}

void sim_check_action(struct world *world, const struct eplb_manager_action *action)
{
    struct sim_checks *checks = &world->checks;
    switch (action->type) {
    case EPLB_MANAGER_COMMITTED:
        check_commit(world, action);
        checks->num_finished++;
        break;
    case EPLB_MANAGER_ABORTED:
        check_abort(world, action);
        checks->num_finished++;
        break;
    case EPLB_MANAGER_RUN_POLICY:
        checks->policy_asked = true;
        checks->had_tokens = sim_check_has_tokens(world);
        sim_check_window_close(world);
        break;
    default:
        break;
    }
}
