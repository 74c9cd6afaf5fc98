/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "load/prefix.h"

#include "base/assert.h"
#include "base/error.h"
#include "eplb/load.h"

size_t eplb_prefix_first_fall(const int64_t *prefix, size_t n)
{
    int64_t before = 0;
    for (size_t i = 0; i < n; i++) {
        if (prefix[i] < before)
            return i;
        before = prefix[i];
    }
    return n;
}

enum eplb_status eplb_prefix_encode(const int64_t *counts, size_t n, int64_t *prefix,
                                    struct eplb_error *error)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (counts[i] < 0)
            EPLB_FAIL(EPLB_INVALID, "entry %zu: count %lld is negative", i, (long long)counts[i]);
        if (__builtin_add_overflow(sum, counts[i], &sum))
            EPLB_FAIL(EPLB_INVALID, "entry %zu: the sum of the counts passes 2^63 - 1", i);
    }
    sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += counts[i];
        prefix[i] = sum;
    }
    return EPLB_OK;
}

enum eplb_status eplb_prefix_decode(const int64_t *prefix, size_t n, int64_t *counts,
                                    struct eplb_error *error)
{
    size_t fall = eplb_prefix_first_fall(prefix, n);
    if (fall < n)
        EPLB_FAIL(EPLB_INVALID, "entry %zu: prefix sum %lld is below %lld, the sum before it", fall,
                  (long long)prefix[fall], (long long)(fall == 0 ? 0 : prefix[fall - 1]));
    int64_t sign = eplb_prefix_differences(prefix, n, counts);
    EPLB_ASSERT(sign >= 0);
    return EPLB_OK;
}
