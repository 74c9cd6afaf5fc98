/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Making a layer plan: its memory, and its content from an old and a new table. Every rank
 * computes the same moves from the same two tables.
 */
#ifndef MIGRATE_LAYER_PLAN_H
#define MIGRATE_LAYER_PLAN_H

#include "base/arena.h"
#include "eplb/migrate.h"

/** Takes the arrays of a plan from an arena (which may be measuring) and makes it an empty one. */
void eplb_layer_plan_take(struct eplb_arena *arena, const struct eplb_shape *shape,
                          struct eplb_layer_plan *plan);

/**
 * Fills table, moves, map and counts; token, layer, base, epoch and replica weights are the caller's.
 *
 * @param old_ids legal table [num_slots] that the rank runs
 * @param new_ids legal table [num_slots]; may be plan->expert_ids itself
 * @param scratch eplb_placement_diff_scratch(shape) bytes, aligned to 8
 */
void eplb_layer_plan_build(struct eplb_layer_plan *plan, const struct eplb_shape *shape, int32_t ep_rank,
                           const int32_t *old_ids, const int32_t *new_ids, void *scratch);

#endif
