/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * How long the recent load remembers. Small samples are kept for long, since only many of them tell loads
 * from chance; large ones tell that sooner, and what they still keep of traffic that has gone is in the way.
 */
#ifndef LOAD_RECENT_H
#define LOAD_RECENT_H

#include <stdint.h>

enum {
    EPLB_RECENT_ONE = 1 << 16,
    /* A sample leaves at most the part at which the rows that are kept come to so many per expert, but half
     * at least: the rows of one forward resemble each other. */
    EPLB_RECENT_ENOUGH_ROWS = 64,
};

/** What a sample of so many rows leaves of the recent load, of EPLB_RECENT_ONE; `most` at most. */
static inline int64_t eplb_recent_kept(int32_t most, int64_t rows, int32_t num_experts)
{
    int64_t enough = (int64_t)EPLB_RECENT_ENOUGH_ROWS * num_experts;
    int64_t kept = EPLB_RECENT_ONE - EPLB_RECENT_ONE * (rows < enough / 2 ? rows : enough / 2) / enough;
    return most < kept ? most : kept;
}

#endif
