/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * CSV: a header step,label,layer,e0,e1,.. and one line per step and layer, in any order.
 *
 * Lines are first scanned, so that every step is known to have every layer and every line every
 * count; only then is memory taken for the counts.
 */
#include "trace/load_formats.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/placement.h"

/* Columns before e0. */
enum { LEADING_COLUMNS = 3 };

static const char *const leading_columns[LEADING_COLUMNS] = {"step", "label", "layer"};

/* Text in [begin, end); begin is NULL when there is none left. */
struct span {
    const char *begin;
    const char *end;
};

struct row {
    int64_t step;
    int32_t layer;
    int32_t line;
    struct span label;
    struct span counts;
};

struct table {
    struct row *rows;
    size_t num_rows;
    int32_t num_experts;
    int32_t num_layers;
};

static struct span take_until(struct span *rest, char separator)
{
    struct span taken = *rest;
    const char *found = memchr(rest->begin, separator, (size_t)(rest->end - rest->begin));
    if (found == NULL) {
        rest->begin = NULL;
    } else {
        taken.end = found;
        rest->begin = found + 1;
    }
    return taken;
}

static struct span take_line(struct span *rest)
{
    struct span line = take_until(rest, '\n');
    if (line.end > line.begin && line.end[-1] == '\r')
        line.end--;
    return line;
}

static struct eplb_quoted quote(struct span span)
{
    return eplb_quote(span.begin, (size_t)(span.end - span.begin));
}

static bool spans_equal(struct span a, struct span b)
{
    size_t length = (size_t)(a.end - a.begin);
    return length == (size_t)(b.end - b.begin) && memcmp(a.begin, b.begin, length) == 0;
}

/* Digits only: no sign, point, exponent or blank. */
static bool read_number(struct span field, int64_t high, int64_t *out)
{
    int64_t number = 0;
    if (field.begin == field.end)
        return false;
    for (const char *c = field.begin; c < field.end; c++) {
        if (*c < '0' || *c > '9')
            return false;
        int64_t digit = *c - '0';
        if (number > (high - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *out = number;
    return true;
}

static int64_t count_fields(struct span line)
{
    int64_t fields = 1;
    for (const char *c = line.begin; c < line.end; c++)
        fields += *c == ',';
    return fields;
}

static enum eplb_status read_header(const struct eplb_input *input, struct span line, int32_t *num_experts,
                                    struct eplb_error *error)
{
    int64_t fields = count_fields(line);
    struct span rest = line;
    for (int64_t column = 0; column < fields; column++) {
        struct span field = take_until(&rest, ',');
        char expected[24];
        if (column < LEADING_COLUMNS)
            snprintf(expected, sizeof expected, "%s", leading_columns[column]);
        else
            snprintf(expected, sizeof expected, "e%" PRId64, column - LEADING_COLUMNS);
        if (!spans_equal(field, (struct span){expected, expected + strlen(expected)}))
            EPLB_FAIL(EPLB_INVALID, "%s:1: column %" PRId64 " of the header is \"%s\"; it must be \"%s\"",
                      input->name, column + 1, quote(field).text, expected);
    }
    int64_t experts = fields - LEADING_COLUMNS;
    if (experts < 1 || experts > EPLB_MAX_EXPERTS)
        EPLB_FAIL(EPLB_INVALID,
                  "%s:1: the header names %" PRId64 " experts; allowed are 1 to %d (e0, e1, ..)", input->name,
                  experts < 0 ? 0 : experts, EPLB_MAX_EXPERTS);
    *num_experts = (int32_t)experts;
    return EPLB_OK;
}

static enum eplb_status check_label(const struct eplb_input *input, const struct row *row,
                                    struct eplb_error *error)
{
    size_t length = (size_t)(row->label.end - row->label.begin);
    if (length >= EPLB_LABEL_TEXT)
        EPLB_FAIL(EPLB_INVALID, "%s:%d: the label has %zu bytes; at most %d are read", input->name, row->line,
                  length, EPLB_LABEL_TEXT - 1);
    for (const char *c = row->label.begin; c < row->label.end; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '"')
            EPLB_FAIL(EPLB_INVALID,
                      "%s:%d: the label \"%s\" has a quote or control character; labels are plain text",
                      input->name, row->line, quote(row->label).text);
    return EPLB_OK;
}

static enum eplb_status read_row(const struct eplb_input *input, struct span line, int32_t num_experts,
                                 struct row *row, struct eplb_error *error)
{
    int64_t fields = count_fields(line);
    if (fields <= LEADING_COLUMNS)
        EPLB_FAIL(EPLB_INVALID, "%s:%d: the line has %" PRId64 " fields; the header has %d", input->name,
                  row->line, fields, LEADING_COLUMNS + num_experts);
    struct span rest = line;
    struct span step = take_until(&rest, ',');
    row->label = take_until(&rest, ',');
    struct span layer = take_until(&rest, ',');
    row->counts = rest;
    int64_t layer_id;
    if (!read_number(step, EPLB_MAX_LOAD, &row->step))
        EPLB_FAIL(EPLB_INVALID, "%s:%d: step is \"%s\"; it must be an integer from 0 to 2^62", input->name,
                  row->line, quote(step).text);
    if (!read_number(layer, INT32_MAX, &layer_id))
        EPLB_FAIL(EPLB_INVALID, "%s:%d: layer is \"%s\"; it must be an integer from 0 to %d", input->name,
                  row->line, quote(layer).text, INT32_MAX);
    row->layer = (int32_t)layer_id;
    if (fields != LEADING_COLUMNS + num_experts)
        EPLB_FAIL(EPLB_INVALID, "%s:%d: step %" PRId64 ", layer %d has %" PRId64 " counts; the header has %d",
                  input->name, row->line, row->step, row->layer, fields - LEADING_COLUMNS, num_experts);
    return check_label(input, row, error);
}

static size_t count_lines(struct span text)
{
    size_t lines = 1;
    for (const char *c = text.begin; c < text.end; c++)
        lines += *c == '\n';
    return lines;
}

/* Empty lines are passed over: what they might hide, the check of steps and layers finds. */
static enum eplb_status read_rows(const struct eplb_input *input, struct span text, struct table *table,
                                  struct eplb_error *error)
{
    int32_t line_number = 1;
    while (text.begin != NULL) {
        struct span line = take_line(&text);
        line_number++;
        if (line.begin == line.end)
            continue;
        struct row *row = &table->rows[table->num_rows];
        row->line = line_number;
        EPLB_TRY(read_row(input, line, table->num_experts, row, error));
        table->num_rows++;
    }
    if (table->num_rows == 0)
        EPLB_FAIL(EPLB_INVALID, "%s has no line after the header", input->name);
    return EPLB_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

/* Of two neighbours in order: no repeat, and one label per step. */
static enum eplb_status check_neighbours(const struct eplb_input *input, const struct row *row,
                                         const struct row *next, struct eplb_error *error)
{
    if (row->step != next->step)
        return EPLB_OK;
    if (row->layer == next->layer)
        EPLB_FAIL(EPLB_INVALID, "%s:%d: step %" PRId64 ", layer %d was given in line %d already", input->name,
                  next->line, next->step, next->layer, row->line);
    if (!spans_equal(row->label, next->label))
        EPLB_FAIL(EPLB_INVALID, "%s:%d: step %" PRId64 " is labelled \"%.20s\" here and \"%.20s\" in line %d",
                  input->name, next->line, next->step, quote(next->label).text, quote(row->label).text,
                  row->line);
    return EPLB_OK;
}

static enum eplb_status refuse_missing(const struct eplb_input *input, int64_t step, int32_t layer,
                                       int64_t other_step, struct eplb_error *error)
{
    EPLB_FAIL(EPLB_INVALID, "%s: step %" PRId64 " has no line for layer %d, which step %" PRId64 " has",
              input->name, step, layer, other_step);
}

/* Rows are sorted; the first step says which layers there are. */
static enum eplb_status check_grid(const struct eplb_input *input, struct table *table,
                                   struct eplb_error *error)
{
    const struct row *rows = table->rows;
    size_t num_layers = 1;
    while (num_layers < table->num_rows && rows[num_layers].step == rows[0].step)
        num_layers++;
    if (num_layers > EPLB_MAX_LAYERS)
        EPLB_FAIL(EPLB_INVALID, "%s: step %" PRId64 " has %zu layers; at most %d are read", input->name,
                  rows[0].step, num_layers, EPLB_MAX_LAYERS);
    table->num_layers = (int32_t)num_layers;
    for (size_t i = num_layers; i < table->num_rows; i++) {
        const struct row *expected = &rows[i % num_layers];
        int64_t block_step = rows[i - i % num_layers].step;
        if (i % num_layers == 0 && rows[i].step == rows[i - 1].step)
            return refuse_missing(input, rows[0].step, rows[i].layer, rows[i].step, error);
        if (rows[i].step != block_step || rows[i].layer > expected->layer)
            return refuse_missing(input, block_step, expected->layer, rows[0].step, error);
        if (rows[i].layer < expected->layer)
            return refuse_missing(input, rows[0].step, rows[i].layer, block_step, error);
    }
    if (table->num_rows % num_layers != 0)
        return refuse_missing(input, rows[table->num_rows - 1].step, rows[table->num_rows % num_layers].layer,
                              rows[0].step, error);
    if (table->num_rows / num_layers > EPLB_MAX_STEPS)
        EPLB_FAIL(EPLB_INVALID, "%s has %zu steps; at most %d are read", input->name,
                  table->num_rows / num_layers, EPLB_MAX_STEPS);
    return EPLB_OK;
}

static enum eplb_status read_counts(const struct eplb_input *input, const struct row *row, int64_t *counts,
                                    int32_t num_experts, struct eplb_error *error)
{
    struct span rest = row->counts;
    for (int32_t expert = 0; expert < num_experts; expert++) {
        EPLB_ASSERT(rest.begin != NULL);
        struct span field = take_until(&rest, ',');
        if (!read_number(field, EPLB_MAX_LOAD, &counts[expert]))
            EPLB_FAIL(EPLB_INVALID,
                      "%s:%d: column e%d (step %" PRId64
                      ", layer %d) is \"%s\"; a count is an integer from 0 to 2^62",
                      input->name, row->line, expert, row->step, row->layer, quote(field).text);
    }
    return EPLB_OK;
}

static enum eplb_status fill_load(const struct eplb_input *input, const struct table *table,
                                  struct eplb_load *load, struct eplb_error *error)
{
    size_t num_layers = (size_t)table->num_layers;
    EPLB_TRY(eplb_load_init(load, (int32_t)(table->num_rows / num_layers), table->num_layers,
                            table->num_experts, error));
    for (int32_t layer = 0; layer < load->num_layers; layer++)
        load->layer_ids[layer] = table->rows[layer].layer;
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct row *row = &table->rows[i];
        int32_t step = (int32_t)(i / num_layers);
        load->step_ids[step] = row->step;
        memcpy(load->labels[step], row->label.begin, (size_t)(row->label.end - row->label.begin));
        EPLB_TRY(read_counts(input, row, eplb_load_row(load, step, (int32_t)(i % num_layers)),
                             load->num_experts, error));
    }
    return EPLB_OK;
}

static enum eplb_status read_table(const struct eplb_input *input, struct span text, struct table *table,
                                   struct eplb_load *load, struct eplb_error *error)
{
    EPLB_TRY(read_rows(input, text, table, error));
    qsort(table->rows, table->num_rows, sizeof *table->rows, compare_rows);
    for (size_t i = 0; i + 1 < table->num_rows; i++)
        EPLB_TRY(check_neighbours(input, &table->rows[i], &table->rows[i + 1], error));
    EPLB_TRY(check_grid(input, table, error));
    return fill_load(input, table, load, error);
}

enum eplb_status eplb_load_parse_csv(const struct eplb_input *input, struct eplb_load *load,
                                     struct eplb_error *error)
{
    struct span text = {input->bytes, input->bytes + input->size};
    size_t num_lines = count_lines(text);
    if (num_lines > INT32_MAX)
        EPLB_FAIL(EPLB_INVALID, "%s has %zu lines; at most %d are read", input->name, num_lines, INT32_MAX);
    struct table table = {0};
    EPLB_TRY(read_header(input, take_line(&text), &table.num_experts, error));
    table.rows = calloc(num_lines, sizeof *table.rows);
    if (table.rows == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the %zu lines of %s", num_lines, input->name);
    enum eplb_status status = read_table(input, text, &table, load, error);
    free(table.rows);
    if (status == EPLB_OK && input->bytes[input->size - 1] != '\n')
        snprintf(load->warning, sizeof load->warning,
                 "the last line of %s has no newline: its last count may have been cut short", input->name);
    return status;
}
