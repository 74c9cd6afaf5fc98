/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The check of a worker's levels, for outputs that did not come through the decoder.
 */
#ifndef WIRE_LEVELS_H
#define WIRE_LEVELS_H

#include "eplb/wire.h"

/** EPLB_INVALID with a sentence when a state, its token and its reason do not fit together. */
enum eplb_status eplb_worker_levels_check(const struct eplb_worker_output *output, struct eplb_error *error);

#endif
