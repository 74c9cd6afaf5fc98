/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/unprivileged.h"

#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static const uint32_t passing_over = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;

/** Sets or clears the rights in the thread's effective set. */
static void change(int have)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    assert_int_equal(syscall(SYS_capget, &header, sets), 0);
    uint32_t rights =
        have ? sets[0].effective | (sets[0].permitted & passing_over) : sets[0].effective & ~passing_over;
    sets[0].effective = rights;
    assert_int_equal(syscall(SYS_capset, &header, sets), 0);
}

void unprivileged_begin(void)
{
    if (geteuid() != 0)
        return;
    /* A program that root starts gets all rights of the bounding set. */
    assert_int_equal(prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE), 0);
    assert_int_equal(prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH), 0);
    change(0);
}

void unprivileged_end(void)
{
    if (geteuid() == 0)
        change(1);
}
