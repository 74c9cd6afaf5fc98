/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/run_watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/terminal.h"

#define PAINT_INTERVAL_NS INT64_C(100000000)
#define RATE_INTERVAL_NS INT64_C(1000000000)

bool eplb_run_watch_can_paint(void)
{
    const char *term = getenv("TERM");
    return eplb_terminal_is(STDERR_FILENO) && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

static void put(const char *text, size_t length)
{
    /* A terminal that is gone is no reason to end the run. */
    ssize_t written = write(STDERR_FILENO, text, length);
    (void)written;
}

/** Tokens in a second, of the last whole second or more; in the first one of all that there is. */
static void follow_rate(struct eplb_run_watch *watch, const struct eplb_run_progress *progress)
{
    int64_t ns = progress->elapsed_ns - watch->rate_ns;
    if (ns <= 0 || (ns < RATE_INTERVAL_NS && watch->rate_ns > 0))
        return;
    uint64_t tokens = progress->statistics.tokens;
    watch->view.tokens_per_second = (double)(tokens - watch->rate_tokens) * 1e9 / (double)ns;
    if (ns < RATE_INTERVAL_NS)
        return;
    watch->rate_ns = progress->elapsed_ns;
    watch->rate_tokens = tokens;
}

static void paint(struct eplb_run_watch *watch, const struct eplb_run_progress *progress)
{
    char text[EPLB_RUN_VIEW_TEXT];
    char painting[EPLB_RUN_PAINT_TEXT];
    if (watch->painted && progress->elapsed_ns - watch->painted_ns < PAINT_INTERVAL_NS)
        return;
    follow_rate(watch, progress);
    /* A line as wide as the terminal would move the cursor to the next one. */
    eplb_run_view_format(&watch->view, progress, eplb_terminal_width(STDERR_FILENO, 80) - 1, text);
    put(painting, eplb_run_view_paint(text, painting));
    watch->painted = true;
    watch->painted_ns = progress->elapsed_ns;
}

void eplb_run_watch_step(struct eplb_run_watch *watch, const struct eplb_run_progress *progress)
{
    if (watch->notes != NULL)
        eplb_run_notes_take(watch->notes, progress);
    if (watch->paints)
        paint(watch, progress);
}

void eplb_run_watch_end(struct eplb_run_watch *watch)
{
    const char *erase = eplb_run_view_erase();
    if (watch->painted)
        put(erase, strlen(erase));
    watch->painted = false;
}
