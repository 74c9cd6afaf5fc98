/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Sorting ids by 64-bit keys, in place.
 */
#ifndef POLICY_SORT_PAIRS_H
#define POLICY_SORT_PAIRS_H

#include <stdint.h>

/**
 * Sorts keys and the ids that go with them, largest key first; the order of equal keys depends on the
 * input only. O(n log n).
 */
void eplb_sort_pairs(int64_t *keys, int32_t *ids, int32_t count);

#endif
