/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/run_notes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum eplb_status eplb_run_notes_create(const struct eplb_shape *shape, struct eplb_run_notes **notes,
                                       struct eplb_error *error)
{
    struct eplb_run_notes *made = calloc(1, sizeof *made);
    double *loads = calloc(2 * (size_t)shape->ep_size, sizeof *loads);
    struct eplb_outcome *outcomes = calloc(EPLB_RUN_OUTCOMES, sizeof *outcomes);
    struct eplb_run_promises *promises = calloc((size_t)shape->num_layers, sizeof *promises);
    if (made == NULL || loads == NULL || outcomes == NULL || promises == NULL) {
        free(promises);
        free(outcomes);
        free(loads);
        free(made);
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the notes of a run of %d ranks", shape->ep_size);
    }
    made->outcomes = outcomes;
    made->promises = promises;
    made->shape = *shape;
    made->watched_layer = EPLB_NO_LAYER;
    made->loads_layer = EPLB_NO_LAYER;
    made->measured = loads;
    made->initial = loads + shape->ep_size;
    *notes = made;
    return EPLB_OK;
}

void eplb_run_notes_destroy(struct eplb_run_notes *notes)
{
    if (notes == NULL)
        return;
    free(notes->promises);
    free(notes->outcomes);
    free(notes->measured);
    free(notes);
}

static void take_loads(struct eplb_run_notes *notes, const struct eplb_run_progress *progress)
{
    int32_t layer = progress->statistics.last_window_initial.worst_layer;
    if (layer == EPLB_NO_LAYER)
        return;
    notes->loads_layer = layer;
    eplb_statistics_rank_loads(progress->keeper, layer, notes->measured, notes->initial);
}

/** A place for one more window: the second one makes room when all are taken. */
static struct eplb_run_window *next_window(struct eplb_run_notes *notes)
{
    if (notes->num_windows < EPLB_RUN_WINDOWS)
        return &notes->windows[notes->num_windows++];
    notes->left_out++;
    memmove(&notes->windows[1], &notes->windows[2], (EPLB_RUN_WINDOWS - 2) * sizeof notes->windows[0]);
    return &notes->windows[EPLB_RUN_WINDOWS - 1];
}

static void take_window(struct eplb_run_notes *notes, const struct eplb_run_progress *progress)
{
    const struct eplb_statistics *statistics = &progress->statistics;
    uint64_t switched = progress->manager == NULL ? 0 : progress->manager->layers_committed;
    if (notes->watched_layer == EPLB_NO_LAYER)
        notes->watched_layer = statistics->last_window_initial.worst_layer;
    struct eplb_run_window *window = next_window(notes);
    *window = (struct eplb_run_window){.end = progress->step,
                                       .balance = statistics->last_window,
                                       .initial = statistics->last_window_initial,
                                       .hottest = -1,
                                       .switched = switched - notes->switched_seen};
    if (notes->watched_layer != EPLB_NO_LAYER)
        window->hottest =
            eplb_statistics_hottest(progress->keeper, notes->watched_layer, &window->hottest_share);
    notes->switched_seen = switched;
}

static void take_policy_run(struct eplb_run_notes *notes, const struct eplb_manager_status *manager)
{
    if (manager->policy_running || manager->policy_runs == notes->policy_runs_seen)
        return;
    if (notes->num_policy_runs < EPLB_RUN_POLICY_RUNS)
        notes->published[notes->num_policy_runs++] = manager->layers_published - notes->published_seen;
    notes->policy_runs_seen = manager->policy_runs;
    notes->published_seen = manager->layers_published;
}

void eplb_run_notes_take_outcome(struct eplb_run_notes *notes, const struct eplb_outcome *outcome)
{
    struct eplb_run_promises *promises = &notes->promises[outcome->layer];
    promises->switches++;
    promises->predicted += outcome->predicted / outcome->mean;
    promises->even += outcome->even / outcome->mean;
    promises->measured += outcome->measured / outcome->mean;
    if (notes->num_outcomes < EPLB_RUN_OUTCOMES)
        notes->outcomes[notes->num_outcomes++] = *outcome;
    else
        notes->outcomes_left_out++;
}

void eplb_run_notes_take(struct eplb_run_notes *notes, const struct eplb_run_progress *progress)
{
    const struct eplb_manager_status *manager = progress->manager;
    if (manager != NULL && manager->ready && manager->prepare_token.value > notes->ready_seen) {
        notes->ready_seen = manager->prepare_token.value;
        notes->layers_prepared++;
    }
    if (manager != NULL)
        take_policy_run(notes, manager);
    uint64_t windows = progress->statistics.windows;
    if (windows > notes->windows_seen)
        take_window(notes, progress);
    if (windows == 0 || windows > notes->windows_seen)
        take_loads(notes, progress);
    notes->windows_seen = windows;
}
