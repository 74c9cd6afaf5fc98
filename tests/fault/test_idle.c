/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* What an engine and its ranks cost while there is nothing to do, and with little to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "e2e/director.h"
#include "fault/fleet.h"
#include "support/shm_place.h"

#define MS INT64_C(1000000)
#define IDLE_NS (2000 * MS)
#define PERIOD_NS (5 * MS)

enum {
    RANKS = 4,
    FORWARDS = 400,
    PADDING = 32768,
    MOST_IDLE = 10, /* thousandths of a processor */
    MOST_BUSY = SANITIZED ? 1000 : 200,
};

static int64_t now(void)
{
    return eplb_clock_system()->now(NULL);
}

/** CPU time of a process, all its threads together. */
static int64_t used_by(int64_t pid)
{
    clockid_t clock;
    struct timespec time;
    assert_int_equal(clock_getcpuclockid((pid_t)pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &time), 0);
    return (int64_t)time.tv_sec * 1000 * MS + time.tv_nsec;
}

/** The ranks, and behind them the engine. */
static void look(const struct team *team, int64_t used[RANKS + 1])
{
    for (int32_t rank = 0; rank < RANKS; rank++)
        used[rank] = used_by(fleet_pid(team, rank));
    used[RANKS] = used_by(getpid());
}

static void check_shares(const char *what, const int64_t before[RANKS + 1], const int64_t after[RANKS + 1],
                         int64_t wall_ns, int64_t most)
{
    int64_t largest = 0;
    for (int i = 0; i <= RANKS; i++) {
        int64_t share = (after[i] - before[i]) * 1000 / wall_ns;
        largest = share > largest ? share : largest;
    }
    print_message(
        "%s: ranks use up to %lld thousandths of a processor, the engine %lld; allowed is less than "
        "%lld\n",
        what, (long long)largest, (long long)((after[RANKS] - before[RANKS]) * 1000 / wall_ns),
        (long long)most);
    assert_true(largest < most);
}

static void test_idle(void **state)
{
    (void)state;
    struct shm_place place;
    struct fleet_params params;
    struct director director;
    int64_t before[RANKS + 1];
    int64_t after[RANKS + 1];
    shm_place_open(&place);
    fleet_params_init(&params, place.path, "idle", RANKS);
    params.padding = PADDING;
    struct team *team = fleet_start(&params);
    director_init(&director, team);
    director_forward(&director);

    int64_t begin = now();
    look(team, before);
    fleet_linger(team, 0, IDLE_NS);
    look(team, after);
    check_shares("idle", before, after, now() - begin, MOST_IDLE);

    begin = now();
    look(team, before);
    for (int64_t i = 1; i <= FORWARDS; i++) {
        director_forward(&director);
        int64_t left = begin + i * PERIOD_NS - now();
        fleet_linger(team, 0, left > 0 ? left : 0);
    }
    look(team, after);
    check_shares("a forward every 5 ms", before, after, now() - begin, MOST_BUSY);
    director_check(&director);
    team_destroy(team);
    director_destroy(&director);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    fleet_main(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_idle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
