/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Made-up workers that a seed decides everything about: they prepare or fail, switch or keep all together,
 * report late, and lose outputs. For a manager's core or for a manager.
 */
#ifndef UNIT_TRACE_WORKERS_H
#define UNIT_TRACE_WORKERS_H

#include <stdbool.h>

#include "base/prng.h"
#include "eplb/manager.h"

enum { WORKER_RANKS = 4, WORKER_EXPERTS = 8, WORKER_SLOTS = 3, WORKER_LAYERS = 3 };

/** A forward that was given to the workers: what they will answer. */
struct worker_forward {
    uint64_t seq;
    int64_t prefix[WORKER_RANKS][WORKER_LAYERS * WORKER_SLOTS];
    uint64_t generations[WORKER_RANKS][WORKER_LAYERS];
    uint64_t versions[WORKER_RANKS][WORKER_LAYERS];
    struct eplb_worker_output outputs[WORKER_RANKS];
};

struct workers {
    struct eplb_prng prng;
    struct eplb_worker_levels levels[WORKER_RANKS]; /* as it is */
    struct eplb_worker_levels told[WORKER_RANKS];   /* as it is reported: some time behind */
    uint64_t generations[WORKER_LAYERS];
    uint64_t versions[WORKER_LAYERS]; /* of the weights */
    int32_t hot[WORKER_LAYERS];
    bool dead[WORKER_RANKS];
    bool calm; /* nobody fails */
    struct worker_forward forwards[2];
};

/** generations [WORKER_LAYERS] or NULL: all 0. */
void workers_init(struct workers *workers, uint64_t seed, const uint64_t *generations);

/** True in `percent` of 100 cases. */
bool workers_chance(struct workers *workers, uint64_t percent);

/** Batches of a forward: mostly decode. */
void workers_batches(struct workers *workers, struct eplb_dp_batch batches[WORKER_RANKS]);

/** They take a forward with its command, run it, and hold the outputs. */
void workers_take(struct workers *workers, const struct eplb_command *command);

/** The outputs of a forward of the last two. */
const struct eplb_worker_output *workers_outputs(struct workers *workers, uint64_t seq);

#endif
