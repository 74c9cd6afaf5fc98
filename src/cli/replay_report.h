/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a replay of recorded load found, told to a person as a table, and to a program as JSON.
 */
#ifndef CLI_REPLAY_REPORT_H
#define CLI_REPLAY_REPORT_H

#include <stdio.h>

#include "cli/evaluate.h"
#include "cli/replay_windows.h"
#include "trace/text.h"

/** A finished replay. */
struct eplb_replay_report {
    struct eplb_shape shape;
    const char *policy;
    enum eplb_replica_routing routing;
    bool plans; /* false: balancing is off */
    double threshold;
    const struct eplb_replay_windows *windows;
    const struct eplb_evaluation *evaluations; /* one less than windows */
};

/** The table, its last line the means over the windows. */
void eplb_replay_report_print(FILE *file, const struct eplb_replay_report *report);

/** Appends the JSON object (eplb-replay-1); EPLB_NO_MEMORY when it cannot. */
enum eplb_status eplb_replay_report_json(const struct eplb_replay_report *report, struct eplb_text *text,
                                         struct eplb_error *error);

#endif
