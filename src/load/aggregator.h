/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The inside of struct eplb_aggregator, shared by aggregator.c (tables, windows) and sample.c (add).
 *
 * L, E, R, K: num_layers, num_experts, ep_size, slots_per_rank; P = R * K.
 *
 * Windows are numbered from 0. Window n has its logical load at logical[n mod 17] and its physical
 * load at physical[n mod 2]. With the open window n, the other 16 logical places are the history, so
 * closing a window copies no load, and nothing that is closed is written before the next close.
 */
#ifndef LOAD_AGGREGATOR_H
#define LOAD_AGGREGATOR_H

#include "base/wide.h"
#include "eplb/load.h"

enum { LOGICAL_PLACES = EPLB_HISTORY_WINDOWS + 1, PHYSICAL_PLACES = 2 };

/** A window in pieces, of one of the two windows that may be looked at. */
struct parts {
    int64_t *loads; /* [EPLB_WINDOW_PARTS][L][E], the first `count` in use */
    int32_t count;
    uint64_t samples; /* of each piece but the last */
    uint64_t samples_of_last;
};

struct eplb_aggregator {
    struct eplb_shape shape;
    int32_t num_older; /* tables kept per layer beside the active one: overlap + 1 */
    const struct eplb_log_sink *sink;
    struct eplb_sample_counters counters;
    uint64_t num_closed; /* the open window's number */
    struct eplb_window open;
    struct eplb_window closed;

    int32_t *layer_ids;                 /* [L] names in messages */
    uint64_t *generations;              /* [L] active */
    uint64_t *first_generations;        /* [L] at create: nothing older was ever known */
    uint64_t *closed_generations;       /* [L] */
    uint64_t *weight_versions;          /* [L] highest of the active generation: the physical load's */
    uint64_t *closed_weight_versions;   /* [L] */
    int32_t *active;                    /* [L][P] */
    int32_t *closed_table;              /* [L][P] */
    int32_t *older;                     /* [L][num_older][P]: generation g at g mod num_older */
    int64_t *logical[LOGICAL_PLACES];   /* [L][E] each */
    int64_t *physical[PHYSICAL_PLACES]; /* [L][P] each */
    struct parts parts[2];              /* of window n at n mod 2; see parts.c */
    int64_t *recent;                    /* [L][E] decayed load; see recent.c */
    int32_t recent_keep;    /* what a sample leaves of it, of EPLB_RECENT_ONE; negative: it is not kept */
    eplb_u128 *totals;      /* [L] sums of the open logical load: no entry is larger */
    uint8_t *rank_had_rows; /* [R] in the open window */

    /* Of the sample that is being added. */
    int64_t *counts;               /* [L][P] */
    eplb_u128 *sample_totals;      /* [L] sums of counts */
    uint8_t *sample_rank_has_rows; /* [R] */
    int64_t *row;                  /* [E] */
};

/** [E] of one layer in the open window. */
int64_t *eplb_aggregator_logical_row(const struct eplb_aggregator *aggregator, int32_t layer);

/** [P] of one layer in the open window. */
int64_t *eplb_aggregator_physical_row(const struct eplb_aggregator *aggregator, int32_t layer);

/** The piece [L][E] that the next sample of the open window belongs to. */
int64_t *eplb_aggregator_begin_part(struct eplb_aggregator *aggregator);

/** The open window's pieces, and their new beginning. */
struct parts *eplb_aggregator_open_parts(struct eplb_aggregator *aggregator);
void eplb_aggregator_restart_parts(struct eplb_aggregator *aggregator);

/** Adds a layer's counts, measured under a table that is kept, to the recent load. */
void eplb_aggregator_add_recent(struct eplb_aggregator *aggregator, int32_t layer, const int32_t *table,
                                const int64_t *counts);

/** The table [P] of a layer's generation; NULL when it is not kept or not there yet. */
const int32_t *eplb_aggregator_table(const struct eplb_aggregator *aggregator, int32_t layer,
                                     uint64_t generation);

#endif
