/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The supervisor core: which rank is silent, which must be ended, and what is said of each. Pure:
 * (event, time) in, actions out.
 *
 * Every rank is reported once. Silence is counted in looks: between two looks a quiet rank's age grows
 * by the time that has passed, but by no more than two look intervals. A supervisor that was itself
 * stopped, with its ranks or without them, therefore does not come back to a team that it calls
 * silent: it looks again whether they beat.
 */
#ifndef ENGINE_SUPERVISOR_CORE_H
#define ENGINE_SUPERVISOR_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "eplb/status.h"

/** Why a rank's process is gone. */
enum eplb_rank_fate {
    EPLB_RANK_RUNNING,
    EPLB_RANK_ENDED_BY_ITSELF, /* unasked: with whatever exit code, or by a signal that was not ours */
    EPLB_RANK_WAS_SILENT,      /* quiet for too long, and killed for it */
    EPLB_RANK_STOPPED,         /* after it had been asked for */
};

struct eplb_supervisor_core_params {
    int32_t num_ranks;          /* >= 1 */
    int64_t silence_timeout_ns; /* > 2 * look_interval_ns: one gap alone makes nobody silent */
    int64_t look_interval_ns;   /* > 0 */
    int64_t kill_patience_ns;   /* > 0: how long a killed process may take to end */
    int64_t now;                /* the ranks have just been started */
};

enum eplb_supervisor_event_type {
    EPLB_SUPERVISOR_LOOK,   /* beats: what every rank's heartbeat says now */
    EPLB_SUPERVISOR_ENDED,  /* rank, by_signal: its process was reaped */
    EPLB_SUPERVISOR_EXPECT, /* the ranks are told to end by themselves: a rank that exits was asked to */
    EPLB_SUPERVISOR_STOP,   /* end all of them within grace_ns; a later one may shorten the grace */
    EPLB_SUPERVISOR_TICK,   /* nothing but the time */
};

struct eplb_supervisor_event {
    enum eplb_supervisor_event_type type;
    const uint64_t *beats; /* LOOK: [num_ranks]; those of ranks that have ended are not read */
    int32_t rank;          /* ENDED */
    bool by_signal;        /* ENDED */
    int64_t grace_ns;      /* STOP: >= 0; 0 kills without asking */
};

enum eplb_supervisor_action_type {
    EPLB_SUPERVISOR_ASK,    /* ask the rank's process to end; it may be a stopped one */
    EPLB_SUPERVISOR_KILL,   /* kill it */
    EPLB_SUPERVISOR_REPORT, /* it counts as dead: fate, silent_ns, stuck */
};

struct eplb_supervisor_action {
    enum eplb_supervisor_action_type type;
    int32_t rank;
    enum eplb_rank_fate fate; /* REPORT: any but RUNNING */
    int64_t silent_ns;        /* REPORT of WAS_SILENT: how long it had been quiet when it was killed */
    bool stuck;               /* REPORT: it was killed and has not ended within the patience */
};

struct eplb_supervisor_core;

/** Allocates the core in one block. EPLB_NO_MEMORY or OK. */
enum eplb_status eplb_supervisor_core_create(const struct eplb_supervisor_core_params *params,
                                             struct eplb_supervisor_core **core, struct eplb_error *error);
void eplb_supervisor_core_destroy(struct eplb_supervisor_core *core);

/** One event; then take the actions with eplb_supervisor_core_next, in order, until it returns false. */
void eplb_supervisor_core_step(struct eplb_supervisor_core *core, const struct eplb_supervisor_event *event,
                               int64_t now);
bool eplb_supervisor_core_next(struct eplb_supervisor_core *core, struct eplb_supervisor_action *action);

/** When a TICK has something to do; INT64_MAX: never. */
int64_t eplb_supervisor_core_due(const struct eplb_supervisor_core *core);

/** Whether LOOKs are of use: some rank's silence is judged. Once false, it stays so. */
bool eplb_supervisor_core_watches(const struct eplb_supervisor_core *core);

/** The first rank that was reported as ENDED_BY_ITSELF or WAS_SILENT: the cause of what follows; -1: none. */
int32_t eplb_supervisor_core_first_lost(const struct eplb_supervisor_core *core);

/** How long a stop waited for the rank before it had to kill it; -1: it did not have to. */
int64_t eplb_supervisor_core_overdue(const struct eplb_supervisor_core *core, int32_t rank);

#endif
