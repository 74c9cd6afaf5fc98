/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * sim --seeds=FIRST..LAST [--planted=NAME] [--trace]
 *
 * Runs each seed. Clean: prints what was met and fails when something never was. With a planted bug:
 * stops at the first seed that finds it and fails when none does. A seed that fails unexpectedly is
 * run again with its trace.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/planted.h"
#include "support/allocations.h"
#include "sim/engine.h"
#include "sim/rank.h"

struct options {
    uint64_t first;
    uint64_t last;
    const char *planted;
    bool trace;
};

static struct world world;
static struct sim_trace trace;

static void assertion_failed(const char *file, int line, const char *condition)
{
    sim_fail(&world.sim, "assertion", "%s:%d: %s", file, line, condition);
}

/** A paused rank's events wait, in their order; a dead rank's vanish. */
static void dispatch(const struct sim_event *event)
{
    if (event->rank != SIM_NOBODY) {
        const struct sim_rank *rank = &world.ranks[event->rank];
        if (rank->dead)
            return;
        if (rank->paused_until > world.sim.now) {
            sim_defer(&world.sim, event, rank->paused_until);
            return;
        }
    }
    event->run(&world, event->rank, event->argument);
}

static void run(void)
{
    for (int32_t rank = 0; rank < world.config.shape.ep_size; rank++)
        sim_rank_init(&world, rank);
    sim_engine_init(&world);
    size_t allocations = allocations_counted();
    struct sim_event event;
    while (!world.over && sim_next(&world.sim, &event))
        dispatch(&event);
    allocations += world.num_restart_allocations;
    if (allocations_counted() != allocations)
        sim_fail(&world.sim, "allocations", "%zu allocations after the start",
                 allocations_counted() - allocations);
}

/** Returns whether the seed is clean. */
static bool run_seed(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    sim_init(&world.sim, seed, &trace);
    if (setjmp(world.sim.failed) == 0) {
        sim_config_draw(&world.sim, &world.config);
        sim_book_init(&world);
        run();
    }
    sim_engine_destroy(&world);
    for (int32_t rank = 0; rank < SIM_RANKS; rank++)
        sim_rank_destroy(&world, rank);
    return world.sim.checker == NULL;
}

static void print_trace(void)
{
    uint64_t first = trace.num_lines > SIM_LINES ? trace.num_lines - SIM_LINES : 0;
    for (uint64_t i = first; i < trace.num_lines; i++)
        printf("%s\n", trace.lines[i % SIM_LINES]);
}

static void explain(uint64_t seed)
{
    if (!trace.live) {
        trace.on = true;
        run_seed(seed);
        print_trace();
    }
    printf("seed %" PRIu64 " failed: %s: %s\n", seed, world.sim.checker, world.sim.failure);
    printf("repeat with: sim --seeds=%" PRIu64 "..%" PRIu64 " --trace\n", seed, seed);
}

/** A seed is a whole run: the same again, up to its last event and its last count. */
static bool is_repeatable(uint64_t seed)
{
    static struct sim first;
    first = world.sim;
    run_seed(seed);
    return first.num_scheduled == world.sim.num_scheduled && first.now == world.sim.now &&
           memcmp(first.counts, world.sim.counts, sizeof first.counts) == 0;
}

static int run_clean(const struct options *options)
{
    static const char *const texts[] = {
#define COUNT_TEXT(name, what) what,
        SIM_COVERAGE(COUNT_TEXT)
#undef COUNT_TEXT
    };
    uint64_t totals[SIM_NUM_COUNTS] = {0};
    clock_t begin = clock();
    for (uint64_t seed = options->first; seed <= options->last; seed++) {
        if (!run_seed(seed)) {
            explain(seed);
            return 1;
        }
        for (int i = 0; i < SIM_NUM_COUNTS; i++)
            totals[i] += world.sim.counts[i];
        if (seed % 64 == 0 && !is_repeatable(seed)) {
            printf("seed %" PRIu64 " is another run each time\n", seed);
            return 1;
        }
    }
    uint64_t seeds = options->last - options->first + 1;
    int missing = 0;
    for (int i = 0; i < SIM_NUM_COUNTS; i++) {
        printf("%10" PRIu64 "  %s\n", totals[i], texts[i]);
        missing += totals[i] == 0;
    }
    printf("%" PRIu64 " seeds are clean, %.3f ms each\n", seeds,
           (double)(clock() - begin) * 1e3 / (double)CLOCKS_PER_SEC / (double)seeds);
    if (missing > 0 && seeds >= 1000) {
        printf("%d things were never met\n", missing);
        return 1;
    }
    return 0;
}

static int run_planted(const struct options *options)
{
    for (uint64_t seed = options->first; seed <= options->last; seed++) {
        if (run_seed(seed))
            continue;
        printf("%s: found by seed %" PRIu64 ", the %" PRIu64 ". one, by checker %s: %s\n", options->planted,
               seed, seed - options->first + 1, world.sim.checker, world.sim.failure);
        return 0;
    }
    printf("%s: not found\n", options->planted);
    return 1;
}

static bool plant(const char *name)
{
    static const char *const names[] = {
#define BUG_NAME(name, text) #name,
        EPLB_PLANTED_BUGS(BUG_NAME)
#undef BUG_NAME
    };
    for (int i = 0; i < EPLB_NUM_PLANTED_BUGS; i++)
        if (strcmp(names[i], name) == 0) {
            eplb_planted[i] = true;
            return true;
        }
    return false;
}

static bool parse(int count, char **words, struct options *options)
{
    *options = (struct options){.first = 1, .last = 1000};
    for (int i = 1; i < count; i++) {
        if (sscanf(words[i], "--seeds=%" SCNu64 "..%" SCNu64, &options->first, &options->last) == 2)
            continue;
        if (strcmp(words[i], "--trace") == 0)
            options->trace = true;
        else if (strncmp(words[i], "--planted=", 10) == 0 && plant(words[i] + 10))
            options->planted = words[i] + 10;
        else
            return false;
    }
    return options->first <= options->last;
}

int main(int count, char **words)
{
    struct options options;
    if (!parse(count, words, &options)) {
        fprintf(stderr, "usage: sim [--seeds=FIRST..LAST] [--planted=NAME] [--trace]\n");
        return 2;
    }
    trace.on = trace.live = options.trace;
    eplb_set_assert_handler(assertion_failed);
    return options.planted == NULL ? run_clean(&options) : run_planted(&options);
}
