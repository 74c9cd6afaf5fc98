/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "unit/policy/deepseek_twin.h"

/** pack_of and place_of of each item. */
static void twin_pack(const float *weight, int items, int packs, int *pack_of, int *place_of)
{
    float sums[TWIN_MAX] = {0};
    int used[TWIN_MAX] = {0};
    char taken[TWIN_MAX] = {0};
    for (int i = 0; i < items; i++) {
        int heaviest = -1;
        for (int item = 0; item < items; item++)
            if (!taken[item] && (heaviest < 0 || weight[item] > weight[heaviest]))
                heaviest = item;
        taken[heaviest] = 1;
        int best = -1;
        for (int pack = 0; pack < packs; pack++)
            if (used[pack] < items / packs && (best < 0 || sums[pack] < sums[best]))
                best = pack;
        pack_of[heaviest] = items == packs ? heaviest : best;
        place_of[heaviest] = items == packs ? 0 : used[best];
        used[best]++;
        sums[best] += weight[heaviest];
    }
}

static void twin_copies(const float *weight, int experts, int replicas, int *expert_of, int *number_of,
                        int *count)
{
    for (int i = 0; i < experts; i++) {
        expert_of[i] = i;
        number_of[i] = 0;
        count[i] = 1;
    }
    for (int i = experts; i < replicas; i++) {
        int hottest = 0;
        for (int expert = 1; expert < experts; expert++)
            if (weight[expert] / (float)count[expert] > weight[hottest] / (float)count[hottest])
                hottest = expert;
        expert_of[i] = hottest;
        number_of[i] = count[hottest]++;
    }
}

static void twin_node(const float *weight, const int *order, int experts, int replicas, int gpus, int first,
                      struct twin_plan *plan)
{
    float node_weight[TWIN_MAX];
    float share[TWIN_MAX];
    int expert_of[TWIN_MAX];
    int number_of[TWIN_MAX];
    int count[TWIN_MAX];
    int pack_of[TWIN_MAX];
    int place_of[TWIN_MAX];
    for (int i = 0; i < experts; i++)
        node_weight[i] = weight[order[i]];
    twin_copies(node_weight, experts, replicas, expert_of, number_of, count);
    for (int i = 0; i < replicas; i++)
        share[i] = node_weight[expert_of[i]] / (float)count[expert_of[i]];
    twin_pack(share, replicas, gpus, pack_of, place_of);
    for (int i = 0; i < replicas; i++) {
        int slot = first + pack_of[i] * (replicas / gpus) + place_of[i];
        plan->phy2log[slot] = order[expert_of[i]];
        plan->phyrank[slot] = number_of[i];
    }
    for (int i = 0; i < experts; i++)
        plan->logcnt[order[i]] = count[i];
}

void twin_rebalance(const float *weight, int experts, int replicas, int groups, int nodes, int gpus,
                    struct twin_plan *plan)
{
    float group_weight[TWIN_MAX] = {0};
    int pack_of[TWIN_MAX];
    int place_of[TWIN_MAX];
    int order[TWIN_MAX];
    if (groups % nodes != 0)
        groups = nodes = 1;
    int size = experts / groups;
    for (int expert = 0; expert < experts; expert++)
        group_weight[expert / size] += weight[expert];
    twin_pack(group_weight, groups, nodes, pack_of, place_of);
    for (int expert = 0; expert < experts; expert++) {
        int group = expert / size;
        order[(pack_of[group] * (groups / nodes) + place_of[group]) * size + expert % size] = expert;
    }
    for (int node = 0; node < nodes; node++)
        twin_node(weight, order + node * (experts / nodes), experts / nodes, replicas / nodes, gpus / nodes,
                  node * (replicas / nodes), plan);
}
