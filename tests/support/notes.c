/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/notes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void keep(void *context, const struct eplb_log_record *record)
{
    struct notes *notes = context;
    eplb_mutex_lock(&notes->lock);
    size_t room = sizeof notes->text - notes->length;
    size_t length = eplb_log_format(record, notes->text + notes->length, room);
    if (length + 1 < room) {
        notes->length += length + 1;
        notes->text[notes->length - 1] = '\n';
    }
    notes->text[notes->length] = '\0';
    eplb_mutex_unlock(&notes->lock);
}

void notes_init(struct notes *notes)
{
    *notes = (struct notes){.sink = {.size = sizeof notes->sink, .context = notes, .write = keep}};
    assert_int_equal(eplb_mutex_init(&notes->lock, NULL), EPLB_OK);
}

void notes_destroy(struct notes *notes)
{
    eplb_mutex_destroy(&notes->lock);
}

void notes_clear(struct notes *notes)
{
    eplb_mutex_lock(&notes->lock);
    notes->length = 0;
    notes->text[0] = '\0';
    eplb_mutex_unlock(&notes->lock);
}

/** Where `text` stands in the line that begins here; NULL when it does not. */
static const char *find_in_line(const char *line, const char *text)
{
    const char *hit = strstr(line, text);
    return hit != NULL && hit < line + strcspn(line, "\n") ? hit : NULL;
}

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line == '\n' ? line + 1 : line;
}

int notes_count(struct notes *notes, const char *text)
{
    int count = 0;
    eplb_mutex_lock(&notes->lock);
    for (const char *line = notes->text; *line != '\0'; line = next_line(line))
        count += find_in_line(line, text) != NULL;
    eplb_mutex_unlock(&notes->lock);
    return count;
}

double notes_sum(struct notes *notes, const char *text, const char *key)
{
    char name[64];
    double sum = 0;
    snprintf(name, sizeof name, "| %s=", key);
    eplb_mutex_lock(&notes->lock);
    for (const char *line = notes->text; *line != '\0'; line = next_line(line)) {
        const char *value = find_in_line(line, name);
        if (find_in_line(line, text) != NULL && value != NULL)
            sum += strtod(value + strlen(name), NULL);
    }
    eplb_mutex_unlock(&notes->lock);
    return sum;
}
