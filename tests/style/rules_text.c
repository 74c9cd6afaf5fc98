/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Rules about a file as text.
 */
#include "style/style.h"

#include <string.h>

enum { MAX_WIDTH = 110, MAX_LENGTH = 800 };

static int line_is(const struct style_file *file, size_t line, const char *expected)
{
    return line <= file->num_lines && style_line_length(file, line) == strlen(expected) &&
           strncmp(file->text + file->lines[line - 1], expected, strlen(expected)) == 0;
}

void style_check_licence(const struct style_file *file, struct style_report *report)
{
    static const char *const expected[][2] = {
        [STYLE_C] = {"/* SPDX-License-Identifier: Apache-2.0 */", "/* Copyright The eplb authors */"},
        [STYLE_HASH] = {"# SPDX-License-Identifier: Apache-2.0", "# Copyright The eplb authors"},
    };
    if (file->kind != STYLE_C && file->kind != STYLE_HASH)
        return;
    size_t first = strncmp(file->text, "#!", 2) == 0 ? 2 : 1;
    for (size_t i = 0; i < 2; i++) {
        if (!line_is(file, first + i, expected[file->kind][i]))
            style_complain(report, file->path, first + i, "this line must be '%s'", expected[file->kind][i]);
    }
}

static void check_line_blanks(const struct style_file *file, size_t line, struct style_report *report)
{
    const char *text = file->text + file->lines[line - 1];
    size_t length = style_line_length(file, line);
    if (length > 0 && strchr(" \t\r", text[length - 1]) != NULL)
        style_complain(report, file->path, line, "blanks or a carriage return at the end of the line");
    if (file->kind == STYLE_C && memchr(text, '\t', length) != NULL)
        style_complain(report, file->path, line, "a tab; C is indented with spaces");
}

void style_check_blanks(const struct style_file *file, struct style_report *report)
{
    if (file->kind == STYLE_OTHER || file->length == 0)
        return;
    for (size_t line = 1; line <= file->num_lines; line++)
        check_line_blanks(file, line, report);
    if (file->text[file->length - 1] != '\n')
        style_complain(report, file->path, file->num_lines, "no newline at the end of the file");
    else if (style_line_length(file, file->num_lines) == 0)
        style_complain(report, file->path, file->num_lines, "an empty line at the end of the file");
}

/** Characters of a line: bytes that do not continue a UTF-8 sequence. */
static size_t width_of(const char *text, size_t length)
{
    size_t width = 0;
    for (size_t i = 0; i < length; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

void style_check_width(const struct style_file *file, struct style_report *report)
{
    if (file->kind != STYLE_C && file->kind != STYLE_HASH)
        return;
    for (size_t line = 1; line <= file->num_lines; line++) {
        size_t width = width_of(file->text + file->lines[line - 1], style_line_length(file, line));
        if (width > MAX_WIDTH)
            style_complain(report, file->path, line, "%zu columns; %d are allowed", width, MAX_WIDTH);
    }
}

void style_check_length(const struct style_file *file, struct style_report *report)
{
    if ((file->kind == STYLE_C || file->kind == STYLE_HASH) && file->num_lines > MAX_LENGTH)
        style_complain(report, file->path, file->num_lines, "%zu lines; a file may have %d", file->num_lines,
                       MAX_LENGTH);
}

/** Whether an issue number, # and a digit, stands on the rest of the line. */
static int names_an_issue(const char *text)
{
    for (; *text != '\0' && *text != '\n'; text++) {
        if (text[0] == '#' && text[1] >= '0' && text[1] <= '9')
            return 1;
    }
    return 0;
}

void style_check_markers(const struct style_file *file, struct style_report *report)
{
    /* Cut in two, so that this file passes its own test. */
    static const char *const markers[] = {"TO"
                                          "DO",
                                          "FIX"
                                          "ME",
                                          "XX"
                                          "X",
                                          "HA"
                                          "CK"};
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++) {
        const char *hit = style_find_word(file->text, markers[i], file->text);
        for (; hit != NULL; hit = style_find_word(file->text, markers[i], hit + 1)) {
            if (!names_an_issue(hit))
                style_complain(report, file->path, style_line_of(file, (size_t)(hit - file->text)),
                               "'%s' without the number of the issue that will settle it, as in #12",
                               markers[i]);
        }
    }
}

struct word {
    const char *word;
    const char *allowed_in; /* start of the paths that may say it; NULL: none */
    const char *why;
};

/* Cut in two for the same reason. */
static const struct word words[] = {
    {"/wo"
     "rk/",
     NULL, "a path of one machine"},
    {"/tmp"
     "/b",
     NULL, "a path of one machine"},
    {"shared"
     "/vectors",
     "tests/support/", "material beside the checkout is found through tests/support"},
    {"shared"
     "/data",
     "tests/support/", "material beside the checkout is found through tests/support"},
    {"shared"
     "/spec",
     NULL, "the project's own documents stand alone"},
    {"helper "
     "session",
     NULL, "how the project is written is not part of it"},
    {"this "
     "session",
     NULL, "how the project is written is not part of it"},
};

void style_check_words(const struct style_file *file, struct style_report *report)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i].allowed_in != NULL &&
            strncmp(file->path, words[i].allowed_in, strlen(words[i].allowed_in)) == 0)
            continue;
        const char *hit = strstr(file->text, words[i].word);
        for (; hit != NULL; hit = strstr(hit + 1, words[i].word))
            style_complain(report, file->path, style_line_of(file, (size_t)(hit - file->text)), "'%s': %s",
                           words[i].word, words[i].why);
    }
}
