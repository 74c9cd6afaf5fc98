/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The command on loads recorded from real models, for all sizes that divide and both policies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "support/material.h"

enum { MAX_PATH = 4096, MAX_SECONDS = 5 };

static const char *const policies[] = {"balanced", "greedy"};
static const int ep_sizes[] = {8, 16, 32, 64};

struct recording {
    const char *name;
    int num_experts;
    int num_layers;
};

static const struct recording gpt_oss = {"data/gpt-oss-20b-decode/decode_3phases_steps.csv", 32, 24};
static const struct recording deepseek = {"data/deepseek-v2-lite-prefill/steps.csv", 64, 26};
static const struct recording gpt_oss_ids = {"data/gpt-oss-20b-decode/decode_3phases_16seq_511steps.ids.u8",
                                             32, 24};
static const struct recording deepseek_ids = {"data/deepseek-v2-lite-prefill/law.ids.u8", 64, 26};
static const struct recording qwen3 = {"data/qwen3-30b-a3b-prefill/counts_by_language.csv", 128, 48};
static const struct recording olmoe = {"data/olmoe-mixtral-prefill/olmoe_counts_by_domain.csv", 64, 3};
static const struct recording mixtral = {"data/olmoe-mixtral-prefill/mixtral_counts_by_domain.csv", 8, 3};

/** One plan of a recording. */
struct trial {
    const struct recording *recording;
    int ep_size;
    int redundant_experts_num;
    const char *policy;
};

/** What a plan says of itself. */
struct outcome {
    size_t published;
    double before; /* peak / mean of the ranks, mean over the layers */
    double after;
};

/** Fails unless every rank holds different experts and all ranks together hold all. */
static void check_legal(const json_t *ranks, const struct trial *trial)
{
    int slots = trial->recording->num_experts / trial->ep_size + trial->redundant_experts_num;
    int *last_rank = calloc((size_t)trial->recording->num_experts, sizeof *last_rank);
    assert_non_null(last_rank);
    int seen = 0;
    assert_int_equal(json_array_size(ranks), trial->ep_size);
    for (int rank = 0; rank < trial->ep_size; rank++) {
        const json_t *experts = json_array_get(ranks, (size_t)rank);
        assert_int_equal(json_array_size(experts), slots);
        for (int slot = 0; slot < slots; slot++) {
            json_int_t expert = json_integer_value(json_array_get(experts, (size_t)slot));
            assert_in_range(expert, 0, trial->recording->num_experts - 1);
            assert_int_not_equal(last_rank[expert], rank + 1);
            seen += last_rank[expert] == 0;
            last_rank[expert] = rank + 1;
        }
    }
    assert_int_equal(seen, trial->recording->num_experts);
    free(last_rank);
}

static double figure(const json_t *rows, size_t row, const char *key)
{
    const json_t *value = json_object_get(json_array_get(rows, row), key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static struct outcome judge(const char *text, const struct trial *trial)
{
    json_t *placement = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(placement);
    const json_t *tables = json_object_get(placement, "expert_ids");
    const json_t *gate = json_object_get(placement, "gate");
    const json_t *predicted = json_object_get(placement, "predicted");
    size_t num_layers = json_array_size(tables);
    assert_int_equal(num_layers, trial->recording->num_layers);
    struct outcome outcome = {0};
    for (size_t layer = 0; layer < num_layers; layer++) {
        check_legal(json_array_get(tables, layer), trial);
        double mean = figure(predicted, layer, "mean") * (double)num_layers;
        outcome.before += figure(gate, layer, "current_peak") / mean;
        outcome.after += figure(predicted, layer, "peak") / mean;
        outcome.published += json_is_true(json_object_get(json_array_get(gate, layer), "publish"));
    }
    json_decref(placement);
    return outcome;
}

/** Plans and writes next.json; the current placement is read from a file when `current` is not NULL. */
static double plan(const char *path, const struct trial *trial, const char *current)
{
    char load[MAX_PATH + 16];
    char ep_size[40];
    char redundancy[60];
    char policy[40];
    snprintf(load, sizeof load, "--load=%s", path);
    snprintf(ep_size, sizeof ep_size, "--ep_size=%d", trial->ep_size);
    snprintf(redundancy, sizeof redundancy, "--redundant_experts_num=%d", trial->redundant_experts_num);
    snprintf(policy, sizeof policy, "--eplb_policy_kind=%s", trial->policy);
    const char *const arguments[] = {"plan",  load, ep_size, redundancy, policy, "--output=next.json",
                                     current, NULL};
    struct command_run run;
    command_run(arguments, &run);
    if (run.exit_code != 0 || run.output[0] != '\0')
        fail_msg("%s: exit code %d: %s", path, run.exit_code, run.errors);
    assert_true(run.seconds < MAX_SECONDS);
    double seconds = run.seconds;
    command_free(&run);
    return seconds;
}

/** Plans from the initial placement, then again from the result, which must be read as legal. */
static struct outcome try_recording(const struct trial *trial)
{
    char path[MAX_PATH];
    if (material_find(trial->recording->name, path, sizeof path) != 0)
        skip();
    double seconds = plan(path, trial, NULL);
    char *text = command_read_file("next.json");
    struct outcome outcome = judge(text, trial);
    free(text);
    print_message("%-50s EP%-2d +%d %-8s %.3f s, %2zu of %d layers published, peak / mean %.3f -> %.3f\n",
                  trial->recording->name, trial->ep_size, trial->redundant_experts_num, trial->policy,
                  seconds, outcome.published, trial->recording->num_layers, outcome.before, outcome.after);
    plan(path, trial, "--current=next.json");
    return outcome;
}

/** All sizes and policies; balanced traffic is not what these recordings hold, so plans must help. */
static void try_all(const struct recording *recording)
{
    for (size_t size = 0; size < sizeof ep_sizes / sizeof ep_sizes[0]; size++)
        for (size_t policy = 0; policy < sizeof policies / sizeof policies[0]; policy++) {
            struct trial trial = {recording, ep_sizes[size], 1, policies[policy]};
            if (recording->num_experts % trial.ep_size != 0)
                continue;
            struct outcome outcome = try_recording(&trial);
            assert_true(outcome.after < outcome.before);
            assert_int_equal(outcome.published, recording->num_layers);
        }
}

static void decode_of_gpt_oss(void **state)
{
    (void)state;
    try_all(&gpt_oss);
}

static void prefill_of_deepseek(void **state)
{
    (void)state;
    try_all(&deepseek);
}

static void routed_ids(void **state)
{
    (void)state;
    try_all(&gpt_oss_ids);
    try_all(&deepseek_ids);
}

/** What eplb plan writes for a load, with one more argument or none. */
static char *plan_text(const char *name, const char *more)
{
    char path[MAX_PATH];
    char load[MAX_PATH + 16];
    struct command_run run;
    if (material_find(name, path, sizeof path) != 0)
        skip();
    snprintf(load, sizeof load, "--load=%s", path);
    command_run((const char *const[]){"plan", load, "--ep_size=16", "--output=next.json", more, NULL}, &run);
    if (run.exit_code != 0)
        fail_msg("%s: exit code %d: %s", path, run.exit_code, run.errors);
    command_free(&run);
    return command_read_file("next.json");
}

/** The table beside the ids has all of their tokens in its windows: the same sums, so the same plan. */
static void routed_ids_plan_as_their_table(void **state)
{
    (void)state;
    char *table = plan_text(gpt_oss.name, NULL);
    char *ids = plan_text(gpt_oss_ids.name, NULL);
    assert_string_equal(ids, table);
    char *by_name = plan_text(gpt_oss_ids.name, "--phase=physics");
    char *by_number = plan_text(gpt_oss_ids.name, "--step=1");
    assert_string_equal(by_name, by_number);
    assert_string_not_equal(by_name, ids);
    free(by_number);
    free(by_name);
    free(ids);
    free(table);
}

static void prefill_of_qwen3(void **state)
{
    (void)state;
    try_all(&qwen3);
}

static void prefill_of_olmoe(void **state)
{
    (void)state;
    try_all(&olmoe);
}

/** Nearly balanced by itself: without redundant slots there is next to nothing to gain. */
static void prefill_of_mixtral(void **state)
{
    (void)state;
    for (int ep_size = 2; ep_size <= 8; ep_size *= 2)
        for (size_t policy = 0; policy < sizeof policies / sizeof policies[0]; policy++) {
            struct trial trial = {&mixtral, ep_size, 0, policies[policy]};
            assert_true(try_recording(&trial).published <= 1);
            trial.redundant_experts_num = 1;
            try_recording(&trial);
        }
}

static const char expert_map[] =
    "data/deepseek-v3-placements/placement_pattern_20250626_221356_58_rearrange_layers"
    "_58_layers_16_ranks_prefill_step0to100000.npy";
static const char placement_map[] =
    "data/deepseek-v3-placements/placement_pattern_3d_v3_indevrrori0322_58moe_4devices_SC_64eps.bin";

/** Files of other engines that this command does not read: a sentence that names the file, not a guess. */
static void files_of_other_engines(void **state)
{
    (void)state;
    static const char *const names[] = {
        expert_map,
        placement_map,
        "data/other-engines/vllm_ascend_expert_map.json",
        "data/other-engines/lightllm_redundancy_expert_config.json",
        "data/gpt-oss-20b-decode/decode_3phases_16seq_511steps.json",
    };
    static const char load[] = "step,label,layer,e0,e1\n0,,0,1,2\n";
    command_write_file("load.csv", load, strlen(load));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[MAX_PATH];
        char argument[MAX_PATH + 16];
        struct command_run run;
        if (material_find(names[i], path, sizeof path) != 0)
            skip();
        snprintf(argument, sizeof argument, "--load=%s", path);
        command_run((const char *const[]){"plan", argument, "--ep_size=2", NULL}, &run);
        command_check_refused(&run, strrchr(path, '/'));
        command_free(&run);
        snprintf(argument, sizeof argument, "--current=%s", path);
        command_run((const char *const[]){"plan", "--load=load.csv", argument, "--ep_size=2", NULL}, &run);
        command_check_refused(&run, strrchr(path, '/'));
        command_free(&run);
    }
}

int main(void)
{
    char path[MAX_PATH];
    if (material_find("data", path, sizeof path) != 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_of_gpt_oss),
        cmocka_unit_test(prefill_of_deepseek),
        cmocka_unit_test(prefill_of_qwen3),
        cmocka_unit_test(prefill_of_olmoe),
        cmocka_unit_test(prefill_of_mixtral),
        cmocka_unit_test(routed_ids),
        cmocka_unit_test(routed_ids_plan_as_their_table),
        cmocka_unit_test(files_of_other_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
