/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "transport/shm_waker.h"

#include "base/assert.h"
#include "eplb/clock.h"
#include "os/futex.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t time_now(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context);
}

static bool spin_on_bell(void *context, const _Atomic uint32_t *bell, uint32_t heard, int64_t deadline)
{
    const struct eplb_shm_waker *waker = context;
    if (waker->spin_ns == 0)
        return false;
    int64_t left = deadline - time_now();
    return left > 0 && eplb_spin(bell, heard, least(waker->spin_ns, left)) != 0;
}

static void sleep_on_bell(void *context, int32_t rank, const _Atomic uint32_t *bell, uint32_t heard,
                          int64_t deadline)
{
    (void)context, (void)rank;
    EPLB_ASSERT(deadline >= 0);
    eplb_futex_wait(bell, heard, least(deadline, time_now() + EPLB_SHM_NAP_NS));
}

static void wake_sleepers(void *context, int32_t rank, _Atomic uint32_t *bell)
{
    (void)context, (void)rank;
    eplb_futex_wake(bell);
}

struct eplb_waker eplb_shm_waker_of(struct eplb_shm_waker *context)
{
    EPLB_ASSERT(context->spin_ns >= 0);
    return (struct eplb_waker){
        .context = context, .spin = spin_on_bell, .sleep = sleep_on_bell, .wake = wake_sleepers};
}
