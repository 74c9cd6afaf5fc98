/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a migration costs and when it has paid, against figures worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "support/tables.h"
#include "unit/policy/plan.h"

/* Two ranks of three slots; experts 2 and 3 trade places: each rank receives one. */
static const int32_t old_ids[6] = {0, 1, 2, 0, 3, 1};
static const int32_t new_ids[6] = {0, 1, 3, 0, 2, 1};

static const struct eplb_benefit gain = {
    .current_peak = 300, .candidate_peak = 200, .improvement = 1.0 / 3, .sets_changed = 1, .publish = 1};

static const struct eplb_migration_cost all_known = {
    .expert_bytes = 1000, .bytes_per_second = 500, .seconds_per_token = 0.25, .num_forwards = 10};

static struct eplb_migration migrate(const int32_t *before, const int32_t *after,
                                     const struct eplb_benefit *benefit,
                                     const struct eplb_migration_cost *cost)
{
    struct eplb_shape shape = tables_shape(4, 2, 1);
    void *scratch = eplb_arena_block(eplb_migration_scratch(&shape));
    assert_non_null(scratch);
    memset(scratch, 0x5a, eplb_migration_scratch(&shape));
    struct eplb_migration migration = eplb_migration_of(&shape, before, after, benefit, cost, scratch);
    eplb_arena_free(scratch);
    return migration;
}

static void all_figures_follow_from_the_factors(void **state)
{
    (void)state;
    struct eplb_migration migration = migrate(old_ids, new_ids, &gain, &all_known);
    assert_int_equal(migration.moved_slots, 2);
    assert_int_equal(migration.sent_slots, 2);
    assert_int_equal(migration.bytes, 2000);
    assert_true(migration.seconds == 2);
    /* 10 tokens a forward are saved, which is 2.5 s; the transfer takes 2. */
    assert_true(migration.break_even_forwards == 0.8);
    assert_int_equal(migration.pays, 1);
}

static void the_busiest_rank_decides_the_time(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(6, 3, 0);
    static const int32_t before[6] = {0, 1, 2, 3, 4, 5};
    static const int32_t after[6] = {2, 4, 0, 3, 1, 5};
    struct eplb_move moves[6];
    int64_t scratch[64];
    assert_true(eplb_placement_diff_scratch(&shape) <= sizeof scratch);
    int32_t count = eplb_placement_diff(&shape, before, after, scratch, moves);
    assert_int_equal(count, 4);
    assert_int_equal(eplb_most_received(&shape, moves, count), 2);
    assert_int_equal(eplb_most_received(&shape, moves, 0), 0);
    moves[0].kind = EPLB_MOVE_LOCAL;
    assert_int_equal(eplb_most_received(&shape, moves, count), 1);
}

/** B13 of the public cases: the same sets in another order. */
static void a_reorder_sends_nothing(void **state)
{
    (void)state;
    static const int32_t before[6] = {0, 1, 2, 0, 3, 1};
    static const int32_t after[6] = {2, 0, 1, 1, 0, 3};
    static const int64_t load[4] = {10, 20, 30, 40};
    struct eplb_shape shape = tables_shape(4, 2, 1);
    int32_t replicas[4];
    struct eplb_benefit benefit = eplb_gate(&shape, before, after, load, NULL, 0, replicas);
    assert_true(benefit.improvement == 0);
    assert_int_equal(benefit.publish, 0);
    struct eplb_migration migration = migrate(before, after, &gain, &all_known);
    assert_int_equal(migration.moved_slots, 6);
    assert_int_equal(migration.sent_slots, 0);
    assert_int_equal(migration.bytes, 0);
    assert_true(migration.break_even_forwards == 0);
}

static void nothing_is_made_up_of_what_is_not_known(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct eplb_migration_cost cost = all_known;
        cost.max_break_even_forwards = 1;
        cost.expert_bytes = i == 0 ? 0 : 1000000;
        cost.bytes_per_second = i == 1 ? 0 : 500;
        cost.seconds_per_token = i == 2 ? 0 : 0.25;
        cost.num_forwards = i == 3 ? 0 : 10;
        struct eplb_migration migration = migrate(old_ids, new_ids, &gain, &cost);
        assert_true(migration.break_even_forwards < 0);
        assert_int_equal(migration.pays, 1);
        assert_int_equal(migration.bytes, i == 0 ? 0 : 2000000);
        assert_true((migration.seconds > 0) == (i > 1));
    }
}

static void the_limit_refuses_what_pays_later(void **state)
{
    (void)state;
    struct eplb_migration_cost cost = all_known;
    cost.expert_bytes = 5000; /* 10 s, and 4 forwards */
    for (int32_t limit = 0; limit < 6; limit++) {
        cost.max_break_even_forwards = limit;
        struct eplb_migration migration = migrate(old_ids, new_ids, &gain, &cost);
        assert_true(migration.break_even_forwards == 4);
        assert_int_equal(migration.pays, limit == 0 || limit >= 4);
    }
}

static void what_the_gate_keeps_is_not_refused_twice(void **state)
{
    (void)state;
    struct eplb_benefit loss = gain;
    struct eplb_migration_cost cost = all_known;
    cost.max_break_even_forwards = 1;
    loss.candidate_peak = 300;
    loss.publish = 0;
    struct eplb_migration migration = migrate(old_ids, new_ids, &loss, &cost);
    assert_true(isinf(migration.break_even_forwards) && migration.break_even_forwards > 0);
    assert_int_equal(migration.pays, 1);
    loss.publish = 1;
    assert_int_equal(migrate(old_ids, new_ids, &loss, &cost).pays, 0);
}

static void the_largest_bytes_do_not_wrap(void **state)
{
    (void)state;
    struct eplb_migration_cost cost = all_known;
    cost.expert_bytes = INT64_MAX;
    struct eplb_migration migration = migrate(old_ids, new_ids, &gain, &cost);
    assert_true(migration.bytes == INT64_MAX);
    assert_true(migration.seconds > 1e16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_figures_follow_from_the_factors),
        cmocka_unit_test(the_busiest_rank_decides_the_time),
        cmocka_unit_test(a_reorder_sends_nothing),
        cmocka_unit_test(nothing_is_made_up_of_what_is_not_known),
        cmocka_unit_test(the_limit_refuses_what_pays_later),
        cmocka_unit_test(what_the_gate_keeps_is_not_refused_twice),
        cmocka_unit_test(the_largest_bytes_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
