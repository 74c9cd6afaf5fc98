/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/wake.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/clock.h"

#define SECOND_NS INT64_C(1000000000)

/* Between looks where the system takes no wait for all descriptors. */
#define NAP_NS (SECOND_NS / 100)

/* Descriptors of these numbers can be looked at one by one: as many as FD_SETSIZE each. */
enum { SETS = 64 };

enum eplb_status eplb_wake_create(const char *whose, int *descriptor, struct eplb_error *error)
{
    int created = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (created < 0)
        EPLB_FAIL(EPLB_IO, "%s cannot have a descriptor that wakes it: %s", whose, strerror(errno));
    *descriptor = created;
    return EPLB_OK;
}

void eplb_wake_ring(int descriptor)
{
    const uint64_t one = 1;
    ssize_t written = write(descriptor, &one, sizeof one);
    /* Full after 2^64 - 2 rings that nobody cleared; it is readable then, too. */
    EPLB_ASSERT(written == sizeof one || errno == EAGAIN);
}

void eplb_wake_clear(int descriptor)
{
    uint64_t rings;
    ssize_t got = read(descriptor, &rings, sizeof rings);
    EPLB_ASSERT(got == sizeof rings || errno == EAGAIN);
}

/* ---- the sleep ---- */

/* `left` may be INT64_MAX. */
static struct timespec time_of(int64_t left)
{
    return (struct timespec){.tv_sec = (time_t)(left / SECOND_NS), .tv_nsec = (long)(left % SECOND_NS)};
}

/*
 * Looks at them one by one with select, which does not care for the limit of descriptors. One whose number is
 * beyond the set counts as not ready.
 */
static bool look_one_by_one(struct pollfd *polls, size_t count)
{
    const struct timespec at_once = {0};
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        fd_set sets[SETS];
        const int most = SETS * FD_SETSIZE;
        polls[i].revents = 0;
        if (polls[i].fd < 0 || polls[i].fd >= most)
            continue;
        memset(sets, 0, sizeof sets);
        /* A set is an array of bits; FD_SET itself stops at the first FD_SETSIZE. */
        FD_SET(polls[i].fd % FD_SETSIZE, &sets[polls[i].fd / FD_SETSIZE]);
        if (pselect(polls[i].fd + 1, sets, NULL, NULL, &at_once, NULL) > 0) {
            polls[i].revents = POLLIN;
            any = true;
        }
    }
    return any;
}

/* The process may open fewer descriptors than it has, so ppoll does not take them all at once. */
static void await_in_turns(struct pollfd *polls, size_t count, int64_t left)
{
    if (look_one_by_one(polls, count))
        return;
    struct timespec nap = time_of(left < NAP_NS ? left : NAP_NS);
    (void)ppoll(NULL, 0, &nap, NULL);
    (void)look_one_by_one(polls, count);
}

void eplb_wake_await(struct pollfd *polls, size_t count, int64_t deadline)
{
    int64_t now = eplb_clock_system()->now(NULL);
    int64_t left = deadline > now ? deadline - now : 0;
    struct timespec time = time_of(left);
    if (ppoll(polls, (nfds_t)count, deadline == INT64_MAX ? NULL : &time, NULL) >= 0)
        return;
    if (errno == EINVAL) {
        await_in_turns(polls, count, left);
        return;
    }
    EPLB_ASSERT(errno == EINTR || errno == ENOMEM);
    for (size_t i = 0; i < count; i++)
        polls[i].revents = 0;
}
