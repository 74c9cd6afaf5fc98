/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * From options to the parameters of a run: everything is read, checked and made before the first process
 * starts.
 */
#ifndef CLI_RUN_PLAN_H
#define CLI_RUN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/run_skew.h"
#include "config/command_line.h"
#include "engine/run.h"
#include "engine/trace.h"

/** What one kind of run has: with the options as they are, or the same without balancing. */
struct eplb_run_kind {
    struct eplb_shape shape;
    int32_t *initial; /* [num_layers][num_slots], owned */
    int32_t *weights; /* of these, owned; NULL: equal ones, or not used */
};

/** Made by eplb_run_plan_make; stays where it is, for its parts refer to each other. */
struct eplb_run_plan {
    const struct eplb_config *config;
    struct eplb_model_config model;
    struct eplb_run_kind given, without; /* without has arrays with --verify only */
    struct eplb_memory_plan memory;      /* of one rank of the given kind */
    const struct eplb_policy_ops *policy;
    enum eplb_replica_routing replica_routing; /* static without balancing */
    int32_t *node_of_rank;                     /* [ep_size], owned; NULL: one node */
    char *text;                                /* of --prompts, owned; NULL: built-in */
    struct eplb_traffic traffic;
    enum eplb_routing routing;
    struct eplb_skew skew;
    uint64_t skew_period;
    struct eplb_trace trace; /* with --routing=trace */
    uint64_t steps;          /* forwards; 0: until interrupted */
    int32_t num_caches, max_rows;
    int32_t window_forwards;
};

/**
 * Makes a plan. What is doubtful is said on standard error.
 *
 * @param config outlives the plan
 * @param plan   to be freed with eplb_run_plan_free, also on failure
 */
enum eplb_status eplb_run_plan_make(const struct eplb_config *config, struct eplb_run_plan *plan,
                                    struct eplb_error *error);

/** Logs which execution of a MoE layer runs, where it is another one than the options ask for. */
void eplb_run_plan_say_execution(const struct eplb_options *options, const struct eplb_log_sink *log);

/** Frees what the plan owns; a zeroed one is allowed. */
void eplb_run_plan_free(struct eplb_run_plan *plan);

/**
 * The parameters of a run: with the options as they are, or the same without balancing. Processes, log
 * and callbacks are left for the caller.
 */
struct eplb_run_params eplb_run_plan_params(const struct eplb_run_plan *plan, bool without);

#endif
