/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Where the log lines of a run go. The engine's process and the workers' each open the same place by its
 * name; a line is one write, so lines of several processes do not mix.
 */
#ifndef CLI_RUN_LOG_H
#define CLI_RUN_LOG_H

#include <stdbool.h>

#include "eplb/log.h"
#include "eplb/status.h"

/** Names of places: standard error with all lines or with warnings only, or a file that is appended to. */
#define EPLB_RUN_LOG_LINES "lines"
#define EPLB_RUN_LOG_WARNINGS "warnings"
#define EPLB_RUN_LOG_FILE "file="

/** Stays where it is while the sink is used. */
struct eplb_run_log {
    struct eplb_log_sink sink;
    int descriptor;
    bool warnings_only;
    bool owned; /* the descriptor is closed at the end */
};

/**
 * Opens a place.
 *
 * @return EPLB_OK; EPLB_INVALID with the file and the reason
 */
enum eplb_status eplb_run_log_open(const char *name, struct eplb_run_log *log, struct eplb_error *error);

/** A zeroed log is allowed. */
void eplb_run_log_close(struct eplb_run_log *log);

#endif
