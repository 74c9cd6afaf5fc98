/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Threads that sleep on descriptors: a descriptor that others wake them with, and the sleep.
 */
#ifndef ENGINE_WAKE_H
#define ENGINE_WAKE_H

#include <poll.h>
#include <stdint.h>

#include "eplb/status.h"

/**
 * A descriptor that is readable from eplb_wake_ring to eplb_wake_clear. Close it.
 *
 * @param whose named when the system has none to give (EPLB_IO)
 */
enum eplb_status eplb_wake_create(const char *whose, int *descriptor, struct eplb_error *error);

/** Any thread, any number of times; not blocking. */
void eplb_wake_ring(int descriptor);
void eplb_wake_clear(int descriptor);

/**
 * Sleeps until one of the descriptors is ready, or until `deadline` (eplb_clock_system(), INT64_MAX:
 * none). Wakes without cause too; revents are 0 then. Where the process may open fewer descriptors than these
 * (RLIMIT_NOFILE was lowered), it looks at them a hundred times a second.
 */
void eplb_wake_await(struct pollfd *polls, size_t count, int64_t deadline);

#endif
