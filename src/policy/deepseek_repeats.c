/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The removal of repeats.
 *
 * The second replica of e on rank a changes places with f of rank b, where b lacks e and a lacks f. That
 * takes one repeat from a and gives none to b, so the number of repeats falls with every exchange.
 *
 * There is such an exchange as long as there are repeats. An expert has at most as many replicas as the
 * node has ranks, so where a holds e twice some rank lacks e. Suppose that no repeat can be exchanged, and
 * let a be the rank with repeats that holds the fewest different experts. Take a rank b that lacks e: all
 * that it holds is on a too, so it holds fewer different experts than a, and as it has as many slots, it
 * has repeats: a contradiction. One pass over the ranks therefore always finds one to exchange, and passes
 * end.
 */
#include "policy/deepseek.h"

#include <string.h>

#include "base/assert.h"

/** One node: its slots and ranks count from 0. */
struct node {
    struct eplb_deepseek_replica *slots;
    double *sums;  /* of each rank */
    int32_t *held; /* [E] slots of each expert on the rank in hand */
    int32_t num_ranks;
    int32_t per_rank;
    double peak; /* the largest sum that a rank had so far: an exchange that stays below it costs nothing */
};

static bool holds(const struct node *node, int32_t rank, int32_t expert)
{
    const struct eplb_deepseek_replica *row = node->slots + rank * node->per_rank;
    for (int32_t slot = 0; slot < node->per_rank; slot++)
        if (row[slot].expert == expert)
            return true;
    return false;
}

static double gain_of(const struct node *node, int32_t here, int32_t there)
{
    return (double)node->slots[there].weight - (double)node->slots[here].weight;
}

/** The larger one of both ranks' sums after an exchange of two slots. */
static double sum_after(const struct node *node, int32_t here, int32_t there)
{
    const double sum_here = node->sums[here / node->per_rank] + gain_of(node, here, there);
    const double sum_there = node->sums[there / node->per_rank] - gain_of(node, here, there);
    return sum_here > sum_there ? sum_here : sum_there;
}

/** The slot that a repeat is best exchanged with, or -1 when no slot will do. */
static int32_t find_partner(const struct node *node, int32_t here)
{
    const int32_t rank = here / node->per_rank;
    int32_t best = -1;
    double best_sum = 0;
    for (int32_t step = 1; step < node->num_ranks && (best < 0 || best_sum > node->peak); step++) {
        const int32_t other = (rank + step) % node->num_ranks;
        if (holds(node, other, node->slots[here].expert))
            continue;
        for (int32_t there = other * node->per_rank; there < (other + 1) * node->per_rank; there++) {
            if (node->held[node->slots[there].expert] > 0)
                continue;
            const double sum = sum_after(node, here, there);
            if (best < 0 || sum < best_sum) {
                best = there;
                best_sum = sum;
            }
        }
    }
    EPLB_ASSERT(best < 0 || best / node->per_rank != rank);
    return best;
}

static void exchange(struct node *node, int32_t here, int32_t there)
{
    const double gain = gain_of(node, here, there);
    const double sum = sum_after(node, here, there);
    node->peak = sum > node->peak ? sum : node->peak;
    node->sums[here / node->per_rank] += gain;
    node->sums[there / node->per_rank] -= gain;
    const struct eplb_deepseek_replica swap = node->slots[here];
    node->slots[here] = node->slots[there];
    node->slots[there] = swap;
}

struct outcome {
    int32_t exchanged;
    int32_t left;
};

/** From the last slot on, so that of two replicas the second one goes. */
static void treat_rank(struct node *node, int32_t rank, struct outcome *outcome)
{
    const int32_t first = rank * node->per_rank;
    const int32_t end = first + node->per_rank;
    for (int32_t slot = first; slot < end; slot++)
        node->held[node->slots[slot].expert]++;
    for (int32_t here = end - 1; here >= first; here--) {
        const int32_t expert = node->slots[here].expert;
        if (node->held[expert] == 1)
            continue;
        const int32_t there = find_partner(node, here);
        if (there < 0) {
            outcome->left++;
            continue;
        }
        exchange(node, here, there);
        EPLB_ASSERT(node->held[node->slots[here].expert] == 0);
        node->held[expert]--;
        node->held[node->slots[here].expert]++;
        outcome->exchanged++;
    }
    for (int32_t slot = first; slot < end; slot++)
        node->held[node->slots[slot].expert] = 0;
}

static void treat_node(struct node *node)
{
    for (int32_t rank = 0; rank < node->num_ranks; rank++) {
        double sum = 0;
        for (int32_t slot = 0; slot < node->per_rank; slot++)
            sum += (double)node->slots[rank * node->per_rank + slot].weight;
        node->sums[rank] = sum;
        node->peak = sum > node->peak ? sum : node->peak;
    }
    struct outcome outcome;
    do {
        outcome = (struct outcome){0};
        for (int32_t rank = 0; rank < node->num_ranks; rank++)
            treat_rank(node, rank, &outcome);
        EPLB_ASSERT(outcome.left == 0 || outcome.exchanged > 0);
    } while (outcome.left > 0);
}

void eplb_deepseek_remove_repeats(struct eplb_deepseek_layer *layer)
{
    const struct eplb_deepseek_sizes *sizes = layer->sizes;
    memset(layer->held, 0, (size_t)sizes->num_experts * sizeof *layer->held);
    struct node node = {.sums = layer->rank_sums,
                        .held = layer->held,
                        .num_ranks = sizes->num_gpus / sizes->num_nodes,
                        .per_rank = sizes->num_replicas / sizes->num_gpus};
    EPLB_ASSERT(sizes->num_nodes * node.num_ranks * node.per_rank == sizes->num_replicas);
    for (int32_t i = 0; i < sizes->num_nodes; i++) {
        node.slots = layer->slots + i * node.num_ranks * node.per_rank;
        node.peak = 0;
        treat_node(&node);
    }
}
