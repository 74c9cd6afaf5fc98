/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/allocations.h"

#include <stdatomic.h>
#include <stdbool.h>

/* The linker sends calls of malloc to __wrap_malloc, and those of __real_malloc to malloc. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static atomic_size_t counted;
static atomic_size_t first_failing;

size_t allocations_counted(void)
{
    return counted;
}

void allocations_reset(size_t failing)
{
    first_failing = failing;
    counted = 0;
}

static bool fails(void)
{
    size_t number = atomic_fetch_add(&counted, 1) + 1;
    return first_failing != 0 && number >= first_failing;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    return fails() ? NULL : __real_realloc(block, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}
