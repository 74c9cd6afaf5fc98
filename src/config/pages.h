/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Pages made from the option table.
 */
#ifndef CONFIG_PAGES_H
#define CONFIG_PAGES_H

#include "config/option.h"
#include "config/text.h"

/** What a command says about itself; plain text, paragraphs separated by an empty line. */
struct eplb_command_doc {
    enum eplb_command_id command;
    const char *summary;     /**< Half a sentence, without a point. */
    const char *usage;       /**< One line or several, each a way to call it. */
    const char *description; /**< Paragraphs. */
    const char *examples;    /**< Lines, printed as they are; "" for none. */
};

/** `--help`. */
void eplb_help_write(const struct eplb_command_doc *doc, const struct eplb_text_sink *sink);

/** `--man`: the page in roff, for man(1). */
void eplb_man_write(const struct eplb_command_doc *doc, const char *version,
                    const struct eplb_text_sink *sink);

/**
 * `--dump_config`: a JSON object of every engine option with its value, which is itself a
 * configuration file, and the key "sources" with where each came from.
 */
void eplb_dump_write(const struct eplb_options *options, const struct eplb_text_sink *sink);

/**
 * The options of a command in the order of its pages: calls back once per heading that has
 * options, and then once per option.
 */
struct eplb_option_visitor {
    void *context;
    void (*heading)(void *context, const char *heading);
    void (*option)(void *context, const struct eplb_option *option);
};

void eplb_options_visit(enum eplb_command_id command, const struct eplb_option_visitor *visitor);

/** Bytes that eplb_option_describe needs. */
#define EPLB_DESCRIPTION_TEXT 512

/** Writes an option's doc with its range and default. */
void eplb_option_describe(const struct eplb_option *option, char text[EPLB_DESCRIPTION_TEXT]);

#endif
