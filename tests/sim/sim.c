/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sim_init(struct sim *sim, uint64_t seed, struct sim_trace *trace)
{
    sim->now = 0;
    sim->num_scheduled = 0;
    sim->num_events = 0;
    sim->trace = trace;
    sim->checker = NULL;
    trace->num_lines = 0;
    memset(sim->counts, 0, sizeof sim->counts);
    eplb_prng_seed(&sim->prng, seed);
}

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void insert(struct sim *sim, struct sim_event event)
{
    if (event.at < sim->now || sim->num_events == SIM_EVENTS)
        sim_fail(sim, "kernel", "%d events are waiting; the next one is for %lld", sim->num_events,
                 (long long)event.at);
    int32_t hole = sim->num_events++;
    while (hole > 0 && is_before(&event, &sim->heap[(hole - 1) / 2])) {
        sim->heap[hole] = sim->heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    sim->heap[hole] = event;
}

void sim_after(struct sim *sim, int64_t delay, int32_t rank, sim_handler *run, uint64_t argument)
{
    insert(sim, (struct sim_event){sim->now + delay, sim->num_scheduled++, run, argument, rank});
}

void sim_defer(struct sim *sim, const struct sim_event *event, int64_t at)
{
    insert(sim, (struct sim_event){at, event->order, event->run, event->argument, event->rank});
}

bool sim_next(struct sim *sim, struct sim_event *event)
{
    if (sim->num_events == 0)
        return false;
    *event = sim->heap[0];
    struct sim_event last = sim->heap[--sim->num_events];
    int32_t hole = 0;
    for (;;) {
        int32_t child = 2 * hole + 1;
        if (child + 1 < sim->num_events && is_before(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (child >= sim->num_events || is_before(&last, &sim->heap[child]))
            break;
        sim->heap[hole] = sim->heap[child];
        hole = child;
    }
    sim->heap[hole] = last;
    sim->now = event->at;
    return true;
}

int64_t sim_below(struct sim *sim, int64_t bound)
{
    return (int64_t)eplb_prng_below(&sim->prng, (uint64_t)bound);
}

int64_t sim_between(struct sim *sim, int64_t low, int64_t high)
{
    return low + sim_below(sim, high - low + 1);
}

bool sim_chance(struct sim *sim, int32_t per_mille)
{
    return per_mille > 0 && sim_below(sim, 1000) < per_mille;
}

void sim_fail(struct sim *sim, const char *checker, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sim->failure, sizeof sim->failure, format, arguments);
    va_end(arguments);
    sim->checker = checker;
    SIM_TRACE(sim, "FAILED", SIM_NOBODY, "%s: %s", checker, sim->failure);
    longjmp(sim->failed, 1);
}

void sim_write_trace(struct sim *sim, const char *who, int32_t rank, const char *format, ...)
{
    char *line = sim->trace->lines[sim->trace->num_lines++ % SIM_LINES];
    int length = rank == SIM_NOBODY
                     ? snprintf(line, SIM_LINE, "%12.3f ms  %-9s", (double)sim->now / 1e6, who)
                     : snprintf(line, SIM_LINE, "%12.3f ms  %-7s%2d", (double)sim->now / 1e6, who, rank);
    va_list arguments;
    va_start(arguments, format);
    snprintf(line + length, SIM_LINE - (size_t)length, "  ");
    vsnprintf(line + length + 2, SIM_LINE - (size_t)length - 2, format, arguments);
    va_end(arguments);
    if (sim->trace->live)
        puts(line);
}
