/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "unit/load/twin.h"

#include <stdlib.h>
#include <string.h>

struct twin *twin_create(const struct eplb_shape *shape, int32_t overlap, const int32_t *table)
{
    if (shape->num_layers > TWIN_LAYERS || shape->num_experts > TWIN_EXPERTS || shape->num_slots > TWIN_SLOTS)
        abort();
    struct twin *twin = calloc(1, sizeof *twin);
    if (twin == NULL)
        abort();
    twin->shape = *shape;
    twin->overlap = (uint64_t)overlap;
    for (int32_t l = 0; l < shape->num_layers; l++)
        for (int32_t p = 0; p < shape->num_slots; p++)
            twin->tables[l][0][p] = table[p];
    return twin;
}

static int has_bad_size(const struct twin *twin, const struct eplb_rank_report *report)
{
    return report->num_layers != twin->shape.num_layers ||
           report->slots_per_rank != twin->shape.slots_per_rank || report->generations == NULL;
}

/* Whether a report's generations can be compared, whatever else is wrong with it. */
static int has_generations(const struct twin *twin, const struct eplb_rank_report *report)
{
    return report->prefix != NULL && report->generations != NULL &&
           report->num_layers == twin->shape.num_layers;
}

static int disagree(const struct twin *twin, const struct eplb_sample *sample)
{
    for (int32_t a = 0; a < sample->num_ranks && a < twin->shape.ep_size; a++)
        for (int32_t b = 0; b < a; b++)
            for (int32_t l = 0; l < twin->shape.num_layers; l++)
                if (has_generations(twin, &sample->ranks[a]) && has_generations(twin, &sample->ranks[b]) &&
                    sample->ranks[a].generations[l] != sample->ranks[b].generations[l])
                    return 1;
    return 0;
}

/* The wanted order of verdicts: disagreement, number of reports, sizes, lacking outputs, contents. */
static enum eplb_status check_frame(const struct twin *twin, const struct eplb_sample *sample, int *is_whole)
{
    *is_whole = 1;
    if (disagree(twin, sample))
        return EPLB_INCONSISTENT;
    if (sample->num_ranks != twin->shape.ep_size)
        return EPLB_REFUSED;
    for (int32_t r = 0; r < sample->num_ranks; r++) {
        if (sample->ranks[r].prefix == NULL)
            *is_whole = 0;
        else if (has_bad_size(twin, &sample->ranks[r]))
            return EPLB_REFUSED;
    }
    return EPLB_OK;
}

static int is_kept(const struct twin *twin, int32_t layer, uint64_t generation)
{
    uint64_t active = twin->generations[layer];
    return generation <= active && generation + twin->overlap + 2 > active;
}

static enum eplb_status add_layer(const struct twin *twin, const struct eplb_sample *sample, int32_t layer,
                                  struct twin_window *window, int64_t *rows)
{
    int32_t n = twin->shape.slots_per_rank;
    uint64_t generation = sample->ranks[0].generations[layer];
    for (int32_t r = 0; r < twin->shape.ep_size; r++) {
        __int128 before = 0;
        for (int32_t s = 0; s < n; s++) {
            __int128 now = sample->ranks[r].prefix[layer * n + s];
            __int128 count = now - before;
            before = now;
            if (count < 0)
                return EPLB_REFUSED;
            if (!is_kept(twin, layer, generation))
                continue;
            int32_t expert = twin->tables[layer][generation][r * n + s];
            if (window->logical[layer][expert] + count > EPLB_MAX_LOAD)
                return EPLB_REFUSED;
            window->logical[layer][expert] += (int64_t)count;
            *rows = *rows + count > INT64_MAX ? INT64_MAX : (int64_t)(*rows + count);
            if (generation != twin->generations[layer])
                continue;
            if (window->physical[layer][r * n + s] + count > EPLB_MAX_LOAD)
                return EPLB_REFUSED;
            window->physical[layer][r * n + s] += (int64_t)count;
        }
    }
    return EPLB_OK;
}

enum eplb_status twin_add(struct twin *twin, const struct eplb_sample *sample, int *taken, int64_t *rows)
{
    struct twin_window after = twin->windows[twin->num_closed];
    *rows = 0;
    enum eplb_status status = check_frame(twin, sample, taken);
    if (status != EPLB_OK || !*taken)
        return status;
    for (int32_t l = 0; l < twin->shape.num_layers; l++) {
        status = add_layer(twin, sample, l, &after, rows);
        if (status != EPLB_OK)
            return status;
    }
    twin->windows[twin->num_closed] = after;
    return EPLB_OK;
}

void twin_commit(struct twin *twin, int32_t layer, const int32_t *table)
{
    uint64_t generation = ++twin->generations[layer];
    if (generation >= TWIN_TABLES)
        abort();
    for (int32_t p = 0; p < twin->shape.num_slots; p++) {
        twin->tables[layer][generation][p] = table[p];
        twin->windows[twin->num_closed].physical[layer][p] = 0;
    }
}

void twin_close(struct twin *twin)
{
    twin->num_closed++;
    if (twin->num_closed >= TWIN_WINDOWS)
        abort();
}
