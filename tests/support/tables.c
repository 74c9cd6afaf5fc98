/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

struct eplb_shape tables_shape(int32_t num_experts, int32_t ep_size, int32_t redundant_experts_num)
{
    struct eplb_shape shape = {0};
    struct eplb_error error;
    if (eplb_shape_init(&shape, 1, num_experts, ep_size, redundant_experts_num, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return shape;
}

static int32_t below(struct eplb_prng *prng, int32_t bound)
{
    return (int32_t)eplb_prng_below(prng, (uint64_t)bound);
}

static int on_rank(const struct eplb_shape *shape, const int32_t *expert_ids, int32_t rank, int32_t expert)
{
    for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
        if (expert_ids[rank * shape->slots_per_rank + slot] == expert)
            return 1;
    return 0;
}

static void swap(const struct eplb_shape *shape, int32_t *expert_ids, int32_t a, int32_t b)
{
    int32_t rank_a = a / shape->slots_per_rank;
    int32_t rank_b = b / shape->slots_per_rank;
    int32_t expert_a = expert_ids[a];
    int32_t expert_b = expert_ids[b];
    if (rank_a != rank_b &&
        (on_rank(shape, expert_ids, rank_a, expert_b) || on_rank(shape, expert_ids, rank_b, expert_a)))
        return;
    expert_ids[a] = expert_b;
    expert_ids[b] = expert_a;
}

static void replace(const struct eplb_shape *shape, int32_t *expert_ids, int32_t slot, int32_t expert)
{
    int32_t replicas = 0;
    for (int32_t p = 0; p < shape->num_slots; p++)
        replicas += expert_ids[p] == expert_ids[slot];
    if (replicas > 1 && !on_rank(shape, expert_ids, slot / shape->slots_per_rank, expert))
        expert_ids[slot] = expert;
}

void tables_stir(struct eplb_prng *prng, const struct eplb_shape *shape, int32_t *expert_ids, int32_t steps)
{
    for (int32_t step = 0; step < steps; step++) {
        int32_t slot = below(prng, shape->num_slots);
        if (below(prng, 2) == 0)
            swap(shape, expert_ids, slot, below(prng, shape->num_slots));
        else
            replace(shape, expert_ids, slot, below(prng, shape->num_experts));
    }
}

void tables_random(struct eplb_prng *prng, const struct eplb_shape *shape, int32_t *expert_ids)
{
    eplb_placement_initial(shape, expert_ids);
    tables_stir(prng, shape, expert_ids, 4 * shape->num_slots);
}
