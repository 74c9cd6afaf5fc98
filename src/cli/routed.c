/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/routed.h"

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/wide.h"
#include "placement/weighted.h"

static void layout(struct eplb_routed *routed, struct eplb_arena *arena)
{
    const struct eplb_shape *shape = &routed->shape;
    routed->replicas = eplb_arena_take(arena, (size_t)shape->num_experts, sizeof *routed->replicas);
    routed->weights = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *routed->weights);
    routed->cut = eplb_arena_take(arena, (size_t)eplb_routed_words(shape), sizeof *routed->cut);
    routed->split = eplb_arena_take(arena, 1, eplb_split_graph_size(shape));
}

enum eplb_status eplb_routed_init(struct eplb_routed *routed, const struct eplb_shape *shape,
                                  enum eplb_replica_routing routing, struct eplb_error *error)
{
    struct eplb_arena arena;
    struct eplb_routed made = {.shape = *shape, .routing = routing};
    eplb_arena_init(&arena, NULL, 0);
    layout(&made, &arena);
    made.block = eplb_arena_reserve(&arena);
    if (made.block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to judge placements of %d slots on %d ranks", shape->num_slots,
                  shape->ep_size);
    layout(&made, &arena);
    EPLB_ASSERT(!arena.overflow);
    *routed = made;
    return EPLB_OK;
}

void eplb_routed_free(struct eplb_routed *routed)
{
    eplb_arena_free(routed->block);
    *routed = (struct eplb_routed){0};
}

/** Whether the split is not the even one, so that weights say what each slot gets. */
static bool goes_by_weights(const struct eplb_routed *routed, const int32_t *weights)
{
    return routed->routing == EPLB_ROUTING_WEIGHTED && weights != NULL;
}

static bool goes_by_best_split(const struct eplb_routed *routed)
{
    return routed->routing == EPLB_ROUTING_ADAPTIVE || routed->routing == EPLB_ROUTING_BATCH;
}

static void add_up(const struct eplb_routed *routed, const int32_t *expert_ids, const int32_t *weights,
                   const int64_t *load, double *ranks)
{
    const struct eplb_shape *shape = &routed->shape;
    for (int32_t rank = 0; rank < shape->ep_size; rank++)
        ranks[rank] = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        ranks[slot / shape->slots_per_rank] +=
            (double)load[expert_ids[slot]] * ((double)weights[slot] / EPLB_WEIGHT_UNIT);
}

static double weighted_peak(const struct eplb_shape *shape, const int32_t *expert_ids, const int32_t *weights,
                            const int64_t *load)
{
    return (double)eplb_weighted_peak(shape, expert_ids, weights, load) / EPLB_WEIGHT_UNIT;
}

struct eplb_routed_figures eplb_routed_measure(struct eplb_routed *routed, const int32_t *expert_ids,
                                               const int32_t *weights, const int64_t *load)
{
    const struct eplb_shape *shape = &routed->shape;
    struct eplb_routed_figures figures = {.even = eplb_balance_of(shape, expert_ids, load, routed->replicas)};
    eplb_best_split(shape, expert_ids, load, routed->split, routed->weights, routed->cut, &figures.best);
    if (goes_by_weights(routed, weights))
        figures.peak = weighted_peak(shape, expert_ids, weights, load);
    else
        figures.peak = goes_by_best_split(routed) ? figures.best.peak : figures.even.peak;
    return figures;
}

double eplb_routed_ratio(struct eplb_routed *routed, const int32_t *expert_ids, const int32_t *weights,
                         const int64_t *load)
{
    const struct eplb_shape *shape = &routed->shape;
    const struct eplb_balance even = eplb_balance_of(shape, expert_ids, load, routed->replicas);
    if (even.mean <= 0)
        return 0;
    if (goes_by_weights(routed, weights))
        return weighted_peak(shape, expert_ids, weights, load) / even.mean;
    if (goes_by_best_split(routed))
        return eplb_best_split_peak(shape, expert_ids, load, routed->split) / even.mean;
    return even.peak / even.mean;
}

void eplb_routed_ranks(struct eplb_routed *routed, const int32_t *expert_ids, const int32_t *weights,
                       const int64_t *load, double *ranks)
{
    const struct eplb_shape *shape = &routed->shape;
    struct eplb_best_split best;
    if (goes_by_weights(routed, weights)) {
        add_up(routed, expert_ids, weights, load, ranks);
        return;
    }
    if (goes_by_best_split(routed))
        eplb_best_split(shape, expert_ids, load, routed->split, routed->weights, NULL, &best);
    else
        eplb_weights_equal(shape, expert_ids, routed->replicas, routed->weights);
    add_up(routed, expert_ids, routed->weights, load, ranks);
}

void eplb_routed_split(struct eplb_routed *routed, const int32_t *expert_ids, const int32_t *weights,
                       const int64_t *load, int64_t *physical)
{
    const struct eplb_shape *shape = &routed->shape;
    int32_t *before = routed->replicas; /* weight of the expert's slots so far */
    memset(before, 0, (size_t)shape->num_experts * sizeof *before);
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int32_t expert = expert_ids[slot];
        const eplb_u128 tokens = (uint64_t)load[expert];
        const uint32_t from = (uint32_t)before[expert];
        const uint32_t to = from + (uint32_t)weights[slot];
        EPLB_ASSERT(load[expert] >= 0 && to <= EPLB_WEIGHT_UNIT);
        physical[slot] = (int64_t)(tokens * to / EPLB_WEIGHT_UNIT - tokens * from / EPLB_WEIGHT_UNIT);
        before[expert] = (int32_t)to;
    }
}
