/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Keeping fork() away from what no child may inherit half-made.
 *
 * Only fork() is kept away (pthread_atfork). What starts a child otherwise, a raw clone(2) or _Fork(), does
 * not ask; what begins with vfork shares the memory with its parent anyway.
 */
#ifndef OS_FORK_H
#define OS_FORK_H

#include <signal.h>

#include "eplb/status.h"

/** What eplb_fork_let_go gives back. */
struct eplb_fork_pause {
    sigset_t signals; /* the thread's mask */
};

/**
 * From here to eplb_fork_let_go a fork() in another thread waits, for some system calls that never wait
 * themselves. This thread takes no signal meanwhile: a handler that forked would wait for its own thread.
 * Does not nest.
 *
 * @return EPLB_OK; EPLB_NO_MEMORY when the system could not be told of it
 */
enum eplb_status eplb_fork_hold_off(struct eplb_fork_pause *pause, struct eplb_error *error);

void eplb_fork_let_go(const struct eplb_fork_pause *pause);

#endif
