/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/observers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "os/thread.h"
#include "trace/event_log.h"

struct eplb_observers {
    struct eplb_manager_observer observer;
    struct eplb_event_writer *writer; /* NULL: nothing is recorded */
    struct eplb_mutex lock;           /* of the outcomes: the manager has a thread of its own */
    struct eplb_outcomes *outcomes;
};

/* ------------------------------------------------------------------------------ what the manager calls */

static void start(void *context, const struct eplb_manager_params *params)
{
    const struct eplb_observers *observers = context;
    if (observers->writer == NULL)
        return;
    const struct eplb_manager_observer *writer = eplb_event_writer_observer(observers->writer);
    writer->start(writer->context, params);
}

static void event(void *context, const struct eplb_manager_event *told, int64_t now)
{
    struct eplb_observers *observers = context;
    if (observers->writer != NULL) {
        const struct eplb_manager_observer *writer = eplb_event_writer_observer(observers->writer);
        writer->event(writer->context, told, now);
    }
    eplb_mutex_lock(&observers->lock);
    eplb_outcomes_event(observers->outcomes, told);
    eplb_mutex_unlock(&observers->lock);
}

static void action(void *context, const struct eplb_manager_action *done)
{
    struct eplb_observers *observers = context;
    if (observers->writer != NULL) {
        const struct eplb_manager_observer *writer = eplb_event_writer_observer(observers->writer);
        writer->action(writer->context, done);
    }
    eplb_mutex_lock(&observers->lock);
    eplb_outcomes_action(observers->outcomes, done);
    eplb_mutex_unlock(&observers->lock);
}

/* ------------------------------------------------------------------------------------------ create */

static struct eplb_observers *lay_out(struct eplb_arena *arena, const struct eplb_shape *shape)
{
    struct eplb_observers *observers = eplb_arena_take(arena, 1, sizeof *observers);
    struct eplb_outcomes *outcomes = eplb_outcomes_take(arena, shape);
    if (observers != NULL)
        *observers = (struct eplb_observers){.outcomes = outcomes};
    return observers;
}

static enum eplb_status create_writer(struct eplb_observers *observers, const char *record,
                                      const struct eplb_log_sink *log, struct eplb_error *error)
{
    static const char ending[] = ".events";
    if (record == NULL)
        return EPLB_OK;
    size_t length = strlen(record);
    char *path = malloc(length + sizeof ending);
    if (path == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the name of a recording");
    snprintf(path, length + sizeof ending, "%s%s", record, ending);
    enum eplb_status status = eplb_event_writer_create(path, log, &observers->writer, error);
    free(path);
    return status;
}

enum eplb_status eplb_observers_create(const struct eplb_shape *shape, const int32_t *initial,
                                       const char *record, const struct eplb_log_sink *log,
                                       struct eplb_observers **observers, struct eplb_error *error)
{
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    (void)lay_out(&arena, shape);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to observe %d layers", shape->num_layers);
    struct eplb_observers *created = lay_out(&arena, shape);
    EPLB_ASSERT(created == block && !arena.overflow);
    eplb_outcomes_init(created->outcomes, shape, initial);
    created->observer = (struct eplb_manager_observer){.size = sizeof created->observer,
                                                       .context = created,
                                                       .start = start,
                                                       .event = event,
                                                       .action = action};
    enum eplb_status status = eplb_mutex_init(&created->lock, error);
    if (status != EPLB_OK)
        goto free_block;
    status = create_writer(created, record, log, error);
    if (status != EPLB_OK)
        goto destroy_lock;
    *observers = created;
    return EPLB_OK;
destroy_lock:
    eplb_mutex_destroy(&created->lock);
free_block:
    eplb_arena_free(block);
    return status;
}

const struct eplb_manager_observer *eplb_observers_observer(const struct eplb_observers *observers)
{
    return &observers->observer;
}

/* -------------------------------------------------------------------------------------------- tell */

bool eplb_observers_next(struct eplb_observers *observers, struct eplb_outcome *outcome)
{
    eplb_mutex_lock(&observers->lock);
    bool found = eplb_outcomes_next(observers->outcomes, outcome);
    eplb_mutex_unlock(&observers->lock);
    return found;
}

void eplb_observers_finish(struct eplb_observers *observers)
{
    eplb_mutex_lock(&observers->lock);
    eplb_outcomes_finish(observers->outcomes);
    eplb_mutex_unlock(&observers->lock);
}

enum eplb_status eplb_observers_close(struct eplb_observers *observers, struct eplb_error *error)
{
    if (observers == NULL)
        return EPLB_OK;
    enum eplb_status status = eplb_event_writer_close(observers->writer, error);
    eplb_mutex_destroy(&observers->lock);
    eplb_arena_free(observers);
    return status;
}
