/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Keys and values, told in lines to a person or as one JSON object to a program, by the same calls.
 *
 *   header, at 0
 *          8  version               2
 *   ranks
 *        384  [0] claimed_by 4711, dead no
 *
 * Sections and lists begin and end; what is told in between belongs to them. The first number of a line
 * is the offset where the value stands, which JSON leaves out.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "eplb/status.h"

/** For values that stand nowhere. */
#define EPLB_REPORT_NOWHERE (-1)

struct eplb_report;

/** NULL when there is no memory. Lines go to `file` at once, an object when the report is finished. */
struct eplb_report *eplb_report_new(FILE *file, bool json);

/** Begins a section of named values. `where` follows the key in lines; "" for nothing. */
void eplb_report_section(struct eplb_report *report, const char *key, const char *where);

/** Begins a list, whose members are begun with eplb_report_member and ended each. */
void eplb_report_list(struct eplb_report *report, const char *key);

/** Begins a member: its values stand on one line. */
void eplb_report_member(struct eplb_report *report, int64_t offset);

void eplb_report_end(struct eplb_report *report);

void eplb_report_number(struct eplb_report *report, const char *key, int64_t offset, uint64_t value);
void eplb_report_text(struct eplb_report *report, const char *key, int64_t offset, const char *value);

/** Writes the object, frees the report. EPLB_NO_MEMORY when something of it is lacking. */
enum eplb_status eplb_report_finish(struct eplb_report *report, struct eplb_error *error);

#endif
