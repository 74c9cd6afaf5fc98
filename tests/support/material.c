/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/material.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

int material_find(const char *name, char *path, size_t capacity)
{
    const char *root = getenv("EPLB_SHARED");
    if (root != NULL)
        snprintf(path, capacity, "%s/%s", root, name);
    else
        snprintf(path, capacity, "%s/../shared/%s", EPLB_SOURCE_DIR, name);
    if (access(path, R_OK) == 0)
        return 0;
    printf("SKIP: %s is not there (set EPLB_SHARED to the folder that holds it)\n", name);
    return -1;
}

void material_own(const char *name, char *path, size_t capacity)
{
    snprintf(path, capacity, "%s/tests/%s", EPLB_SOURCE_DIR, name);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s: cannot open", path);
    size_t capacity = 64 << 20;
    char *text = malloc(capacity);
    assert_non_null(text);
    size_t size = fread(text, 1, capacity - 1, file);
    fclose(file);
    text[size] = '\0';
    return text;
}

/** Exact numerators beyond 64 bits stand in some files; no test reads them, but jansson refuses them. */
static void shorten_wide_integers(char *text)
{
    static const char largest[] = "9223372036854775807";
    for (char *c = text; *c != '\0'; c++) {
        size_t digits = strspn(c, "0123456789");
        if (digits >= sizeof largest || (digits == sizeof largest - 1 && memcmp(c, largest, digits) > 0))
            memset(c + 1, ' ', digits - 1);
        c += digits > 0 ? digits - 1 : 0;
    }
}

json_t *material_json(const char *path)
{
    json_error_t error;
    char *text = read_text(path);
    shorten_wide_integers(text);
    json_t *root = json_loads(text, 0, &error);
    if (root == NULL)
        fail_msg("%s:%d:%d: %s", path, error.line, error.column, error.text);
    free(text);
    return root;
}

static void read_integers(const json_t *value, int64_t *values, size_t capacity, size_t *count)
{
    if (json_is_integer(value)) {
        assert_true(*count < capacity);
        values[(*count)++] = json_integer_value(value);
        return;
    }
    assert_true(json_is_array(value));
    for (size_t i = 0; i < json_array_size(value); i++)
        read_integers(json_array_get(value, i), values, capacity, count);
}

size_t material_int64(const json_t *array, int64_t *values, size_t capacity)
{
    size_t count = 0;
    read_integers(array, values, capacity, &count);
    return count;
}

size_t material_int32(const json_t *array, int32_t *values, size_t capacity)
{
    int64_t *wide = calloc(capacity, sizeof *wide);
    assert_non_null(wide);
    size_t count = material_int64(array, wide, capacity);
    for (size_t i = 0; i < count; i++) {
        assert_in_range(wide[i] + INT32_MAX, 0, 2 * (int64_t)INT32_MAX);
        values[i] = (int32_t)wide[i];
    }
    free(wide);
    return count;
}

int64_t material_int(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("no integer '%s'", key);
    return json_integer_value(value);
}
