/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What the terminal behind a descriptor can show.
 */
#ifndef OS_TERMINAL_H
#define OS_TERMINAL_H

/** Whether the descriptor is a terminal (not a file, a pipe or closed). */
int eplb_terminal_is(int descriptor);

/** Columns of the terminal; `fallback` where there is no terminal or it does not know. */
int eplb_terminal_width(int descriptor, int fallback);

/**
 * Whether colours may be written: a terminal, TERM set and not "dumb", and NO_COLOR unset or
 * empty (the convention of no-color.org). Reads the environment: not while another thread changes it.
 */
int eplb_terminal_colours(int descriptor);

#endif
