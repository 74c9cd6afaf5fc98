/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The process of a worker in a test.
 */
#ifndef LIVE_WORKER_H
#define LIVE_WORKER_H

#include <signal.h>

/** Its arguments. */
enum { WORKER_COMMAND = 1, WORKER_INSTANCE, WORKER_DIRECTORY, WORKER_GENERATION, WORKER_RANK, WORKER_LOG };

/** Ends what a worker holds. */
#define WORKER_RELEASE SIGUSR1

/** What it logs when it begins to hold, and when it gives up, with why. */
#define WORKER_HOLDS "worker holds"
#define WORKER_FAILS "worker fails"

/** Returns the exit code. */
int worker_main(int argc, char **argv);

#endif
