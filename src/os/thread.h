/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Threads, mutexes and condition variables, as thin as the shells need them.
 *
 * Creating can fail and says why. Everything after that can fail only through a bug of ours (a
 * mutex locked twice by one thread, unlocked by another, destroyed while held) and is asserted.
 */
#ifndef OS_THREAD_H
#define OS_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "eplb/status.h"

/** A running thread. Stays where it is, and is owned by its creator, until it was joined. */
struct eplb_thread {
    pthread_t handle;
    const char *name;
    void (*run)(void *argument);
    void *argument;
};

/**
 * Starts a thread that calls run(argument). All signals are blocked in it, so that the host's
 * handlers run on the host's threads.
 *
 * @param name     shown by ps and debuggers, which keep its first 15 bytes; lives until the join
 * @return EPLB_OK; EPLB_NO_MEMORY with the name when the system has no thread to give
 */
enum eplb_status eplb_thread_start(struct eplb_thread *thread, const char *name, void (*run)(void *argument),
                                   void *argument, struct eplb_error *error);

/** Waits until run returned. Exactly once per started thread, from another thread. */
void eplb_thread_join(struct eplb_thread *thread);

struct eplb_mutex {
    pthread_mutex_t handle;
};

enum eplb_status eplb_mutex_init(struct eplb_mutex *mutex, struct eplb_error *error);
void eplb_mutex_destroy(struct eplb_mutex *mutex);
void eplb_mutex_lock(struct eplb_mutex *mutex);
void eplb_mutex_unlock(struct eplb_mutex *mutex);

/** A condition variable whose deadlines are times of eplb_clock_system(). */
struct eplb_condition {
    pthread_cond_t handle;
};

enum eplb_status eplb_condition_init(struct eplb_condition *condition, struct eplb_error *error);
void eplb_condition_destroy(struct eplb_condition *condition);

/** Wakes all waiters. The mutex need not be held. */
void eplb_condition_broadcast(struct eplb_condition *condition);

/** Releases the held mutex, waits, takes it again. Wakes without cause too: check the predicate in a loop. */
void eplb_condition_wait(struct eplb_condition *condition, struct eplb_mutex *mutex);

/**
 * As eplb_condition_wait, until `deadline` at the latest.
 *
 * @param deadline nanoseconds on eplb_clock_system(), >= 0
 * @return 0 when the deadline has passed, else 1 (check the predicate in both cases)
 */
int eplb_condition_wait_until(struct eplb_condition *condition, struct eplb_mutex *mutex, int64_t deadline);

#endif
