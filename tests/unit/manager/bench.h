/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A manager core on a test bench: made-up workers, virtual time, and everything it does as text.
 */
#ifndef UNIT_MANAGER_BENCH_H
#define UNIT_MANAGER_BENCH_H

#include "manager/core.h"

enum { BENCH_RANKS = 3, BENCH_EXPERTS = 6, BENCH_SLOTS = 3, BENCH_MAX_LAYERS = 10 };

#define BENCH_SECOND INT64_C(1000000000)

struct bench {
    struct eplb_manager_core *core;
    int32_t num_layers;
    int64_t now;
    uint64_t seq;
    /* what the workers report with their next output */
    struct eplb_worker_levels levels[BENCH_RANKS];
    uint64_t generations[BENCH_RANKS][BENCH_MAX_LAYERS];
    uint64_t versions[BENCH_RANKS][BENCH_MAX_LAYERS];
    int64_t prefix[BENCH_RANKS][BENCH_MAX_LAYERS][BENCH_SLOTS];
    bool lacking[BENCH_RANKS];
    struct eplb_command command; /* the last one */
    char trace[16384];
    char log[16384];
};

struct bench_options {
    int32_t num_layers;
    int32_t overlap;
    double interval_s;
    int64_t interval_forwards; /* above 0: the interval */
    double prepare_timeout_s;
    double transfer_timeout_s;
    const struct eplb_policy_ops *ops; /* NULL: balanced */
    enum eplb_replica_routing routing;
    int64_t expert_bytes;
    double bytes_per_second;
    int32_t max_break_even_forwards;
    double shift_trigger;
    int64_t min_tokens_per_layer;
    int32_t max_moves;
    bool log_policy; /* the gate's lines go to the log too */
};

/** 3 ranks, 6 experts, 1 redundant slot each; expert 0 is hot, so every layer's plan is published. */
void bench_start(struct bench *bench, const struct bench_options *options);
void bench_end(struct bench *bench);

void bench_wait(struct bench *bench, double seconds);
void bench_tick(struct bench *bench);

/** Submits the next forward; batches is a letter per DP rank: d decode, p prefill, m mixed, - empty; w first:
 * warm-up. */
uint64_t bench_submit(struct bench *bench, const char *batches);

void bench_drop(struct bench *bench, uint64_t seq);

/** Delivers the outputs of a forward with the levels, generations and counts as they stand. */
void bench_output(struct bench *bench, uint64_t seq);

/** A forward whose command all workers obey at once: submitted, run, its output delivered. */
void bench_forward(struct bench *bench, const char *batches);

/** All workers report the last command's prepare as ok, or its activation as switched. */
void bench_prepare_ok(struct bench *bench, int32_t first_rank, int32_t end_rank);
void bench_switched(struct bench *bench, int32_t first_rank, int32_t end_rank);
void bench_kept(struct bench *bench, int32_t first_rank, int32_t end_rank);

void bench_dead(struct bench *bench, int32_t rank);

/** Runs the policy that was asked for and reports its end. */
void bench_policy(struct bench *bench);

/** Tells that weights were solved. */
void bench_solved(struct bench *bench, const struct eplb_weight_update *updates, int32_t count);

/** One forward with counts, then the policy run that its sample allows. */
void bench_start_round(struct bench *bench);

/** Checks what happened since the last call, one line each, and forgets it. */
void bench_expect(struct bench *bench, const char *trace);

struct eplb_manager_status bench_status(const struct bench *bench);

#endif
