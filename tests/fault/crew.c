/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "fault/crew.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/supervisor.h"
#include "eplb/clock.h"
#include "os/thread.h"

#define SECOND_NS INT64_C(1000000000)

enum { WORD = 96 };

/** How a rank is started. */
struct program {
    char words[CREW_ARGUMENTS][WORD];
    char *arguments[CREW_ARGUMENTS + 1];
};

struct crew {
    struct crew_params params;
    struct eplb_supervisor *supervisor;
    struct eplb_process held[CREW_MAX_RANKS]; /* to signal them: own descriptors */
    struct eplb_mutex lock;
    struct eplb_condition changed;
    int64_t ended_at[CREW_MAX_RANKS]; /* under the lock */
};

static uint64_t beats(void *context, int32_t rank)
{
    const struct crew *crew = context;
    return crew->params.beats(crew->params.context, rank);
}

static void ended(void *context, const struct eplb_rank_life *report)
{
    struct crew *crew = context;
    eplb_mutex_lock(&crew->lock);
    crew->ended_at[report->rank] = eplb_clock_system()->now(NULL);
    eplb_mutex_unlock(&crew->lock);
    crew->params.ended(crew->params.context, report->rank);
    eplb_condition_broadcast(&crew->changed);
}

/* ---- create ---- */

static void write_program(const struct crew *crew, int32_t rank, struct program *program,
                          struct eplb_process_params *process)
{
    const struct crew_params *params = &crew->params;
    char(*words)[WORD] = program->words;
    snprintf(words[0], WORD, "rank");
    snprintf(words[1], WORD, CREW_RANK);
    snprintf(words[2], WORD, "%s", params->instance);
    snprintf(words[3], WORD, "%s", params->directory);
    snprintf(words[4], WORD, "%" PRIu64, params->generation);
    snprintf(words[5], WORD, "%d", rank);
    snprintf(words[6], WORD, "%d", (int)getpid());
    for (int i = 0; i < CREW_ARGUMENTS; i++)
        program->arguments[i] = words[i];
    program->arguments[CREW_ARGUMENTS] = NULL;
    *process = (struct eplb_process_params){.path = "/proc/self/exe",
                                            .arguments = program->arguments,
                                            .keep = &params->keep,
                                            .num_keep = params->keep >= 0};
}

static enum eplb_status start(struct crew *crew, struct eplb_error *error)
{
    struct program programs[CREW_MAX_RANKS];
    struct eplb_process_params processes[CREW_MAX_RANKS];
    for (int32_t rank = 0; rank < crew->params.num_ranks; rank++)
        write_program(crew, rank, &programs[rank], &processes[rank]);
    const struct eplb_supervisor_params params = {.num_ranks = crew->params.num_ranks,
                                                  .programs = processes,
                                                  .silence_timeout_ns = 30 * SECOND_NS,
                                                  .look_interval_ns = SECOND_NS,
                                                  .context = crew,
                                                  .beats = beats,
                                                  .ended = ended};
    EPLB_TRY(eplb_supervisor_create(&params, &crew->supervisor, error));
    for (int32_t rank = 0; rank < crew->params.num_ranks; rank++) {
        int64_t pid = eplb_supervisor_report(crew->supervisor, rank).pid;
        crew->held[rank] = (struct eplb_process){.pid = pid, .descriptor = eplb_process_watch(pid)};
    }
    return EPLB_OK;
}

enum eplb_status crew_create(const struct crew_params *params, struct crew **crew, struct eplb_error *error)
{
    struct crew *created = calloc(1, sizeof *created);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a crew");
    created->params = *params;
    enum eplb_status status = eplb_mutex_init(&created->lock, error);
    if (status != EPLB_OK)
        goto free_block;
    status = eplb_condition_init(&created->changed, error);
    if (status != EPLB_OK)
        goto destroy_lock;
    status = start(created, error);
    if (status != EPLB_OK)
        goto destroy_changed;
    *crew = created;
    return EPLB_OK;
destroy_changed:
    eplb_condition_destroy(&created->changed);
destroy_lock:
    eplb_mutex_destroy(&created->lock);
free_block:
    free(created);
    return status;
}

void crew_destroy(struct crew *crew)
{
    if (crew == NULL)
        return;
    eplb_supervisor_destroy(crew->supervisor);
    for (int32_t rank = 0; rank < crew->params.num_ranks; rank++)
        if (crew->held[rank].descriptor >= 0)
            close(crew->held[rank].descriptor);
    eplb_condition_destroy(&crew->changed);
    eplb_mutex_destroy(&crew->lock);
    free(crew);
}

/* ---- one rank ---- */

int64_t crew_pid(const struct crew *crew, int32_t rank)
{
    return crew->held[rank].pid;
}

void crew_signal(const struct crew *crew, int32_t rank, int signal)
{
    eplb_process_signal(&crew->held[rank], signal);
}

int64_t crew_ended_at(struct crew *crew, int32_t rank)
{
    return crew_await_ended(crew, rank, 0);
}

int64_t crew_await_ended(struct crew *crew, int32_t rank, int64_t deadline)
{
    eplb_mutex_lock(&crew->lock);
    while (crew->ended_at[rank] == 0 && deadline > 0 &&
           eplb_condition_wait_until(&crew->changed, &crew->lock, deadline))
        continue;
    int64_t ended_at = crew->ended_at[rank];
    eplb_mutex_unlock(&crew->lock);
    return ended_at;
}

void crew_tell(struct crew *crew, int32_t rank, char text[CREW_SENTENCE])
{
    struct eplb_rank_life report = eplb_supervisor_report(crew->supervisor, rank);
    _Static_assert(CREW_SENTENCE >= EPLB_RANK_LIFE_TEXT, "room for the supervisor's sentence");
    eplb_rank_life_text(&report, text);
}

/* ---- all of them ---- */

int32_t crew_first_lost(struct crew *crew)
{
    return eplb_supervisor_first_lost(crew->supervisor);
}

void crew_expect_end(struct crew *crew)
{
    eplb_supervisor_expect_end(crew->supervisor);
}

bool crew_await_all(struct crew *crew, int64_t deadline)
{
    return eplb_supervisor_await_end(crew->supervisor, deadline);
}

bool crew_ended_well(struct crew *crew, int32_t rank)
{
    struct eplb_rank_life report = eplb_supervisor_report(crew->supervisor, rank);
    return report.fate == EPLB_RANK_STOPPED && report.end.signal == 0 && report.end.exit_code == 0;
}
