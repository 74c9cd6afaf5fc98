/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A placement under the even split that changes step by step: rank sums, sorted ranks and sorted
 * rows are kept up to date, so that a search sees the effect of a step without adding anything up anew.
 *
 * Loads count in units: scaled by a power of two so that they add up to below 2^61 and, where loads are
 * small, to at least 2^60. A share is floor(units / copies). A rank sum is thus too low by less than
 * slots_per_rank units, 2^-60 * slots_per_rank of the total; with a total of 2^61 or more the dropped low
 * bits of every load add as much again. All comparisons are of these integers, the same on every machine.
 */
#ifndef POLICY_EVEN_H
#define POLICY_EVEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "eplb/placement.h"

struct eplb_even {
    const struct eplb_shape *shape;
    int64_t *units;      /* [E] loads in units */
    int64_t *shares;     /* [E] of one replica */
    int64_t *fewer;      /* [E] of one replica with a copy less; INT64_MAX for an only copy */
    int64_t *more;       /* [E] of one replica with a copy more; INT64_MAX when every rank has one */
    int32_t *copies;     /* [E] */
    int32_t *first;      /* [E] head of the expert's list of replicas */
    int32_t *next;       /* [R * K] the list's links, -1 at its end */
    int32_t *rank_of;    /* [R * K] where a replica is */
    int32_t *rows;       /* [R][K] experts, those with the largest share first */
    int64_t *keys;       /* [R][K] their shares */
    uint8_t *strange;    /* [R][K] whether the expert was not on the rank at home */
    int64_t *sums;       /* [R] */
    int32_t *order;      /* [R] ranks by sum, smallest first */
    int32_t *place;      /* [R] where a rank stands in order */
    int64_t *spare;      /* [R] for sorting */
    const int32_t *home; /* [R][K] the placement that moves are counted from; NULL: not counted */
    int32_t moves;       /* slots that differ from home when experts that stay on a rank keep their slot */
    int64_t mean;        /* units of all ranks / R, rounded up */
};

void eplb_even_layout(struct eplb_even *even, struct eplb_arena *arena, const struct eplb_shape *shape);

/** Takes the load [E]; the placement is undefined until one is put in. */
void eplb_even_load(struct eplb_even *even, const int64_t *load);

/** Takes numbers of copies and works out the shares. */
void eplb_even_set_copies(struct eplb_even *even, const int32_t *copies);

/** Takes a legal placement [R][K], which may be even->rows, and counts no moves. O(P log P). */
void eplb_even_place(struct eplb_even *even, const int32_t *expert_ids);

/** Takes a legal placement and counts moves from it; home stays as it is while they are counted. */
void eplb_even_place_home(struct eplb_even *even, const int32_t *home);

/** Whether a rank holds an expert in the placement that moves are counted from; there is one. */
bool eplb_even_was_on(const struct eplb_even *even, int32_t expert, int32_t rank);

/** The largest rank sum. */
static inline int64_t eplb_even_peak(const struct eplb_even *even)
{
    return even->sums[even->order[even->shape->ep_size - 1]];
}

static inline int32_t *eplb_even_row(const struct eplb_even *even, int32_t rank)
{
    return even->rows + (size_t)rank * (size_t)even->shape->slots_per_rank;
}

static inline int64_t *eplb_even_keys(const struct eplb_even *even, int32_t rank)
{
    return even->keys + (size_t)rank * (size_t)even->shape->slots_per_rank;
}

/**
 * A peak that no placement is below: the mean, or without redundant slots, where no expert is split, the
 * largest expert. With them it is the mean: see eplb_balance.
 */
int64_t eplb_even_bound(const struct eplb_even *even);

/** Whether a rank holds an expert. */
bool eplb_even_holds(const struct eplb_even *even, int32_t expert, int32_t rank);

/** Exchanges position i of rank a's row with position j of rank b's; no rank may get a repeat. */
void eplb_even_swap(struct eplb_even *even, int32_t a, int32_t i, int32_t b, int32_t j);

/**
 * Puts a further replica of an expert at position i of a rank's row, in the place of an expert that
 * has another replica.
 */
void eplb_even_replace(struct eplb_even *even, int32_t rank, int32_t i, int32_t expert);

#endif
