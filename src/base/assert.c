/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/assert.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic(eplb_assert_handler) current_handler;

eplb_assert_handler eplb_set_assert_handler(eplb_assert_handler handler)
{
    /* Sequentially consistent: a handler that was set before a thread started is seen by it anyway,
     * and nothing else is published through this word. */
    return atomic_exchange(&current_handler, handler);
}

void eplb_assert_failed(const char *file, int line, const char *condition)
{
    eplb_assert_handler handler = atomic_load(&current_handler);
    if (handler != NULL)
        handler(file, line, condition);
    else
        fprintf(stderr, "eplb: %s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
