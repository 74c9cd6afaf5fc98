/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/check.h"

#include <inttypes.h>

#include "sim/world.h"

void sim_check_hook_failed(struct world *world, int32_t rank, uint64_t prepare_token)
{
    if (world->checks.ranks[rank].prepare_taken == prepare_token)
        world->checks.ranks[rank].prepare_hook_failed = true;
}

void sim_check_operation_failed(struct world *world, int32_t rank, uint64_t token)
{
    if (world->checks.ranks[rank].token == token)
        world->checks.ranks[rank].operation_failed = true;
}

void sim_check_finishing(struct world *world, int32_t rank)
{
    struct sim_watched_rank *self = &world->checks.ranks[rank];
    if (!self->finishing)
        self->finishing_since = world->sim.now;
    self->finishing = true;
}

void sim_check_dies(struct world *world, int32_t rank)
{
    const struct sim_watched_rank *self = &world->checks.ranks[rank];
    enum eplb_decision decision = sim_record_read(&world->group, (struct eplb_activation_token){self->token});
    if (!self->resolved && self->voted_yes && decision == EPLB_UNDECIDED)
        SIM_COUNT(&world->sim, DEATHS_AFTER_YES);
    if (world->checks.activation.token == self->token && world->checks.activation.layer != EPLB_NO_LAYER &&
        decision == EPLB_COMMIT)
        SIM_COUNT(&world->sim, DEATHS_AFTER_COMMIT);
}

static bool is_explained(struct world *world, int32_t rank, enum eplb_reason reason)
{
    struct sim *sim = &world->sim;
    const struct sim_watched_rank *self = &world->checks.ranks[rank];
    switch (reason) {
    case EPLB_REASON_HOOK_FAILED:
        SIM_COUNT(sim, KEPT_HOOK);
        return self->materialise_failed;
    case EPLB_REASON_TRANSFER_FAILED:
        SIM_COUNT(sim, KEPT_TRANSFER);
        return self->operation_failed;
    case EPLB_REASON_DEADLINE:
        SIM_COUNT(sim, KEPT_DEADLINE);
        return self->finishing && sim->now - self->finishing_since >= world->config.transfer_timeout;
    case EPLB_REASON_ABORTED_BY_ANOTHER:
        SIM_COUNT(sim, KEPT_PEER);
        return true;
    case EPLB_REASON_STEP_ABORTED:
        SIM_COUNT(sim, KEPT_DEAD);
        return world->ranks[rank].told;
    case EPLB_REASON_NO_PLAN:
        SIM_COUNT(sim, KEPT_NO_PLAN);
        return world->checks.book.record_confused;
    case EPLB_REASON_STORAGE_CHANGED:
        SIM_COUNT(sim, KEPT_STORAGE);
        return world->config.faults.reload > 0;
    default:
        return false;
    }
}

static void check_outcome(struct world *world, int32_t rank, const struct eplb_worker_levels *levels)
{
    struct sim_watched_rank *self = &world->checks.ranks[rank];
    struct sim *sim = &world->sim;
    uint64_t token = levels->activation_token.value;
    enum eplb_decision decision = sim_record_read(&world->group, levels->activation_token);
    bool switched = levels->activation_outcome == EPLB_ACTIVATION_SWITCHED;
    if (token != self->token)
        sim_fail(sim, "levels", "rank %d reports activation %" PRIu64 " where it took %" PRIu64 " last", rank,
                 token, self->token);
    if (self->resolved)
        return;
    if (decision == EPLB_UNDECIDED || switched != (decision == EPLB_COMMIT) || switched != self->switched)
        sim_fail(sim, "record", "rank %d reports activation %" PRIu64 " as %s against its record", rank,
                 token, switched ? "switched" : "kept");
    int32_t outstanding = sim_group_outstanding(&world->group, rank, token);
    if (outstanding > 0)
        sim_fail(sim, "record", "rank %d reports activation %" PRIu64 " with %d operations outstanding", rank,
                 token, outstanding);
    if (switched ? levels->activation_reason != EPLB_REASON_NONE
                 : !is_explained(world, rank, levels->activation_reason))
        sim_fail(sim, "levels", "rank %d kept activation %" PRIu64 " without cause: %s", rank, token,
                 eplb_reason_text(levels->activation_reason));
    self->resolved = true;
}

static void check_prepare(struct world *world, int32_t rank, const struct eplb_worker_levels *levels)
{
    const struct sim_watched_rank *self = &world->checks.ranks[rank];
    struct sim *sim = &world->sim;
    uint64_t token = levels->prepare_token.value;
    if (token != self->prepare_taken)
        sim_fail(sim, "levels", "rank %d reports prepare %" PRIu64 " where it took %" PRIu64 " last", rank,
                 token, self->prepare_taken);
    if (token == 0 || token == self->levels.prepare_token.value)
        return;
    bool failed = levels->prepare_status == EPLB_PREPARE_FAILED;
    bool confused = sim_book_plan(world, token)->confused;
    if (confused && !failed)
        sim_fail(sim, "levels", "rank %d prepares %" PRIu64 " from a base that it does not run", rank, token);
}

/** A failure has its cause; an end is final. */
static void check_prepare_status(struct world *world, int32_t rank, const struct eplb_worker_levels *levels)
{
    const struct sim_watched_rank *self = &world->checks.ranks[rank];
    struct sim *sim = &world->sim;
    uint64_t token = levels->prepare_token.value;
    bool is_same = token == self->levels.prepare_token.value;
    if (is_same && self->levels.prepare_status != EPLB_PREPARE_RUNNING &&
        levels->prepare_status != self->levels.prepare_status)
        sim_fail(sim, "levels", "rank %d changes its mind about prepare %" PRIu64, rank, token);
    bool explained = levels->prepare_reason == EPLB_REASON_NONE;
    if (levels->prepare_reason == EPLB_REASON_HOOK_FAILED)
        explained = self->prepare_hook_failed;
    if (levels->prepare_reason == EPLB_REASON_BASE_GENERATION ||
        levels->prepare_reason == EPLB_REASON_BASE_HASH)
        explained = is_same || sim_book_plan(world, token)->confused;
    if (levels->prepare_reason == EPLB_REASON_STEP_ABORTED)
        explained = world->ranks[rank].told;
    if (!explained)
        sim_fail(sim, "levels", "rank %d failed prepare %" PRIu64 " without cause: %s", rank, token,
                 eplb_reason_text(levels->prepare_reason));
}

void sim_check_levels(struct world *world, int32_t rank, const struct eplb_worker_levels *levels)
{
    check_outcome(world, rank, levels);
    check_prepare(world, rank, levels);
    check_prepare_status(world, rank, levels);
    world->checks.ranks[rank].levels = *levels;
}
