/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/allocations.h"

#include <stdatomic.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static _Atomic size_t counted;
static _Atomic bool refused;

size_t allocations_counted(void)
{
    return counted;
}

void allocations_refuse(bool refuse)
{
    refused = refuse;
}

static bool grant(void)
{
    counted++;
    return !refused;
}

void *__wrap_malloc(size_t size)
{
    return grant() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return grant() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *block, size_t size)
{
    return grant() ? __real_realloc(block, size) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return grant() ? __real_aligned_alloc(alignment, size) : NULL;
}
