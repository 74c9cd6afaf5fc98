/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The EP ranks of one model as threads over a `threads` group, each with its executor. A rank that fails
 * is told dead to the others, so that none waits for it; where ranks disagree, all of them see it.
 */
#ifndef UNIT_MODEL_RANKS_H
#define UNIT_MODEL_RANKS_H

#include <stdbool.h>

#include "eplb/executor.h"
#include "eplb/threads.h"
#include "model/model.h"

enum { RANKS_MAX = 4, RANKS_MAX_ROWS = 24, RANKS_MAX_LAYERS = 4, RANKS_MAX_SLOTS = 64 };

struct ranks_params {
    struct eplb_model_config config;
    int32_t ep_size, redundant;
    int32_t max_rows, num_caches;
    const int32_t *initial; /* [num_layers][num_slots]; NULL: the initial placement */
    int decode_only_load;
    const struct eplb_route_source *routes;
    enum eplb_replica_routing replica_routing;
    const int32_t *node_of_rank; /* [ep_size]; NULL: one node */
    int32_t cost_per_active_slot;
};

/** What one rank gets for a forward, and what it gives. */
struct rank_forward {
    struct eplb_model_row rows[RANKS_MAX_ROWS];
    int32_t num_rows;
    uint64_t seq_ahead;        /* it runs a later forward than it was told */
    uint64_t generation_ahead; /* it runs a later generation of the last layer than it should */
    uint64_t version_ahead;    /* its model has taken later weights of the last layer than it was told */
    struct eplb_model_sample samples[RANKS_MAX_ROWS];
    int32_t num_samples;
    enum eplb_status status;
    struct eplb_error error;
    struct eplb_worker_output output;
};

struct ranks {
    struct ranks_params params;
    struct eplb_shape shape;
    struct eplb_threads *threads;
    struct eplb_model *models[RANKS_MAX];
    struct eplb_executor *executors[RANKS_MAX];
    struct rank_forward forwards[RANKS_MAX];
    struct eplb_command command;
    unsigned flags;
};

/** Creates all ranks; fails the test when it cannot. */
void ranks_create(struct ranks *ranks, const struct ranks_params *params);
void ranks_destroy(struct ranks *ranks);

/** The engine's view of the group. */
const struct eplb_group *ranks_engine(const struct ranks *ranks);

/** Runs the rows of `forwards` under `command` and `flags` on all ranks at once. */
void ranks_forward(struct ranks *ranks);

/** Fails the test unless every rank's forward went well. */
void ranks_expect_ok(const struct ranks *ranks);

/** Rows that all ranks' slots counted in the last forward. */
int64_t ranks_counted(const struct ranks *ranks, int32_t layer);

/** A small model, the same for the same seed: widths, window, experts and choices are drawn. */
struct eplb_model_config ranks_random_config(uint64_t seed);

#endif
