/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * SIGINT and SIGTERM as events of a loop. Nothing is done inside a handler: unmapping or freeing there
 * would pull memory from under other threads.
 */
#ifndef OS_SIGNALS_H
#define OS_SIGNALS_H

#include "eplb/status.h"

/**
 * From now on SIGINT and SIGTERM are recorded instead of ending the process. SIGPIPE is ignored.
 * A second SIGINT or SIGTERM is recorded too; nothing is lost, and nothing is ever forgotten.
 *
 * Interrupted system calls are restarted (SA_RESTART), so that a signal makes no file or pipe of the host's
 * fail with EINTR. Those that the system never restarts (poll, epoll_wait) still end early. A loop
 * learns of a signal from the descriptor, not from an interrupted call.
 *
 * One thread at a time. A second call installs the handlers again and gives the same descriptor.
 *
 * @param descriptor receives one that is readable (poll) from the first signal on; stays open; must not
 *                   be read, written or closed
 */
enum eplb_status eplb_signals_catch(int *descriptor, struct eplb_error *error);

/** The signal recorded first, and how many were; 0 when none. Any thread; not blocking. */
int eplb_signals_caught(int *count);

#endif
