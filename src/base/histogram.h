/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A log-linear histogram of non-negative integers in fixed memory.
 *
 * Values below 64 have a bucket each. Above, every power of two is cut into 32 equal buckets, so
 * a bucket [low, high] has (high - low) < low / 32: a quantile is never below the exact one, and
 * above it by less than 1/32 of it. Recording and merging are exact in count, sum, min and max.
 *
 * Not thread-safe: one owner, or a lock around it.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#include "base/wide.h"

#define EPLB_HISTOGRAM_SUB_BITS 5
/** 32 single values, then 32 buckets for each power of two from 2^5 to 2^62. */
#define EPLB_HISTOGRAM_BUCKETS ((1 + 63 - EPLB_HISTOGRAM_SUB_BITS) << EPLB_HISTOGRAM_SUB_BITS)

/** Quantiles are given in parts per million: 500000 is the median. */
#define EPLB_QUANTILE_UNIT 1000000

struct eplb_histogram {
    uint64_t count;
    int64_t min; /* INT64_MAX when empty */
    int64_t max; /* 0 when empty */
    eplb_u128 sum;
    uint64_t buckets[EPLB_HISTOGRAM_BUCKETS];
};

/** Makes the histogram empty. */
void eplb_histogram_init(struct eplb_histogram *histogram);

/** Counts one value, >= 0. */
void eplb_histogram_record(struct eplb_histogram *histogram, int64_t value);

/** Adds all values of `from`, which stays as it is, to `into`. */
void eplb_histogram_merge(struct eplb_histogram *into, const struct eplb_histogram *from);

/** How many values were recorded. */
uint64_t eplb_histogram_count(const struct eplb_histogram *histogram);

/** The smallest and largest value recorded; 0 when empty. */
int64_t eplb_histogram_min(const struct eplb_histogram *histogram);
int64_t eplb_histogram_max(const struct eplb_histogram *histogram);

/** The exact sum of the values. */
eplb_u128 eplb_histogram_sum(const struct eplb_histogram *histogram);

/**
 * The value that `parts` in a million of the recorded values do not exceed: of n values in
 * ascending order the one at place ceil(n * parts / 1000000), the first for 0, rounded up to the
 * end of its bucket but not above the maximum. 0 when empty.
 *
 * @param parts in [0, EPLB_QUANTILE_UNIT]
 */
int64_t eplb_histogram_quantile(const struct eplb_histogram *histogram, int32_t parts);

#endif
