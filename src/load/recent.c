/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * The recent load: every sample leaves a part of what was there and adds its own counts. In integers, so
 * that a recording that is run again gives the same.
 *
 * A sample's counts are capped at MAX_COUNT and kept in units of 1 / UNIT; the load at MAX_RECENT, so that
 * its product with what is kept is below 2^62.
 */
#include "load/recent.h"

#include "base/assert.h"
#include "base/error.h"
#include "load/aggregator.h"

enum { UNIT = 1 << 8, MAX_COUNT = 1 << 26 };

#define MAX_RECENT (INT64_C(1) << 46)

enum eplb_status eplb_aggregator_keep_recent(struct eplb_aggregator *aggregator, double decay,
                                             struct eplb_error *error)
{
    if (!(decay >= 0 && decay <= EPLB_MAX_RECENT_DECAY))
        EPLB_FAIL(EPLB_INVALID, "the decay of the recent load is %.17g; allowed is 0 to %.3f", decay,
                  EPLB_MAX_RECENT_DECAY);
    aggregator->recent_keep = (int32_t)(decay * EPLB_RECENT_ONE);
    EPLB_ASSERT(aggregator->recent_keep >= 0 && aggregator->recent_keep < EPLB_RECENT_ONE);
    return EPLB_OK;
}

const int64_t *eplb_aggregator_recent(const struct eplb_aggregator *aggregator)
{
    return aggregator->recent;
}

void eplb_aggregator_add_recent(struct eplb_aggregator *aggregator, int32_t layer, const int32_t *table,
                                const int64_t *counts)
{
    const struct eplb_shape *shape = &aggregator->shape;
    EPLB_ASSERT(layer >= 0 && layer < shape->num_layers && aggregator->recent_keep >= 0);
    int64_t *recent = aggregator->recent + (size_t)layer * (size_t)shape->num_experts;
    int64_t rows = 0;
    for (int32_t p = 0; p < shape->num_slots; p++)
        rows += counts[p] < MAX_COUNT ? counts[p] : MAX_COUNT;
    int64_t kept = eplb_recent_kept(aggregator->recent_keep, rows, shape->num_experts);
    for (int32_t e = 0; e < shape->num_experts; e++)
        recent[e] = recent[e] * kept / EPLB_RECENT_ONE;
    for (int32_t p = 0; p < shape->num_slots; p++) {
        int64_t count = counts[p] < MAX_COUNT ? counts[p] : MAX_COUNT;
        EPLB_ASSERT(count >= 0 && table[p] >= 0 && table[p] < shape->num_experts);
        int64_t sum = recent[table[p]] + count * UNIT;
        recent[table[p]] = sum < MAX_RECENT ? sum : MAX_RECENT;
    }
}
