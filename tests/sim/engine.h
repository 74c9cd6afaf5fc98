/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The engine: submits forwards with the manager's commands, collects outputs, runs the policy, sees
 * deaths; and what may go wrong with each of these.
 */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "sim/world.h"

/** Creates the manager core and schedules the first forward. */
void sim_engine_init(struct world *world);
void sim_engine_destroy(struct world *world);

/** A rank has finished its step: its output sets out. */
void sim_engine_send_output(struct world *world, int32_t rank, struct sim_forward *forward);

/** A rank's process has ended; the supervisor will notice within a second. */
void sim_engine_lost_rank(struct world *world, int32_t rank);

#endif
