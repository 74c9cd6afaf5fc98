/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Root for whom the mode of a file counts, as it does for everybody else.
 */
#ifndef SUPPORT_UNPRIVILEGED_H
#define SUPPORT_UNPRIVILEGED_H

/**
 * Takes from this thread, and from what it starts, the right to pass over the modes of files. Fails
 * the test when it cannot. Nothing when it has no such right.
 */
void unprivileged_begin(void);

/** Gives the right back to this thread; what it starts later stays without. */
void unprivileged_end(void);

#endif
