/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Sleeping on a word of memory, also between processes that map the same page.
 */
#ifndef OS_FUTEX_H
#define OS_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/**
 * Sleeps while the word has the value `expected`, until it is woken, or until the deadline. Returns
 * without cause too (a signal): look at the word again.
 *
 * @param deadline nanoseconds on eplb_clock_system(), >= 0; INT64_MAX: none
 */
void eplb_futex_wait(const _Atomic uint32_t *word, uint32_t expected, int64_t deadline);

/** Wakes all that sleep on the word, in whatever process. Not blocking. */
void eplb_futex_wake(const _Atomic uint32_t *word);

/**
 * Looks at the word for a short time before one sleeps on it: a peer that answers at once is met
 * without two system calls.
 *
 * @param spin_ns longest time; 0 looks once
 * @return 1 when the word has another value than `expected`
 */
int eplb_spin(const _Atomic uint32_t *word, uint32_t expected, int64_t spin_ns);

/**
 * A spin time that pays: 0 when more threads want to run than there are processors, because spinning
 * then keeps the awaited one from running; else a few times what a wake-up costs.
 *
 * @param runnable processes or threads that are busy at a time
 */
int64_t eplb_spin_default(int32_t runnable);

#endif
