/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Numbers of an event log: appended to a buffer that grows, and taken from bytes that are not trusted.
 *
 * A varint has seven bits a byte, the lowest first, and the top bit where more follow.
 */
#ifndef TRACE_EVENT_BYTES_H
#define TRACE_EVENT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Start with a zeroed one. Running out of memory is remembered: what is appended then is lost. */
struct eplb_binary {
    unsigned char *bytes; /* owned */
    size_t length;
    size_t capacity;
    bool failed;
};

/** Makes room for `more` bytes, which the caller writes; NULL when there is no memory. */
unsigned char *eplb_binary_extend(struct eplb_binary *bytes, size_t more);

void eplb_binary_u8(struct eplb_binary *bytes, unsigned value);
void eplb_binary_u32(struct eplb_binary *bytes, uint32_t value);
void eplb_binary_u64(struct eplb_binary *bytes, uint64_t value);
void eplb_binary_varint(struct eplb_binary *bytes, uint64_t value);

/** A varint of 2x for x >= 0 and of -2x - 1 for the others: small numbers are short whatever their sign. */
void eplb_binary_signed(struct eplb_binary *bytes, int64_t value);

/** The length as a varint, then the text without its zero. */
void eplb_binary_text(struct eplb_binary *bytes, const char *text);

void eplb_binary_free(struct eplb_binary *bytes);

/** What is left of a record. A number that is not there is 0, and remembered as failed. */
struct eplb_cursor {
    const unsigned char *at;
    const unsigned char *end;
    bool failed;
};

static inline size_t eplb_cursor_left(const struct eplb_cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

/** The next `count` bytes; NULL when there are fewer. */
const unsigned char *eplb_cursor_take(struct eplb_cursor *cursor, size_t count);

unsigned eplb_cursor_u8(struct eplb_cursor *cursor);
uint32_t eplb_cursor_u32(struct eplb_cursor *cursor);
uint64_t eplb_cursor_u64(struct eplb_cursor *cursor);
uint64_t eplb_cursor_varint(struct eplb_cursor *cursor);
int64_t eplb_cursor_signed(struct eplb_cursor *cursor);

/** A varint that must be at most `most`. */
uint64_t eplb_cursor_most(struct eplb_cursor *cursor, uint64_t most);

/** A text that with its zero fits the room. */
void eplb_cursor_text(struct eplb_cursor *cursor, char *text, size_t capacity);

#endif
