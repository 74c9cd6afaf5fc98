/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * An engine is killed again and again, sometimes with some of its ranks, and started anew at once: no
 * rank outlives it, what it leaves does not grow, and a neighbour notices nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "eplb/shm.h"
#include "fault/engine.h"
#include "fault/rank.h"
#include "fault/wanderer.h"
#include "support/children.h"
#include "support/shm_place.h"

#define MS INT64_C(1000000)
#define BOUND_NS ((SANITIZED ? 5000 : 1000) * MS)
#define LIFE_NS ((SANITIZED ? 400 : 60) * MS)

enum { RUNS = 50, NEIGHBOUR_RANKS = 2, SEED = 20240510 };

struct tally {
    int stages[ENGINE_WORKS + 1]; /* how far the engines had come */
    int ranks_killed;
    int64_t longest_ns; /* until all were gone */
};

/* ---- what lies in the directory ---- */

struct usage {
    int64_t names, bytes;
};

static struct usage usage_of(const struct shm_place *place)
{
    struct usage usage = {.names = 0};
    DIR *folder = opendir(place->path);
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct stat info;
        /* A name may go meanwhile. */
        if (entry->d_name[0] == '.' || fstatat(dirfd(folder), entry->d_name, &info, 0) != 0)
            continue;
        usage.names++;
        usage.bytes += info.st_blocks * 512;
    }
    closedir(folder);
    return usage;
}

static void check_usage(const struct shm_place *place, const struct usage *most)
{
    struct usage usage = usage_of(place);
    if (usage.names > most->names || usage.bytes > most->bytes)
        fail_msg("%lld names and %lld bytes; one run has %lld and %lld", (long long)usage.names,
                 (long long)usage.bytes, (long long)most->names, (long long)most->bytes);
}

/* ---- orphans ---- */

/** Takes the ends of those that have none else to take them: of ranks whose engine was killed. */
static void reap_orphans(void)
{
    int status;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
        bool orphaned = WIFEXITED(status) && WEXITSTATUS(status) == RANK_ORPHANED;
        bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (!orphaned && !killed)
            fail_msg("process %d ended with status 0x%x", (int)pid, (unsigned)status);
    }
}

static void await_gone(struct engine *engine, int64_t killed_at, struct tally *tally)
{
    assert_true(engine_await_gone(engine, killed_at + BOUND_NS));
    int64_t ns = eplb_clock_system()->now(NULL) - killed_at;
    tally->longest_ns = ns > tally->longest_ns ? ns : tally->longest_ns;
    reap_orphans();
}

/* ---- kills ---- */

/** Kills the engine, and with it none, some or all of its ranks. */
static void kill_it(struct wanderer *dice, struct engine *engine, struct tally *tally)
{
    bool with_ranks = wanderer_draw(dice, 3) == 0;
    engine_look(engine);
    tally->stages[engine->stage]++;
    eplb_process_signal(&engine->process, SIGKILL);
    for (int32_t rank = 0; with_ranks && rank < ENGINE_RANKS; rank++)
        if (engine->ranks[rank] > 0 && wanderer_draw(dice, 2) == 0)
            tally->ranks_killed += kill((pid_t)engine->ranks[rank], SIGKILL) == 0;
    assert_int_equal(engine_await_end(engine).signal, SIGKILL);
}

static void live_and_die(struct wanderer *neighbour, const struct shm_place *place, struct engine *engine,
                         const struct usage *most, struct tally *tally)
{
    engine_await(engine, ENGINE_CATCHES);
    engine_linger(engine, wanderer_draw(neighbour, LIFE_NS));
    kill_it(neighbour, engine, tally);
    check_usage(place, most);
}

/** The neighbour's, and those of one run of the engine. */
static struct usage usage_of_one_run(struct wanderer *neighbour, const struct shm_place *place,
                                     struct tally *tally)
{
    struct engine engine;
    engine_start(&engine, place->path, "killed", SEED);
    engine_await(&engine, ENGINE_WORKS);
    struct usage usage = usage_of(place);
    kill_it(neighbour, &engine, tally);
    await_gone(&engine, eplb_clock_system()->now(NULL), tally);
    return usage;
}

static void kill_again_and_again(struct wanderer *neighbour, const struct shm_place *place)
{
    struct tally tally = {.longest_ns = 0};
    struct usage most = usage_of_one_run(neighbour, place, &tally);
    for (int run = 0; run < RUNS; run++) {
        struct engine engine;
        engine_start(&engine, place->path, "killed", SEED + (uint64_t)run);
        live_and_die(neighbour, place, &engine, &most, &tally);
        int64_t killed_at = eplb_clock_system()->now(NULL);
        /* The next one does not wait for the ranks of the one before. */
        struct engine next;
        bool at_once = wanderer_draw(neighbour, 2) == 0;
        if (at_once)
            engine_start(&next, place->path, "killed", SEED + (uint64_t)run);
        await_gone(&engine, killed_at, &tally);
        if (at_once) {
            live_and_die(neighbour, place, &next, &most, &tally);
            await_gone(&next, eplb_clock_system()->now(NULL), &tally);
        }
        wanderer_round(neighbour);
    }
    print_message("killed: %d before there were ranks, %d before the first round, %d at work; %d ranks too; "
                  "all gone within %lld ms\n",
                  tally.stages[ENGINE_CATCHES], tally.stages[ENGINE_HAS_RANKS], tally.stages[ENGINE_WORKS],
                  tally.ranks_killed, (long long)(tally.longest_ns / MS));
    assert_true(tally.stages[ENGINE_WORKS] > RUNS / 4);
    assert_true(tally.ranks_killed > 0);
}

static void end_in_order(const struct shm_place *place)
{
    struct engine engine;
    engine_start(&engine, place->path, "killed", SEED);
    engine_await(&engine, ENGINE_WORKS);
    eplb_process_signal(&engine.process, SIGTERM);
    assert_int_equal(engine_await_end(&engine).exit_code, 128 + SIGTERM);
    assert_true(engine_await_gone(&engine, eplb_clock_system()->now(NULL) + BOUND_NS));
    assert_int_equal(shm_place_count(place), NEIGHBOUR_RANKS + 1);
}

static void test_engine_killed(void **state)
{
    (void)state;
    struct shm_place place;
    struct fleet_params params;
    struct wanderer neighbour;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    shm_place_open(&place);
    print_message("seed %d\n", SEED);
    fleet_params_init(&params, place.path, "neighbour", NEIGHBOUR_RANKS);
    struct team *team = fleet_start(&params);
    wanderer_init(&neighbour, team, SEED, false);
    wanderer_begin(&neighbour);
    kill_again_and_again(&neighbour, &place);
    end_in_order(&place);
    fleet_check_commands(team);
    assert_int_equal(fleet_first_lost(team), -1);
    team_destroy(team);
    wanderer_destroy(&neighbour);
    reap_orphans();
    /* Nobody is left, running or not. */
    assert_true(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    assert_int_equal(shm_place_count(&place), 0);
    shm_place_close(&place);
}

/* ---- killed while it starts a child ---- */

/* As one whose program is slow to load. */
enum { CHILD_LINGERS_MS = 300 };

struct start {
    const struct shm_place *place;
    int ready[2];
};

static enum eplb_status make_group(const struct shm_place *place, struct eplb_shm **shm,
                                   struct eplb_error *error)
{
    struct eplb_shm_params params;
    eplb_shm_params_init(&params);
    params.directory = place->path;
    params.num_ranks = NEIGHBOUR_RANKS;
    return eplb_shm_create(&params, shm, error);
}

/** Never comes to where the child has a program of its own. */
static void begin_to_start_a_child(void *context, int32_t index)
{
    (void)index;
    const struct start *start = context;
    struct eplb_shm *shm;
    struct eplb_error error;
    if (make_group(start->place, &shm, &error) != EPLB_OK)
        child_fail(error.text);
    if (vfork() == 0) {
        ssize_t written = write(start->ready[1], "x", 1);
        (void)poll(NULL, 0, CHILD_LINGERS_MS);
        _exit(written == 1 ? 0 : 1);
    }
    child_fail("it has outlived its kill");
}

/* Such a child shares the memory of the one that was killed, and with it the lock. */
static void test_killed_while_it_starts_a_child(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    print_message("left out: ThreadSanitizer makes a fork of a vfork\n");
    skip();
#endif
    struct shm_place place;
    struct start start = {.place = &place};
    struct child engine;
    struct eplb_shm *shm;
    struct eplb_error error;
    char letter;
    shm_place_open(&place);
    assert_int_equal(pipe2(start.ready, O_CLOEXEC), 0);
    child_start(&engine, begin_to_start_a_child, &start, 0);
    assert_int_equal(read(start.ready[0], &letter, 1), 1);
    child_kill(&engine);
    assert_int_equal(children_next(&engine, 1, eplb_clock_system()->now(NULL) + BOUND_NS), 0);
    if (make_group(&place, &shm, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    eplb_shm_destroy(shm);
    close(start.ready[0]);
    close(start.ready[1]);
    assert_int_equal(shm_place_count(&place), 0);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    engine_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine_killed),
        cmocka_unit_test(test_killed_while_it_starts_a_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
