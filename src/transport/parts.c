/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "transport/parts.h"

#include <string.h>

#include "base/assert.h"

bool eplb_parts_size(const struct eplb_part *parts, size_t num_parts, size_t *size)
{
    size_t sum = 0;
    for (size_t i = 0; i < num_parts; i++)
        if (__builtin_add_overflow(sum, parts[i].size, &sum))
            return false;
    *size = sum;
    return true;
}

struct eplb_part_cursor eplb_part_cursor_begin(const struct eplb_part *parts)
{
    return (struct eplb_part_cursor){.parts = parts};
}

/** The memory at the cursor, of which *size bytes are contiguous and at most `wanted`; steps over it. */
static unsigned char *advance(struct eplb_part_cursor *cursor, size_t wanted, size_t *size)
{
    EPLB_ASSERT(wanted > 0);
    while (cursor->offset == cursor->parts[cursor->part].size) {
        cursor->part++;
        cursor->offset = 0;
    }
    const struct eplb_part *part = &cursor->parts[cursor->part];
    EPLB_ASSERT(cursor->offset < part->size);
    *size = part->size - cursor->offset < wanted ? part->size - cursor->offset : wanted;
    unsigned char *memory = (unsigned char *)part->data + cursor->offset;
    cursor->offset += *size;
    return memory;
}

void eplb_part_cursor_read(struct eplb_part_cursor *cursor, void *to, size_t size)
{
    unsigned char *target = to;
    while (size > 0) {
        size_t piece;
        const unsigned char *source = advance(cursor, size, &piece);
        memcpy(target, source, piece);
        target += piece;
        size -= piece;
    }
}

void eplb_part_cursor_write(struct eplb_part_cursor *cursor, const void *from, size_t size)
{
    const unsigned char *source = from;
    while (size > 0) {
        size_t piece;
        unsigned char *target = advance(cursor, size, &piece);
        memcpy(target, source, piece);
        source += piece;
        size -= piece;
    }
}
