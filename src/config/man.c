/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "config/pages.h"

#include <string.h>

#include "base/assert.h"

/** Puts text so that roff takes no character of it as its own. */
static void put_escaped(const struct eplb_text_sink *sink, const char *text)
{
    bool line_start = true;
    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            eplb_text_put(sink, "\\&");
        if (*text == '\\')
            eplb_text_put(sink, "\\e");
        else if (*text == '-')
            eplb_text_put(sink, "\\-");
        else
            sink->put(sink->context, text, 1);
        line_start = *text == '\n';
    }
}

/** Puts text of several paragraphs. */
static void put_paragraphs(const struct eplb_text_sink *sink, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        char line[1024];
        EPLB_ASSERT(length < sizeof line);
        memcpy(line, text, length);
        line[length] = '\0';
        put_escaped(sink, length == 0 ? "" : line);
        eplb_text_put(sink, length == 0 ? ".PP\n" : "\n");
        text += length + (text[length] == '\n');
    }
}

static void put_verbatim(const struct eplb_text_sink *sink, const char *text)
{
    eplb_text_put(sink, ".nf\n");
    put_escaped(sink, text);
    eplb_text_put(sink, "\n.fi\n");
}

static void man_heading(void *context, const char *heading)
{
    eplb_text_printf(context, ".SS %s\n", heading);
}

static void man_option(void *context, const struct eplb_option *option)
{
    const struct eplb_text_sink *sink = context;
    char description[EPLB_DESCRIPTION_TEXT];
    eplb_option_describe(option, description);
    eplb_text_put(sink, ".TP\n\\fB\\-\\-");
    eplb_text_put(sink, option->name);
    if (option->word == NULL)
        eplb_text_put(sink, "\\fR\n");
    else
        eplb_text_printf(sink, "\\fR=\\fI%s\\fR\n", option->word);
    put_escaped(sink, description);
    eplb_text_put(sink, "\n");
    if (eplb_option_is_engine(option))
        eplb_text_printf(sink, "Fixed when the %s.\n",
                         option->reader == EPLB_READER_MANAGER ? "manager is created" : "worker starts");
}

static void man_reserved(const struct eplb_text_sink *sink)
{
    eplb_text_put(sink, ".SH RESERVED OPTIONS\nThese names are refused because they are not built yet.\n");
    for (int i = EPLB_NUM_BUILT_OPTIONS; i < EPLB_NUM_OPTIONS; i++) {
        const struct eplb_option *option = eplb_option_row(i);
        eplb_text_printf(sink, ".TP\n\\fB\\-\\-%s\\fR\n", option->name);
        put_escaped(sink, option->doc);
        eplb_text_put(sink, "\n");
    }
}

static void man_configuration(const struct eplb_text_sink *sink)
{
    eplb_text_put(sink, ".SH CONFIGURATION FILE\n");
    put_paragraphs(sink,
                   "The file of --config_json_file is a JSON object whose keys are the names of the options "
                   "under Load balancing, Expert parallelism and Processes. Flags win over it. A key that "
                   "is nearly one of these names, or starts with eplb_, is refused; other keys belong to "
                   "the host engine and are named once as not used.");
}

static void man_exit_status(const struct eplb_text_sink *sink)
{
#define EXIT_ROW(name, value, exit_code, text) {exit_code, text},
    static const struct {
        int exit_code;
        const char *text;
    } statuses[] = {EPLB_STATUS_MAP(EXIT_ROW)};
#undef EXIT_ROW
    enum { NUM_STATUSES = sizeof statuses / sizeof statuses[0], MAX_EXIT_CODE = 7 };
    eplb_text_put(sink, ".SH EXIT STATUS\n");
    for (int code = 0; code <= MAX_EXIT_CODE; code++) {
        const char *separator = "";
        eplb_text_printf(sink, ".TP\n%d\n", code);
        for (size_t i = 0; i < NUM_STATUSES; i++) {
            if (statuses[i].exit_code != code)
                continue;
            eplb_text_printf(sink, "%s%s", separator, statuses[i].text);
            separator = "; ";
        }
        eplb_text_put(sink, "\n");
    }
    eplb_text_put(sink, ".TP\n130, 143\nended by a signal\n");
}

/** Puts a command's name as one word: "eplb-plan". */
static void put_page_name(const struct eplb_text_sink *sink, enum eplb_command_id command)
{
    for (const char *name = eplb_command_name(command); *name != '\0'; name++)
        sink->put(sink->context, *name == ' ' ? "\\-" : name, *name == ' ' ? 2 : 1);
}

void eplb_man_write(const struct eplb_command_doc *doc, const char *version,
                    const struct eplb_text_sink *sink)
{
    eplb_text_put(sink, ".TH \"");
    put_page_name(sink, doc->command);
    eplb_text_printf(sink, "\" 1 \"\" \"eplb %s\" \"User Commands\"\n.SH NAME\n", version);
    put_page_name(sink, doc->command);
    eplb_text_put(sink, " \\- ");
    put_escaped(sink, doc->summary);
    eplb_text_put(sink, "\n.SH SYNOPSIS\n");
    put_verbatim(sink, doc->usage);
    eplb_text_put(sink, ".SH DESCRIPTION\n");
    put_paragraphs(sink, doc->description);
    eplb_text_put(sink, ".SH OPTIONS\n");
    struct eplb_text_sink copy = *sink;
    struct eplb_option_visitor visitor = {.context = &copy, .heading = man_heading, .option = man_option};
    eplb_options_visit(doc->command, &visitor);
    if (eplb_command_tells_engine(doc->command)) {
        man_reserved(sink);
        man_configuration(sink);
    }
    man_exit_status(sink);
    if (doc->examples[0] == '\0')
        return;
    eplb_text_put(sink, ".SH EXAMPLES\n");
    put_verbatim(sink, doc->examples);
}
