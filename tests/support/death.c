/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/death.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void give_up(const char *what)
{
    perror(what);
    exit(1);
}

static _Noreturn void be_child(void (*run)(void *argument), void *argument, int output)
{
    /* An expected abort leaves no core file. */
    const struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (dup2(output, STDERR_FILENO) < 0)
        _exit(1);
    close(output);
    run(argument);
    _exit(0);
}

/* Reads to the end even when the text is full, so that the child never dies of a closed pipe. */
static void drain(int input, char *text, size_t capacity)
{
    char chunk[512];
    size_t length = 0;
    ssize_t got;
    while ((got = read(input, chunk, sizeof chunk)) > 0) {
        size_t room = capacity - 1 - length;
        size_t kept = (size_t)got < room ? (size_t)got : room;
        memcpy(text + length, chunk, kept);
        length += kept;
    }
    text[length] = '\0';
}

int death_of(void (*run)(void *argument), void *argument, char *errors, size_t capacity)
{
    int ends[2];
    if (pipe(ends) != 0)
        give_up("pipe");
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        give_up("fork");
    if (child == 0)
        be_child(run, argument, ends[1]);
    close(ends[1]);
    drain(ends[0], errors, capacity);
    close(ends[0]);
    int status;
    if (waitpid(child, &status, 0) != child)
        give_up("waitpid");
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}
