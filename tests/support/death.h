/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Running code that is expected to end its process.
 */
#ifndef SUPPORT_DEATH_H
#define SUPPORT_DEATH_H

#include <stddef.h>

/**
 * Calls run(argument) in a child process and waits for the end of it.
 *
 * @param errors receives what the child wrote to standard error, zero-terminated, cut when too long
 * @return the signal that ended the child; 0 when none did
 */
int death_of(void (*run)(void *argument), void *argument, char *errors, size_t capacity);

#endif
