/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/event_log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "os/file.h"
#include "trace/event_codec.h"
#include "trace/input.h"
#include "wire/bytes.h"

struct eplb_event_source {
    char *bytes; /* the file */
    size_t size;
    size_t at;      /* of the next record */
    uint64_t check; /* after the last one */
    struct eplb_event_codec codec;
    struct eplb_event_rooms rooms;
};

/** A sentence about the record that comes next, or a part of it. */
static enum eplb_status refuse(const struct eplb_event_log *log, enum eplb_status status, const char *problem,
                               struct eplb_error *error)
{
    EPLB_FAIL(status, "%s: record %" PRIu64 ", at byte %zu: %s", log->name, log->num_records, log->source->at,
              problem);
}

/**
 * Finds the body of the next record, without passing it; NULL, and the log is cut, when the file ends before
 * it does. Where a length and its complement do not fit, the length cannot be believed: that is no end.
 */
static enum eplb_status find_body(struct eplb_event_log *log, const unsigned char **body, size_t *length,
                                  struct eplb_error *error)
{
    const struct eplb_event_source *source = log->source;
    const unsigned char *frame = (const unsigned char *)source->bytes + source->at;
    size_t left = source->size - source->at;
    *body = NULL;
    log->cut = true;
    if (left < EPLB_EVENT_FRAME)
        return EPLB_OK;
    *length = eplb_get_u32(frame);
    if (*length != (uint32_t)~eplb_get_u32(frame + sizeof(uint32_t)) || *length == 0)
        return refuse(log, EPLB_INVALID, "the file is damaged: this is no length of a record", error);
    if (left - EPLB_EVENT_FRAME < *length || left - EPLB_EVENT_FRAME - *length < EPLB_EVENT_CHECK)
        return EPLB_OK;
    log->cut = false;
    frame += EPLB_EVENT_FRAME;
    if (eplb_event_check(source->check, frame, *length) != eplb_get_u64(frame + *length))
        return refuse(log, EPLB_INVALID, "the file is damaged: the check does not fit the bytes", error);
    *body = frame;
    return EPLB_OK;
}

static void pass(struct eplb_event_log *log, const unsigned char *body, size_t length)
{
    struct eplb_event_source *source = log->source;
    source->check = eplb_get_u64(body + length);
    source->at += EPLB_EVENT_FRAME + length + EPLB_EVENT_CHECK;
    log->num_records++;
}

static enum eplb_status decode_header(struct eplb_event_log *log, const unsigned char *body, size_t length,
                                      struct eplb_error *error)
{
    struct eplb_cursor cursor = {.at = body + 1, .end = body + length};
    struct eplb_event_source *source = log->source;
    if (body[0] != EPLB_RECORD_HEADER)
        EPLB_FAIL(EPLB_INVALID, "the first record is no header");
    EPLB_TRY(eplb_header_decode(&cursor, &log->params, log->policy, error));
    EPLB_TRY(eplb_event_codec_init(&source->codec, &log->params.shape, error));
    return eplb_event_rooms_init(&source->rooms, &log->params.shape, error);
}

static enum eplb_status read_header(struct eplb_event_log *log, struct eplb_error *error)
{
    struct eplb_event_source *source = log->source;
    const unsigned char *body;
    size_t length;
    if (source->size == 0)
        EPLB_FAIL(EPLB_INVALID, "%s is empty: its run has started no manager", log->name);
    if (source->size < EPLB_EVENT_MAGIC || memcmp(source->bytes, eplb_event_magic, EPLB_EVENT_MAGIC) != 0)
        EPLB_FAIL(EPLB_INVALID, "%s is no recording of events: it does not begin with eplb-events-1",
                  log->name);
    source->at = EPLB_EVENT_MAGIC;
    EPLB_TRY(find_body(log, &body, &length, error));
    if (body == NULL)
        EPLB_FAIL(EPLB_INVALID, "%s is cut off in its header: there are no events", log->name);
    struct eplb_error reason;
    enum eplb_status status = decode_header(log, body, length, &reason);
    if (status != EPLB_OK)
        return refuse(log, status, reason.text, error);
    pass(log, body, length);
    return EPLB_OK;
}

enum eplb_status eplb_event_log_open(const char *path, struct eplb_event_log *log, struct eplb_error *error)
{
    struct eplb_event_log opened = {.name = eplb_input_name(path), .source = calloc(1, sizeof *log->source)};
    if (opened.source == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the events of %s", opened.name);
    enum eplb_status status = eplb_file_read(path, &opened.source->bytes, &opened.source->size, error);
    if (status == EPLB_OK)
        status = read_header(&opened, error);
    if (status == EPLB_OK)
        *log = opened;
    else
        eplb_event_log_close(&opened);
    return status;
}

/* The arrays of params were allocated for this log; that they are const is for everybody else. */
static void free_array(const void *array)
{
    void *owned;
    memcpy(&owned, &array, sizeof owned);
    free(owned);
}

void eplb_event_log_close(struct eplb_event_log *log)
{
    if (log->source == NULL)
        return;
    free_array(log->params.initial);
    free_array(log->params.generations);
    free_array(log->params.layer_ids);
    free_array(log->params.weight_versions);
    free_array(log->params.initial_weights);
    eplb_event_codec_free(&log->source->codec);
    eplb_event_rooms_free(&log->source->rooms);
    free(log->source->bytes);
    free(log->source);
    *log = (struct eplb_event_log){0};
}

static enum eplb_status decode(struct eplb_event_log *log, const unsigned char *body, size_t length,
                               struct eplb_logged *logged, struct eplb_error *error)
{
    struct eplb_event_source *source = log->source;
    struct eplb_cursor cursor = {.at = body + 1, .end = body + length};
    unsigned what = body[0];
    if (what >= EPLB_RECORD_EVENT && what < EPLB_RECORD_EVENT + EPLB_NUM_EVENTS) {
        logged->kind = EPLB_LOGGED_EVENT;
        return eplb_event_decode(&source->codec, &source->rooms, &cursor,
                                 (enum eplb_manager_event_type)(what - EPLB_RECORD_EVENT), logged, error);
    }
    if (what >= EPLB_RECORD_ACTION && what < EPLB_RECORD_ACTION + EPLB_NUM_ACTIONS) {
        logged->kind = EPLB_LOGGED_ACTION;
        return eplb_action_decode(&source->codec.shape, &source->rooms, &cursor,
                                  (enum eplb_manager_action_type)(what - EPLB_RECORD_ACTION), logged, error);
    }
    if (what != EPLB_RECORD_END || length != 1)
        EPLB_FAIL(EPLB_INVALID, "there is no record of kind %u", what);
    log->ended = true;
    return EPLB_OK;
}

enum eplb_status eplb_event_log_next(struct eplb_event_log *log, struct eplb_logged *logged,
                                     struct eplb_error *error)
{
    const unsigned char *body = NULL;
    size_t length = 0;
    *logged = (struct eplb_logged){.kind = EPLB_LOGGED_NOTHING, .number = log->num_records};
    if (log->ended && log->source->at != log->source->size)
        return refuse(log, EPLB_INVALID, "there are bytes behind the end", error);
    if (log->ended)
        return EPLB_OK;
    EPLB_TRY(find_body(log, &body, &length, error));
    if (body == NULL)
        return EPLB_OK;
    struct eplb_error reason;
    enum eplb_status status = decode(log, body, length, logged, &reason);
    if (status != EPLB_OK)
        return refuse(log, status, reason.text, error);
    logged->body = body;
    logged->length = length;
    pass(log, body, length);
    return log->ended ? eplb_event_log_next(log, logged, error) : EPLB_OK;
}
