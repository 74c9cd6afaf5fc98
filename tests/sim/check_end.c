/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

#include "sim/world.h"

/** After every step: what the manager says of itself is what its commands and actions say. */
void sim_check_status(struct world *world)
{
    const struct sim_checks *checks = &world->checks;
    struct eplb_manager_status status;
    eplb_manager_core_status(world->engine.manager, world->sim.now, &status);
    bool prepares = checks->prepare.layer != EPLB_NO_LAYER;
    bool activates = checks->activation.layer != EPLB_NO_LAYER;
    if (status.preparing_layer != checks->prepare.layer ||
        status.activating_layer != checks->activation.layer ||
        (prepares && status.prepare_token.value != checks->prepare.token) ||
        (activates && status.activation_token.value != checks->activation.token) ||
        (prepares && status.ready != (checks->prepare.ready_at >= 0)))
        sim_fail(&world->sim, "manager",
                 "the status has layers %d%s and %d where %d%s is preparing and %d activating",
                 status.preparing_layer, status.ready ? " (ready)" : "", status.activating_layer,
                 checks->prepare.layer, checks->prepare.ready_at >= 0 ? " (ready)" : "",
                 checks->activation.layer);
    if (prepares && checks->prepare.layer == checks->activation.layer)
        sim_fail(&world->sim, "manager", "layer %d is preparing and activating", checks->prepare.layer);
    bool unsent = activates && !checks->activation.sent;
    if (checks->num_dead > 0 && (prepares || unsent || status.layers_waiting > 0))
        sim_fail(&world->sim, "manager", "a rank is dead and layers are still to come");
    struct eplb_activation_token token = {checks->activation.token};
    if (checks->num_dead > 0 && activates && sim_record_read(&world->group, token) == EPLB_UNDECIDED)
        sim_fail(&world->sim, "manager", "a rank is dead and activation %" PRIu64 " is not decided",
                 token.value);
}

/** All live ranks run what the manager has committed. */
static void check_agreement(struct world *world)
{
    const struct eplb_shape *shape = &world->config.shape;
    const struct eplb_manager_core *manager = world->engine.manager;
    size_t bytes = (size_t)shape->num_slots * sizeof(int32_t);
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        uint64_t generation = world->checks.book.generations[layer];
        const int32_t *table = sim_book_table(world, layer, generation);
        bool told = layer != world->checks.activation.layer;
        if (told && (eplb_manager_core_generation(manager, layer) != generation ||
                     memcmp(eplb_manager_core_tables(manager) + layer * shape->num_slots, table, bytes) != 0))
            sim_fail(&world->sim, "end", "layer %d: the manager's table is not what the records decided",
                     layer);
        for (int32_t rank = 0; rank < shape->ep_size; rank++) {
            const struct eplb_executor_core *core = world->ranks[rank].core;
            if (world->ranks[rank].dead)
                continue;
            if (eplb_executor_core_generations(core)[layer] != generation ||
                memcmp(eplb_executor_core_tables(core) + layer * shape->num_slots, table, bytes) != 0)
                sim_fail(&world->sim, "end",
                         "layer %d: rank %d runs generation %" PRIu64 " where the records decided %" PRIu64
                         ", or their tables differ",
                         layer, rank, eplb_executor_core_generations(core)[layer], generation);
        }
    }
}

static bool all_ranks_idle(const struct world *world)
{
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++)
        if (!world->ranks[rank].dead && world->ranks[rank].state != SIM_RANK_IDLE)
            return false;
    return true;
}

/**
 * The manager was not told how the activation ended, because the outputs that said so were lost and a
 * death ended the run before the next ones. Then the ranks agree, and the manager waits, rightly.
 */
static bool is_untold(const struct world *world)
{
    const struct sim_open_activation *activation = &world->checks.activation;
    bool untold = false;
    if (activation->layer == EPLB_NO_LAYER || !activation->sent || !world->engine.stopping)
        return false;
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++) {
        const struct sim_watched_rank *watched = &world->checks.ranks[rank];
        if (world->ranks[rank].dead)
            continue;
        if (watched->token != activation->token || !watched->resolved)
            return false;
        untold = untold || activation->outcomes[rank] == EPLB_ACTIVATION_NONE;
    }
    return untold;
}

static void finish(struct world *world)
{
    check_agreement(world);
    sim_check_weights_end(world);
    for (int32_t i = 0; i < SIM_OPS; i++)
        if (world->group.ops[i].used && !world->ranks[world->group.ops[i].rank].dead)
            sim_fail(&world->sim, "end", "an operation of rank %d is outstanding", world->group.ops[i].rank);
    world->over = true;
}

/** How long the calm may last before everything that had begun is over and a new round has started. */
static int64_t patience(const struct sim_config *config)
{
    int64_t layer = 4 * config->prepare_timeout + 3 * config->transfer_timeout;
    return config->update_interval + (config->shape.num_layers + 2) * layer + 2 * SIM_SECOND;
}

/** The run with a dead rank is over when the round is. */
static bool is_over_dead(struct world *world, const struct eplb_manager_status *status)
{
    const struct sim_checks *checks = &world->checks;
    if (status->policy_running || (status->round && !is_untold(world)))
        return false;
    uint64_t open = checks->num_published - checks->num_finished;
    if (open != (uint64_t)status->round)
        sim_fail(&world->sim, "end", "%" PRIu64 " published layers did not come to an end", open);
    return true;
}

/** At every tick: without faults things come to an end, and then all agree. */
void sim_check_end(struct world *world)
{
    struct sim_engine *engine = &world->engine;
    struct eplb_manager_status status;
    if (world->sim.now > 120 * SIM_SECOND)
        sim_fail(&world->sim, "end", "%d forwards in %d minutes", engine->num_submitted, 2);
    if (!engine->calm || engine->num_notices > world->checks.num_dead)
        return;
    eplb_manager_core_status(engine->manager, world->sim.now, &status);
    bool quiet = engine->num_flights == 0 && all_ranks_idle(world);
    if (quiet && (engine->stopping ? is_over_dead(world, &status) : engine->draining)) {
        finish(world);
        return;
    }
    if (status.policy_runs > engine->runs_before_calm)
        engine->draining = true;
    if (world->sim.now - engine->calm_since > patience(&world->config))
        sim_fail(&world->sim, "end",
                 "without faults for %.3f s: %d forwards in flight, preparing %d, activating %d, %d waiting, "
                 "no %s",
                 (double)(world->sim.now - engine->calm_since) / 1e9, engine->num_flights,
                 status.preparing_layer, status.activating_layer, status.layers_waiting,
                 engine->stopping ? "end of the round" : "new round");
}
