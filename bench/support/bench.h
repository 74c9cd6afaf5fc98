/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What every bench shares: its command line, its stop watch, and the rows it prints.
 *
 * A bench prints a table on standard output, or with --json a list of objects, one per row. It
 * puts beside its own figure what the machine could do at best (a copy of the same bytes, a sort
 * of the same keys), measured in the same run: a figure alone says little about another machine.
 */
#ifndef SUPPORT_BENCH_H
#define SUPPORT_BENCH_H

#include <stddef.h>
#include <stdint.h>

struct eplb_bench_options {
    int json;         /* rows as JSON */
    int quick;        /* small inputs and few repetitions: shows that the bench works, not how fast it is */
    const char *data; /* folder of recordings, or NULL */
};

/**
 * Reads the command line; --help prints `purpose`.
 *
 * @return -1 to go on, else the code to exit with (the reason was printed)
 */
int eplb_bench_parse(int argc, char **argv, const char *purpose, struct eplb_bench_options *options);

/** Seconds that one call took. */
struct eplb_bench_time {
    double minimum;
    double median;
};

enum { EPLB_BENCH_MAX_REPETITIONS = 1000 };

/**
 * Calls run(context) `warm_up` times unmeasured, then `repetitions` times (at least 1, at most
 * EPLB_BENCH_MAX_REPETITIONS), each measured.
 */
struct eplb_bench_time eplb_bench_measure(void (*run)(void *context), void *context, int warm_up,
                                          int repetitions);

/** One figure of a row. */
struct eplb_bench_cell {
    const char *key;
    enum { EPLB_BENCH_INT, EPLB_BENCH_REAL, EPLB_BENCH_TEXT } type;
    int64_t integer;
    double real;      /* NaN: not measured, - in the table and null in JSON */
    const char *text; /* without characters that JSON would escape */
};

#define EPLB_BENCH_CELL_INT(name, x) \
    ((struct eplb_bench_cell){.key = (name), .type = EPLB_BENCH_INT, .integer = (x)})
#define EPLB_BENCH_CELL_REAL(name, x) \
    ((struct eplb_bench_cell){.key = (name), .type = EPLB_BENCH_REAL, .real = (x)})
#define EPLB_BENCH_CELL_TEXT(name, x) \
    ((struct eplb_bench_cell){.key = (name), .type = EPLB_BENCH_TEXT, .text = (x)})

/** Rows printed so far. All rows of a report have the same keys. */
struct eplb_bench_report {
    int json;
    int num_rows;
};

/** Prints one row at once, so that a long bench shows its progress. */
void eplb_bench_row(struct eplb_bench_report *report, const struct eplb_bench_cell *cells, size_t count);

/** Ends the report; returns 0, or 1 when standard output could not be written. */
int eplb_bench_end(struct eplb_bench_report *report);

/** Ends the bench with a sentence on standard error and exit code 1: benches have no bad input. */
_Noreturn void eplb_bench_fail(const char *sentence);

/** Allocates count * size zeroed bytes, or ends the bench. */
void *eplb_bench_allocate(size_t count, size_t size);

#endif
