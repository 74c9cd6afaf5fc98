/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/engine.h"

#include <inttypes.h>
#include <string.h>

#include "support/allocations.h"
#include "sim/rank.h"
#include "sim/traffic.h"

static void submit(struct world *world, int32_t nobody, uint64_t unused);
static void run_policy(struct world *world, int32_t nobody, uint64_t unused);
static void solve(struct world *world, int32_t nobody, uint64_t unused);
static void tick(struct world *world, int32_t nobody, uint64_t unused);
static void submit_soon(struct world *world);

/* -------------------------------------------------------------------------------- the policy */

/* A policy has no context; the simulator runs one world at a time. */
static bool policy_fails;

static enum eplb_status plan_layer(const struct eplb_policy_problem *problem, void *scratch,
                                   struct eplb_policy_answer *answer, struct eplb_error *error)
{
    if (policy_fails)
        return eplb_fail(error, EPLB_REFUSED, "the policy was told to fail");
    return eplb_policy_find("balanced").ops->plan_layer(problem, scratch, answer, error);
}

static size_t scratch_size(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    return eplb_policy_find("balanced").ops->scratch_size(shape, settings);
}

static const struct eplb_policy_ops failing_policy = {
    .size = sizeof failing_policy, .name = "failing", .scratch_size = scratch_size, .plan_layer = plan_layer};

/* --------------------------------------------------------------------------------- the manager */

static void log_line(void *context, const struct eplb_log_record *record)
{
    struct world *world = context;
    char line[SIM_LINE];
    if (!world->sim.trace->on)
        return;
    eplb_log_format(record, line, sizeof line);
    SIM_TRACE(&world->sim, "manager", SIM_NOBODY, "%s", line);
}

static void create_manager(struct world *world, const struct eplb_executor_core *living, uint64_t first_token)
{
    const struct sim_config *config = &world->config;
    struct sim_engine *engine = &world->engine;
    const struct eplb_log_sink *log = world->sim.trace->on ? &engine->sink : NULL;
    struct eplb_manager_core_params params = {
        .shape = config->shape,
        .ops = config->greedy ? eplb_policy_find("greedy").ops : &failing_policy,
        .min_peak_load_improvement = config->threshold,
        .update_interval_ns = config->update_interval,
        .prepare_timeout_ns = config->prepare_timeout,
        .transfer_timeout_ns = config->transfer_timeout,
        .overlap = config->overlap,
        .first_token = first_token,
        .first_seq = engine->next_seq,
        .initial = living == NULL ? NULL : eplb_executor_core_tables(living),
        .generations = living == NULL ? NULL : eplb_executor_core_generations(living),
        .weight_versions = living == NULL ? NULL : eplb_executor_core_versions(living),
        .initial_weights = living == NULL ? NULL : eplb_executor_core_replica_weights(living),
        .replica_routing = config->routing,
        .weights_decay = config->weights_decay,
        .shift_trigger = config->shift_trigger,
        .min_tokens_per_layer = config->min_tokens_per_layer,
        .log = log,
        .policy_log = log,
    };
    struct eplb_error error;
    if (eplb_manager_core_create(&params, &engine->manager, &error) != EPLB_OK)
        sim_fail(&world->sim, "engine", "%s", error.text);
}

void sim_engine_init(struct world *world)
{
    struct sim_engine *engine = &world->engine;
    engine->sink = (struct eplb_log_sink){sizeof engine->sink, world, log_line};
    engine->next_seq = world->config.first_seq;
    create_manager(world, NULL, world->config.first_token);
    sim_after(&world->sim, 0, SIM_NOBODY, submit, 0);
    sim_after(&world->sim, SIM_MILLISECOND, SIM_NOBODY, tick, 0);
}

void sim_engine_destroy(struct world *world)
{
    eplb_manager_core_destroy(world->engine.manager);
    world->engine.manager = NULL;
}

/** A weight update that all ranks must leave out: of another generation, or not legal. */
static void add_stray_weights(struct world *world, struct eplb_command *command, int32_t *weights)
{
    const struct eplb_shape *shape = &world->config.shape;
    int32_t layer = (int32_t)sim_below(&world->sim, shape->num_layers);
    if (command->num_weight_updates == EPLB_MAX_WEIGHT_UPDATES || layer == command->update_layer_id)
        return;
    for (int32_t i = 0; i < command->num_weight_updates; i++)
        if (command->weight_updates[i].layer == layer)
            return;
    int32_t scratch[SIM_EXPERTS];
    uint64_t generation = world->checks.book.generations[layer];
    eplb_weights_equal(shape, sim_book_table(world, layer, generation), scratch, weights);
    bool illegal = sim_chance(&world->sim, 500) && weights[0] > 1;
    if (illegal)
        weights[0]--;
    else
        generation += sim_chance(&world->sim, 500) && generation > 0 ? UINT64_MAX : SIM_BOOK_TABLES;
    world->sim.counts[illegal ? SIM_COUNT_WEIGHTS_ILLEGAL : SIM_COUNT_WEIGHTS_CONFUSED]++;
    command->weight_updates[command->num_weight_updates++] = (struct eplb_weight_update){
        .layer = layer, .generation = generation, .version = UINT64_C(1) << 40, .weights = weights};
}

/** Confused: the engine has another base in mind than the manager, in one command. */
static void give_command(struct world *world, struct sim_forward *forward, struct eplb_command command)
{
    bool has_prepare = command.prepare_layer_id != EPLB_NO_LAYER;
    bool confused =
        has_prepare && !world->engine.calm && sim_chance(&world->sim, world->config.faults.prepare_confused);
    if (confused) {
        SIM_COUNT(&world->sim, PREPARES_CONFUSED);
        if (sim_chance(&world->sim, 500))
            command.base_generation++;
        else
            command.base_hash ^= 1;
    }
    if (has_prepare)
        sim_book_note_plan(world, &command, confused);
    forward->activates = command.update_layer_id != EPLB_NO_LAYER;
    if (forward->activates) {
        world->checks.book.record_confused =
            !world->engine.calm && sim_chance(&world->sim, world->config.faults.activation_confused);
        if (world->checks.book.record_confused)
            command.update_prepare_token.value += UINT64_C(1) << 32;
        world->sim.counts[SIM_COUNT_ACTIVATIONS_CONFUSED] += world->checks.book.record_confused;
    }
    forward->says_something = has_prepare || forward->activates || command.num_weight_updates > 0;
    int32_t stray[SIM_SLOTS];
    if (!world->engine.calm && sim_chance(&world->sim, world->config.faults.weights_confused))
        add_stray_weights(world, &command, stray);
    eplb_command_encode(&world->config.shape, &command, forward->command);
}

static void act(struct world *world, const struct eplb_manager_action *action, struct sim_forward *forward)
{
    sim_check_action(world, action);
    switch (action->type) {
    case EPLB_MANAGER_COMMAND:
        sim_check_submitted(world, forward, action->command);
        sim_check_weights_submitted(world, forward, action->command);
        give_command(world, forward, *action->command);
        break;
    case EPLB_MANAGER_OPEN_RECORD:
        sim_record_open(world, action->token);
        break;
    case EPLB_MANAGER_ABORT_RECORD:
        sim_record_abort(world, action->token);
        break;
    case EPLB_MANAGER_RUN_POLICY:
        world->engine.policy_running = true;
        sim_after(&world->sim, sim_below(&world->sim, 10 * SIM_MILLISECOND), SIM_NOBODY, run_policy, 0);
        break;
    case EPLB_MANAGER_SOLVE_WEIGHTS:
        world->engine.solving = true;
        sim_after(&world->sim, sim_below(&world->sim, 5 * SIM_MILLISECOND), SIM_NOBODY, solve, 0);
        break;
    case EPLB_MANAGER_COMMITTED:
    case EPLB_MANAGER_ABORTED:
        break;
    case EPLB_MANAGER_STOP:
        sim_fail(&world->sim, "manager", "the manager stopped the run: %s", action->error->text);
    }
}

/** One event; forward is the one that it hands out, else NULL. */
static void step(struct world *world, const struct eplb_manager_event *event, struct sim_forward *forward)
{
    eplb_manager_core_step(world->engine.manager, event, world->sim.now);
    struct eplb_manager_action action;
    while (eplb_manager_core_next(world->engine.manager, &action))
        act(world, &action, forward);
    sim_check_clocks(world, event);
    sim_check_windows(world);
    sim_check_status(world);
}

static void policy_done(struct world *world, int32_t nobody, uint64_t status)
{
    (void)nobody;
    if (world->engine.stopping)
        SIM_COUNT(&world->sim, POLICY_DISCARDED);
    world->engine.policy_running = false;
    sim_check_policy_done(world);
    step(world,
         &(struct eplb_manager_event){.type = EPLB_MANAGER_POLICY_DONE, .status = (enum eplb_status)status},
         NULL);
    submit_soon(world);
}

static void run_policy(struct world *world, int32_t nobody, uint64_t unused)
{
    (void)nobody;
    (void)unused;
    SIM_COUNT(&world->sim, POLICY_RUNS);
    policy_fails = !world->engine.calm && sim_chance(&world->sim, world->config.faults.policy_fail);
    struct eplb_error error;
    enum eplb_status status = eplb_manager_core_run_policy(world->engine.manager, &error);
    if (status != EPLB_OK)
        SIM_COUNT(&world->sim, POLICY_FAILURES);
    sim_after(&world->sim, sim_below(&world->sim, 10 * SIM_MILLISECOND), SIM_NOBODY, policy_done, status);
}

static void weights_done(struct world *world, int32_t nobody, uint64_t unused)
{
    struct sim_engine *engine = &world->engine;
    (void)nobody;
    (void)unused;
    engine->solving = false;
    sim_check_weights_done(world);
    step(world,
         &(struct eplb_manager_event){
             .type = EPLB_MANAGER_WEIGHTS_DONE, .weights = engine->solved, .num_weights = engine->num_solved},
         NULL);
    submit_soon(world);
}

static int64_t frozen(void *context)
{
    (void)context;
    return 0;
}

/** With a budget of nothing the worst layer only. */
static void solve(struct world *world, int32_t nobody, uint64_t unused)
{
    static const struct eplb_clock clock = {.size = sizeof clock, .now = frozen};
    struct sim_engine *engine = &world->engine;
    (void)nobody;
    (void)unused;
    SIM_COUNT(&world->sim, SOLVES);
    int64_t budget = sim_chance(&world->sim, 300) ? 0 : 1;
    const struct eplb_weight_update *solved =
        eplb_manager_core_solve_weights(engine->manager, &clock, budget, &engine->num_solved);
    memcpy(engine->solved, solved, (size_t)engine->num_solved * sizeof *solved);
    sim_after(&world->sim, sim_below(&world->sim, 10 * SIM_MILLISECOND), SIM_NOBODY, weights_done, 0);
}

static void tick(struct world *world, int32_t nobody, uint64_t unused)
{
    (void)nobody;
    (void)unused;
    step(world, &(struct eplb_manager_event){.type = EPLB_MANAGER_TICK}, NULL);
    sim_check_end(world);
    sim_after(&world->sim, sim_between(&world->sim, 2, 20) * SIM_MILLISECOND, SIM_NOBODY, tick, 0);
}

/* ------------------------------------------------------------------------------- a new manager */

/** A number above every token in the ranks' levels. */
static uint64_t draw_first_token(struct world *world)
{
    uint64_t highest = 0;
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++) {
        struct eplb_worker_levels levels = eplb_executor_core_levels(world->ranks[rank].core);
        if (levels.prepare_token.value > highest)
            highest = levels.prepare_token.value;
        if (levels.activation_token.value > highest)
            highest = levels.activation_token.value;
    }
    return highest + 1 + (uint64_t)sim_below(&world->sim, 3);
}

/** Between forwards a new manager takes over from the old one: it asks the ranks what they run. */
static void restart(struct world *world)
{
    struct sim_engine *engine = &world->engine;
    const struct eplb_executor_core *any = world->ranks[0].core;
    uint64_t before = allocations_counted();
    SIM_COUNT(&world->sim, RESTARTS);
    if (world->checks.num_published != world->checks.num_finished)
        SIM_COUNT(&world->sim, RESTARTS_OPEN);
    sim_engine_destroy(world);
    uint64_t first_token = draw_first_token(world);
    SIM_TRACE(&world->sim, "engine", SIM_NOBODY, "a new manager takes over");
    create_manager(world, any, first_token);
    sim_book_restart(world, first_token);
    sim_book_weights_restart(world);
    engine->restarting = false;
    engine->runs_before_calm = 0;
    world->num_restart_allocations += allocations_counted() - before;
}

/* ---------------------------------------------------------------------------------- submitting */

static void submit_soon(struct world *world)
{
    struct sim_engine *engine = &world->engine;
    if (engine->restarting && engine->num_flights == 0 && !engine->policy_running && !engine->solving &&
        !engine->stopping && engine->num_killed == 0)
        restart(world);
    if (engine->submit_pending || engine->stopping || engine->draining || engine->restarting ||
        engine->num_flights > world->config.overlap)
        return;
    int64_t gap = sim_below(&world->sim, SIM_MILLISECOND);
    if (!engine->calm && sim_chance(&world->sim, world->config.idle)) {
        gap = sim_below(&world->sim, 3 * world->config.prepare_timeout);
        if (gap > world->config.prepare_timeout && world->checks.prepare.layer != EPLB_NO_LAYER)
            SIM_COUNT(&world->sim, IDLE_GAPS);
    }
    engine->submit_pending = true;
    sim_after(&world->sim, gap, SIM_NOBODY, submit, 0);
}

static void remove_flight(struct world *world, uint64_t seq)
{
    struct sim_engine *engine = &world->engine;
    if (engine->flights[0] == seq)
        engine->flights[0] = engine->flights[1];
    engine->num_flights--;
}

static void drop(struct world *world, struct sim_forward *forward)
{
    SIM_TRACE(&world->sim, "engine", SIM_NOBODY, "drops forward %" PRIu64, forward->seq);
    SIM_COUNT(&world->sim, DROPS);
    remove_flight(world, forward->seq);
    sim_check_dropped(world, forward->seq);
    sim_check_weights_dropped(world, forward);
    step(world, &(struct eplb_manager_event){.type = EPLB_MANAGER_DROPPED, .seq = forward->seq}, NULL);
    submit_soon(world);
}

static void try_feed(struct world *world);

/** Commands that say something are dropped more often. */
static bool gets_dropped(struct world *world, const struct sim_forward *forward)
{
    int32_t chance = world->config.faults.drop * (forward->says_something ? 3 : 1);
    if (world->engine.stopping)
        return sim_chance(&world->sim, 500);
    bool has_place = forward->seq - world->engine.flights[0] < SIM_FORWARDS / 2;
    return has_place && !world->engine.calm && sim_chance(&world->sim, chance);
}

/** The forward's turn has come: it is dropped, or given to all ranks, one after the other. */
static void hand_out(struct world *world, int32_t nobody, uint64_t seq)
{
    struct sim *sim = &world->sim;
    struct sim_forward *forward = sim_forward_at(world, seq);
    (void)nobody;
    if (gets_dropped(world, forward)) {
        drop(world, forward);
        return;
    }
    forward->given = true;
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++) {
        int64_t *last = &world->ranks[rank].last_given;
        int64_t at = sim->now + sim_below(sim, SIM_MILLISECOND);
        *last = at > *last ? at : *last;
        sim_after(sim, *last - sim->now, rank, sim_rank_give, seq);
        if (world->group.dead[rank])
            forward->arrivals[rank] = SIM_MISSING;
    }
    try_feed(world);
}

/** Deaths come soon after their forward, or soon after the first activation from there on. */
static void kill_some_rank(struct world *world, bool activates)
{
    const struct sim_config *config = &world->config;
    struct sim_engine *engine = &world->engine;
    bool its_time = engine->num_killed < config->num_deaths &&
                    engine->num_submitted >= config->death_forwards[engine->num_killed] &&
                    (activates || !config->deaths_await_activation);
    if (!its_time || engine->calm)
        return;
    engine->num_killed++;
    int32_t rank = (int32_t)sim_below(&world->sim, config->shape.ep_size);
    sim_after(&world->sim, sim_below(&world->sim, 20 * SIM_MILLISECOND), rank, sim_rank_kill, 0);
}

static void pause_some_rank(struct world *world)
{
    struct sim *sim = &world->sim;
    const struct sim_config *config = &world->config;
    if (world->engine.calm || !sim_chance(sim, config->faults.pause))
        return;
    int32_t rank = (int32_t)sim_below(sim, config->shape.ep_size);
    if (world->ranks[rank].paused_until > sim->now)
        return;
    int64_t lengths[] = {20 * SIM_MILLISECOND, 2 * config->transfer_timeout, 3 * config->prepare_timeout};
    int64_t length = sim_below(sim, lengths[sim_below(sim, 3)]);
    world->ranks[rank].paused_until = sim->now + length;
    SIM_COUNT(sim, PAUSES);
    SIM_TRACE(sim, "rank", rank, "is paused for %.3f ms", (double)length / 1e6);
}

static void begin_calm(struct world *world)
{
    struct sim_engine *engine = &world->engine;
    if (engine->calm)
        return;
    struct eplb_manager_status status;
    eplb_manager_core_status(engine->manager, world->sim.now, &status);
    SIM_TRACE(&world->sim, "engine", SIM_NOBODY, "no more faults from here on");
    engine->calm = true;
    engine->calm_since = world->sim.now;
    engine->runs_before_calm = status.policy_runs;
}

static void submit(struct world *world, int32_t nobody, uint64_t unused)
{
    struct sim_engine *engine = &world->engine;
    (void)nobody;
    (void)unused;
    engine->submit_pending = false;
    if (engine->stopping || engine->draining || engine->restarting)
        return;
    struct sim_forward *forward = sim_forward_at(world, engine->next_seq);
    memset(forward, 0, sizeof *forward);
    forward->seq = engine->next_seq++;
    forward->submitted_at = world->sim.now;
    sim_traffic_draw(world, forward);
    SIM_COUNT(&world->sim, FORWARDS);
    if (forward->warmup)
        SIM_COUNT(&world->sim, WARMUPS);
    if (engine->num_flights > 0)
        SIM_COUNT(&world->sim, OVERLAPS);
    engine->flights[engine->num_flights++] = forward->seq;
    engine->num_submitted++;
    step(world,
         &(struct eplb_manager_event){.type = EPLB_MANAGER_SUBMIT,
                                      .seq = forward->seq,
                                      .batches = forward->batches,
                                      .num_batches = world->config.shape.ep_size,
                                      .warmup = forward->warmup},
         forward);
    bool slow = !engine->calm && sim_chance(&world->sim, world->config.slow_hand_out);
    int64_t at = world->sim.now + sim_below(&world->sim, (slow ? 40 : 2) * SIM_MILLISECOND);
    engine->last_hand_out = at > engine->last_hand_out ? at : engine->last_hand_out;
    sim_after(&world->sim, engine->last_hand_out - world->sim.now, SIM_NOBODY, hand_out, forward->seq);
    kill_some_rank(world, forward->activates);
    pause_some_rank(world);
    if (engine->num_submitted == world->config.num_forwards)
        begin_calm(world);
    if (engine->num_submitted == world->config.restart_forward && engine->num_killed == 0)
        engine->restarting = true;
    submit_soon(world);
}

/* ------------------------------------------------------------------------------------- outputs */

static void feed(struct world *world, int32_t nobody, uint64_t seq)
{
    struct sim_engine *engine = &world->engine;
    struct sim_forward *forward = sim_forward_at(world, seq);
    int32_t ranks = world->config.shape.ep_size;
    (void)nobody;
    engine->feed_pending = false;
    for (int32_t rank = 0; rank < ranks; rank++)
        if (forward->arrivals[rank] == SIM_MISSING)
            forward->outputs[rank] = (struct eplb_worker_output){
                .size = sizeof forward->outputs[rank], .seq = seq, .ep_rank = rank};
    remove_flight(world, seq);
    sim_check_sample(world, forward);
    sim_check_outputs(world, forward);
    step(world,
         &(struct eplb_manager_event){
             .type = EPLB_MANAGER_OUTPUTS, .seq = seq, .outputs = forward->outputs, .num_outputs = ranks},
         NULL);
    submit_soon(world);
    try_feed(world);
}

/** Outputs are processed in order of the forwards, each when all ranks' are there or known to be lost. */
static void try_feed(struct world *world)
{
    struct sim_engine *engine = &world->engine;
    if (engine->feed_pending || engine->num_flights == 0)
        return;
    struct sim_forward *oldest = sim_forward_at(world, engine->flights[0]);
    if (!oldest->given)
        return;
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++)
        if (oldest->arrivals[rank] == SIM_AWAITED)
            return;
    engine->feed_pending = true;
    sim_after(&world->sim, sim_below(&world->sim, SIM_MILLISECOND), SIM_NOBODY, feed, oldest->seq);
}

/* An arrival is named by the forward and the rank: it is on its way even when the rank is dead. */
enum { RANK_BITS = 4, LOST_BIT = 1 << RANK_BITS, SEQ_SHIFT = RANK_BITS + 1 };

static void arrive(struct world *world, int32_t nobody, uint64_t name)
{
    int32_t rank = (int32_t)(name & ((1u << RANK_BITS) - 1));
    struct sim_forward *forward = sim_forward_at(world, name >> SEQ_SHIFT);
    (void)nobody;
    if (forward->seq != name >> SEQ_SHIFT || forward->arrivals[rank] != SIM_AWAITED)
        return;
    forward->arrivals[rank] = name & LOST_BIT ? SIM_MISSING : SIM_ARRIVED;
    try_feed(world);
}

static bool output_gets_lost(struct world *world, int32_t rank)
{
    struct sim_engine *engine = &world->engine;
    const struct sim_faults *faults = &world->config.faults;
    if (engine->calm)
        return false;
    if (engine->silent_left == 0 && sim_chance(&world->sim, faults->output_silence)) {
        engine->silent_rank = rank;
        engine->silent_left = (int32_t)sim_between(&world->sim, 2, 80);
    }
    if (engine->silent_left > 0 && engine->silent_rank == rank) {
        engine->silent_left--;
        return true;
    }
    return sim_chance(&world->sim, faults->output_lost);
}

static int64_t draw_output_delay(struct world *world)
{
    if (!world->engine.calm && sim_chance(&world->sim, world->config.faults.output_late))
        return sim_below(&world->sim, 3 * world->config.prepare_timeout);
    return sim_below(&world->sim, SIM_MILLISECOND);
}

/** A prefix that falls, or starts below zero. */
static void corrupt(struct world *world, int64_t *prefix)
{
    int32_t layer = (int32_t)sim_below(&world->sim, world->config.shape.num_layers);
    int32_t slots = world->config.shape.slots_per_rank;
    prefix[layer * slots + sim_below(&world->sim, slots)] = -1;
}

static void encode_output(struct world *world, int32_t rank, struct sim_forward *forward,
                          unsigned char *record)
{
    const struct eplb_shape *shape = &world->config.shape;
    int64_t prefix[SIM_LAYERS * SIM_LOCAL_SLOTS];
    struct eplb_error error;
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        if (eplb_prefix_encode(forward->counts[rank][layer], (size_t)shape->slots_per_rank,
                               prefix + layer * shape->slots_per_rank, &error) != EPLB_OK)
            sim_fail(&world->sim, "engine", "%s", error.text);
    if (forward->corrupt[rank])
        corrupt(world, prefix);
    const struct eplb_executor_core *core = world->ranks[rank].core;
    struct eplb_worker_output output = {.size = sizeof output,
                                        .seq = forward->seq,
                                        .ep_rank = rank,
                                        .num_layers = shape->num_layers,
                                        .slots_per_rank = shape->slots_per_rank,
                                        .prefix = prefix,
                                        .generations = eplb_executor_core_ran_generations(core),
                                        .weight_versions = eplb_executor_core_ran_versions(core),
                                        .levels = eplb_executor_core_levels(core)};
    eplb_worker_output_encode(shape, &output, record);
}

void sim_engine_send_output(struct world *world, int32_t rank, struct sim_forward *forward)
{
    struct sim *sim = &world->sim;
    unsigned char record[SIM_RECORD_BYTES];
    struct eplb_error error;
    forward->corrupt[rank] = !world->engine.calm && sim_chance(sim, world->config.faults.prefix_corrupt);
    encode_output(world, rank, forward, record);
    if (eplb_worker_output_decode(&world->config.shape, record, forward->prefixes[rank],
                                  forward->reported[rank], forward->reported_versions[rank],
                                  &forward->outputs[rank], &error) != EPLB_OK)
        sim_fail(sim, "engine", "rank %d, forward %" PRIu64 ": %s", rank, forward->seq, error.text);
    uint64_t name = forward->seq << SEQ_SHIFT | (uint64_t)rank;
    bool lost = output_gets_lost(world, rank);
    if (lost)
        SIM_COUNT(sim, OUTPUTS_LOST);
    sim_check_reported(world, rank, forward);
    sim_after(sim, draw_output_delay(world), SIM_NOBODY, arrive, name | (lost ? LOST_BIT : 0));
    if (lost || world->engine.calm || !sim_chance(sim, world->config.faults.output_twice))
        return;
    SIM_COUNT(sim, OUTPUTS_TWICE);
    sim_after(sim, draw_output_delay(world), SIM_NOBODY, arrive, name);
}

/* -------------------------------------------------------------------------------------- deaths */

static void notice(struct world *world, int32_t nobody, uint64_t dead)
{
    struct sim_engine *engine = &world->engine;
    (void)nobody;
    SIM_TRACE(&world->sim, "engine", SIM_NOBODY, "notices that rank %d is dead", (int32_t)dead);
    engine->stopping = true;
    begin_calm(world);
    engine->calm_since = world->sim.now;
    sim_check_told_dead(world, (int32_t)dead);
    step(world, &(struct eplb_manager_event){.type = EPLB_MANAGER_RANK_DEAD, .rank = (int32_t)dead}, NULL);
    sim_group_member_dead(world, (int32_t)dead);
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++)
        sim_after(&world->sim, sim_below(&world->sim, 5 * SIM_MILLISECOND), rank, sim_rank_tell_dead, 0);
    for (int32_t i = 0; i < engine->num_flights; i++) {
        struct sim_forward *forward = sim_forward_at(world, engine->flights[i]);
        if (forward->given && forward->arrivals[dead] == SIM_AWAITED)
            forward->arrivals[dead] = SIM_MISSING;
    }
    try_feed(world);
}

void sim_engine_lost_rank(struct world *world, int32_t rank)
{
    int64_t most = sim_chance(&world->sim, 100) ? SIM_SECOND : 50 * SIM_MILLISECOND;
    world->engine.num_notices++;
    sim_after(&world->sim, sim_below(&world->sim, most), SIM_NOBODY, notice, (uint64_t)rank);
}
