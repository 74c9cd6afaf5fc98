/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Counters of what the balancing did, and their text form. Belongs to src/metrics.
 *
 * The host creates one struct eplb_metrics and gives it to the objects that count into it. All
 * metrics are facts about the whole run: there is no series per rank or per layer. Which metrics
 * exist is one table (src/metrics/metric_table.h).
 */
#ifndef EPLB_METRICS_H
#define EPLB_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** All metrics of one run. Opaque; created once, shared by every object that counts. */
struct eplb_metrics;

/**
 * Allocates metrics: counters and histograms at zero, gauges without a value. Nothing that uses
 * them allocates later.
 *
 * @param metrics receives the metrics, owned by the caller
 * @return EPLB_OK, or EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_metrics_create(struct eplb_metrics **metrics, struct eplb_error *error);

/** Frees metrics that no object uses any more; NULL is allowed. */
EPLB_API void eplb_metrics_destroy(struct eplb_metrics *metrics);

/**
 * Writes all metrics in the Prometheus text exposition format 0.0.4 (content type
 * "text/plain; version=0.0.4"), always in the same order, whatever the locale. Durations are in
 * seconds, with up to nine decimals. A gauge that was never set is NaN.
 *
 * Thread-safe, also beside threads that count. Every number is then one that its metric had
 * during the call; a histogram's buckets and its count agree with each other.
 *
 * @param put     called several times, each time with the next `length` bytes of text, which are
 *                not zero-terminated and live until put returns
 * @param context first argument of put
 */
EPLB_API void eplb_metrics_expose(const struct eplb_metrics *metrics,
                                  void (*put)(void *context, const char *text, size_t length), void *context);

#ifdef __cplusplus
}
#endif
#endif
