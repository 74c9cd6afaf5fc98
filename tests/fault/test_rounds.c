/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Random placements on eight processes that come and go as they like, and are stopped wherever they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fault/wanderer.h"
#include "support/shm_place.h"

enum { RANKS = 8, ROUNDS = 1000, SEED = 20240507 };

#define JITTER_NS INT64_C(200000)

static void test_rounds(void **state)
{
    (void)state;
    struct shm_place place;
    struct fleet_params params;
    struct wanderer wanderer;
    shm_place_open(&place);
    fleet_params_init(&params, place.path, "rounds", RANKS);
    params.team.jitter_ns = JITTER_NS;
    params.team.seed = SEED;
    print_message("seed %d, %d rounds\n", SEED, ROUNDS);
    struct team *team = fleet_start(&params);
    wanderer_init(&wanderer, team, SEED, true);
    wanderer_begin(&wanderer);
    for (int32_t round = 0; round < ROUNDS; round++)
        wanderer_round(&wanderer);
    fleet_check_commands(team);
    print_message("%d switched, %d kept, %d failed to prepare, %d pauses\n", wanderer.switched, wanderer.kept,
                  wanderer.failed, wanderer.paused);
    assert_int_equal(wanderer.switched + wanderer.kept, ROUNDS);
    assert_true(wanderer.switched > ROUNDS * 3 / 4);
    assert_true(wanderer.kept > ROUNDS / 20);
    assert_true(wanderer.paused > ROUNDS / 8);
    assert_int_equal(fleet_first_lost(team), -1);
    team_destroy(team);
    wanderer_destroy(&wanderer);
    assert_int_equal(shm_place_count(&place), 0);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    fleet_main(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
