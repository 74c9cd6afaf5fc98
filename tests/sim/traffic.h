/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What the engine is asked to run: stretches of decode, prefill, mixed, empty and warm-up forwards,
 * and tokens that favour experts which change from time to time.
 */
#ifndef SIM_TRAFFIC_H
#define SIM_TRAFFIC_H

#include "sim/world.h"

/** Fills the batches and rows of a forward. */
void sim_traffic_draw(struct world *world, struct sim_forward *forward);

#endif
