/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "protocol/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(struct trace *trace, const char *before, const char *text)
{
    size_t room = sizeof trace->text - trace->length;
    int length = snprintf(trace->text + trace->length, room, "%s%s\n", before, text);
    if (length < 0 || (size_t)length >= room) {
        fprintf(stderr, "the trace is longer than %d bytes\n", TRACE_BYTES);
        exit(2);
    }
    trace->length += (size_t)length;
}

void trace_copy(struct trace *trace, const char *line)
{
    trace->last_deed[0] = '\0';
    append(trace, "", line);
}

void trace_say(struct trace *trace, const char *format, ...)
{
    char text[TRACE_LINE];
    va_list arguments;
    if (trace->muted)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    trace->last_deed[0] = '\0';
    append(trace, "> ", text);
}

void trace_rank(struct trace *trace, int32_t rank, const char *format, ...)
{
    char deed[TRACE_LINE], text[2 * TRACE_LINE + 16];
    va_list arguments;
    if (trace->muted)
        return;
    va_start(arguments, format);
    vsnprintf(deed, sizeof deed, format, arguments);
    va_end(arguments);
    bool joins = strcmp(deed, trace->last_deed) == 0 && rank > trace->last_rank;
    if (joins) {
        size_t length = strlen(trace->last_ranks);
        snprintf(trace->last_ranks + length, sizeof trace->last_ranks - length, ", %d", rank);
        trace->length = trace->last_start;
    } else {
        snprintf(trace->last_ranks, sizeof trace->last_ranks, "%d", rank);
        memcpy(trace->last_deed, deed, sizeof deed);
        trace->last_start = trace->length;
    }
    trace->last_rank = rank;
    snprintf(text, sizeof text, "rank%s %s: %s", joins ? "s" : "", trace->last_ranks, deed);
    append(trace, "> ", text);
}
