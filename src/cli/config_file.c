/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/config_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/json_key.h"
#include "os/file.h"
#include "trace/json_input.h"

static enum eplb_status set_option(struct eplb_options *options, const char *key, const json_t *value,
                                   struct eplb_source source, struct eplb_error *error)
{
    if (json_is_boolean(value))
        return eplb_options_set_bool(options, key, json_is_true(value), source, error);
    if (json_is_integer(value))
        return eplb_options_set_int(options, key, json_integer_value(value), source, error);
    if (json_is_real(value))
        return eplb_options_set_real(options, key, json_real_value(value), source, error);
    if (json_is_string(value))
        return eplb_options_set_text(options, key, json_string_value(value), source, error);
    const char *kind = json_is_null(value) ? "null" : json_is_array(value) ? "an array" : "an object";
    return eplb_options_refuse(key, kind, source, error);
}

static void note_unused(char unused[EPLB_UNUSED_KEYS_TEXT], const char *key)
{
    size_t length = strlen(unused);
    snprintf(unused + length, EPLB_UNUSED_KEYS_TEXT - length, "%s%s", length == 0 ? "" : ", ",
             eplb_quote(key, strlen(key)).text);
}

static enum eplb_status apply(json_t *root, struct eplb_options *options, struct eplb_source source,
                              char unused[EPLB_UNUSED_KEYS_TEXT], struct eplb_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        enum eplb_json_key kind;
        EPLB_TRY(eplb_json_key(key, source.file, &kind, error));
        if (kind == EPLB_KEY_OPTION)
            EPLB_TRY(set_option(options, key, value, source, error));
        else if (kind == EPLB_KEY_OTHER)
            note_unused(unused, key);
    }
    return EPLB_OK;
}

enum eplb_status eplb_config_file_read(const char *path, struct eplb_config *config,
                                       char unused[EPLB_UNUSED_KEYS_TEXT], struct eplb_error *error)
{
    char *bytes;
    size_t size;
    json_t *root;
    unused[0] = '\0';
    EPLB_TRY(eplb_file_read(path, &bytes, &size, error));
    struct eplb_input input = {.name = eplb_input_name(path), .bytes = bytes, .size = size};
    enum eplb_status status = eplb_json_parse(&input, &root, error);
    if (status == EPLB_OK) {
        struct eplb_source source = {.kind = EPLB_SOURCE_FILE, .file = input.name};
        status = apply(root, &config->options, source, unused, error);
        json_decref(root);
    }
    free(bytes);
    return status;
}
