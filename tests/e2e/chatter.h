/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A thread beside a rank's own that does nothing but collectives: what a forward's communication is to a
 * transfer that runs at the same time. Sizes and bytes are drawn anew for every pair and round, and
 * are checked.
 */
#ifndef E2E_CHATTER_H
#define E2E_CHATTER_H

#include <stdbool.h>

#include "eplb/group.h"

struct chatter;

/**
 * Starts the thread.
 *
 * @param group     of the rank; nobody else uses its collectives
 * @param jitter_ns longest random delay before a round
 */
enum eplb_status chatter_create(const struct eplb_group *group, uint64_t seed, int64_t jitter_ns,
                                struct chatter **chatter, struct eplb_error *error);

/** Stops and frees it; no round is under way. NULL is allowed. */
void chatter_destroy(struct chatter *chatter);

/** Lets it do more rounds; all ranks get the same number. */
void chatter_begin(struct chatter *chatter, uint64_t rounds);

/** Waits for them. EPLB_INCONSISTENT with a sentence when what arrived was not what was sent. */
enum eplb_status chatter_await(struct chatter *chatter, struct eplb_error *error);

#endif
