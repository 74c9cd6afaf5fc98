/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The `eplb` command: what its subcommands share. Data goes to standard output, everything said
 * to a person goes to standard error.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "config/command_line.h"
#include "config/pages.h"
#include "eplb/log.h"
#include "eplb/status.h"

/** One subcommand. run gets the arguments after its name and returns the exit code. */
struct eplb_subcommand {
    const char *name;
    const struct eplb_command_doc *doc;
    int (*run)(int argc, char **argv);
};

extern const struct eplb_subcommand eplb_subcommand_plan;
extern const struct eplb_subcommand eplb_subcommand_run;
extern const struct eplb_subcommand eplb_subcommand_replay;
extern const struct eplb_subcommand eplb_subcommand_shm;

/** The command with which eplb run starts its workers. */
#define EPLB_CLI_WORKER "worker"

/** Is a worker, as the arguments after the command say; returns the exit code. */
int eplb_cli_worker(int argc, char **argv);

/** Says an error on standard error; returns the exit code of its status. */
int eplb_cli_fail(const struct eplb_error *error);

/** Says a warning on standard error. */
void eplb_cli_warn(const char *format, ...) EPLB_PRINTF(1, 2);

/** Says something useful on standard error. */
void eplb_cli_note(const char *format, ...) EPLB_PRINTF(1, 2);

/** The sink that writes log lines to standard error. */
const struct eplb_log_sink *eplb_cli_log(void);

/** The sink of generated pages: a FILE. */
struct eplb_text_sink eplb_cli_pages(FILE *file);

/** Prints the page that --help, --version or --man asks for; false when none of them was given. */
bool eplb_cli_page(const struct eplb_config *config, const struct eplb_command_doc *doc);

/** Bytes that eplb_cli_shown needs. */
#define EPLB_CLI_SHOWN 1024

/** Copies strangers' text for a line: control characters and malformed bytes as '?', cut when long. Returns
 * shown. */
const char *eplb_cli_shown(char shown[EPLB_CLI_SHOWN], const char *text);

/** Flushes standard output; EPLB_IO with the reason when something could not be written. */
enum eplb_status eplb_cli_flush(struct eplb_error *error);

#endif
