/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Log records and the sink that takes them. Belongs to src/base.
 *
 * The library never prints. It builds a record and hands it to the sink of whoever created the
 * object that logs. A record's text form is one line: `prefix | key=value | key=value`. Which
 * prefixes exist, and which keys each has, is one table (src/base/log_lines.h).
 */
#ifndef EPLB_LOG_H
#define EPLB_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Importance of a record. */
enum eplb_log_level {
    EPLB_LOG_DEBUG = 0,
    EPLB_LOG_INFO = 1,
    EPLB_LOG_WARNING = 2,
    EPLB_LOG_ERROR = 3,
};

/** Which member of the value union of a field is set. */
enum eplb_log_type {
    EPLB_LOG_INT = 0,
    EPLB_LOG_REAL = 1,
    EPLB_LOG_TEXT = 2,
};

/** One `key=value`. Text is borrowed: it lives at least until the sink's write returns. */
struct eplb_log_field {
    const char *key;
    enum eplb_log_type type;
    union {
        int64_t integer;
        double real;
        const char *text;
    } value;
};

/** One log line before it is text. Borrowed by the sink during write. */
struct eplb_log_record {
    size_t size;                         /**< sizeof(struct eplb_log_record). */
    enum eplb_log_level level;           /**< Importance. */
    const char *prefix;                  /**< What happened, for instance "EPLB rebalance". */
    size_t num_fields;                   /**< Length of fields. */
    const struct eplb_log_field *fields; /**< May be NULL when num_fields is 0. */
};

/** Where records go. Owned by the host; it outlives every object it was given to. */
struct eplb_log_sink {
    size_t size;   /**< sizeof(struct eplb_log_sink). */
    void *context; /**< First argument of write. */
    /**
     * Takes one record. Called from whichever thread logs, possibly several at once; must not
     * call back into the object that logs. May block (the library calls it outside its locks).
     * NULL drops every record.
     */
    void (*write)(void *context, const struct eplb_log_record *record);
};

/**
 * Writes the record's line, without newline, to text. Control characters inside values become
 * spaces, and `|` becomes `/`, so that one record is one line whatever is in it. Reals are
 * printed with six significant digits and a point, whatever the locale.
 *
 * @param record   the record
 * @param text     receives the line, zero-terminated, cut when too long; may be NULL when capacity is 0
 * @param capacity bytes at text
 * @return length of the whole line, without the zero, as snprintf counts. Thread-safe.
 */
EPLB_API size_t eplb_log_format(const struct eplb_log_record *record, char *text, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
