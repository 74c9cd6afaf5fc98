/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/histogram.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"

enum { SUB_BUCKETS = 1 << EPLB_HISTOGRAM_SUB_BITS };

static size_t bucket_of(int64_t value)
{
    if (value < SUB_BUCKETS)
        return (size_t)value;
    int exponent = 63 - __builtin_clzll((unsigned long long)value);
    int shift = exponent - EPLB_HISTOGRAM_SUB_BITS;
    return (size_t)shift * SUB_BUCKETS + (size_t)(value >> shift);
}

static int64_t last_of(size_t bucket)
{
    if (bucket < SUB_BUCKETS)
        return (int64_t)bucket;
    size_t shift = bucket / SUB_BUCKETS - 1;
    uint64_t leading = bucket - shift * SUB_BUCKETS;
    /* Unsigned: the end of the last bucket is 2^63 - 1, reached by way of 2^63. */
    return (int64_t)(((leading + 1) << shift) - 1);
}

void eplb_histogram_init(struct eplb_histogram *histogram)
{
    memset(histogram, 0, sizeof *histogram);
    histogram->min = INT64_MAX;
}

void eplb_histogram_record(struct eplb_histogram *histogram, int64_t value)
{
    EPLB_ASSERT(value >= 0);
    size_t bucket = bucket_of(value);
    EPLB_ASSERT(bucket < EPLB_HISTOGRAM_BUCKETS);
    histogram->buckets[bucket]++;
    histogram->count++;
    histogram->sum += (uint64_t)value;
    if (value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
}

void eplb_histogram_merge(struct eplb_histogram *into, const struct eplb_histogram *from)
{
    EPLB_ASSERT(from->count <= UINT64_MAX - into->count);
    for (size_t i = 0; i < EPLB_HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    into->count += from->count;
    into->sum += from->sum;
    if (from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
}

uint64_t eplb_histogram_count(const struct eplb_histogram *histogram)
{
    return histogram->count;
}

int64_t eplb_histogram_min(const struct eplb_histogram *histogram)
{
    return histogram->count == 0 ? 0 : histogram->min;
}

int64_t eplb_histogram_max(const struct eplb_histogram *histogram)
{
    return histogram->max;
}

eplb_u128 eplb_histogram_sum(const struct eplb_histogram *histogram)
{
    return histogram->sum;
}

int64_t eplb_histogram_quantile(const struct eplb_histogram *histogram, int32_t parts)
{
    EPLB_ASSERT(parts >= 0 && parts <= EPLB_QUANTILE_UNIT);
    if (histogram->count == 0)
        return 0;
    eplb_u128 product = (eplb_u128)histogram->count * (uint32_t)parts;
    uint64_t place = (uint64_t)((product + EPLB_QUANTILE_UNIT - 1) / EPLB_QUANTILE_UNIT);
    if (place == 0)
        place = 1;
    size_t bucket = 0;
    uint64_t below = histogram->buckets[0];
    while (below < place) {
        bucket++;
        EPLB_ASSERT(bucket < EPLB_HISTOGRAM_BUCKETS);
        below += histogram->buckets[bucket];
    }
    int64_t last = last_of(bucket);
    return last < histogram->max ? last : histogram->max;
}
