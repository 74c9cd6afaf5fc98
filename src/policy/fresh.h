/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Placements from nothing for the even split: numbers of copies, then longest-processing-time packing.
 */
#ifndef POLICY_FRESH_H
#define POLICY_FRESH_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/even.h"

struct eplb_fresh {
    int32_t *by_load; /* [E] experts, those with the largest load first */
    int32_t *copies;  /* [E] */
    int64_t *keys;    /* [E] */
    int32_t *ids;     /* [E] */
    int64_t *heap;    /* [R] sums of the ranks that have a free slot */
    int32_t *ranks;   /* [R] these ranks */
    int32_t *used;    /* [R] filled slots */
};

void eplb_fresh_layout(struct eplb_fresh *fresh, struct eplb_arena *arena, const struct eplb_shape *shape);

/** Sorts the experts; the load is that of even. */
void eplb_fresh_start(struct eplb_fresh *fresh, const struct eplb_even *even);

/**
 * Chooses numbers of copies: as many as it takes to bring every share to at most `cap`; then the rest,
 * each to the largest share that is at most `rest_below`. Returns false when the cap needs too many.
 */
bool eplb_fresh_copies(struct eplb_fresh *fresh, const struct eplb_even *even, int64_t cap,
                       int64_t rest_below);

/** Packs the chosen copies into even. */
void eplb_fresh_pack(struct eplb_fresh *fresh, struct eplb_even *even);

#endif
