/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Writing log lines by their id in the table of log_lines.h.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/log_lines.h"
#include "eplb/log.h"

enum eplb_log_line {
#define EPLB_LOG_LINE_ENUM(id, level, prefix, count, ...) EPLB_LINE_##id,
    EPLB_LOG_LINES(EPLB_LOG_LINE_ENUM)
#undef EPLB_LOG_LINE_ENUM
        EPLB_NUM_LOG_LINES
};

/** A value for one key. */
struct eplb_log_value {
    enum eplb_log_type type;
    int64_t integer;
    double real;
    const char *text;
};

#define EPLB_VALUE_INT(x) ((struct eplb_log_value){.type = EPLB_LOG_INT, .integer = (int64_t)(x)})
#define EPLB_VALUE_REAL(x) ((struct eplb_log_value){.type = EPLB_LOG_REAL, .real = (x)})
#define EPLB_VALUE_TEXT(x) ((struct eplb_log_value){.type = EPLB_LOG_TEXT, .text = (x)})

/** Hands a line to the sink (NULL drops it); count must be the line's number of keys. */
void eplb_log_write(const struct eplb_log_sink *sink, enum eplb_log_line line,
                    const struct eplb_log_value *values, size_t count);

/** Logs a line: EPLB_LOG(sink, PLACEMENT_BENEFIT, EPLB_VALUE_INT(3), ...), one value per key. */
#define EPLB_LOG(sink, line, ...)                                                        \
    eplb_log_write(sink, EPLB_LINE_##line, (const struct eplb_log_value[]){__VA_ARGS__}, \
                   sizeof((const struct eplb_log_value[]){__VA_ARGS__}) / sizeof(struct eplb_log_value))

#endif
