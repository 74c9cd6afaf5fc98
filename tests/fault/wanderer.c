/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "fault/wanderer.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/tables.h"

#define MS INT64_C(1000000)

void wanderer_init(struct wanderer *wanderer, struct team *team, uint64_t seed, bool pauses)
{
    *wanderer = (struct wanderer){.pauses = pauses};
    eplb_prng_seed(&wanderer->prng, seed);
    director_init(&wanderer->director, team);
}

void wanderer_destroy(struct wanderer *wanderer)
{
    director_destroy(&wanderer->director);
}

int64_t wanderer_draw(struct wanderer *wanderer, int64_t bound)
{
    return (int64_t)eplb_prng_below(&wanderer->prng, (uint64_t)bound);
}

static bool chance(struct wanderer *wanderer, int64_t in)
{
    return wanderer_draw(wanderer, in) == 0;
}

static int32_t any_rank(struct wanderer *wanderer)
{
    return (int32_t)wanderer_draw(wanderer, wanderer->director.shape.ep_size);
}

/** Adds a prepare of a random table to the command; of another layer than it activates. */
static void prepare_any(struct wanderer *wanderer)
{
    struct director *director = &wanderer->director;
    int32_t table[TEAM_MAX_SLOTS];
    int32_t layers = director->shape.num_layers;
    wanderer->layer = (wanderer->layer + 1 + (int32_t)wanderer_draw(wanderer, layers - 1)) % layers;
    memcpy(table, director_table(director, wanderer->layer),
           (size_t)director->shape.num_slots * sizeof *table);
    tables_stir(&wanderer->prng, &director->shape, table, 1 + (int32_t)wanderer_draw(wanderer, 60));
    director_prepare(director, wanderer->layer, table);
}

void wanderer_begin(struct wanderer *wanderer)
{
    prepare_any(wanderer);
    assert_int_equal(director_await_prepared(&wanderer->director), EPLB_PREPARE_OK);
}

void wanderer_compose(struct wanderer *wanderer)
{
    director_activate(&wanderer->director);
    prepare_any(wanderer);
}

/** A forward in which, now and then, one rank does not run for a while, and the others must wait for it. */
static const struct eplb_worker_output *forward(struct wanderer *wanderer)
{
    struct director *director = &wanderer->director;
    struct team *team = director->team;
    int64_t begin = eplb_clock_system()->now(NULL);
    director_submit(director);
    if (wanderer->pauses && chance(wanderer, 4)) {
        int32_t rank = any_rank(wanderer);
        fleet_linger(team, rank, wanderer_draw(wanderer, 3 * MS / 2));
        fleet_signal(team, rank, SIGSTOP);
        fleet_linger(team, rank, MS + wanderer_draw(wanderer, 4 * MS));
        fleet_signal(team, rank, SIGCONT);
        wanderer->paused++;
    }
    const struct eplb_worker_output *outputs = director_collect(director);
    wanderer->forward_ns = eplb_clock_system()->now(NULL) - begin;
    return outputs;
}

void wanderer_round(struct wanderer *wanderer)
{
    struct director *director = &wanderer->director;
    int32_t rank = any_rank(wanderer);
    bool prepare_fails = chance(wanderer, 10);
    bool start_fails = chance(wanderer, 10);
    wanderer_compose(wanderer);
    fleet_set_mood(director->team, rank, STANDIN_START, start_fails ? STANDIN_FAILS : STANDIN_WORKS);
    fleet_set_mood(director->team, rank, STANDIN_PREPARE, prepare_fails ? STANDIN_FAILS : STANDIN_WORKS);
    enum eplb_activation_outcome outcome = director_outcome(director, forward(wanderer));
    assert_int_equal(outcome, start_fails ? EPLB_ACTIVATION_KEPT : EPLB_ACTIVATION_SWITCHED);
    wanderer->switched += outcome == EPLB_ACTIVATION_SWITCHED;
    wanderer->kept += outcome == EPLB_ACTIVATION_KEPT;
    director_check(director);
    fleet_set_mood(director->team, rank, STANDIN_START, STANDIN_WORKS);

    enum eplb_prepare_status status = director_await_prepared(director);
    assert_int_equal(status, prepare_fails ? EPLB_PREPARE_FAILED : EPLB_PREPARE_OK);
    fleet_set_mood(director->team, rank, STANDIN_PREPARE, STANDIN_WORKS);
    if (!prepare_fails)
        return;
    wanderer->failed++;
    wanderer_begin(wanderer);
}
