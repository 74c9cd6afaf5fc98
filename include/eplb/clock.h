/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The clock that the library reads. Belongs to src/base.
 *
 * Cores take the time as an argument; only shells read a clock, through this table, so that a
 * host or a test can replace it.
 */
#ifndef EPLB_CLOCK_H
#define EPLB_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A monotonic clock. Owned by the host. */
struct eplb_clock {
    size_t size;   /**< sizeof(struct eplb_clock). */
    void *context; /**< First argument of now. */
    /** Nanoseconds since an arbitrary start; never falls. Not blocking; called from any thread. */
    int64_t (*now)(void *context);
};

/** The machine's monotonic clock. The table is static; do not free it. */
EPLB_API const struct eplb_clock *eplb_clock_system(void);

#ifdef __cplusplus
}
#endif
#endif
