/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A rank: its executor core, driven as a worker drives it, in virtual time.
 *
 *   given -> start_step -> (materialise) -> forward -> finish_step -> output -> the next one
 *                                             |
 *                                             +-> abort_step, when a dead rank keeps it from ending
 *
 * The forward is a collective: no rank leaves it before all have begun it. Beside it a background
 * thread runs the prepare hook.
 */
#ifndef SIM_RANK_H
#define SIM_RANK_H

#include "sim/world.h"

void sim_rank_init(struct world *world, int32_t rank);
void sim_rank_destroy(struct world *world, int32_t rank);

/** A forward arrives at a rank. An event; its argument is the number. */
void sim_rank_give(struct world *world, int32_t rank, uint64_t seq);

/** The rank hears that another one is dead. An event. */
void sim_rank_tell_dead(struct world *world, int32_t rank, uint64_t unused);

/** The rank's process ends, wherever it is. An event. */
void sim_rank_kill(struct world *world, int32_t rank, uint64_t unused);

#endif
