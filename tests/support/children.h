/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Forked children of a test: each runs one function and ends with 0, unless it dies before. They die
 * with the test, whatever becomes of it.
 */
#ifndef SUPPORT_CHILDREN_H
#define SUPPORT_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    int watch;   /* pidfd; -1 once it has ended */
    bool failed; /* it has ended, and not with 0 */
    int status;  /* as of waitpid */
};

/** Starts one that calls run(context, index). A failing cmocka assertion has no place in there: use
 * child_fail. */
void child_start(struct child *child, void (*run)(void *context, int32_t index), void *context,
                 int32_t index);

/** In a child: says what is wrong, and ends it. */
_Noreturn void child_fail(const char *sentence);

/** Kills it. Its end is for children_next to find. */
void child_kill(const struct child *child);

/**
 * Waits until one of them ends, until `deadline` (eplb_clock_system()) at the latest.
 *
 * @return its index; -1 when the deadline has passed, or all have ended
 */
int32_t children_next(struct child *children, int32_t count, int64_t deadline);

/** Waits for all that are left, kills those that are late, and returns how many failed, these included. */
int32_t children_finish(struct child *children, int32_t count, int64_t deadline);

#endif
