/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/error.h"

#include <stdio.h>

#include "base/utf8.h"

#define STATUS_TEXT(name, value, exit_code, text) \
    case EPLB_##name:                             \
        return text;
#define STATUS_EXIT_CODE(name, value, exit_code, text) \
    case EPLB_##name:                                  \
        return exit_code;

const char *eplb_status_text(enum eplb_status status)
{
    switch (status) {
        EPLB_STATUS_MAP(STATUS_TEXT)
    }
    return "unknown status";
}

int eplb_status_exit_code(enum eplb_status status)
{
    switch (status) {
        EPLB_STATUS_MAP(STATUS_EXIT_CODE)
    }
    return 1;
}

/* A sentence may quote a path or a file's text; whatever is in them, it stays one line of text. */
static void clean(char *text)
{
    while (*text != '\0') {
        size_t bytes = eplb_utf8_printable(text);
        if (bytes == 0)
            *text = (unsigned char)*text < 0x20 ? ' ' : '?';
        text += bytes == 0 ? 1 : bytes;
    }
}

enum eplb_status eplb_fail(struct eplb_error *error, enum eplb_status status, const char *format, ...)
{
    if (error == NULL)
        return status;
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    if (vsnprintf(error->text, sizeof error->text, format, arguments) < 0)
        error->text[0] = '\0';
    va_end(arguments);
    clean(error->text);
    return status;
}
