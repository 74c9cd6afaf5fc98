/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The one table of metrics, in the order of their exposition.
 *
 * METRIC(id, type, unit, name, help)
 *
 * type: COUNTER only grows; GAUGE is set; HISTOGRAM counts observations by size.
 * unit: ONE counts things; BYTES counts bytes; SECONDS is recorded in nanoseconds and exposed in seconds.
 * name: eplb_..., ending in _total for a counter and naming the unit, as Prometheus asks for.
 */
#ifndef METRICS_METRIC_TABLE_H
#define METRICS_METRIC_TABLE_H

#define EPLB_METRIC_TABLE(METRIC)                                                     \
    METRIC(SAMPLES_TAKEN, COUNTER, ONE, "eplb_samples_taken_total",                   \
           "Load samples that were added to the windows.")                            \
    METRIC(SAMPLES_REFUSED, COUNTER, ONE, "eplb_samples_refused_total",               \
           "Load samples that were refused because a rank's counts were wrong.")      \
    METRIC(SAMPLES_LACKING, COUNTER, ONE, "eplb_samples_lacking_total",               \
           "Forwards that gave no load sample because a rank's output was lacking.")  \
    METRIC(REBALANCES_STARTED, COUNTER, ONE, "eplb_rebalances_started_total",         \
           "Policy runs over all layers that were started.")                          \
    METRIC(TRAFFIC_SHIFTS, COUNTER, ONE, "eplb_traffic_shifts_total",                 \
           "Shifts of the traffic that started a policy run before its time.")        \
    METRIC(WEIGHT_SOLVES, COUNTER, ONE, "eplb_weight_solves_total",                   \
           "Solves of replica weights from the recent load that were started.")       \
    METRIC(WEIGHT_UPDATES, COUNTER, ONE, "eplb_weight_updates_total",                 \
           "New versions of a layer's replica weights that commands carried.")        \
    METRIC(LAYERS_PUBLISHED, COUNTER, ONE, "eplb_layers_published_total",             \
           "Layers whose candidate placement passed the gate.")                       \
    METRIC(LAYERS_ACTIVATED, COUNTER, ONE, "eplb_layers_activated_total",             \
           "Layers that were switched to their candidate placement on all ranks.")    \
    METRIC(LAYERS_ABORTED, COUNTER, ONE, "eplb_layers_aborted_total",                 \
           "Layers whose candidate placement was given up, for whatever reason.")     \
    METRIC(LAYERS_TIMED_OUT, COUNTER, ONE, "eplb_layers_timed_out_total",             \
           "Layers among the aborted ones whose prepare was not answered in time.")   \
    METRIC(MOVED_SLOTS, COUNTER, ONE, "eplb_moved_slots_total",                       \
           "Physical slots that activations gave another expert.")                    \
    METRIC(MOVED_BYTES, COUNTER, BYTES, "eplb_moved_bytes_total",                     \
           "Bytes of expert weights that activations sent between ranks.")            \
    METRIC(POLICY_SECONDS, HISTOGRAM, SECONDS, "eplb_policy_seconds",                 \
           "Duration of one policy run over all layers.")                             \
    METRIC(LAST_SAMPLE_AGE, GAUGE, SECONDS, "eplb_last_sample_age_seconds",           \
           "Time since the last load sample was taken.")                              \
    METRIC(LAST_ACTIVATION_WAIT, GAUGE, SECONDS, "eplb_last_activation_wait_seconds", \
           "Time that the last activation waited for the reports of all ranks.")      \
    METRIC(ACTIVATION_STUCK, GAUGE, ONE, "eplb_activation_stuck",                     \
           "1 while an activation lacks a report for too long, else 0.")

/**
 * Upper bounds of the buckets of every histogram, in nanoseconds, ascending. From a small model's
 * policy run to one that takes longer than most update intervals.
 */
#define EPLB_METRIC_BOUNDS                                                                              \
    100000, 300000, 1000000, 3000000, 10000000, 30000000, 100000000, 300000000, 1000000000, 3000000000, \
        10000000000

#endif
