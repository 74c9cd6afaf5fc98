/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Whole runs of the engine in a test: its process is the test's, or a child of it; its workers are the
 * test's program, started again.
 */
#ifndef LIVE_STAGE_H
#define LIVE_STAGE_H

#include <stdatomic.h>

#include "engine/run.h"
#include "support/notes.h"
#include "support/shm_place.h"

/** How a worker behaves: its command. */
#define STAGE_WORKER "--worker"
#define STAGE_HOLDS "--worker-holds"   /* rank 1 holds its first activation, see stage_release */
#define STAGE_COUNTS "--worker-counts" /* fails when a forward past the tenth finds something allocated */
#define STAGE_WAITS "--worker-waits"   /* never becomes ready */
#define STAGE_LOST "--worker-is-lost"  /* takes itself for a rank that there is not */
#define STAGE_LIMITED "--worker-is-limited" /* has no address space for its model */

/** A run's parameters with what they borrow, its outcome, and what was logged. */
struct stage {
    struct eplb_run_params params;
    struct eplb_traffic_params traffic_params;
    struct eplb_traffic traffic;
    const struct shm_place *place;
    int64_t *rates;   /* [phases][L][E] */
    int32_t *initial; /* [L][num_slots] */
    int worker_log;   /* a memory file that all workers write their lines to */
    char worker_log_name[64];
    struct notes notes; /* of the engine */
    struct eplb_run_outcome outcome;
    struct eplb_error error;
    int64_t way_ns;                 /* that the engine last gave to other threads */
    enum eplb_status status;        /* of the last run */
    atomic_uint_least64_t forwards; /* of the run under way */
};

/** What main begins with: a process that is to be a worker never returns from it. */
void stage_main(int argc, char **argv);

/**
 * A small model with 4 layers of 32 experts, 8 rows per rank, skewed routes of 3 phases of 60 forwards,
 * balancing every 10 forwards, 120 forwards. All of it may be changed before the run. The stage is shared
 * with children that are forked afterwards: what they run is to be seen here.
 */
struct stage *stage_open(const struct shm_place *place, const char *instance, int32_t ranks);
void stage_close(struct stage *stage);

/** Balancing off, for the same model and traffic. */
void stage_turn_off(struct stage *stage);

/** Other sizes; and all that depends on them. */
void stage_reshape(struct stage *stage, int32_t layers, int32_t experts, int32_t redundant);

/** Makes traffic, rates and initial tables again, after the model, shape or traffic were changed. */
void stage_prepare(struct stage *stage);

/** eplb_run. */
enum eplb_status stage_run(struct stage *stage);

/** The same; fails the test unless it went well and nothing is left. */
void stage_run_well(struct stage *stage);

/** Fails the test unless the place holds no segment, and this process has no child. */
void stage_check_nothing_is_left(const struct stage *stage);

/** What the workers have logged: how many lines contain the text; and the text of all. */
int stage_worker_lines(const struct stage *stage, const char *text);
char *stage_worker_text(const struct stage *stage); /* to be freed */

/* ---- processes ---- */

enum { STAGE_MAX_WORKERS = 64 };

/** Pid of a rank of the engine's process; 0: it has none (yet, any more). */
int64_t stage_worker(int64_t engine, int32_t rank);

/** Children of a process, up to STAGE_MAX_WORKERS, and how many. Ended ones count until they are reaped. */
int stage_children(int64_t parent, int64_t pids[STAGE_MAX_WORKERS]);

/** Waits for a rank's process; 0 at the deadline. */
int64_t stage_await_worker(int64_t engine, int32_t rank, int64_t deadline);

/** Lets a rank of STAGE_HOLDS go on. */
void stage_release(int64_t worker);

/** Lets time pass that a test must let pass: a random moment is what it tests. */
void stage_linger(int64_t ns);

#endif
