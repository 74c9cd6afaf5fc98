/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/real.h"

enum { FIRST_CAPACITY = 4096 };

static bool reserve(struct eplb_text *text, size_t more)
{
    if (text->failed)
        return false;
    size_t needed = text->length + more + 1;
    size_t capacity = text->capacity == 0 ? FIRST_CAPACITY : text->capacity;
    while (capacity < needed)
        capacity *= 2;
    if (capacity == text->capacity)
        return true;
    char *bytes = realloc(text->bytes, capacity);
    if (bytes == NULL) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void eplb_text_add(struct eplb_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    EPLB_ASSERT(length >= 0);
    if (!reserve(text, (size_t)length))
        return;
    va_start(arguments, format);
    vsnprintf(text->bytes + text->length, text->capacity - text->length, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

void eplb_text_add_real(struct eplb_text *text, double real)
{
    char digits[EPLB_REAL_TEXT];
    eplb_real_format(real, digits);
    eplb_text_add(text, "%s", digits);
}

void eplb_text_add_string(struct eplb_text *text, const char *string)
{
    eplb_text_add(text, "\"");
    for (; *string != '\0'; string++) {
        if (*string == '"' || *string == '\\')
            eplb_text_add(text, "\\%c", *string);
        else if ((unsigned char)*string < 0x20)
            eplb_text_add(text, "\\u%04x", (unsigned)*string);
        else
            eplb_text_add(text, "%c", *string);
    }
    eplb_text_add(text, "\"");
}

void eplb_text_free(struct eplb_text *text)
{
    free(text->bytes);
    *text = (struct eplb_text){0};
}
