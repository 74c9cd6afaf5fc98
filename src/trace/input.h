/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A file's content and the name that messages call it by.
 */
#ifndef TRACE_INPUT_H
#define TRACE_INPUT_H

#include <stddef.h>

#include "eplb/status.h"

/** Borrowed: the reader of the bytes keeps no pointer into them. */
struct eplb_input {
    const char *name;
    const char *bytes;
    size_t size;
};

/** The name that messages give a path: the path, of a very long one its end. Points into path. */
const char *eplb_input_name(const char *path);

/** Refuses an empty file, and the byte order mark that some editors put before UTF-8. */
enum eplb_status eplb_input_check_text(const struct eplb_input *input, struct eplb_error *error);

/** A short printable form of some text of a file. */
struct eplb_quoted {
    char text[48];
};

/** Cuts the text to what fits (then ending in "..") and replaces what is not printable ASCII by '?'. */
struct eplb_quoted eplb_quote(const char *text, size_t length);

#endif
