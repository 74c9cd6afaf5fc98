/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Assertions for the library's own bugs. Belongs to src/base.
 *
 * They stay in release builds. Bad input never reaches one: it is refused with a sentence.
 */
#ifndef EPLB_ASSERT_H
#define EPLB_ASSERT_H

#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Called when an assertion fails. When it returns, the process is aborted. */
typedef void (*eplb_assert_handler)(const char *file, int line, const char *condition);

/**
 * Replaces the handler of failed assertions. NULL restores the default, which writes file, line
 * and condition to standard error. Thread-safe; returns the previous handler (NULL: the default).
 */
EPLB_API eplb_assert_handler eplb_set_assert_handler(eplb_assert_handler handler);

#ifdef __cplusplus
}
#endif
#endif
