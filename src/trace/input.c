/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/input.h"

#include <string.h>

#include "base/error.h"

/* Leaves most of an error sentence to the reason. */
enum { MAX_NAME = 200 };

const char *eplb_input_name(const char *path)
{
    size_t length = strlen(path);
    return length > MAX_NAME ? path + length - MAX_NAME : path;
}

enum eplb_status eplb_input_check_text(const struct eplb_input *input, struct eplb_error *error)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    if (input->size == 0)
        EPLB_FAIL(EPLB_INVALID, "%s is empty", input->name);
    if (input->size >= 3 && memcmp(input->bytes, byte_order_mark, 3) == 0)
        EPLB_FAIL(EPLB_INVALID, "%s begins with a UTF-8 byte order mark; save it without one", input->name);
    return EPLB_OK;
}

struct eplb_quoted eplb_quote(const char *text, size_t length)
{
    struct eplb_quoted quoted = {""};
    size_t room = sizeof quoted.text - 1;
    size_t shown = length > room ? room - 2 : length;
    for (size_t i = 0; i < shown; i++)
        quoted.text[i] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
    if (shown < length)
        memcpy(quoted.text + shown, "..", 2);
    return quoted;
}
