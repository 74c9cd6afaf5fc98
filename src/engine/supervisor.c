/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/supervisor.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "engine/wake.h"
#include "eplb/clock.h"
#include "os/thread.h"

#define SECOND_NS INT64_C(1000000000)

/* A process with much memory takes seconds to go; beyond this the kernel holds it for another reason. */
#define KILL_PATIENCE_NS (10 * SECOND_NS)

/** What other threads want. */
struct orders {
    bool stop;
    int64_t grace_ns; /* the shortest asked for */
    bool finish;      /* the thread returns once every rank was reported */
};

struct watched {
    struct eplb_process process;  /* the thread's */
    struct eplb_process_end end;  /* the thread's: while has_ended */
    bool has_ended;               /* the thread's: reaped, and not yet fed to the core */
    struct eplb_rank_life report; /* under the lock */
};

struct eplb_supervisor {
    struct eplb_supervisor_params params;
    struct watched *ranks; /* [num_ranks] */
    struct eplb_thread thread;
    int wake; /* rung after `orders` was written */

    /* The thread's alone. */
    uint64_t *beats;      /* [num_ranks] */
    struct pollfd *polls; /* [num_ranks + 1] */
    int32_t *to_tell;     /* [num_ranks] reported by the last event */
    int64_t look_at;

    struct eplb_mutex lock; /* what follows, and the reports */
    struct eplb_supervisor_core *core;
    struct orders orders;
    bool expected;    /* the ranks may exit */
    int32_t num_told; /* ranks whose `ended` has returned; changed by the thread alone */
    struct eplb_condition told;
};

static int64_t now(void)
{
    return eplb_clock_system()->now(NULL);
}

/* ------------------------------------------------------------------------------------- thread */

static void carry_out(struct eplb_supervisor *supervisor, const struct eplb_supervisor_action *action,
                      int32_t *num_to_tell)
{
    struct watched *rank = &supervisor->ranks[action->rank];
    switch (action->type) {
    case EPLB_SUPERVISOR_ASK:
        eplb_process_signal(&rank->process, SIGTERM);
        /* One that is stopped takes the signal only when it goes on. */
        eplb_process_signal(&rank->process, SIGCONT);
        break;
    case EPLB_SUPERVISOR_KILL:
        eplb_process_signal(&rank->process, SIGKILL);
        break;
    case EPLB_SUPERVISOR_REPORT:
        rank->report.fate = action->fate;
        rank->report.silent_ns = action->silent_ns;
        rank->report.stuck = action->stuck;
        rank->report.end = rank->end;
        supervisor->to_tell[(*num_to_tell)++] = action->rank;
        break;
    }
}

/** One event, and all that comes of it. The reports stand before anybody is told. */
static void feed(struct eplb_supervisor *supervisor, const struct eplb_supervisor_event *event, int64_t at)
{
    struct eplb_supervisor_action action;
    int32_t num_to_tell = 0;
    eplb_mutex_lock(&supervisor->lock);
    eplb_supervisor_core_step(supervisor->core, event, at);
    while (eplb_supervisor_core_next(supervisor->core, &action))
        carry_out(supervisor, &action, &num_to_tell);
    eplb_mutex_unlock(&supervisor->lock);
    if (num_to_tell == 0)
        return;
    for (int32_t i = 0; i < num_to_tell; i++) {
        struct eplb_rank_life report = eplb_supervisor_report(supervisor, supervisor->to_tell[i]);
        supervisor->params.ended(supervisor->params.context, &report);
    }
    eplb_mutex_lock(&supervisor->lock);
    supervisor->num_told += num_to_tell;
    eplb_mutex_unlock(&supervisor->lock);
    eplb_condition_broadcast(&supervisor->told);
}

static void feed_ended(struct eplb_supervisor *supervisor, int32_t rank)
{
    struct watched *watched = &supervisor->ranks[rank];
    watched->has_ended = false;
    eplb_mutex_lock(&supervisor->lock);
    /* Looked at after the reaping: whoever ended because it was told to was told after this was set. */
    bool expected = supervisor->expected;
    if (watched->report.stuck) {
        watched->report.stuck = false;
        watched->report.end = watched->end;
    }
    eplb_mutex_unlock(&supervisor->lock);
    if (expected)
        feed(supervisor, &(struct eplb_supervisor_event){.type = EPLB_SUPERVISOR_EXPECT}, now());
    feed(supervisor,
         &(struct eplb_supervisor_event){
             .type = EPLB_SUPERVISOR_ENDED, .rank = rank, .by_signal = watched->end.signal != 0},
         now());
}

/** Of several that are found dead at once, one that a signal killed is the cause rather than one that exited.
 */
static void reap(struct eplb_supervisor *supervisor)
{
    int32_t ranks = supervisor->params.num_ranks;
    for (int32_t i = 0; i < ranks; i++)
        supervisor->ranks[i].has_ended =
            eplb_process_reap(&supervisor->ranks[i].process, &supervisor->ranks[i].end);
    for (int32_t i = 0; i < ranks; i++)
        if (supervisor->ranks[i].has_ended && supervisor->ranks[i].end.signal != 0)
            feed_ended(supervisor, i);
    for (int32_t i = 0; i < ranks; i++)
        if (supervisor->ranks[i].has_ended)
            feed_ended(supervisor, i);
}

static struct orders take_orders(struct eplb_supervisor *supervisor)
{
    eplb_wake_clear(supervisor->wake);
    eplb_mutex_lock(&supervisor->lock);
    struct orders orders = supervisor->orders;
    supervisor->orders = (struct orders){.finish = orders.finish};
    eplb_mutex_unlock(&supervisor->lock);
    return orders;
}

static void obey(struct eplb_supervisor *supervisor, const struct orders *orders)
{
    if (orders->stop)
        feed(supervisor,
             &(struct eplb_supervisor_event){.type = EPLB_SUPERVISOR_STOP, .grace_ns = orders->grace_ns},
             now());
}

/** The core is changed by this thread alone: its own reads need no lock. */
static void look(struct eplb_supervisor *supervisor)
{
    int64_t at = now();
    if (at < supervisor->look_at || !eplb_supervisor_core_watches(supervisor->core))
        return;
    supervisor->look_at = at + supervisor->params.look_interval_ns;
    for (int32_t i = 0; i < supervisor->params.num_ranks; i++)
        if (supervisor->ranks[i].process.descriptor >= 0)
            supervisor->beats[i] = supervisor->params.beats(supervisor->params.context, i);
    feed(supervisor,
         &(struct eplb_supervisor_event){.type = EPLB_SUPERVISOR_LOOK, .beats = supervisor->beats}, at);
}

static void await_news(struct eplb_supervisor *supervisor)
{
    int32_t ranks = supervisor->params.num_ranks;
    int64_t deadline = eplb_supervisor_core_due(supervisor->core);
    if (eplb_supervisor_core_watches(supervisor->core) && supervisor->look_at < deadline)
        deadline = supervisor->look_at;
    size_t count = 0;
    for (int32_t i = 0; i < ranks; i++)
        if (supervisor->ranks[i].process.descriptor >= 0)
            supervisor->polls[count++] =
                (struct pollfd){.fd = supervisor->ranks[i].process.descriptor, .events = POLLIN};
    supervisor->polls[count++] = (struct pollfd){.fd = supervisor->wake, .events = POLLIN};
    eplb_wake_await(supervisor->polls, count, deadline);
}

static void supervise(void *argument)
{
    struct eplb_supervisor *supervisor = argument;
    for (;;) {
        /* What had ended before the order was given has ended by itself: taken first, reaped, then obeyed. */
        struct orders orders = take_orders(supervisor);
        reap(supervisor);
        obey(supervisor, &orders);
        look(supervisor);
        feed(supervisor, &(struct eplb_supervisor_event){.type = EPLB_SUPERVISOR_TICK}, now());
        if (orders.finish && supervisor->num_told == supervisor->params.num_ranks)
            return;
        await_news(supervisor);
    }
}

/* ------------------------------------------------------------------------------------- create */

static enum eplb_status check_params(const struct eplb_supervisor_params *params, struct eplb_error *error)
{
    if (params->num_ranks < 1)
        EPLB_FAIL(EPLB_INVALID, "a supervisor of %d ranks has nothing to do; it needs 1 or more",
                  params->num_ranks);
    if (params->look_interval_ns < 1 || params->silence_timeout_ns < 1 ||
        (params->silence_timeout_ns - 1) / 2 < params->look_interval_ns)
        EPLB_FAIL(EPLB_INVALID,
                  "the silence timeout is %" PRId64 " ns and the interval between looks %" PRId64
                  " ns; the interval must be above 0, and the timeout above two intervals",
                  params->silence_timeout_ns, params->look_interval_ns);
    return EPLB_OK;
}

static struct eplb_supervisor *layout(struct eplb_arena *arena, const struct eplb_supervisor_params *params)
{
    size_t ranks = (size_t)params->num_ranks;
    struct eplb_supervisor parts = {.params = *params};
    struct eplb_supervisor *supervisor = eplb_arena_take(arena, 1, sizeof *supervisor);
    parts.ranks = eplb_arena_take(arena, ranks, sizeof *parts.ranks);
    parts.beats = eplb_arena_take(arena, ranks, sizeof *parts.beats);
    parts.polls = eplb_arena_take(arena, ranks + 1, sizeof *parts.polls);
    parts.to_tell = eplb_arena_take(arena, ranks, sizeof *parts.to_tell);
    if (supervisor != NULL)
        *supervisor = parts;
    return supervisor;
}

static struct eplb_supervisor *reserve(const struct eplb_supervisor_params *params)
{
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&arena, params);
    if (eplb_arena_reserve(&arena) == NULL)
        return NULL;
    struct eplb_supervisor *supervisor = layout(&arena, params);
    EPLB_ASSERT(supervisor != NULL && !arena.overflow);
    supervisor->params.programs = NULL;
    return supervisor;
}

/** Without a report: nobody was told that they run. */
static void end_processes(struct eplb_supervisor *supervisor, int32_t count)
{
    int64_t deadline = now() + KILL_PATIENCE_NS;
    for (int32_t i = 0; i < count; i++)
        eplb_process_signal(&supervisor->ranks[i].process, SIGKILL);
    for (int32_t i = 0; i < count; i++) {
        struct watched *rank = &supervisor->ranks[i];
        if (!eplb_process_wait(&rank->process, deadline, &rank->end) && rank->process.descriptor >= 0)
            close(rank->process.descriptor);
    }
}

static enum eplb_status start_processes(struct eplb_supervisor *supervisor,
                                        const struct eplb_process_params *programs, struct eplb_error *error)
{
    for (int32_t i = 0; i < supervisor->params.num_ranks; i++) {
        struct watched *rank = &supervisor->ranks[i];
        struct eplb_error reason;
        enum eplb_status status = eplb_process_start(&programs[i], &rank->process, &reason);
        if (status != EPLB_OK) {
            end_processes(supervisor, i);
            EPLB_FAIL(status, "rank %d: %s", i, reason.text);
        }
        rank->report = (struct eplb_rank_life){.rank = i, .pid = rank->process.pid};
    }
    return EPLB_OK;
}

static enum eplb_status start_watching(struct eplb_supervisor *supervisor, struct eplb_error *error)
{
    struct eplb_supervisor_core_params params = {.num_ranks = supervisor->params.num_ranks,
                                                 .silence_timeout_ns = supervisor->params.silence_timeout_ns,
                                                 .look_interval_ns = supervisor->params.look_interval_ns,
                                                 .kill_patience_ns = KILL_PATIENCE_NS,
                                                 .now = now()};
    supervisor->look_at = params.now + params.look_interval_ns;
    EPLB_TRY(eplb_supervisor_core_create(&params, &supervisor->core, error));
    enum eplb_status status =
        eplb_thread_start(&supervisor->thread, "eplb-supervisor", supervise, supervisor, error);
    if (status != EPLB_OK)
        eplb_supervisor_core_destroy(supervisor->core);
    return status;
}

enum eplb_status eplb_supervisor_create(const struct eplb_supervisor_params *params,
                                        struct eplb_supervisor **supervisor, struct eplb_error *error)
{
    EPLB_TRY(check_params(params, error));
    struct eplb_supervisor *created = reserve(params);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a supervisor of %d ranks", params->num_ranks);
    enum eplb_status status = eplb_wake_create("a supervisor", &created->wake, error);
    if (status != EPLB_OK)
        goto free_block;
    status = eplb_mutex_init(&created->lock, error);
    if (status != EPLB_OK)
        goto close_wake;
    status = eplb_condition_init(&created->told, error);
    if (status != EPLB_OK)
        goto destroy_lock;
    status = start_processes(created, params->programs, error);
    if (status != EPLB_OK)
        goto destroy_told;
    status = start_watching(created, error);
    if (status != EPLB_OK)
        goto end_processes;
    *supervisor = created;
    return EPLB_OK;
end_processes:
    end_processes(created, params->num_ranks);
destroy_told:
    eplb_condition_destroy(&created->told);
destroy_lock:
    eplb_mutex_destroy(&created->lock);
close_wake:
    close(created->wake);
free_block:
    eplb_arena_free(created);
    return status;
}

/* ------------------------------------------------------------------------------------ reading */

struct eplb_rank_life eplb_supervisor_report(struct eplb_supervisor *supervisor, int32_t rank)
{
    EPLB_ASSERT(rank >= 0 && rank < supervisor->params.num_ranks);
    eplb_mutex_lock(&supervisor->lock);
    struct eplb_rank_life report = supervisor->ranks[rank].report;
    eplb_mutex_unlock(&supervisor->lock);
    return report;
}

int32_t eplb_supervisor_first_lost(struct eplb_supervisor *supervisor)
{
    eplb_mutex_lock(&supervisor->lock);
    int32_t rank = eplb_supervisor_core_first_lost(supervisor->core);
    eplb_mutex_unlock(&supervisor->lock);
    return rank;
}

/** "30.0 s", whatever the host's locale takes for a point. */
static void write_seconds(int64_t ns, char text[32])
{
    snprintf(text, 32, "%" PRId64 ".%d s", ns / SECOND_NS, (int)(ns % SECOND_NS / (SECOND_NS / 10)));
}

void eplb_rank_life_text(const struct eplb_rank_life *report, char text[EPLB_RANK_LIFE_TEXT])
{
    char end[EPLB_PROCESS_END_TEXT] = "has not ended since it was killed";
    char silence[64] = "";
    if (report->fate == EPLB_RANK_WAS_SILENT) {
        char seconds[32];
        write_seconds(report->silent_ns, seconds);
        snprintf(silence, sizeof silence, "was silent for %s", seconds);
    }
    if (!report->stuck)
        eplb_process_end_text(&report->end, end);
    /* That a silent rank ended by the kill goes without saying. */
    bool as_meant = report->fate == EPLB_RANK_WAS_SILENT && !report->stuck && report->end.signal == SIGKILL;
    const char *link = report->fate == EPLB_RANK_WAS_SILENT ? (as_meant ? "" : " and ")
                       : report->fate == EPLB_RANK_STOPPED  ? "was stopped and "
                                                            : "";
    if (report->fate == EPLB_RANK_RUNNING)
        snprintf(end, sizeof end, "runs");
    snprintf(text, EPLB_RANK_LIFE_TEXT, "rank %d (pid %" PRId64 ") %s%s%s", report->rank, report->pid,
             silence, link, as_meant ? "" : end);
}

/* --------------------------------------------------------------------------------------- stop */

static void order(struct eplb_supervisor *supervisor, const struct orders *orders)
{
    struct orders *sum = &supervisor->orders;
    eplb_mutex_lock(&supervisor->lock);
    if (orders->stop && (!sum->stop || orders->grace_ns < sum->grace_ns))
        sum->grace_ns = orders->grace_ns;
    sum->stop = sum->stop || orders->stop;
    sum->finish = sum->finish || orders->finish;
    eplb_mutex_unlock(&supervisor->lock);
    eplb_wake_ring(supervisor->wake);
}

static bool await_told(struct eplb_supervisor *supervisor, int64_t deadline)
{
    /* A callback that waited here would wait for itself. */
    EPLB_ASSERT(!pthread_equal(pthread_self(), supervisor->thread.handle));
    int32_t ranks = supervisor->params.num_ranks;
    eplb_mutex_lock(&supervisor->lock);
    while (supervisor->num_told < ranks &&
           eplb_condition_wait_until(&supervisor->told, &supervisor->lock, deadline))
        continue;
    bool all = supervisor->num_told == ranks;
    eplb_mutex_unlock(&supervisor->lock);
    return all;
}

/** Ranks for a sentence. Those that do not fit are counted. */
struct list {
    int32_t count;
    char text[320];
};

static void add(struct list *list, const struct eplb_rank_life *report)
{
    size_t length = strlen(list->text);
    size_t room = sizeof list->text - length;
    int written = snprintf(list->text + length, room, "%srank %d (pid %" PRId64 ")", length == 0 ? "" : ", ",
                           report->rank, report->pid);
    if (written < 0 || (size_t)written >= room)
        list->text[length] = '\0';
    list->count++;
}

/** After all were reported: what a stop has to say. */
static enum eplb_status judge_stop(struct eplb_supervisor *supervisor, struct eplb_error *error)
{
    struct list killed = {.count = 0};
    struct list stuck = {.count = 0};
    int64_t longest = 0;
    eplb_mutex_lock(&supervisor->lock);
    for (int32_t i = 0; i < supervisor->params.num_ranks; i++) {
        int64_t waited = eplb_supervisor_core_overdue(supervisor->core, i);
        longest = waited > longest ? waited : longest;
        if (waited >= 0)
            add(&killed, &supervisor->ranks[i].report);
        if (supervisor->ranks[i].report.stuck)
            add(&stuck, &supervisor->ranks[i].report);
    }
    eplb_mutex_unlock(&supervisor->lock);
    char seconds[32];
    write_seconds(longest, seconds);
    if (stuck.count > 0)
        EPLB_FAIL(EPLB_RANK_SILENT, "%d of %d ranks were killed, and the system does not let them go: %s",
                  stuck.count, supervisor->params.num_ranks, stuck.text);
    if (killed.count > 0)
        EPLB_FAIL(EPLB_RANK_SILENT,
                  "%d of %d ranks did not end within %s of being asked, and were killed: %s", killed.count,
                  supervisor->params.num_ranks, seconds, killed.text);
    return EPLB_OK;
}

enum eplb_status eplb_supervisor_stop(struct eplb_supervisor *supervisor, int64_t grace_ns,
                                      struct eplb_error *error)
{
    EPLB_ASSERT(grace_ns >= 0);
    order(supervisor, &(struct orders){.stop = true, .grace_ns = grace_ns});
    bool all = await_told(supervisor, INT64_MAX);
    EPLB_ASSERT(all);
    return judge_stop(supervisor, error);
}

void eplb_supervisor_expect_end(struct eplb_supervisor *supervisor)
{
    eplb_mutex_lock(&supervisor->lock);
    supervisor->expected = true;
    eplb_mutex_unlock(&supervisor->lock);
}

bool eplb_supervisor_await_end(struct eplb_supervisor *supervisor, int64_t deadline)
{
    eplb_supervisor_expect_end(supervisor);
    return await_told(supervisor, deadline);
}

void eplb_supervisor_destroy(struct eplb_supervisor *supervisor)
{
    if (supervisor == NULL)
        return;
    EPLB_ASSERT(!pthread_equal(pthread_self(), supervisor->thread.handle));
    order(supervisor, &(struct orders){.stop = true, .finish = true});
    eplb_thread_join(&supervisor->thread);
    for (int32_t i = 0; i < supervisor->params.num_ranks; i++)
        if (supervisor->ranks[i].process.descriptor >= 0)
            close(supervisor->ranks[i].process.descriptor);
    eplb_supervisor_core_destroy(supervisor->core);
    eplb_condition_destroy(&supervisor->told);
    eplb_mutex_destroy(&supervisor->lock);
    close(supervisor->wake);
    eplb_arena_free(supervisor);
}
