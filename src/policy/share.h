/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Shares: an expert's load divided by its replicas, compared exactly.
 */
#ifndef POLICY_SHARE_H
#define POLICY_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wide.h"

/** load / replicas of one physical expert; load <= 2^62, replicas >= 1. */
struct eplb_share {
    int64_t load;
    int32_t replicas;
    int32_t expert;
};

/** Whether a's quotient is larger than b's. */
static inline bool eplb_share_exceeds(const struct eplb_share *a, const struct eplb_share *b)
{
    return (eplb_u128)(uint64_t)a->load * (uint32_t)b->replicas >
           (eplb_u128)(uint64_t)b->load * (uint32_t)a->replicas;
}

/** Sorts by quotient, largest first; equal ones keep their order. scratch has room for count. */
void eplb_share_sort(struct eplb_share *shares, size_t count, struct eplb_share *scratch);

#endif
