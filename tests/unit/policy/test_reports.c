/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Reports that users of other balancers made, as cases for every policy of ours: repeats on a rank, tables
 * that differ between runs, copies that nobody could explain, needless moves, plans without a start.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "unit/policy/plan.h"

enum { L_EXPERTS = 12, L_RANKS = 4, MAX_SLOTS = 16, NUM_POLICIES = 4 };

static const char *const kinds[NUM_POLICIES] = {"balanced", "greedy", "deepseek", "minmax"};

static const int64_t l1[L_EXPERTS] = {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
static const int64_t l2[L_EXPERTS] = {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};

static struct eplb_shape shape_of(int32_t num_experts, int32_t ep_size)
{
    struct eplb_shape shape;
    struct eplb_error error;
    assert_int_equal(eplb_shape_init(&shape, 1, num_experts, ep_size, 1, &error), EPLB_OK);
    return shape;
}

/** Plans from the initial placement and checks that the table is legal; returns its peak. */
static double plan_legally(const char *kind, const struct eplb_shape *shape, const int64_t *load,
                           int32_t *candidate)
{
    struct eplb_error error;
    assert_true(eplb_policy_find(kind).known);
    plan_initial(kind, shape, load, candidate);
    if (eplb_placement_check(shape, candidate, &error) != EPLB_OK)
        fail_msg("%s: %s", kind, error.text);
    return plan_peak(shape, candidate, load);
}

static void assert_peak(const char *kind, double peak, double most)
{
    if (peak > most + 1e-6)
        fail_msg("%s: the peak is %.6f, above %.6f", kind, peak, most);
}

/* Two copies of one expert on one rank. */
static void no_rank_holds_an_expert_twice(void **state)
{
    (void)state;
    static const int64_t hot_pairs[8] = {20, 40, 5, 80, 5, 20, 80, 40};
    struct eplb_shape eight = shape_of(8, 4);
    struct eplb_shape twelve = shape_of(L_EXPERTS, L_RANKS);
    int32_t candidate[MAX_SLOTS];
    for (int i = 0; i < NUM_POLICIES; i++) {
        assert_peak(kinds[i], plan_legally(kinds[i], &eight, hot_pairs, candidate), 80);
        /* What packing without repeats reaches; DeepSeek's packing with its repeat exchanged is at 273.5. */
        double most = strcmp(kinds[i], "deepseek") == 0 ? 273.5 : 270.5;
        assert_peak(kinds[i], plan_legally(kinds[i], &twelve, l1, candidate), most);
    }
    assert_peak("minmax", plan_legally("minmax", &eight, hot_pairs, candidate), 220.0 / 3);
    assert_peak("minmax", plan_legally("minmax", &twelve, l1, candidate), 259.5);
}

/* The same input, other tables. */
static void the_same_load_gives_the_same_table(void **state)
{
    (void)state;
    static const int64_t ties[8] = {5, 5, 5, 5, 5, 5, 5, 5};
    struct eplb_shape eight = shape_of(8, 4);
    struct eplb_shape twelve = shape_of(L_EXPERTS, L_RANKS);
    for (int i = 0; i < NUM_POLICIES; i++) {
        int32_t first[MAX_SLOTS];
        int32_t again[MAX_SLOTS];
        plan_initial(kinds[i], &twelve, l2, first);
        for (int run = 0; run < 200; run++) {
            plan_initial(kinds[i], &twelve, l2, again);
            assert_memory_equal(first, again, sizeof first);
        }
        plan_initial(kinds[i], &eight, ties, first);
        /* Copies of equal experts go to the lowest ids, so that experts 0 to 3 have two; minmax, which has
         * nothing to gain, leaves the initial placement. */
        int32_t replicas[8];
        eplb_placement_replicas(&eight, first, replicas);
        for (int32_t expert = 0; expert < 8 && strcmp(kinds[i], "minmax") != 0; expert++)
            assert_int_equal(replicas[expert], expert < 4 ? 2 : 1);
    }
}

static void assert_replicas(const char *kind, const int32_t *table, const struct eplb_shape *shape,
                            const int32_t *expected)
{
    int32_t replicas[L_EXPERTS];
    eplb_placement_replicas(shape, table, replicas);
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        if (replicas[expert] != expected[expert])
            fail_msg("%s: expert %d has %d replicas, not %d", kind, expert, replicas[expert],
                     expected[expert]);
}

/* Why did the fourth hottest expert get no copy? One node: the four hottest get one each. */
static void copies_are_chosen_over_all_ranks(void **state)
{
    (void)state;
    static const int32_t expected[L_EXPERTS] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1};
    struct eplb_shape shape = shape_of(L_EXPERTS, L_RANKS);
    int32_t candidate[MAX_SLOTS];
    assert_true(plan_legally("balanced", &shape, l2, candidate) == 294.0);
    assert_replicas("balanced", candidate, &shape, expected);
    assert_true(plan_legally("greedy", &shape, l2, candidate) == 292.0);
    assert_replicas("greedy", candidate, &shape, expected);
    (void)plan_legally("deepseek", &shape, l2, candidate);
    assert_replicas("deepseek", candidate, &shape, expected);
    assert_peak("minmax", plan_legally("minmax", &shape, l2, candidate), 290.5);
}

/* Largest drop and hottest replica choose other copies here, and the optimum is of neither. */
static void the_rules_for_copies_differ(void **state)
{
    (void)state;
    static const int64_t load[8] = {40, 56, 45, 24, 7, 7, 23, 7};
    static const int32_t largest_drop[8] = {2, 2, 2, 2, 1, 1, 1, 1};
    static const int32_t hottest_replica[8] = {2, 3, 2, 1, 1, 1, 1, 1};
    struct eplb_shape shape = shape_of(8, 4);
    int32_t candidate[MAX_SLOTS];
    assert_true(plan_legally("balanced", &shape, load, candidate) == 55.0);
    assert_replicas("balanced", candidate, &shape, largest_drop);
    (void)plan_legally("greedy", &shape, load, candidate);
    assert_replicas("greedy", candidate, &shape, hottest_replica);
    (void)plan_legally("deepseek", &shape, load, candidate);
    assert_replicas("deepseek", candidate, &shape, hottest_replica);
    assert_true(plan_legally("minmax", &shape, load, candidate) == 53.5);
}

/* A map that differs from run to run, or between ranks. */
static void every_run_makes_the_same_map(void **state)
{
    (void)state;
    static const int32_t table[6] = {0, 1, 2, 0, 3, 1};
    static const int32_t expected[2][4] = {{0, 1, 2, 4}, {3, 5, 2, 4}};
    struct eplb_shape shape = shape_of(4, 2);
    for (int run = 0; run < 50; run++)
        for (int32_t rank = 0; rank < 2; rank++) {
            int32_t map[4];
            eplb_log2phy(&shape, table, rank, 0, map);
            assert_memory_equal(map, expected[rank], sizeof map);
        }
}

/* Experts that stay on their rank were copied between its slots. */
static void what_stays_on_a_rank_does_not_move(void **state)
{
    (void)state;
    static const int32_t before[6] = {0, 1, 2, 0, 3, 1};
    static const int32_t reordered[6] = {2, 0, 1, 1, 0, 3};
    static const int64_t load[4] = {10, 10, 10, 10};
    struct eplb_shape shape = shape_of(4, 2);
    int32_t scratch[4];
    char diff_scratch[1024];
    struct eplb_move moves[6];
    assert_true(eplb_placement_diff_scratch(&shape) <= sizeof diff_scratch);
    int32_t count = eplb_placement_diff(&shape, before, reordered, diff_scratch, moves);
    for (int32_t i = 0; i < count; i++)
        assert_int_equal(moves[i].kind, EPLB_MOVE_LOCAL);
    struct eplb_benefit benefit = eplb_gate(&shape, before, reordered, load, NULL, 0.05, scratch);
    assert_int_equal(benefit.sets_changed, 0);
    assert_int_equal(benefit.publish, 0);

    static const int32_t other[6] = {0, 1, 3, 0, 3, 2};
    assert_int_equal(eplb_placement_diff(&shape, before, other, diff_scratch, moves), 2);
    assert_int_equal(moves[0].slot, 2);
    assert_int_equal(moves[0].expert, 3);
    assert_int_equal(moves[0].kind, EPLB_MOVE_P2P);
    assert_int_equal(moves[0].source_slot, 4);
    assert_int_equal(moves[1].slot, 5);
    assert_int_equal(moves[1].expert, 2);
    assert_int_equal(moves[1].kind, EPLB_MOVE_P2P);
    assert_int_equal(moves[1].source_slot, 2);
}

/* A policy that crashed without a table to start from, and one that gave a number for the counts. */
static void a_plan_needs_no_start_and_its_parts_agree(void **state)
{
    (void)state;
    struct eplb_shape shape = shape_of(L_EXPERTS, L_RANKS);
    for (int i = 0; i < NUM_POLICIES; i++) {
        struct eplb_planner_params params;
        struct eplb_planner *planner;
        struct eplb_error error;
        eplb_planner_params_init(&params);
        params.shape = shape;
        params.ops = eplb_policy_find(kinds[i]).ops;
        assert_int_equal(eplb_planner_create(&params, &planner, &error), EPLB_OK);
        assert_int_equal(eplb_planner_rebalance(planner, l2, NULL, &error), EPLB_OK);
        const int32_t *table = eplb_planner_candidates(planner);
        int32_t replicas[L_EXPERTS];
        int32_t sum = 0;
        eplb_placement_replicas(&shape, table, replicas);
        for (int32_t expert = 0; expert < L_EXPERTS; expert++)
            sum += replicas[expert];
        assert_int_equal(sum, shape.num_slots);
        for (int32_t rank = 0; rank < L_RANKS; rank++) {
            int32_t map[L_EXPERTS];
            eplb_log2phy(&shape, table, rank, 0, map);
            for (int32_t expert = 0; expert < L_EXPERTS; expert++)
                assert_int_equal(table[map[expert]], expert);
        }
        eplb_planner_destroy(planner);
    }
}

/* Each rebalance reshuffled almost everything. */
static void small_changes_move_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_POLICIES; i++) {
        struct eplb_planner_params params;
        struct eplb_planner *planner;
        struct eplb_error error;
        int64_t load[L_EXPERTS];
        memcpy(load, l2, sizeof load);
        eplb_planner_params_init(&params);
        params.shape = shape_of(L_EXPERTS, L_RANKS);
        params.ops = eplb_policy_find(kinds[i]).ops;
        assert_int_equal(eplb_planner_create(&params, &planner, &error), EPLB_OK);
        assert_int_equal(eplb_planner_rebalance(planner, load, NULL, &error), EPLB_OK);
        assert_int_equal(eplb_planner_benefits(planner)[0].publish, 1);
        eplb_planner_commit_layer(planner, 0);
        for (int change = 0; change < 20; change++) {
            load[(5 + change) % L_EXPERTS] += change % 2 == 0 ? 2 : -2;
            assert_int_equal(eplb_planner_rebalance(planner, load, NULL, &error), EPLB_OK);
            if (eplb_planner_benefits(planner)[0].publish)
                fail_msg("%s publishes after change %d", kinds[i], change);
        }
        eplb_planner_destroy(planner);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rank_holds_an_expert_twice),
        cmocka_unit_test(the_same_load_gives_the_same_table),
        cmocka_unit_test(copies_are_chosen_over_all_ranks),
        cmocka_unit_test(the_rules_for_copies_differ),
        cmocka_unit_test(every_run_makes_the_same_map),
        cmocka_unit_test(what_stays_on_a_rank_does_not_move),
        cmocka_unit_test(a_plan_needs_no_start_and_its_parts_agree),
        cmocka_unit_test(small_changes_move_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
