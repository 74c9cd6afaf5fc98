/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/log_buffer.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"

/** Copies a text behind `used`, cut to what is left. */
static const char *keep_text(struct eplb_buffered_record *kept, size_t *used, const char *text)
{
    size_t room = sizeof kept->text - *used;
    EPLB_ASSERT(room > 0);
    size_t length = text == NULL ? 0 : strlen(text);
    length = length < room ? length : room - 1;
    char *copy = kept->text + *used;
    if (length > 0)
        memcpy(copy, text, length);
    copy[length] = '\0';
    *used += length + 1 < room ? length + 1 : room - 1;
    return copy;
}

static void keep(void *context, const struct eplb_log_record *record)
{
    struct eplb_log_buffer *buffer = context;
    if (buffer->count == EPLB_LOG_BUFFER_RECORDS) {
        buffer->lost++;
        return;
    }
    struct eplb_buffered_record *kept = &buffer->records[buffer->count++];
    EPLB_ASSERT(record->num_fields <= EPLB_LOG_BUFFER_FIELDS);
    kept->record = *record;
    if (record->num_fields > 0)
        memcpy(kept->fields, record->fields, record->num_fields * sizeof *record->fields);
    size_t used = 0;
    for (size_t i = 0; i < record->num_fields; i++)
        if (kept->fields[i].type == EPLB_LOG_TEXT)
            kept->fields[i].value.text = keep_text(kept, &used, record->fields[i].value.text);
}

struct eplb_log_sink eplb_log_buffer_sink(struct eplb_log_buffer *buffer)
{
    return (struct eplb_log_sink){.size = sizeof(struct eplb_log_sink), .context = buffer, .write = keep};
}

void eplb_log_buffer_take(struct eplb_log_buffer *from, struct eplb_log_buffer *to)
{
    to->count = from->count;
    to->lost = from->lost;
    for (size_t i = 0; i < from->count; i++) {
        struct eplb_buffered_record *kept = &to->records[i];
        *kept = from->records[i];
        for (size_t field = 0; field < kept->record.num_fields; field++)
            if (kept->fields[field].type == EPLB_LOG_TEXT)
                kept->fields[field].value.text =
                    kept->text + (from->records[i].fields[field].value.text - from->records[i].text);
    }
    from->count = 0;
    from->lost = 0;
}

void eplb_log_buffer_flush(struct eplb_log_buffer *buffer, const struct eplb_log_sink *sink)
{
    for (size_t i = 0; sink != NULL && sink->write != NULL && i < buffer->count; i++) {
        buffer->records[i].record.fields = buffer->records[i].fields;
        sink->write(sink->context, &buffer->records[i].record);
    }
    if (buffer->lost > 0) {
        char message[64];
        snprintf(message, sizeof message, "%zu log records were lost", buffer->lost);
        EPLB_LOG(sink, WARNING, EPLB_VALUE_TEXT(message));
    }
    buffer->count = 0;
    buffer->lost = 0;
}
