/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/check.h"

#include <inttypes.h>

#include "sim/world.h"

static const char checker[] = "clock";

/** Whether the prepare that is open may be given up now, for want of time. */
bool sim_check_timeout_due(const struct world *world)
{
    const struct sim_open_prepare *prepare = &world->checks.prepare;
    const struct sim_engine *engine = &world->engine;
    int64_t timeout = world->config.prepare_timeout;
    int64_t due = prepare->output_at < 0 ? prepare->sent_at + 2 * timeout : prepare->output_at + timeout;
    if (!prepare->sent || prepare->ready_at >= 0 || world->sim.now < due)
        return false;
    if (world->checks.fed > prepare->seq)
        return true;
    for (int32_t i = 0; i < engine->num_flights; i++) {
        const struct sim_forward *flight = &world->forwards[engine->flights[i] % SIM_FORWARDS];
        if (flight->seq > prepare->seq && world->sim.now - flight->submitted_at >= timeout)
            return true;
    }
    return false;
}

static void check_prepare(struct world *world, const struct eplb_manager_event *event)
{
    const struct sim_open_prepare *prepare = &world->checks.prepare;
    if (prepare->layer == EPLB_NO_LAYER)
        return;
    if (prepare->failed || world->checks.num_dead > 0)
        sim_fail(&world->sim, checker, "prepare %" PRIu64 " of layer %d cannot succeed and is not aborted",
                 prepare->token, prepare->layer);
    bool judges = event->type == EPLB_MANAGER_OUTPUTS || event->type == EPLB_MANAGER_TICK;
    if (judges && sim_check_timeout_due(world))
        sim_fail(&world->sim, checker, "prepare %" PRIu64 " of layer %d is late and is not aborted",
                 prepare->token, prepare->layer);
}

/** A shift is found between rounds only; the window restarts there. */
static void check_shift(struct world *world, const struct eplb_manager_status *status, bool round)
{
    struct sim_checks *checks = &world->checks;
    if (status->shifts == checks->shifts)
        return;
    if (status->shifts != checks->shifts + 1 || checks->shifted || round || checks->num_dead > 0 ||
        world->config.shift_trigger <= 0)
        sim_fail(&world->sim, checker, "a shift is found where none is looked for");
    checks->shifts++;
    checks->shifted = true;
    sim_check_window_close(world);
    SIM_COUNT(&world->sim, SHIFTS);
}

/** The policy runs when, and only when, rules 1 and 2 say so. */
static void check_round(struct world *world, const struct eplb_manager_status *status)
{
    struct sim_checks *checks = &world->checks;
    checks->num_published = status->layers_published;
    bool round = checks->policy_running || checks->num_published != checks->num_finished;
    check_shift(world, status, round);
    bool fired = checks->timer_armed && world->sim.now >= checks->timer_due;
    bool has_tokens = checks->policy_asked ? checks->had_tokens : sim_check_has_tokens(world);
    bool due = (fired || checks->shifted) && has_tokens && !round && checks->sample_since_run &&
               checks->num_dead == 0;
    if (due != checks->policy_asked)
        sim_fail(&world->sim, checker,
                 due ? "the policy is due and does not run" : "the policy runs and is not due");
    if (!due)
        return;
    if (!fired)
        SIM_COUNT(&world->sim, EARLY_ROUNDS);
    checks->shifted = false;
    checks->policy_running = true;
    checks->policy_asked = false;
    checks->sample_since_run = false;
    checks->timer_due = world->sim.now + world->config.update_interval;
}

static void check_stuck(struct world *world, const struct eplb_manager_status *status)
{
    struct sim_open_activation *activation = &world->checks.activation;
    if (activation->layer == EPLB_NO_LAYER)
        return;
    if (activation->sent && world->checks.fed > activation->seq && !activation->stuck &&
        world->sim.now - activation->sent_at >= 2 * world->config.transfer_timeout) {
        activation->stuck = true;
        SIM_COUNT(&world->sim, STUCK);
    }
    if (activation->stuck != status->activation_stuck)
        sim_fail(&world->sim, checker, "activation %" PRIu64 " is%s reported as stuck", activation->token,
                 activation->stuck ? " not" : "");
}

/** After every step of the manager. */
void sim_check_clocks(struct world *world, const struct eplb_manager_event *event)
{
    struct eplb_manager_status status;
    eplb_manager_core_status(world->engine.manager, world->sim.now, &status);
    check_prepare(world, event);
    check_round(world, &status);
    check_stuck(world, &status);
    world->checks.fed = 0;
}
