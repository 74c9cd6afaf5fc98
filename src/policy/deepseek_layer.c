/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/deepseek.h"

#include "base/assert.h"
#include "policy/order.h"

static size_t larger(int32_t a, int32_t b)
{
    return (size_t)(a > b ? a : b);
}

void eplb_deepseek_layer_layout(struct eplb_deepseek_layer *layer, struct eplb_arena *arena,
                                const struct eplb_deepseek_sizes *sizes)
{
    const size_t experts = (size_t)sizes->num_experts;
    const size_t items = larger(sizes->num_replicas / sizes->num_nodes, sizes->num_groups);
    const size_t packs = larger(sizes->num_gpus / sizes->num_nodes, sizes->num_nodes);
    const size_t leaves = larger((int32_t)packs, sizes->num_experts / sizes->num_nodes);
    layer->sizes = sizes;
    layer->slots = eplb_arena_take(arena, (size_t)sizes->num_replicas, sizeof *layer->slots);
    layer->count = eplb_arena_take(arena, experts, sizeof *layer->count);
    layer->order = eplb_arena_take(arena, experts, sizeof *layer->order);
    layer->replicas = eplb_arena_take(arena, items, sizeof *layer->replicas);
    layer->keys = eplb_arena_take(arena, items, sizeof *layer->keys);
    layer->spare = eplb_arena_take(arena, items, sizeof *layer->spare);
    layer->nodes = eplb_arena_take(arena, 2 * leaves, sizeof *layer->nodes);
    layer->sums = eplb_arena_take(arena, packs, sizeof *layer->sums);
    layer->group_weight = eplb_arena_take(arena, (size_t)sizes->num_groups, sizeof *layer->group_weight);
    layer->used = eplb_arena_take(arena, packs, sizeof *layer->used);
    layer->packed = eplb_arena_take(arena, items, sizeof *layer->packed);
    layer->held = eplb_arena_take(arena, experts, sizeof *layer->held);
    layer->rank_sums = eplb_arena_take(arena, packs, sizeof *layer->rank_sums);
}

/**
 * Packs the items whose keys and weights are given, as many into each pack; packed[pack * per_pack + place]
 * is the item. With one item per pack the original does not look at the weights.
 */
static void pack(struct eplb_deepseek_layer *layer, int32_t items, int32_t packs,
                 float (*weight_of)(const struct eplb_deepseek_layer *layer, int32_t item))
{
    const int32_t per_pack = items / packs;
    EPLB_ASSERT(per_pack * packs == items);
    if (per_pack == 1) {
        for (int32_t item = 0; item < items; item++)
            layer->packed[item] = item;
        return;
    }
    for (int32_t item = 0; item < items; item++)
        layer->keys[item] = eplb_order_heaviest(weight_of(layer, item), item);
    eplb_order_sort(layer->keys, layer->spare, (size_t)items);

    const struct eplb_tournament lightest = {.nodes = layer->nodes, .count = packs};
    for (int32_t i = 0; i < packs; i++) {
        layer->sums[i] = 0;
        layer->used[i] = 0;
        layer->nodes[packs + i] = eplb_order_lightest(0, i);
    }
    eplb_tournament_play(&lightest);
    for (int32_t i = 0; i < items; i++) {
        const int32_t item = eplb_order_index(layer->keys[i]);
        const int32_t best = eplb_order_index(eplb_tournament_winner(&lightest));
        EPLB_ASSERT(best >= 0 && layer->used[best] < per_pack);
        layer->packed[best * per_pack + layer->used[best]++] = item;
        layer->sums[best] += weight_of(layer, item);
        const int full = layer->used[best] == per_pack;
        eplb_tournament_set(&lightest, best,
                            full ? EPLB_ORDER_NEVER : eplb_order_lightest(layer->sums[best], best));
    }
    EPLB_ASSERT(eplb_tournament_winner(&lightest) == EPLB_ORDER_NEVER); /* all packs are full */
}

static float weight_of_group(const struct eplb_deepseek_layer *layer, int32_t group)
{
    return layer->group_weight[group];
}

static float weight_of_replica(const struct eplb_deepseek_layer *layer, int32_t replica)
{
    return layer->replicas[replica].weight;
}

/** Which experts belong to which node, and in which order. */
static void groups_to_nodes(struct eplb_deepseek_layer *layer, const float *weight)
{
    const struct eplb_deepseek_sizes *sizes = layer->sizes;
    const int32_t group_size = sizes->num_experts / sizes->num_groups;
    EPLB_ASSERT(group_size * sizes->num_groups == sizes->num_experts);
    for (int32_t group = 0; group < sizes->num_groups; group++) {
        float sum = 0;
        for (int32_t i = 0; i < group_size; i++)
            sum += weight[group * group_size + i];
        layer->group_weight[group] = sum;
    }
    pack(layer, sizes->num_groups, sizes->num_nodes, weight_of_group);
    for (int32_t place = 0; place < sizes->num_groups; place++)
        for (int32_t i = 0; i < group_size; i++)
            layer->order[place * group_size + i] = layer->packed[place] * group_size + i;
}

static float share_of(float weight, int32_t count)
{
    return weight / (float)count;
}

/** Lists the replicas of one node's experts: each once, then the copies as they are chosen. */
static void choose_copies(struct eplb_deepseek_layer *layer, const int32_t *experts, const float *weight,
                          int32_t most)
{
    const struct eplb_deepseek_sizes *sizes = layer->sizes;
    const int32_t num_experts = sizes->num_experts / sizes->num_nodes;
    const int32_t num_replicas = sizes->num_replicas / sizes->num_nodes;
    EPLB_ASSERT(num_replicas >= num_experts && most >= 1);
    const struct eplb_tournament hottest = {.nodes = layer->nodes, .count = num_experts};
    for (int32_t i = 0; i < num_experts; i++) {
        layer->replicas[i] = (struct eplb_deepseek_replica){.expert = experts[i]};
        layer->count[experts[i]] = 1;
        layer->nodes[num_experts + i] =
            most > 1 ? eplb_order_heaviest(weight[experts[i]], i) : EPLB_ORDER_NEVER;
    }
    if (num_replicas > num_experts)
        eplb_tournament_play(&hottest);
    for (int32_t i = num_experts; i < num_replicas; i++) {
        const uint64_t winner = eplb_tournament_winner(&hottest);
        EPLB_ASSERT(winner != EPLB_ORDER_NEVER);
        const int32_t index = eplb_order_index(winner);
        const int32_t expert = experts[index];
        layer->replicas[i] =
            (struct eplb_deepseek_replica){.expert = expert, .number = layer->count[expert]++};
        const float share = share_of(weight[expert], layer->count[expert]);
        eplb_tournament_set(&hottest, index,
                            layer->count[expert] == most ? EPLB_ORDER_NEVER
                                                         : eplb_order_heaviest(share, index));
    }
    for (int32_t i = 0; i < num_replicas; i++) {
        const int32_t expert = layer->replicas[i].expert;
        EPLB_ASSERT(layer->replicas[i].number < layer->count[expert] && layer->count[expert] <= most);
        layer->replicas[i].weight = share_of(weight[expert], layer->count[expert]);
    }
}

void eplb_deepseek_layer_plan(struct eplb_deepseek_layer *layer, const float *weight, bool at_most_one)
{
    const struct eplb_deepseek_sizes *sizes = layer->sizes;
    const int32_t num_experts = sizes->num_experts / sizes->num_nodes;
    const int32_t num_replicas = sizes->num_replicas / sizes->num_nodes;
    const int32_t num_ranks = sizes->num_gpus / sizes->num_nodes;
    EPLB_ASSERT(!at_most_one || num_replicas / num_ranks <= num_experts);
    groups_to_nodes(layer, weight);
    for (int32_t node = 0; node < sizes->num_nodes; node++) {
        struct eplb_deepseek_replica *slots = layer->slots + node * num_replicas;
        choose_copies(layer, layer->order + node * num_experts, weight, at_most_one ? num_ranks : INT32_MAX);
        pack(layer, num_replicas, num_ranks, weight_of_replica);
        for (int32_t slot = 0; slot < num_replicas; slot++)
            slots[slot] = layer->replicas[layer->packed[slot]];
    }
}
