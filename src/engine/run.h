/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The engine of `eplb run`: starts the worker processes, hands out forwards, collects their outputs,
 * asks and tells the manager, and ends everything whatever happens.
 */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/outcomes.h"
#include "engine/records.h"
#include "engine/scheduler.h"
#include "engine/statistics.h"
#include "eplb/manager.h"
#include "eplb/policy.h"

/** What a person who watches is shown after a forward. Borrowed for the call. */
struct eplb_run_progress {
    uint64_t step;  /* forwards collected */
    uint64_t steps; /* that there will be; 0: until interrupted */
    int64_t elapsed_ns;
    struct eplb_statistics statistics;
    struct eplb_window_balance balance; /* of the open window */
    int64_t step_ns_p50, step_ns_p99;
    const struct eplb_manager_status *manager; /* NULL without balancing */
    int64_t bytes_moved;
    const struct eplb_statistics_keeper *keeper; /* for the last window's loads and hottest experts */
};

struct eplb_run_params {
    const char *instance_name;
    const char *directory;      /* of shared memory */
    const char *worker_path;    /* program of the workers; its arguments are worker_command, instance, */
    const char *worker_command; /* directory, generation, rank and log_name */
    const char *log_name;       /* where the workers log to; for the worker command to understand */
    struct eplb_model_config model;
    struct eplb_shape shape;
    bool eplb; /* balancing is on; else shape has no redundant slots */
    const struct eplb_policy_ops *policy;
    struct eplb_policy_settings policy_settings;
    double min_peak_load_improvement;
    int32_t max_moves_per_layer, max_break_even_steps;
    int64_t expert_bytes; /* what moving one counts as; 0: what the model's have */
    int64_t bandwidth_bytes_per_second;
    int32_t update_interval_seconds, update_interval_steps;
    double shift_trigger;         /* 0: off */
    int64_t min_tokens_per_layer; /* 0: any number, after a shift enough */
    int32_t prepare_timeout_seconds, transfer_timeout_seconds;
    int64_t transfer_chunk_bytes, transfer_inflight_bytes;
    int32_t fused_mc2;                            /* the execution that is used: 0 */
    enum eplb_replica_routing replica_routing;    /* 0: static */
    int32_t cost_per_active_slot, cost_per_token; /* >= 0 and >= 1, for batch; a token's 0: 1 */
    const int32_t *node_of_rank;                  /* [ep_size]; NULL: one node */
    bool decode_only_load;
    int32_t overlap;              /* 0 or 1 */
    int64_t silence_timeout_ns;   /* above the transfer timeout */
    int32_t max_rows, num_caches; /* of each rank */
    int32_t admit_interval, busy_ranks;
    const struct eplb_traffic *traffic;
    enum eplb_routing routing;
    uint64_t skew_seed, skew_period;
    int32_t skew_phases;
    const int64_t *skew_rates;      /* [skew_phases][num_layers][num_experts] */
    const int32_t *initial;         /* [num_layers][num_slots] legal */
    const int32_t *initial_weights; /* of these, for the routings that go by weights; NULL: equal ones */
    const char *trace_path;         /* of EPLB_ROUTING_TRACE, as the next three; see struct eplb_run_setup */
    uint64_t trace_digest;
    int32_t trace_sequences, trace_repeat;
    const char *record;              /* prefix of a recording to be written of the routed ids; NULL: none */
    const int32_t *record_layer_ids; /* [num_layers] names of the layers in it; NULL: 0, 1, ... */
    uint64_t steps;                  /* forwards; 0: until interrupted */
    int32_t window_forwards;         /* of the statistics */
    bool verify;                     /* workers check all slots after every activation */
    int32_t inject;                  /* test builds, see struct eplb_run_setup */
    const struct eplb_log_sink *log;
    void *context;
    /** After every forward, from the calling thread. May be NULL. */
    void (*progress)(void *context, const struct eplb_run_progress *progress);
    /** What became of a layer that switched: after a window, or at the end; see outcomes.h. May be NULL. */
    void (*switched)(void *context, const struct eplb_outcome *outcome);
    /** Whether the run shall end: 0, or a number that is given back. Looked at between forwards and while
     * waiting. */
    int (*interrupted)(void *context); /* may be NULL */
};

/** How a run went; filled as far as it came, also when it failed. */
struct eplb_run_outcome {
    struct eplb_statistics statistics;
    struct eplb_manager_status manager; /* without balancing: of one that has nothing to do */
    int64_t bytes_moved;                /* between ranks and within: slots moved times expert bytes */
    int64_t wall_ns;                    /* from when all ranks were ready to the last output */
    /** Of forwards: from handing out, or the end of the one before, to the last output. */
    int64_t step_ns_p50, step_ns_p99;
    uint64_t slots_checked;
    int interrupted;   /* what interrupted() returned; 0: it ran to its end */
    int32_t lost_rank; /* that ended the run; -1: none */
};

/**
 * Runs it. Whatever the outcome, no process and no segment is left. The calling thread waits for the
 * forwards; the workers die with it, should it die.
 *
 * A rank that is lost ends the run: the first one that is, for the others then lose it. So does an
 * interruption, after what is in flight, which may take 10 s; one that comes before the first forward, or
 * that has ended workers too, is not waited for. Both leave what was counted in the outcome.
 *
 * @return EPLB_OK, also after an interruption; EPLB_INVALID with a sentence that names the parameter, or as
 *         the worker that gave up; EPLB_IN_USE, EPLB_LAYOUT, EPLB_IO for shared memory, and EPLB_IO for the
 *         workers' program; EPLB_NO_MEMORY; EPLB_RANK_DEAD with the rank, its pid and how it ended;
 *         EPLB_RANK_SILENT with the rank, also one that hangs in a hook when the run shall end;
 *         EPLB_INCONSISTENT with the manager's sentence. A worker that gives up says why itself, and ends the
 *         run with the first status that has its exit code: EPLB_INTERNAL, EPLB_INVALID, EPLB_VERIFY,
 *         EPLB_RANK_SILENT, EPLB_LAYOUT
 */
enum eplb_status eplb_run(const struct eplb_run_params *params, struct eplb_run_outcome *outcome,
                          struct eplb_error *error);

#endif
