/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The simulator's kernel: one seed, virtual time, events in order of (time, insertion), a trace.
 *
 * Everything that may differ from run to run comes from one generator, so a seed is a whole run.
 * The trace is written only when it is asked for: a failed seed is run again with it.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "sim/coverage.h"

#define SIM_MICROSECOND INT64_C(1000)
#define SIM_MILLISECOND INT64_C(1000000)
#define SIM_SECOND INT64_C(1000000000)

enum { SIM_EVENTS = 2048, SIM_LINES = 400, SIM_LINE = 200, SIM_NOBODY = -1 };

struct world;

/** What happens at a time. `rank` is whose it is: a paused rank's events wait, a dead rank's vanish. */
typedef void sim_handler(struct world *world, int32_t rank, uint64_t argument);

struct sim_event {
    int64_t at;
    uint64_t order;
    sim_handler *run;
    uint64_t argument;
    int32_t rank; /* or SIM_NOBODY */
};

/** The last lines of a run. */
struct sim_trace {
    bool on;
    bool live; /* print at once */
    uint64_t num_lines;
    char lines[SIM_LINES][SIM_LINE];
};

struct sim {
    struct eplb_prng prng;
    int64_t now;
    uint64_t num_scheduled;
    struct sim_event heap[SIM_EVENTS];
    int32_t num_events;
    struct sim_trace *trace;
    uint64_t counts[SIM_NUM_COUNTS];
    jmp_buf failed;
    const char *checker; /* who found the failure */
    char failure[512];
};

void sim_init(struct sim *sim, uint64_t seed, struct sim_trace *trace);

/** Schedules run(world, rank, argument) after a delay >= 0. */
void sim_after(struct sim *sim, int64_t delay, int32_t rank, sim_handler *run, uint64_t argument);

/** Schedules an event again for later; among those of that time it keeps its turn. */
void sim_defer(struct sim *sim, const struct sim_event *event, int64_t at);

/** Takes the next event and moves the time to it; false when there is none. */
bool sim_next(struct sim *sim, struct sim_event *event);

/** A number in [0, bound), bound > 0. */
int64_t sim_below(struct sim *sim, int64_t bound);

/** A number in [low, high]. */
int64_t sim_between(struct sim *sim, int64_t low, int64_t high);

/** True in `per_mille` of 1000 cases. Draws nothing when that is 0. */
bool sim_chance(struct sim *sim, int32_t per_mille);

/** Ends the run: `checker` found something. Does not return. */
_Noreturn void sim_fail(struct sim *sim, const char *checker, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** One line of the trace. Use SIM_TRACE, which costs nothing when the trace is off. */
void sim_write_trace(struct sim *sim, const char *who, int32_t rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define SIM_TRACE(sim, who, rank, ...)                          \
    do {                                                        \
        if ((sim)->trace->on)                                   \
            sim_write_trace((sim), (who), (rank), __VA_ARGS__); \
    } while (0)

#define SIM_COUNT(sim, name) ((void)(sim)->counts[SIM_COUNT_##name]++)

#endif
