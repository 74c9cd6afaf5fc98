/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/routes.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"

/* ------------------------------------------------------------------------------------ the sources */

static enum eplb_status make_skewed(const struct eplb_run_setup *setup, struct eplb_routes *routes,
                                    struct eplb_error *error)
{
    EPLB_TRY(eplb_skewed_routes_create(setup->skew_rates, setup->skew_phases, setup->model.num_layers,
                                       setup->model.num_experts, setup->model.top_k, setup->skew_period,
                                       setup->skew_seed, &routes->skewed, error));
    routes->chosen = eplb_skewed_routes_source(routes->skewed);
    return EPLB_OK;
}

/** The workers read the file later than the engine, and each for itself. */
static enum eplb_status check_same(const struct eplb_run_setup *setup, const struct eplb_trace *trace,
                                   struct eplb_error *error)
{
    const struct eplb_recording *recording = &trace->recording;
    if (trace->digest != setup->trace_digest || recording->num_layers != setup->model.num_layers ||
        recording->num_experts != setup->model.num_experts || recording->top_k != setup->model.top_k)
        EPLB_FAIL(EPLB_INVALID, "%s is not as it was when the run began; leave it alone while it is replayed",
                  eplb_input_name(setup->trace_path));
    return EPLB_OK;
}

static enum eplb_status make_recorded(const struct eplb_run_setup *setup, struct eplb_routes *routes,
                                      struct eplb_error *error)
{
    struct eplb_trace *trace = &routes->trace;
    EPLB_TRY(eplb_trace_open(setup->trace_path, trace, error));
    EPLB_TRY(check_same(setup, trace, error));
    trace->recording.sequences = setup->trace_sequences;
    trace->recording.repeat = setup->trace_repeat;
    EPLB_TRY(eplb_recorded_routes_create(&trace->recording, &routes->recorded, error));
    routes->chosen = eplb_recorded_routes_source(routes->recorded);
    return EPLB_OK;
}

/* ---------------------------------------------------------------------------------------- the tap */

static void choose_and_note(void *context, const struct eplb_route_request *request, int32_t *experts)
{
    struct eplb_routes *routes = context;
    const struct eplb_route_source *chosen = routes->chosen;
    size_t top_k = (size_t)routes->top_k;
    chosen->choose(chosen->context, request, experts);
    EPLB_ASSERT(request->num_rows == routes->routed.num_rows && request->layer < routes->num_layers);
    uint16_t *to = routes->routed.experts + (size_t)request->layer * top_k;
    for (int32_t row = 0; row < request->num_rows; row++) {
        for (size_t k = 0; k < top_k; k++)
            to[k] = (uint16_t)experts[(size_t)row * top_k + k];
        to += (size_t)routes->num_layers * top_k;
    }
}

static enum eplb_status make_tap(const struct eplb_run_setup *setup, struct eplb_routes *routes,
                                 struct eplb_error *error)
{
    size_t rows = (size_t)setup->max_rows;
    size_t row_ids = (size_t)routes->num_layers * (size_t)routes->top_k;
    routes->routed.rows = calloc(rows, sizeof *routes->routed.rows);
    routes->routed.experts = calloc(rows, row_ids * sizeof *routes->routed.experts);
    if (routes->routed.rows == NULL || routes->routed.experts == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to record the routes of %d rows", setup->max_rows);
    if (routes->chosen == NULL)
        routes->chosen = eplb_route_by_router();
    routes->tap =
        (struct eplb_route_source){.size = sizeof routes->tap, .context = routes, .choose = choose_and_note};
    return EPLB_OK;
}

/* ------------------------------------------------------------------------------------ the whole */

enum eplb_status eplb_routes_make(const struct eplb_run_setup *setup, struct eplb_routes *routes,
                                  struct eplb_error *error)
{
    _Static_assert(EPLB_MAX_EXPERTS <= UINT16_MAX + 1, "an expert fits 16 bits");
    routes->num_layers = setup->model.num_layers;
    routes->top_k = setup->model.top_k;
    if (setup->routing == EPLB_ROUTING_SKEW)
        EPLB_TRY(make_skewed(setup, routes, error));
    if (setup->routing == EPLB_ROUTING_TRACE)
        EPLB_TRY(make_recorded(setup, routes, error));
    return setup->record ? make_tap(setup, routes, error) : EPLB_OK;
}

void eplb_routes_free(struct eplb_routes *routes)
{
    free(routes->routed.experts);
    free(routes->routed.rows);
    eplb_recorded_routes_destroy(routes->recorded);
    eplb_trace_close(&routes->trace);
    eplb_skewed_routes_destroy(routes->skewed);
}

const struct eplb_route_source *eplb_routes_source(const struct eplb_routes *routes)
{
    return routes->routed.rows == NULL ? routes->chosen : &routes->tap;
}

void eplb_routes_begin(struct eplb_routes *routes, const struct eplb_model_row *rows, int32_t num_rows)
{
    if (routes->routed.rows == NULL)
        return;
    routes->routed.num_rows = num_rows;
    for (int32_t row = 0; row < num_rows; row++)
        routes->routed.rows[row] =
            (struct eplb_routed_row){.sequence = rows[row].sequence, .position = rows[row].position};
}

size_t eplb_routes_encode(const struct eplb_routes *routes, void *bytes)
{
    if (routes->routed.rows == NULL)
        return 0;
    return eplb_routed_encode(&routes->routed, routes->num_layers * routes->top_k, bytes);
}
