/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/event_bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/bytes.h"

enum { FIRST_CAPACITY = 4096, LONGEST_VARINT = 10 };

unsigned char *eplb_binary_extend(struct eplb_binary *bytes, size_t more)
{
    if (bytes->failed)
        return NULL;
    size_t needed = bytes->length + more;
    size_t capacity = bytes->capacity == 0 ? FIRST_CAPACITY : bytes->capacity;
    while (capacity < needed)
        capacity *= 2;
    if (capacity != bytes->capacity) {
        unsigned char *grown = realloc(bytes->bytes, capacity);
        bytes->failed = grown == NULL;
        if (bytes->failed)
            return NULL;
        bytes->bytes = grown;
        bytes->capacity = capacity;
    }
    unsigned char *room = bytes->bytes + bytes->length;
    bytes->length = needed;
    return room;
}

void eplb_binary_u8(struct eplb_binary *bytes, unsigned value)
{
    unsigned char *room = eplb_binary_extend(bytes, 1);
    EPLB_ASSERT(value <= UINT8_MAX);
    if (room != NULL)
        *room = (unsigned char)value;
}

void eplb_binary_u32(struct eplb_binary *bytes, uint32_t value)
{
    unsigned char *room = eplb_binary_extend(bytes, sizeof value);
    if (room != NULL)
        eplb_put_u32(room, value);
}

void eplb_binary_u64(struct eplb_binary *bytes, uint64_t value)
{
    unsigned char *room = eplb_binary_extend(bytes, sizeof value);
    if (room != NULL)
        eplb_put_u64(room, value);
}

void eplb_binary_varint(struct eplb_binary *bytes, uint64_t value)
{
    unsigned char *room = eplb_binary_extend(bytes, LONGEST_VARINT);
    if (room == NULL)
        return;
    unsigned char *next = room;
    for (; value >= 0x80; value >>= 7)
        *next++ = (unsigned char)(value | 0x80);
    *next++ = (unsigned char)value;
    bytes->length -= (size_t)LONGEST_VARINT - (size_t)(next - room);
}

void eplb_binary_signed(struct eplb_binary *bytes, int64_t value)
{
    uint64_t doubled = (uint64_t)value << 1;
    eplb_binary_varint(bytes, value < 0 ? ~doubled : doubled);
}

void eplb_binary_text(struct eplb_binary *bytes, const char *text)
{
    size_t length = strlen(text);
    eplb_binary_varint(bytes, length);
    unsigned char *room = eplb_binary_extend(bytes, length);
    if (room != NULL)
        memcpy(room, text, length);
}

void eplb_binary_free(struct eplb_binary *bytes)
{
    free(bytes->bytes);
    *bytes = (struct eplb_binary){0};
}

/* ------------------------------------------------------------------------------------- taking */

const unsigned char *eplb_cursor_take(struct eplb_cursor *cursor, size_t count)
{
    if (cursor->failed || count > eplb_cursor_left(cursor)) {
        cursor->failed = true;
        return NULL;
    }
    const unsigned char *taken = cursor->at;
    cursor->at += count;
    return taken;
}

unsigned eplb_cursor_u8(struct eplb_cursor *cursor)
{
    const unsigned char *taken = eplb_cursor_take(cursor, 1);
    return taken == NULL ? 0 : *taken;
}

uint32_t eplb_cursor_u32(struct eplb_cursor *cursor)
{
    const unsigned char *taken = eplb_cursor_take(cursor, sizeof(uint32_t));
    return taken == NULL ? 0 : eplb_get_u32(taken);
}

uint64_t eplb_cursor_u64(struct eplb_cursor *cursor)
{
    const unsigned char *taken = eplb_cursor_take(cursor, sizeof(uint64_t));
    return taken == NULL ? 0 : eplb_get_u64(taken);
}

uint64_t eplb_cursor_varint(struct eplb_cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned byte = eplb_cursor_u8(cursor);
        unsigned bits = byte & 0x7f;
        /* The tenth byte has one bit to give, and the last one none only when it is the first: every number
         * has one form. */
        if ((shift == 63 && bits > 1) || (shift > 0 && byte == 0))
            break;
        value |= (uint64_t)bits << shift;
        if (byte < 0x80)
            return cursor->failed ? 0 : value;
    }
    cursor->failed = true;
    return 0;
}

int64_t eplb_cursor_signed(struct eplb_cursor *cursor)
{
    uint64_t value = eplb_cursor_varint(cursor);
    return (int64_t)(value & 1 ? ~(value >> 1) : value >> 1);
}

uint64_t eplb_cursor_most(struct eplb_cursor *cursor, uint64_t most)
{
    uint64_t value = eplb_cursor_varint(cursor);
    if (value <= most)
        return value;
    cursor->failed = true;
    return 0;
}

void eplb_cursor_text(struct eplb_cursor *cursor, char *text, size_t capacity)
{
    size_t length = (size_t)eplb_cursor_most(cursor, capacity - 1);
    const unsigned char *taken = eplb_cursor_take(cursor, length);
    if (taken == NULL || memchr(taken, '\0', length) != NULL) {
        cursor->failed = true;
        length = 0;
    }
    if (length > 0)
        memcpy(text, taken, length);
    text[length] = '\0';
}
