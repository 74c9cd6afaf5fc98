/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * EPLB_ASSERT: a condition that only a bug of ours can break. Kept in release builds.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#include "eplb/assert.h"

/** Calls the handler, then aborts. */
_Noreturn void eplb_assert_failed(const char *file, int line, const char *condition);

#define EPLB_ASSERT(condition) \
    ((__builtin_expect(!(condition), 0)) ? eplb_assert_failed(__FILE__, __LINE__, #condition) : (void)0)

#endif
