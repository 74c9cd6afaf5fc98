/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/utf8.h"

size_t eplb_utf8_length(const char *text)
{
    /* The allowed second bytes exclude overlong forms, surrogates and anything past U+10FFFF. */
    static const struct {
        unsigned char first, last;
        unsigned char second_min, second_max;
        unsigned char length;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const unsigned char *bytes = (const unsigned char *)text;
    if (bytes[0] < 0x80)
        return bytes[0] != '\0';
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (bytes[0] < forms[i].first || bytes[0] > forms[i].last)
            continue;
        if (bytes[1] < forms[i].second_min || bytes[1] > forms[i].second_max)
            return 0;
        for (size_t j = 2; j < forms[i].length; j++)
            if (bytes[j] < 0x80 || bytes[j] > 0xbf)
                return 0;
        return forms[i].length;
    }
    return 0;
}

size_t eplb_utf8_printable(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t length = eplb_utf8_length(text);
    bool is_control =
        bytes[0] < 0x20 || bytes[0] == 0x7f || (length == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0);
    return is_control ? 0 : length;
}
