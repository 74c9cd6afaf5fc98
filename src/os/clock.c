/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/clock.h"

#include <time.h>

#include "base/assert.h"

static int64_t monotonic_now(void *context)
{
    (void)context;
    struct timespec time;
    int failed = clock_gettime(CLOCK_MONOTONIC, &time);
    EPLB_ASSERT(failed == 0);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

const struct eplb_clock *eplb_clock_system(void)
{
    static const struct eplb_clock system_clock = {.size = sizeof system_clock, .now = monotonic_now};
    return &system_clock;
}
