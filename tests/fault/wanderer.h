/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A director that leads a fleet through rounds of random placements: each activates what was prepared
 * and prepares the next with the same command, and now and then a hook fails, or a rank is stopped
 * for some milliseconds, wherever it is.
 */
#ifndef FAULT_WANDERER_H
#define FAULT_WANDERER_H

#include "base/prng.h"
#include "e2e/director.h"
#include "fault/fleet.h"

struct wanderer {
    struct director director;
    struct eplb_prng prng;
    int32_t layer; /* prepared */
    bool pauses;   /* stop ranks now and then */
    int32_t switched, kept, failed, paused;
    int64_t forward_ns; /* how long the last forward with an activation took */
};

void wanderer_init(struct wanderer *wanderer, struct team *team, uint64_t seed, bool pauses);
void wanderer_destroy(struct wanderer *wanderer);

/** A number in [0, bound). */
int64_t wanderer_draw(struct wanderer *wanderer, int64_t bound);

/** Prepares the first placement. Before the first round. */
void wanderer_begin(struct wanderer *wanderer);

/** Adds to the next command: activate what is prepared, and prepare a random table of another layer. */
void wanderer_compose(struct wanderer *wanderer);

/** Fails the program unless all did what they were to. */
void wanderer_round(struct wanderer *wanderer);

#endif
