/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The supervisor's decisions, as stories of events and the actions that each makes. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "engine/supervisor_core.h"
#include "support/death.h"

#define MS INT64_C(1000000)

enum { RANKS = 3, LOOK_MS = 100, SILENCE_MS = 300, PATIENCE_MS = 1000, TRACE_BYTES = 256 };

/* No story may depend on where the clock starts. */
static const int64_t start = INT64_C(7777777777);

static struct eplb_supervisor_core *create(int64_t now)
{
    struct eplb_supervisor_core_params params = {.num_ranks = RANKS,
                                                 .silence_timeout_ns = SILENCE_MS * MS,
                                                 .look_interval_ns = LOOK_MS * MS,
                                                 .kill_patience_ns = PATIENCE_MS * MS,
                                                 .now = now};
    struct eplb_supervisor_core *core;
    assert_int_equal(eplb_supervisor_core_create(&params, &core, NULL), EPLB_OK);
    return core;
}

/* ------------------------------------------------------------------------------------ stories */

/** One event, and what must come of it. */
struct scene {
    int64_t at_ms; /* since the start */
    struct eplb_supervisor_event event;
    uint64_t beats[RANKS];
    const char *actions; /* "kill 1, 2 was silent 300 ms", ... */
};

static struct scene look(int64_t at_ms, uint64_t b0, uint64_t b1, uint64_t b2, const char *actions)
{
    return (struct scene){at_ms, {.type = EPLB_SUPERVISOR_LOOK}, {b0, b1, b2}, actions};
}

static struct scene exited(int64_t at_ms, int32_t rank, const char *actions)
{
    return (struct scene){at_ms, {.type = EPLB_SUPERVISOR_ENDED, .rank = rank}, {0}, actions};
}

static struct scene signalled(int64_t at_ms, int32_t rank, const char *actions)
{
    return (struct scene){
        at_ms, {.type = EPLB_SUPERVISOR_ENDED, .rank = rank, .by_signal = true}, {0}, actions};
}

static struct scene expect(int64_t at_ms, const char *actions)
{
    return (struct scene){at_ms, {.type = EPLB_SUPERVISOR_EXPECT}, {0}, actions};
}

static struct scene stop(int64_t at_ms, int64_t grace_ms, const char *actions)
{
    return (struct scene){at_ms, {.type = EPLB_SUPERVISOR_STOP, .grace_ns = grace_ms * MS}, {0}, actions};
}

static struct scene tick(int64_t at_ms, const char *actions)
{
    return (struct scene){at_ms, {.type = EPLB_SUPERVISOR_TICK}, {0}, actions};
}

static void write_action(const struct eplb_supervisor_action *action, char *text, size_t capacity)
{
    static const char *const fates[] = {"runs", "ended by itself", "was silent", "was stopped"};
    char tail[64] = "";
    if (action->type == EPLB_SUPERVISOR_ASK)
        snprintf(text, capacity, "ask %d", action->rank);
    if (action->type == EPLB_SUPERVISOR_KILL)
        snprintf(text, capacity, "kill %d", action->rank);
    if (action->type != EPLB_SUPERVISOR_REPORT)
        return;
    if (action->silent_ns != 0)
        snprintf(tail, sizeof tail, " %d ms", (int)(action->silent_ns / MS));
    snprintf(text, capacity, "%d %s%s%s", action->rank, fates[action->fate], tail,
             action->stuck ? ", stuck" : "");
}

/** Takes the actions of the last event, as a text. */
static void take_actions(struct eplb_supervisor_core *core, char trace[TRACE_BYTES])
{
    struct eplb_supervisor_action action;
    size_t length = 0;
    trace[0] = '\0';
    while (eplb_supervisor_core_next(core, &action)) {
        if (length > 0)
            length += (size_t)snprintf(trace + length, TRACE_BYTES - length, ", ");
        write_action(&action, trace + length, TRACE_BYTES - length);
        length = strlen(trace);
    }
}

/** Plays a story to a new core, which the caller destroys. */
static struct eplb_supervisor_core *play(const struct scene *scenes, size_t count)
{
    struct eplb_supervisor_core *core = create(start);
    for (size_t i = 0; i < count; i++) {
        struct eplb_supervisor_event event = scenes[i].event;
        char trace[TRACE_BYTES];
        event.beats = scenes[i].beats;
        eplb_supervisor_core_step(core, &event, start + scenes[i].at_ms * MS);
        take_actions(core, trace);
        if (strcmp(trace, scenes[i].actions) != 0)
            fail_msg("scene %zu makes '%s' instead of '%s'", i, trace, scenes[i].actions);
    }
    return core;
}

#define PLAY(scenes) play(scenes, sizeof scenes / sizeof *scenes)

static int64_t due_ms(const struct eplb_supervisor_core *core)
{
    return (eplb_supervisor_core_due(core) - start) / MS;
}

/* ------------------------------------------------------------------------------------- deaths */

static void a_death_is_reported_and_the_first_is_the_cause(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""), signalled(110, 1, "1 ended by itself"), exited(115, 0, "0 ended by itself"),
        look(200, 9, 9, 2, ""), exited(210, 2, "2 ended by itself"),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_first_lost(core), 1);
    assert_false(eplb_supervisor_core_watches(core));
    assert_int_equal(eplb_supervisor_core_due(core), INT64_MAX);
    eplb_supervisor_core_destroy(core);
}

static void end_twice(void *argument)
{
    struct eplb_supervisor_action action;
    struct eplb_supervisor_event event = {.type = EPLB_SUPERVISOR_ENDED};
    for (int i = 0; i < 2; i++) {
        eplb_supervisor_core_step(argument, &event, start);
        eplb_supervisor_core_next(argument, &action);
    }
}

static void a_rank_ends_once(void **state)
{
    (void)state;
    struct eplb_supervisor_core *core = create(start);
    char errors[8192];
    assert_int_equal(death_of(end_twice, core, errors, sizeof errors), SIGABRT);
    assert_non_null(strstr(errors, "may_follow(rank->state, to)"));
    eplb_supervisor_core_destroy(core);
}

/* ------------------------------------------------------------------------------------ silence */

static void a_quiet_rank_is_killed_and_reported_once_it_was_reaped(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""),
        look(200, 2, 1, 2, ""),
        look(300, 3, 1, 3, ""),
        look(399, 4, 1, 4, ""), /* 299 ms after the last look that saw a beat */
        look(400, 5, 1, 5, "kill 1"),
        look(500, 6, 1, 6, ""), /* its silence goes on, and is no news */
        signalled(510, 1, "1 was silent 300 ms"),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_first_lost(core), 1);
    assert_true(eplb_supervisor_core_watches(core));
    assert_int_equal(eplb_supervisor_core_overdue(core, 1), -1);
    eplb_supervisor_core_destroy(core);
}

static void nobody_is_lost_before_the_report(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""),
        look(200, 2, 1, 2, ""),
        look(400, 3, 1, 3, "kill 1"),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_first_lost(core), -1);
    assert_int_equal(due_ms(core), 400 + PATIENCE_MS);
    eplb_supervisor_core_destroy(core);
}

static void a_beat_starts_the_age_anew(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""),       look(200, 1, 1, 1, ""),
        look(399, 1, 2, 2, ""), /* rank 0: 299 ms */
        look(400, 1, 2, 2, "kill 0"), look(598, 1, 2, 2, ""),
        look(698, 1, 2, 3, ""), /* ranks 1 and 2: 299 ms, but rank 2 beats */
        look(699, 1, 2, 3, "kill 1"), look(800, 1, 2, 3, ""),
    };
    eplb_supervisor_core_destroy(PLAY(scenes));
}

/** A counter that a new program has set back is one that moves. */
static void beats_that_fall_are_beats(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 9, 9, 9, ""),
        look(200, 9, 9, 9, ""),
        look(300, 9, 2, 9, ""),
        look(400, 9, 2, 9, "kill 0, kill 2"),
    };
    eplb_supervisor_core_destroy(PLAY(scenes));
}

static void a_rank_that_never_beats_is_judged_from_its_start(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 0, 0, ""),
        look(200, 2, 0, 0, ""),
        look(299, 3, 0, 1, ""),
        look(300, 4, 0, 1, "kill 1"),
        signalled(301, 1, "1 was silent 300 ms"),
    };
    eplb_supervisor_core_destroy(PLAY(scenes));
}

static void several_are_silent_at_once(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""),
        look(300, 1, 2, 1, ""),
        look(400, 1, 3, 1, "kill 0, kill 2"),
        signalled(401, 2, "2 was silent 300 ms"),
        signalled(402, 0, "0 was silent 300 ms"),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_first_lost(core), 2);
    eplb_supervisor_core_destroy(core);
}

/** It had been condemned: that it ended on its own a moment before the kill changes nothing. */
static void a_silent_rank_that_exits_was_silent(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(200, 1, 0, 1, ""),
        look(400, 2, 0, 2, "kill 1"),
        exited(401, 1, "1 was silent 400 ms"),
    };
    eplb_supervisor_core_destroy(PLAY(scenes));
}

/** All were stopped, the supervisor with them: after the gap it looks again who beats. */
static void a_gap_between_looks_counts_as_two_intervals(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""),     look(200, 2, 2, 2, ""),
        look(3600200, 2, 2, 2, ""), /* an hour: 200 ms */
        look(3600299, 3, 3, 2, ""), look(3600300, 3, 3, 2, "kill 2"),
        look(3600500, 3, 3, 2, ""), /* one that is just short enough counts in full */
    };
    eplb_supervisor_core_destroy(PLAY(scenes));
}

static void a_gap_before_the_first_look_is_one_too(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100000, 0, 0, 0, ""),
        look(100099, 1, 0, 1, ""),
        look(100100, 1, 0, 1, "kill 1"),
    };
    eplb_supervisor_core_destroy(PLAY(scenes));
}

/* --------------------------------------------------------------------------------------- stop */

static void a_stop_asks_and_kills_after_the_grace(void **state)
{
    (void)state;
    const struct scene asked[] = {
        look(100, 1, 1, 1, ""),
        stop(150, 500, "ask 0, ask 1, ask 2"),
    };
    struct eplb_supervisor_core *core = PLAY(asked);
    assert_int_equal(due_ms(core), 650);
    eplb_supervisor_core_destroy(core);

    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""),
        stop(150, 500, "ask 0, ask 1, ask 2"),
        exited(300, 1, "1 was stopped"),
        signalled(310, 0, "0 was stopped"),
        tick(649, ""),
        tick(650, "kill 2"),
        tick(651, ""),
        signalled(655, 2, "2 was stopped"),
    };
    core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_first_lost(core), -1);
    assert_int_equal(eplb_supervisor_core_overdue(core, 0), -1);
    assert_int_equal(eplb_supervisor_core_overdue(core, 1), -1);
    assert_int_equal(eplb_supervisor_core_overdue(core, 2), 500 * MS);
    assert_int_equal(eplb_supervisor_core_due(core), INT64_MAX);
    eplb_supervisor_core_destroy(core);
}

static void silence_is_not_judged_while_a_stop_waits(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""), stop(150, 60000, "ask 0, ask 1, ask 2"),
        look(300, 1, 1, 1, ""), look(500, 1, 1, 1, ""),
        look(700, 1, 1, 1, ""), exited(710, 0, "0 was stopped"),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_false(eplb_supervisor_core_watches(core));
    eplb_supervisor_core_destroy(core);
}

static void a_rank_killed_for_its_silence_is_no_affair_of_a_stop(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""),          look(300, 2, 1, 2, ""),  exited(301, 0, "0 ended by itself"),
        look(400, 2, 1, 3, "kill 1"),    stop(401, 100, "ask 2"), signalled(402, 1, "1 was silent 300 ms"),
        exited(500, 2, "2 was stopped"), tick(501, ""),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_first_lost(core), 0);
    assert_int_equal(eplb_supervisor_core_overdue(core, 1), -1);
    eplb_supervisor_core_destroy(core);
}

static void no_grace_kills_without_asking(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        exited(50, 1, "1 ended by itself"), stop(100, 0, "kill 0, kill 2"),
        signalled(101, 2, "2 was stopped"), stop(102, 0, ""),
        signalled(103, 0, "0 was stopped"), stop(104, 1000, ""),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_first_lost(core), 1);
    for (int32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(eplb_supervisor_core_overdue(core, rank), -1);
    eplb_supervisor_core_destroy(core);
}

static void a_second_stop_may_shorten_the_grace_and_not_lengthen_it(void **state)
{
    (void)state;
    const struct scene shortened[] = {
        stop(100, 5000, "ask 0, ask 1, ask 2"),
        stop(200, 100, ""),
        tick(299, ""),
        tick(300, "kill 0, kill 1, kill 2"),
    };
    eplb_supervisor_core_destroy(PLAY(shortened));

    const struct scene ended[] = {
        stop(100, 5000, "ask 0, ask 1, ask 2"),
        stop(200, 0, "kill 0, kill 1, kill 2"),
    };
    struct eplb_supervisor_core *core = PLAY(ended);
    assert_int_equal(eplb_supervisor_core_overdue(core, 0), 100 * MS);
    eplb_supervisor_core_destroy(core);

    const struct scene lengthened[] = {
        stop(100, 100, "ask 0, ask 1, ask 2"),
        stop(150, 5000, ""),
        tick(199, ""),
        tick(200, "kill 0, kill 1, kill 2"),
    };
    eplb_supervisor_core_destroy(PLAY(lengthened));
}

static void a_grace_beyond_all_time_never_ends(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        stop(100, INT64_MAX / MS, "ask 0, ask 1, ask 2"),
        tick(1000000000, ""),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_due(core), INT64_MAX);
    eplb_supervisor_core_destroy(core);
}

/* -------------------------------------------------------------------------------- expected end */

static void an_expected_exit_is_no_loss(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""), expect(110, ""), exited(115, 0, "0 was stopped"),
        expect(120, ""),        tick(130, ""),   exited(135, 2, "2 was stopped"),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_first_lost(core), -1);
    assert_true(eplb_supervisor_core_watches(core));
    eplb_supervisor_core_destroy(core);
}

static void a_signal_and_silence_are_a_loss_also_when_an_exit_is_expected(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""),
        expect(110, ""),
        look(300, 2, 1, 2, ""),
        look(400, 3, 1, 3, "kill 1"),
        signalled(401, 1, "1 was silent 300 ms"),
        signalled(402, 0, "0 ended by itself"),
        stop(403, 100, "ask 2"),
        signalled(404, 2, "2 was stopped"),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_first_lost(core), 1);
    eplb_supervisor_core_destroy(core);
}

/* -------------------------------------------------------------------------------------- stuck */

/** A process that the kernel does not let go of runs no more code: the others need not wait for it. */
static void one_that_a_kill_does_not_end_is_reported_all_the_same(void **state)
{
    (void)state;
    const struct scene scenes[] = {
        look(100, 1, 1, 1, ""),
        look(300, 2, 1, 2, ""),
        look(400, 3, 1, 3, "kill 1"),
        tick(1399, ""),
        tick(1400, "1 was silent 300 ms, stuck"),
        stop(1500, 0, "kill 0, kill 2"),
        exited(1501, 0, "0 was stopped"),
        tick(2500, "2 was stopped, stuck"),
        signalled(9000, 1, ""),
        signalled(9001, 2, ""),
    };
    struct eplb_supervisor_core *core = PLAY(scenes);
    assert_int_equal(eplb_supervisor_core_first_lost(core), 1);
    assert_int_equal(eplb_supervisor_core_due(core), INT64_MAX);
    eplb_supervisor_core_destroy(core);
}

/* ------------------------------------------------------------------------------------- random */

enum { ROUNDS = 3000, EVENTS = 60 };

/** The rules once more, as plain sums over everything that has happened. */
struct model {
    int64_t now;
    int64_t looks[EVENTS + 1]; /* times; the first is the start */
    uint64_t beats[EVENTS + 1][RANKS];
    int32_t num_looks;
    bool expected;
    int64_t stop_by;          /* the earliest end of a grace; -1: no stop */
    int64_t killed_at[RANKS]; /* -1: not killed */
    bool silent[RANKS];
    int64_t silent_ns[RANKS];
    int64_t asked_at;       /* by the first stop */
    int64_t overdue[RANKS]; /* -1: not */
    bool reported[RANKS];
    bool ended[RANKS];
    int32_t first_lost;
};

static int64_t age(const struct model *model, int32_t rank)
{
    int64_t sum = 0;
    for (int32_t i = model->num_looks - 1; i > 0 && model->beats[i][rank] == model->beats[i - 1][rank]; i--) {
        int64_t passed = model->looks[i] - model->looks[i - 1];
        sum += passed < 2 * LOOK_MS * MS ? passed : 2 * LOOK_MS * MS;
    }
    return sum;
}

static struct eplb_supervisor_action killing(struct model *model, int32_t rank)
{
    model->killed_at[rank] = model->now;
    return (struct eplb_supervisor_action){.type = EPLB_SUPERVISOR_KILL, .rank = rank};
}

static struct eplb_supervisor_action reporting(struct model *model, int32_t rank, enum eplb_rank_fate fate)
{
    model->reported[rank] = true;
    if (fate != EPLB_RANK_STOPPED && model->first_lost < 0)
        model->first_lost = rank;
    return (struct eplb_supervisor_action){.type = EPLB_SUPERVISOR_REPORT,
                                           .rank = rank,
                                           .fate = fate,
                                           .silent_ns = model->silent[rank] ? model->silent_ns[rank] : 0,
                                           .stuck = !model->ended[rank]};
}

/** What the event means for one rank: an action, or false. */
static bool predict(struct model *model, const struct eplb_supervisor_event *event, bool first_stop,
                    int32_t rank, struct eplb_supervisor_action *action)
{
    bool killed = model->killed_at[rank] >= 0;
    if (event->type == EPLB_SUPERVISOR_ENDED && event->rank == rank) {
        model->ended[rank] = true;
        bool asked = model->stop_by >= 0 || (model->expected && !event->by_signal);
        if (!model->reported[rank])
            *action = reporting(model, rank,
                                model->silent[rank] ? EPLB_RANK_WAS_SILENT
                                : asked             ? EPLB_RANK_STOPPED
                                                    : EPLB_RANK_ENDED_BY_ITSELF);
        return model->reported[rank] && action->type == EPLB_SUPERVISOR_REPORT;
    }
    if (model->ended[rank] || model->reported[rank])
        return false;
    if (killed && model->now - model->killed_at[rank] >= PATIENCE_MS * MS) {
        *action = reporting(model, rank, model->silent[rank] ? EPLB_RANK_WAS_SILENT : EPLB_RANK_STOPPED);
        return true;
    }
    if (killed)
        return false;
    if (model->stop_by >= 0 && model->now >= model->stop_by) {
        model->overdue[rank] = first_stop ? -1 : model->now - model->asked_at;
        *action = killing(model, rank);
        return true;
    }
    if (first_stop) {
        *action = (struct eplb_supervisor_action){.type = EPLB_SUPERVISOR_ASK, .rank = rank};
        return true;
    }
    if (event->type == EPLB_SUPERVISOR_LOOK && model->stop_by < 0 && age(model, rank) >= SILENCE_MS * MS) {
        model->silent[rank] = true;
        model->silent_ns[rank] = age(model, rank);
        *action = killing(model, rank);
        return true;
    }
    return false;
}

/** Takes the event into the sums. Returns whether it is the first stop. */
static bool note(struct model *model, const struct eplb_supervisor_event *event)
{
    if (event->type == EPLB_SUPERVISOR_LOOK) {
        model->looks[model->num_looks] = model->now;
        memcpy(model->beats[model->num_looks++], event->beats, sizeof model->beats[0]);
    }
    model->expected = model->expected || event->type == EPLB_SUPERVISOR_EXPECT;
    if (event->type != EPLB_SUPERVISOR_STOP)
        return false;
    bool first = model->stop_by < 0;
    model->asked_at = first ? model->now : model->asked_at;
    int64_t by = model->now + event->grace_ns;
    model->stop_by = first || by < model->stop_by ? by : model->stop_by;
    return first;
}

static struct eplb_supervisor_event draw(struct eplb_prng *prng, const struct model *model,
                                         uint64_t beats[RANKS])
{
    uint64_t kind = eplb_prng_below(prng, 40);
    int32_t rank = (int32_t)eplb_prng_below(prng, RANKS);
    for (int32_t i = 0; i < RANKS; i++)
        beats[i] += eplb_prng_below(prng, 3) == 0;
    if (kind < 4 && !model->ended[rank])
        return (struct eplb_supervisor_event){
            .type = EPLB_SUPERVISOR_ENDED, .rank = rank, .by_signal = eplb_prng_below(prng, 2) == 0};
    if (kind == 4)
        return (struct eplb_supervisor_event){.type = EPLB_SUPERVISOR_EXPECT};
    if (kind == 5)
        return (struct eplb_supervisor_event){.type = EPLB_SUPERVISOR_STOP,
                                              .grace_ns = (int64_t)eplb_prng_below(prng, 5) * LOOK_MS * MS};
    if (kind < 12)
        return (struct eplb_supervisor_event){.type = EPLB_SUPERVISOR_TICK};
    return (struct eplb_supervisor_event){.type = EPLB_SUPERVISOR_LOOK, .beats = beats};
}

/** Compares what the core does with what the model says, rank by rank. */
static void compare(struct eplb_supervisor_core *core, struct model *model,
                    const struct eplb_supervisor_event *event, uint64_t seed)
{
    char said[RANKS][TRACE_BYTES] = {{0}};
    struct eplb_supervisor_action action;
    while (eplb_supervisor_core_next(core, &action)) {
        assert_in_range(action.rank, 0, RANKS - 1);
        assert_string_equal(said[action.rank], "");
        write_action(&action, said[action.rank], TRACE_BYTES);
    }
    bool first_stop = note(model, event);
    /* What the event says comes before what the time does to others. */
    for (int32_t i = 0; i < RANKS; i++) {
        int32_t rank = i == 0 ? event->rank : i <= event->rank ? i - 1 : i;
        char wanted[TRACE_BYTES] = "";
        action = (struct eplb_supervisor_action){.rank = -1};
        if (predict(model, event, first_stop, rank, &action))
            write_action(&action, wanted, sizeof wanted);
        if (strcmp(said[rank], wanted) != 0)
            fail_msg("seed %d: '%s' instead of '%s'", (int)seed, said[rank], wanted);
        if (eplb_supervisor_core_overdue(core, rank) != model->overdue[rank])
            fail_msg("seed %d: rank %d is not as late as it was", (int)seed, rank);
    }
    if (eplb_supervisor_core_first_lost(core) != model->first_lost)
        fail_msg("seed %d: rank %d was lost first", (int)seed, model->first_lost);
}

static void play_at_random(uint64_t seed, int32_t reports[EPLB_RANK_STOPPED + 1])
{
    struct eplb_prng prng;
    uint64_t beats[RANKS] = {0};
    eplb_prng_seed(&prng, seed);
    struct eplb_supervisor_core *core = create(start);
    struct model model = {.now = start, .looks = {start}, .num_looks = 1, .stop_by = -1, .first_lost = -1};
    for (int32_t rank = 0; rank < RANKS; rank++)
        model.killed_at[rank] = model.overdue[rank] = -1;
    for (int32_t i = 0; i < EVENTS; i++) {
        uint64_t longest = eplb_prng_below(&prng, 8) == 0 ? 5 * LOOK_MS : LOOK_MS;
        model.now += (int64_t)eplb_prng_below(&prng, longest) * MS;
        struct eplb_supervisor_event event = draw(&prng, &model, beats);
        eplb_supervisor_core_step(core, &event, model.now);
        compare(core, &model, &event, seed);
    }
    for (int32_t rank = 0; rank < RANKS; rank++)
        reports[model.silent[rank] ? EPLB_RANK_WAS_SILENT : EPLB_RANK_STOPPED] += model.reported[rank];
    eplb_supervisor_core_destroy(core);
}

static void the_core_agrees_with_the_model_at_random(void **state)
{
    (void)state;
    int32_t reports[EPLB_RANK_STOPPED + 1] = {0};
    for (uint64_t seed = 1; seed <= ROUNDS; seed++)
        play_at_random(seed, reports);
    /* The draw meets what it is meant to meet. */
    assert_true(reports[EPLB_RANK_WAS_SILENT] > ROUNDS / 10);
    assert_true(reports[EPLB_RANK_STOPPED] > ROUNDS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_is_reported_and_the_first_is_the_cause),
        cmocka_unit_test(a_rank_ends_once),
        cmocka_unit_test(a_quiet_rank_is_killed_and_reported_once_it_was_reaped),
        cmocka_unit_test(nobody_is_lost_before_the_report),
        cmocka_unit_test(a_beat_starts_the_age_anew),
        cmocka_unit_test(beats_that_fall_are_beats),
        cmocka_unit_test(a_rank_that_never_beats_is_judged_from_its_start),
        cmocka_unit_test(several_are_silent_at_once),
        cmocka_unit_test(a_silent_rank_that_exits_was_silent),
        cmocka_unit_test(a_gap_between_looks_counts_as_two_intervals),
        cmocka_unit_test(a_gap_before_the_first_look_is_one_too),
        cmocka_unit_test(a_stop_asks_and_kills_after_the_grace),
        cmocka_unit_test(silence_is_not_judged_while_a_stop_waits),
        cmocka_unit_test(a_rank_killed_for_its_silence_is_no_affair_of_a_stop),
        cmocka_unit_test(no_grace_kills_without_asking),
        cmocka_unit_test(a_second_stop_may_shorten_the_grace_and_not_lengthen_it),
        cmocka_unit_test(a_grace_beyond_all_time_never_ends),
        cmocka_unit_test(an_expected_exit_is_no_loss),
        cmocka_unit_test(a_signal_and_silence_are_a_loss_also_when_an_exit_is_expected),
        cmocka_unit_test(one_that_a_kill_does_not_end_is_reported_all_the_same),
        cmocka_unit_test(the_core_agrees_with_the_model_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
