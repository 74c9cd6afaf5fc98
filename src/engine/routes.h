/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Where a worker's routes come from, as its setup says, and what they were, when they are recorded.
 */
#ifndef ENGINE_ROUTES_H
#define ENGINE_ROUTES_H

#include "engine/records.h"
#include "engine/trace.h"

/** Stays where it is: the source refers to it. */
struct eplb_routes {
    const struct eplb_route_source *chosen; /* NULL: by the router */
    struct eplb_skewed_routes *skewed;
    struct eplb_trace trace;
    struct eplb_recorded_routes *recorded;
    struct eplb_route_source tap; /* asks the one above, and notes down */
    struct eplb_routed routed;    /* of the forward under way; without rooms when nothing is recorded */
    int32_t num_layers, top_k;
};

/**
 * Makes the routes of a decoded setup; reads the recording.
 *
 * @param routes zeroed; to be freed with eplb_routes_free, also on failure
 * @return EPLB_OK; EPLB_INVALID with a sentence when the recording is not the one that the engine read;
 *         as eplb_ids_read; EPLB_NO_MEMORY
 */
enum eplb_status eplb_routes_make(const struct eplb_run_setup *setup, struct eplb_routes *routes,
                                  struct eplb_error *error);
void eplb_routes_free(struct eplb_routes *routes);

/** For the model; NULL: by the router. */
const struct eplb_route_source *eplb_routes_source(const struct eplb_routes *routes);

/** Notes the rows of the forward that begins, if routes are recorded. */
void eplb_routes_begin(struct eplb_routes *routes, const struct eplb_model_row *rows, int32_t num_rows);

/** Writes what was noted, if routes are recorded, at most eplb_routed_bytes; returns the bytes used. */
size_t eplb_routes_encode(const struct eplb_routes *routes, void *bytes);

#endif
