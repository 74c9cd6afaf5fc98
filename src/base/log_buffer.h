/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Log records kept back while a lock is held, and handed to the real sink after it was released.
 */
#ifndef BASE_LOG_BUFFER_H
#define BASE_LOG_BUFFER_H

#include "eplb/log.h"

enum { EPLB_LOG_BUFFER_RECORDS = 32, EPLB_LOG_BUFFER_FIELDS = 12, EPLB_LOG_BUFFER_TEXT = 640 };

struct eplb_buffered_record {
    struct eplb_log_record record;
    struct eplb_log_field fields[EPLB_LOG_BUFFER_FIELDS];
    char text[EPLB_LOG_BUFFER_TEXT];
};

/** Start with a zeroed one. When it is full, further records are counted and not kept. */
struct eplb_log_buffer {
    size_t count;
    size_t lost;
    struct eplb_buffered_record records[EPLB_LOG_BUFFER_RECORDS];
};

/** A sink that appends to the buffer. */
struct eplb_log_sink eplb_log_buffer_sink(struct eplb_log_buffer *buffer);

/** Moves the records out; `to` is then for the caller alone. */
void eplb_log_buffer_take(struct eplb_log_buffer *from, struct eplb_log_buffer *to);

/** Hands the records to the sink, and a warning about lost ones. */
void eplb_log_buffer_flush(struct eplb_log_buffer *buffer, const struct eplb_log_sink *sink);

#endif
