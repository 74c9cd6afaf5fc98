/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The trace of a story: its own lines, and below each what happened, line by line.
 */
#ifndef PROTOCOL_TRACE_H
#define PROTOCOL_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACE_BYTES = 1 << 16, TRACE_LINE = 512 };

struct trace {
    char text[TRACE_BYTES];
    size_t length;
    bool muted; /* what happens is not written down */

    /* The last line when it is one of ranks, so that the next rank that does the same joins it. */
    size_t last_start;
    char last_deed[TRACE_LINE];
    char last_ranks[TRACE_LINE];
    int32_t last_rank;
};

/** Copies a line of the story. */
void trace_copy(struct trace *trace, const char *line);

/** Writes down what happened. */
void trace_say(struct trace *trace, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Writes down what a rank did; ranks in a row that do the same share a line. */
void trace_rank(struct trace *trace, int32_t rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
