/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* An engine that is interrupted under heavy traffic ends in order, wherever it is. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/prng.h"
#include "eplb/clock.h"
#include "fault/engine.h"
#include "support/shm_place.h"

#define MS INT64_C(1000000)

/* From the signal to the last process's end. */
#define BOUND_NS ((SANITIZED ? 20000 : 5000) * MS)

/* From where signals are caught; a start takes the first part of it. */
#define LIFE_NS ((SANITIZED ? 1000 : 60) * MS)

enum { FULL_RUNS = 200, RUNS = SANITIZED ? 40 : FULL_RUNS, SEED = 20240509 };

struct tally {
    int stages[ENGINE_WORKS + 1]; /* how far they had come */
    int64_t longest_ns;
};

/** A process, or with it all that a terminal would interrupt. */
static void interrupt(const struct engine *engine, int signal, bool all)
{
    pid_t pid = (pid_t)engine->process.pid;
    assert_int_equal(kill(all ? -pid : pid, signal), 0);
}

/**
 * How long lives may be, so that most of them see work: a busy machine takes its time to get there.
 */
static int64_t longest_life(const struct shm_place *place)
{
    struct engine engine;
    engine_start(&engine, place->path, "interrupts", SEED);
    engine_await(&engine, ENGINE_CATCHES);
    int64_t begin = eplb_clock_system()->now(NULL);
    engine_await(&engine, ENGINE_WORKS);
    int64_t start_ns = eplb_clock_system()->now(NULL) - begin;
    interrupt(&engine, SIGTERM, false);
    assert_int_equal(engine_await_end(&engine).exit_code, 128 + SIGTERM);
    return LIFE_NS > 3 * start_ns ? LIFE_NS : 3 * start_ns;
}

static void interrupt_one(struct eplb_prng *prng, const struct shm_place *place, uint64_t seed,
                          int64_t life_ns, struct tally *tally)
{
    struct engine engine;
    int signal = eplb_prng_below(prng, 2) == 0 ? SIGINT : SIGTERM;
    engine_start(&engine, place->path, "interrupts", seed);
    engine_await(&engine, ENGINE_CATCHES);
    engine_linger(&engine, (int64_t)eplb_prng_below(prng, (uint64_t)life_ns));
    engine_look(&engine);
    tally->stages[engine.stage]++;
    int64_t begin = eplb_clock_system()->now(NULL);
    /* A rank that is starting does not ignore it yet. */
    interrupt(&engine, signal, signal == SIGINT && engine.stage == ENGINE_WORKS);
    struct eplb_process_end end = engine_await_end(&engine);
    assert_int_equal(end.signal, 0);
    assert_int_equal(end.exit_code, 128 + signal);
    assert_int_equal(shm_place_count(place), 0);
    assert_true(engine_await_gone(&engine, begin + BOUND_NS));
    int64_t ns = eplb_clock_system()->now(NULL) - begin;
    tally->longest_ns = ns > tally->longest_ns ? ns : tally->longest_ns;
}

static void test_interrupts(void **state)
{
    (void)state;
    struct shm_place place;
    struct eplb_prng prng;
    struct tally tally = {.longest_ns = 0};
    shm_place_open(&place);
    eplb_prng_seed(&prng, SEED);
    print_message("seed %d, %d interrupts%s\n", SEED, RUNS,
                  RUNS < FULL_RUNS ? " of 200: a sanitizer makes starts slow" : "");
    int64_t life_ns = longest_life(&place);
    for (int run = 0; run < RUNS; run++)
        interrupt_one(&prng, &place, SEED + (uint64_t)run, life_ns, &tally);
    print_message(
        "%d before there were ranks, %d before the first round, %d at work; all gone within %lld ms\n",
        tally.stages[ENGINE_CATCHES], tally.stages[ENGINE_HAS_RANKS], tally.stages[ENGINE_WORKS],
        (long long)(tally.longest_ns / MS));
    assert_true(tally.stages[ENGINE_WORKS] > RUNS / 4);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    engine_main(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_interrupts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
