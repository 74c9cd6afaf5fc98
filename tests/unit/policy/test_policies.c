/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The names of the policies, and `balanced` and `greedy` on small loads with known plans.
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

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int64_t l1[12] = {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
static const int64_t l2[12] = {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};

static int32_t candidate[PLAN_MAX_SLOTS];
static int32_t other[PLAN_MAX_SLOTS];

/* ---- names ---- */

static void names_are_found_whatever_their_case(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        const char *name;
    } cases[] = {
        {"balanced", "balanced"},      {"BALANCED", "balanced"},      {"Balanced", "balanced"},
        {"greedy", "greedy"},          {"GREEDY", "greedy"},          {"flat", "balanced"},
        {"deepseek_flat", "balanced"}, {"deepseek-flat", "balanced"}, {"DeepSeek-Flat", "balanced"},
        {"hier", "balanced"},          {"HIER", "balanced"},          {"hierarchical", "balanced"},
        {"HIERARCHICAL", "balanced"},  {"deepseek_hier", "balanced"}, {"deepseek-hier", "balanced"},
        {"deepseek", "deepseek"},      {"DeepSeek", "deepseek"},      {"DEEPSEEK", "deepseek"},
        {"minmax", "minmax"},          {"MinMax", "minmax"},          {"MINMAX", "minmax"},
        {"Robust", "robust"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct eplb_policy_choice choice = eplb_policy_find(cases[i].kind);
        assert_int_equal(choice.known, 1);
        assert_null(choice.nearest);
        assert_string_equal(choice.ops->name, cases[i].name);
        assert_int_equal(choice.ops->size, sizeof *choice.ops);
    }
}

static void another_name_means_greedy(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        const char *nearest;
    } cases[] = {
        {"balancd", "balanced"},
        {"Blaanced", "balanced"},
        {"gredy", "greedy"},
        {"GREEDYY", "greedy"},
        {"minmx", "minmax"},
        {"min-max", "minmax"},
        {"deepsek", "deepseek"},
        {"deepseek flat", "deepseek_flat"},
        {"deepseek-heir", "deepseek-hier"},
        {"hierachical", "hierarchical"},
        {"flat ", "flat"},
        {"", "flat"},
        {"bal", "flat"}, /* three edits, as many as hier; five to balanced */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct eplb_policy_choice choice = eplb_policy_find(cases[i].kind);
        assert_int_equal(choice.known, 0);
        assert_string_equal(choice.ops->name, "greedy");
        assert_string_equal(choice.nearest, cases[i].nearest);
    }
}

/* ---- plans ---- */

/** What a policy makes of a load, from the initial placement. */
struct plan {
    const char *kind;
    int32_t experts, ranks, redundant;
    int64_t load[12];
    int32_t table[16];
    int32_t replicas[12];
    double peak;
};

static void assert_plan(const struct plan *plan)
{
    struct eplb_shape shape = tables_shape(plan->experts, plan->ranks, plan->redundant);
    int32_t replicas[12];
    plan_initial(plan->kind, &shape, plan->load, candidate);
    assert_int_equal(eplb_placement_check(&shape, candidate, NULL), EPLB_OK);
    assert_memory_equal(candidate, plan->table, (size_t)shape.num_slots * sizeof *candidate);
    eplb_placement_replicas(&shape, candidate, replicas);
    assert_memory_equal(replicas, plan->replicas, (size_t)shape.num_experts * sizeof *replicas);
    assert_true(plan_peak(&shape, candidate, plan->load) == plan->peak);
}

/** Copies by the heaviest replica and a packing that does not look would put expert 3 twice on rank 3. */
static void no_rank_gets_an_expert_twice(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        {"balanced",
         8,
         4,
         1,
         {20, 40, 5, 80, 5, 20, 80, 40},
         {0, 1, 3, 6, 1, 7, 3, 5, 2, 6, 7, 4},
         {1, 2, 1, 2, 1, 1, 2, 2},
         80},
        {"greedy",
         8,
         4,
         1,
         {20, 40, 5, 80, 5, 20, 80, 40},
         {1, 6, 5, 3, 7, 2, 3, 0, 1, 6, 3, 4},
         {1, 2, 1, 3, 1, 1, 2, 1},
         80},
        {"balanced",
         12,
         4,
         1,
         {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86},
         {10, 1, 8, 7, 3, 4, 10, 1, 0, 5, 4, 2, 9, 5, 11, 6},
         {1, 2, 1, 1, 2, 2, 1, 1, 1, 1, 2, 1},
         270.5},
        {"greedy",
         12,
         4,
         1,
         {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86},
         {1, 0, 3, 4, 4, 10, 8, 2, 5, 11, 1, 7, 10, 5, 9, 6},
         {1, 2, 1, 1, 2, 2, 1, 1, 1, 1, 2, 1},
         269},
    };
    for (size_t i = 0; i < COUNT(plans); i++)
        assert_plan(&plans[i]);
}

/** Ties go to the lowest id and rank; `balanced` keeps slots, `greedy` does not. */
static void equal_loads_have_one_plan(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        {"balanced",
         8,
         4,
         1,
         {5, 5, 5, 5, 5, 5, 5, 5},
         {0, 1, 4, 5, 1, 0, 2, 3, 6, 3, 7, 2},
         {2, 2, 2, 2, 1, 1, 1, 1},
         10},
        {"greedy",
         8,
         4,
         1,
         {5, 5, 5, 5, 5, 5, 5, 5},
         {0, 4, 1, 1, 5, 0, 2, 6, 3, 3, 7, 2},
         {2, 2, 2, 2, 1, 1, 1, 1},
         10},
        {"balanced",
         8,
         4,
         0,
         {10, 10, 10, 10, 10, 10, 10, 10},
         {0, 4, 1, 5, 2, 6, 3, 7},
         {1, 1, 1, 1, 1, 1, 1, 1},
         20},
    };
    for (size_t i = 0; i < COUNT(plans); i++)
        assert_plan(&plans[i]);
}

/** Copies go over all ranks to the hottest experts: 5, 6, 7 and 8. */
static void the_hottest_experts_get_the_copies(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        {"balanced",
         12,
         4,
         1,
         {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27},
         {9, 1, 11, 3, 2, 8, 7, 0, 6, 5, 8, 10, 5, 6, 7, 4},
         {1, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1},
         294},
        {"greedy",
         12,
         4,
         1,
         {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27},
         {5, 6, 7, 0, 6, 5, 3, 11, 7, 1, 8, 4, 8, 2, 9, 10},
         {1, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1},
         292},
    };
    for (size_t i = 0; i < COUNT(plans); i++)
        assert_plan(&plans[i]);
}

/** The largest drop and the heaviest replica choose different experts here. */
static void the_two_copy_rules_differ(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        {"balanced",
         8,
         4,
         1,
         {40, 56, 45, 24, 7, 7, 23, 7},
         {0, 1, 7, 1, 3, 4, 2, 5, 6, 2, 3, 0},
         {2, 2, 2, 2, 1, 1, 1, 1},
         55},
        {"greedy",
         8,
         4,
         1,
         {40, 56, 45, 24, 7, 7, 23, 7},
         {0, 2, 1, 1, 3, 5, 1, 6, 4, 2, 0, 7},
         {2, 3, 2, 1, 1, 1, 1, 1},
         367 / 6.0},
    };
    for (size_t i = 0; i < COUNT(plans); i++)
        assert_plan(&plans[i]);
}

/** One hot expert gets a replica on every rank and no more; the last copy goes to another. */
static void replicas_never_outnumber_the_ranks(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        {"balanced", 8, 4, 1, {1000}, {0, 1, 2, 0, 3, 4, 0, 5, 6, 1, 7, 0}, {4, 2, 1, 1, 1, 1, 1, 1}, 250},
        {"greedy", 8, 4, 1, {1000}, {0, 1, 2, 0, 3, 4, 0, 5, 6, 1, 0, 7}, {4, 2, 1, 1, 1, 1, 1, 1}, 250},
    };
    for (size_t i = 0; i < COUNT(plans); i++)
        assert_plan(&plans[i]);
}

static void full_redundancy_puts_every_expert_on_every_rank(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(8, 4, 6);
    const int64_t load[8] = {9, 0, 3, 3, 1, 100, 7, 7};
    static const char *const kinds[] = {"balanced", "greedy"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        int32_t replicas[8];
        plan_initial(kinds[i], &shape, load, candidate);
        assert_int_equal(eplb_placement_check(&shape, candidate, NULL), EPLB_OK);
        eplb_placement_replicas(&shape, candidate, replicas);
        for (int32_t expert = 0; expert < 8; expert++)
            assert_int_equal(replicas[expert], 4);
    }
}

/** An expert that stays on its rank keeps its slot, from whatever table the plan starts. */
static void balanced_keeps_slots(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(12, 4, 1);
    int32_t moved = 0;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 20240602);
    for (int run = 0; run < 200; run++) {
        int32_t active[16];
        tables_random(&prng, &shape, active);
        plan_once("balanced", &shape, run % 2 == 0 ? l1 : l2, active, candidate);
        for (int32_t slot = 0; slot < 16; slot++) {
            const int32_t *row = candidate + slot / 4 * 4;
            int stays = 0;
            for (int32_t i = 0; i < 4; i++)
                stays |= row[i] == active[slot];
            assert_true(!stays || candidate[slot] == active[slot]);
            moved += !stays;
        }
    }
    assert_true(moved > 0);
    /* Its own plan is a fixed point. */
    plan_initial("balanced", &shape, l2, candidate);
    plan_once("balanced", &shape, l2, candidate, other);
    assert_memory_equal(other, candidate, 16 * sizeof *other);
}

/* ---- size of loads ---- */

static void the_largest_loads_plan_like_small_ones(void **state)
{
    (void)state;
    static const int32_t shapes[][3] = {{256, 64, 1}, {8, 4, 1}, {8, 8, 7}, {16, 4, 0}};
    static const char *const kinds[] = {"balanced", "greedy"};
    for (size_t i = 0; i < COUNT(shapes) * COUNT(kinds); i++) {
        struct eplb_shape shape = tables_shape(shapes[i / 2][0], shapes[i / 2][1], shapes[i / 2][2]);
        int64_t huge[PLAN_MAX_EXPERTS];
        int64_t small[PLAN_MAX_EXPERTS];
        for (int32_t expert = 0; expert < shape.num_experts; expert++) {
            huge[expert] = EPLB_MAX_LOAD;
            small[expert] = 1024;
        }
        plan_initial(kinds[i % 2], &shape, huge, candidate);
        plan_initial(kinds[i % 2], &shape, small, other);
        assert_int_equal(eplb_placement_check(&shape, candidate, NULL), EPLB_OK);
        assert_memory_equal(candidate, other, (size_t)shape.num_slots * sizeof *other);
    }
}

/** One token decides, also where a double no longer tells the loads apart. */
static void no_digit_of_a_load_is_lost(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 0);
    const int64_t load[4] = {EPLB_MAX_LOAD - 3, EPLB_MAX_LOAD - 1, EPLB_MAX_LOAD - 2, EPLB_MAX_LOAD};
    static const int32_t by_load[4] = {3, 0, 1, 2};
    plan_initial("greedy", &shape, load, candidate);
    assert_memory_equal(candidate, by_load, sizeof by_load);
    static const int32_t with_kept_slots[4] = {0, 3, 2, 1};
    plan_initial("balanced", &shape, load, candidate);
    assert_memory_equal(candidate, with_kept_slots, sizeof with_kept_slots);
}

/** Where every replica count is a power of two, no share is rounded, so only proportions matter. */
static void a_power_of_two_scales_nothing(void **state)
{
    (void)state;
    enum { RUNS = 1000 };
    static const int32_t shapes[][3] = {{8, 2, 1}, {8, 2, 4}, {16, 2, 3}, {12, 4, 0}};
    const uint64_t seed = 20240603;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    for (int run = 0; run < RUNS; run++) {
        const int32_t *sizes = shapes[(size_t)run % COUNT(shapes)];
        struct eplb_shape shape = tables_shape(sizes[0], sizes[1], sizes[2]);
        int64_t load[PLAN_MAX_EXPERTS];
        int64_t scaled[PLAN_MAX_EXPERTS];
        plan_random_load(&prng, &shape, 1 << 20, load);
        int64_t factor = INT64_C(1) << (1 + eplb_prng_below(&prng, 41));
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            scaled[expert] = load[expert] * factor;
        plan_initial("balanced", &shape, load, candidate);
        plan_initial("balanced", &shape, scaled, other);
        assert_memory_equal(candidate, other, (size_t)shape.num_slots * sizeof *other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_whatever_their_case),
        cmocka_unit_test(another_name_means_greedy),
        cmocka_unit_test(no_rank_gets_an_expert_twice),
        cmocka_unit_test(equal_loads_have_one_plan),
        cmocka_unit_test(the_hottest_experts_get_the_copies),
        cmocka_unit_test(the_two_copy_rules_differ),
        cmocka_unit_test(replicas_never_outnumber_the_ranks),
        cmocka_unit_test(full_redundancy_puts_every_expert_on_every_rank),
        cmocka_unit_test(balanced_keeps_slots),
        cmocka_unit_test(the_largest_loads_plan_like_small_ones),
        cmocka_unit_test(no_digit_of_a_load_is_lost),
        cmocka_unit_test(a_power_of_two_scales_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
