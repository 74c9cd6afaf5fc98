/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The fast road of `balanced` and `greedy` beside their plain twins: the same tables, on both sides of the
 * bound where one takes over from the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/lpt.h"
#include "policy/packing.h"
#include "policy/plain.h"
#include "policy/policies.h"
#include "policy/quick.h"
#include "support/tables.h"
#include "unit/policy/plan.h"

enum { RUNS = 10000, MAX_EXPERTS = 4096, MAX_SLOTS = 8192 };

static int64_t load[MAX_EXPERTS];
static int32_t active[MAX_SLOTS];
static int32_t by_policy[MAX_SLOTS];
static int32_t by_twin[MAX_SLOTS];
static int32_t weights[MAX_SLOTS];

static void start(struct eplb_prng *prng, uint64_t seed)
{
    printf("seed %" PRIu64 "\n", seed);
    eplb_prng_seed(prng, seed);
}

static int32_t below(struct eplb_prng *prng, int32_t bound)
{
    return (int32_t)eplb_prng_below(prng, (uint64_t)bound);
}

static void run(const struct eplb_policy_ops *ops, const struct eplb_shape *shape, int32_t *expert_ids)
{
    struct eplb_policy_settings settings;
    eplb_policy_settings_init(&settings);
    const size_t bytes = (ops->scratch_size(shape, &settings) + 63) / 64 * 64;
    void *scratch = aligned_alloc(64, bytes);
    assert_non_null(scratch);
    memset(scratch, 0xa5, bytes);
    const struct eplb_policy_problem problem = {
        .size = sizeof problem, .shape = shape, .settings = &settings, .load = load, .active = active};
    struct eplb_policy_answer answer = {.size = sizeof answer, .expert_ids = expert_ids, .weights = weights};
    assert_int_equal(ops->plan_layer(&problem, scratch, &answer, NULL), EPLB_OK);
    free(scratch);
}

static void check_both(const struct eplb_shape *shape, int number)
{
    static const struct {
        const struct eplb_policy_ops *policy;
        const struct eplb_policy_ops *twin;
    } pairs[] = {{&eplb_policy_balanced, &eplb_plain_balanced}, {&eplb_policy_greedy, &eplb_plain_greedy}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        run(pairs[i].policy, shape, by_policy);
        run(pairs[i].twin, shape, by_twin);
        if (memcmp(by_policy, by_twin, (size_t)shape->num_slots * sizeof *by_twin) != 0)
            fail_msg("%s, %d experts, %d ranks, %d redundant, run %d: not the plain twin's table",
                     pairs[i].policy->name, shape->num_experts, shape->ep_size, shape->redundant_experts_num,
                     number);
    }
}

static int64_t sum_of(const struct eplb_shape *shape)
{
    int64_t sum = 0;
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        sum += load[expert];
    return sum;
}

/** Mostly small shapes, where dead ends are; now and then up to 512 experts. */
static struct eplb_shape random_shape(struct eplb_prng *prng)
{
    const bool large = below(prng, 50) == 0;
    const int32_t ranks = 1 + below(prng, large ? 64 : 12);
    const int32_t owned = 1 + below(prng, large ? 8 : 4);
    const int32_t most = (ranks - 1) * owned;
    return tables_shape(ranks * owned, ranks, below(prng, (most < 6 ? most : 6) + 1));
}

/** Loads that share few divisors of a large number tie as quotients, 60 / 3 and 40 / 2, not as loads. */
static void random_load(struct eplb_prng *prng, const struct eplb_shape *shape)
{
    const int kind = below(prng, 4);
    plan_random_load(prng, shape, EPLB_QUICK_LOAD / shape->num_experts - 1, load);
    for (int32_t expert = 0; kind < 2 && expert < shape->num_experts; expert++)
        load[expert] = kind == 0 ? INT64_C(720720) * (1 + below(prng, 12))
                                 : (INT64_C(1) << 36) * below(prng, 3) + below(prng, 2);
}

static void both_roads_give_the_same_tables(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 20240711);
    int at_the_bound = 0;
    for (int number = 0; number < RUNS; number++) {
        const struct eplb_shape shape = random_shape(&prng);
        tables_random(&prng, &shape, active);
        random_load(&prng, &shape);
        const int64_t room = EPLB_QUICK_LOAD - sum_of(&shape);
        if (below(&prng, 4) == 0 && room >= 0) {
            load[below(&prng, shape.num_experts)] += room + number % 2;
            assert_int_equal(eplb_quick_fits(load, shape.num_experts), number % 2 == 0);
            at_the_bound++;
        }
        check_both(&shape, number);
    }
    printf("%d loads at the bound\n", at_the_bound);
    assert_true(at_the_bound >= RUNS / 8);
}

static void the_bound_counts_every_token(void **state)
{
    (void)state;
    static int64_t loads[EPLB_MAX_EXPERTS];
    loads[7] = EPLB_QUICK_LOAD;
    assert_true(eplb_quick_fits(loads, EPLB_MAX_EXPERTS));
    loads[EPLB_MAX_EXPERTS - 1] = 1;
    assert_false(eplb_quick_fits(loads, EPLB_MAX_EXPERTS));
    assert_true(eplb_quick_fits(loads, EPLB_MAX_EXPERTS - 1));
    for (int32_t i = 0; i < EPLB_MAX_EXPERTS; i++)
        loads[i] = EPLB_QUICK_LOAD;
    assert_false(eplb_quick_fits(loads, EPLB_MAX_EXPERTS));
    /* Four of them add up to 0 in 64 bits. */
    for (int32_t i = 0; i < 4; i++)
        loads[i] = EPLB_MAX_LOAD;
    assert_false(eplb_quick_fits(loads, 4));
}

static bool is_quick(const struct eplb_shape *shape)
{
    struct eplb_arena arena;
    struct eplb_quick quick;
    eplb_arena_init(&arena, NULL, 0);
    eplb_quick_layout(&quick, &arena, shape);
    void *block = eplb_arena_reserve(&arena);
    assert_non_null(block);
    eplb_quick_layout(&quick, &arena, shape);
    const bool is = eplb_quick_copies(&quick, EPLB_QUICK_LARGEST_DROP, load);
    eplb_arena_free(block);
    return is;
}

/** One expert on every rank: 1024 ranks are the most that the fast road takes, 1025 are not. */
static void the_most_replicas(void **state)
{
    (void)state;
    for (int32_t ranks = 1023; ranks <= 1026; ranks++) {
        const struct eplb_shape shape = tables_shape(ranks, ranks, 1);
        eplb_placement_initial(&shape, active);
        memset(load, 0, sizeof load);
        load[3] = EPLB_QUICK_LOAD - 1;
        load[5] = 1;
        assert_int_equal(is_quick(&shape), ranks <= EPLB_QUICK_REPLICAS);
        check_both(&shape, ranks);
    }
}

/**
 * The last of 100 copies goes to expert 1, whose replica load would fall by a little more than that of
 * expert 0: so little that both round down to the same number of shares.
 */
static void worths_that_round_to_the_same_are_told_apart(void **state)
{
    (void)state;
    const struct eplb_shape shape = tables_shape(100, 100, 1);
    int told_apart = 0;
    eplb_placement_initial(&shape, active);
    memset(load, 0, sizeof load);
    for (int64_t c = 40; c <= 61; c++) {
        const int64_t under = c * (c + 1);
        const int64_t other_under = (101 - c) * (102 - c);
        for (load[0] = 1000 * under; load[0] < 1001 * under; load[0]++) {
            if ((load[0] * other_under + 2) % under != 0)
                continue;
            load[1] = (load[0] * other_under + 2) / under;
            told_apart += (load[0] << EPLB_SHARE_BITS) / under == (load[1] << EPLB_SHARE_BITS) / other_under;
            check_both(&shape, (int)c);
        }
    }
    assert_true(told_apart >= 10);
}

/** Quotients that differ by as little as they can: a / 1024 and b / 1023. */
static void shares_order_the_closest_quotients(void **state)
{
    (void)state;
    for (uint64_t b = 1; b < 1023; b++) {
        const uint64_t a = 1024 * b / 1023;
        const uint64_t share_a = (a << EPLB_SHARE_BITS) / 1024;
        const uint64_t share_b = (b << EPLB_SHARE_BITS) / 1023;
        assert_true((a * 1023 < b * 1024) == (share_a < share_b));
        assert_true((a * 1023 == b * 1024) == (share_a == share_b));
    }
}

static void a_large_layer_is_its_twin(void **state)
{
    (void)state;
    struct eplb_prng prng;
    start(&prng, 20240712);
    const struct eplb_shape shape = tables_shape(1024, 256, 1);
    eplb_placement_initial(&shape, active);
    for (int number = 0; number < 5; number++) {
        plan_random_load(&prng, &shape, EPLB_QUICK_LOAD / 1024 - 1, load);
        check_both(&shape, number);
    }
}

/** Takes memory for a packing and hands it the same replicas as the other one. */
static void pack_both(struct eplb_prng *prng, const struct eplb_shape *shape, void *memory, size_t bytes)
{
    struct eplb_arena arena;
    struct eplb_packing packing;
    struct eplb_lpt lpt;
    eplb_arena_init(&arena, memory, bytes);
    eplb_packing_layout(&packing, &arena, shape);
    eplb_lpt_layout(&lpt, &arena, shape);
    assert_false(arena.overflow);
    packing.expert_ids = by_twin;
    eplb_packing_reset(&packing);
    eplb_lpt_reset(&lpt, by_policy);
    for (int32_t i = 0; i < shape->num_slots; i++) {
        const int32_t expert = below(prng, shape->num_experts);
        const uint64_t weight = (uint64_t)below(prng, 4);
        const bool placed = eplb_packing_add(&packing, expert, weight);
        assert_int_equal(eplb_lpt_add_replica(&lpt, expert, weight), placed);
        if (!placed)
            return;
        for (int32_t rank = 0; rank < shape->ep_size; rank++) {
            const size_t row = (size_t)rank * (size_t)shape->slots_per_rank;
            assert_int_equal(lpt.used[rank], packing.used[rank]);
            assert_true(lpt.sums[rank] == packing.loads[rank]);
            assert_memory_equal(by_policy + row, by_twin + row, (size_t)lpt.used[rank] * sizeof *by_twin);
        }
    }
}

static void a_tournament_packs_like_a_scan(void **state)
{
    (void)state;
    struct eplb_prng prng;
    enum { BYTES = 1 << 16 };
    void *memory = aligned_alloc(64, BYTES);
    assert_non_null(memory);
    start(&prng, 20240713);
    for (int number = 0; number < 2000; number++) {
        const int32_t ranks = 1 + below(&prng, 17);
        const int32_t owned = 1 + below(&prng, 3);
        const struct eplb_shape shape =
            tables_shape(ranks * owned, ranks, below(&prng, (ranks - 1) * owned + 1));
        pack_both(&prng, &shape, memory, BYTES);
    }
    free(memory);
}

static void weights_are_sorted(void **state)
{
    (void)state;
    enum { MOST = 300, PRIME = 307 };
    struct eplb_prng prng;
    struct eplb_weighed items[MOST];
    struct eplb_weighed scratch[MOST];
    uint64_t weight_of[PRIME];
    start(&prng, 20240714);
    for (int32_t count = 0; count <= MOST; count++) {
        for (int32_t i = 0; i < count; i++) {
            const int32_t expert = i * 7 % PRIME;
            weight_of[expert] = (uint64_t)below(&prng, 40);
            items[i] = (struct eplb_weighed){.weight = weight_of[expert], .expert = expert};
        }
        eplb_weighed_sort(items, count, scratch);
        /* The order is strict, so nobody stands there twice, and so nobody is missing. */
        for (int32_t i = 0; i < count; i++) {
            assert_true(i == 0 || eplb_weighed_first(&items[i - 1], &items[i]));
            assert_true(items[i].weight == weight_of[items[i].expert]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_roads_give_the_same_tables),
        cmocka_unit_test(the_bound_counts_every_token),
        cmocka_unit_test(the_most_replicas),
        cmocka_unit_test(worths_that_round_to_the_same_are_told_apart),
        cmocka_unit_test(shares_order_the_closest_quotients),
        cmocka_unit_test(a_large_layer_is_its_twin),
        cmocka_unit_test(a_tournament_packs_like_a_scan),
        cmocka_unit_test(weights_are_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
