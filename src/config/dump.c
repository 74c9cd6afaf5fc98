/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/utf8.h"
#include "config/pages.h"

static void put_json_text(const struct eplb_text_sink *sink, const char *text)
{
    while (*text != '\0') {
        unsigned char first = (unsigned char)*text;
        size_t length = eplb_utf8_length(text);
        if (length == 0) {
            /* A file's name need not be UTF-8; JSON must be. */
            eplb_text_put(sink, "?");
            length = 1;
        } else if (first < 0x20) {
            eplb_text_printf(sink, "\\u%04x", first);
        } else {
            if (first == '"' || first == '\\')
                eplb_text_put(sink, "\\");
            sink->put(sink->context, text, length);
        }
        text += length;
    }
}

static void put_value(const struct eplb_text_sink *sink, const struct eplb_value *value)
{
    char text[EPLB_RULE_TEXT];
    if (value->type == EPLB_TYPE_NAME || value->type == EPLB_TYPE_PATH) {
        eplb_text_put(sink, "\"");
        put_json_text(sink, value->text);
        eplb_text_put(sink, "\"");
        return;
    }
    eplb_value_text(value, text);
    eplb_text_put(sink, text);
}

static void put_source(const struct eplb_text_sink *sink, struct eplb_source source)
{
    if (source.kind == EPLB_SOURCE_FILE) {
        eplb_text_put(sink, "file ");
        put_json_text(sink, source.file);
        return;
    }
    char text[EPLB_SOURCE_TEXT];
    eplb_source_text(source, text);
    eplb_text_put(sink, text);
}

void eplb_dump_write(const struct eplb_options *options, const struct eplb_text_sink *sink)
{
    eplb_text_put(sink, "{\n");
    for (int i = 0; i < EPLB_NUM_ENGINE_OPTIONS; i++) {
        const struct eplb_option *option = eplb_option_row(i);
        struct eplb_value value = eplb_option_load(option, options);
        eplb_text_printf(sink, "  \"%s\": ", option->name);
        put_value(sink, &value);
        eplb_text_put(sink, ",\n");
    }
    eplb_text_put(sink, "  \"sources\": {");
    for (int i = 0; i < EPLB_NUM_ENGINE_OPTIONS; i++) {
        const char *separator = i == 0 ? "" : ",";
        eplb_text_printf(sink, "%s\n    \"%s\": \"", separator, eplb_option_row(i)->name);
        put_source(sink, options->sources[i]);
        eplb_text_put(sink, "\"");
    }
    eplb_text_put(sink, "\n  }\n}\n");
}
