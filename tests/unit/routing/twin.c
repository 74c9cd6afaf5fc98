/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "twin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>

#include "support/tables.h"
#include "unit/routing/plain_flow.h"

/* Two ratios of denominators up to R differ by 1 / R^2 at least, so one such ratio at most lies in an
 * interval of half that length. */
struct twin_ratio twin_best_peak(const struct eplb_shape *shape, const int32_t *ids, const int64_t *load)
{
    int64_t factor = 2 * (int64_t)shape->ep_size * shape->ep_size;
    int64_t capacity = plain_flow_capacity(shape, ids, load, factor);
    assert_true(capacity >= 0);
    for (int64_t size = 1; size <= shape->ep_size; size++) {
        int64_t sum = capacity * size / factor;
        if (sum * factor > (capacity - 1) * size)
            return (struct twin_ratio){sum, size};
    }
    fail_msg("%s", "the flow's peak is no density of a rank set");
    return (struct twin_ratio){0, 1};
}

int64_t twin_integral_peak(const struct eplb_shape *shape, const int32_t *ids, const int64_t *load)
{
    int64_t capacity = plain_flow_capacity(shape, ids, load, 1);
    assert_true(capacity >= 0);
    return capacity;
}

struct twin_ratio twin_densest(const struct eplb_shape *shape, const int32_t *ids, const int64_t *load)
{
    struct twin_ratio best = {0, 1};
    assert_true(shape->ep_size <= 20);
    uint32_t *holders = calloc((size_t)shape->num_experts, sizeof *holders);
    assert_non_null(holders);
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        holders[ids[slot]] |= UINT32_C(1) << slot / shape->slots_per_rank;
    for (uint32_t set = 1; set < UINT32_C(1) << shape->ep_size; set++) {
        struct twin_ratio ratio = {0, 0};
        for (int32_t rank = 0; rank < shape->ep_size; rank++)
            ratio.size += set >> rank & 1;
        for (int32_t expert = 0; expert < shape->num_experts; expert++)
            ratio.load += (holders[expert] & ~set) == 0 ? load[expert] : 0;
        if (ratio.load * best.size > best.load * ratio.size)
            best = ratio;
    }
    free(holders);
    return best;
}

struct eplb_shape twin_random_shape(struct eplb_prng *prng, int32_t max_ranks)
{
    int32_t ranks = 1 + (int32_t)eplb_prng_below(prng, (uint64_t)max_ranks);
    int32_t own = 1 + (int32_t)eplb_prng_below(prng, 4);
    int32_t redundant = (int32_t)eplb_prng_below(prng, 4);
    int32_t most = ranks * own - own;
    return tables_shape(ranks * own, ranks, redundant < most ? redundant : most);
}

void twin_random_load(struct eplb_prng *prng, int32_t num_experts, int64_t *load)
{
    uint64_t kind = eplb_prng_below(prng, 4);
    for (int32_t expert = 0; expert < num_experts; expert++) {
        uint64_t bits = kind == 0 ? 2 : kind == 1 ? 10 : eplb_prng_below(prng, 20);
        load[expert] = (int64_t)eplb_prng_below(prng, UINT64_C(1) << bits);
    }
}
