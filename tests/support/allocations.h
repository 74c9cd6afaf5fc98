/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Counts what a program allocates, and refuses it memory. The program is linked with --wrap for malloc,
 * calloc, realloc and aligned_alloc.
 */
#ifndef SUPPORT_ALLOCATIONS_H
#define SUPPORT_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>

/** Calls so far, over all threads, refused ones included. */
size_t allocations_counted(void);

/** From now on every call is refused, or none is. Any thread. */
void allocations_refuse(bool refuse);

#endif
