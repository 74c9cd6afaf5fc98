/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Made-up popularities of experts for `--routing=skew`: what --skew says, as rates that the routes are
 * drawn from. Each phase is another time of the run, with other hot experts.
 */
#ifndef CLI_RUN_SKEW_H
#define CLI_RUN_SKEW_H

#include <stdint.h>

#include "eplb/status.h"

/** Phases of zipf and lognormal: the hot experts change twice in a run. */
#define EPLB_SKEW_PHASES 3

/** What the rates must fit. */
struct eplb_skew_shape {
    int32_t num_layers;
    int32_t num_experts;
    int32_t top_k; /* as many rates of a layer must be positive */
};

struct eplb_skew {
    int32_t num_phases;
    int64_t *rates; /* [num_phases][num_layers][num_experts], owned */
};

/**
 * Makes the rates of `zipf:EXPONENT` or `lognormal:SIGMA`, drawn with the seed, or reads the steps of a
 * load file, whose layers are taken in order as the model's. What is read and doubtful is in `warning`.
 *
 * @param skew    freed with eplb_skew_free; written on success only
 * @param warning receives a sentence, or ""
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the option or the file; EPLB_IO; EPLB_NO_MEMORY
 */
enum eplb_status eplb_skew_make(const char *text, const struct eplb_skew_shape *shape, uint64_t seed,
                                struct eplb_skew *skew, char warning[EPLB_ERROR_TEXT],
                                struct eplb_error *error);

/** Frees the rates; a zeroed skew is allowed. */
void eplb_skew_free(struct eplb_skew *skew);

#endif
