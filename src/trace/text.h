/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Text that grows as it is written. Running out of memory is remembered, not reported each time:
 * check `failed` once, at the end.
 */
#ifndef TRACE_TEXT_H
#define TRACE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "eplb/status.h"

/** Start with a zeroed one. */
struct eplb_text {
    char *bytes; /* owned, zero-terminated; NULL while nothing was written */
    size_t length;
    size_t capacity;
    bool failed;
};

/** Appends a printf format. */
void eplb_text_add(struct eplb_text *text, const char *format, ...) EPLB_PRINTF(2, 3);

/** Appends a finite real as JSON, by eplb_real_format. */
void eplb_text_add_real(struct eplb_text *text, double real);

/** Appends a JSON string with its quotes. */
void eplb_text_add_string(struct eplb_text *text, const char *string);

/** Frees the bytes and zeroes the text. */
void eplb_text_free(struct eplb_text *text);

#endif
