/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A rank is killed at a random moment: it is named, the others decide and are right, and the next run starts.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fault/wanderer.h"
#include "support/shm_place.h"

#define MS INT64_C(1000000)

/* What takes a second at most; a sanitizer is slow, not wrong. */
#define BOUND_NS ((SANITIZED ? 5000 : 1000) * MS)

#define STOP_NS (5 * MS)

enum { RANKS = 8, RUNS = 20, ROUNDS_BEFORE = 5, ROUNDS_AFTER = 3, SEED = 20240508 };

/** What became of the runs, for the reader. */
struct tally {
    int32_t switched, kept;
    int32_t starting;             /* killed before its first forward was over */
    int64_t named_ns, decided_ns; /* the longest */
};

static int64_t now(void)
{
    return eplb_clock_system()->now(NULL);
}

static void keep_longest(int64_t *longest, int64_t ns)
{
    *longest = ns > *longest ? ns : *longest;
}

static struct team *start(const struct shm_place *place, uint64_t seed)
{
    struct fleet_params params;
    fleet_params_init(&params, place->path, "kills", RANKS);
    /* Long, so that a kill often finds a rank between two steps. */
    params.team.jitter_ns = MS;
    params.team.seed = seed;
    return fleet_start(&params);
}

/** Some rounds, or none: then the ranks are still starting. */
static void run_rounds(struct wanderer *wanderer, int64_t rounds)
{
    if (rounds == 0)
        return;
    wanderer_begin(wanderer);
    for (int64_t round = 0; round < rounds; round++)
        wanderer_round(wanderer);
}

/** Hands out a forward, which activates if anything is prepared, and kills the rank before or after its end.
 */
static int64_t submit_and_kill(struct wanderer *wanderer, int32_t victim, bool activates)
{
    struct team *team = wanderer->director.team;
    int64_t most = activates ? wanderer->forward_ns * 3 / 2 : 20 * MS;
    if (activates)
        wanderer_compose(wanderer);
    director_submit(&wanderer->director);
    fleet_linger(team, victim, wanderer_draw(wanderer, most));
    if (wanderer_draw(wanderer, 2) == 0) {
        fleet_signal(team, victim, SIGSTOP);
        fleet_linger(team, victim, STOP_NS);
    }
    fleet_kill(team, victim);
    return now();
}

static void check_named(struct team *team, int32_t victim, int64_t killed_at, struct tally *tally)
{
    char name[64];
    int64_t named_at = fleet_await_named(team, victim, killed_at + BOUND_NS);
    if (named_at == 0)
        team_fail(team, "rank %d was killed, and not named in time", victim);
    keep_longest(&tally->named_ns, named_at - killed_at);
    snprintf(name, sizeof name, "rank %d (pid %d) was killed by signal 9 (KILL)", victim,
             (int)fleet_pid(team, victim));
    assert_string_equal(fleet_report(team, victim), name);
    assert_int_equal(fleet_first_lost(team), victim);
}

/** What the record says and what the survivors did is the same. */
static void check_decided(struct wanderer *wanderer, const struct eplb_worker_output *outputs,
                          struct tally *tally)
{
    struct director *director = &wanderer->director;
    const struct eplb_group *group = team_engine_group(director->team);
    enum eplb_activation_outcome outcome = director_outcome(director, outputs);
    enum eplb_decision decision = group->record_read(group->self, director->command.activation_token);
    assert_int_equal(outcome, decision == EPLB_COMMIT ? EPLB_ACTIVATION_SWITCHED : EPLB_ACTIVATION_KEPT);
    assert_int_not_equal(decision, EPLB_UNDECIDED);
    tally->switched += outcome == EPLB_ACTIVATION_SWITCHED;
    tally->kept += outcome == EPLB_ACTIVATION_KEPT;
}

/** Forwards that nobody can finish: the survivors say why, keep what they have, and it is right. */
static void check_survivors(struct wanderer *wanderer, int32_t victim)
{
    struct director *director = &wanderer->director;
    char name[32];
    snprintf(name, sizeof name, "rank %d died", victim);
    for (int i = 0; i < 2; i++) {
        const struct eplb_worker_output *outputs = director_forward(director);
        for (int32_t rank = 0; rank < RANKS; rank++) {
            if (rank == victim)
                continue;
            assert_non_null(outputs[rank].prefix);
            if (strstr(fleet_bereavement(director->team, rank), name) == NULL)
                team_fail(director->team, "rank %d says '%s'", rank, fleet_bereavement(director->team, rank));
        }
        director_check(director);
    }
    fleet_check_commands(director->team);
}

static void kill_one(const struct shm_place *place, uint64_t seed, struct tally *tally)
{
    struct wanderer wanderer;
    struct team *team = start(place, seed);
    wanderer_init(&wanderer, team, seed, false);
    int64_t rounds = wanderer_draw(&wanderer, ROUNDS_BEFORE);
    int32_t victim = (int32_t)wanderer_draw(&wanderer, RANKS);
    run_rounds(&wanderer, rounds);
    int64_t killed_at = submit_and_kill(&wanderer, victim, rounds > 0);
    const struct eplb_worker_output *outputs = director_collect(&wanderer.director);
    int64_t decided_ns = now() - killed_at;
    if (decided_ns > BOUND_NS)
        team_fail(team, "the survivors took %lld ms to report", (long long)(decided_ns / MS));
    check_named(team, victim, killed_at, tally);
    keep_longest(&tally->decided_ns, decided_ns);
    if (rounds > 0)
        check_decided(&wanderer, outputs, tally);
    tally->starting += rounds == 0;
    check_survivors(&wanderer, victim);
    team_destroy(team);
    wanderer_destroy(&wanderer);
}

static void start_again(const struct shm_place *place, uint64_t seed)
{
    struct wanderer wanderer;
    struct team *team = start(place, seed);
    wanderer_init(&wanderer, team, seed, false);
    run_rounds(&wanderer, ROUNDS_AFTER);
    team_destroy(team);
    wanderer_destroy(&wanderer);
    assert_int_equal(shm_place_count(place), 0);
}

static void test_kills(void **state)
{
    (void)state;
    struct shm_place place;
    struct tally tally = {.switched = 0};
    shm_place_open(&place);
    for (int run = 0; run < RUNS; run++) {
        uint64_t seed = SEED + (uint64_t)run;
        print_message("seed %llu\n", (unsigned long long)seed);
        kill_one(&place, seed, &tally);
        start_again(&place, seed);
    }
    print_message(
        "%d switched, %d kept, %d killed while they were starting; named within %lld ms, all reported "
        "within %lld ms\n",
        tally.switched, tally.kept, tally.starting, (long long)(tally.named_ns / MS),
        (long long)(tally.decided_ns / MS));
    assert_true(tally.kept > 0);
    shm_place_close(&place);
}

/*
 * An activation that moves nothing between ranks: all others have voted yes when the victim, which has
 * not begun, dies. No rank can end that; the engine's abort must.
 */
static void test_only_the_engine_can_decide(void **state)
{
    (void)state;
    enum { VICTIM = 3, LAYER = 1 };
    struct shm_place place;
    struct wanderer wanderer;
    struct tally tally = {.switched = 0};
    int32_t table[TEAM_MAX_SLOTS];
    print_message("seed %d\n", SEED);
    shm_place_open(&place);
    struct team *team = start(&place, SEED);
    wanderer_init(&wanderer, team, SEED, false);
    struct director *director = &wanderer.director;
    memcpy(table, director_table(director, LAYER), (size_t)director->shape.num_slots * sizeof *table);
    int32_t first = table[0];
    table[0] = table[1];
    table[1] = first;
    director_prepare(director, LAYER, table);
    assert_int_equal(director_await_prepared(director), EPLB_PREPARE_OK);
    assert_int_equal(director->messages, 0);

    fleet_signal(team, VICTIM, SIGSTOP);
    director_activate(director);
    director_submit(director);
    fleet_linger(team, VICTIM, 4 * STOP_NS);
    fleet_kill(team, VICTIM);
    int64_t killed_at = now();
    const struct eplb_worker_output *outputs = director_collect(director);
    assert_true(now() - killed_at < BOUND_NS);
    check_named(team, VICTIM, killed_at, &tally);
    check_decided(&wanderer, outputs, &tally);
    assert_int_equal(tally.kept, 1);
    check_survivors(&wanderer, VICTIM);
    team_destroy(team);
    wanderer_destroy(&wanderer);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    fleet_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kills),
        cmocka_unit_test(test_only_the_engine_can_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
