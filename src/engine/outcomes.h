/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What became of plans: for every switch of a layer, the peak that the plan promised beside the one that was
 * measured in the window after it. Pure; sees what a manager's observer sees.
 *
 * Two things part them. The load of the window after is another than that of the window before, which the
 * plan was made from; and copies do not get the shares that the plan counts on: with static routing it
 * counts an expert's load as split evenly over its copies, while each rank sends all of its tokens to one
 * copy, so that ranks with unequal traffic split it unevenly. With static routing the peak under an even
 * split of the load that came tells the two apart: from the promise to it the load has changed, and from it
 * to the measured one is what the copies' uneven traffic costs. Routings that follow the load are to be below
 * it.
 *
 * A layer's window begins when all ranks have switched, and ends with the next run of the policy, as the
 * manager's does. When it brings no load, it goes on.
 */
#ifndef ENGINE_OUTCOMES_H
#define ENGINE_OUTCOMES_H

#include <stdbool.h>

#include "base/arena.h"
#include "eplb/manager.h"
#include "eplb/placement.h"

/** One switch of one layer. Peaks and mean are tokens of the window after it, of the busiest rank. */
struct eplb_outcome {
    int32_t layer;
    uint64_t generation; /* that it switched to */
    uint64_t forwards;   /* of the window */
    double mean;         /* of the ranks */
    double predicted;    /* the plan's peak, scaled from its window's load to this one's */
    double even;         /* under an even split of this window's load */
    double measured;
};

struct eplb_outcomes;

/** Takes the memory from an arena, which may only measure: then NULL. */
struct eplb_outcomes *eplb_outcomes_take(struct eplb_arena *arena, const struct eplb_shape *shape);

/** Starts from nothing, whatever the memory held. initial is [num_layers][num_slots]. */
void eplb_outcomes_init(struct eplb_outcomes *outcomes, const struct eplb_shape *shape,
                        const int32_t *initial);

/** As the functions of struct eplb_manager_observer. */
void eplb_outcomes_event(struct eplb_outcomes *outcomes, const struct eplb_manager_event *event);
void eplb_outcomes_action(struct eplb_outcomes *outcomes, const struct eplb_manager_action *action);

/** Ends the windows that are open: the run is over. */
void eplb_outcomes_finish(struct eplb_outcomes *outcomes);

/**
 * Takes the next outcome whose window has ended, in the order of the layers; false when there is none. To
 * be called before windows end again: what was not taken then is lost.
 */
bool eplb_outcomes_next(struct eplb_outcomes *outcomes, struct eplb_outcome *outcome);

#endif
