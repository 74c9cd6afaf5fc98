/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The worker processes of a run, and the shared memory between them and the engine.
 */
#ifndef ENGINE_CREW_H
#define ENGINE_CREW_H

#include <stdint.h>

#include "engine/run.h"
#include "engine/supervisor.h"
#include "eplb/channel.h"
#include "eplb/shm.h"

struct eplb_crew {
    int32_t num_ranks;
    struct eplb_shm *shm;
    struct eplb_channel **channels; /* [num_ranks] */
    struct eplb_supervisor *supervisor;
};

/** Checks what the workers will be told: EPLB_INVALID with a sentence. */
enum eplb_status eplb_crew_check(const struct eplb_run_params *params, struct eplb_error *error);

/**
 * Makes the group and the channels. The params passed their check. On failure what was made is for
 * eplb_crew_end and eplb_crew_free all the same. The crew stays where it is.
 */
enum eplb_status eplb_crew_create(const struct eplb_run_params *params, struct eplb_crew *crew,
                                  struct eplb_error *error);

/** Starts the workers. The calling thread stays until eplb_crew_end: they die with it. */
enum eplb_status eplb_crew_start(const struct eplb_run_params *params, struct eplb_crew *crew,
                                 struct eplb_error *error);

/**
 * What it means for the run that this rank was lost. A worker that gives up exits with the code of its
 * status. Ranks that wait for it then are told that it is dead, which ends no process: so the first one
 * that is lost is the cause.
 */
enum eplb_status eplb_crew_loss_status(const struct eplb_rank_life *life);

/**
 * Tells the workers that there are no more forwards, and waits until they have ended.
 *
 * @param seq above that of the last forward; nothing is under way
 * @return EPLB_OK: all have ended, in whatever way; EPLB_RANK_SILENT with those that had to be killed
 */
enum eplb_status eplb_crew_dismiss(struct eplb_crew *crew, uint64_t seq, struct eplb_error *error);

/** Ends what still runs, soon. The shared memory stays for those in this process who hold views of it. */
void eplb_crew_end(struct eplb_crew *crew);

/** Gives the shared memory up. After eplb_crew_end. */
void eplb_crew_free(struct eplb_crew *crew);

#endif
