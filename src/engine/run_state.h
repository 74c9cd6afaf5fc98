/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Everything that one run holds in the engine's process. Reserved before the first forward.
 */
#ifndef ENGINE_RUN_STATE_H
#define ENGINE_RUN_STATE_H

#include "engine/crew.h"
#include "engine/observers.h"
#include "engine/recorder.h"
#include "engine/run.h"
#include "eplb/channel.h"

struct eplb_run {
    const struct eplb_run_params *params;
    struct eplb_run_outcome *outcome;
    struct eplb_crew crew;
    struct eplb_manager *manager; /* NULL without balancing, as its observers */
    struct eplb_observers *observers;
    struct eplb_scheduler *scheduler;
    struct eplb_statistics_keeper *keeper;
    struct eplb_rank_batch *batches;      /* [R] of the forward that is being handed out */
    struct eplb_dp_batch *dp_batches;     /* [R] */
    bool *taken;                          /* [R] whose replies to the forward that is collected are here */
    struct eplb_worker_output *outputs;   /* [R] of the forward that is being collected */
    struct eplb_result *results;          /* [R] likewise */
    struct eplb_result *result_rooms;     /* [R] where their arrays lie */
    struct eplb_recorder *recorder;       /* NULL: nothing is recorded */
    struct eplb_routed *routed;           /* [R] of the forward that is being collected; for the recorder */
    unsigned char *input;                 /* an encoded one */
    int32_t *tables;                      /* [L][num_slots] that forwards were last seen to run under */
    uint64_t *generations;                /* [L] of these */
    uint64_t submitted, collected;        /* numbers of the last forwards */
    int64_t given_at[EPLB_CHANNEL_DEPTH]; /* by number: when it was handed out */
    int64_t started_at;                   /* when all ranks were ready; 0: not yet */
    int64_t last_output_at;               /* then, or when the last forward was collected */
    int64_t interrupted_at;               /* of no meaning before the outcome says so */
    int64_t late_ns;                      /* age at which the forward that is awaited is late (again) */
    bool abandoned;                       /* an interruption ended the run, and nothing went wrong */
};

/** Reserves the state; free it with eplb_run_state_destroy. The outcome is the caller's to set. */
enum eplb_status eplb_run_state_create(const struct eplb_run_params *params, struct eplb_run **run,
                                       struct eplb_error *error);
void eplb_run_state_destroy(struct eplb_run *run);

/** A warning in the run's log. */
void eplb_run_warn(const struct eplb_log_sink *log, const char *format, ...) EPLB_PRINTF(2, 3);

#endif
