/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Counts what a program linked with --wrap for malloc, calloc, realloc and aligned_alloc allocates, over
 * all its threads, and lets allocations fail.
 */
#ifndef SUPPORT_ALLOCATIONS_H
#define SUPPORT_ALLOCATIONS_H

#include <stddef.h>

/** Allocations since the last reset, refused ones included. */
size_t allocations_counted(void);

/** Forgets what was counted. Allocation number `failing` (1: the next one) and all after it fail; 0: none. */
void allocations_reset(size_t failing);

#endif
