/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What holds for every load: random ones, with their seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/tables.h"
#include "unit/policy/plan.h"
#include "unit/policy/twin.h"

static int32_t active[PLAN_MAX_SLOTS];
static int32_t candidate[PLAN_MAX_SLOTS];
static int32_t expected[PLAN_MAX_SLOTS];
static int64_t load[PLAN_MAX_EXPERTS];

/** Shapes and how many of 10 000 loads each gets. With many replicas packings run into dead ends. */
static const struct {
    int32_t experts, ranks, redundant;
    int loads;
} mix[] = {
    {8, 2, 0, 500}, {8, 2, 1, 1000}, {8, 4, 1, 1500},  {12, 4, 1, 1500}, {12, 3, 2, 800},
    {6, 2, 3, 200}, {6, 3, 3, 800},  {9, 3, 4, 800},   {12, 3, 6, 800},  {10, 5, 6, 800},
    {4, 4, 2, 600}, {64, 8, 1, 500}, {64, 16, 2, 150}, {72, 8, 1, 40},   {256, 32, 1, 10},
};

enum { SHAPES = sizeof mix / sizeof *mix };

static void start(struct eplb_prng *prng, uint64_t seed)
{
    printf("seed %" PRIu64 "\n", seed);
    eplb_prng_seed(prng, seed);
}

/** Counts, and the two maps between experts and slots, each the inverse of the other. */
static void check_table(const struct eplb_shape *shape, const int32_t *expert_ids)
{
    int32_t replicas[PLAN_MAX_EXPERTS];
    int32_t reached[PLAN_MAX_SLOTS] = {0};
    int32_t log2phy[PLAN_MAX_EXPERTS];
    int32_t sum = 0;
    struct eplb_error error;
    if (eplb_placement_check(shape, expert_ids, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    eplb_placement_replicas(shape, expert_ids, replicas);
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        assert_in_range(replicas[expert], 1, shape->ep_size);
        sum += replicas[expert];
    }
    assert_int_equal(sum, shape->num_slots);
    /* Replicas number at most ep_size, so the maps of all ranks together reach every slot. */
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        eplb_log2phy(shape, expert_ids, rank, 0, log2phy);
        for (int32_t expert = 0; expert < shape->num_experts; expert++) {
            assert_int_equal(expert_ids[log2phy[expert]], expert);
            reached[log2phy[expert]] = 1;
        }
    }
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        assert_int_equal(reached[slot], 1);
}

/** Folds a table into a digest: the same on every compiler, optimisation level and machine. */
static uint64_t fold(uint64_t digest, const struct eplb_shape *shape, const int32_t *expert_ids)
{
    return digest * UINT64_C(0x9e3779b97f4a7c15) + eplb_placement_hash(shape, expert_ids);
}

static void tables_are_legal_and_those_of_the_twin(const char *kind, uint64_t digest_of_all)
{
    struct eplb_prng prng;
    start(&prng, 20240601);
    uint64_t digest = 0;
    int loads = 0;
    int dead_ends = 0;
    int is_balanced = strcmp(kind, "balanced") == 0;
    for (size_t i = 0; i < SHAPES; i++) {
        struct eplb_shape shape = tables_shape(mix[i].experts, mix[i].ranks, mix[i].redundant);
        for (int run = 0; run < mix[i].loads; run++, loads++) {
            plan_random_load(&prng, &shape, EPLB_MAX_LOAD, load);
            tables_random(&prng, &shape, active);
            plan_once(kind, &shape, load, active, candidate);
            check_table(&shape, candidate);
            dead_ends += is_balanced ? twin_balanced(&shape, load, active, expected)
                                     : twin_greedy(&shape, load, expected);
            if (memcmp(candidate, expected, (size_t)shape.num_slots * sizeof *expected) != 0)
                fail_msg("%s, %d experts, %d ranks, %d redundant, run %d: not the twin's table", kind,
                         mix[i].experts, mix[i].ranks, mix[i].redundant, run);
            digest = fold(digest, &shape, candidate);
        }
    }
    printf("%s: %d loads, %d dead ends, digest %016" PRIx64 "\n", kind, loads, dead_ends, digest);
    assert_int_equal(loads, 10000);
    assert_true(dead_ends >= 100);
    assert_true(digest == digest_of_all);
}

static void balanced_is_its_twin(void **state)
{
    (void)state;
    tables_are_legal_and_those_of_the_twin("balanced", UINT64_C(0xce22942d0ab3e8d4));
}

static void greedy_is_its_twin(void **state)
{
    (void)state;
    tables_are_legal_and_those_of_the_twin("greedy", UINT64_C(0x818dd891de29fb0f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced_is_its_twin),
        cmocka_unit_test(greedy_is_its_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
