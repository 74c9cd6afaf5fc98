/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Rules about a file as C.
 */
#include "style/style.h"

#include <ctype.h>
#include <string.h>

enum { MAX_FUNCTION = 70 };

static int starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

void style_check_function_length(const struct style_file *file, struct style_report *report)
{
    struct style_item item;
    size_t cursor = 0;
    while (file->kind == STYLE_C && style_next_item(file, &cursor, &item)) {
        size_t first = style_line_of(file, item.begin);
        size_t lines = style_line_of(file, item.end) - first + 1;
        if (item.is_function && lines > MAX_FUNCTION)
            style_complain(report, file->path, first, "a function of %zu lines; %d are allowed", lines,
                           MAX_FUNCTION);
    }
}

/** The < or " that opens the name on an include line; NULL when the line is none. */
static const char *included_name(const struct style_file *file, size_t line)
{
    const char *code = file->code + file->lines[line - 1];
    code += strspn(code, " ");
    if (*code != '#')
        return NULL;
    code += 1 + strspn(code + 1, " ");
    if (!starts_with(code, "include"))
        return NULL;
    code += strlen("include");
    code += strspn(code, " ");
    return *code == '<' || *code == '"' ? file->text + (code - file->code) : NULL;
}

void style_check_include_path(const struct style_file *file, struct style_report *report)
{
    for (size_t line = 1; file->kind == STYLE_C && line <= file->num_lines; line++) {
        const char *name = included_name(file, line);
        if (name == NULL)
            continue;
        size_t length = strcspn(name + 1, ">\"\n");
        const char *up = strstr(name, "..");
        if (up != NULL && up <= name + length)
            style_complain(report, file->path, line, "an include that climbs out of its folder with '..'");
        else if (*name == '<' && starts_with(name + 1, "eplb/"))
            style_complain(report, file->path, line, "an include of our own header with <>; quotes are used");
    }
}

struct purity {
    const char *folder;
    const char *headers; /* all system headers that it may include, each between blanks */
};

/* What is pure computation may not even see threads, files and clocks. Other folders are free. */
#define PLAIN " inttypes.h limits.h stdbool.h stddef.h stdint.h string.h "

static const struct purity pure_folders[] = {
    {"src/base/", PLAIN "math.h stdarg.h stdatomic.h stdio.h stdlib.h "},
    {"src/config/", PLAIN "locale.h math.h stdarg.h stdio.h stdlib.h "},
    {"src/metrics/", PLAIN "math.h stdarg.h stdatomic.h stdio.h "},
    {"src/placement/", PLAIN},
    {"src/load/", PLAIN "stdio.h "},
    {"src/policy/", PLAIN "math.h "},
    {"src/model/", PLAIN "immintrin.h math.h "},
    {"include/eplb/", " stdarg.h stdbool.h stddef.h stdint.h "},
};

static const struct purity *purity_of(const char *path)
{
    for (size_t i = 0; i < sizeof pure_folders / sizeof *pure_folders; i++) {
        if (starts_with(path, pure_folders[i].folder))
            return &pure_folders[i];
    }
    return NULL;
}

/** Whether list, whose words stand between blanks, holds the name up to its >. */
static int lists(const char *list, const char *name, size_t length)
{
    for (const char *hit = strchr(list, ' '); hit != NULL; hit = strchr(hit + 1, ' ')) {
        if (strncmp(hit + 1, name, length) == 0 && hit[1 + length] == ' ')
            return 1;
    }
    return 0;
}

void style_check_system_headers(const struct style_file *file, struct style_report *report)
{
    const struct purity *purity = purity_of(file->path);
    for (size_t line = 1; purity != NULL && file->kind == STYLE_C && line <= file->num_lines; line++) {
        const char *name = included_name(file, line);
        if (name == NULL || *name != '<')
            continue;
        size_t length = strcspn(++name, ">\n");
        if (!lists(purity->headers, name, length))
            style_complain(report, file->path, line, "<%.*s> is not for %s; it may include%s", (int)length,
                           name, purity->folder, purity->headers);
    }
}

struct banned {
    const char *name;
    const char *only;   /* start of the paths where it is banned */
    const char *except; /* start of the paths where it is not; NULL: none */
    const char *instead;
};

static const struct banned banned_calls[] = {
    {"strcpy", "", NULL, "copy with a length that was checked"},
    {"strcat", "", NULL, "write with snprintf, whose result is checked"},
    {"sprintf", "", NULL, "write with snprintf, whose result is checked"},
    {"vsprintf", "", NULL, "write with vsnprintf, whose result is checked"},
    {"gets", "", NULL, "read with fgets"},
    {"atoi", "", NULL, "it takes anything for a number"},
    {"atol", "", NULL, "it takes anything for a number"},
    {"atof", "", NULL, "it takes anything for a number, and the locale decides"},
    {"strtok", "", NULL, "it keeps a hidden state"},
    {"strcasecmp", "", NULL, "the host's locale decides what it thinks equal"},
    {"strncasecmp", "", NULL, "the host's locale decides what it thinks equal"},
    {"rand", "", NULL, "use base/prng.h, which is the same on every machine"},
    {"alloca", "", NULL, "take the memory from an arena"},
    {"assert", "", NULL, "EPLB_ASSERT stays in release builds"},
    {"abort", "src/", "src/base/assert.c", "EPLB_ASSERT says what was wrong first"},
    {"exit", "src/", "src/cli/", "the library returns a status"},
    {"printf", "src/", "src/cli/", "the library never prints"},
    {"sleep", "tests/", NULL, "wait for a condition with a bound, or use virtual time"},
    {"usleep", "tests/", NULL, "wait for a condition with a bound, or use virtual time"},
    {"nanosleep", "tests/", NULL, "wait for a condition with a bound, or use virtual time"},
};

/** Whether a name found in code is called there, as a function and not as a member. */
static int is_call(const char *code, const char *hit, size_t length)
{
    const char *after = hit + length;
    after += strspn(after, " \n");
    int is_member = hit > code && (hit[-1] == '.' || (hit[-1] == '>' && hit > code + 1 && hit[-2] == '-'));
    return *after == '(' && !is_member;
}

static void check_banned(const struct style_file *file, const struct banned *banned,
                         struct style_report *report)
{
    const char *code = file->code;
    const char *hit = style_find_word(code, banned->name, code);
    for (; hit != NULL; hit = style_find_word(code, banned->name, hit + 1)) {
        if (is_call(code, hit, strlen(banned->name)))
            style_complain(report, file->path, style_line_of(file, (size_t)(hit - code)),
                           "%s() is not used here: %s", banned->name, banned->instead);
    }
}

void style_check_calls(const struct style_file *file, struct style_report *report)
{
    for (size_t i = 0; file->kind == STYLE_C && i < sizeof banned_calls / sizeof *banned_calls; i++) {
        const struct banned *banned = &banned_calls[i];
        if (starts_with(file->path, banned->only) &&
            (banned->except == NULL || !starts_with(file->path, banned->except)))
            check_banned(file, banned, report);
    }
}

static int is_assignment(const char *line, size_t length)
{
    return memmem(line, length, " = ", strlen(" = ")) != NULL;
}

/** Whether a line ends in f(...); where prose would set a blank before the parenthesis. */
static int ends_in_call(const char *line, size_t length)
{
    for (size_t i = 1; i + 2 < length && line[length - 2] == ')'; i++) {
        if (line[i] == '(' && style_is_word(line[i - 1]))
            return 1;
    }
    return 0;
}

/** Whether a line of a comment, without the comment's marks, reads like a statement. */
static int reads_like_code(const char *line, size_t length)
{
    while (length > 0 && (isspace((unsigned char)line[length - 1]) || strchr("*/", line[length - 1]) != NULL))
        length--;
    if (length == 0)
        return 0;
    if (line[length - 1] == '{')
        return 1;
    return line[length - 1] == ';' && (is_assignment(line, length) || ends_in_call(line, length));
}

void style_check_dead_code(const struct style_file *file, struct style_report *report)
{
    for (size_t line = 1; file->kind == STYLE_C && line <= file->num_lines; line++) {
        size_t begin = file->lines[line - 1];
        const char *comment = file->comments + begin;
        size_t length = style_line_length(file, line);
        size_t first = strspn(comment, " ");
        if (starts_with(file->code + begin, "#if 0"))
            style_complain(report, file->path, line, "code that is never compiled; version control keeps it");
        else if (first < length && starts_with(comment + first, "//"))
            style_complain(report, file->path, line, "a // comment; comments are written /* so */");
        else if (first < length && reads_like_code(comment + first, length - first))
            style_complain(report, file->path, line,
                           "code in a comment; version control keeps what was removed");
    }
}

void style_check_typedefs(const struct style_file *file, struct style_report *report)
{
    struct style_item item;
    size_t cursor = 0;
    while (file->kind == STYLE_C && style_next_item(file, &cursor, &item)) {
        const char *text = file->statements + item.begin;
        if (!starts_with(text, "typedef "))
            continue;
        text += strlen("typedef ");
        if (starts_with(text, "struct ") || starts_with(text, "enum ") || starts_with(text, "union "))
            style_complain(report, file->path, style_line_of(file, item.begin),
                           "a typedef that hides a struct, enum or union; write the tag");
    }
}

/** Whether the lines above an item are a doc comment that ends right there. */
static int has_doc(const struct style_file *file, size_t first_line)
{
    size_t line = first_line - 1;
    if (line == 0 ||
        memmem(file->text + file->lines[line - 1], style_line_length(file, line), "*/", 2) == NULL)
        return 0;
    while (line > 1 && strchr(" *", file->text[file->lines[line - 1]]) != NULL)
        line--;
    return starts_with(file->text + file->lines[line - 1], "/**");
}

static void check_public_item(const struct style_file *file, const struct style_item *item, int documented,
                              struct style_report *report)
{
    const char *text = file->statements + item->begin;
    size_t line = style_line_of(file, item->begin);
    int has_body = item->body < item->end;
    int is_prototype =
        !has_body && !starts_with(text, "typedef") && memchr(text, '(', item->end - item->begin) != NULL;
    if (is_prototype && !starts_with(text, "EPLB_API "))
        style_complain(report, file->path, line, "a public function without EPLB_API: nobody could link it");
    if ((is_prototype || has_body) && !documented)
        style_complain(report, file->path, line, "a public name without a doc comment right above it");
}

void style_check_header_docs(const struct style_file *file, struct style_report *report)
{
    struct style_item item;
    size_t cursor = 0;
    size_t documented_line = 0; /* where an item could stand that shares the comment of the one before */
    if (!starts_with(file->path, "include/eplb/"))
        return;
    while (file->kind == STYLE_C && style_next_item(file, &cursor, &item)) {
        size_t line = style_line_of(file, item.begin);
        int documented = line == documented_line || has_doc(file, line);
        check_public_item(file, &item, documented, report);
        documented_line = documented ? style_line_of(file, item.end) + 1 : 0;
    }
}
