/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "os/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

/* The process's, as signals are. Lock-free atomics are what a handler may touch. */
static _Atomic int first_signal;
static _Atomic int num_signals;
static _Atomic int event = -1; /* never closed: a handler may run at any time */

static void record(int signal)
{
    int before = errno;
    int none = 0;
    /* Relaxed, and the count released after it, with the acquire in eplb_signals_caught: who sees a count
     * finds the first signal. */
    atomic_compare_exchange_strong_explicit(&first_signal, &none, signal, memory_order_relaxed,
                                            memory_order_relaxed);
    atomic_fetch_add_explicit(&num_signals, 1, memory_order_release);
    const uint64_t one = 1;
    /* Relaxed: set before the handler was installed. The write fails only when the counter is full, and then
     * the descriptor is readable already. */
    ssize_t written = write(atomic_load_explicit(&event, memory_order_relaxed), &one, sizeof one);
    (void)written;
    errno = before;
}

static void install(int signal, void (*handler)(int))
{
    struct sigaction action = {.sa_flags = SA_RESTART};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    int failed = sigaction(signal, &action, NULL);
    EPLB_ASSERT(failed == 0);
}

enum eplb_status eplb_signals_catch(int *descriptor, struct eplb_error *error)
{
    /* Relaxed: called by one thread at a time. */
    int made = atomic_load_explicit(&event, memory_order_relaxed);
    if (made < 0) {
        made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (made < 0)
            EPLB_FAIL(EPLB_IO, "signals cannot be caught, there is no descriptor for them: %s",
                      strerror(errno));
        atomic_store_explicit(&event, made, memory_order_relaxed);
    }
    install(SIGINT, record);
    install(SIGTERM, record);
    install(SIGPIPE, SIG_IGN);
    *descriptor = made;
    return EPLB_OK;
}

int eplb_signals_caught(int *count)
{
    *count = atomic_load_explicit(&num_signals, memory_order_acquire);
    /* Relaxed: see record. A signal whose count is not seen yet is none yet. */
    return *count > 0 ? atomic_load_explicit(&first_signal, memory_order_relaxed) : 0;
}
