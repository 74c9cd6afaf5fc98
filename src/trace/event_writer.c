/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "trace/event_codec.h"
#include "trace/input.h"
#include "wire/bytes.h"

struct eplb_event_writer {
    struct eplb_manager_observer observer;
    const struct eplb_log_sink *log;
    char name[EPLB_ERROR_TEXT / 2]; /* of the file, for messages */
    int descriptor;
    bool started;
    bool told_time; /* there was an event: its time is the origin */
    bool pending;   /* a tick that nothing came of yet, not appended */
    int64_t tick_at;
    int64_t origin;
    uint64_t check;            /* after the last record appended */
    uint64_t written;          /* bytes of the file that are whole records */
    struct eplb_binary buffer; /* whole records that are not in the file */
    struct eplb_event_codec codec;
    struct eplb_error failure; /* why the recording ended early; EPLB_OK: it did not */
};

/** The recording cannot go on. Said once, at once. */
static void give_up(struct eplb_event_writer *writer, enum eplb_status status, const char *reason)
{
    if (writer->failure.status != EPLB_OK)
        return;
    eplb_fail(&writer->failure, status, "%s: the recording of events ends here, the run goes on: %s",
              writer->name, reason);
    EPLB_LOG(writer->log, WARNING, EPLB_VALUE_TEXT(writer->failure.text));
}

/** Begins a record; returns where. Its body is appended next. */
static size_t begin(struct eplb_event_writer *writer)
{
    size_t at = writer->buffer.length;
    eplb_binary_u64(&writer->buffer, 0);
    return at;
}

static void finish(struct eplb_event_writer *writer, size_t at)
{
    struct eplb_binary *buffer = &writer->buffer;
    if (buffer->failed)
        return;
    size_t length = buffer->length - at - EPLB_EVENT_FRAME;
    EPLB_ASSERT(length > 0 && length <= UINT32_MAX);
    eplb_put_u32(buffer->bytes + at, (uint32_t)length);
    eplb_put_u32(buffer->bytes + at + sizeof(uint32_t), ~(uint32_t)length);
    writer->check = eplb_event_check(writer->check, buffer->bytes + at + EPLB_EVENT_FRAME, length);
    eplb_binary_u64(buffer, writer->check);
}

/** Writes what is appended. What was written of it when that fails is taken back. */
static void flush(struct eplb_event_writer *writer)
{
    struct eplb_binary *buffer = &writer->buffer;
    if (buffer->failed) {
        give_up(writer, EPLB_NO_MEMORY, "no memory");
        return;
    }
    size_t done = 0;
    while (done < buffer->length) {
        ssize_t count = write(writer->descriptor, buffer->bytes + done, buffer->length - done);
        if (count < 0 && errno != EINTR) {
            int code = errno;
            /* A reader stops before a part of a record as well. */
            int left = done > 0 ? ftruncate(writer->descriptor, (off_t)writer->written) : 0;
            (void)left;
            give_up(writer, EPLB_IO, strerror(code));
            return;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    writer->written += done;
    buffer->length = 0;
}

static bool is_recording(const struct eplb_event_writer *writer)
{
    return writer->started && writer->failure.status == EPLB_OK;
}

static void append_event(struct eplb_event_writer *writer, const struct eplb_manager_event *event,
                         int64_t now)
{
    size_t at = begin(writer);
    eplb_event_encode(&writer->codec, event, now, &writer->buffer);
    finish(writer, at);
}

static void take_event(void *context, const struct eplb_manager_event *event, int64_t now)
{
    struct eplb_event_writer *writer = context;
    if (!is_recording(writer))
        return;
    if (!writer->told_time)
        writer->origin = now;
    writer->told_time = true;
    now -= writer->origin;
    writer->pending = event->type == EPLB_MANAGER_TICK;
    writer->tick_at = now;
    if (writer->pending)
        return;
    append_event(writer, event, now);
    flush(writer);
}

static void take_action(void *context, const struct eplb_manager_action *action)
{
    static const struct eplb_manager_event tick = {.type = EPLB_MANAGER_TICK};
    struct eplb_event_writer *writer = context;
    if (!is_recording(writer))
        return;
    if (writer->pending)
        append_event(writer, &tick, writer->tick_at);
    writer->pending = false;
    size_t at = begin(writer);
    eplb_action_encode(&writer->codec.shape, action, &writer->buffer);
    finish(writer, at);
}

static enum eplb_status reserve(struct eplb_event_writer *writer, const struct eplb_shape *shape,
                                struct eplb_error *error)
{
    EPLB_TRY(eplb_event_codec_init(&writer->codec, shape, error));
    /* An event, and what the core does about it: of each layer not more than giving it up. A command in a
     * log is no longer than twice its wire record, and solved weights are for a layer each. */
    size_t actions = ((size_t)shape->num_layers + 16) * 2 * (EPLB_EVENT_FRAME + EPLB_EVENT_CHECK) +
                     2 * eplb_command_bytes(shape) + EPLB_ERROR_TEXT;
    size_t weights = (size_t)shape->num_layers * ((size_t)shape->num_slots + 4) * (EPLB_EVENT_FRAME / 2);
    if (eplb_binary_extend(&writer->buffer, eplb_event_outputs_bytes(shape) + actions + weights) == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the outputs of %d ranks", shape->ep_size);
    writer->buffer.length = 0;
    return EPLB_OK;
}

void eplb_event_writer_start(struct eplb_event_writer *writer, const struct eplb_manager_core_params *params)
{
    struct eplb_error error = {.status = EPLB_OK};
    if (writer->started) {
        give_up(writer, EPLB_USAGE, "a second manager was started; a recording has one");
        return;
    }
    writer->started = true;
    if (reserve(writer, &params->shape, &error) != EPLB_OK) {
        give_up(writer, error.status, error.text);
        return;
    }
    unsigned char *magic = eplb_binary_extend(&writer->buffer, EPLB_EVENT_MAGIC);
    EPLB_ASSERT(magic != NULL);
    memcpy(magic, eplb_event_magic, EPLB_EVENT_MAGIC);
    size_t at = begin(writer);
    eplb_header_encode(params, &writer->buffer);
    finish(writer, at);
    flush(writer);
}

static void start(void *context, const struct eplb_manager_params *params)
{
    const struct eplb_manager_core_params core = eplb_manager_core_params_of(params);
    eplb_event_writer_start(context, &core);
}

enum eplb_status eplb_event_writer_create(const char *path, const struct eplb_log_sink *log,
                                          struct eplb_event_writer **writer, struct eplb_error *error)
{
    struct eplb_event_writer *created = calloc(1, sizeof *created);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a recording of events");
    created->observer = (struct eplb_manager_observer){.size = sizeof created->observer,
                                                       .context = created,
                                                       .start = start,
                                                       .event = take_event,
                                                       .action = take_action};
    created->log = log;
    snprintf(created->name, sizeof created->name, "%s", eplb_input_name(path));
    created->descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (created->descriptor >= 0) {
        *writer = created;
        return EPLB_OK;
    }
    int code = errno;
    free(created);
    if (code == EEXIST)
        EPLB_FAIL(EPLB_INVALID, "%s exists already; a recording replaces no file", eplb_input_name(path));
    EPLB_FAIL(code == ENOENT || code == ENOTDIR || code == EACCES || code == ENAMETOOLONG ? EPLB_INVALID
                                                                                          : EPLB_IO,
              "%s: events cannot be recorded: %s", eplb_input_name(path), strerror(code));
}

const struct eplb_manager_observer *eplb_event_writer_observer(struct eplb_event_writer *writer)
{
    return &writer->observer;
}

enum eplb_status eplb_event_writer_close(struct eplb_event_writer *writer, struct eplb_error *error)
{
    if (writer == NULL)
        return EPLB_OK;
    if (is_recording(writer)) {
        size_t at = begin(writer);
        eplb_binary_u8(&writer->buffer, EPLB_RECORD_END);
        finish(writer, at);
        flush(writer);
    }
    if (close(writer->descriptor) != 0)
        give_up(writer, EPLB_IO, strerror(errno));
    struct eplb_error failure = writer->failure;
    eplb_event_codec_free(&writer->codec);
    eplb_binary_free(&writer->buffer);
    free(writer);
    if (failure.status != EPLB_OK)
        EPLB_FAIL(failure.status, "%s", failure.text);
    return EPLB_OK;
}
