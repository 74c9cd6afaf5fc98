/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A manager's core among made-up workers, recorded: in virtual time, a seed is a whole run.
 */
#ifndef UNIT_TRACE_RECORDED_H
#define UNIT_TRACE_RECORDED_H

#include "trace/event_replay.h"
#include "workers.h"

#define RECORDED_SECOND INT64_C(1000000000)

/** What happened in a run. */
struct recorded_counts {
    uint64_t events, actions, ticks, commits, aborts, deaths, drops, policy_runs, acting_ticks, stops;
    uint64_t weight_updates, tables_with_weights;
};

struct recorded {
    struct eplb_manager_core *core;
    const struct eplb_manager_observer *observer;
    struct workers workers;
    struct recorded_counts counts;
    struct eplb_manager_core_params params;
    int32_t initial[WORKER_LAYERS * WORKER_RANKS * WORKER_SLOTS];
    uint64_t generations[WORKER_LAYERS];
    uint64_t versions[WORKER_LAYERS];
    int32_t weights[WORKER_LAYERS * WORKER_RANKS * WORKER_SLOTS];
    int32_t layer_ids[WORKER_LAYERS];
    int64_t now;
    uint64_t next_seq;
    uint64_t flights[2];
    int num_flights;
    bool stopped;
    uint64_t left_out; /* the number of an action that the observer does not see; 0: none */
    /* a policy run */
    bool asked, ran;
    enum eplb_status policy_status;
    struct eplb_error policy_reason;
    bool solving;                /* weights were asked for */
    struct eplb_command command; /* the last one */
    bool has_command;
};

/** A core with parameters that the seed draws, and a writer whose observer sees it. */
void recorded_start(struct recorded *run, uint64_t seed, struct eplb_event_writer *writer);

/** So many forwards, and what happens between them. */
void recorded_go(struct recorded *run, int forwards);

/** One event. */
void recorded_step(struct recorded *run, const struct eplb_manager_event *event);

void recorded_end(struct recorded *run);

/** A log of one run at a path that is free; what happened goes to counts. */
void recorded_write(const char *path, uint64_t seed, int forwards, struct recorded_counts *counts);

#endif
