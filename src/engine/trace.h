/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A recording of routed ids that a run replays. The engine reads it to know its shape; every worker reads
 * it again for its routes, and the digest says whether it is the same.
 */
#ifndef ENGINE_TRACE_H
#define ENGINE_TRACE_H

#include "model/recording.h"
#include "trace/ids_file.h"

struct eplb_trace {
    struct eplb_ids ids;
    struct eplb_recording_phase *phases;
    struct eplb_recording recording; /* borrows from both; one going through of one sequence, until the
                                        caller says how many */
    uint64_t digest;                 /* of shape, phases and all ids */
};

/** Reads the ids file and its sidecar: statuses and sentences of eplb_ids_read. Close it with
 * eplb_trace_close. */
enum eplb_status eplb_trace_open(const char *path, struct eplb_trace *trace, struct eplb_error *error);

/** A zeroed one is allowed. */
void eplb_trace_close(struct eplb_trace *trace);

#endif
