/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/check.h"

#include <string.h>

#include "sim/world.h"

static bool is_whole(const struct world *world, const struct sim_forward *forward, bool *corrupt)
{
    *corrupt = false;
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++) {
        if (forward->arrivals[rank] != SIM_ARRIVED)
            return false;
        *corrupt = *corrupt || forward->corrupt[rank];
    }
    return true;
}

/** The rows that a layer adds, under the generation that it really ran under. */
static int64_t add_layer(struct world *world, const struct sim_forward *forward, int32_t layer)
{
    const struct eplb_shape *shape = &world->config.shape;
    struct sim_window *open = &world->checks.open;
    uint64_t generation = forward->generations[0][layer];
    uint64_t committed = world->checks.committed[layer];
    uint64_t kept = (uint64_t)world->config.overlap + 2;
    if (generation > committed)
        SIM_COUNT(&world->sim, SAMPLES_AHEAD);
    if (generation > committed || generation + kept <= committed)
        return 0;
    const int32_t *table = sim_book_table(world, layer, generation);
    uint64_t version = forward->versions[0][layer];
    if (generation == committed && version > open->versions[layer]) {
        memset(open->physical[layer], 0, sizeof open->physical[layer]);
        open->versions[layer] = version;
    }
    int64_t added = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int64_t count = forward->counts[slot / shape->slots_per_rank][layer][slot % shape->slots_per_rank];
        added += count;
        open->logical[layer][table[slot]] += count;
        if (generation == committed && version == open->versions[layer])
            open->physical[layer][slot] += count;
    }
    return added;
}

/** Before the step that brings the outputs. */
void sim_check_sample(struct world *world, const struct sim_forward *forward)
{
    struct sim_checks *checks = &world->checks;
    bool corrupt;
    if (forward->warmup)
        return;
    if (!is_whole(world, forward, &corrupt)) {
        SIM_COUNT(&world->sim, SAMPLES_LACKING);
        return;
    }
    if (corrupt) {
        SIM_COUNT(&world->sim, SAMPLES_CORRUPT);
        return;
    }
    SIM_COUNT(&world->sim, SAMPLES);
    sim_check_weights_rows(world, forward);
    int64_t added = 0;
    for (int32_t layer = 0; layer < world->config.shape.num_layers; layer++)
        added += add_layer(world, forward, layer);
    checks->sample_since_run = true;
    checks->window_samples++;
    checks->window_rows += added;
    if (added == 0 || checks->timer_armed)
        return;
    checks->timer_armed = true;
    checks->timer_due = world->sim.now + world->config.update_interval;
}

void sim_check_window_commit(struct world *world, int32_t layer)
{
    memset(world->checks.open.physical[layer], 0, sizeof world->checks.open.physical[layer]);
    world->checks.open.versions[layer] = 0;
}

/** What rule 2 asks of the window that a policy run closes. */
bool sim_check_has_tokens(const struct world *world)
{
    const struct sim_checks *checks = &world->checks;
    const struct eplb_shape *shape = &world->config.shape;
    int64_t least = world->config.min_tokens_per_layer;
    if (least == 0 && checks->shifted)
        least = 128 * (int64_t)shape->num_experts;
    return checks->window_rows / shape->num_layers >= least &&
           (!checks->shifted || checks->window_samples >= 8);
}

void sim_check_window_close(struct world *world)
{
    world->checks.window_samples = 0;
    world->checks.window_rows = 0;
    world->checks.closed = world->checks.open;
    memset(&world->checks.open, 0, sizeof world->checks.open);
    memcpy(world->checks.open.versions, world->checks.closed.versions, sizeof world->checks.open.versions);
}

static void compare(struct world *world, const struct sim_window *mine, const struct eplb_window *window,
                    const char *which)
{
    const struct eplb_shape *shape = &world->config.shape;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        const int64_t *logical = window->logical + layer * shape->num_experts;
        const int64_t *physical = window->physical + layer * shape->num_slots;
        if (memcmp(mine->logical[layer], logical, (size_t)shape->num_experts * sizeof *logical) != 0)
            sim_fail(&world->sim, "window", "the %s window's logical load of layer %d is not what was routed",
                     which, layer);
        if (memcmp(mine->physical[layer], physical, (size_t)shape->num_slots * sizeof *physical) != 0)
            sim_fail(
                &world->sim, "window",
                "the %s window's physical load of layer %d is not what this placement was measured under",
                which, layer);
    }
}

void sim_check_windows(struct world *world)
{
    const struct eplb_manager_core *manager = world->engine.manager;
    compare(world, &world->checks.open, eplb_manager_core_window(manager), "open");
    compare(world, &world->checks.closed, eplb_manager_core_closed_window(manager), "closed");
}
