/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a run came to: told to a person, and to a program as JSON (eplb-run-1).
 */
#ifndef CLI_RUN_SUMMARY_H
#define CLI_RUN_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/run_notes.h"
#include "engine/run.h"
#include "trace/text.h"

/** What --verify found. */
enum eplb_run_verdict {
    EPLB_RUN_NOT_COMPARED, /* it was not asked for, or there was nothing to compare */
    EPLB_RUN_VERIFIED,
    EPLB_RUN_DIFFERS,
};

struct eplb_run_summary {
    const char *instance_name;
    const char *policy;          /* "none" without balancing */
    const char *routing;         /* "model", "skew" or "trace" */
    const char *replica_routing; /* "static", ...; NULL without balancing */
    const char *interval;        /* between runs of the policy: "1000 s" */
    struct eplb_shape shape;
    int32_t window_forwards;
    int32_t processors; /* that the processes share */
    bool eplb;          /* balancing was on */
    bool verify;        /* was asked for */
    enum eplb_run_verdict verdict;
    const char *reason;                     /* why it differs, or was not compared; "" */
    enum eplb_status status;                /* with which the run ended */
    const struct eplb_run_outcome *with;    /* the run */
    const struct eplb_run_outcome *without; /* the same without balancing; NULL: there was none */
    const struct eplb_run_notes *notes;     /* of the run */
};

/** Writes the summary for people. */
void eplb_run_summary_print(FILE *file, const struct eplb_run_summary *summary);

/** Appends the summary as a JSON object with a newline at its end. */
enum eplb_status eplb_run_summary_json(const struct eplb_run_summary *summary, struct eplb_text *text,
                                       struct eplb_error *error);

/** CPU time of choosing among replicas, in microseconds per forward; 0 when there was none. */
double eplb_run_routing_us(const struct eplb_run_outcome *outcome);

/** Tokens in a second of wall time; 0 for a run of no time. */
double eplb_run_tokens_per_second(const struct eplb_run_outcome *outcome);

#endif
