/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A log sink that keeps the lines, for a test to look at.
 */
#ifndef SUPPORT_NOTES_H
#define SUPPORT_NOTES_H

#include "eplb/log.h"
#include "os/thread.h"

enum { NOTES_BYTES = 1 << 18 };

struct notes {
    struct eplb_log_sink sink;
    struct eplb_mutex lock; /* everything below */
    char text[NOTES_BYTES]; /* lines, each ended by a newline; those that do not fit are left out */
    size_t length;
};

void notes_init(struct notes *notes);
void notes_destroy(struct notes *notes);

/** Forgets all lines. */
void notes_clear(struct notes *notes);

/** How many lines contain the text. */
int notes_count(struct notes *notes, const char *text);

/** The sum of a key's values over all lines that contain the text. */
double notes_sum(struct notes *notes, const char *text, const char *key);

#endif
