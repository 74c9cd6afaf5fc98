/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Counts allocations: the program is linked with --wrap for malloc and its relatives.
 */
#ifndef SIM_ALLOCATIONS_H
#define SIM_ALLOCATIONS_H

#include <stdint.h>

/** Calls that have allocated so far. */
uint64_t sim_num_allocations(void);

#endif
