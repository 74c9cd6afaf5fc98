/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * An arena: one block of memory, carved once at start.
 *
 *   memory                                   memory + capacity
 *   | first | pad | second | ... | last | free  |
 *   ^ 64-aligned                        ^ used
 *
 * With memory NULL an arena only measures: takes return NULL and `used` grows. A constructor
 * runs one layout function twice, first to measure, then to carve, so the two cannot disagree.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

/** Alignment of every block: a cache line. */
#define EPLB_ARENA_ALIGN 64

struct eplb_arena {
    unsigned char *memory; /* NULL: measuring */
    size_t capacity;
    size_t used;
    int overflow; /* a size did not fit size_t, or the capacity: the arena is of no use */
};

/** Starts an arena over memory (aligned to EPLB_ARENA_ALIGN), or, with NULL, a measurement. */
void eplb_arena_init(struct eplb_arena *arena, void *memory, size_t capacity);

/** Takes count * size bytes, aligned, not cleared. NULL when measuring or on overflow. */
void *eplb_arena_take(struct eplb_arena *arena, size_t count, size_t size);

/** Allocates a zeroed block for an arena that measured `used` bytes; NULL when memory is short. */
void *eplb_arena_block(size_t used);

/**
 * Turns a measurement into an arena over a new zeroed block of the measured size. Returns the block, or
 * NULL, and the measurement as it was, when a size did not fit or memory is short.
 */
void *eplb_arena_reserve(struct eplb_arena *arena);

/** Frees a block of eplb_arena_block or eplb_arena_reserve; NULL is allowed. */
void eplb_arena_free(void *block);

#endif
