/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Follows a run: takes notes, and paints the view where somebody watches.
 */
#ifndef CLI_RUN_WATCH_H
#define CLI_RUN_WATCH_H

#include <stdbool.h>

#include "cli/run_notes.h"
#include "cli/run_view.h"

struct eplb_run_watch {
    struct eplb_run_notes *notes; /* NULL: none are taken */
    struct eplb_run_view view;
    bool paints;
    bool painted;
    int64_t painted_ns; /* elapsed time at the last painting */
    int64_t rate_ns;    /* the rate is of what came since then */
    uint64_t rate_tokens;
};

/** Whether there is a terminal that a view can be painted on. */
bool eplb_run_watch_can_paint(void);

/** Takes note of a forward and paints, at most ten times a second. */
void eplb_run_watch_step(struct eplb_run_watch *watch, const struct eplb_run_progress *progress);

/** Takes the view off the terminal again. */
void eplb_run_watch_end(struct eplb_run_watch *watch);

#endif
