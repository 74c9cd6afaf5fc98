/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Densities that hold over a folder. A change may raise a minimum, never lower it.
 */
#include "style/style.h"

#include <string.h>

static int has_ink(const char *line, size_t length)
{
    return strspn(line, " \t") < length;
}

static void count_assertions(const struct style_file *file, size_t *part, size_t *lines)
{
    for (size_t line = 1; line <= file->num_lines; line++)
        *lines += (size_t)has_ink(file->code + file->lines[line - 1], style_line_length(file, line));
    const char *hit = style_find_word(file->statements, "EPLB_ASSERT", file->statements);
    for (; hit != NULL; hit = style_find_word(file->statements, "EPLB_ASSERT", hit + 1))
        ++*part;
}

static void count_comments(const struct style_file *file, size_t *part, size_t *lines)
{
    for (size_t line = 1; line <= file->num_lines; line++) {
        size_t begin = file->lines[line - 1];
        size_t length = style_line_length(file, line);
        *lines += (size_t)has_ink(file->text + begin, length);
        *part += (size_t)has_ink(file->comments + begin, length);
    }
}

#define ASSERTIONS(folder, minimum)                                                                       \
    {                                                                                                     \
        folder, ".c", "assertions", count_assertions, minimum, {folder "a.c", NULL, "x();\n", 100, NULL}, \
        {                                                                                                 \
            folder "a.c", NULL, "EPLB_ASSERT(x);\nx();\n", 100, NULL                                      \
        }                                                                                                 \
    }

const struct style_ratchet style_ratchets[] = {
    ASSERTIONS("src/load/", 40),
    ASSERTIONS("src/placement/", 40),
    ASSERTIONS("src/policy/", 40),
    {"include/eplb/",
     ".h",
     "lines of comment",
     count_comments,
     400,
     {"include/eplb/a.h", "/* x */\n", "int x;\n", 100, NULL},
     {"include/eplb/a.h", NULL, "/** x */\nint x;\n", 100, NULL}},
};

const size_t style_num_ratchets = sizeof style_ratchets / sizeof *style_ratchets;

static int counts(const struct style_ratchet *ratchet, const char *path)
{
    size_t length = strlen(path);
    size_t end = strlen(ratchet->end);
    return strncmp(path, ratchet->folder, strlen(ratchet->folder)) == 0 && length > end &&
           strcmp(path + length - end, ratchet->end) == 0;
}

void style_check_ratchet(const struct style_ratchet *ratchet, const struct style_file *files, size_t count,
                         struct style_report *report)
{
    size_t part = 0;
    size_t lines = 0;
    for (size_t i = 0; i < count; i++) {
        if (counts(ratchet, files[i].path))
            ratchet->measure(&files[i], &part, &lines);
    }
    if (part * 1000 < ratchet->minimum * lines)
        style_complain(report, ratchet->folder, 1,
                       "%zu %s in %zu lines are %zu per thousand; %zu are demanded", part, ratchet->what,
                       lines, part * 1000 / lines, ratchet->minimum);
}
