/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * How the ranks of a group in shared memory sleep: on the bell itself.
 */
#ifndef TRANSPORT_SHM_WAKER_H
#define TRANSPORT_SHM_WAKER_H

#include "transport/mesh.h"

/**
 * Longest sleep, whatever the deadline, in nanoseconds. A ring wakes at once; this is for a bell that a
 * peer has spoiled, so that who sleeps on it still learns that the peer is dead.
 */
#define EPLB_SHM_NAP_NS (INT64_C(100) * 1000000)

/** The waker's context; stays as long as the waker. */
struct eplb_shm_waker {
    int64_t spin_ns; /* how long to look at the bell before sleeping, >= 0 */
};

/** The waker with that context. */
struct eplb_waker eplb_shm_waker_of(struct eplb_shm_waker *context);

#endif
