/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "executor/state.h"

/**
 *   FREE -> QUEUED -> RUNNING -> HELD -> ACTIVATING -> FREE
 *              |         |         |
 *              +---------+---------+--> FREE    replaced; failed or superseded; evicted
 */
static bool may_follow(enum place_state from, enum place_state to)
{
    switch (to) {
    case PLACE_FREE:
        return from != PLACE_FREE;
    case PLACE_QUEUED:
        return from == PLACE_FREE;
    case PLACE_RUNNING:
        return from == PLACE_QUEUED;
    case PLACE_HELD:
        return from == PLACE_RUNNING;
    case PLACE_ACTIVATING:
        return from == PLACE_HELD;
    }
    return false;
}

void eplb_place_enter(struct place *place, enum place_state to)
{
    EPLB_ASSERT(may_follow(place->state, to));
    place->state = to;
}

struct place *eplb_place_in(struct eplb_executor_core *core, enum place_state state)
{
    for (size_t i = 0; i < NUM_PLACES; i++)
        if (core->places[i].state == state)
            return &core->places[i];
    return NULL;
}

struct place *eplb_place_held(struct eplb_executor_core *core, struct eplb_prepare_token token)
{
    EPLB_ASSERT(token.value != 0);
    for (size_t i = 0; i < NUM_PLACES; i++)
        if (core->places[i].state == PLACE_HELD && core->places[i].plan.token.value == token.value)
            return &core->places[i];
    return NULL;
}

/** The oldest held plan, and how many are held or activating. Tokens only rise, so age is in them. */
static struct place *oldest_held(struct eplb_executor_core *core, int32_t *count)
{
    struct place *oldest = NULL;
    *count = 0;
    for (size_t i = 0; i < NUM_PLACES; i++) {
        struct place *place = &core->places[i];
        *count += place->state == PLACE_HELD || place->state == PLACE_ACTIVATING;
        if (place->state != PLACE_HELD)
            continue;
        if (oldest == NULL || place->plan.token.value < oldest->plan.token.value)
            oldest = place;
    }
    return oldest;
}

void eplb_place_evict(struct eplb_executor_core *core, int32_t keep)
{
    EPLB_ASSERT(keep >= 0);
    int32_t count;
    struct place *oldest = oldest_held(core, &count);
    while (count > keep && oldest != NULL) {
        eplb_place_enter(oldest, PLACE_FREE);
        oldest = oldest_held(core, &count);
    }
    EPLB_ASSERT(count <= keep || eplb_place_in(core, PLACE_ACTIVATING) != NULL);
}
