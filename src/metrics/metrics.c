/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "metrics/metrics.h"

#include <stdatomic.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"

const int64_t eplb_metric_bounds[EPLB_NUM_METRIC_BOUNDS] = {EPLB_METRIC_BOUNDS};

static const struct eplb_metric_row rows[EPLB_NUM_METRICS] = {
#define METRIC_ROW(id, type_name, unit_name, name_text, help_text) \
    [EPLB_METRIC_##id] = {.name = name_text,                       \
                          .help = help_text,                       \
                          .type = EPLB_METRIC_##type_name,         \
                          .unit = EPLB_UNIT_##unit_name},
    EPLB_METRIC_TABLE(METRIC_ROW)};

/* Every access below is relaxed: each number is a fact of its own, no reader concludes from one
 * number that another, or any other memory, has been written. Only that no addition is lost
 * matters, and that a read sees one whole number; atomicity alone gives both. */
struct eplb_metrics {
    _Atomic int64_t values[EPLB_NUM_METRICS];
    _Atomic int64_t buckets[EPLB_NUM_METRICS][EPLB_NUM_METRIC_BOUNDS + 1]; /* used by histograms */
};

enum eplb_status eplb_metrics_create(struct eplb_metrics **metrics, struct eplb_error *error)
{
    struct eplb_metrics *created = eplb_arena_block(sizeof *created);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "the metrics need %zu bytes of memory, which are not available",
                  sizeof *created);
    for (size_t i = 0; i < EPLB_NUM_METRICS; i++) {
        atomic_init(&created->values[i], rows[i].type == EPLB_METRIC_GAUGE ? EPLB_METRIC_UNSET : 0);
        for (size_t bucket = 0; bucket <= EPLB_NUM_METRIC_BOUNDS; bucket++)
            atomic_init(&created->buckets[i][bucket], 0);
    }
    *metrics = created;
    return EPLB_OK;
}

void eplb_metrics_destroy(struct eplb_metrics *metrics)
{
    eplb_arena_free(metrics);
}

const struct eplb_metric_row *eplb_metric_row(enum eplb_metric metric)
{
    EPLB_ASSERT(metric < EPLB_NUM_METRICS);
    return &rows[metric];
}

void eplb_metrics_add(struct eplb_metrics *metrics, enum eplb_metric metric, int64_t amount)
{
    EPLB_ASSERT(eplb_metric_row(metric)->type == EPLB_METRIC_COUNTER);
    EPLB_ASSERT(amount >= 0);
    /* Relaxed: see above; the read-modify-write loses no addition of another thread. */
    atomic_fetch_add_explicit(&metrics->values[metric], amount, memory_order_relaxed);
}

void eplb_metrics_set(struct eplb_metrics *metrics, enum eplb_metric metric, int64_t value)
{
    EPLB_ASSERT(eplb_metric_row(metric)->type == EPLB_METRIC_GAUGE);
    EPLB_ASSERT(value >= 0);
    /* Relaxed: see above; of two setters either may be the last one. */
    atomic_store_explicit(&metrics->values[metric], value, memory_order_relaxed);
}

void eplb_metrics_observe(struct eplb_metrics *metrics, enum eplb_metric metric, int64_t value)
{
    EPLB_ASSERT(eplb_metric_row(metric)->type == EPLB_METRIC_HISTOGRAM);
    EPLB_ASSERT(value >= 0);
    size_t bucket = 0;
    while (bucket < EPLB_NUM_METRIC_BOUNDS && value > eplb_metric_bounds[bucket])
        bucket++;
    /* Relaxed: see above; a reader may see the one and not yet the other, which eplb/metrics.h allows. */
    atomic_fetch_add_explicit(&metrics->buckets[metric][bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&metrics->values[metric], value, memory_order_relaxed);
}

int64_t eplb_metrics_get(const struct eplb_metrics *metrics, enum eplb_metric metric)
{
    EPLB_ASSERT(metric < EPLB_NUM_METRICS);
    /* Relaxed: see above. */
    return atomic_load_explicit(&metrics->values[metric], memory_order_relaxed);
}

int64_t eplb_metrics_bucket(const struct eplb_metrics *metrics, enum eplb_metric metric, size_t bucket)
{
    EPLB_ASSERT(eplb_metric_row(metric)->type == EPLB_METRIC_HISTOGRAM);
    EPLB_ASSERT(bucket <= EPLB_NUM_METRIC_BOUNDS);
    /* Relaxed: see above. */
    return atomic_load_explicit(&metrics->buckets[metric][bucket], memory_order_relaxed);
}
