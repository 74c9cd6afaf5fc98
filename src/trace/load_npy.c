/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * NumPy .npy, versions 1.0 to 3.0: magic, version, length of the header, a header that is a Python
 * dict literal with the keys descr, fortran_order and shape, then the array itself.
 */
#include "trace/load_formats.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/placement.h"

enum { MAX_AXES = 8, MAX_DTYPE = 16 };

static const char magic[] = "\x93NUMPY";

/* What the header says. */
struct array {
    char dtype[MAX_DTYPE];
    bool fortran_order;
    int num_axes;
    int64_t shape[MAX_AXES];
    const unsigned char *data;
    size_t data_bytes;
    size_t item_bytes;
};

/* The header's text, read from the left. */
struct cursor {
    const struct eplb_input *input;
    const char *at;
    const char *end;
};

static enum eplb_status refuse_header(const struct cursor *cursor, const char *expected,
                                      struct eplb_error *error)
{
    EPLB_FAIL(EPLB_INVALID, "%s: the .npy header is malformed at byte %td: %s expected", cursor->input->name,
              cursor->at - cursor->input->bytes, expected);
}

static void skip_blanks(struct cursor *cursor)
{
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n'))
        cursor->at++;
}

static bool accept(struct cursor *cursor, const char *word)
{
    skip_blanks(cursor);
    size_t length = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

static enum eplb_status read_string(struct cursor *cursor, char *text, size_t capacity,
                                    struct eplb_error *error)
{
    char quote = accept(cursor, "'") ? '\'' : accept(cursor, "\"") ? '"' : '\0';
    if (quote == '\0')
        return refuse_header(cursor, "a quoted string", error);
    size_t length = 0;
    while (cursor->at < cursor->end && *cursor->at != quote && length + 1 < capacity)
        text[length++] = *cursor->at++;
    text[length] = '\0';
    if (cursor->at == cursor->end || *cursor->at != quote)
        return refuse_header(cursor, "the end of a short string", error);
    cursor->at++;
    return EPLB_OK;
}

static enum eplb_status read_dtype(struct cursor *cursor, struct array *array, struct eplb_error *error)
{
    skip_blanks(cursor);
    if (cursor->at < cursor->end && *cursor->at == '[')
        EPLB_FAIL(EPLB_INVALID, "%s has a structured dtype; read are int32 (\"<i4\") and int64 (\"<i8\")",
                  cursor->input->name);
    return read_string(cursor, array->dtype, sizeof array->dtype, error);
}

static enum eplb_status read_order(struct cursor *cursor, struct array *array, struct eplb_error *error)
{
    array->fortran_order = accept(cursor, "True");
    if (!array->fortran_order && !accept(cursor, "False"))
        return refuse_header(cursor, "True or False", error);
    return EPLB_OK;
}

static enum eplb_status read_axis(struct cursor *cursor, int64_t *length, struct eplb_error *error)
{
    const char *first = cursor->at;
    int64_t number = 0;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        int64_t digit = *cursor->at - '0';
        if (number > (INT64_MAX - digit) / 10)
            return refuse_header(cursor, "a length below 2^63", error);
        number = number * 10 + digit;
        cursor->at++;
    }
    if (cursor->at == first)
        return refuse_header(cursor, "the length of an axis", error);
    *length = number;
    return EPLB_OK;
}

static enum eplb_status read_shape(struct cursor *cursor, struct array *array, struct eplb_error *error)
{
    array->num_axes = 0;
    if (!accept(cursor, "("))
        return refuse_header(cursor, "a tuple of lengths", error);
    while (!accept(cursor, ")")) {
        if (array->num_axes == MAX_AXES)
            return refuse_header(cursor, "a shape of at most 8 axes", error);
        EPLB_TRY(read_axis(cursor, &array->shape[array->num_axes], error));
        array->num_axes++;
        if (!accept(cursor, ",")) {
            if (!accept(cursor, ")"))
                return refuse_header(cursor, "\",\" or \")\"", error);
            break;
        }
    }
    return EPLB_OK;
}

struct member {
    const char *key;
    enum eplb_status (*read)(struct cursor *cursor, struct array *array, struct eplb_error *error);
};

static const struct member members[] = {
    {"descr", read_dtype}, {"fortran_order", read_order}, {"shape", read_shape}};

enum { NUM_MEMBERS = sizeof members / sizeof members[0] };

static enum eplb_status read_member(struct cursor *cursor, struct array *array, bool *seen,
                                    struct eplb_error *error)
{
    char key[MAX_DTYPE];
    EPLB_TRY(read_string(cursor, key, sizeof key, error));
    if (!accept(cursor, ":"))
        return refuse_header(cursor, "\":\"", error);
    for (int i = 0; i < NUM_MEMBERS; i++)
        if (strcmp(key, members[i].key) == 0 && !seen[i]) {
            seen[i] = true;
            return members[i].read(cursor, array, error);
        }
    return refuse_header(cursor, "one each of the keys descr, fortran_order and shape", error);
}

static enum eplb_status read_header(struct cursor *cursor, struct array *array, struct eplb_error *error)
{
    bool seen[NUM_MEMBERS] = {false};
    if (!accept(cursor, "{"))
        return refuse_header(cursor, "\"{\"", error);
    while (!accept(cursor, "}")) {
        EPLB_TRY(read_member(cursor, array, seen, error));
        if (!accept(cursor, ",")) {
            if (!accept(cursor, "}"))
                return refuse_header(cursor, "\",\" or \"}\"", error);
            break;
        }
    }
    skip_blanks(cursor);
    if (cursor->at != cursor->end)
        return refuse_header(cursor, "the end of the header", error);
    for (int i = 0; i < NUM_MEMBERS; i++)
        if (!seen[i])
            return refuse_header(cursor, members[i].key, error);
    return EPLB_OK;
}

static uint64_t little_endian(const unsigned char *bytes, size_t count)
{
    uint64_t value = 0;
    for (size_t i = count; i > 0; i--)
        value = value << 8 | bytes[i - 1];
    return value;
}

/* Magic, two bytes of version, and a header length of 2 bytes (version 1) or 4. */
static enum eplb_status open_array(const struct eplb_input *input, struct array *array,
                                   struct eplb_error *error)
{
    const unsigned char *bytes = (const unsigned char *)input->bytes;
    size_t version_at = strlen(magic);
    if (input->size < version_at + 2 || memcmp(input->bytes, magic, version_at) != 0)
        EPLB_FAIL(EPLB_INVALID, "%s begins like a .npy file but ends or differs within its first %zu bytes",
                  input->name, version_at + 2);
    unsigned major = bytes[version_at];
    unsigned minor = bytes[version_at + 1];
    if (major < 1 || major > 3 || minor != 0)
        EPLB_FAIL(EPLB_INVALID, "%s has .npy version %u.%u; read are 1.0, 2.0 and 3.0", input->name, major,
                  minor);
    size_t length_bytes = major == 1 ? 2 : 4;
    size_t header_at = version_at + 2 + length_bytes;
    size_t header_bytes = input->size < header_at ? 0 : little_endian(bytes + version_at + 2, length_bytes);
    if (input->size < header_at || input->size - header_at < header_bytes)
        EPLB_FAIL(EPLB_INVALID, "%s ends inside its .npy header: %zu bytes, the header alone takes %zu",
                  input->name, input->size, header_at + header_bytes);
    struct cursor cursor = {input, input->bytes + header_at, input->bytes + header_at + header_bytes};
    EPLB_TRY(read_header(&cursor, array, error));
    array->data = bytes + header_at + header_bytes;
    array->data_bytes = input->size - header_at - header_bytes;
    return EPLB_OK;
}

struct shape_text {
    char text[MAX_AXES * 22 + 3];
};

static struct shape_text show_shape(const struct array *array)
{
    struct shape_text shown = {"("};
    size_t length = 1;
    for (int axis = 0; axis < array->num_axes; axis++)
        length += (size_t)snprintf(shown.text + length, sizeof shown.text - length, "%s%" PRId64,
                                   axis == 0 ? "" : ", ", array->shape[axis]);
    snprintf(shown.text + length, sizeof shown.text - length, ")");
    return shown;
}

static enum eplb_status check_shape(const struct eplb_input *input, const struct array *array,
                                    struct eplb_error *error)
{
    if (array->num_axes != 2 && array->num_axes != 3)
        EPLB_FAIL(EPLB_INVALID, "%s has the shape %s; a load is [layer][expert] or [step][layer][expert]",
                  input->name, show_shape(array).text);
    static const struct {
        const char *name;
        int64_t high;
    } axes[3] = {{"steps", EPLB_MAX_STEPS}, {"layers", EPLB_MAX_LAYERS}, {"experts", EPLB_MAX_EXPERTS}};
    size_t needed = array->item_bytes;
    for (int axis = 0; axis < array->num_axes; axis++) {
        int which = axis + 3 - array->num_axes;
        int64_t length = array->shape[axis];
        if (length < 1 || length > axes[which].high)
            EPLB_FAIL(EPLB_INVALID, "%s has the shape %s: %" PRId64 " %s; allowed are 1 to %" PRId64,
                      input->name, show_shape(array).text, length, axes[which].name, axes[which].high);
        /* At most 8 * 2^20 * 2^16 * 2^16 bytes: no overflow. */
        needed *= (size_t)length;
    }
    if (needed != array->data_bytes)
        EPLB_FAIL(EPLB_INVALID, "%s: the shape %s of \"%s\" takes %zu bytes of data; the file has %zu",
                  input->name, show_shape(array).text, array->dtype, needed, array->data_bytes);
    return EPLB_OK;
}

static enum eplb_status check_type(const struct eplb_input *input, struct array *array,
                                   struct eplb_error *error)
{
    array->item_bytes = strcmp(array->dtype, "<i4") == 0 ? 4 : strcmp(array->dtype, "<i8") == 0 ? 8 : 0;
    if (array->item_bytes == 0)
        EPLB_FAIL(EPLB_INVALID, "%s has the dtype \"%s\"; read are int32 (\"<i4\") and int64 (\"<i8\")",
                  input->name, eplb_quote(array->dtype, strlen(array->dtype)).text);
    if (array->fortran_order)
        EPLB_FAIL(EPLB_INVALID, "%s is in Fortran order (fortran_order True); read is C order (False)",
                  input->name);
    return EPLB_OK;
}

static enum eplb_status read_counts(const struct eplb_input *input, const struct array *array,
                                    struct eplb_load *load, struct eplb_error *error)
{
    const unsigned char *item = array->data;
    int64_t largest = 0;
    for (int32_t step = 0; step < load->num_steps; step++)
        for (int32_t layer = 0; layer < load->num_layers; layer++) {
            int64_t *counts = eplb_load_row(load, step, layer);
            for (int32_t expert = 0; expert < load->num_experts; expert++, item += array->item_bytes) {
                uint64_t bits = little_endian(item, array->item_bytes);
                int64_t count = array->item_bytes == 4 ? (int32_t)(uint32_t)bits : (int64_t)bits;
                if (count < 0 || count > EPLB_MAX_LOAD)
                    EPLB_FAIL(EPLB_INVALID,
                              "%s: [%d][%d][%d] (step, layer, expert) is %" PRId64
                              "; a count is an integer from 0 to 2^62",
                              input->name, step, layer, expert, count);
                counts[expert] = count;
                largest = count > largest ? count : largest;
            }
        }
    if (largest == 1)
        EPLB_FAIL(EPLB_INVALID,
                  "%s holds only 0 and 1: it looks like an expert map (a placement: which rank holds which "
                  "expert), "
                  "not like a load",
                  input->name);
    return EPLB_OK;
}

enum eplb_status eplb_load_parse_npy(const struct eplb_input *input, struct eplb_load *load,
                                     struct eplb_error *error)
{
    struct array array = {0};
    EPLB_TRY(open_array(input, &array, error));
    EPLB_TRY(check_type(input, &array, error));
    EPLB_TRY(check_shape(input, &array, error));
    EPLB_ASSERT(array.num_axes == 2 || array.num_axes == 3);
    const int64_t *last = array.shape + array.num_axes;
    int32_t num_steps = array.num_axes == 3 ? (int32_t)array.shape[0] : 1;
    EPLB_TRY(eplb_load_init(load, num_steps, (int32_t)last[-2], (int32_t)last[-1], error));
    return read_counts(input, &array, load, error);
}
