/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

int eplb_cli_fail(const struct eplb_error *error)
{
    fprintf(stderr, "eplb: %s\n", error->text);
    return eplb_status_exit_code(error->status);
}

static void EPLB_PRINTF(2, 0) say(const char *kind, const char *format, va_list arguments)
{
    fputs(kind, stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void eplb_cli_warn(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("eplb: warning: ", format, arguments);
    va_end(arguments);
}

void eplb_cli_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("eplb: ", format, arguments);
    va_end(arguments);
}

static void write_line(void *context, const struct eplb_log_record *record)
{
    (void)context;
    char line[2048];
    eplb_log_format(record, line, sizeof line);
    fprintf(stderr, "%s\n", line);
}

const struct eplb_log_sink *eplb_cli_log(void)
{
    static const struct eplb_log_sink sink = {.size = sizeof sink, .write = write_line};
    return &sink;
}

static void put_to_file(void *context, const char *text, size_t length)
{
    fwrite(text, 1, length, context);
}

struct eplb_text_sink eplb_cli_pages(FILE *file)
{
    return (struct eplb_text_sink){.context = file, .put = put_to_file};
}

bool eplb_cli_page(const struct eplb_config *config, const struct eplb_command_doc *doc)
{
    struct eplb_text_sink pages = eplb_cli_pages(stdout);
    if (config->own.help)
        eplb_help_write(doc, &pages);
    else if (config->own.version)
        eplb_text_printf(&pages, "eplb %s\n", EPLB_VERSION);
    else if (config->own.man)
        eplb_man_write(doc, EPLB_VERSION, &pages);
    else
        return false;
    return true;
}

const char *eplb_cli_shown(char shown[EPLB_CLI_SHOWN], const char *text)
{
    size_t length = 0;
    while (*text != '\0') {
        size_t bytes = eplb_utf8_printable(text);
        size_t copied = bytes == 0 ? 1 : bytes;
        if (length + copied >= EPLB_CLI_SHOWN)
            break;
        memcpy(shown + length, bytes == 0 ? "?" : text, copied);
        length += copied;
        text += copied;
    }
    shown[length] = '\0';
    return shown;
}

enum eplb_status eplb_cli_flush(struct eplb_error *error)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        EPLB_FAIL(EPLB_IO, "standard output: cannot write: %s", strerror(errno));
    return EPLB_OK;
}
