/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#ifndef LOAD_PREFIX_H
#define LOAD_PREFIX_H

#include <stddef.h>
#include <stdint.h>

/**
 * Index of the first entry that is below the one before it, or of a negative first entry; n when
 * prefix can be a row of inclusive prefix sums.
 */
size_t eplb_prefix_first_fall(const int64_t *prefix, size_t n);

/**
 * Writes the differences of prefix, the first entry its own, and returns a number that is negative
 * exactly when eplb_prefix_first_fall finds an entry. The differences are then of no use.
 */
static inline int64_t eplb_prefix_differences(const int64_t *prefix, size_t n, int64_t *counts)
{
    int64_t sign = 0;
    int64_t before = 0;
    for (size_t i = 0; i < n; i++) {
        /* Unsigned, because hostile entries may be further apart than int64 reaches. With the signs
         * of the entries in the result, a difference that wrapped cannot hide. */
        counts[i] = (int64_t)((uint64_t)prefix[i] - (uint64_t)before);
        sign |= counts[i] | prefix[i];
        before = prefix[i];
    }
    return sign;
}

#endif
