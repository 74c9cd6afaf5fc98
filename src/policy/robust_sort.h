/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Experts by load, hottest first, ties to the lowest id.
 */
#ifndef POLICY_ROBUST_SORT_H
#define POLICY_ROBUST_SORT_H

#include <stdbool.h>
#include <stdint.h>

static inline bool eplb_before(double load, int32_t expert, double other_load, int32_t other)
{
    return load > other_load || (load == other_load && expert < other);
}

/** Sorts ids 0 .. count - 1 into order by merging; spare: room for [count]. */
void eplb_sort_hottest(const double *load, int32_t count, int32_t *order, int32_t *spare);

#endif
