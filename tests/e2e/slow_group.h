/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A rank's view of a group in which every message takes long, on a clock of the rank's own that only
 * these waits move. So a test sees what waits for messages and what does not, to the nanosecond.
 */
#ifndef E2E_SLOW_GROUP_H
#define E2E_SLOW_GROUP_H

#include <stdbool.h>

#include "eplb/group.h"
#include "support/hand_clock.h"

enum { SLOW_OPERATIONS = 64 };

struct slow_group {
    struct eplb_group group; /* what a transfer needs, and records; for an executor */
    const struct eplb_group *inner;
    struct hand_clock clock;
    int64_t delay_ns;
    int32_t num_operations;
    struct {
        struct eplb_op op;
        int64_t due;
        bool ended; /* inside, with this result */
        enum eplb_op_result result;
    } operations[SLOW_OPERATIONS];
    int32_t posts;
    int32_t early_votes; /* for commit, while an operation was outstanding */
};

/** Outlives what uses slow->group. */
void slow_group_init(struct slow_group *slow, const struct eplb_group *inner, int64_t delay_ns);

#endif
