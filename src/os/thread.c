/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "os/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/error.h"

enum { NAME_BYTES = 16 }; /* the kernel's limit, with the terminating zero */

static void *enter(void *thread_argument)
{
    struct eplb_thread *thread = thread_argument;
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", NAME_BYTES - 1, thread->name);
    /* A thread without its name works as well. */
    (void)pthread_setname_np(pthread_self(), name);
    thread->run(thread->argument);
    return NULL;
}

enum eplb_status eplb_thread_start(struct eplb_thread *thread, const char *name, void (*run)(void *argument),
                                   void *argument, struct eplb_error *error)
{
    EPLB_ASSERT(name != NULL && run != NULL);
    *thread = (struct eplb_thread){.name = name, .run = run, .argument = argument};
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    /* The new thread inherits the mask, so it never runs a moment without it. */
    int failed = pthread_sigmask(SIG_SETMASK, &all, &before);
    EPLB_ASSERT(failed == 0);
    int reason = pthread_create(&thread->handle, NULL, enter, thread);
    failed = pthread_sigmask(SIG_SETMASK, &before, NULL);
    EPLB_ASSERT(failed == 0);
    if (reason != 0)
        EPLB_FAIL(EPLB_NO_MEMORY, "the thread '%s' cannot be created: %s", name, strerror(reason));
    return EPLB_OK;
}

void eplb_thread_join(struct eplb_thread *thread)
{
    int failed = pthread_join(thread->handle, NULL);
    EPLB_ASSERT(failed == 0);
}

enum eplb_status eplb_mutex_init(struct eplb_mutex *mutex, struct eplb_error *error)
{
    pthread_mutexattr_t attributes;
    int reason = pthread_mutexattr_init(&attributes);
    if (reason == 0) {
        /* Error checking makes a second lock or a foreign unlock an assertion instead of a hang. */
        reason = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
        EPLB_ASSERT(reason == 0);
        reason = pthread_mutex_init(&mutex->handle, &attributes);
        pthread_mutexattr_destroy(&attributes);
    }
    if (reason != 0)
        EPLB_FAIL(EPLB_NO_MEMORY, "a mutex cannot be created: %s", strerror(reason));
    return EPLB_OK;
}

void eplb_mutex_destroy(struct eplb_mutex *mutex)
{
    int failed = pthread_mutex_destroy(&mutex->handle);
    EPLB_ASSERT(failed == 0);
}

void eplb_mutex_lock(struct eplb_mutex *mutex)
{
    int failed = pthread_mutex_lock(&mutex->handle);
    EPLB_ASSERT(failed == 0);
}

void eplb_mutex_unlock(struct eplb_mutex *mutex)
{
    int failed = pthread_mutex_unlock(&mutex->handle);
    EPLB_ASSERT(failed == 0);
}

enum eplb_status eplb_condition_init(struct eplb_condition *condition, struct eplb_error *error)
{
    pthread_condattr_t attributes;
    int reason = pthread_condattr_init(&attributes);
    if (reason == 0) {
        /* The wall clock may jump; a deadline must not. */
        reason = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        EPLB_ASSERT(reason == 0);
        reason = pthread_cond_init(&condition->handle, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    if (reason != 0)
        EPLB_FAIL(EPLB_NO_MEMORY, "a condition variable cannot be created: %s", strerror(reason));
    return EPLB_OK;
}

void eplb_condition_destroy(struct eplb_condition *condition)
{
    int failed = pthread_cond_destroy(&condition->handle);
    EPLB_ASSERT(failed == 0);
}

void eplb_condition_broadcast(struct eplb_condition *condition)
{
    int failed = pthread_cond_broadcast(&condition->handle);
    EPLB_ASSERT(failed == 0);
}

void eplb_condition_wait(struct eplb_condition *condition, struct eplb_mutex *mutex)
{
    int failed = pthread_cond_wait(&condition->handle, &mutex->handle);
    EPLB_ASSERT(failed == 0);
}

int eplb_condition_wait_until(struct eplb_condition *condition, struct eplb_mutex *mutex, int64_t deadline)
{
    EPLB_ASSERT(deadline >= 0);
    struct timespec time = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    int reason = pthread_cond_timedwait(&condition->handle, &mutex->handle, &time);
    EPLB_ASSERT(reason == 0 || reason == ETIMEDOUT);
    return reason == 0;
}
