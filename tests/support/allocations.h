/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Counts what a program linked with --wrap=malloc,calloc,realloc,aligned_alloc allocates, and lets
 * an allocation fail.
 */
#ifndef SUPPORT_ALLOCATIONS_H
#define SUPPORT_ALLOCATIONS_H

/** Allocations since the last reset. */
int allocations_counted(void);

/** Forgets what was counted. Allocation number `failing` (1: the next one) and all after it fail; 0: none. */
void allocations_reset(int failing);

#endif
