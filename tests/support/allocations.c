/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/allocations.h"

#include <stddef.h>

/* The linker sends calls of malloc to __wrap_malloc, and those of __real_malloc to malloc. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static int counted;
static int first_failing;

int allocations_counted(void)
{
    return counted;
}

void allocations_reset(int failing)
{
    counted = 0;
    first_failing = failing;
}

static int fails(void)
{
    counted++;
    return first_failing != 0 && counted >= first_failing;
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
