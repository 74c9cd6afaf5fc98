/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Tables of replicas, and the phases at which source ranks and forwards enter them. */
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "eplb/routing.h"

/** The golden ratio's fractional part: multiples of it are spread as evenly as a rule can that does not end.
 */
static const uint32_t golden = UINT32_C(0x9e3779b9);

/**
 * Fractional parts of square roots of primes, for the depths below the root: they and the golden ratio
 * are independent, so ranks and forwards that the root sends one way are spread over what is below it.
 */
static const uint32_t steps[] = {UINT32_C(0x6a09e667), UINT32_C(0xbb67ae85), UINT32_C(0xa54ff53a),
                                 UINT32_C(0x510e527f), UINT32_C(0x9b05688c), UINT32_C(0x1f83d9ab),
                                 UINT32_C(0xcbbb9d5d), UINT32_C(0x629a292a)};
enum { NUM_STEPS = sizeof steps / sizeof *steps };

/* ----------------------------------------------------------------------------------------- memory */

static void layout(struct eplb_route_table *table, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t slots = (size_t)shape->num_slots;
    table->first = eplb_arena_take(arena, (size_t)shape->num_experts + 1, sizeof *table->first);
    table->slots = eplb_arena_take(arena, slots, sizeof *table->slots);
    table->shares = eplb_arena_take(arena, slots, sizeof *table->shares);
}

size_t eplb_route_table_size(const struct eplb_shape *shape)
{
    struct eplb_route_table table;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&table, &arena, shape);
    return arena.used;
}

void eplb_route_table_init(struct eplb_route_table *table, const struct eplb_shape *shape, int32_t source,
                           void *memory)
{
    struct eplb_arena arena;
    EPLB_ASSERT(source >= 0 && source < shape->ep_size);
    size_t size = eplb_route_table_size(shape);
    *table = (struct eplb_route_table){.shape = *shape, .source = source};
    memset(memory, 0, size);
    eplb_arena_init(&arena, memory, size);
    layout(table, &arena, shape);
    EPLB_ASSERT(!arena.overflow);
}

void eplb_route_table_copy(struct eplb_route_table *table, const struct eplb_route_table *from)
{
    const struct eplb_shape *shape = &table->shape;
    EPLB_ASSERT(from->source == table->source && from->shape.num_experts == shape->num_experts &&
                from->shape.num_slots == shape->num_slots);
    memcpy(table->first, from->first, ((size_t)shape->num_experts + 1) * sizeof *table->first);
    memcpy(table->slots, from->slots, (size_t)shape->num_slots * sizeof *table->slots);
    memcpy(table->shares, from->shares, (size_t)shape->num_slots * sizeof *table->shares);
}

/* ----------------------------------------------------------------------------------------- making */

/** Groups the slots by expert. */
static void list_replicas(struct eplb_route_table *table, const int32_t *expert_ids)
{
    const struct eplb_shape *shape = &table->shape;
    int32_t *first = table->first;
    memset(first, 0, ((size_t)shape->num_experts + 1) * sizeof *first);
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        EPLB_ASSERT(expert_ids[slot] >= 0 && expert_ids[slot] < shape->num_experts);
        first[expert_ids[slot] + 1]++;
    }
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        EPLB_ASSERT(first[expert + 1] >= 1);
        first[expert + 1] += first[expert];
    }
    /* Filling moves each beginning to its end, which is the next one's beginning. */
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        table->slots[first[expert_ids[slot]]++] = slot;
    for (int32_t expert = shape->num_experts; expert > 0; expert--)
        first[expert] = first[expert - 1];
    first[0] = 0;
}

/** Fills the nodes over the leaves [low, high), and returns what the leaves weigh. */
static int64_t weigh(struct eplb_route_table *table, const int32_t *weights, int32_t low, int32_t high)
{
    if (high - low == 1) {
        EPLB_ASSERT(weights[table->slots[low]] > 0);
        return weights[table->slots[low]];
    }
    int32_t middle = low + (high - low) / 2;
    int64_t left = weigh(table, weights, low, middle);
    int64_t sum = left + weigh(table, weights, middle, high);
    table->shares[middle] = (uint32_t)((left << 32) / sum);
    return sum;
}

/** Equal weights, of leaves in place of slots. */
static int32_t weigh_equal(struct eplb_route_table *table, int32_t low, int32_t high)
{
    int32_t count = high - low;
    if (count > 1) {
        int32_t left = weigh_equal(table, low, low + count / 2);
        (void)weigh_equal(table, low + left, high);
        table->shares[low + left] = (uint32_t)(((int64_t)left << 32) / count);
    }
    return count;
}

static void weigh_all(struct eplb_route_table *table, const int32_t *weights)
{
    for (int32_t expert = 0; expert < table->shape.num_experts; expert++) {
        int32_t first = table->first[expert];
        int32_t end = table->first[expert + 1];
        if (weights == NULL) {
            (void)weigh_equal(table, first, end);
        } else {
            int64_t sum = weigh(table, weights, first, end);
            EPLB_ASSERT(sum == EPLB_WEIGHT_UNIT);
        }
    }
}

static int32_t node_of(const struct eplb_route_params *params, int32_t rank)
{
    return params->node_of_rank == NULL ? 0 : params->node_of_rank[rank];
}

/** How many of the replicas are on a node; and how many on the rank itself. */
static int32_t count_on_node(const struct eplb_route_table *table, const struct eplb_route_params *params,
                             int32_t expert, int32_t rank, int32_t *on_rank)
{
    int32_t count = 0;
    *on_rank = 0;
    for (int32_t i = table->first[expert]; i < table->first[expert + 1]; i++) {
        int32_t holder = table->slots[i] / table->shape.slots_per_rank;
        count += node_of(params, holder) == node_of(params, rank);
        *on_rank += holder == rank;
    }
    return count;
}

/** Which of an expert's replicas is the source's own; -1: none. */
static int32_t own_replica(const struct eplb_route_table *table, int32_t expert)
{
    for (int32_t i = table->first[expert]; i < table->first[expert + 1]; i++)
        if (table->slots[i] / table->shape.slots_per_rank == table->source)
            return i - table->first[expert];
    return -1;
}

/** The replica with this number among those on the source's node. */
static int32_t replica_on_node(const struct eplb_route_table *table, const struct eplb_route_params *params,
                               int32_t expert, int32_t number)
{
    int32_t i = table->first[expert];
    for (;; i++) {
        int32_t holder = table->slots[i] / table->shape.slots_per_rank;
        EPLB_ASSERT(i < table->first[expert + 1]);
        if (node_of(params, holder) == node_of(params, table->source) && number-- == 0)
            return i - table->first[expert];
    }
}

static int32_t choose_local(const struct eplb_route_table *table, const struct eplb_route_params *params,
                            int32_t expert)
{
    int32_t here, before = 0;
    int32_t own = own_replica(table, expert);
    if (own >= 0)
        return own;
    int32_t near = count_on_node(table, params, expert, table->source, &here);
    for (int32_t rank = 0; rank < table->source; rank++) {
        int32_t on_node = count_on_node(table, params, expert, rank, &here);
        if (near > 0)
            before += here == 0 && node_of(params, rank) == node_of(params, table->source);
        else
            before += on_node == 0;
    }
    return near > 0 ? replica_on_node(table, params, expert, before % near)
                    : before % (table->first[expert + 1] - table->first[expert]);
}

/** Leaves one replica of every expert; the list shrinks from its beginning. */
static void choose_one(struct eplb_route_table *table, const struct eplb_route_params *params)
{
    for (int32_t expert = 0; expert < table->shape.num_experts; expert++) {
        int32_t first = table->first[expert];
        int32_t replicas = table->first[expert + 1] - first;
        int32_t number = (int32_t)(((int64_t)table->source + params->moe_tp_rank) % replicas);
        if (params->routing == EPLB_ROUTING_LOCAL && replicas > 1)
            number = choose_local(table, params, expert);
        table->slots[expert] = table->slots[first + number];
        table->first[expert] = expert;
    }
    table->first[table->shape.num_experts] = table->shape.num_experts;
}

void eplb_route_table_set(struct eplb_route_table *table, const struct eplb_route_params *params)
{
    EPLB_ASSERT(params->size >= sizeof *params && params->moe_tp_rank >= 0);
    list_replicas(table, params->expert_ids);
    if (params->routing == EPLB_ROUTING_STATIC || params->routing == EPLB_ROUTING_LOCAL)
        choose_one(table, params);
    else
        weigh_all(table, params->weights);
}

/* ----------------------------------------------------------------------------------------- phases */

static int32_t common_divisor(int32_t a, int32_t b)
{
    while (b > 0) {
        int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/**
 * Where a rank stands among all of them when phases are dealt out: every place is taken once, and ranks
 * that follow each other, which may be a node or a part that has no tokens, are far apart.
 */
static uint32_t place_of(int32_t num_ranks, int32_t source)
{
    int32_t stride = (int32_t)((uint64_t)num_ranks * golden >> 32);
    if (stride < 1)
        stride = 1;
    while (common_divisor(num_ranks, stride) != 1)
        stride--;
    return (uint32_t)((int64_t)source * stride % num_ranks);
}

void eplb_route_turn_init(struct eplb_route_turn *turn, int32_t num_ranks, int32_t source, uint64_t number)
{
    EPLB_ASSERT(source >= 0 && source < num_ranks);
    uint32_t place = place_of(num_ranks, source);
    uint32_t forward = (uint32_t)number;
    turn->phases[0] = (uint32_t)(((uint64_t)place << 32) / (uint64_t)num_ranks) + forward * golden;
    for (int32_t depth = 1; depth < EPLB_ROUTE_LEVELS; depth++)
        turn->phases[depth] = (place + forward) * steps[depth % NUM_STEPS];
}
