/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What is noted down of a run while it goes on, for the summary at its end. Pure.
 */
#ifndef CLI_RUN_NOTES_H
#define CLI_RUN_NOTES_H

#include <stdint.h>

#include "engine/run.h"

/** Windows that are kept: the first one and the last ones. */
#define EPLB_RUN_WINDOWS 16

/** Runs of the policy, and switches of layers, that are kept: the first ones. */
#define EPLB_RUN_POLICY_RUNS 256
#define EPLB_RUN_OUTCOMES 2048

/** One window of the statistics. */
struct eplb_run_window {
    uint64_t end;                       /* forwards that were done at its end */
    struct eplb_window_balance balance; /* as it was */
    struct eplb_window_balance initial; /* under the initial placement */
    int32_t hottest;                    /* expert of the watched layer; -1: no load */
    double hottest_share;               /* of that layer's load */
    uint64_t switched;                  /* layers that switched since the window before */
};

/** What a layer's plans promised and what came, as peak / mean, added up over its switches. */
struct eplb_run_promises {
    uint64_t switches; /* whose window after them had load */
    double predicted, even, measured;
};

struct eplb_run_notes {
    struct eplb_shape shape;
    struct eplb_run_window windows[EPLB_RUN_WINDOWS];
    int32_t num_windows;
    uint64_t left_out;     /* windows between the first and the second that is kept */
    int32_t watched_layer; /* the worst one of the first window; EPLB_NO_LAYER before there is load */
    int32_t loads_layer;   /* of the loads: the worst one of the last window, under the initial placement */
    double *measured;      /* [ep_size] loads of its ranks in the last window, as they were */
    double *initial;       /* [ep_size] and under the initial placement */
    uint64_t layers_prepared;
    uint64_t published[EPLB_RUN_POLICY_RUNS]; /* layers that each run of the policy published */
    int32_t num_policy_runs;                  /* of these */
    struct eplb_outcome *outcomes;            /* [EPLB_RUN_OUTCOMES] */
    int32_t num_outcomes;
    uint64_t outcomes_left_out;         /* that came after these */
    struct eplb_run_promises *promises; /* [num_layers] of all */
    /* for what is counted: */
    uint64_t windows_seen, switched_seen, ready_seen, policy_runs_seen, published_seen;
};

/** Reserves the notes of a run; destroy them with eplb_run_notes_destroy. */
enum eplb_status eplb_run_notes_create(const struct eplb_shape *shape, struct eplb_run_notes **notes,
                                       struct eplb_error *error);
void eplb_run_notes_destroy(struct eplb_run_notes *notes);

/** Takes note of a forward. To be called after every one: a ready layer may switch with the next. */
void eplb_run_notes_take(struct eplb_run_notes *notes, const struct eplb_run_progress *progress);

/** Takes note of what became of a layer's switch. */
void eplb_run_notes_take_outcome(struct eplb_run_notes *notes, const struct eplb_outcome *outcome);

#endif
