/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Two instances on one machine: under one name the second is refused, under two they do not meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fault/engine.h"
#include "fault/wanderer.h"
#include "support/shm_place.h"

enum { RANKS = 4, REFUSALS = 10, ROUNDS = 50, SEED = 20240511 };

#define MS INT64_C(1000000)
#define PATIENCE_NS (10000 * MS)

static struct team *start(const struct shm_place *place, const char *instance, struct wanderer *wanderer)
{
    struct fleet_params params;
    fleet_params_init(&params, place->path, instance, RANKS);
    struct team *team = fleet_start(&params);
    wanderer_init(wanderer, team, SEED, false);
    wanderer_begin(wanderer);
    return team;
}

static void end(struct team *team, struct wanderer *wanderer)
{
    fleet_check_commands(team);
    team_destroy(team);
    wanderer_destroy(wanderer);
}

/** In the middle of a forward of the first. */
static void refuse_another(const struct shm_place *place, const char *instance)
{
    struct fleet_params params;
    struct team *second;
    struct eplb_error error;
    char sentence[96];
    fleet_params_init(&params, place->path, instance, RANKS);
    assert_int_equal(fleet_create(&params, &second, &error), EPLB_IN_USE);
    snprintf(sentence, sizeof sentence, "the instance name '%s' is in use by process ", instance);
    assert_non_null(strstr(error.text, sentence));
    assert_non_null(strstr(error.text, "; choose another --instance_name"));
}

static void refuse_another_process(const struct shm_place *place, const char *instance)
{
    struct engine engine;
    engine_start(&engine, place->path, instance, SEED);
    struct eplb_process_end second = engine_await_end(&engine);
    assert_int_equal(second.signal, 0);
    assert_int_equal(second.exit_code, eplb_status_exit_code(EPLB_IN_USE));
    assert_true(engine_await_gone(&engine, eplb_clock_system()->now(NULL) + PATIENCE_NS));
}

static void test_under_one_name(void **state)
{
    (void)state;
    struct shm_place place;
    struct wanderer wanderer;
    print_message("seed %d\n", SEED);
    shm_place_open(&place);
    struct team *team = start(&place, "same", &wanderer);
    for (int i = 0; i < REFUSALS; i++) {
        wanderer_compose(&wanderer);
        director_submit(&wanderer.director);
        refuse_another(&place, "same");
        assert_int_equal(director_outcome(&wanderer.director, director_collect(&wanderer.director)),
                         EPLB_ACTIVATION_SWITCHED);
        assert_int_equal(director_await_prepared(&wanderer.director), EPLB_PREPARE_OK);
        director_check(&wanderer.director);
        assert_int_equal(shm_place_count(&place), RANKS + 1);
    }
    refuse_another_process(&place, "same");
    wanderer_round(&wanderer);
    end(team, &wanderer);
    /* And when the first has ended, the name is free. */
    end(start(&place, "same", &wanderer), &wanderer);
    assert_int_equal(shm_place_count(&place), 0);
    shm_place_close(&place);
}

static void test_under_two_names(void **state)
{
    (void)state;
    struct shm_place place;
    struct wanderer one;
    struct wanderer two;
    print_message("seed %d\n", SEED);
    shm_place_open(&place);
    struct team *first = start(&place, "one", &one);
    struct team *second = start(&place, "two", &two);
    for (int round = 0; round < ROUNDS; round++) {
        wanderer_round(&one);
        director_submit(&one.director);
        wanderer_round(&two);
        director_collect(&one.director);
    }
    assert_int_equal(shm_place_count(&place), 2 * (RANKS + 1));
    end(first, &one);
    wanderer_round(&two);
    end(second, &two);
    assert_int_equal(shm_place_count(&place), 0);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    engine_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_under_one_name),
        cmocka_unit_test(test_under_two_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
