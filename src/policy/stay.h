/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Keeping what can stay: ranks of a plan matched to the ranks of the active placement, experts to slots.
 */
#ifndef POLICY_STAY_H
#define POLICY_STAY_H

#include <stdint.h>

#include "base/arena.h"
#include "eplb/placement.h"

struct eplb_stay {
    const struct eplb_shape *shape;
    int32_t *first;   /* [E] head of an expert's list of active slots */
    int32_t *next;    /* [R * K] the list's links, -1 at its end */
    int32_t *stamp;   /* [E] the last rank that was seen to hold the expert, + 1 */
    int32_t *overlap; /* [R] experts in common with the row at hand */
    int32_t *taken;   /* [R] whether a row was matched to the active rank */
    int32_t *to;      /* [R] the active rank that a row is matched to, or -1 */
    int32_t *rows;    /* [R] rows by their largest overlap */
    int64_t *keys;    /* [R] these overlaps */
};

void eplb_stay_layout(struct eplb_stay *stay, struct eplb_arena *arena, const struct eplb_shape *shape);

/**
 * Matches every row of a plan to a rank of the active placement, rows with the largest overlap first, each
 * to the free rank with which it has most experts in common, ties to the lowest. Writes the matched
 * rows to matched [R][K], which is another array than rows.
 */
void eplb_stay_match(struct eplb_stay *stay, const int32_t *active, const int32_t *rows, int32_t *matched);

/**
 * Writes the rows with the order that keeps experts where they are: one that stays on its rank keeps its
 * slot, the others fill the free slots in order. expert_ids is another array than rows and active.
 * Returns the number of slots that differ from active.
 */
int32_t eplb_stay_keep(struct eplb_stay *stay, const int32_t *active, const int32_t *rows,
                       int32_t *expert_ids);

#endif
