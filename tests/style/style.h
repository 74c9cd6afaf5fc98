/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The style test: what docs/CODE_STYLE.md promises, checked over every file of the project.
 *
 * A rule looks at one file. Each rule stands in the table of rules.c with an example that it must
 * refuse and one that it must accept, so no rule can fall silent. Ratchets look at the whole tree.
 */
#ifndef STYLE_STYLE_H
#define STYLE_STYLE_H

#include <stddef.h>
#include <stdio.h>

enum style_kind {
    STYLE_C,        /* C and C++ */
    STYLE_HASH,     /* CMake, shell, make: comments start with # */
    STYLE_MARKDOWN, /* prose */
    STYLE_OTHER,    /* data, licences, lists */
};

/** One file. The three masks have the length of text, and its newlines in its places. */
struct style_file {
    char *path; /* below the root, with / */
    enum style_kind kind;
    char *text;
    size_t length;
    char *code;       /* C only: comments, and what is inside quotes, are blanks */
    char *statements; /* C only: code without preprocessor lines */
    char *comments;   /* C only: everything but comments is blanks */
    size_t *lines;    /* offset of each line in text */
    size_t num_lines;
};

/** Where findings go. */
struct style_report {
    FILE *out; /* NULL: they are only counted */
    size_t count;
};

/** Prints `path:line: sentence` and counts it; lines count from 1. */
void style_complain(struct style_report *report, const char *path, size_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Takes ownership of text, which has room for a zero at text[length]. */
void style_file_init(struct style_file *file, const char *path, char *text, size_t length);
void style_file_free(struct style_file *file);

/** The line, from 1, that an offset into text is on. */
size_t style_line_of(const struct style_file *file, size_t offset);

/** Length of a line (from 1) without its newline. */
size_t style_line_length(const struct style_file *file, size_t line);

/** Whether c may be part of a C identifier. */
int style_is_word(char c);

/** Finds word as a whole word of text, at or behind from; NULL when there is none. */
const char *style_find_word(const char *text, const char *word, const char *from);

/** A definition or declaration outside all braces, `extern "C"` not counted as one. */
struct style_item {
    size_t begin; /* offset of its first character */
    size_t end;   /* offset of its closing ; or } */
    size_t body;  /* offset of its {, or end when it has none */
    int is_function;
};

/** Finds the next item at or behind *cursor and moves the cursor past it; 0 when there is none. */
int style_next_item(const struct style_file *file, size_t *cursor, struct style_item *item);

/** A small file: head, then line repeated, then tail. */
struct style_example {
    const char *path;
    const char *head;
    const char *line;
    size_t repeat;
    const char *tail;
};

struct style_rule {
    const char *name;
    void (*check)(const struct style_file *file, struct style_report *report);
    struct style_example bad;
    struct style_example good;
};

extern const struct style_rule style_rules[];
extern const size_t style_num_rules;

void style_check_licence(const struct style_file *file, struct style_report *report);
void style_check_blanks(const struct style_file *file, struct style_report *report);
void style_check_width(const struct style_file *file, struct style_report *report);
void style_check_length(const struct style_file *file, struct style_report *report);
void style_check_markers(const struct style_file *file, struct style_report *report);
void style_check_words(const struct style_file *file, struct style_report *report);

void style_check_function_length(const struct style_file *file, struct style_report *report);
void style_check_include_path(const struct style_file *file, struct style_report *report);
void style_check_system_headers(const struct style_file *file, struct style_report *report);
void style_check_calls(const struct style_file *file, struct style_report *report);
void style_check_dead_code(const struct style_file *file, struct style_report *report);
void style_check_typedefs(const struct style_file *file, struct style_report *report);
void style_check_header_docs(const struct style_file *file, struct style_report *report);

/** Something counted over the files of a folder, as so many in a thousand lines. */
struct style_ratchet {
    const char *folder; /* start of the paths that count */
    const char *end;    /* end of their names */
    const char *what;   /* for the message */
    /** Counts one file: *part of *lines lines have it. */
    void (*measure)(const struct style_file *file, size_t *part, size_t *lines);
    size_t minimum; /* per thousand; it may only be raised */
    struct style_example bad;
    struct style_example good;
};

extern const struct style_ratchet style_ratchets[];
extern const size_t style_num_ratchets;

/** Measures the whole tree; no file that counts is no fault. */
void style_check_ratchet(const struct style_ratchet *ratchet, const struct style_file *files, size_t count,
                         struct style_report *report);

/** Wants every Debian package of scripts/packages.txt to have a row in docs/DEPENDENCIES.md. */
void style_check_packages(const struct style_file *files, size_t count, struct style_report *report);

/** Loads every file of the project below the present directory: git's list, else a walk. */
struct style_file *style_load_tree(size_t *count);

/** Tries every rule and ratchet on its examples; returns the number of examples that went wrong. */
size_t style_self_test(void);

#endif
