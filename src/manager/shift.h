/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Has the traffic left what the placement was made for? A statistical test per layer, in virtual time.
 *
 * The counts are cut into blocks, of EPLB_SHIFT_SAMPLES samples at least and of EPLB_SHIFT_ROWS counted rows
 * per expert of a layer at least. A block is held against the load that the placement in force was planned
 * from (the promise). In a layer with E experts of which some had load:
 *
 *   ratio = sum over experts (x/n - y/m)^2 / (p (1/n + 1/m)) / (E - 1) / dispersion
 *
 * x of n rows in the block, y of m in the promise, p of both: 1 on average when chance alone parts them,
 * Pearson's chi-square for two samples by its degrees of freedom. A block of more rows than it needs counts
 * as one of so many: traffic of one kind drifts, and what only a larger sample shows is no shift. The tokens
 * of one text resemble each other, so that counts scatter more than independent ones: the dispersion is how
 * much more, learned from neighbouring blocks, which are of one kind but for the one at the shift; it is 1
 * at least.
 *
 * The score is the ratio as a number of standard deviations: the z at which the chi-square distribution,
 * after Cornish and Fisher, has its quantile there. A layer departs when its score reaches the trigger and
 * its measured balance, largest by mean rank load, is so much worse than the promised one that restoring it
 * would pass the gate. The traffic shifted when half of the layers that were promised something departed,
 * or one with a ratio of EPLB_SHIFT_STRONG times what the trigger asks for.
 *
 * Only + - * / on doubles, in a fixed order: the same verdict from every compiler.
 */
#ifndef MANAGER_SHIFT_H
#define MANAGER_SHIFT_H

#include <stdbool.h>

#include "base/arena.h"
#include "eplb/placement.h"

/** Samples, and counted rows per expert of a layer, that a block has at least. */
enum { EPLB_SHIFT_SAMPLES = 8, EPLB_SHIFT_ROWS = 16, EPLB_SHIFT_STRONG = 4 };

/** Counted rows per expert of a layer that a plan after a shift needs, unless the host says otherwise. */
enum { EPLB_SHIFT_PLAN_ROWS = 128 };

struct eplb_shift {
    struct eplb_shape shape;
    double trigger;     /* > 0, standard deviations */
    double improvement; /* the gate's threshold */
    int64_t *promise;   /* [L][E] the load that was planned from */
    double *promised;   /* [L] its balance under the placement in force; 0: nothing is promised */
    int64_t *load;      /* [L][E] open window at the block's beginning */
    int64_t *slots;     /* [L][P] likewise */
    uint64_t *versions; /* [L] of the replica weights that these are of */
    int64_t *block;     /* [L][E] of the block that ended */
    int64_t *before;    /* [L][E] of the one before */
    bool has_before;
    double *dispersion; /* [L] */
    int32_t learned;    /* neighbours that it was learned from */
    double *score;      /* [L] of the last block; 0: not judged */
    double *measured;   /* [L] balance in it; 0: no rows */
    uint8_t *departed;  /* [L] */
};

/** What a block says of the layers together. */
struct eplb_shift_verdict {
    bool shifted;
    int32_t judged;   /* layers that were promised something and had rows */
    int32_t departed; /* of these */
    int32_t worst;    /* the layer of these with the highest score; EPLB_SHIFT_NONE */
};

enum { EPLB_SHIFT_NONE = -1 };

/** Takes the memory from an arena, which may be measuring. Zeroed memory is a test without a promise. */
void eplb_shift_layout(struct eplb_arena *arena, const struct eplb_shape *shape, struct eplb_shift *shift);

/** Begins. The memory is zeroed. trigger > 0; improvement in [0, 1]. */
void eplb_shift_start(struct eplb_shift *shift, const struct eplb_shape *shape, double trigger,
                      double improvement);

/** Whether so many samples with so many counted rows, of all layers together, make a block. */
bool eplb_shift_is_block(const struct eplb_shift *shift, uint64_t samples, int64_t rows);

/** A plan was made from load [E]. balance: largest by mean rank load that it leaves the layer at; 0: none. */
void eplb_shift_promise(struct eplb_shift *shift, int32_t layer, const int64_t *load, double balance);

/** The counts of a window that grows. */
struct eplb_shift_counts {
    const int64_t *load;      /* [L][E] */
    const int64_t *slots;     /* [L][P] under the newest replica weights: a new version starts at zero */
    const uint64_t *versions; /* [L] that version */
};

/** A block begins, at these counts. */
void eplb_shift_begin(struct eplb_shift *shift, const struct eplb_shift_counts *counts);

/** It ends, at these counts of the same window. Its layers ran one placement from beginning to end. */
struct eplb_shift_verdict eplb_shift_end(struct eplb_shift *shift, const struct eplb_shift_counts *counts);

#endif
