/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/run_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "trace/input.h"

enum { MAX_LINE = 4096 };

static void write_line(void *context, const struct eplb_log_record *record)
{
    const struct eplb_run_log *log = context;
    char line[MAX_LINE];
    if (log->warnings_only && record->level < EPLB_LOG_WARNING)
        return;
    size_t length = eplb_log_format(record, line, sizeof line);
    if (length > sizeof line - 1)
        length = sizeof line - 1;
    line[length] = '\n';
    /* Nobody is left to be told of a log that cannot be written. */
    ssize_t written = write(log->descriptor, line, length + 1);
    (void)written;
}

static enum eplb_status open_file(const char *path, struct eplb_run_log *log, struct eplb_error *error)
{
    log->descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (log->descriptor < 0)
        EPLB_FAIL(EPLB_INVALID, "%s: log lines cannot be appended: %s", eplb_input_name(path),
                  strerror(errno));
    log->owned = true;
    return EPLB_OK;
}

enum eplb_status eplb_run_log_open(const char *name, struct eplb_run_log *log, struct eplb_error *error)
{
    *log = (struct eplb_run_log){.descriptor = STDERR_FILENO};
    log->sink = (struct eplb_log_sink){.size = sizeof log->sink, .context = log, .write = write_line};
    log->warnings_only = strcmp(name, EPLB_RUN_LOG_WARNINGS) == 0;
    if (strncmp(name, EPLB_RUN_LOG_FILE, strlen(EPLB_RUN_LOG_FILE)) == 0)
        return open_file(name + strlen(EPLB_RUN_LOG_FILE), log, error);
    if (!log->warnings_only && strcmp(name, EPLB_RUN_LOG_LINES) != 0)
        EPLB_FAIL(EPLB_USAGE, "there is no log '%s'", eplb_quote(name, strlen(name)).text);
    return EPLB_OK;
}

void eplb_run_log_close(struct eplb_run_log *log)
{
    if (log->owned)
        close(log->descriptor);
    log->owned = false;
}
