/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * An engine as a process of its own, to be killed or interrupted: the test program, started again. It
 * leads a fleet through rounds until it is interrupted, and then ends as a command does: names
 * removed, ranks ended, 128 and the signal as exit code.
 *
 * It and its ranks hold a pipe's end for as long as they live: the other end tells when all are gone.
 */
#ifndef FAULT_ENGINE_H
#define FAULT_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "os/process.h"

enum { ENGINE_RANKS = 4, ENGINE_NAME = 32 };

/** How far it has come. */
enum engine_stage {
    ENGINE_STARTED,
    ENGINE_CATCHES, /* SIGINT and SIGTERM */
    ENGINE_HAS_RANKS,
    ENGINE_WORKS, /* a round is over */
};

/** As the test has it. */
struct engine {
    struct eplb_process process;
    int news;                    /* the pipe */
    enum engine_stage stage;     /* as far as was read */
    int64_t ranks[ENGINE_RANKS]; /* their pids, from ENGINE_HAS_RANKS on */
};

/** Starts one; fails the test when it cannot. */
void engine_start(struct engine *engine, const char *directory, const char *instance, uint64_t seed);

/** Waits until it has come so far; fails the test when it does not. */
void engine_await(struct engine *engine, enum engine_stage stage);

/** Reads how far it has come, without waiting. */
void engine_look(struct engine *engine);

/** Lets time pass; fails the test when it ends meanwhile. */
void engine_linger(struct engine *engine, int64_t ns);

/** Waits for its end; fails the test when it does not come. */
struct eplb_process_end engine_await_end(struct engine *engine);

/** Waits until it and all its ranks have ended, and closes the pipe; false, and kills them, at the deadline.
 */
bool engine_await_gone(struct engine *engine, int64_t deadline);

/** What main begins with: a process that is to be a rank or an engine never returns from it. */
void engine_main(int argc, char **argv);

#endif
