/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/log.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/real.h"

enum { MAX_KEYS = 16, SHOWN_DIGITS = 6 };

struct line {
    enum eplb_log_level level;
    const char *prefix;
    size_t count;
    const char *keys[MAX_KEYS];
};

static const struct line lines[EPLB_NUM_LOG_LINES] = {
#define LINE_ROW(id, level_name, prefix_text, number, ...) \
    [EPLB_LINE_##id] = {EPLB_LOG_##level_name, prefix_text, number, {__VA_ARGS__}},
    EPLB_LOG_LINES(LINE_ROW)};

void eplb_log_write(const struct eplb_log_sink *sink, enum eplb_log_line line,
                    const struct eplb_log_value *values, size_t count)
{
    EPLB_ASSERT(line < EPLB_NUM_LOG_LINES);
    EPLB_ASSERT(count == lines[line].count && count <= MAX_KEYS);
    if (sink == NULL || sink->write == NULL)
        return;
    struct eplb_log_field fields[MAX_KEYS];
    for (size_t i = 0; i < count; i++) {
        fields[i] = (struct eplb_log_field){.key = lines[line].keys[i], .type = values[i].type};
        if (values[i].type == EPLB_LOG_INT)
            fields[i].value.integer = values[i].integer;
        else if (values[i].type == EPLB_LOG_REAL)
            fields[i].value.real = values[i].real;
        else
            fields[i].value.text = values[i].text;
    }
    struct eplb_log_record record = {.size = sizeof record,
                                     .level = lines[line].level,
                                     .prefix = lines[line].prefix,
                                     .num_fields = count,
                                     .fields = fields};
    sink->write(sink->context, &record);
}

struct writer {
    char *text;
    size_t capacity;
    size_t length;
};

static void put(struct writer *writer, char c)
{
    if (writer->length + 1 < writer->capacity)
        writer->text[writer->length] = c;
    writer->length++;
}

static void put_text(struct writer *writer, const char *text)
{
    for (; text != NULL && *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        put(writer, c < 0x20 || c == 0x7f ? ' ' : c == '|' ? '/' : (char)c);
    }
}

static void put_value(struct writer *writer, const struct eplb_log_field *field)
{
    char digits[EPLB_REAL_TEXT];
    switch (field->type) {
    case EPLB_LOG_INT:
        snprintf(digits, sizeof digits, "%lld", (long long)field->value.integer);
        put_text(writer, digits);
        break;
    case EPLB_LOG_REAL:
        eplb_real_round(field->value.real, SHOWN_DIGITS, digits);
        put_text(writer, digits);
        break;
    case EPLB_LOG_TEXT:
        put_text(writer, field->value.text);
        break;
    }
}

size_t eplb_log_format(const struct eplb_log_record *record, char *text, size_t capacity)
{
    struct writer writer = {.text = text, .capacity = capacity};
    put_text(&writer, record->prefix);
    for (size_t i = 0; i < record->num_fields; i++) {
        put(&writer, ' ');
        put(&writer, '|');
        put(&writer, ' ');
        put_text(&writer, record->fields[i].key);
        put(&writer, '=');
        put_value(&writer, &record->fields[i]);
    }
    if (capacity > 0)
        text[writer.length < capacity ? writer.length : capacity - 1] = '\0';
    return writer.length;
}
