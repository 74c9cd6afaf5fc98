/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/run_view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum { MOST_COLUMNS = EPLB_RUN_VIEW_TEXT / EPLB_RUN_VIEW_LINES - 8, MAX_HEALTH = 160 };

struct canvas {
    char *text;
    size_t length;
    size_t columns;
};

/** A line: a label, then what it says, cut at the last column. */
static void EPLB_PRINTF(3, 4) put_line(struct canvas *canvas, const char *label, const char *format, ...)
{
    enum { LABEL_COLUMNS = 13 };
    char line[MOST_COLUMNS + 1];
    int head = snprintf(line, sizeof line, "  %-*s ", LABEL_COLUMNS, label);
    EPLB_ASSERT(head > 0 && (size_t)head < sizeof line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + head, sizeof line - (size_t)head, format, arguments);
    va_end(arguments);
    size_t length = strlen(line);
    if (length > canvas->columns)
        length = canvas->columns;
    memcpy(canvas->text + canvas->length, line, length);
    canvas->length += length;
    canvas->text[canvas->length++] = '\n';
}

const char *eplb_bytes_text(int64_t bytes, char text[EPLB_BYTES_TEXT])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    EPLB_ASSERT(bytes >= 0);
    if (bytes < 1024) {
        snprintf(text, EPLB_BYTES_TEXT, "%d bytes", (int)bytes);
        return text;
    }
    double scaled = (double)bytes / 1024;
    size_t unit = 0;
    /* What would be rounded to 1024.0 is one of the next unit. */
    while (scaled >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]) {
        scaled /= 1024;
        unit++;
    }
    snprintf(text, EPLB_BYTES_TEXT, "%.1f %s", scaled, units[unit]);
    return text;
}

static void put_step(struct canvas *canvas, const struct eplb_run_view *view,
                     const struct eplb_run_progress *progress)
{
    char of[32] = "";
    if (progress->steps > 0)
        snprintf(of, sizeof of, " of %" PRIu64, progress->steps);
    int64_t seconds = progress->elapsed_ns / 1000000000;
    put_line(canvas, "step", "%" PRIu64 "%s   %.0f tokens/s   %" PRId64 ":%02d%s", progress->step, of,
             view->tokens_per_second, seconds / 60, (int)(seconds % 60),
             progress->steps > 0 ? "" : "   (Ctrl-C ends it)");
}

static void put_balance(struct canvas *canvas, const struct eplb_run_progress *progress)
{
    const struct eplb_window_balance *now = &progress->balance;
    const struct eplb_window_balance *first = &progress->statistics.first_window;
    if (now->worst_layer == EPLB_NO_LAYER) {
        put_line(canvas, "peak / mean", "no load yet in this window");
        return;
    }
    put_line(canvas, "peak / mean", "layers' mean %.3f   worst %.3f (layer %" PRId32 ")   first window %.3f",
             now->mean, now->worst, now->worst_layer, first->mean);
}

static void put_layers(struct canvas *canvas, const struct eplb_manager_status *manager)
{
    char doing[80];
    if (manager->activating_layer != EPLB_NO_LAYER)
        snprintf(doing, sizeof doing, "activating layer %" PRId32, manager->activating_layer);
    else if (manager->preparing_layer != EPLB_NO_LAYER)
        snprintf(doing, sizeof doing,
                 manager->ready ? "layer %" PRId32 " is ready" : "preparing layer %" PRId32,
                 manager->preparing_layer);
    else
        snprintf(doing, sizeof doing, "%s", manager->policy_running ? "planning" : "idle");
    put_line(canvas, "layers", "%s   waiting %" PRId32 "   switched %" PRIu64 "   given up %" PRIu64, doing,
             manager->layers_waiting, manager->layers_committed, manager->layers_aborted);
}

static void put_moves(struct canvas *canvas, const struct eplb_run_progress *progress)
{
    char bytes[EPLB_BYTES_TEXT];
    put_line(canvas, "moved", "%" PRIu64 " slots   %s   in %" PRIu64 " rounds",
             progress->manager->slots_moved, eplb_bytes_text(progress->bytes_moved, bytes),
             progress->manager->rounds);
}

static void put_health(struct canvas *canvas, const struct eplb_manager_status *manager)
{
    char trouble[MAX_HEALTH];
    char sample[64];
    if (manager->num_dead > 0)
        snprintf(trouble, sizeof trouble, "ranks dead: %" PRId32, manager->num_dead);
    else if (manager->activation_stuck)
        snprintf(trouble, sizeof trouble, "the activation of layer %" PRId32 " is stuck for %.1f s",
                 manager->activating_layer, (double)manager->activation_age_ns / 1e9);
    else if (manager->policy_failures > 0)
        snprintf(trouble, sizeof trouble, "policy runs failed: %" PRIu64, manager->policy_failures);
    else
        snprintf(trouble, sizeof trouble, "ok");
    if (manager->last_sample_age_ns < 0)
        snprintf(sample, sizeof sample, "no sample yet");
    else
        snprintf(sample, sizeof sample, "last sample %.1f s ago", (double)manager->last_sample_age_ns / 1e9);
    put_line(canvas, "health", "%s   %s   samples refused %" PRIu64 ", lacking %" PRIu64, trouble, sample,
             manager->samples_refused, manager->samples_lacking);
}

static void put_title(struct canvas *canvas, const struct eplb_run_view *view)
{
    const struct eplb_shape *shape = &view->shape;
    put_line(canvas, "eplb run",
             "%s%spolicy %s   %" PRId32 " layers, %" PRId32 " experts on %" PRId32 " ranks x %" PRId32
             " slots",
             view->title, view->title[0] == '\0' ? "" : "   ", view->policy, shape->num_layers,
             shape->num_experts, shape->ep_size, shape->slots_per_rank);
}

size_t eplb_run_view_format(const struct eplb_run_view *view, const struct eplb_run_progress *progress,
                            int columns, char text[EPLB_RUN_VIEW_TEXT])
{
    struct canvas canvas = {.text = text};
    canvas.columns = columns < 1 ? 1 : columns > MOST_COLUMNS ? MOST_COLUMNS : (size_t)columns;
    text[canvas.length++] = '\n';
    put_title(&canvas, view);
    put_step(&canvas, view, progress);
    put_balance(&canvas, progress);
    if (progress->manager == NULL) {
        put_line(&canvas, "layers", "balancing is off: they stay as they are");
        put_line(&canvas, "moved", "nothing");
    } else {
        put_layers(&canvas, progress->manager);
        put_moves(&canvas, progress);
    }
    put_line(&canvas, "step time", "p50 %.2f ms   p99 %.2f ms", (double)progress->step_ns_p50 / 1e6,
             (double)progress->step_ns_p99 / 1e6);
    if (progress->manager == NULL)
        put_line(&canvas, "health", "ok");
    else
        put_health(&canvas, progress->manager);
    text[canvas.length++] = '\n';
    EPLB_ASSERT(canvas.length < EPLB_RUN_VIEW_TEXT);
    text[canvas.length] = '\0';
    return canvas.length;
}

static size_t append(char *painting, size_t length, const char *text, size_t count)
{
    EPLB_ASSERT(length + count < EPLB_RUN_PAINT_TEXT);
    memcpy(painting + length, text, count);
    return length + count;
}

size_t eplb_run_view_paint(const char *text, char painting[EPLB_RUN_PAINT_TEXT])
{
    static const char erase_right[] = "\033[K";
    size_t length = 0;
    int lines = 0;
    while (*text != '\0') {
        size_t count = strcspn(text, "\n");
        length = append(painting, length, text, count);
        length = append(painting, length, erase_right, sizeof erase_right - 1);
        length = append(painting, length, "\n", 1);
        text += count + (text[count] == '\n');
        lines++;
    }
    char up[16];
    int count = snprintf(up, sizeof up, "\033[%dA\r", lines);
    length = append(painting, length, up, (size_t)count);
    painting[length] = '\0';
    return length;
}

const char *eplb_run_view_erase(void)
{
    return "\r\033[J";
}
