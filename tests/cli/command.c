/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 16 };

static _Noreturn void become(char **argv, int output, int errors, long max_bytes)
{
    const struct rlimit no_core = {0, 0};
    const struct rlimit file_size = {(rlim_t)max_bytes, (rlim_t)max_bytes};
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool ready = setenv("LC_ALL", "C", 1) == 0 && setrlimit(RLIMIT_CORE, &no_core) == 0 &&
                 (max_bytes < 0 || setrlimit(RLIMIT_FSIZE, &file_size) == 0) &&
                 dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
                 dup2(errors, STDERR_FILENO) >= 0;
    if (ready)
        execv(argv[0], argv);
    _exit(127);
}

pid_t command_start(const char *const *arguments, int output, int errors, long max_bytes)
{
    char *argv[MAX_ARGUMENTS + 2] = {(char[]){EPLB_COMMAND}};
    for (int i = 0; arguments[i] != NULL; i++) {
        assert_true(i < MAX_ARGUMENTS);
        argv[i + 1] = strdup(arguments[i]);
        assert_non_null(argv[i + 1]);
    }
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        fail_msg("fork: %s", strerror(errno));
    if (child == 0)
        become(argv, output, errors, max_bytes);
    for (int i = 1; argv[i] != NULL; i++)
        free(argv[i]);
    return child;
}

/* A file that has no name and, unlike a pipe, never fills up. */
static int open_unnamed(void)
{
    int descriptor = memfd_create("output", MFD_CLOEXEC);
    if (descriptor < 0)
        fail_msg("memfd_create: %s", strerror(errno));
    return descriptor;
}

static char *take_text(int descriptor, const char *name)
{
    struct stat info;
    assert_int_equal(fstat(descriptor, &info), 0);
    size_t size = (size_t)info.st_size;
    char *text = malloc(size + 1);
    assert_non_null(text);
    if (pread(descriptor, text, size, 0) != info.st_size)
        fail_msg("%s: cannot read", name);
    text[size] = '\0';
    close(descriptor);
    return text;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void command_run(const char *const *arguments, struct command_run *run)
{
    int output = open_unnamed();
    int errors = open_unnamed();
    double start = now();
    pid_t child = command_start(arguments, output, errors, -1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    *run = (struct command_run){.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                                .seconds = now() - start,
                                .output = take_text(output, "standard output"),
                                .errors = take_text(errors, "standard error")};
}

void command_free(struct command_run *run)
{
    free(run->output);
    free(run->errors);
}

void command_check_refused(const struct command_run *run, const char *place)
{
    static const char start[] = "eplb: ";
    const char *newline = strchr(run->errors, '\n');
    bool one_line = newline != NULL && newline[1] == '\0';
    if (run->exit_code != 2 || run->output[0] != '\0' || !one_line ||
        strncmp(run->errors, start, strlen(start)) != 0 || strstr(run->errors, place) == NULL)
        fail_msg("exit code %d, %zu bytes on standard output, and on standard error, where one sentence "
                 "about %s belongs: %s",
                 run->exit_code, strlen(run->output), place, run->errors);
}

void command_write_file(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(name, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        fail_msg("%s: cannot write: %s", name, strerror(errno));
}

char *command_read_file(const char *name)
{
    int descriptor = open(name, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        fail_msg("%s: cannot open: %s", name, strerror(errno));
    return take_text(descriptor, name);
}
