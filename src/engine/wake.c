/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/wake.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/clock.h"

#define SECOND_NS INT64_C(1000000000)

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

void eplb_wake_await(struct pollfd *polls, size_t count, int64_t deadline)
{
    int64_t now = eplb_clock_system()->now(NULL);
    int64_t left = deadline > now ? deadline - now : 0;
    struct timespec time = {.tv_sec = left / SECOND_NS, .tv_nsec = left % SECOND_NS};
    if (ppoll(polls, (nfds_t)count, deadline == INT64_MAX ? NULL : &time, NULL) >= 0)
        return;
    EPLB_ASSERT(errno == EINTR || errno == ENOMEM);
    for (size_t i = 0; i < count; i++)
        polls[i].revents = 0;
}
