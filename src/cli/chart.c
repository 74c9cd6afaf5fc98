/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/chart.h"

#include <stdlib.h>
#include <string.h>

#include "os/terminal.h"

/** Ranks that are drawn when there are many: the heaviest and the lightest. */
enum { MAX_ROWS = 24, NUM_HEAVIEST = 16, NUM_LIGHTEST = 8 };

static int locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0')
            return strcasestr(value, "UTF-8") != NULL || strcasestr(value, "UTF8") != NULL;
    }
    return 0;
}

struct eplb_chart_style eplb_chart_style_of(FILE *file)
{
    int descriptor = fileno(file);
    return (struct eplb_chart_style){.colours = eplb_terminal_colours(descriptor),
                                     .blocks = locale_is_utf8(),
                                     .width = eplb_terminal_width(descriptor, 80)};
}

static const char *colour_of(double ratio)
{
    return ratio > 1.5 ? "\033[31m" : ratio > 1.1 ? "\033[33m" : "\033[32m";
}

static int bar_length(double ratio, double full, int cells)
{
    int length = (int)(ratio / full * cells + 0.5);
    return length > cells ? cells : length;
}

/** A bar of `ratio` means, where `cells` columns stand for `full` means. Returns the columns it took. */
static int draw_bar(FILE *file, const struct eplb_chart_style *style, double ratio, double full, int cells)
{
    int length = bar_length(ratio, full, cells);
    if (style->colours)
        fputs(colour_of(ratio), file);
    for (int i = 0; i < length; i++)
        fputs(style->blocks ? "\u2588" : "#", file);
    if (style->colours)
        fputs("\033[0m", file);
    return length;
}

static void draw_row(FILE *file, const struct eplb_chart_style *style, int32_t rank, double before,
                     double after, double full, int cells)
{
    fprintf(file, "  rank %4d  %5.2f ", rank, before);
    int used = draw_bar(file, style, before, full, cells);
    fprintf(file, "%*s  %5.2f", cells - used, "", after);
    if (bar_length(after, full, cells) > 0)
        fputc(' ', file);
    draw_bar(file, style, after, full, cells);
    fputc('\n', file);
}

struct ranked {
    double load;
    int32_t rank;
};

static int by_load(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    if (a->load != b->load)
        return a->load < b->load ? 1 : -1;
    return a->rank < b->rank ? -1 : 1;
}

static double largest(const double *values, int32_t count)
{
    double result = 0;
    for (int32_t i = 0; i < count; i++)
        result = values[i] > result ? values[i] : result;
    return result;
}

/** Marks the ranks that are drawn; NULL when memory is short. */
static char *choose_rows(const double *before, int32_t num_ranks)
{
    char *chosen = calloc((size_t)num_ranks, 1);
    struct ranked *order = calloc((size_t)num_ranks, sizeof *order);
    if (chosen != NULL && order != NULL) {
        for (int32_t rank = 0; rank < num_ranks; rank++)
            order[rank] = (struct ranked){before[rank], rank};
        qsort(order, (size_t)num_ranks, sizeof *order, by_load);
        for (int32_t i = 0; i < num_ranks; i++)
            if (num_ranks <= MAX_ROWS || i < NUM_HEAVIEST || i >= num_ranks - NUM_LIGHTEST)
                chosen[order[i].rank] = 1;
    }
    free(order);
    return chosen;
}

void eplb_chart_ranks(FILE *file, const struct eplb_chart_style *style, const double *before,
                      const double *after, int32_t num_ranks, double mean)
{
    enum { LABELS = 28 };
    char *chosen = choose_rows(before, num_ranks);
    int cells = (style->width - LABELS) / 2;
    cells = cells < 8 ? 8 : cells > 40 ? 40 : cells;
    double full = largest(before, num_ranks) / mean;
    double full_after = largest(after, num_ranks) / mean;
    full = full_after > full ? full_after : full;

    fprintf(file, "             %-*s  %s\n", cells + 6, "before (load / mean)", "after");
    for (int32_t rank = 0; rank < num_ranks; rank++)
        if (chosen == NULL || chosen[rank])
            draw_row(file, style, rank, before[rank] / mean, after[rank] / mean, full, cells);
    if (chosen != NULL && num_ranks > MAX_ROWS)
        fprintf(file, "  (%d of %d ranks: the %d heaviest and the %d lightest before)\n", MAX_ROWS, num_ranks,
                NUM_HEAVIEST, NUM_LIGHTEST);
    free(chosen);
}
