/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A worker's tie to its engine: a thread that beats for the worker as long as the process can run at
 * all, and ends the process when the engine's process has ended. So no worker outlives its engine,
 * wherever its other threads are blocked.
 */
#ifndef ENGINE_LIFELINE_H
#define ENGINE_LIFELINE_H

#include <stdint.h>

#include "eplb/status.h"

struct eplb_lifeline_params {
    int64_t engine_pid;
    int64_t beat_interval_ns; /* > 0 */
    void *context;
    /* All three are called from the lifeline's thread. */
    void (*beat)(void *context);
    /** Whether the engine still lives; asked once, when its pid is watched: the pid may be another's by then.
     */
    int (*engine_lives)(void *context);
    /** The engine is gone. Does not come back: ends the process (_exit). */
    void (*orphaned)(void *context);
};

struct eplb_lifeline;

/**
 * Starts the thread, which beats at once. An engine that has ended already is found like one that ends
 * later.
 *
 * @return EPLB_OK; EPLB_NO_MEMORY; EPLB_IO when the system has no descriptor to give
 */
enum eplb_status eplb_lifeline_create(const struct eplb_lifeline_params *params,
                                      struct eplb_lifeline **lifeline, struct eplb_error *error);

/** Ends the thread. NULL is allowed. */
void eplb_lifeline_destroy(struct eplb_lifeline *lifeline);

#endif
