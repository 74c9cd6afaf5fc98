/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * scripts/packages.txt and docs/DEPENDENCIES.md name the same packages.
 */
#include "style/style.h"

#include <stdio.h>
#include <string.h>

static const struct style_file *find(const struct style_file *files, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    }
    return NULL;
}

/** Whether a row of the document's table begins with the package. */
static int has_row(const char *document, const char *package, size_t length)
{
    char row[80];
    int written = snprintf(row, sizeof row, "\n| `%.*s` |", (int)length, package);
    return written > 0 && (size_t)written < sizeof row && strstr(document, row) != NULL;
}

void style_check_packages(const struct style_file *files, size_t count, struct style_report *report)
{
    const struct style_file *list = find(files, count, "scripts/packages.txt");
    const struct style_file *document = find(files, count, "docs/DEPENDENCIES.md");
    if (list == NULL || document == NULL) {
        style_complain(report, "scripts/packages.txt", 1,
                       "this list and docs/DEPENDENCIES.md must both be there");
        return;
    }
    for (size_t line = 1; line <= list->num_lines; line++) {
        const char *package = list->text + list->lines[line - 1];
        size_t length = strcspn(package, " \n");
        if (length > 0 && *package != '#' && !has_row(document->text, package, length))
            style_complain(report, list->path, line, "'%.*s' has no row in docs/DEPENDENCIES.md", (int)length,
                           package);
    }
}
