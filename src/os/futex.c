/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "os/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "eplb/clock.h"
#include "os/process.h"

enum {
    NS_PER_SECOND = 1000000000,
    LOOKS_PER_CLOCK = 16,    /* a look costs a few nanoseconds, the clock some twenty */
    DEFAULT_SPIN_NS = 10000, /* about a wake-up; longer hurts more on a busy machine than it helps */
};

static int64_t now(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context);
}

void eplb_futex_wait(const _Atomic uint32_t *word, uint32_t expected, int64_t deadline)
{
    struct timespec until = {.tv_sec = (time_t)(deadline / NS_PER_SECOND),
                             .tv_nsec = (long)(deadline % NS_PER_SECOND)};
    /* FUTEX_WAIT_BITSET takes a time of CLOCK_MONOTONIC, FUTEX_WAIT a length. Not private: another
     * process may map the page. */
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, deadline == INT64_MAX ? NULL : &until,
                          NULL, FUTEX_BITSET_MATCH_ANY);
    EPLB_ASSERT(result == 0 || (errno != EINVAL && errno != ENOSYS));
}

void eplb_futex_wake(const _Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

int eplb_spin(const _Atomic uint32_t *word, uint32_t expected, int64_t spin_ns)
{
    /* Acquire, here and below: whoever sees the new value goes on with what was written before it. */
    if (atomic_load_explicit(word, memory_order_acquire) != expected)
        return 1;
    if (spin_ns <= 0)
        return 0;
    int64_t begin = now();
    do {
        for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
            pause_briefly();
            if (atomic_load_explicit(word, memory_order_acquire) != expected)
                return 1;
        }
    } while (now() - begin < spin_ns);
    return 0;
}

int64_t eplb_spin_default(int32_t runnable)
{
    return runnable > eplb_process_processors() ? 0 : DEFAULT_SPIN_NS;
}
