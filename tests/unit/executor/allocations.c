/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "allocations.h"

#include <stdatomic.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static _Atomic size_t count_of_all;

size_t allocations(void)
{
    return count_of_all;
}

void *__wrap_malloc(size_t size)
{
    count_of_all++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    count_of_all++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    count_of_all++;
    return __real_realloc(block, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    count_of_all++;
    return __real_aligned_alloc(alignment, size);
}
