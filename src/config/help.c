/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "config/pages.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum { OPTION_INDENT = 6, RESERVED_INDENT = 2 };

static void visit_group(enum eplb_command_id command, const char *heading,
                        bool (*belongs)(const struct eplb_option *option),
                        const struct eplb_option_visitor *visitor)
{
    bool begun = false;
    for (int i = 0; i < EPLB_NUM_BUILT_OPTIONS; i++) {
        const struct eplb_option *option = eplb_option_row(i);
        if (!eplb_option_is_of(option, command) || !belongs(option))
            continue;
        if (!begun)
            visitor->heading(visitor->context, heading);
        begun = true;
        visitor->option(visitor->context, option);
    }
}

static bool is_own(const struct eplb_option *option)
{
    return option->commands != 0 && !eplb_option_is_engine(option);
}

static bool is_balancing(const struct eplb_option *option)
{
    return eplb_option_is_engine(option) && option->group == EPLB_GROUP_BALANCING;
}

static bool is_parallelism(const struct eplb_option *option)
{
    return eplb_option_is_engine(option) && option->group == EPLB_GROUP_PARALLELISM;
}

static bool is_processes(const struct eplb_option *option)
{
    return eplb_option_is_engine(option) && option->group == EPLB_GROUP_PROCESSES;
}

static bool is_general(const struct eplb_option *option)
{
    return option->commands == 0 && !eplb_option_is_engine(option);
}

void eplb_options_visit(enum eplb_command_id command, const struct eplb_option_visitor *visitor)
{
    visit_group(command, "Command options", is_own, visitor);
    visit_group(command, "Load balancing", is_balancing, visitor);
    visit_group(command, "Expert parallelism", is_parallelism, visitor);
    visit_group(command, "Processes", is_processes, visitor);
    visit_group(command, "General", is_general, visitor);
}

void eplb_option_describe(const struct eplb_option *option, char text[EPLB_DESCRIPTION_TEXT])
{
    char rule[EPLB_RULE_TEXT];
    eplb_option_rule(option, rule);
    /* For a bool, and for a text whose word says it, the rule would be noise. */
    bool says_rule =
        option->type != EPLB_TYPE_BOOL && option->type != EPLB_TYPE_TEXT && option->type != EPLB_TYPE_PATH;
    bool says_default = option->default_text != NULL;
    int length =
        snprintf(text, EPLB_DESCRIPTION_TEXT, "%s%s%s%s%s%s%s", option->doc, says_rule ? " Takes " : "",
                 says_rule ? rule : "", says_rule ? "." : "", says_default ? " Default: " : "",
                 says_default ? option->default_text : "", says_default ? "." : "");
    EPLB_ASSERT(length > 0 && length < EPLB_DESCRIPTION_TEXT);
}

static void help_heading(void *context, const char *heading)
{
    eplb_text_printf(context, "\n%s:\n", heading);
}

static void help_option(void *context, const struct eplb_option *option)
{
    const struct eplb_text_sink *sink = context;
    char description[EPLB_DESCRIPTION_TEXT];
    eplb_option_describe(option, description);
    if (option->word == NULL)
        eplb_text_printf(sink, "  --%s\n", option->name);
    else
        eplb_text_printf(sink, "  --%s=%s\n", option->name, option->word);
    eplb_text_wrap(sink, OPTION_INDENT, description);
}

static void help_reserved(const struct eplb_text_sink *sink)
{
    char names[1024];
    size_t length = 0;
    for (int i = EPLB_NUM_BUILT_OPTIONS; i < EPLB_NUM_OPTIONS; i++) {
        const char *separator = i == EPLB_NUM_BUILT_OPTIONS ? "" : ", ";
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", separator,
                                   eplb_option_row(i)->name);
        EPLB_ASSERT(length < sizeof names);
    }
    eplb_text_put(sink, "\nReserved names, refused because they are not built yet:\n");
    eplb_text_wrap(sink, RESERVED_INDENT, names);
}

/** Puts every line of text, indented. */
static void help_lines(const struct eplb_text_sink *sink, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        eplb_text_put(sink, "  ");
        sink->put(sink->context, text, length);
        eplb_text_put(sink, "\n");
        text += length + (text[length] == '\n');
    }
}

static void help_paragraphs(const struct eplb_text_sink *sink, const char *text)
{
    while (*text != '\0') {
        const char *end = strstr(text, "\n\n");
        size_t length = end == NULL ? strlen(text) : (size_t)(end - text);
        char paragraph[1024];
        EPLB_ASSERT(length < sizeof paragraph);
        memcpy(paragraph, text, length);
        paragraph[length] = '\0';
        eplb_text_put(sink, "\n");
        eplb_text_wrap(sink, 0, paragraph);
        text += length + strspn(text + length, "\n");
    }
}

void eplb_help_write(const struct eplb_command_doc *doc, const struct eplb_text_sink *sink)
{
    eplb_text_printf(sink, "%s - %s\n\nusage:\n", eplb_command_name(doc->command), doc->summary);
    help_lines(sink, doc->usage);
    help_paragraphs(sink, doc->description);
    struct eplb_text_sink copy = *sink;
    struct eplb_option_visitor visitor = {.context = &copy, .heading = help_heading, .option = help_option};
    eplb_options_visit(doc->command, &visitor);
    if (eplb_command_tells_engine(doc->command))
        help_reserved(sink);
    if (doc->examples[0] != '\0')
        eplb_text_put(sink, "\nExamples:\n");
    help_lines(sink, doc->examples);
}
