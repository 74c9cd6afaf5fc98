/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "unit/policy/twin.h"

#include "base/wide.h"
#include "unit/policy/plan.h"

enum { FREE = -1 };

/** A fraction. Numerators up to 2^62 and denominators up to 2^32 multiply exactly. */
struct fraction {
    int64_t over;
    int64_t under;
};

static int larger(struct fraction a, struct fraction b)
{
    return (eplb_u128)a.over * (eplb_u128)b.under > (eplb_u128)b.over * (eplb_u128)a.under;
}

/** Order of `count` values from the largest, equal ones in the order they have. */
static void order(const struct fraction *values, int32_t count, int32_t *ordered)
{
    int taken[PLAN_MAX_SLOTS] = {0};
    for (int32_t place = 0; place < count; place++) {
        int32_t best = FREE;
        for (int32_t i = 0; i < count; i++)
            if (!taken[i] && (best == FREE || larger(values[i], values[best])))
                best = i;
        taken[best] = 1;
        ordered[place] = best;
    }
}

/** A packing: the table so far, FREE where a slot is free, and what each rank carries. */
struct ranks {
    const struct eplb_shape *shape;
    int32_t *table;
    eplb_u128 carried[PLAN_MAX_SLOTS];
};

static void empty(struct ranks *ranks, const struct eplb_shape *shape, int32_t *table)
{
    ranks->shape = shape;
    ranks->table = table;
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        table[slot] = FREE;
    for (int32_t rank = 0; rank < shape->ep_size; rank++)
        ranks->carried[rank] = 0;
}

/** Index of an expert in a row, or -1; looking for FREE finds the first free slot. */
static int32_t find(const struct eplb_shape *shape, const int32_t *row, int32_t expert)
{
    for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
        if (row[slot] == expert)
            return slot;
    return -1;
}

static int place(struct ranks *ranks, int32_t expert, eplb_u128 load)
{
    const struct eplb_shape *shape = ranks->shape;
    int32_t best = FREE;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        const int32_t *row = ranks->table + rank * shape->slots_per_rank;
        if (find(shape, row, FREE) >= 0 && find(shape, row, expert) < 0 &&
            (best == FREE || ranks->carried[rank] < ranks->carried[best]))
            best = rank;
    }
    if (best == FREE)
        return 0;
    int32_t *row = ranks->table + best * shape->slots_per_rank;
    row[find(shape, row, FREE)] = expert;
    ranks->carried[best] += load;
    return 1;
}

static void deal_in_a_circle(const struct eplb_shape *shape, const int64_t *load, const int32_t *replicas,
                             int32_t *table)
{
    struct fraction values[PLAN_MAX_EXPERTS] = {0};
    int32_t ordered[PLAN_MAX_EXPERTS];
    int32_t cards[PLAN_MAX_SLOTS];
    int32_t count = 0;
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        values[expert] = (struct fraction){load[expert], replicas[expert]};
    order(values, shape->num_experts, ordered);
    for (int32_t i = 0; i < shape->num_experts; i++)
        for (int32_t copy = 0; copy < replicas[ordered[i]]; copy++)
            cards[count++] = ordered[i];
    for (int32_t card = 0; card < count; card++)
        table[card % shape->ep_size * shape->slots_per_rank + card / shape->ep_size] = cards[card];
}

static void keep_slots(const struct eplb_shape *shape, const int32_t *active, const int32_t *packed,
                       int32_t *row)
{
    for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
        row[slot] = find(shape, packed, active[slot]) >= 0 ? active[slot] : FREE;
    for (int32_t i = 0; i < shape->slots_per_rank; i++)
        if (find(shape, active, packed[i]) < 0)
            row[find(shape, row, FREE)] = packed[i];
}

void twin_copies(const struct eplb_shape *shape, enum twin_rule rule, const int64_t *load, int32_t *replicas,
                 int32_t *chosen)
{
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        replicas[expert] = 1;
    for (int32_t copy = 0; copy < shape->num_slots - shape->num_experts; copy++) {
        struct fraction most = {-1, 1};
        for (int32_t expert = 0; expert < shape->num_experts; expert++) {
            int64_t c = replicas[expert];
            struct fraction worth = {load[expert], rule == TWIN_LARGEST_DROP ? c * (c + 1) : c};
            if (c < shape->ep_size && (most.over < 0 || larger(worth, most))) {
                chosen[copy] = expert;
                most = worth;
            }
        }
        replicas[chosen[copy]]++;
    }
}

int twin_balanced(const struct eplb_shape *shape, const int64_t *load, const int32_t *active,
                  int32_t *candidate)
{
    int32_t experts[PLAN_MAX_SLOTS];
    int32_t replicas[PLAN_MAX_EXPERTS];
    struct fraction values[PLAN_MAX_SLOTS] = {0};
    int32_t ordered[PLAN_MAX_SLOTS];
    int32_t packed[PLAN_MAX_SLOTS];
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        experts[expert] = expert;
    twin_copies(shape, TWIN_LARGEST_DROP, load, replicas, experts + shape->num_experts);
    for (int32_t i = 0; i < shape->num_slots; i++)
        values[i] = (struct fraction){load[experts[i]], replicas[experts[i]]};
    order(values, shape->num_slots, ordered);

    struct ranks ranks;
    int placed = 1;
    empty(&ranks, shape, packed);
    for (int32_t i = 0; placed && i < shape->num_slots; i++) {
        struct fraction value = values[ordered[i]];
        placed = place(&ranks, experts[ordered[i]], (eplb_u128)value.over * 1048576 / (eplb_u128)value.under);
    }
    if (!placed)
        deal_in_a_circle(shape, load, replicas, packed);
    for (int32_t row = 0; row < shape->num_slots; row += shape->slots_per_rank)
        keep_slots(shape, active + row, packed + row, candidate + row);
    return !placed;
}

void twin_floored_copies(const struct eplb_shape *shape, const int64_t *load, int64_t *weights,
                         int32_t *replicas)
{
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        weights[expert] = load[expert];
        replicas[expert] = 1;
    }
    for (int32_t copy = shape->num_experts; copy < shape->num_slots; copy++) {
        int32_t best = FREE;
        for (int32_t expert = 0; expert < shape->num_experts; expert++)
            if (replicas[expert] < shape->ep_size && (best == FREE || weights[expert] > weights[best]))
                best = expert;
        eplb_u128 c = (eplb_u128)replicas[best]++;
        weights[best] = (int64_t)((eplb_u128)weights[best] * c / (c + 1));
    }
}

int twin_greedy(const struct eplb_shape *shape, const int64_t *load, int32_t *candidate)
{
    struct fraction values[PLAN_MAX_EXPERTS] = {0};
    int64_t weights[PLAN_MAX_EXPERTS];
    int32_t replicas[PLAN_MAX_EXPERTS];
    int32_t ordered[PLAN_MAX_EXPERTS];
    twin_floored_copies(shape, load, weights, replicas);
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        values[expert] = (struct fraction){weights[expert], 1};
    order(values, shape->num_experts, ordered);

    struct ranks ranks;
    int placed = 1;
    empty(&ranks, shape, candidate);
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        for (int32_t copy = 1; placed && copy < replicas[expert]; copy++)
            placed = place(&ranks, expert, (eplb_u128)weights[expert]);
    for (int32_t i = 0; placed && i < shape->num_experts; i++)
        placed = place(&ranks, ordered[i], (eplb_u128)weights[ordered[i]]);
    if (!placed)
        deal_in_a_circle(shape, load, replicas, candidate);
    return !placed;
}
