/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * eplb replay on loads recorded from real models: what the plans bring on the window after them. The figures
 * were computed a second time by another program, from the rules.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "cli/command.h"
#include "support/material.h"

enum { MAX_PATH = 4096, MAX_SECONDS = 10 };

#define GPT_OSS "data/gpt-oss-20b-decode/decode_3phases_steps.csv"
#define GPT_OSS_IDS "data/gpt-oss-20b-decode/decode_3phases_16seq_511steps.ids.u8"
#define DEEPSEEK "data/deepseek-v2-lite-prefill/steps.csv"
#define DEEPSEEK_LAW "data/deepseek-v2-lite-prefill/law.ids.u8"
#define DEEPSEEK_INTENT "data/deepseek-v2-lite-prefill/intent.ids.u8"
#define QWEN3 "data/qwen3-30b-a3b-prefill/counts_by_language.csv"
#define OLMOE "data/olmoe-mixtral-prefill/olmoe_counts_by_domain.csv"
#define MIXTRAL "data/olmoe-mixtral-prefill/mixtral_counts_by_domain.csv"

struct expected {
    const char *recording;
    const char *policy;
    int ep_size, redundancy, window;
    int windows; /* that were scored */
    double same, next, initial;
    int published, moved, from_other_ranks;
};

static const struct expected table[] = {
    {GPT_OSS, "balanced", 8, 1, 0, 20, 1.0237353738584474, 1.184308409436834, 1.7131938498858446, 392, 12311,
     12311},
    {GPT_OSS, "greedy", 8, 1, 0, 20, 1.027056697108067, 1.1877354452054794, 1.7131938498858446, 368, 11923,
     11033},
    {GPT_OSS_IDS, "balanced", 8, 1, 73, 20, 1.0237353738584474, 1.184308409436834, 1.7131938498858446, 392,
     12311, 12311},
    {GPT_OSS_IDS, "greedy", 8, 1, 73, 20, 1.027056697108067, 1.1877354452054794, 1.7131938498858446, 368,
     11923, 11033},
    {DEEPSEEK, "balanced", 16, 1, 0, 15, 1.027827656133401, 1.189867051157217, 1.7099543105385364, 357, 25145,
     25145},
    {DEEPSEEK, "greedy", 16, 1, 0, 15, 1.0279706929984438, 1.1871087461890772, 1.7099543105385364, 354, 24578,
     23551},
    {DEEPSEEK_LAW, "balanced", 16, 1, 1000, 7, 1.0305177045177043, 1.1567484737484737, 1.687970695970696, 176,
     12649, 12649},
    {DEEPSEEK_LAW, "greedy", 16, 1, 1000, 7, 1.0295960927960928, 1.1720429792429792, 1.687970695970696, 181,
     12901, 12261},
    {DEEPSEEK_INTENT, "balanced", 16, 1, 1000, 7, 1.0253162393162394, 1.1245934065934065, 1.7377948717948717,
     161, 11219, 11219},
    {DEEPSEEK_INTENT, "greedy", 16, 1, 1000, 7, 1.0265030525030525, 1.1267167277167278, 1.7377948717948717,
     161, 10952, 10543},
    {QWEN3, "balanced", 16, 1, 0, 4, 1.0032207349777857, 1.6330905752055331, 2.2798829531051514, 185, 24307,
     24307},
    {QWEN3, "greedy", 16, 1, 0, 4, 1.0030239718577558, 1.6262452148106057, 2.2798829531051514, 186, 25108,
     23973},
    {OLMOE, "balanced", 16, 1, 0, 3, 1.0332002882171387, 1.6062863810769328, 1.6967640573055374, 9, 658, 658},
    {OLMOE, "greedy", 16, 1, 0, 3, 1.0293316255900509, 1.5975318987645923, 1.6967640573055374, 9, 693, 663},
    {MIXTRAL, "balanced", 8, 0, 0, 2, 1.1985677083333335, 1.1487789777369282, 1.1487789777369282, 0, 0, 0},
    {MIXTRAL, "greedy", 8, 0, 0, 2, 1.1985677083333335, 1.1487789777369282, 1.1487789777369282, 0, 0, 0},
    {MIXTRAL, "balanced", 4, 0, 0, 2, 1.048346226511438, 1.0727730545343137, 1.060409645629085, 1, 5, 5},
    {MIXTRAL, "greedy", 4, 0, 0, 2, 1.048346226511438, 1.0727730545343137, 1.060409645629085, 1, 7, 5},
    {MIXTRAL, "balanced", 8, 1, 0, 2, 1.048346226511438, 1.0816052006740196, 1.095806844873366, 3, 40, 40},
    {MIXTRAL, "greedy", 8, 1, 0, 2, 1.048346226511438, 1.0891496246936274, 1.095806844873366, 3, 21, 21},
};

static void check_figure(const json_t *totals, const char *key, double expected)
{
    double found = json_number_value(json_object_get(totals, key));
    if (fabs(found - expected) > 1e-12 * expected)
        fail_msg("%s is %.17g instead of %.17g", key, found, expected);
}

static void check_totals(const char *output, const struct expected *expected)
{
    json_t *report = json_loads(output, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(report);
    const json_t *totals = json_object_get(report, "totals");
    assert_int_equal(json_array_size(json_object_get(report, "windows")), expected->windows);
    assert_int_equal(material_int(totals, "windows_scored"), expected->windows);
    check_figure(totals, "peak_over_mean_same", expected->same);
    check_figure(totals, "peak_over_mean_next", expected->next);
    check_figure(totals, "peak_over_mean_next_initial", expected->initial);
    assert_int_equal(material_int(totals, "layers_published"), expected->published);
    assert_int_equal(material_int(totals, "slots_moved"), expected->moved);
    assert_int_equal(material_int(totals, "slots_from_other_ranks"), expected->from_other_ranks);
    json_decref(report);
}

static void replay(const struct expected *expected)
{
    char path[MAX_PATH];
    char load[MAX_PATH + 16];
    char ep_size[40];
    char redundancy[60];
    char window[40];
    char policy[60];
    if (material_find(expected->recording, path, sizeof path) != 0)
        skip();
    snprintf(load, sizeof load, "--load=%s", path);
    snprintf(ep_size, sizeof ep_size, "--ep_size=%d", expected->ep_size);
    snprintf(redundancy, sizeof redundancy, "--redundant_experts_num=%d", expected->redundancy);
    snprintf(window, sizeof window, "--window=%d", expected->window);
    snprintf(policy, sizeof policy, "--eplb_policy_kind=%s", expected->policy);
    const char *const arguments[] = {"replay", load, ep_size, redundancy, window, policy, "--json", NULL};
    struct command_run run;
    command_run(arguments, &run);
    if (run.exit_code != 0)
        fail_msg("%s: exit code %d: %s", path, run.exit_code, run.errors);
    assert_true(run.seconds < MAX_SECONDS);
    print_message("%-64s EP%-2d +%d %-8s %.3f on the next window, %.3f at the start\n", expected->recording,
                  expected->ep_size, expected->redundancy, expected->policy, expected->next,
                  expected->initial);
    check_totals(run.output, expected);
    command_free(&run);
}

static void plans_are_scored_on_the_next_window(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        replay(&table[i]);
}

int main(void)
{
    char path[MAX_PATH];
    if (material_find("data", path, sizeof path) != 0)
        return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_are_scored_on_the_next_window)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
