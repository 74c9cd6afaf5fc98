/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a person who watches a run sees: a few lines, painted again and again in one place.
 */
#ifndef CLI_RUN_VIEW_H
#define CLI_RUN_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "engine/run.h"

/** Bytes that the text of a view takes at most, its end included. */
#define EPLB_RUN_VIEW_TEXT 4096

/** Lines of a view. */
#define EPLB_RUN_VIEW_LINES 9

/** What a view shows beside the progress. */
struct eplb_run_view {
    const char *title; /* of this run, when there are several: "with balancing, run 1 of 2"; "" */
    const char *policy;
    struct eplb_shape shape;
    double tokens_per_second; /* lately */
};

/**
 * Writes the view as EPLB_RUN_VIEW_LINES lines, none longer than `columns`, the first one empty. Pure.
 *
 * @return bytes written, without the end
 */
size_t eplb_run_view_format(const struct eplb_run_view *view, const struct eplb_run_progress *progress,
                            int columns, char text[EPLB_RUN_VIEW_TEXT]);

/** Bytes that the text of a painting takes at most. */
#define EPLB_RUN_PAINT_TEXT (EPLB_RUN_VIEW_TEXT + EPLB_RUN_VIEW_LINES * 8 + 32)

/**
 * Turns the text of a view into what paints it over the one before: each line erases what stood to its
 * right, and the cursor ends where it was, at the empty first line. So a line that somebody else writes
 * meanwhile stays readable, and the next painting begins below it. Pure.
 *
 * @return bytes written, without the end
 */
size_t eplb_run_view_paint(const char *text, char painting[EPLB_RUN_PAINT_TEXT]);

/** What takes a painted view off the terminal again. */
const char *eplb_run_view_erase(void);

/** Writes bytes as people read them, "512 bytes" or "3.1 MiB". Returns text. */
#define EPLB_BYTES_TEXT 32
const char *eplb_bytes_text(int64_t bytes, char text[EPLB_BYTES_TEXT]);

#endif
