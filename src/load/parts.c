/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * The window in pieces, so that a policy sees how the load moved within it. All pieces but the last have
 * the same number of samples; when there is no room for a further one, neighbours are put together and that
 * number doubles. A window of any length has few pieces, and none is shorter than the last one may be.
 */
#include <string.h>

#include "base/assert.h"
#include "load/aggregator.h"

static size_t piece_length(const struct eplb_aggregator *aggregator)
{
    return (size_t)aggregator->shape.num_layers * (size_t)aggregator->shape.num_experts;
}

static int64_t *piece_of(const struct eplb_aggregator *aggregator, const struct parts *parts, int32_t part)
{
    EPLB_ASSERT(part >= 0 && part < EPLB_WINDOW_PARTS);
    return parts->loads + (size_t)part * piece_length(aggregator);
}

struct parts *eplb_aggregator_open_parts(struct eplb_aggregator *aggregator)
{
    return &aggregator->parts[aggregator->num_closed % 2];
}

static const struct parts *closed_parts(const struct eplb_aggregator *aggregator)
{
    return &aggregator->parts[(aggregator->num_closed + 1) % 2];
}

static void put_neighbours_together(const struct eplb_aggregator *aggregator, struct parts *parts)
{
    size_t length = piece_length(aggregator);
    EPLB_ASSERT(parts->count == EPLB_WINDOW_PARTS && parts->samples_of_last == parts->samples);
    for (int32_t i = 0; i < EPLB_WINDOW_PARTS / 2; i++) {
        int64_t *into = piece_of(aggregator, parts, i);
        const int64_t *first = piece_of(aggregator, parts, 2 * i);
        const int64_t *second = piece_of(aggregator, parts, 2 * i + 1);
        for (size_t e = 0; e < length; e++)
            into[e] = first[e] + second[e];
    }
    parts->count = EPLB_WINDOW_PARTS / 2;
    parts->samples *= 2;
}

int64_t *eplb_aggregator_begin_part(struct eplb_aggregator *aggregator)
{
    struct parts *parts = eplb_aggregator_open_parts(aggregator);
    if (parts->count == 0 || parts->samples_of_last == parts->samples) {
        if (parts->count == EPLB_WINDOW_PARTS)
            put_neighbours_together(aggregator, parts);
        parts->samples_of_last = 0;
        memset(piece_of(aggregator, parts, parts->count++), 0, piece_length(aggregator) * sizeof(int64_t));
    }
    parts->samples_of_last++;
    EPLB_ASSERT(parts->count <= EPLB_WINDOW_PARTS && parts->samples_of_last <= parts->samples);
    return piece_of(aggregator, parts, parts->count - 1);
}

void eplb_aggregator_restart_parts(struct eplb_aggregator *aggregator)
{
    struct parts *parts = eplb_aggregator_open_parts(aggregator);
    parts->count = 0;
    parts->samples = 1;
    parts->samples_of_last = 0;
}

int32_t eplb_aggregator_num_parts(const struct eplb_aggregator *aggregator)
{
    return closed_parts(aggregator)->count;
}

const int64_t *eplb_aggregator_part(const struct eplb_aggregator *aggregator, int32_t part)
{
    const struct parts *parts = closed_parts(aggregator);
    return part < 0 || part >= parts->count ? NULL : piece_of(aggregator, parts, part);
}
