/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <jansson.h>

#include "base/assert.h"
#include "base/error.h"
#include "cli/cli.h"

enum { MAX_DEPTH = 6, KEY_COLUMNS = 22 };

struct eplb_report {
    FILE *file;
    json_t *open[MAX_DEPTH]; /* [0] is the whole; NULL members in a report of lines */
    int depth;               /* of the innermost one */
    bool json;
    bool failed;        /* something could not be added */
    bool in_member;     /* of a list: values stand on its line */
    int64_t num_values; /* of the member */
    int64_t members[MAX_DEPTH];
};

struct eplb_report *eplb_report_new(FILE *file, bool json)
{
    struct eplb_report *report = calloc(1, sizeof *report);
    if (report == NULL)
        return NULL;
    *report = (struct eplb_report){.file = file, .json = json};
    if (!json)
        return report;
    report->open[0] = json_object();
    if (report->open[0] != NULL)
        return report;
    free(report);
    return NULL;
}

/** Adds to the innermost section or list, which takes the value over; *NULL is no memory. */
static void add(struct eplb_report *report, const char *key, json_t *value)
{
    json_t *parent = report->open[report->depth];
    int failed = key == NULL ? json_array_append_new(parent, value) : json_object_set_new(parent, key, value);
    report->failed |= failed != 0;
}

static void begin(struct eplb_report *report, const char *key, json_t *value)
{
    EPLB_ASSERT(report->depth + 1 < MAX_DEPTH);
    if (report->json)
        add(report, key, value);
    /* Owned by its parent; when it could not be added, what belongs to it is lost, and said so. */
    report->open[report->depth + 1] = report->failed ? NULL : value;
    report->depth++;
    report->members[report->depth] = 0;
}

void eplb_report_section(struct eplb_report *report, const char *key, const char *where)
{
    if (!report->json)
        fprintf(report->file, "%s%s\n", key, where);
    begin(report, key, report->json ? json_object() : NULL);
}

void eplb_report_list(struct eplb_report *report, const char *key)
{
    if (!report->json)
        fprintf(report->file, "%s\n", key);
    begin(report, key, report->json ? json_array() : NULL);
}

static void put_offset(struct eplb_report *report, int64_t offset)
{
    if (offset < 0)
        fprintf(report->file, "%10s", "");
    else
        fprintf(report->file, "%10" PRId64, offset);
}

void eplb_report_member(struct eplb_report *report, int64_t offset)
{
    if (!report->json) {
        put_offset(report, offset);
        fprintf(report->file, "  [%" PRId64 "]", report->members[report->depth]);
    }
    report->members[report->depth]++;
    begin(report, NULL, report->json ? json_object() : NULL);
    report->in_member = true;
    report->num_values = 0;
}

void eplb_report_end(struct eplb_report *report)
{
    EPLB_ASSERT(report->depth > 0);
    if (report->in_member && !report->json)
        fputc('\n', report->file);
    report->in_member = false;
    report->depth--;
}

static void put_key(struct eplb_report *report, const char *key, int64_t offset)
{
    if (report->in_member) {
        fprintf(report->file, "%s %s ", report->num_values == 0 ? "" : ",", key);
        report->num_values++;
        return;
    }
    put_offset(report, offset);
    fprintf(report->file, "  %-*s ", KEY_COLUMNS, key);
}

static void end_value(struct eplb_report *report)
{
    if (!report->in_member)
        fputc('\n', report->file);
}

void eplb_report_number(struct eplb_report *report, const char *key, int64_t offset, uint64_t value)
{
    if (report->json) {
        /* Only what is damaged has numbers that a JSON integer cannot hold; its digits are still told. */
        char digits[24];
        snprintf(digits, sizeof digits, "%" PRIu64, value);
        add(report, key, value > INT64_MAX ? json_string(digits) : json_integer((json_int_t)value));
        return;
    }
    put_key(report, key, offset);
    fprintf(report->file, "%" PRIu64, value);
    end_value(report);
}

void eplb_report_text(struct eplb_report *report, const char *key, int64_t offset, const char *value)
{
    char shown[EPLB_CLI_SHOWN];
    eplb_cli_shown(shown, value);
    if (report->json) {
        add(report, key, json_string(shown));
        return;
    }
    put_key(report, key, offset);
    fputs(shown, report->file);
    end_value(report);
}

enum eplb_status eplb_report_finish(struct eplb_report *report, struct eplb_error *error)
{
    EPLB_ASSERT(report->depth == 0);
    bool failed = report->failed;
    if (report->json && !failed) {
        failed = json_dumpf(report->open[0], report->file, JSON_INDENT(2)) != 0 && !ferror(report->file);
        fputc('\n', report->file);
    }
    json_decref(report->open[0]);
    free(report);
    if (failed)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the report");
    return EPLB_OK;
}
