/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "os/fork.h"

#include <pthread.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* Held by who holds fork() off, and by fork() itself. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t told = PTHREAD_ONCE_INIT;
static int refusal; /* why the system could not be told; 0: it was */

static void close_gate(void)
{
    int failed = pthread_mutex_lock(&gate);
    EPLB_ASSERT(failed == 0);
}

/* Also in the child, whose only thread is the one that has closed it. */
static void open_gate(void)
{
    int failed = pthread_mutex_unlock(&gate);
    EPLB_ASSERT(failed == 0);
}

static void tell(void)
{
    refusal = pthread_atfork(close_gate, open_gate, open_gate);
}

enum eplb_status eplb_fork_hold_off(struct eplb_fork_pause *pause, struct eplb_error *error)
{
    sigset_t all;
    int failed = pthread_once(&told, tell);
    EPLB_ASSERT(failed == 0);
    if (refusal != 0)
        EPLB_FAIL(EPLB_NO_MEMORY, "forked children cannot be kept out: %s", strerror(refusal));
    sigfillset(&all);
    failed = pthread_sigmask(SIG_SETMASK, &all, &pause->signals);
    EPLB_ASSERT(failed == 0);
    close_gate();
    return EPLB_OK;
}

void eplb_fork_let_go(const struct eplb_fork_pause *pause)
{
    open_gate();
    int failed = pthread_sigmask(SIG_SETMASK, &pause->signals, NULL);
    EPLB_ASSERT(failed == 0);
}
