/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Random placements on eight ranks that come and go as they like, one after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/director.h"
#include "support/tables.h"

enum { ROUNDS = 500, SEED = 20240501 };

struct wanderer {
    struct director director;
    struct eplb_prng prng;
    int32_t layer; /* prepared; EPLB_NO_LAYER: none */
    int32_t switched, kept, failed;
};

static bool chance(struct wanderer *wanderer, uint64_t in)
{
    return eplb_prng_below(&wanderer->prng, in) == 0;
}

static int32_t draw(struct wanderer *wanderer, int32_t bound)
{
    return (int32_t)eplb_prng_below(&wanderer->prng, (uint64_t)bound);
}

/** Adds a prepare of a random table to the command; of another layer than it activates. */
static void prepare_any(struct wanderer *wanderer)
{
    struct director *director = &wanderer->director;
    int32_t table[TEAM_MAX_SLOTS];
    int32_t layers = director->shape.num_layers;
    wanderer->layer = (wanderer->layer + 1 + draw(wanderer, layers - 1)) % layers;
    memcpy(table, director_table(director, wanderer->layer),
           (size_t)director->shape.num_slots * sizeof *table);
    tables_stir(&wanderer->prng, &director->shape, table, 1 + draw(wanderer, 60));
    director_prepare(director, wanderer->layer, table);
}

/** A forward in which, now and then, one rank stops somewhere and the others must wait for it. */
static const struct eplb_worker_output *forward_with_pause(struct wanderer *wanderer)
{
    struct director *director = &wanderer->director;
    if (!chance(wanderer, 4))
        return director_forward(director);
    int32_t rank = draw(wanderer, director->shape.ep_size);
    team_hold(director->team, rank, (enum team_point)draw(wanderer, TEAM_POINTS));
    director_submit(director);
    team_await_held(director->team, rank);
    team_release(director->team, rank);
    return director_collect(director);
}

static void set_mood(struct wanderer *wanderer, int32_t rank, enum standin_hook hook, enum standin_mood mood)
{
    standin_set_fault(team_model(wanderer->director.team, rank), hook,
                      (struct standin_fault){.mood = mood, .delay_ns = draw(wanderer, 2) * 100000});
}

/** Activates what was prepared, and prepares the next with the same command. */
static void round_of(struct wanderer *wanderer)
{
    struct director *director = &wanderer->director;
    int32_t rank = draw(wanderer, director->shape.ep_size);
    bool prepare_fails = chance(wanderer, 10);
    bool start_fails = chance(wanderer, 10);
    director_activate(director);
    prepare_any(wanderer);
    set_mood(wanderer, rank, STANDIN_START, start_fails ? STANDIN_FAILS : STANDIN_WORKS);
    set_mood(wanderer, rank, STANDIN_PREPARE, prepare_fails ? STANDIN_FAILS : STANDIN_WORKS);
    enum eplb_activation_outcome outcome = director_outcome(director, forward_with_pause(wanderer));
    assert_int_equal(outcome, start_fails ? EPLB_ACTIVATION_KEPT : EPLB_ACTIVATION_SWITCHED);
    wanderer->switched += outcome == EPLB_ACTIVATION_SWITCHED;
    wanderer->kept += outcome == EPLB_ACTIVATION_KEPT;
    set_mood(wanderer, rank, STANDIN_START, STANDIN_WORKS);

    enum eplb_prepare_status status = director_await_prepared(director);
    assert_int_equal(status, prepare_fails ? EPLB_PREPARE_FAILED : EPLB_PREPARE_OK);
    set_mood(wanderer, rank, STANDIN_PREPARE, STANDIN_WORKS);
    if (!prepare_fails)
        return;
    wanderer->failed++;
    prepare_any(wanderer);
    assert_int_equal(director_await_prepared(director), EPLB_PREPARE_OK);
}

static void wander(int64_t jitter_ns)
{
    struct wanderer wanderer = {.layer = 0};
    struct team_params params;
    team_params_init(&params);
    params.jitter_ns = jitter_ns;
    params.seed = SEED;
    print_message("seed %d\n", SEED);
    eplb_prng_seed(&wanderer.prng, SEED + (uint64_t)jitter_ns);
    director_init(&wanderer.director, team_create(&params));
    prepare_any(&wanderer);
    assert_int_equal(director_await_prepared(&wanderer.director), EPLB_PREPARE_OK);
    for (int32_t round = 0; round < ROUNDS; round++) {
        round_of(&wanderer);
        if (round % 50 == 0)
            director_check(&wanderer.director);
    }
    director_check(&wanderer.director);
    print_message("%d switched, %d kept, %d failed to prepare\n", wanderer.switched, wanderer.kept,
                  wanderer.failed);
    assert_int_equal(wanderer.switched + wanderer.kept, ROUNDS);
    assert_true(wanderer.switched > ROUNDS * 3 / 4);
    assert_true(wanderer.kept > ROUNDS / 20);
    team_destroy(wanderer.director.team);
    director_destroy(&wanderer.director);
}

static void test_all_at_once(void **state)
{
    (void)state;
    wander(0);
}

static void test_with_jitter(void **state)
{
    (void)state;
    wander(300000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_at_once),
        cmocka_unit_test(test_with_jitter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
