/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "unit/routing/plain_flow.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/** A network of experts 0 .. E-1, ranks E .. E+R-1, source and sink, with a whole capacity matrix. */
struct network {
    int32_t num_nodes;
    int64_t *room; /* [num_nodes][num_nodes] what an edge may still carry */
    int32_t *from; /* [num_nodes] */
    int32_t *queue;
};

static int64_t *edge(const struct network *network, int32_t from, int32_t to)
{
    return &network->room[(size_t)from * (size_t)network->num_nodes + (size_t)to];
}

static bool find_path(struct network *network, int32_t source, int32_t sink)
{
    memset(network->from, -1, (size_t)network->num_nodes * sizeof network->from[0]);
    int32_t tail = 0;
    network->queue[tail++] = source;
    network->from[source] = source;
    for (int32_t head = 0; head < tail && network->from[sink] < 0; head++) {
        int32_t node = network->queue[head];
        for (int32_t next = 0; next < network->num_nodes; next++) {
            if (network->from[next] >= 0 || *edge(network, node, next) == 0)
                continue;
            network->from[next] = node;
            network->queue[tail++] = next;
        }
    }
    return network->from[sink] >= 0;
}

static int64_t max_flow(struct network *network, int32_t source, int32_t sink)
{
    int64_t sum = 0;
    while (find_path(network, source, sink)) {
        int64_t amount = INT64_MAX;
        for (int32_t node = sink; node != source; node = network->from[node]) {
            int64_t room = *edge(network, network->from[node], node);
            amount = room < amount ? room : amount;
        }
        for (int32_t node = sink; node != source; node = network->from[node]) {
            *edge(network, network->from[node], node) -= amount;
            *edge(network, node, network->from[node]) += amount;
        }
        sum += amount;
    }
    return sum;
}

/** Whether load * factor fits ranks of this capacity. */
static bool fits(struct network *network, const struct eplb_shape *shape, const int32_t *ids,
                 const int64_t *load, int64_t factor, int64_t capacity)
{
    int32_t experts = shape->num_experts;
    int32_t source = experts + shape->ep_size;
    int32_t sink = source + 1;
    size_t nodes = (size_t)network->num_nodes;
    memset(network->room, 0, nodes * nodes * sizeof network->room[0]);
    int64_t sum = 0;
    for (int32_t expert = 0; expert < experts; expert++) {
        *edge(network, source, expert) = load[expert] * factor;
        sum += load[expert] * factor;
    }
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        *edge(network, ids[slot], experts + slot / shape->slots_per_rank) = INT64_MAX / 4;
    for (int32_t rank = 0; rank < shape->ep_size; rank++)
        *edge(network, experts + rank, sink) = capacity;
    return max_flow(network, source, sink) == sum;
}

static int64_t search(struct network *network, const struct eplb_shape *shape, const int32_t *ids,
                      const int64_t *load, int64_t factor)
{
    int64_t low = -1; /* does not fit */
    int64_t high = 0; /* fits */
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        high += load[expert] * factor;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (fits(network, shape, ids, load, factor, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

int64_t plain_flow_capacity(const struct eplb_shape *shape, const int32_t *ids, const int64_t *load,
                            int64_t factor)
{
    struct network network = {.num_nodes = shape->num_experts + shape->ep_size + 2};
    size_t nodes = (size_t)network.num_nodes;
    network.room = calloc(nodes * nodes, sizeof network.room[0]);
    network.from = calloc(nodes, sizeof network.from[0]);
    network.queue = calloc(nodes, sizeof network.queue[0]);
    int64_t capacity = -1;
    if (network.room && network.from && network.queue)
        capacity = search(&network, shape, ids, load, factor);
    free(network.room);
    free(network.from);
    free(network.queue);
    return capacity;
}
