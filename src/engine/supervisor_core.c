/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/supervisor_core.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"

#define NEVER INT64_MAX

enum rank_state {
    RANK_WATCHED, /* runs, and its silence is judged */
    RANK_LEAVING, /* the same, and may exit */
    RANK_SILENT,  /* was quiet for too long: killed for it */
    RANK_ASKED,   /* a stop asked it to end; its silence is no matter, the grace bounds it */
    RANK_KILLED,  /* a stop killed it */
    RANK_STUCK,   /* reported, though its process has not ended: the kernel does not let go of it */
    RANK_ENDED,
};

struct rank {
    enum rank_state state;
    uint64_t beats;   /* at the last look */
    int64_t quiet_ns; /* age of its last beat, in looks */
    int64_t asked_at;
    int64_t killed_at;
};

struct eplb_supervisor_core {
    struct eplb_supervisor_core_params params;
    struct rank *ranks; /* [num_ranks] */
    int64_t looked_at;
    int64_t grace_ends_at; /* NEVER: no stop, or one that waits for ever */
    int32_t first_lost;

    struct eplb_supervisor_action *actions; /* [num_ranks]: an event makes one action per rank at most */
    int32_t num_actions;
    int32_t next_action;
};

/* ------------------------------------------------------------------------------------- create */

static struct eplb_supervisor_core *layout(struct eplb_arena *arena,
                                           const struct eplb_supervisor_core_params *params)
{
    size_t ranks = (size_t)params->num_ranks;
    struct eplb_supervisor_core parts = {.params = *params};
    struct eplb_supervisor_core *core = eplb_arena_take(arena, 1, sizeof *core);
    parts.ranks = eplb_arena_take(arena, ranks, sizeof *parts.ranks);
    parts.actions = eplb_arena_take(arena, ranks, sizeof *parts.actions);
    if (core != NULL)
        *core = parts;
    return core;
}

enum eplb_status eplb_supervisor_core_create(const struct eplb_supervisor_core_params *params,
                                             struct eplb_supervisor_core **core, struct eplb_error *error)
{
    EPLB_ASSERT(params->num_ranks > 0 && params->look_interval_ns > 0 && params->kill_patience_ns > 0);
    EPLB_ASSERT(params->silence_timeout_ns / 2 >= params->look_interval_ns);
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&arena, params);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a supervisor of %d ranks", params->num_ranks);
    struct eplb_supervisor_core *created = layout(&arena, params);
    EPLB_ASSERT(created != NULL && !arena.overflow);
    created->looked_at = params->now;
    created->grace_ends_at = NEVER;
    created->first_lost = -1;
    for (int32_t i = 0; i < params->num_ranks; i++)
        created->ranks[i] = (struct rank){.asked_at = NEVER, .killed_at = NEVER};
    *core = created;
    return EPLB_OK;
}

void eplb_supervisor_core_destroy(struct eplb_supervisor_core *core)
{
    eplb_arena_free(core);
}

/* ------------------------------------------------------------------------------------- states */

/**
 *   WATCHED -> LEAVING -> SILENT  (killed)           -> ENDED   WAS_SILENT
 *      |          |
 *      +----------+-----> ASKED -> KILLED            -> ENDED   STOPPED
 *      |          |         |
 *      +----------+---------+------------------------> ENDED    BY_ITSELF, STOPPED
 *
 * WATCHED may skip LEAVING and, when no grace is given, ASKED. SILENT and KILLED that do not end
 * become STUCK first.
 */
static bool may_follow(enum rank_state from, enum rank_state to)
{
    bool runs = from == RANK_WATCHED || from == RANK_LEAVING;
    switch (to) {
    case RANK_WATCHED:
        return false;
    case RANK_LEAVING:
        return from == RANK_WATCHED;
    case RANK_SILENT:
    case RANK_ASKED:
        return runs;
    case RANK_KILLED:
        return runs || from == RANK_ASKED;
    case RANK_STUCK:
        return from == RANK_SILENT || from == RANK_KILLED;
    case RANK_ENDED:
        return from != RANK_ENDED;
    }
    return false;
}

/** The one place where a rank changes its state; asserts that it may. */
static void enter(struct rank *rank, enum rank_state to)
{
    EPLB_ASSERT(may_follow(rank->state, to));
    rank->state = to;
}

static bool is_watched(const struct rank *rank)
{
    return rank->state == RANK_WATCHED || rank->state == RANK_LEAVING;
}

static bool is_killed(const struct rank *rank)
{
    return rank->state == RANK_SILENT || rank->state == RANK_KILLED;
}

static struct eplb_supervisor_action *act(struct eplb_supervisor_core *core,
                                          enum eplb_supervisor_action_type type, const struct rank *rank)
{
    EPLB_ASSERT(core->num_actions < core->params.num_ranks);
    struct eplb_supervisor_action *action = &core->actions[core->num_actions++];
    *action = (struct eplb_supervisor_action){.type = type, .rank = (int32_t)(rank - core->ranks)};
    return action;
}

static void kill_as(struct eplb_supervisor_core *core, struct rank *rank, enum rank_state to, int64_t now)
{
    enter(rank, to);
    rank->killed_at = now;
    act(core, EPLB_SUPERVISOR_KILL, rank);
}

static void report(struct eplb_supervisor_core *core, const struct rank *rank, enum eplb_rank_fate fate)
{
    struct eplb_supervisor_action *action = act(core, EPLB_SUPERVISOR_REPORT, rank);
    action->fate = fate;
    action->silent_ns = fate == EPLB_RANK_WAS_SILENT ? rank->quiet_ns : 0;
    action->stuck = rank->state == RANK_STUCK;
    if (core->first_lost < 0 && fate != EPLB_RANK_STOPPED)
        core->first_lost = action->rank;
}

/** a + b, both >= 0, or the end of time. */
static int64_t later(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? NEVER : sum;
}

/* ------------------------------------------------------------------------------------- events */

static void look(struct eplb_supervisor_core *core, const uint64_t *beats, int64_t now)
{
    EPLB_ASSERT(now >= core->looked_at);
    int64_t passed = now - core->looked_at;
    if (passed / 2 >= core->params.look_interval_ns)
        passed = 2 * core->params.look_interval_ns;
    core->looked_at = now;
    for (int32_t i = 0; i < core->params.num_ranks; i++) {
        struct rank *rank = &core->ranks[i];
        if (!is_watched(rank))
            continue;
        rank->quiet_ns = beats[i] == rank->beats ? later(rank->quiet_ns, passed) : 0;
        rank->beats = beats[i];
        if (rank->quiet_ns >= core->params.silence_timeout_ns)
            kill_as(core, rank, RANK_SILENT, now);
    }
}

static enum eplb_rank_fate fate_of_ended(enum rank_state state, bool by_signal)
{
    switch (state) {
    case RANK_WATCHED:
        return EPLB_RANK_ENDED_BY_ITSELF;
    case RANK_LEAVING:
        /* It was told to exit. No signal was sent, so one that came killed a rank that worked. */
        return by_signal ? EPLB_RANK_ENDED_BY_ITSELF : EPLB_RANK_STOPPED;
    case RANK_SILENT:
        return EPLB_RANK_WAS_SILENT;
    case RANK_ASKED:
    case RANK_KILLED:
        return EPLB_RANK_STOPPED;
    case RANK_STUCK: /* reported before */
    case RANK_ENDED:
        break;
    }
    return EPLB_RANK_RUNNING;
}

static void ended(struct eplb_supervisor_core *core, struct rank *rank, bool by_signal)
{
    enum eplb_rank_fate fate = fate_of_ended(rank->state, by_signal);
    enter(rank, RANK_ENDED);
    if (fate != EPLB_RANK_RUNNING)
        report(core, rank, fate);
}

static void expect(struct eplb_supervisor_core *core)
{
    for (int32_t i = 0; i < core->params.num_ranks; i++)
        if (core->ranks[i].state == RANK_WATCHED)
            enter(&core->ranks[i], RANK_LEAVING);
}

static void stop(struct eplb_supervisor_core *core, int64_t grace_ns, int64_t now)
{
    EPLB_ASSERT(grace_ns >= 0);
    int64_t ends_at = later(now, grace_ns);
    core->grace_ends_at = ends_at < core->grace_ends_at ? ends_at : core->grace_ends_at;
    for (int32_t i = 0; i < core->params.num_ranks; i++) {
        struct rank *rank = &core->ranks[i];
        if (!is_watched(rank))
            continue;
        if (now >= core->grace_ends_at) {
            kill_as(core, rank, RANK_KILLED, now);
        } else {
            enter(rank, RANK_ASKED);
            rank->asked_at = now;
            act(core, EPLB_SUPERVISOR_ASK, rank);
        }
    }
}

/** What is due by the time alone. A rank that this very event has killed is not due. */
static void judge_time(struct eplb_supervisor_core *core, int64_t now)
{
    for (int32_t i = 0; i < core->params.num_ranks; i++) {
        struct rank *rank = &core->ranks[i];
        if (rank->state == RANK_ASKED && now >= core->grace_ends_at) {
            kill_as(core, rank, RANK_KILLED, now);
        } else if (is_killed(rank) && now >= later(rank->killed_at, core->params.kill_patience_ns)) {
            enum eplb_rank_fate fate = fate_of_ended(rank->state, true);
            enter(rank, RANK_STUCK);
            report(core, rank, fate);
        }
    }
}

void eplb_supervisor_core_step(struct eplb_supervisor_core *core, const struct eplb_supervisor_event *event,
                               int64_t now)
{
    EPLB_ASSERT(core->next_action == core->num_actions);
    core->num_actions = 0;
    core->next_action = 0;
    switch (event->type) {
    case EPLB_SUPERVISOR_LOOK:
        look(core, event->beats, now);
        break;
    case EPLB_SUPERVISOR_ENDED:
        EPLB_ASSERT(event->rank >= 0 && event->rank < core->params.num_ranks);
        ended(core, &core->ranks[event->rank], event->by_signal);
        break;
    case EPLB_SUPERVISOR_EXPECT:
        expect(core);
        break;
    case EPLB_SUPERVISOR_STOP:
        stop(core, event->grace_ns, now);
        break;
    case EPLB_SUPERVISOR_TICK:
        break;
    }
    judge_time(core, now);
}

bool eplb_supervisor_core_next(struct eplb_supervisor_core *core, struct eplb_supervisor_action *action)
{
    if (core->next_action == core->num_actions)
        return false;
    *action = core->actions[core->next_action++];
    return true;
}

/* ------------------------------------------------------------------------------------ reading */

int64_t eplb_supervisor_core_due(const struct eplb_supervisor_core *core)
{
    int64_t due = NEVER;
    for (int32_t i = 0; i < core->params.num_ranks; i++) {
        const struct rank *rank = &core->ranks[i];
        int64_t at = rank->state == RANK_ASKED ? core->grace_ends_at
                     : is_killed(rank)         ? later(rank->killed_at, core->params.kill_patience_ns)
                                               : NEVER;
        due = at < due ? at : due;
    }
    return due;
}

bool eplb_supervisor_core_watches(const struct eplb_supervisor_core *core)
{
    for (int32_t i = 0; i < core->params.num_ranks; i++)
        if (is_watched(&core->ranks[i]))
            return true;
    return false;
}

int32_t eplb_supervisor_core_first_lost(const struct eplb_supervisor_core *core)
{
    return core->first_lost;
}

int64_t eplb_supervisor_core_overdue(const struct eplb_supervisor_core *core, int32_t rank)
{
    EPLB_ASSERT(rank >= 0 && rank < core->params.num_ranks);
    const struct rank *it = &core->ranks[rank];
    return it->asked_at == NEVER || it->killed_at == NEVER ? -1 : it->killed_at - it->asked_at;
}
