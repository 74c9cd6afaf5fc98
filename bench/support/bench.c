/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "eplb/clock.h"

int eplb_bench_parse(int argc, char **argv, const char *purpose, struct eplb_bench_options *options)
{
    *options = (struct eplb_bench_options){.json = 0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            options->json = 1;
        } else if (strcmp(argv[i], "--quick") == 0) {
            options->quick = 1;
        } else if (strncmp(argv[i], "--data=", strlen("--data=")) == 0) {
            options->data = argv[i] + strlen("--data=");
        } else if (strcmp(argv[i], "--help") == 0) {
            printf("usage: %s [--json] [--quick] [--data=DIR]\n\n%s\n\n"
                   "  --json      print a JSON list of rows instead of a table\n"
                   "  --quick     small inputs, few repetitions: to see that it works\n"
                   "  --data=DIR  folder of recordings, for the benches that read any\n",
                   argv[0], purpose);
            return 0;
        } else {
            fprintf(stderr,
                    "%s: '%s' is no option of this bench; --json, --quick, --data=DIR and --help are\n",
                    argv[0], argv[i]);
            return 2;
        }
    }
    if (options->data != NULL && access(options->data, R_OK | X_OK) != 0) {
        fprintf(stderr, "%s: --data=%s: %s\n", argv[0], options->data, strerror(errno));
        return 2;
    }
    return -1;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

struct eplb_bench_time eplb_bench_measure(void (*run)(void *context), void *context, int warm_up,
                                          int repetitions)
{
    EPLB_ASSERT(repetitions >= 1 && repetitions <= EPLB_BENCH_MAX_REPETITIONS);
    const struct eplb_clock *clock = eplb_clock_system();
    double seconds[EPLB_BENCH_MAX_REPETITIONS];
    for (int i = 0; i < warm_up; i++)
        run(context);
    for (int i = 0; i < repetitions; i++) {
        int64_t start = clock->now(clock->context);
        run(context);
        seconds[i] = (double)(clock->now(clock->context) - start) * 1e-9;
    }
    qsort(seconds, (size_t)repetitions, sizeof seconds[0], ascending);
    return (struct eplb_bench_time){.minimum = seconds[0], .median = seconds[repetitions / 2]};
}

static int cell_text(const struct eplb_bench_cell *cell, char *text, size_t capacity)
{
    switch (cell->type) {
    case EPLB_BENCH_INT:
        return snprintf(text, capacity, "%" PRId64, cell->integer);
    case EPLB_BENCH_REAL:
        if (isnan(cell->real))
            return snprintf(text, capacity, "-");
        return snprintf(text, capacity, "%.6g", cell->real);
    case EPLB_BENCH_TEXT:
        break;
    }
    return snprintf(text, capacity, "%s", cell->text);
}

static void print_json_row(const struct eplb_bench_report *report, const struct eplb_bench_cell *cells,
                           size_t count)
{
    printf(report->num_rows == 0 ? "[\n  {" : ",\n  {");
    for (size_t i = 0; i < count; i++) {
        char text[64];
        cell_text(&cells[i], text, sizeof text);
        const char *quote = cells[i].type == EPLB_BENCH_TEXT ? "\"" : "";
        if (cells[i].type == EPLB_BENCH_REAL && isnan(cells[i].real))
            (void)snprintf(text, sizeof text, "null");
        printf("%s\"%s\": %s%s%s", i == 0 ? "" : ", ", cells[i].key, quote, text, quote);
    }
    printf("}");
}

/* A column is as wide as its key, and at least as wide as most of its values. */
static int width_of(const struct eplb_bench_cell *cell)
{
    int usual = cell->type == EPLB_BENCH_TEXT ? 13 : 9;
    int width = (int)strlen(cell->key);
    return width < usual ? usual : width;
}

static void print_table_row(const struct eplb_bench_report *report, const struct eplb_bench_cell *cells,
                            size_t count)
{
    if (report->num_rows == 0) {
        for (size_t i = 0; i < count; i++)
            printf("%s%*s", i == 0 ? "" : "  ", width_of(&cells[i]), cells[i].key);
        printf("\n");
    }
    for (size_t i = 0; i < count; i++) {
        char text[64];
        cell_text(&cells[i], text, sizeof text);
        printf("%s%*s", i == 0 ? "" : "  ", width_of(&cells[i]), text);
    }
    printf("\n");
}

void eplb_bench_row(struct eplb_bench_report *report, const struct eplb_bench_cell *cells, size_t count)
{
    if (report->json)
        print_json_row(report, cells, count);
    else
        print_table_row(report, cells, count);
    report->num_rows++;
    fflush(stdout);
}

int eplb_bench_end(struct eplb_bench_report *report)
{
    if (report->json)
        printf(report->num_rows == 0 ? "[]\n" : "\n]\n");
    return fflush(stdout) != 0 || ferror(stdout);
}

void eplb_bench_fail(const char *sentence)
{
    fprintf(stderr, "%s\n", sentence);
    exit(1);
}

void *eplb_bench_allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        eplb_bench_fail("the bench has not enough memory");
    return memory;
}
