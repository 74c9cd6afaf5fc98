/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Sets of expert ids, small enough for the stack of any function (8 KiB).
 */
#ifndef PLACEMENT_EXPERT_SET_H
#define PLACEMENT_EXPERT_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "eplb/placement.h"

struct eplb_expert_set {
    uint64_t words[EPLB_MAX_EXPERTS / 64];
};

/** Empties the part of the set that ids below num_experts use. */
static inline void eplb_expert_set_clear(struct eplb_expert_set *set, int32_t num_experts)
{
    memset(set->words, 0, (size_t)(num_experts + 63) / 64 * sizeof set->words[0]);
}

static inline bool eplb_expert_set_has(const struct eplb_expert_set *set, int32_t expert)
{
    EPLB_ASSERT(expert >= 0 && expert < EPLB_MAX_EXPERTS);
    return set->words[expert / 64] >> (expert % 64) & 1;
}

static inline void eplb_expert_set_add(struct eplb_expert_set *set, int32_t expert)
{
    EPLB_ASSERT(expert >= 0 && expert < EPLB_MAX_EXPERTS);
    set->words[expert / 64] |= UINT64_C(1) << (expert % 64);
}

/** Takes an expert out, and with it those of the same word: for emptying a set member by member. */
static inline void eplb_expert_set_drop_word(struct eplb_expert_set *set, int32_t expert)
{
    set->words[expert / 64] = 0;
}

#endif
