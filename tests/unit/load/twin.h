/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The plain twin of struct eplb_aggregator: one loop per rule, element by element, in 128 bits, with
 * every table that ever was. Slow and obvious, to compare the real one with.
 */
#ifndef TESTS_LOAD_TWIN_H
#define TESTS_LOAD_TWIN_H

#include "base/wide.h"
#include "eplb/load.h"

enum { TWIN_LAYERS = 4, TWIN_EXPERTS = 16, TWIN_SLOTS = 48, TWIN_TABLES = 4096, TWIN_WINDOWS = 256 };

struct twin_window {
    int64_t logical[TWIN_LAYERS][TWIN_EXPERTS];
    int64_t physical[TWIN_LAYERS][TWIN_SLOTS];
};

struct twin {
    struct eplb_shape shape;
    uint64_t overlap;
    uint64_t generations[TWIN_LAYERS];
    int32_t tables[TWIN_LAYERS][TWIN_TABLES][TWIN_SLOTS]; /* by generation */
    struct twin_window windows[TWIN_WINDOWS];             /* by number; the last one is open */
    size_t num_closed;
};

/** A new twin whose layers all have the table [num_slots] as generation 0. */
struct twin *twin_create(const struct eplb_shape *shape, int32_t overlap, const int32_t *table);

/** Adds as eplb_aggregator_add does: taken or not in *taken, rows added to the logical load in *rows. */
enum eplb_status twin_add(struct twin *twin, const struct eplb_sample *sample, int *taken, int64_t *rows);

/** Commits a legal table [num_slots]. */
void twin_commit(struct twin *twin, int32_t layer, const int32_t *table);

void twin_close(struct twin *twin);

#endif
