/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "style/style.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL) {
        fprintf(stderr, "style: out of memory\n");
        exit(1);
    }
    return block;
}

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static enum style_kind kind_of(const char *path, const char *text)
{
    if (ends_with(path, ".c") || ends_with(path, ".h") || ends_with(path, ".cpp"))
        return STYLE_C;
    if (ends_with(path, ".cmake") || ends_with(path, "CMakeLists.txt") || ends_with(path, ".sh") ||
        ends_with(path, "Makefile") || ends_with(path, ".py") || ends_with(path, ".toml") ||
        strncmp(text, "#!", 2) == 0)
        return STYLE_HASH;
    return ends_with(path, ".md") ? STYLE_MARKDOWN : STYLE_OTHER;
}

static char *copy_of(const char *text, size_t length)
{
    char *copy = allocate(length + 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

static char *blank_copy(const char *text, size_t length)
{
    char *copy = allocate(length + 1);
    for (size_t i = 0; i < length; i++)
        copy[i] = text[i] == '\n' ? '\n' : ' ';
    copy[length] = '\0';
    return copy;
}

/** Copies a comment to the comments mask; returns the offset behind it. */
static size_t mask_comment(struct style_file *file, size_t i)
{
    const char *text = file->text;
    const char *end = text[i + 1] == '/' ? strchr(text + i, '\n') : strstr(text + i + 2, "*/");
    size_t stop = end == NULL ? file->length : (size_t)(end - text) + (text[i + 1] == '/' ? 0 : 2);
    memcpy(file->comments + i, text + i, stop - i);
    return stop;
}

/** Copies only the quotes of a string or character to the code mask; returns the offset behind it. */
static size_t mask_quoted(struct style_file *file, size_t i)
{
    char quote = file->text[i];
    file->code[i++] = quote;
    while (i < file->length && file->text[i] != quote && file->text[i] != '\n')
        i += file->text[i] == '\\' && i + 1 < file->length ? 2 : 1;
    if (i < file->length && file->text[i] == quote)
        file->code[i++] = quote;
    return i < file->length ? i : file->length;
}

static void mask_c(struct style_file *file)
{
    const char *text = file->text;
    size_t i = 0;
    while (i < file->length) {
        if (text[i] == '/' && (text[i + 1] == '*' || text[i + 1] == '/')) {
            i = mask_comment(file, i);
        } else if (text[i] == '"' || text[i] == '\'') {
            i = mask_quoted(file, i);
        } else {
            file->code[i] = text[i];
            i++;
        }
    }
}

/** Blanks preprocessor lines, with those that a backslash continues, out of the statements mask. */
static void mask_directives(struct style_file *file)
{
    int inside = 0;
    for (size_t line = 1; line <= file->num_lines; line++) {
        char *begin = file->statements + file->lines[line - 1];
        size_t length = style_line_length(file, line);
        size_t first = strspn(begin, " \t");
        inside = inside || (first < length && begin[first] == '#');
        if (!inside)
            continue;
        inside = length > 0 && begin[length - 1] == '\\';
        memset(begin, ' ', length);
    }
}

void style_file_init(struct style_file *file, const char *path, char *text, size_t length)
{
    text[length] = '\0';
    *file = (struct style_file){.kind = kind_of(path, text), .text = text, .length = length};
    file->path = copy_of(path, strlen(path));
    file->lines = allocate((length + 1) * sizeof *file->lines);
    for (size_t i = 0; i < length; i++) {
        if (i == 0 || text[i - 1] == '\n')
            file->lines[file->num_lines++] = i;
    }
    if (file->kind != STYLE_C)
        return;
    file->code = blank_copy(text, length);
    file->comments = blank_copy(text, length);
    mask_c(file);
    file->statements = copy_of(file->code, length);
    mask_directives(file);
}

void style_file_free(struct style_file *file)
{
    free(file->path);
    free(file->text);
    free(file->code);
    free(file->statements);
    free(file->comments);
    free(file->lines);
}

size_t style_line_of(const struct style_file *file, size_t offset)
{
    size_t line = 1;
    while (line < file->num_lines && file->lines[line] <= offset)
        line++;
    return line;
}

size_t style_line_length(const struct style_file *file, size_t line)
{
    size_t begin = file->lines[line - 1];
    size_t end = line < file->num_lines ? file->lines[line] : file->length;
    return end > begin && file->text[end - 1] == '\n' ? end - begin - 1 : end - begin;
}

int style_is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

const char *style_find_word(const char *text, const char *word, const char *from)
{
    size_t length = strlen(word);
    for (const char *hit = strstr(from, word); hit != NULL; hit = strstr(hit + 1, word)) {
        if ((hit == text || !style_is_word(hit[-1])) && !style_is_word(hit[length]))
            return hit;
    }
    return NULL;
}

void style_complain(struct style_report *report, const char *path, size_t line, const char *format, ...)
{
    report->count++;
    if (report->out == NULL)
        return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(report->out, "%s:%zu: ", path, line);
    vfprintf(report->out, format, arguments);
    fputc('\n', report->out);
    va_end(arguments);
}

/** Offset of the brace that closes the one at open. */
static size_t closing_brace(const char *code, size_t open)
{
    int depth = 0;
    for (size_t i = open; code[i] != '\0'; i++) {
        depth += code[i] == '{' ? 1 : code[i] == '}' ? -1 : 0;
        if (depth == 0)
            return i;
    }
    return strlen(code) - 1;
}

int style_next_item(const struct style_file *file, size_t *cursor, struct style_item *item)
{
    const char *code = file->statements;
    size_t i = *cursor;
    size_t begin = file->length;
    char before = '\0';
    for (; i < file->length; i++) {
        if (isspace((unsigned char)code[i]))
            continue;
        if (code[i] == '}' || (code[i] == '{' && before == '"')) {
            begin = file->length; /* the braces of extern "C" hold items, they are none */
            before = '\0';
            continue;
        }
        begin = begin == file->length ? i : begin;
        if (code[i] == ';')
            break;
        if (code[i] == '{') {
            *item = (struct style_item){begin, closing_brace(code, i), i, before == ')'};
            *cursor = item->end + 1;
            return 1;
        }
        before = code[i];
    }
    if (i >= file->length)
        return 0;
    *item = (struct style_item){begin, i, i, 0};
    *cursor = i + 1;
    return 1;
}
