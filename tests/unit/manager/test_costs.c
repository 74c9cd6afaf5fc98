/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What the manager measures of migrations and forwards, in virtual time, and what it refuses by it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench.h"

/* Rank 0 has 140 tokens in each layer, the others 15. */
enum { SLOWEST = 140 };

static struct bench bench;

static void start(struct bench_options options)
{
    options.prepare_timeout_s = 1;
    options.transfer_timeout_s = 1;
    options.log_policy = true;
    bench_start(&bench, &options);
}

/** A forward that takes its time; all workers obey its command. */
static void timed_forward(double seconds)
{
    uint64_t seq = bench_submit(&bench, "ddd");
    if (bench.command.prepare_layer_id != EPLB_NO_LAYER)
        bench_prepare_ok(&bench, 0, BENCH_RANKS);
    if (bench.command.update_layer_id != EPLB_NO_LAYER)
        bench_switched(&bench, 0, BENCH_RANKS);
    bench_wait(&bench, seconds);
    bench_output(&bench, seq);
}

static void the_time_of_forwards_is_measured(void **state)
{
    (void)state;
    start((struct bench_options){.num_layers = 2, .interval_s = 1000});
    assert_true(bench_status(&bench).seconds_per_token == 0);
    timed_forward(2);
    assert_true(bench_status(&bench).seconds_per_token == 2.0 / (2 * SLOWEST));
    /* Without forwards, no time passes. */
    bench_wait(&bench, 100);
    timed_forward(1);
    double seconds = 2.0 * (63.0 / 64) + 1;
    double tokens = 2.0 * SLOWEST * (63.0 / 64) + 2.0 * SLOWEST;
    assert_true(bench_status(&bench).seconds_per_token == seconds / tokens);
    bench_end(&bench);
}

static void with_overlap_a_forward_begins_when_the_one_before_it_ends(void **state)
{
    (void)state;
    start((struct bench_options){.num_layers = 1, .overlap = 1, .interval_s = 1000});
    uint64_t first = bench_submit(&bench, "ddd");
    uint64_t second = bench_submit(&bench, "ddd");
    bench_wait(&bench, 4);
    bench_output(&bench, first);
    bench_wait(&bench, 1);
    bench_output(&bench, second);
    double seconds = 4.0 * (63.0 / 64) + 1;
    double tokens = SLOWEST * (63.0 / 64) + SLOWEST;
    assert_true(bench_status(&bench).seconds_per_token == seconds / tokens);
    bench_end(&bench);
}

static void what_gives_no_sample_is_not_measured(void **state)
{
    (void)state;
    start((struct bench_options){.num_layers = 1, .interval_s = 1000});
    bench.lacking[1] = true;
    timed_forward(5);
    bench.lacking[1] = false;
    uint64_t warmup = bench_submit(&bench, "wddd");
    bench_wait(&bench, 7);
    bench_output(&bench, warmup);
    assert_true(bench_status(&bench).seconds_per_token == 0);
    bench_end(&bench);
}

static void the_bandwidth_is_measured_from_activations(void **state)
{
    (void)state;
    start((struct bench_options){.num_layers = 1, .interval_s = 0, .expert_bytes = 1000});
    bench_start_round(&bench);
    assert_true(bench_status(&bench).bytes_per_second == 0);
    timed_forward(0.25);
    assert_true(bench_status(&bench).bytes_per_second == 0);
    timed_forward(0.5);
    struct eplb_manager_status status = bench_status(&bench);
    assert_int_equal(status.layers_committed, 1);
    /* Which of the sent slots the busiest rank got is at least one third of them. */
    double received = status.bytes_per_second * 0.5 / 1000;
    assert_true(received == 1 || received == 2 || received == 3);
    assert_true(3 * received >= (double)status.slots_sent && received <= (double)status.slots_sent);
    bench_end(&bench);
}

static void a_given_bandwidth_is_not_measured(void **state)
{
    (void)state;
    start((struct bench_options){
        .num_layers = 1, .interval_s = 0, .expert_bytes = 1000, .bytes_per_second = 777});
    bench_start_round(&bench);
    timed_forward(0.25);
    timed_forward(0.5);
    assert_int_equal(bench_status(&bench).layers_committed, 1);
    assert_true(bench_status(&bench).bytes_per_second == 777);
    bench_end(&bench);
}

static void what_does_not_pay_is_kept(void **state)
{
    (void)state;
    start((struct bench_options){.num_layers = 2,
                                 .interval_s = 0,
                                 .expert_bytes = 1000000,
                                 .bytes_per_second = 1000,
                                 .max_break_even_forwards = 100});
    timed_forward(1);
    bench_policy(&bench);
    timed_forward(1);
    bench_expect(&bench, "command 1\n"
                         "run policy\n"
                         "command 2\n"
                         "run policy\n");
    assert_non_null(strstr(bench.log, "| verdict=keep: does not pay |"));
    assert_null(strstr(bench.log, "| verdict=publish |"));
    assert_int_equal(bench_status(&bench).layers_published, 0);
    bench_end(&bench);
}

static void what_is_not_known_refuses_nothing(void **state)
{
    (void)state;
    start((struct bench_options){
        .num_layers = 1, .interval_s = 0, .expert_bytes = 1000000, .max_break_even_forwards = 1});
    timed_forward(1);
    bench_policy(&bench);
    assert_int_equal(bench_status(&bench).layers_published, 1);
    assert_non_null(strstr(bench.log, "| verdict=publish |"));
    assert_non_null(strstr(bench.log, "| break_even_forwards=unknown"));
    bench_end(&bench);
}

/** A token costs 1 / 280 s and a forward saves `saved` tokens of a layer: the line says so. */
static void the_line_says_when_it_has_paid(void **state)
{
    (void)state;
    start((struct bench_options){
        .num_layers = 2, .interval_s = 0, .expert_bytes = 1000, .bytes_per_second = 500});
    timed_forward(1);
    bench_policy(&bench);
    const char *line = strstr(bench.log, "EPLB placement benefit | layer=0");
    double peak = 0;
    double forwards = 0;
    int sent = 0;
    assert_non_null(line);
    assert_int_equal(sscanf(strstr(line, "candidate_peak="), "candidate_peak=%lf", &peak), 1);
    assert_int_equal(sscanf(strstr(line, "sent_slots="), "sent_slots=%d", &sent), 1);
    assert_int_equal(sscanf(strstr(line, "break_even_forwards="), "break_even_forwards=%lf", &forwards), 1);
    double received = forwards * (SLOWEST - peak) / (2 * SLOWEST) * 500 / 1000;
    assert_true(received > 0.999 && received < sent + 0.001);
    assert_true(received - (int)(received + 0.5) < 0.001 && received - (int)(received + 0.5) > -0.001);
    bench_end(&bench);
}

static void a_layer_changes_no_more_slots_than_allowed(void **state)
{
    (void)state;
    for (int32_t most = 1; most <= 3; most++) {
        start((struct bench_options){.num_layers = 1, .interval_s = 0, .max_moves = most});
        bench_start_round(&bench);
        timed_forward(0.1);
        timed_forward(0.1);
        struct eplb_manager_status status = bench_status(&bench);
        assert_int_equal(status.layers_committed, status.layers_published);
        assert_true(status.slots_moved <= (uint64_t)most);
        bench_end(&bench);
    }
}

/** The plan was worth its migration; traffic grew quiet while it waited for a decode boundary. */
static void wait_in_quiet_traffic(int32_t max_break_even_forwards)
{
    enum { QUIET_FORWARDS = 20000 };
    start((struct bench_options){.num_layers = 1,
                                 .interval_s = 1,
                                 .expert_bytes = 1000,
                                 .bytes_per_second = 1000,
                                 .max_break_even_forwards = max_break_even_forwards});
    timed_forward(1);
    bench_wait(&bench, 1);
    bench_tick(&bench);
    bench_policy(&bench);
    timed_forward(1);
    assert_int_equal(bench_status(&bench).ready, 1);
    for (int slot = 0; slot < BENCH_SLOTS; slot++)
        for (int rank = 0; rank < BENCH_RANKS; rank++)
            bench.prefix[rank][0][slot] = 0;
    for (int i = 0; i < QUIET_FORWARDS; i++) {
        uint64_t seq = bench_submit(&bench, "pdd");
        bench_wait(&bench, 0.001);
        bench_output(&bench, seq);
        bench.trace[0] = '\0';
    }
    timed_forward(1);
}

static void a_ready_layer_that_no_longer_pays_is_given_up(void **state)
{
    (void)state;
    wait_in_quiet_traffic(1000);
    bench_expect(&bench, "aborted layer 0: it no longer passes the gate\n"
                         "command 20003\n"
                         "run policy\n");
    bench_end(&bench);
    wait_in_quiet_traffic(0);
    bench_expect(&bench, "open record 2\n"
                         "command 20003, activate layer 0 as 2 after 1\n"
                         "committed layer 0, generation 1\n"
                         "run policy\n");
    bench_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_of_forwards_is_measured),
        cmocka_unit_test(with_overlap_a_forward_begins_when_the_one_before_it_ends),
        cmocka_unit_test(what_gives_no_sample_is_not_measured),
        cmocka_unit_test(the_bandwidth_is_measured_from_activations),
        cmocka_unit_test(a_given_bandwidth_is_not_measured),
        cmocka_unit_test(what_does_not_pay_is_kept),
        cmocka_unit_test(what_is_not_known_refuses_nothing),
        cmocka_unit_test(the_line_says_when_it_has_paid),
        cmocka_unit_test(a_layer_changes_no_more_slots_than_allowed),
        cmocka_unit_test(a_ready_layer_that_no_longer_pays_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
