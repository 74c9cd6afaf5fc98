/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Counts allocations of this program's own objects. The program is linked with --wrap for each
 * allocating function.
 */
#ifndef UNIT_EXECUTOR_ALLOCATIONS_H
#define UNIT_EXECUTOR_ALLOCATIONS_H

#include <stddef.h>

/** Allocations so far, over all threads. */
size_t allocations(void);

#endif
