/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "os/bell.h"

#include "eplb/clock.h"
#include "os/futex.h"

void eplb_bell_ring(struct eplb_bell *bell)
{
    /* Sequentially consistent, with the sleeper's two: either the ringer sees the sleeper, or the sleeper
     * sees the ring. With less, both could read before either write is seen, and the sleeper would
     * never wake. It also publishes what was changed before the ring. */
    atomic_fetch_add_explicit(&bell->rings, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&bell->sleepers, memory_order_seq_cst) != 0)
        eplb_futex_wake(&bell->rings);
}

uint32_t eplb_bell_hear(const struct eplb_bell *bell)
{
    /* Acquire: the condition is read after it, and what a heard ring published is seen. */
    return atomic_load_explicit(&bell->rings, memory_order_acquire);
}

static int64_t at_most_until(int64_t spin_ns, int64_t deadline)
{
    if (spin_ns <= 0)
        return 0;
    const struct eplb_clock *clock = eplb_clock_system();
    int64_t left = deadline - clock->now(clock->context);
    return spin_ns < left ? spin_ns : left;
}

void eplb_bell_sleep(struct eplb_bell *bell, uint32_t heard, int64_t spin_ns, int64_t deadline)
{
    if (eplb_spin(&bell->rings, heard, at_most_until(spin_ns, deadline)))
        return;
    /* The other half of what eplb_bell_ring argues. A sleeper that is killed here leaves the count raised:
     * that costs later ringers a system call, and nobody a wake-up. */
    atomic_fetch_add_explicit(&bell->sleepers, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&bell->rings, memory_order_seq_cst) == heard)
        eplb_futex_wait(&bell->rings, heard, deadline);
    /* Relaxed: a ringer that still sees the count wakes nobody, which does no harm. */
    atomic_fetch_sub_explicit(&bell->sleepers, 1, memory_order_relaxed);
}
