/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a run comes to: balance per window, critical path, step times, digest. Pure.
 *
 * Two clocks. Wall time is what a watch shows, and with more ranks than processors it shows mostly
 * that. The critical path is what the slowest rank of every layer takes: per forward and layer the
 * largest over the ranks, summed; in CPU time of the expert computation, and in tokens (rows computed).
 * Likewise the time that choosing among replicas takes, which is not in the other.
 * A forward adds to it when all its results are there.
 *
 * A window is window_forwards forwards, whatever came of them: so windows of two runs are of the same
 * forwards. A forward adds its counts wholly or not at all: not when an output lacks, a prefix is none,
 * or a layer's window would pass 2^62. A window without load is closed and counted, but is neither the
 * first nor the last one: it says nothing about balance. Before any window with load was closed, the open
 * one stands for the first and the last.
 */
#ifndef ENGINE_STATISTICS_H
#define ENGINE_STATISTICS_H

#include <stdint.h>

#include "base/arena.h"
#include "engine/records.h"
#include "eplb/placement.h"
#include "eplb/wire.h"

struct eplb_statistics_params {
    struct eplb_shape shape;
    int32_t window_forwards; /* forwards of one window, >= 1 */
    const int32_t *initial;  /* [num_layers][num_slots] legal; borrowed */
};

/** Balance of one window: over layers with load, per layer the largest rank's load / the mean rank's. */
struct eplb_window_balance {
    double mean;         /* over layers; 1 when there was no load */
    double worst;        /* layer; 1 when there was no load */
    int32_t worst_layer; /* ties to the lowest; EPLB_NO_LAYER when there was no load */
};

struct eplb_statistics {
    uint64_t forwards, tokens; /* tokens: rows sampled */
    uint64_t windows;          /* closed */
    struct eplb_window_balance first_window, last_window;
    struct eplb_window_balance last_window_initial; /* the last window's counts under the initial placement,
                                                       every expert's split evenly over its replicas */
    int64_t critical_path_ns;                       /* at most 2^63 - 1 is told, as of the next three */
    int64_t critical_path_tokens;
    int64_t routing_path_ns;  /* CPU time of choosing replicas, on the slowest rank of every layer */
    int64_t mean_path_tokens; /* the same with the mean rank in place of the largest, rounded down */
    uint64_t digest;          /* of all samples: independent of ranks, batches and order */
};

struct eplb_statistics_keeper;

/** Takes the memory from an arena, which may only measure: then NULL. */
struct eplb_statistics_keeper *eplb_statistics_take(struct eplb_arena *arena,
                                                    const struct eplb_statistics_params *params);

/** Starts from nothing, whatever the memory held. The params are those of the take. */
void eplb_statistics_init(struct eplb_statistics_keeper *keeper, const struct eplb_statistics_params *params);

/**
 * Adds one forward.
 *
 * @param outputs [ep_size]; prefix NULL where one lacks: then its counts are not in the window
 * @param results [ep_size]; its samples NULL where one lacks: then the forward is not in the critical path
 * @param tables  [num_layers][num_slots] the tables that the forward ran under
 * @param step_ns >= 0
 */
void eplb_statistics_add(struct eplb_statistics_keeper *keeper, const struct eplb_worker_output *outputs,
                         const struct eplb_result *results, const int32_t *tables, int64_t step_ns);

/** So far. */
void eplb_statistics_read(const struct eplb_statistics_keeper *keeper, struct eplb_statistics *statistics);

/** The open window's balance. */
struct eplb_window_balance eplb_statistics_now(const struct eplb_statistics_keeper *keeper);

/** The step time at a percentile in (0, 100], in nanoseconds; as exact as base/histogram.h says. */
int64_t eplb_statistics_step_ns(const struct eplb_statistics_keeper *keeper, double percentile);

/** Rank loads of a layer in the last window, [ep_size], and what they would be initially. */
void eplb_statistics_rank_loads(const struct eplb_statistics_keeper *keeper, int32_t layer, double *measured,
                                double *initial);

/**
 * The most loaded logical expert of a layer in the last window, ties to the lowest, and its share of the
 * layer's load; -1 and 0 when there was no load.
 */
int32_t eplb_statistics_hottest(const struct eplb_statistics_keeper *keeper, int32_t layer, double *share);

#endif
