/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * Balance after a hard change of the traffic, from the event log of a run. The argument `soak` is for the
 * whole recording of GPT-OSS: with replica weights that follow the load and no migration, with a plan that
 * the change itself asks for, and with plans at a fixed interval. PREFIX.events and the steps of its changes
 * as arguments show what became of another recorded run.
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
#include <unistd.h>

#include "cli/command.h"
#include "cli/recovery.h"
#include "support/material.h"

enum { MAX_PATH = 4096, MAX_ENDS = 16 };

/** A window whose balance is so near the final one is back. */
static const double tolerance = 0.03;

static const char gpt_oss[] = "data/gpt-oss-20b-decode/decode_3phases_16seq_511steps.ids.u8";

static void show_phases(const char *name, const struct recovery_series *series, const size_t *ends,
                        int num_ends)
{
    print_message("%s\n  %11s %8s %8s %8s %12s %8s %9s %12s %8s\n", name, "steps", "highest", "final",
                  "worst", "within 0.03", "arrived", "switched", "last switch", "updates");
    size_t begin = 0;
    for (int i = 0; i < num_ends; begin = ends[i++]) {
        struct recovery recovery = recovery_of(series, begin, ends[i]);
        print_message("  %5zu %5zu %8.3f %8.3f %8.3f %12zu %8zu %9" PRIu64 " %12zu %8" PRIu64 "\n", begin + 1,
                      ends[i], recovery.highest, recovery.final, recovery.final_worst,
                      recovery_steps(series, begin, ends[i], tolerance),
                      recovery_arrival_steps(series, begin, ends[i]), recovery.switched, recovery.last_switch,
                      recovery.updates);
    }
}

static void run(const char *const *arguments, struct command_run *ended)
{
    command_run(arguments, ended);
    if (ended->exit_code != 0)
        fail_msg("exit code %d: %s", ended->exit_code, ended->errors);
}

static void remove_recording(void)
{
    (void)unlink("recovery.events");
    (void)unlink("recovery.ids.u8");
    (void)unlink("recovery.json");
}

/* --------------------------------------------------------------------------------- known traffic */

enum { STEPS = 480, CHANGE = 240, SEQUENCES = 4, LAYERS = 2 };

/** Rank 0 has experts 0 and 1; of two ranks' four rows it gets 4 and 2, and after the change 2 and 3. */
static void write_traffic(void)
{
    static const unsigned char experts[2][LAYERS][SEQUENCES] = {{{0, 1, 1, 0}, {0, 3, 1, 3}},
                                                                {{0, 1, 2, 3}, {0, 0, 1, 2}}};
    static const char about[] =
        "{\"format\": \"eplb-ids-1\", \"axes\": [\"step\", \"sequence\", \"layer\", \"k\"], "
        "\"shape\": [480, 4, 2, 1], \"layer_ids\": [0, 1], \"phases\": ["
        "{\"name\": \"one\", \"first\": 0, \"end\": 240}, {\"name\": \"two\", \"first\": 240, \"end\": "
        "480}], "
        "\"dtype\": \"uint8\", \"num_experts\": 4, \"top_k\": 1, \"kind\": \"decode\"}";
    unsigned char ids[STEPS][SEQUENCES][LAYERS];
    for (size_t step = 0; step < STEPS; step++)
        for (size_t sequence = 0; sequence < SEQUENCES; sequence++)
            for (size_t layer = 0; layer < LAYERS; layer++)
                ids[step][sequence][layer] = experts[step >= CHANGE][layer][sequence];
    command_write_file("traffic.ids.u8", ids, sizeof ids);
    command_write_file("traffic.json", about, sizeof about - 1);
}

static void test_known(void **state)
{
    (void)state;
    char name[64];
    const char *const arguments[] = {"run",
                                     "--enable_eplb",
                                     "--ep_size=2",
                                     "--redundant_experts_num=0",
                                     "--routing=trace",
                                     "--route_trace=traffic.ids.u8",
                                     "--record=recovery",
                                     "--log=/dev/null",
                                     name,
                                     NULL};
    snprintf(name, sizeof name, "--instance_name=recovery-%ld", (long)getpid());
    write_traffic();
    remove_recording();
    struct command_run ended;
    run(arguments, &ended);
    command_free(&ended);
    struct recovery_series series;
    recovery_read("recovery.events", &series);
    assert_int_equal(series.num_steps, STEPS);
    for (size_t step = 0; step < STEPS; step++) {
        size_t after = step < CHANGE ? 0 : step - CHANGE + 1;
        double part = (double)(after < RECOVERY_WINDOW ? after : RECOVERY_WINDOW) / RECOVERY_WINDOW;
        /* 2 and 1 in the layers before, 1 and 1.5 after the change */
        assert_true(series.balance[step] == 1.5 - part / 4);
        assert_int_equal(series.switched[step], 0);
        assert_int_equal(series.updates[step], 0);
    }
    struct recovery recovery = recovery_of(&series, CHANGE, STEPS);
    assert_true(recovery.final == 1.25 && recovery.final_worst == 1.25);
    assert_true(recovery.highest == 1.5 - 1.0 / 128);
    assert_true(recovery_of(&series, 0, CHANGE).highest == 1.5);
    assert_int_equal(recovery_steps(&series, 0, CHANGE, 0), 0);
    assert_int_equal(recovery_steps(&series, CHANGE, STEPS, 0), RECOVERY_WINDOW);
    assert_int_equal(recovery_arrival_steps(&series, CHANGE, STEPS), RECOVERY_WINDOW);
    /* 1.5 - n / 128 <= 1.28 */
    assert_int_equal(recovery_steps(&series, CHANGE, STEPS, tolerance), 29);
    recovery_free(&series);
}

/* ------------------------------------------------------------------------------ the whole recording */

/** A run, and the most steps that it may take after a change of the traffic; 0: only shown. */
struct show {
    const char *name;
    const char *options[3];
    size_t most_back;    /* to within the tolerance */
    size_t most_arrived; /* to the final level */
};

static const struct show shows[] = {
    {"weights that follow the load, the first traffic's placement",
     {"--initial_placement=first.placement.json"},
     60,
     0},
    {"trigger", {"--eplb_update_interval_steps=400", "--eplb_shift_trigger=12"}, 120, 120},
    {"every 200 forwards", {"--eplb_update_interval_steps=200"}, 0, 0},
    {"every 73 forwards", {"--eplb_update_interval_steps=73"}, 0, 0},
};

/** What stands behind a key of the summary's top level. */
static long long figure(const char *summary, const char *key)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\n  \"%s\": ", key);
    const char *found = strstr(summary, pattern);
    if (found == NULL)
        fail_msg("the summary has no key %s", key);
    return strtoll(found + strlen(pattern), NULL, 10);
}

static void check(const struct show *show, const char *route_trace)
{
    static const size_t ends[] = {511, 1022, 1533};
    const char *const arguments[] = {"run",
                                     "--enable_eplb",
                                     "--ep_size=8",
                                     "--eplb_policy_kind=robust",
                                     "--eplb_replica_routing=adaptive",
                                     "--eplb_use_decode_only_load",
                                     "--routing=trace",
                                     route_trace,
                                     "--sequences=128",
                                     "--instance_name=recovery",
                                     "--record=recovery",
                                     "--summary_json=-",
                                     "--log=/dev/null",
                                     show->options[0],
                                     show->options[1],
                                     NULL};
    remove_recording();
    struct command_run ended;
    run(arguments, &ended);
    struct recovery_series series;
    recovery_read("recovery.events", &series);
    show_phases(show->name, &series, ends, 3);
    print_message("  %lld rounds, %lld layers switched, %lld slots and %lld bytes moved\n",
                  figure(ended.output, "rounds"), figure(ended.output, "layers_activated"),
                  figure(ended.output, "slots_moved"), figure(ended.output, "bytes_moved"));
    command_free(&ended);
    assert_int_equal(series.num_steps, ends[2]);
    for (int i = 0; i < 2; i++) {
        if (show->most_back > 0)
            assert_in_range(recovery_steps(&series, ends[i], ends[i + 1], tolerance), 0, show->most_back);
        if (show->most_arrived > 0)
            assert_in_range(recovery_arrival_steps(&series, ends[i], ends[i + 1]), 0, show->most_arrived);
    }
    recovery_free(&series);
    remove_recording();
}

static void test_soak(void **state)
{
    (void)state;
    char path[MAX_PATH];
    char load[MAX_PATH + 32];
    char route_trace[MAX_PATH + 32];
    if (material_find(gpt_oss, path, sizeof path) != 0)
        skip();
    snprintf(load, sizeof load, "--load=%s", path);
    snprintf(route_trace, sizeof route_trace, "--route_trace=%s", path);
    const char *const plan[] = {"plan",
                                load,
                                "--step=0",
                                "--ep_size=8",
                                "--eplb_policy_kind=robust",
                                "--eplb_replica_routing=adaptive",
                                "--output=first.placement.json",
                                NULL};
    struct command_run ended;
    run(plan, &ended);
    command_free(&ended);
    for (size_t i = 0; i < sizeof shows / sizeof *shows; i++)
        check(&shows[i], route_trace);
}

/** For `PREFIX.events SHIFT..`: what became of a recorded run. */
static int show_recorded(int argc, char **argv)
{
    struct recovery_series series;
    size_t ends[MAX_ENDS];
    int num_ends = 0;
    recovery_read(argv[1], &series);
    for (int i = 2; i < argc && num_ends < MAX_ENDS - 1; i++)
        ends[num_ends++] = strtoul(argv[i], NULL, 10);
    ends[num_ends++] = series.num_steps;
    show_phases(argv[1], &series, ends, num_ends);
    recovery_free(&series);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest quick[] = {cmocka_unit_test(test_known)};
    const struct CMUnitTest slow[] = {cmocka_unit_test(test_soak)};
    if (argc > 2)
        return show_recorded(argc, argv);
    if (argc > 1 && strcmp(argv[1], "soak") == 0)
        return cmocka_run_group_tests(slow, NULL, NULL);
    return cmocka_run_group_tests(quick, NULL, NULL);
}
