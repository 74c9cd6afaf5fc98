/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "metrics/metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"

struct output {
    void (*put)(void *context, const char *text, size_t length);
    void *context;
};

static void print(const struct output *output, const char *format, ...) EPLB_PRINTF(2, 3);

static void print(const struct output *output, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    EPLB_ASSERT(length >= 0 && (size_t)length < sizeof line);
    output->put(output->context, line, (size_t)length);
}

/* Integers only: printf's reals would follow the host's locale and round. */
static void print_value(const struct output *output, enum eplb_metric_unit unit, int64_t value)
{
    EPLB_ASSERT(value >= 0);
    if (unit != EPLB_UNIT_SECONDS) {
        print(output, "%" PRId64, value);
        return;
    }
    int64_t decimals = value % 1000000000;
    int digits = 9;
    while (digits > 0 && decimals % 10 == 0) {
        decimals /= 10;
        digits--;
    }
    if (digits == 0)
        print(output, "%" PRId64, value / 1000000000);
    else
        print(output, "%" PRId64 ".%0*" PRId64, value / 1000000000, digits, decimals);
}

static void print_scalar(const struct output *output, const struct eplb_metrics *metrics,
                         enum eplb_metric metric)
{
    const struct eplb_metric_row *row = eplb_metric_row(metric);
    int64_t value = eplb_metrics_get(metrics, metric);
    print(output, "%s ", row->name);
    if (value == EPLB_METRIC_UNSET)
        print(output, "NaN");
    else
        print_value(output, row->unit, value);
    print(output, "\n");
}

static void print_histogram(const struct output *output, const struct eplb_metrics *metrics,
                            enum eplb_metric metric)
{
    const struct eplb_metric_row *row = eplb_metric_row(metric);
    int64_t count = 0;
    for (size_t i = 0; i < EPLB_NUM_METRIC_BOUNDS; i++) {
        count += eplb_metrics_bucket(metrics, metric, i);
        print(output, "%s_bucket{le=\"", row->name);
        print_value(output, row->unit, eplb_metric_bounds[i]);
        print(output, "\"} %" PRId64 "\n", count);
    }
    count += eplb_metrics_bucket(metrics, metric, EPLB_NUM_METRIC_BOUNDS);
    print(output, "%s_bucket{le=\"+Inf\"} %" PRId64 "\n", row->name, count);
    print(output, "%s_sum ", row->name);
    print_value(output, row->unit, eplb_metrics_get(metrics, metric));
    print(output, "\n%s_count %" PRId64 "\n", row->name, count);
}

void eplb_metrics_expose(const struct eplb_metrics *metrics,
                         void (*put)(void *context, const char *text, size_t length), void *context)
{
    static const char *const type_names[] = {[EPLB_METRIC_COUNTER] = "counter",
                                             [EPLB_METRIC_GAUGE] = "gauge",
                                             [EPLB_METRIC_HISTOGRAM] = "histogram"};
    const struct output output = {.put = put, .context = context};
    for (int i = 0; i < EPLB_NUM_METRICS; i++) {
        enum eplb_metric metric = (enum eplb_metric)i;
        const struct eplb_metric_row *row = eplb_metric_row(metric);
        print(&output, "# HELP %s %s\n", row->name, row->help);
        print(&output, "# TYPE %s %s\n", row->name, type_names[row->type]);
        if (row->type == EPLB_METRIC_HISTOGRAM)
            print_histogram(&output, metrics, metric);
        else
            print_scalar(&output, metrics, metric);
    }
}
