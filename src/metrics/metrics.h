/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Counting by metric id. All functions are thread-safe and neither block nor allocate.
 */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "eplb/metrics.h"
#include "metrics/metric_table.h"

enum eplb_metric {
#define EPLB_METRIC_ENUM(id, type, unit, name, help) EPLB_METRIC_##id,
    EPLB_METRIC_TABLE(EPLB_METRIC_ENUM)
#undef EPLB_METRIC_ENUM
        EPLB_NUM_METRICS
};

enum eplb_metric_type {
    EPLB_METRIC_COUNTER,
    EPLB_METRIC_GAUGE,
    EPLB_METRIC_HISTOGRAM,
};

enum eplb_metric_unit {
    EPLB_UNIT_ONE,
    EPLB_UNIT_BYTES,
    EPLB_UNIT_SECONDS, /* recorded in nanoseconds */
};

/** A row of the table. */
struct eplb_metric_row {
    const char *name;
    const char *help;
    enum eplb_metric_type type;
    enum eplb_metric_unit unit;
};

/** The row of a metric; static. */
const struct eplb_metric_row *eplb_metric_row(enum eplb_metric metric);

/** Adds amount, >= 0, to a counter. */
void eplb_metrics_add(struct eplb_metrics *metrics, enum eplb_metric metric, int64_t amount);

/** Sets a gauge to a value >= 0. */
void eplb_metrics_set(struct eplb_metrics *metrics, enum eplb_metric metric, int64_t value);

/** Counts one observation, >= 0, in a histogram. */
void eplb_metrics_observe(struct eplb_metrics *metrics, enum eplb_metric metric, int64_t value);

/** What eplb_metrics_get returns for a gauge that was never set. */
#define EPLB_METRIC_UNSET INT64_MIN

/** The value of a counter or gauge, or the sum of a histogram's observations. */
int64_t eplb_metrics_get(const struct eplb_metrics *metrics, enum eplb_metric metric);

/** Upper bounds of every histogram's buckets but the last, which has none. */
#define EPLB_NUM_METRIC_BOUNDS (sizeof((const int64_t[]){EPLB_METRIC_BOUNDS}) / sizeof(int64_t))
extern const int64_t eplb_metric_bounds[EPLB_NUM_METRIC_BOUNDS];

/** Observations in a histogram's bucket [0, EPLB_NUM_METRIC_BOUNDS], without those of lower buckets. */
int64_t eplb_metrics_bucket(const struct eplb_metrics *metrics, enum eplb_metric metric, size_t bucket);

#endif
