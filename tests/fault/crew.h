/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The processes of a fleet: started and watched by the supervisor, and signalled by the test.
 */
#ifndef FAULT_CREW_H
#define FAULT_CREW_H

#include <stdbool.h>
#include <stdint.h>

#include "eplb/status.h"

/** The first argument of a rank. Those behind it: instance, directory, generation, rank, the engine's pid. */
#define CREW_RANK "--rank"

enum { CREW_MAX_RANKS = 8, CREW_ARGUMENTS = 7, CREW_SENTENCE = 160 };

struct crew_params {
    int32_t num_ranks;
    const char *instance, *directory;
    uint64_t generation;
    int keep; /* a descriptor that the ranks inherit; -1: none */
    void *context;
    /** As the supervisor's. */
    uint64_t (*beats)(void *context, int32_t rank);
    /** A rank's process has ended, and crew_ended_at says so. From the supervisor's thread. */
    void (*ended)(void *context, int32_t rank);
};

struct crew;

/** Starts this program anew for every rank. */
enum eplb_status crew_create(const struct crew_params *params, struct crew **crew, struct eplb_error *error);

/** Kills what still runs. NULL is allowed. */
void crew_destroy(struct crew *crew);

int64_t crew_pid(const struct crew *crew, int32_t rank);

/** Nothing when it has ended. */
void crew_signal(const struct crew *crew, int32_t rank, int signal);

/** When the supervisor said that it has ended, on eplb_clock_system(); 0: not yet. */
int64_t crew_ended_at(struct crew *crew, int32_t rank);

/** Waits for that, until the deadline; as crew_ended_at. */
int64_t crew_await_ended(struct crew *crew, int32_t rank, int64_t deadline);

/** "rank 3 (pid 4711) was killed by signal 9 (KILL)". */
void crew_tell(struct crew *crew, int32_t rank, char text[CREW_SENTENCE]);

/** The first one that ended without having been asked to; -1: none. */
int32_t crew_first_lost(struct crew *crew);

/** From now on all may end. Before they are told to. */
void crew_expect_end(struct crew *crew);

/** Waits until all have; false at the deadline. */
bool crew_await_all(struct crew *crew, int64_t deadline);

/** Whether it ended because it was to, with code 0. After crew_await_all. */
bool crew_ended_well(struct crew *crew, int32_t rank);

#endif
