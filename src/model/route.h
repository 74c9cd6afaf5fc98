/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Where tokens want to go: the table through which the model asks for its routes, so that a run can
 * follow the router, made-up popularities, or a recording.
 */
#ifndef MODEL_ROUTE_H
#define MODEL_ROUTE_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/load.h"
#include "eplb/status.h"

/** One row of a batch: a token of a sequence. */
struct eplb_model_row {
    uint64_t sequence;  /* number of the sequence in the run: the same whatever rank has it */
    int32_t cache;      /* its KV cache, in [0, num_caches) */
    int32_t position;   /* in the sequence, from 0 */
    int32_t token;      /* in [0, vocab_size); EPLB_SAMPLED_TOKEN: what this sequence sampled last */
    uint8_t kind;       /* enum eplb_token_kind */
    uint8_t sample;     /* 1: the next token is sampled from this row */
};

/** A token that the engine does not know yet: a forward is submitted before the one before is read. */
#define EPLB_SAMPLED_TOKEN (-1)

/** One layer of a forward, for all rows of the rank. */
struct eplb_route_request {
    uint64_t seq;
    int32_t layer;
    const struct eplb_model_row *rows; /* [num_rows] */
    int32_t num_rows;
    const float *logits;               /* [num_rows][num_experts] of the router */
    int32_t num_experts;
    int32_t top_k;
};

struct eplb_route_source {
    size_t size; /* sizeof(struct eplb_route_source) */
    void *context;
    /**
     * Chooses top_k different experts for every row, in the order in which their outputs are added.
     * What a row gets depends on the row, the layer and the logits only. Not blocking; called by
     * the forward's thread. Allocates nothing.
     *
     * @param experts receives [num_rows][top_k] logical experts
     */
    void (*choose)(void *context, const struct eplb_route_request *request, int32_t *experts);
};

/** The router's own choice: the top_k largest logits. Static. */
const struct eplb_route_source *eplb_route_by_router(void);

/** Draws from given popularities; the same row always draws the same. */
struct eplb_skewed_routes;

/**
 * @param rates  [num_phases][num_layers][num_experts], each >= 0, at least top_k positive ones per layer
 *               and phase; copied
 * @param period forwards that a phase lasts (by seq); after the last one the first again; 0: one phase only
 * @return EPLB_OK; EPLB_INVALID with phase and layer; EPLB_NO_MEMORY
 */
enum eplb_status eplb_skewed_routes_create(const int64_t *rates, int32_t num_phases, int32_t num_layers,
                                           int32_t num_experts, int32_t top_k, uint64_t period, uint64_t seed,
                                           struct eplb_skewed_routes **routes, struct eplb_error *error);
void eplb_skewed_routes_destroy(struct eplb_skewed_routes *routes);
const struct eplb_route_source *eplb_skewed_routes_source(const struct eplb_skewed_routes *routes);

#endif
