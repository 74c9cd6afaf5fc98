/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

void eplb_arena_init(struct eplb_arena *arena, void *memory, size_t capacity)
{
    EPLB_ASSERT((uintptr_t)memory % EPLB_ARENA_ALIGN == 0);
    *arena = (struct eplb_arena){.memory = memory, .capacity = capacity};
}

void *eplb_arena_take(struct eplb_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    size_t end;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)EPLB_ARENA_ALIGN - 1, &bytes) ||
        __builtin_add_overflow(arena->used, bytes & ~(size_t)(EPLB_ARENA_ALIGN - 1), &end) ||
        (arena->memory != NULL && end > arena->capacity)) {
        arena->overflow = 1;
        return NULL;
    }
    unsigned char *block = arena->memory == NULL ? NULL : arena->memory + arena->used;
    arena->used = end;
    return block;
}

void *eplb_arena_block(size_t used)
{
    size_t bytes = used == 0 ? EPLB_ARENA_ALIGN : used;
    if (bytes > SIZE_MAX - EPLB_ARENA_ALIGN)
        return NULL;
    bytes = (bytes + EPLB_ARENA_ALIGN - 1) & ~(size_t)(EPLB_ARENA_ALIGN - 1);
    void *block = aligned_alloc(EPLB_ARENA_ALIGN, bytes);
    if (block != NULL)
        memset(block, 0, bytes);
    return block;
}

void *eplb_arena_reserve(struct eplb_arena *arena)
{
    EPLB_ASSERT(arena->memory == NULL);
    void *block = arena->overflow ? NULL : eplb_arena_block(arena->used);
    if (block != NULL)
        eplb_arena_init(arena, block, arena->used);
    return block;
}

void eplb_arena_free(void *block)
{
    free(block);
}
