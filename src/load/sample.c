/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * Adding a sample. Everything is decided before anything is written: the sizes and generations,
 * then the prefixes, which are decoded to counts, then the room in the window.
 */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/planted.h"
#include "load/aggregator.h"
#include "load/prefix.h"

static enum eplb_status check_report(const struct eplb_shape *shape, const struct eplb_rank_report *report,
                                     int32_t rank, struct eplb_error *error)
{
    if (report->num_layers != shape->num_layers)
        EPLB_FAIL(EPLB_REFUSED, "sample refused: rank %d reports %d layers, not %d", rank, report->num_layers,
                  shape->num_layers);
    if (report->slots_per_rank != shape->slots_per_rank)
        EPLB_FAIL(EPLB_REFUSED, "sample refused: rank %d reports %d slots in every layer, not %d", rank,
                  report->slots_per_rank, shape->slots_per_rank);
    if (report->generations == NULL)
        EPLB_FAIL(EPLB_REFUSED, "sample refused: rank %d reports no generation of any layer", rank);
    return EPLB_OK;
}

static uint64_t version_of(const struct eplb_rank_report *report, int32_t layer)
{
    return report->weight_versions == NULL ? 0 : report->weight_versions[layer];
}

static enum eplb_status compare_versions(const struct eplb_aggregator *aggregator,
                                         const struct eplb_sample *sample, int32_t first, int32_t rank,
                                         struct eplb_error *error)
{
    const struct eplb_rank_report *a = &sample->ranks[first];
    const struct eplb_rank_report *b = &sample->ranks[rank];
    for (int32_t l = 0; l < aggregator->shape.num_layers; l++)
        if (version_of(a, l) != version_of(b, l))
            EPLB_FAIL(EPLB_INCONSISTENT,
                      "layer %d: rank %d ran the forward under weight version %llu, rank %d under weight "
                      "version %llu",
                      aggregator->layer_ids[l], first, (unsigned long long)version_of(a, l), rank,
                      (unsigned long long)version_of(b, l));
    return EPLB_OK;
}

static enum eplb_status compare_generations(const struct eplb_aggregator *aggregator,
                                            const struct eplb_sample *sample, int32_t first, int32_t rank,
                                            struct eplb_error *error)
{
    int32_t num_layers = aggregator->shape.num_layers;
    const uint64_t *expected = sample->ranks[first].generations;
    const uint64_t *actual = sample->ranks[rank].generations;
    if (memcmp(expected, actual, (size_t)num_layers * sizeof *actual) == 0)
        return compare_versions(aggregator, sample, first, rank, error);
    int32_t l = 0;
    while (expected[l] == actual[l])
        l++;
    EPLB_ASSERT(l < num_layers);
    EPLB_FAIL(EPLB_INCONSISTENT,
              "layer %d: rank %d ran the forward under generation %llu, rank %d under generation %llu",
              aggregator->layer_ids[l], first, (unsigned long long)expected[l], rank,
              (unsigned long long)actual[l]);
}

static int is_whole(const struct eplb_sample *sample)
{
    for (int32_t r = 0; r < sample->num_ranks; r++)
        if (sample->ranks[r].prefix == NULL)
            return 0;
    return 1;
}

/* Whether a rank's report has generations that can be compared, whatever else is wrong with it. */
static int has_generations(const struct eplb_aggregator *aggregator, const struct eplb_sample *sample,
                           int32_t rank)
{
    EPLB_ASSERT(rank >= 0 && rank < sample->num_ranks);
    const struct eplb_rank_report *report = &sample->ranks[rank];
    return report->prefix != NULL && report->generations != NULL &&
           report->num_layers == aggregator->shape.num_layers;
}

enum eplb_status eplb_aggregator_check_generations(const struct eplb_aggregator *aggregator,
                                                   const struct eplb_sample *sample, struct eplb_error *error)
{
    int32_t first = -1;
    for (int32_t r = 0; r < sample->num_ranks && r < aggregator->shape.ep_size; r++) {
        if (!has_generations(aggregator, sample, r))
            continue;
        if (first >= 0)
            EPLB_TRY(compare_generations(aggregator, sample, first, r, error));
        else
            first = r;
    }
    return EPLB_OK;
}

/* Generations first: that ranks disagree matters more than that one of them reports nonsense. */
static enum eplb_status check_reports(const struct eplb_aggregator *aggregator,
                                      const struct eplb_sample *sample, struct eplb_error *error)
{
    const struct eplb_shape *shape = &aggregator->shape;
    EPLB_TRY(eplb_aggregator_check_generations(aggregator, sample, error));
    if (sample->num_ranks != shape->ep_size)
        EPLB_FAIL(EPLB_REFUSED, "sample refused: %d ranks report, not %d", sample->num_ranks, shape->ep_size);
    for (int32_t r = 0; r < shape->ep_size; r++)
        if (sample->ranks[r].prefix != NULL)
            EPLB_TRY(check_report(shape, &sample->ranks[r], r, error));
    return EPLB_OK;
}

static enum eplb_status refuse_prefix(const struct eplb_aggregator *aggregator, const int64_t *prefix,
                                      int32_t rank, struct eplb_error *error)
{
    const struct eplb_shape *shape = &aggregator->shape;
    size_t n = (size_t)shape->slots_per_rank;
    int32_t l = 0;
    size_t slot;
    while ((slot = eplb_prefix_first_fall(prefix, n)) == n) {
        prefix += n;
        l++;
        EPLB_ASSERT(l < shape->num_layers);
    }
    EPLB_FAIL(EPLB_REFUSED,
              "sample refused: rank %d, layer %d, slot %zu: prefix sum %lld is below %lld, the sum before it",
              rank, aggregator->layer_ids[l], slot, (long long)prefix[slot],
              (long long)(slot == 0 ? 0 : prefix[slot - 1]));
}

/* Decodes all reports to counts and sample_totals. */
static enum eplb_status decode(struct eplb_aggregator *aggregator, const struct eplb_sample *sample,
                               struct eplb_error *error)
{
    const struct eplb_shape *shape = &aggregator->shape;
    size_t n = (size_t)shape->slots_per_rank;
    memset(aggregator->sample_totals, 0, (size_t)shape->num_layers * sizeof *aggregator->sample_totals);
    for (int32_t r = 0; r < shape->ep_size; r++) {
        const int64_t *prefix = sample->ranks[r].prefix;
        int64_t *counts = aggregator->counts + (size_t)r * n;
        int64_t sign = 0;
        int64_t any = 0;
        for (int32_t l = 0; l < shape->num_layers; l++) {
            sign |= eplb_prefix_differences(prefix, n, counts);
            any |= prefix[n - 1];
            aggregator->sample_totals[l] += (uint64_t)prefix[n - 1];
            prefix += n;
            counts += shape->num_slots;
        }
        if (sign < 0)
            return refuse_prefix(aggregator, sample->ranks[r].prefix, r, error);
        EPLB_ASSERT(any >= 0);
        aggregator->sample_rank_has_rows[r] = any != 0;
    }
    return EPLB_OK;
}

/* Whether each logical entry of a layer has room for its counts; exact, and slower than the bound. */
static enum eplb_status check_entries(struct eplb_aggregator *aggregator, int32_t layer, const int32_t *table,
                                      struct eplb_error *error)
{
    const struct eplb_shape *shape = &aggregator->shape;
    EPLB_ASSERT(table != NULL && layer >= 0 && layer < shape->num_layers);
    const int64_t *counts = aggregator->counts + (size_t)layer * (size_t)shape->num_slots;
    int64_t *row = aggregator->row;
    memcpy(row, eplb_aggregator_logical_row(aggregator, layer), (size_t)shape->num_experts * sizeof *row);
    for (int32_t p = 0; p < shape->num_slots; p++) {
        int32_t expert = table[p];
        EPLB_ASSERT(counts[p] >= 0 && row[expert] <= EPLB_MAX_LOAD);
        if (counts[p] > EPLB_MAX_LOAD - row[expert])
            EPLB_FAIL(EPLB_REFUSED,
                      "sample refused: rank %d, layer %d, slot %d: %lld rows would carry the window's load "
                      "of expert %d from %lld past 2^62",
                      p / shape->slots_per_rank, aggregator->layer_ids[layer], p % shape->slots_per_rank,
                      (long long)counts[p], expert, (long long)row[expert]);
        row[expert] += counts[p];
    }
    return EPLB_OK;
}

/*
 * Only the logical load needs the check: in the open window a slot's physical load is part of the
 * logical load of its expert. And no entry passes a limit that the whole layer stays below.
 */
static enum eplb_status check_room(struct eplb_aggregator *aggregator, const uint64_t *generations,
                                   struct eplb_error *error)
{
    for (int32_t l = 0; l < aggregator->shape.num_layers; l++) {
        if (aggregator->totals[l] + aggregator->sample_totals[l] <= (eplb_u128)EPLB_MAX_LOAD)
            continue;
        const int32_t *table = eplb_aggregator_table(aggregator, l, generations[l]);
        if (table != NULL)
            EPLB_TRY(check_entries(aggregator, l, table, error));
    }
    return EPLB_OK;
}

static void add_logical(int64_t *restrict logical, const int32_t *restrict table,
                        const int64_t *restrict counts, size_t num_slots)
{
    for (size_t p = 0; p < num_slots; p++)
        logical[table[p]] += counts[p];
}

static void add_physical(int64_t *restrict physical, const int64_t *restrict counts, size_t num_slots)
{
    for (size_t p = 0; p < num_slots; p++)
        physical[p] += counts[p];
}

/*
 * The physical load is that of one table under one set of weights: the first sample of a higher version
 * restarts it, and one of a lower version is no part of it.
 */
static void apply_physical(struct eplb_aggregator *aggregator, int32_t layer, uint64_t version,
                           const int64_t *counts)
{
    size_t slots = (size_t)aggregator->shape.num_slots;
    int64_t *physical = eplb_aggregator_physical_row(aggregator, layer);
    uint64_t *newest = &aggregator->weight_versions[layer];
    EPLB_ASSERT(layer >= 0 && layer < aggregator->shape.num_layers);
    if (version > *newest) {
        if (!EPLB_PLANTED(WINDOW_OF_TWO_VERSIONS))
            memset(physical, 0, slots * sizeof *physical);
        *newest = version;
    }
    if (version == *newest)
        add_physical(physical, counts, slots);
}

/* Returns the rows added to the logical load. */
static eplb_u128 apply(struct eplb_aggregator *aggregator, const struct eplb_rank_report *report)
{
    const uint64_t *generations = report->generations;
    size_t slots = (size_t)aggregator->shape.num_slots;
    int64_t *part = eplb_aggregator_begin_part(aggregator);
    eplb_u128 added = 0;
    for (int32_t l = 0; l < aggregator->shape.num_layers; l++) {
        const int32_t *table = eplb_aggregator_table(aggregator, l, generations[l]);
        const int64_t *counts = aggregator->counts + (size_t)l * slots;
        if (table == NULL)
            continue;
        add_logical(eplb_aggregator_logical_row(aggregator, l), table, counts, slots);
        add_logical(part + (size_t)l * (size_t)aggregator->shape.num_experts, table, counts, slots);
        if (generations[l] == aggregator->generations[l])
            apply_physical(aggregator, l, version_of(report, l), counts);
        if (aggregator->recent_keep >= 0)
            eplb_aggregator_add_recent(aggregator, l, table, counts);
        EPLB_ASSERT(generations[l] <= aggregator->generations[l]);
        aggregator->totals[l] += aggregator->sample_totals[l];
        added += aggregator->sample_totals[l];
    }
    for (int32_t r = 0; r < aggregator->shape.ep_size; r++)
        aggregator->rank_had_rows[r] |= aggregator->sample_rank_has_rows[r];
    return added;
}

static enum eplb_status add(struct eplb_aggregator *aggregator, const struct eplb_sample *sample,
                            struct eplb_sample_result *result, struct eplb_error *error)
{
    EPLB_TRY(check_reports(aggregator, sample, error));
    if (!is_whole(sample)) {
        aggregator->counters.lacking++;
        *result = (struct eplb_sample_result){.taken = 0};
        return EPLB_OK;
    }
    const uint64_t *generations = sample->ranks[0].generations;
    EPLB_TRY(decode(aggregator, sample, error));
    EPLB_TRY(check_room(aggregator, generations, error));
    eplb_u128 added = apply(aggregator, &sample->ranks[0]);
    aggregator->counters.taken++;
    aggregator->open.num_samples++;
    result->taken = 1;
    result->counted_rows = added > INT64_MAX ? INT64_MAX : (int64_t)added;
    return EPLB_OK;
}

enum eplb_status eplb_aggregator_add(struct eplb_aggregator *aggregator, const struct eplb_sample *sample,
                                     struct eplb_sample_result *result, struct eplb_error *error)
{
    struct eplb_error reason;
    enum eplb_status status = add(aggregator, sample, result, &reason);
    if (status == EPLB_OK)
        return EPLB_OK;
    EPLB_ASSERT(status == EPLB_REFUSED || status == EPLB_INCONSISTENT);
    if (status == EPLB_REFUSED) {
        aggregator->counters.refused++;
        EPLB_LOG(aggregator->sink, WARNING, EPLB_VALUE_TEXT(reason.text));
    }
    return eplb_fail(error, status, "%s", reason.text);
}
