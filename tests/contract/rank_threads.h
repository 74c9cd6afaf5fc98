/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Ranks that are threads: run_ranks of the makers whose groups have them.
 */
#ifndef CONTRACT_RANK_THREADS_H
#define CONTRACT_RANK_THREADS_H

#include <stdint.h>

void run_rank_threads(void *made, int32_t num_ranks, void (*run)(void *context, int32_t rank), void *context);

#endif
