/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "transport/pipe.h"

#include <string.h>

#include "base/assert.h"

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics work between processes only without a lock");

enum { HEADER = sizeof(struct eplb_fragment) };

static size_t padded(size_t length)
{
    return (length + EPLB_CACHE_LINE - 1) & ~(size_t)(EPLB_CACHE_LINE - 1);
}

/** Longest payload of a fragment: two fragments fit the ring, so that both ends can work at once. */
static size_t longest(const struct eplb_pipe_end *end)
{
    return end->capacity / 2 - HEADER;
}

struct eplb_pipe_end eplb_pipe_end_make(struct eplb_pipe_positions *positions, unsigned char *ring,
                                        size_t capacity)
{
    EPLB_ASSERT((uintptr_t)ring % EPLB_CACHE_LINE == 0);
    EPLB_ASSERT(capacity >= EPLB_MIN_RING_BYTES && (capacity & (capacity - 1)) == 0);
    return (struct eplb_pipe_end){.positions = positions, .ring = ring, .capacity = capacity};
}

/** Where a position is in the ring, and how many bytes follow before the ring's end. */
static unsigned char *place(const struct eplb_pipe_end *end, uint64_t position, size_t *before_end)
{
    size_t at = (size_t)position & (end->capacity - 1);
    *before_end = end->capacity - at;
    return end->ring + at;
}

enum eplb_pipe_status eplb_pipe_write(struct eplb_pipe_end *end, struct eplb_fragment *fragment,
                                      struct eplb_part_cursor *source)
{
    EPLB_ASSERT(fragment->offset <= fragment->size);
    uint64_t left = source == NULL ? 0 : fragment->size - fragment->offset;
    size_t length = left < longest(end) ? (size_t)left : longest(end);
    /* Acquire: the reader has finished with the bytes before this position; they may be overwritten. */
    uint64_t read = atomic_load_explicit(&end->positions->read, memory_order_acquire);
    uint64_t used = end->position - read;
    if (used > end->capacity)
        return EPLB_PIPE_DAMAGED;
    if (end->capacity - used < HEADER + padded(length))
        return EPLB_PIPE_WAIT;

    fragment->length = (uint32_t)length;
    size_t before_end;
    memcpy(place(end, end->position, &before_end), fragment, HEADER);
    unsigned char *payload = place(end, end->position + HEADER, &before_end);
    if (length > 0) {
        size_t first = length < before_end ? length : before_end;
        eplb_part_cursor_read(source, payload, first);
        eplb_part_cursor_read(source, end->ring, length - first);
    }
    end->position += HEADER + padded(length);
    EPLB_ASSERT(end->position % EPLB_CACHE_LINE == 0);
    /* Release: whoever sees this position sees the bytes before it. */
    atomic_store_explicit(&end->positions->written, end->position, memory_order_release);
    return EPLB_PIPE_READY;
}

enum eplb_pipe_status eplb_pipe_peek(const struct eplb_pipe_end *end, struct eplb_fragment *fragment)
{
    /* Acquire: pairs with the writer's release; the bytes before this position are written. */
    uint64_t written = atomic_load_explicit(&end->positions->written, memory_order_acquire);
    uint64_t waiting = written - end->position;
    if (waiting == 0)
        return EPLB_PIPE_WAIT;
    if (waiting > end->capacity || waiting < HEADER)
        return EPLB_PIPE_DAMAGED;
    size_t before_end;
    /* One copy, then checks on the copy: a peer may write to the ring meanwhile. */
    memcpy(fragment, place(end, end->position, &before_end), HEADER);
    /* Without it the compiler might read the ring again in place of the copy. */
    atomic_signal_fence(memory_order_seq_cst);
    if (fragment->length > longest(end) || HEADER + padded(fragment->length) > waiting)
        return EPLB_PIPE_DAMAGED;
    if (fragment->offset > fragment->size || fragment->length > fragment->size - fragment->offset)
        return EPLB_PIPE_DAMAGED;
    return EPLB_PIPE_READY;
}

void eplb_pipe_take(struct eplb_pipe_end *end, const struct eplb_fragment *fragment,
                    struct eplb_part_cursor *target)
{
    size_t length = fragment->length;
    EPLB_ASSERT(length <= longest(end));
    size_t before_end;
    const unsigned char *payload = place(end, end->position + HEADER, &before_end);
    if (target != NULL) {
        size_t first = length < before_end ? length : before_end;
        eplb_part_cursor_write(target, payload, first);
        eplb_part_cursor_write(target, end->ring, length - first);
    }
    end->position += HEADER + padded(length);
    /* Release: the writer that sees this position may overwrite what was read before it. */
    atomic_store_explicit(&end->positions->read, end->position, memory_order_release);
}
