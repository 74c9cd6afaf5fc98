/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The manager's rules in a world without failures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench.h"

static struct bench bench;

static void start(int32_t layers, int32_t overlap, double interval_s)
{
    bench_start(&bench, &(struct bench_options){.num_layers = layers,
                                                .overlap = overlap,
                                                .interval_s = interval_s,
                                                .prepare_timeout_s = 1,
                                                .transfer_timeout_s = 1});
}

static void one_layer(void **state)
{
    (void)state;
    start(1, 0, 0);
    bench_start_round(&bench);
    bench_expect(&bench, "command 1\n"
                         "run policy\n");
    bench_forward(&bench, "ddd");
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 2, prepare layer 0 as 1 on generation 0\n"
                         "open record 2\n"
                         "command 3, activate layer 0 as 2 after 1\n"
                         "committed layer 0, generation 1\n"
                         "run policy\n");
    bench_end(&bench);
}

static void the_next_layer_is_prepared_while_one_activates(void **state)
{
    (void)state;
    start(3, 0, 1000);
    bench_forward(&bench, "ddd");
    bench_wait(&bench, 1000);
    bench_tick(&bench);
    bench_policy(&bench);
    for (int i = 0; i < 5; i++)
        bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 1\n"
                         "run policy\n"
                         "command 2, prepare layer 0 as 1 on generation 0\n"
                         "open record 2\n"
                         "command 3, activate layer 0 as 2 after 1, prepare layer 1 as 3 on generation 0\n"
                         "committed layer 0, generation 1\n"
                         "open record 4\n"
                         "command 4, activate layer 1 as 4 after 3, prepare layer 2 as 5 on generation 0\n"
                         "committed layer 1, generation 1\n"
                         "open record 6\n"
                         "command 5, activate layer 2 as 6 after 5\n"
                         "committed layer 2, generation 1\n"
                         "command 6\n");
    assert_false(bench_status(&bench).round);
    assert_int_equal(bench_status(&bench).rounds, 1);
    assert_int_equal(bench_status(&bench).layers_committed, 3);
    bench_end(&bench);
}

static void overlap_of_one(void **state)
{
    (void)state;
    start(2, 1, 1000);
    bench_forward(&bench, "ddd");
    bench_wait(&bench, 1000);
    bench_tick(&bench);
    bench_policy(&bench);
    bench_expect(&bench, "command 1\nrun policy\n");
    uint64_t second = bench_submit(&bench, "ddd");
    bench_prepare_ok(&bench, 0, BENCH_RANKS);
    uint64_t third = bench_submit(&bench, "ddd"); /* before the output of the second is read */
    bench_output(&bench, second);
    uint64_t fourth = bench_submit(&bench, "ddd");
    struct eplb_command activation = bench.command;
    bench_output(&bench, third);
    uint64_t fifth = bench_submit(&bench, "ddd"); /* under the new placement on the workers */
    bench.command = activation;
    bench_switched(&bench, 0, BENCH_RANKS);
    bench_prepare_ok(&bench, 0, BENCH_RANKS);
    bench_output(&bench, fourth);
    bench_output(&bench, fifth);
    bench_expect(&bench, "command 2, prepare layer 0 as 1 on generation 0\n"
                         "command 3\n"
                         "open record 2\n"
                         "command 4, activate layer 0 as 2 after 1, prepare layer 1 as 3 on generation 0\n"
                         "command 5\n"
                         "committed layer 0, generation 1\n");
    bench_end(&bench);
}

static void only_a_decode_boundary_takes_a_command(void **state)
{
    (void)state;
    static const char *const closed[] = {"dpd", "dmd", "ppp", "---", "wddd", "p--", "-m-"};
    start(1, 0, 1000);
    bench_forward(&bench, "ddd");
    bench_wait(&bench, 1000);
    bench_tick(&bench);
    bench_policy(&bench);
    bench_expect(&bench, "command 1\nrun policy\n");
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++)
        bench_forward(&bench, closed[i]);
    bench_expect(&bench, "command 2\ncommand 3\ncommand 4\ncommand 5\ncommand 6\ncommand 7\ncommand 8\n");
    bench_forward(&bench, "d--");
    bench_forward(&bench, "-p-");
    bench_forward(&bench, "--d");
    bench_expect(&bench, "command 9, prepare layer 0 as 1 on generation 0\n"
                         "command 10\n"
                         "open record 2\n"
                         "command 11, activate layer 0 as 2 after 1\n"
                         "committed layer 0, generation 1\n");
    bench_end(&bench);
}

static void warm_up_arms_no_timer(void **state)
{
    (void)state;
    start(1, 0, 0);
    for (int i = 0; i < 3; i++)
        bench_forward(&bench, "wddd");
    assert_int_equal(bench_status(&bench).samples_taken, 0);
    assert_int_equal(bench_status(&bench).last_sample_age_ns, -1);
    bench_expect(&bench, "command 1\ncommand 2\ncommand 3\n");
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 4\nrun policy\n");
    assert_int_equal(bench_status(&bench).samples_taken, 1);
    bench_end(&bench);
}

static void the_interval_counts_from_the_first_sample_and_then_from_run_to_run(void **state)
{
    (void)state;
    start(1, 0, 10);
    bench_wait(&bench, 100);
    bench_tick(&bench);
    bench_forward(&bench, "ddd");
    bench_wait(&bench, 9.5);
    bench_tick(&bench);
    bench_expect(&bench, "command 1\n");
    bench_wait(&bench, 0.5);
    bench_tick(&bench); /* without traffic */
    bench_expect(&bench, "run policy\n");
    bench_wait(&bench, 9); /* a slow policy: the next interval runs already */
    for (int rank = 0; rank < BENCH_RANKS; rank++)
        memset(bench.prefix[rank], 0, sizeof bench.prefix[rank]);
    bench_policy(&bench);
    bench_forward(&bench, "ddd");
    bench_forward(&bench, "ddd");
    bench_forward(&bench, "ddd");
    assert_false(bench_status(&bench).round);
    bench_expect(&bench, "command 2, prepare layer 0 as 1 on generation 0\n"
                         "open record 2\n"
                         "command 3, activate layer 0 as 2 after 1\n"
                         "committed layer 0, generation 1\n"
                         "command 4\n");
    bench_wait(&bench, 1);
    bench_tick(&bench);
    bench_expect(&bench, "run policy\n");
    bench_policy(&bench);
    bench_wait(&bench, 1000);
    bench_tick(&bench); /* no sample since that run */
    bench_expect(&bench, "");
    bench_end(&bench);
}

static void an_interval_in_forwards_counts_those_submitted_and_no_time(void **state)
{
    (void)state;
    bench_start(&bench, &(struct bench_options){.num_layers = 1,
                                                .interval_s = 0,
                                                .interval_forwards = 3,
                                                .prepare_timeout_s = 1,
                                                .transfer_timeout_s = 1});
    bench_forward(&bench, "ddd");
    bench_wait(&bench, 1000);
    bench_tick(&bench);
    bench_forward(&bench, "ddd");
    bench_forward(&bench, "ppp");
    bench_expect(&bench, "command 1\ncommand 2\ncommand 3\n");
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 4\nrun policy\n");
    bench_policy(&bench);
    bench_forward(&bench, "ddd");
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 5, prepare layer 0 as 1 on generation 0\n"
                         "open record 2\n"
                         "command 6, activate layer 0 as 2 after 1\n"
                         "committed layer 0, generation 1\n");
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 7\nrun policy\n");
    bench_end(&bench);
}

static void a_sample_of_the_old_placement_after_the_switch_counts_for_experts_only(void **state)
{
    (void)state;
    start(1, 1, 1000);
    bench_forward(&bench, "ddd");
    bench_wait(&bench, 1000);
    bench_tick(&bench);
    bench_policy(&bench);
    bench_forward(&bench, "ddd");
    uint64_t activates = bench_submit(&bench, "ddd");
    bench_switched(&bench, 0, BENCH_RANKS);
    bench_output(&bench, activates);
    const struct eplb_window *window = eplb_manager_core_window(bench.core);
    assert_int_equal(window->logical[0], 2 * (100 + 5));
    assert_int_equal(window->physical[0], 0);
    for (int rank = 0; rank < BENCH_RANKS; rank++)
        bench.generations[rank][0] = 0;
    bench_forward(&bench, "ddd");
    assert_int_equal(window->logical[0], 3 * (100 + 5));
    assert_int_equal(window->physical[0], 0);
    for (int rank = 0; rank < BENCH_RANKS; rank++)
        bench.generations[rank][0] = 1;
    bench_forward(&bench, "ddd");
    assert_int_equal(window->physical[0], 100);
    bench_end(&bench);
}

static void every_interval_of_zero_moves_all_layers_and_starves_none(void **state)
{
    (void)state;
    start(10, 0, 0);
    for (int i = 0; i < 1000; i++) {
        /* The hot slot wanders over all of them, so that every layer has reason to move again. */
        for (int rank = 0; rank < BENCH_RANKS; rank++)
            for (int layer = 0; layer < 10; layer++)
                for (int slot = 0; slot < BENCH_SLOTS; slot++) {
                    int64_t before = slot == 0 ? 0 : bench.prefix[rank][layer][slot - 1];
                    int hot = (i / 7 + layer) % (BENCH_RANKS * BENCH_SLOTS) == rank * BENCH_SLOTS + slot;
                    bench.prefix[rank][layer][slot] = before + (hot ? 500 : 10);
                }
        bench_forward(&bench, "ddd");
        if (bench_status(&bench).policy_running)
            bench_policy(&bench);
        assert_true(bench_status(&bench).layers_waiting <= 10);
        bench.trace[0] = '\0';
    }
    for (int layer = 0; layer < 10; layer++)
        assert_true(eplb_manager_core_generation(bench.core, layer) >= 10);
    assert_int_equal(bench_status(&bench).layers_aborted, 0);
    bench_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_layer),
        cmocka_unit_test(the_next_layer_is_prepared_while_one_activates),
        cmocka_unit_test(overlap_of_one),
        cmocka_unit_test(only_a_decode_boundary_takes_a_command),
        cmocka_unit_test(warm_up_arms_no_timer),
        cmocka_unit_test(the_interval_counts_from_the_first_sample_and_then_from_run_to_run),
        cmocka_unit_test(an_interval_in_forwards_counts_those_submitted_and_no_time),
        cmocka_unit_test(a_sample_of_the_old_placement_after_the_switch_counts_for_experts_only),
        cmocka_unit_test(every_interval_of_zero_moves_all_layers_and_starves_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
