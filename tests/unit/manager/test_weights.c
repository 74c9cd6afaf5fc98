/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Weight updates: when the manager solves, what it sends, and what it sends again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench.h"

enum { SLOTS = BENCH_RANKS * BENCH_SLOTS };

#define UNIT EPLB_WEIGHT_UNIT

static struct bench bench;

/* The bench's layers hold 0 1 2 | 2 3 4 | 4 5 0 at first. */
static const int32_t some[SLOTS] = {UNIT - 9, UNIT, 5, UNIT - 5, UNIT, 7, UNIT - 7, UNIT, 9};
static const int32_t others[SLOTS] = {UNIT - 8, UNIT, 5, UNIT - 5, UNIT, 7, UNIT - 7, UNIT, 8};
static const int32_t illegal[SLOTS] = {UNIT, UNIT, 5, UNIT - 5, UNIT, 7, UNIT - 7, UNIT, 1};

static void start(int32_t layers, int32_t overlap, enum eplb_replica_routing routing)
{
    bench_start(&bench, &(struct bench_options){.num_layers = layers,
                                                .overlap = overlap,
                                                .interval_s = 1000,
                                                .prepare_timeout_s = 1,
                                                .transfer_timeout_s = 1,
                                                .routing = routing});
}

static void solved(int32_t layer, uint64_t generation, const int32_t *weights)
{
    const struct eplb_weight_update update = {.layer = layer, .generation = generation, .weights = weights};
    bench_solved(&bench, &update, 1);
}

static int64_t frozen(void *context)
{
    (void)context;
    return 0;
}

static const struct eplb_clock frozen_clock = {.size = sizeof frozen_clock, .now = frozen};

static void a_sample_asks_for_weights_and_the_next_command_has_them(void **state)
{
    (void)state;
    start(1, 0, EPLB_ROUTING_ADAPTIVE);
    bench_forward(&bench, "ddd");
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 1\nsolve weights\ncommand 2\n");
    /* A sample came meanwhile: it asks again. */
    solved(0, 0, some);
    bench_forward(&bench, "ppp");
    bench_expect(&bench, "solve weights\ncommand 3, weights of layer 0 on generation 0 as version 1\n");
    assert_memory_equal(bench.command.weight_updates[0].weights, some, sizeof some);
    solved(0, 0, others);
    bench_submit(&bench, "wddd");
    bench_expect(&bench, "solve weights\ncommand 4\n");
    bench_output(&bench, 4);
    bench_forward(&bench, "---");
    bench_expect(&bench, "command 5, weights of layer 0 on generation 0 as version 2\n");
    assert_memory_equal(eplb_manager_core_replica_weights(bench.core), others, sizeof others);
    assert_int_equal(eplb_manager_core_versions(bench.core)[0], 2);
    assert_int_equal(bench_status(&bench).weight_updates, 2);
    assert_int_equal(bench_status(&bench).weight_solves, 3);
    bench_end(&bench);
}

static void other_routings_send_no_updates(void **state)
{
    (void)state;
    for (int routing = EPLB_ROUTING_STATIC; routing < EPLB_NUM_ROUTINGS; routing++) {
        if (routing == EPLB_ROUTING_ADAPTIVE)
            continue;
        start(1, 0, (enum eplb_replica_routing)routing);
        bench_forward(&bench, "ddd");
        solved(0, 0, some);
        bench_forward(&bench, "ddd");
        bench_expect(&bench, "command 1\ncommand 2\n");
        bench_end(&bench);
    }
}

static void what_is_not_usable_is_left_out(void **state)
{
    (void)state;
    start(1, 0, EPLB_ROUTING_ADAPTIVE);
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 1\nsolve weights\n");
    const struct eplb_weight_update updates[] = {{.layer = 0, .generation = 1, .weights = some},
                                                 {.layer = 3, .generation = 0, .weights = some},
                                                 {.layer = 0, .generation = 0, .weights = illegal}};
    bench_solved(&bench, updates, 3);
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 2\nsolve weights\n");
    assert_non_null(
        strstr(bench.log, "weights for layer 0 are left out: rank 2 slot 2: weight 1 of expert 0"));
    assert_non_null(strstr(bench.log, "weights for layer row 3, which is none, are left out"));
    bench_end(&bench);
}

static void a_command_has_room_for_eight_the_worst_first(void **state)
{
    (void)state;
    start(10, 0, EPLB_ROUTING_ADAPTIVE);
    bench_forward(&bench, "ddd");
    struct eplb_weight_update updates[10];
    for (int32_t i = 0; i < 10; i++)
        updates[i] = (struct eplb_weight_update){.layer = 9 - i, .weights = some};
    bench_solved(&bench, updates, 10);
    bench_submit(&bench, "ddd");
    assert_int_equal(bench.command.num_weight_updates, EPLB_MAX_WEIGHT_UPDATES);
    for (int32_t i = 0; i < EPLB_MAX_WEIGHT_UPDATES; i++)
        assert_int_equal(bench.command.weight_updates[i].layer, 9 - i);
    bench_output(&bench, 2);
    /* Newer ones come before those that waited, and one that waited is replaced. */
    updates[0] = (struct eplb_weight_update){.layer = 5, .weights = others};
    updates[1] = (struct eplb_weight_update){.layer = 0, .weights = others};
    bench_solved(&bench, updates, 2);
    bench_submit(&bench, "ddd");
    assert_int_equal(bench.command.num_weight_updates, 3);
    const int32_t layers[] = {5, 0, 1};
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(bench.command.weight_updates[i].layer, layers[i]);
    assert_int_equal(bench.command.weight_updates[0].version, 2);
    assert_memory_equal(bench.command.weight_updates[1].weights, others, sizeof others);
    bench_end(&bench);
}

static void a_dropped_update_comes_again_unless_a_newer_one_was_sent(void **state)
{
    (void)state;
    start(2, 1, EPLB_ROUTING_ADAPTIVE);
    bench_forward(&bench, "ddd");
    solved(0, 0, some);
    bench_submit(&bench, "ddd");
    bench_drop(&bench, 2);
    bench_submit(&bench, "ddd");
    bench_output(&bench, 3);
    bench_expect(&bench, "command 1\nsolve weights\n"
                         "command 2, weights of layer 0 on generation 0 as version 1\n"
                         "command 3, weights of layer 0 on generation 0 as version 1\n"
                         "solve weights\n");
    assert_memory_equal(bench.command.weight_updates[0].weights, some, sizeof some);
    bench_submit(&bench, "ddd"); /* 4 */
    solved(0, 0, others);
    bench_submit(&bench, "ddd"); /* 5 has version 2 */
    bench_output(&bench, 4);
    solved(0, 0, some);
    bench_submit(&bench, "ddd"); /* 6 has version 3 */
    bench_drop(&bench, 5);
    bench_submit(&bench, "ddd");
    bench_expect(&bench, "command 4\n"
                         "command 5, weights of layer 0 on generation 0 as version 2\n"
                         "solve weights\n"
                         "command 6, weights of layer 0 on generation 0 as version 3\n"
                         "command 7\n");
    bench_end(&bench);
}

static void an_activating_layer_gets_none_and_a_commit_ends_them(void **state)
{
    (void)state;
    start(1, 0, EPLB_ROUTING_ADAPTIVE);
    bench_forward(&bench, "ddd");
    bench_wait(&bench, 1000);
    bench_tick(&bench);
    bench_policy(&bench);
    bench_forward(&bench, "ddd");
    assert_non_null(bench.command.replica_weights);
    bench_expect(&bench, "command 1\nsolve weights\nrun policy\n"
                         "command 2, prepare layer 0 as 1 on generation 0\n");
    solved(0, 0, some);
    bench_submit(&bench, "ddd");
    bench_kept(&bench, 0, BENCH_RANKS);
    bench_expect(&bench, "solve weights\nopen record 2\ncommand 3, activate layer 0 as 2 after 1\n");
    bench_output(&bench, 3);
    /* Given up: the placement is still the same, so they go out now. */
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "aborted layer 0: the ranks voted it down\n"
                         "command 4, weights of layer 0 on generation 0 as version 1\n");
    bench_end(&bench);

    start(1, 0, EPLB_ROUTING_ADAPTIVE);
    bench_forward(&bench, "ddd");
    bench_wait(&bench, 1000);
    bench_tick(&bench);
    bench_policy(&bench);
    bench_forward(&bench, "ddd");
    int32_t brought[SLOTS];
    memcpy(brought, bench.command.replica_weights, sizeof brought);
    solved(0, 0, some);
    bench_forward(&bench, "ddd");
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 1\nsolve weights\nrun policy\n"
                         "command 2, prepare layer 0 as 1 on generation 0\nsolve weights\n"
                         "open record 2\ncommand 3, activate layer 0 as 2 after 1\n"
                         "committed layer 0, generation 1\ncommand 4\n");
    assert_memory_equal(eplb_manager_core_replica_weights(bench.core), brought, sizeof brought);
    assert_int_equal(eplb_manager_core_versions(bench.core)[0], 0);
    bench_end(&bench);
}

static void nothing_is_sent_after_a_death(void **state)
{
    (void)state;
    start(1, 0, EPLB_ROUTING_ADAPTIVE);
    bench_forward(&bench, "ddd");
    solved(0, 0, some);
    bench_dead(&bench, 1);
    bench_submit(&bench, "ddd");
    bench_expect(&bench, "command 1\nsolve weights\ncommand 2\n");
    bench_end(&bench);
}

static void the_solve_finds_the_best_split_of_the_recent_load(void **state)
{
    (void)state;
    start(2, 0, EPLB_ROUTING_ADAPTIVE);
    for (int rank = 0; rank < BENCH_RANKS; rank++)
        for (int slot = 0; slot < BENCH_SLOTS; slot++) {
            bench.prefix[rank][0][slot] = 40 * (slot + 1);
            bench.prefix[rank][1][slot] = rank == 0 ? 240 : 0;
        }
    bench_forward(&bench, "ddd");
    int32_t count;
    const struct eplb_weight_update *updates =
        eplb_manager_core_solve_weights(bench.core, &frozen_clock, 1, &count);
    /* Layer 0 is level under equal weights; layer 1 too, since expert 0 is split evenly. */
    assert_int_equal(count, 0);
    bench_solved(&bench, updates, count);
    /* Now expert 1 is hot: its rank must not get any of expert 0 and 2. */
    for (int rank = 0; rank < BENCH_RANKS; rank++) {
        const int64_t counts[BENCH_RANKS][BENCH_SLOTS] = {{100, 200, 100}, {100, 10, 10}, {10, 10, 100}};
        int64_t sum = 0;
        for (int slot = 0; slot < BENCH_SLOTS; slot++)
            bench.prefix[rank][1][slot] = sum += counts[rank][slot];
    }
    for (int i = 0; i < 20; i++)
        bench_forward(&bench, "ddd");
    /* What is under way saw the first of these only. */
    bench_solved(&bench, NULL, 0);
    updates = eplb_manager_core_solve_weights(bench.core, &frozen_clock, 1, &count);
    assert_int_equal(count, 1);
    assert_int_equal(updates[0].layer, 1);
    assert_int_equal(updates[0].generation, 0);
    /* Sums 400, 120, 120 of 640 become level: 213 each. */
    struct eplb_shape shape;
    int32_t table[SLOTS], scratch[BENCH_EXPERTS];
    assert_int_equal(eplb_shape_init(&shape, 2, BENCH_EXPERTS, BENCH_RANKS, 1, NULL), EPLB_OK);
    memcpy(table, eplb_manager_core_tables(bench.core) + SLOTS, sizeof table);
    assert_int_equal(eplb_weights_check(&shape, table, updates[0].weights, scratch, NULL), EPLB_OK);
    const double loads[BENCH_EXPERTS] = {200, 200, 200, 10, 20, 10};
    for (int rank = 0; rank < BENCH_RANKS; rank++) {
        double sum = 0;
        for (int slot = rank * BENCH_SLOTS; slot < (rank + 1) * BENCH_SLOTS; slot++)
            sum += loads[table[slot]] * updates[0].weights[slot] / UNIT;
        assert_true(sum < 640.0 / 3 * 1.01);
    }
    bench_solved(&bench, updates, count);
    bench_submit(&bench, "ddd");
    assert_int_equal(bench.command.num_weight_updates, 1);
    bench_end(&bench);
}

static void a_budget_of_nothing_is_one_layer(void **state)
{
    (void)state;
    start(3, 0, EPLB_ROUTING_ADAPTIVE);
    bench_forward(&bench, "ddd");
    int32_t count;
    eplb_manager_core_solve_weights(bench.core, &frozen_clock, 0, &count);
    assert_int_equal(count, 1);
    eplb_manager_core_solve_weights(bench.core, &frozen_clock, 1, &count);
    assert_int_equal(count, 3);
    bench_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_asks_for_weights_and_the_next_command_has_them),
        cmocka_unit_test(other_routings_send_no_updates),
        cmocka_unit_test(what_is_not_usable_is_left_out),
        cmocka_unit_test(a_command_has_room_for_eight_the_worst_first),
        cmocka_unit_test(a_dropped_update_comes_again_unless_a_newer_one_was_sent),
        cmocka_unit_test(an_activating_layer_gets_none_and_a_commit_ends_them),
        cmocka_unit_test(nothing_is_sent_after_a_death),
        cmocka_unit_test(the_solve_finds_the_best_split_of_the_recent_load),
        cmocka_unit_test(a_budget_of_nothing_is_one_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
