/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Error macros. There are two: fail with a reason, and forward.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "eplb/status.h"

/** Returns from the enclosing function with a recorded reason; `error` must be in scope. */
#define EPLB_FAIL(status, ...) return eplb_fail(error, status, __VA_ARGS__)

/** Returns the status of a call that failed; whoever failed has recorded the reason. */
#define EPLB_TRY(call)                             \
    do {                                           \
        enum eplb_status eplb_try_status = (call); \
        if (eplb_try_status != EPLB_OK)            \
            return eplb_try_status;                \
    } while (0)

#endif
