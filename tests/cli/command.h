/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Runs the `eplb` command as a user would, from a test. Failures of the machine (no process, no
 * file) fail the test.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stddef.h>
#include <sys/types.h>

/** A run that has ended. */
struct command_run {
    int exit_code; /* -1 when a signal ended it */
    double seconds;
    char *output; /* standard output, zero-terminated */
    char *errors; /* standard error, zero-terminated */
};

/**
 * Starts the command and does not wait.
 *
 * @param arguments what follows `eplb` on the command line, NULL after the last
 * @param output    descriptor that becomes standard output
 * @param errors    descriptor that becomes standard error
 * @param max_bytes no file may become larger: the system ends the process when it tries; -1 for
 *                  no such limit
 */
pid_t command_start(const char *const *arguments, int output, int errors, long max_bytes);

/** Runs the command to its end; *run is freed with command_free. */
void command_run(const char *const *arguments, struct command_run *run);

void command_free(struct command_run *run);

/**
 * Fails the test unless the run ended as one with bad input does: exit code 2, nothing on standard
 * output, and on standard error one line, a sentence that names `place`.
 */
void command_check_refused(const struct command_run *run, const char *place);

/** Replaces a file of the current folder. */
void command_write_file(const char *name, const void *bytes, size_t size);

/** Reads a file as a text that the caller frees. */
char *command_read_file(const char *name);

#endif
