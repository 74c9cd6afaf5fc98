/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * Runs that follow recordings of real models: what balancing brings on their load. The argument `soak` is
 * for the whole recordings, in several ways; without it a part of one is enough.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "support/material.h"

enum { MAX_PATH = 4096, MOST_OPTIONS = 24 };

/** A run with and without balancing, and the least that must come of it. */
struct show {
    const char *recording;
    const char *options[8]; /* beside those of all */
    int num_layers;
    double tokens_saved; /* share of the critical path */
    bool settles;        /* few layers switch again before the traffic changes, which is twice */
    bool saves_time;
};

static const char gpt_oss[] = "data/gpt-oss-20b-decode/decode_3phases_16seq_511steps.ids.u8";
static const char deepseek_law[] = "data/deepseek-v2-lite-prefill/law.ids.u8";
static const char deepseek_intent[] = "data/deepseek-v2-lite-prefill/intent.ids.u8";

static const struct show short_show = {
    gpt_oss,
    {"--sequences=64", "--ep_size=4", "--eplb_update_interval_steps=48", "--steps=240", "--log=followed.log"},
    24,
    0.05,
    false,
    false};

static const struct show shows[] = {
    {gpt_oss, {"--sequences=128", "--ep_size=8", "--eplb_update_interval_steps=64"}, 24, 0.2, true, true},
    {gpt_oss,
     {"--sequences=128", "--ep_size=8", "--eplb_update_interval_steps=64", "--eplb_policy_kind=greedy"},
     24,
     0.2,
     true,
     false},
    {gpt_oss,
     {"--sequences=128", "--ep_size=8", "--eplb_update_interval_steps=64", "--enable_schedule_overlap"},
     24,
     0.2,
     true,
     false},
    {gpt_oss, {"--sequences=128", "--ep_size=16", "--eplb_update_interval_steps=64"}, 24, 0.32, false, false},
    {deepseek_law,
     {"--sequences=16", "--ep_size=16", "--eplb_update_interval_steps=64"},
     26,
     0.08,
     false,
     false},
    {deepseek_intent,
     {"--sequences=16", "--ep_size=16", "--eplb_update_interval_steps=64"},
     26,
     0.08,
     false,
     false},
};

/** Runs `eplb run` on a recording with these options and returns the summary's JSON, to be freed. */
static char *run(const char *recording, const char *const *options, bool verify, double *seconds)
{
    char route_trace[MAX_PATH + 32];
    const char *arguments[MOST_OPTIONS] = {"run",
                                           "--routing=trace",
                                           route_trace,
                                           "--instance_name=followed",
                                           "--enable_eplb",
                                           "--expert_parallel_degree=2",
                                           "--eplb_use_decode_only_load",
                                           "--summary_json=-",
                                           verify ? "--verify" : "--noverify"};
    size_t count = 9;
    snprintf(route_trace, sizeof route_trace, "--route_trace=%s", recording);
    for (size_t i = 0; options[i] != NULL; i++)
        arguments[count++] = options[i];
    struct command_run ended;
    command_run(arguments, &ended);
    if (ended.exit_code != 0)
        fail_msg("exit code %d: %s", ended.exit_code, ended.errors);
    char *summary = strdup(ended.output);
    assert_non_null(summary);
    *seconds = ended.seconds;
    command_free(&ended);
    return summary;
}

/** What stands behind a key of the summary's top level. */
static const char *find(const char *summary, const char *key)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\n  \"%s\": ", key);
    const char *found = strstr(summary, pattern);
    if (found == NULL)
        fail_msg("the summary has no key %s", key);
    return found + strlen(pattern);
}

static double figure(const char *summary, const char *key)
{
    return strtod(find(summary, key), NULL);
}

/**
 * At the beginning and after both changes of traffic all layers switch, and between them fewer than a third
 * of the layers in each run of the policy.
 */
static void check_settled(const char *summary, int num_layers)
{
    const char *rest = find(summary, "layers_published_by_run");
    int all = 0;
    int64_t switched = 0;
    int64_t possible = 0;
    assert_int_equal(*rest++, '[');
    while (*rest != ']') {
        char *end;
        int64_t layers = strtoll(rest, &end, 10);
        assert_ptr_not_equal(end, rest);
        if (layers == num_layers) {
            assert_true(3 * switched <= possible);
            all++;
            switched = possible = 0;
        } else {
            switched += layers;
            possible += num_layers;
        }
        rest = *end == ',' ? end + 1 : end;
    }
    assert_int_equal(all, 3);
    assert_true(3 * switched < possible);
}

static void check(const struct show *show)
{
    char path[MAX_PATH];
    double seconds;
    if (material_find(show->recording, path, sizeof path) != 0)
        skip();
    char *summary = run(path, show->options, true, &seconds);
    double with = figure(summary, "critical_path_tokens_with");
    double without = figure(summary, "critical_path_tokens_without");
    print_message("%s %s %s: %.0f s, %.0f layers switched, critical path %.1f %% of the tokens, %.1f %% of "
                  "the CPU time\n",
                  show->recording, show->options[1], show->options[3] == NULL ? "" : show->options[3],
                  seconds, figure(summary, "layers_activated"), 100 * with / without,
                  100 * figure(summary, "critical_path_ms_with") /
                      figure(summary, "critical_path_ms_without"));
    assert_memory_equal(find(summary, "verified"), "true", 4);
    assert_true(figure(summary, "layers_activated") >= show->num_layers);
    assert_true(with <= (1 - show->tokens_saved) * without);
    if (show->settles)
        check_settled(summary, show->num_layers);
    if (show->saves_time)
        assert_true(figure(summary, "critical_path_ms_with") < figure(summary, "critical_path_ms_without"));
    assert_non_null(strstr(find(summary, "outcomes"), "\"predicted_peak\""));
    free(summary);
}

static void test_short(void **state)
{
    (void)state;
    (void)unlink("followed.log");
    check(&short_show);
    /* Every switch has a line that tells what its plan promised and what came. */
    char *log = command_read_file("followed.log");
    int lines = 0;
    for (const char *at = log; (at = strstr(at, "EPLB placement outcome | layer=")) != NULL; at++)
        lines++;
    assert_true(lines >= 24);
    free(log);
}

/* What a run recorded is the same run when it is followed. */
static void test_again(void **state)
{
    (void)state;
    char path[MAX_PATH];
    double seconds;
    static const char *const names[] = {"again.ids.u8", "again.json", "again.events"};
    const char *const first[] = {
        "--sequences=32", "--ep_size=2",     "--steps=60", "--eplb_update_interval_steps=16",
        "--record=again", "--log=/dev/null", NULL};
    const char *const second[] = {"--ep_size=4", "--eplb_update_interval_steps=16", "--log=/dev/null", NULL};
    if (material_find(gpt_oss, path, sizeof path) != 0)
        skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)unlink(names[i]);
    char *recorded = run(path, first, false, &seconds);
    char *followed = run("again.ids.u8", second, false, &seconds);
    assert_true(figure(followed, "steps") == 60);
    assert_memory_equal(find(followed, "digest"), find(recorded, "digest"), 18);
    free(followed);
    free(recorded);
}

static void test_soak(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shows / sizeof *shows; i++)
        check(&shows[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest quick[] = {cmocka_unit_test(test_short), cmocka_unit_test(test_again)};
    const struct CMUnitTest slow[] = {cmocka_unit_test(test_soak)};
    if (argc > 1 && strcmp(argv[1], "soak") == 0)
        return cmocka_run_group_tests(slow, NULL, NULL);
    return cmocka_run_group_tests(quick, NULL, NULL);
}
