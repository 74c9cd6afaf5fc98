/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Strangers' text, a character at a time.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/** Bytes of the UTF-8 character at text, 1 to 4; 0 when it is malformed or the end of the text. */
size_t eplb_utf8_length(const char *text);

/** The same; 0 also for a control character, which could move a terminal's cursor. */
size_t eplb_utf8_printable(const char *text);

#endif
