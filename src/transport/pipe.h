/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A pipe: a ring of bytes in shared memory from one rank to another. One writer, one reader, no
 * lock, no pointer. What passes through are fragments of messages, each with a header that says
 * which message it belongs to and where in it, so that a reader can drop any of them and a writer
 * can stop between any two.
 *
 *   ring   ... | header | payload, padded | header | payload, padded | free ...
 *              ^ read                                                ^ written
 *
 * Headers and paddings are cache lines, so a header never wraps around the ring's end; a payload may.
 *
 * Each end keeps its own position and believes the shared memory nothing: a peer that writes
 * nonsense there makes the pipe damaged, not the reader.
 */
#ifndef TRANSPORT_PIPE_H
#define TRANSPORT_PIPE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/parts.h"

/** What all shared structs are aligned to, so that no two ranks write to one line. */
#define EPLB_CACHE_LINE 64

/** Smallest ring: a fragment's limit is half a ring, and it needs room for a line of payload. */
#define EPLB_MIN_RING_BYTES 256

/** Shared between processes: no change without a change of the segment's version. Starts as zeros. */
struct eplb_pipe_positions {
    _Alignas(EPLB_CACHE_LINE) _Atomic uint64_t written; /* bytes ever written; stored by the writer only */
    _Alignas(EPLB_CACHE_LINE) _Atomic uint64_t read;    /* bytes ever read; stored by the reader only */
};

_Static_assert(offsetof(struct eplb_pipe_positions, written) == 0, "layout of a pipe");
_Static_assert(offsetof(struct eplb_pipe_positions, read) == 64, "layout of a pipe");
_Static_assert(sizeof(struct eplb_pipe_positions) == 128, "layout of a pipe");

/** The header of a fragment, in the ring. */
struct eplb_fragment {
    uint64_t message; /* ticket of the receive that it answers, or number of the collective round */
    uint64_t token;   /* activation token; 0 in a collective */
    uint64_t size;    /* of the whole message */
    uint64_t offset;  /* of this fragment in it */
    uint32_t want;    /* the receive's place in its rank's list; 0 in a collective */
    uint32_t length;  /* bytes of payload that follow */
    uint64_t reserved[3];
};

_Static_assert(offsetof(struct eplb_fragment, offset) == 24, "layout of a fragment");
_Static_assert(offsetof(struct eplb_fragment, length) == 36, "layout of a fragment");
_Static_assert(sizeof(struct eplb_fragment) == EPLB_CACHE_LINE, "layout of a fragment");

/** One end of a pipe, private to its rank. */
struct eplb_pipe_end {
    struct eplb_pipe_positions *positions;
    unsigned char *ring;
    size_t capacity;   /* a power of two, >= EPLB_MIN_RING_BYTES */
    uint64_t position; /* bytes ever written, or read, by this end */
};

enum eplb_pipe_status {
    EPLB_PIPE_READY,   /* done */
    EPLB_PIPE_WAIT,    /* no room, or nothing there: the other end has to move first */
    EPLB_PIPE_DAMAGED, /* what the other end wrote makes no sense; nothing more can be done with it */
};

/** The end of a pipe whose memory is fresh (all zeros). */
struct eplb_pipe_end eplb_pipe_end_make(struct eplb_pipe_positions *positions, unsigned char *ring,
                                        size_t capacity);

/**
 * Writes the next fragment of a message: as many bytes as a fragment holds, or all that are left.
 *
 * @param fragment size and offset say what is left; length is set to what was written
 * @param source   where the payload is taken from; NULL writes the header alone, of length 0
 * @return READY; WAIT and DAMAGED wrote nothing
 */
enum eplb_pipe_status eplb_pipe_write(struct eplb_pipe_end *end, struct eplb_fragment *fragment,
                                      struct eplb_part_cursor *source);

/**
 * Looks at the next fragment. Its header is whole, its payload is there, and offset + length does not
 * exceed size; what it belongs to is for the caller to judge.
 */
enum eplb_pipe_status eplb_pipe_peek(const struct eplb_pipe_end *end, struct eplb_fragment *fragment);

/** Takes the fragment that peek has shown, and copies its payload to the target; NULL drops it. */
void eplb_pipe_take(struct eplb_pipe_end *end, const struct eplb_fragment *fragment,
                    struct eplb_part_cursor *target);

#endif
