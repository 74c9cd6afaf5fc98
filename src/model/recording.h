/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Routes from a recording: which recorded token a sequence of a run is at each of its positions, and the
 * route source that sends it where that token went. Pure.
 *
 * A run replays `sequences` sequences side by side, one token of each per forward. All go through the
 * recording's phases one after another, each phase as often as `repeat` says, and then begin again.
 *
 * A recording with a sequence axis: sequence n follows the recorded sequence n % S of S. When there are
 * more than S, there are copies of each, which begin at steps that are spread evenly over the phase; the step
 * after its last one is its first. So a phase has all of them from its first forward to its last, and none
 * of another phase, and neighbouring sequences are at different parts of it. With S sequences it is the
 * recording as it was.
 *
 * One without: each phase is cut into as many streams of equal length as there are sequences; what is left
 * over at its end is left out.
 */
#ifndef MODEL_RECORDING_H
#define MODEL_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "model/route.h"

/** Most sequences that a run replays. */
#define EPLB_MAX_REPLAYED 1048576

struct eplb_recording_phase {
    int32_t first, end; /* steps [first, end), not empty */
};

/** A recording, and how it is replayed. */
struct eplb_recording {
    const uint16_t *experts; /* [num_steps][num_sequences][num_layers][top_k], checked, borrowed */
    int32_t num_steps, num_sequences, num_layers, num_experts, top_k;
    bool has_sequences;                        /* false: num_sequences is 1, and a step is a token */
    const struct eplb_recording_phase *phases; /* [num_phases] within the steps; borrowed */
    int32_t num_phases;
    int32_t sequences; /* replayed, 1 to EPLB_MAX_REPLAYED */
    int32_t repeat;    /* times that each phase is gone through, >= 1 */
};

/** EPLB_INVALID with a sentence that names the number, or the phase that has too few tokens. */
enum eplb_status eplb_recording_check(const struct eplb_recording *recording, struct eplb_error *error);

/** Forwards until the recording begins again. It passed its check. */
uint64_t eplb_recording_forwards(const struct eplb_recording *recording);

/** Which recorded token it is. */
struct eplb_recorded_place {
    int32_t step, sequence;
};

/** Position p of a sequence is its p-th forward. Sequence numbers from `sequences` on replay the same. */
struct eplb_recorded_place eplb_recording_place(const struct eplb_recording *recording, uint64_t sequence,
                                                int32_t position);

struct eplb_recorded_routes;

/**
 * Makes a route source of a recording that passed its check.
 *
 * @param recording copied; what it borrows outlives the routes
 * @return EPLB_OK; EPLB_NO_MEMORY
 */
enum eplb_status eplb_recorded_routes_create(const struct eplb_recording *recording,
                                             struct eplb_recorded_routes **routes, struct eplb_error *error);
void eplb_recorded_routes_destroy(struct eplb_recorded_routes *routes);
const struct eplb_route_source *eplb_recorded_routes_source(const struct eplb_recorded_routes *routes);

#endif
