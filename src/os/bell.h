/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A bell in shared memory: whoever changes something that another may wait for rings it; who waits
 * sleeps on it. Costs no system call while nobody sleeps. All zeros at first.
 *
 *   waiter: heard = hear(); look at the condition; sleep(heard)     no ring after hear is missed
 *   ringer: change the condition; ring()
 */
#ifndef OS_BELL_H
#define OS_BELL_H

#include <stdatomic.h>
#include <stdint.h>

struct eplb_bell {
    _Atomic uint32_t rings;    /* raised by every ring */
    _Atomic uint32_t sleepers; /* threads that may sleep on `rings` */
};

void eplb_bell_ring(struct eplb_bell *bell);

/** The bell as it stands: to be read before one looks at what one would wait for. */
uint32_t eplb_bell_hear(const struct eplb_bell *bell);

/**
 * Spins up to spin_ns, not beyond the deadline, then sleeps, until the bell has been rung since it was
 * `heard`, or until the deadline (eplb_clock_system(), INT64_MAX: none). May return without cause.
 */
void eplb_bell_sleep(struct eplb_bell *bell, uint32_t heard, int64_t spin_ns, int64_t deadline);

#endif
