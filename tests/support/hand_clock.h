/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A clock that a test moves by hand. It may be read and moved in any thread.
 */
#ifndef SUPPORT_HAND_CLOCK_H
#define SUPPORT_HAND_CLOCK_H

#include <stdatomic.h>

#include "eplb/clock.h"

struct hand_clock {
    struct eplb_clock clock;
    _Atomic int64_t now;
};

static inline int64_t hand_clock_read(void *context)
{
    return atomic_load(&((struct hand_clock *)context)->now);
}

static inline void hand_clock_init(struct hand_clock *clock)
{
    clock->clock = (struct eplb_clock){.size = sizeof clock->clock, .context = clock, .now = hand_clock_read};
    atomic_store(&clock->now, 0);
}

static inline void hand_clock_advance(struct hand_clock *clock, int64_t ns)
{
    atomic_fetch_add(&clock->now, ns);
}

#endif
