/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "config/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

enum { PAGE_WIDTH = 80, MAX_PIECE = 512, MAX_UTF8 = 4 };

void eplb_text_put(const struct eplb_text_sink *sink, const char *text)
{
    sink->put(sink->context, text, strlen(text));
}

void eplb_text_printf(const struct eplb_text_sink *sink, const char *format, ...)
{
    char piece[MAX_PIECE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    EPLB_ASSERT(length >= 0 && (size_t)length < sizeof piece);
    sink->put(sink->context, piece, (size_t)length);
}

void eplb_text_wrap(const struct eplb_text_sink *sink, size_t indent, const char *paragraph)
{
    size_t column = 0;
    for (const char *word = paragraph + strspn(paragraph, " \n"); *word != '\0';) {
        size_t length = strcspn(word, " \n");
        if (column > 0 && column + 1 + length > PAGE_WIDTH) {
            eplb_text_put(sink, "\n");
            column = 0;
        }
        size_t blanks = column == 0 ? indent : 1;
        eplb_text_printf(sink, "%*s", (int)blanks, "");
        sink->put(sink->context, word, length);
        column += blanks + length;
        word += length;
        word += strspn(word, " \n");
    }
    eplb_text_put(sink, "\n");
}

void eplb_text_shown(char shown[EPLB_SHOWN_TEXT], const char *text)
{
    static const char more[] = "...";
    size_t length = 0;
    while (*text != '\0' && length + MAX_UTF8 + sizeof more <= EPLB_SHOWN_TEXT) {
        size_t bytes = eplb_utf8_printable(text);
        if (bytes == 0) {
            shown[length++] = '?';
            text++;
            continue;
        }
        memcpy(shown + length, text, bytes);
        length += bytes;
        text += bytes;
    }
    if (*text == '\0')
        shown[length] = '\0';
    else
        memcpy(shown + length, more, sizeof more);
}
