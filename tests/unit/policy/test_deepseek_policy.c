/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The policy `deepseek`: legal tables, the function's sets of experts, groups on nodes, slots kept.
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

#include "eplb/deepseek.h"
#include "support/tables.h"
#include "unit/policy/plan.h"

static int64_t load[PLAN_MAX_EXPERTS];
static int32_t active[PLAN_MAX_SLOTS];
static int32_t table[PLAN_MAX_SLOTS];
static int32_t again[PLAN_MAX_SLOTS];

/** With exactly the scratch it asks for, full of rubbish. */
static void plan(const struct eplb_shape *shape, int32_t groups, int32_t nodes, const int32_t *from,
                 int32_t *to)
{
    struct eplb_policy_settings settings;
    eplb_policy_settings_init(&settings);
    settings.num_groups = groups;
    settings.num_nodes = nodes;
    const struct eplb_policy_ops *ops = eplb_policy_find("deepseek").ops;
    const size_t bytes = ops->scratch_size(shape, &settings);
    void *scratch = aligned_alloc(64, bytes);
    assert_non_null(scratch);
    memset(scratch, 0xa5, bytes);
    const struct eplb_policy_problem problem = {
        .size = sizeof problem, .shape = shape, .settings = &settings, .load = load, .active = from};
    struct eplb_policy_answer answer = {.size = sizeof answer, .expert_ids = to};
    struct eplb_error error;
    assert_int_equal(ops->plan_layer(&problem, scratch, &answer, &error), EPLB_OK);
    assert_int_equal(answer.has_weights, 0);
    if (eplb_placement_check(shape, to, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    free(scratch);
}

static void it_has_its_name(void **state)
{
    (void)state;
    const struct eplb_policy_choice choice = eplb_policy_find("DeepSeek");
    assert_int_equal(choice.known, 1);
    assert_string_equal(choice.ops->name, "deepseek");
    assert_string_equal(eplb_policy_find("deepseek_hier").ops->name, "balanced");
}

static struct eplb_shape random_shape(struct eplb_prng *prng)
{
    const int32_t ranks = 1 + (int32_t)eplb_prng_below(prng, 8);
    const int32_t owned = 1 + (int32_t)eplb_prng_below(prng, 6);
    const int32_t room = ranks * owned - owned;
    return tables_shape(ranks * owned, ranks,
                        (int32_t)eplb_prng_below(prng, (uint64_t)(room < 4 ? room : 4) + 1));
}

/** Whatever groups and nodes say; from its own table it moves nothing. */
static void random_plans_are_legal_and_settle(void **state)
{
    (void)state;
    const uint64_t seed = 20240613;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    for (int round = 0; round < 10000; round++) {
        const struct eplb_shape shape = random_shape(&prng);
        const int32_t groups = 1 + (int32_t)eplb_prng_below(&prng, 8);
        const int32_t nodes = 1 + (int32_t)eplb_prng_below(&prng, 4);
        plan_random_load(&prng, &shape, round % 2 == 0 ? EPLB_MAX_LOAD : 1000, load);
        tables_random(&prng, &shape, active);
        plan(&shape, groups, nodes, active, table);
        plan(&shape, groups, nodes, table, again);
        assert_memory_equal(again, table, (size_t)shape.num_slots * sizeof *table);
    }
}

static int by_value(const void *a, const void *b)
{
    const int32_t left = *(const int32_t *)a;
    const int32_t right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

/** The published example has no repeats: the policy gives the same experts to the same ranks. */
static void the_published_example_in_the_policy(void **state)
{
    (void)state;
    static const int64_t loads[12] = {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
    static const int32_t slots[16] = {5, 6, 5, 7, 4, 8, 3, 4, 9, 10, 2, 10, 0, 1, 1, 11};
    struct eplb_shape shape;
    /* 12 experts and 8 ranks are no shape of ours: 4 ranks with 4 slots are the same nodes and groups. */
    assert_int_equal(eplb_shape_init(&shape, 1, 12, 4, 1, NULL), EPLB_OK);
    memcpy(load, loads, sizeof loads);
    eplb_placement_initial(&shape, active);
    plan(&shape, 4, 2, active, table);
    for (int node = 0; node < 2; node++) {
        int32_t got[8];
        int32_t want[8];
        memcpy(got, table + 8 * node, sizeof got);
        memcpy(want, slots + 8 * node, sizeof want);
        qsort(got, 8, sizeof *got, by_value);
        qsort(want, 8, sizeof *want, by_value);
        assert_memory_equal(got, want, sizeof got);
    }
}

/** All replicas of a group are on one node. */
static void groups_stay_on_a_node(void **state)
{
    (void)state;
    enum { EXPERTS = 64, RANKS = 8, GROUPS = 8, NODES = 4 };
    const struct eplb_shape shape = tables_shape(EXPERTS, RANKS, 2);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 11);
    eplb_placement_initial(&shape, active);
    for (int round = 0; round < 100; round++) {
        int32_t node_of[GROUPS];
        memset(node_of, 0xff, sizeof node_of);
        plan_random_load(&prng, &shape, 1000, load);
        plan(&shape, GROUPS, NODES, active, table);
        for (int32_t slot = 0; slot < shape.num_slots; slot++) {
            const int32_t group = table[slot] / (EXPERTS / GROUPS);
            const int32_t node = slot / (shape.num_slots / NODES);
            assert_true(node_of[group] < 0 || node_of[group] == node);
            node_of[group] = node;
        }
    }
}

/** Groups that do not fit take the global way. */
static void what_does_not_fit_is_global(void **state)
{
    (void)state;
    static const int32_t settings[][2] = {{3, 2}, {5, 5}, {6, 3}, {64, 64}, {0, 1}, {1, 0}};
    const struct eplb_shape shape = tables_shape(16, 4, 1);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 12);
    plan_random_load(&prng, &shape, 1000, load);
    eplb_placement_initial(&shape, active);
    plan(&shape, 1, 1, active, table);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        plan(&shape, settings[i][0], settings[i][1], active, again);
        assert_memory_equal(again, table, (size_t)shape.num_slots * sizeof *table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_its_name),
        cmocka_unit_test(random_plans_are_legal_and_settle),
        cmocka_unit_test(the_published_example_in_the_policy),
        cmocka_unit_test(groups_stay_on_a_node),
        cmocka_unit_test(what_does_not_fit_is_global),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
