/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Every policy vector through the command: load and current placement as files, the table that it
 * prints compared with the expected one.
 *
 * usage: test_vectors [shared]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "support/material.h"

static char vectors_path[4096];

/** Writes a document and drops it. */
static void write_document(json_t *document, const char *name)
{
    assert_non_null(document);
    assert_int_equal(json_dump_file(document, name, JSON_COMPACT), 0);
    json_decref(document);
}

static void write_inputs(const json_t *vector)
{
    json_int_t num_experts = material_int(vector, "num_experts");
    json_int_t ep_size = material_int(vector, "ep_size");
    json_int_t slots = num_experts / ep_size + material_int(vector, "redundant_experts_num");
    write_document(json_pack("{s:s, s:I, s:[{s:[O]}]}", "format", "eplb-load-1", "num_experts", num_experts,
                             "steps", "load", json_object_get(vector, "load")),
                   "load.json");
    write_document(json_pack("{s:s, s:I, s:I, s:I, s:[O]}", "format", "eplb-placement-1", "num_experts",
                             num_experts, "ep_size", ep_size, "slots_per_rank", slots, "expert_ids",
                             json_object_get(vector, "active")),
                   "current.json");
}

static void run_plan(const json_t *vector, struct command_run *run)
{
    char ep_size[40];
    char redundancy[60];
    char policy[80];
    snprintf(ep_size, sizeof ep_size, "--ep_size=%d", (int)material_int(vector, "ep_size"));
    snprintf(redundancy, sizeof redundancy, "--redundant_experts_num=%d",
             (int)material_int(vector, "redundant_experts_num"));
    snprintf(policy, sizeof policy, "--eplb_policy_kind=%s",
             json_string_value(json_object_get(vector, "policy")));
    const char *const arguments[] = {
        "plan", "--load=load.json", "--current=current.json", ep_size, redundancy, policy, NULL};
    command_run(arguments, run);
}

static void check_vector(const json_t *vector)
{
    const char *name = json_string_value(json_object_get(vector, "name"));
    const json_t *expected = json_object_get(vector, "expected");
    struct command_run run;
    write_inputs(vector);
    run_plan(vector, &run);
    if (run.exit_code != 0)
        fail_msg("%s: exit code %d: %s", name, run.exit_code, run.errors);
    json_t *placement = json_loads(run.output, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(placement);
    const json_t *table = json_array_get(json_object_get(placement, "expert_ids"), 0);
    if (!json_equal(table, json_object_get(expected, "expert_ids")))
        fail_msg("%s: another table than expected: %s", name, run.output);
    const json_t *predicted = json_array_get(json_object_get(placement, "predicted"), 0);
    double peak = json_number_value(json_object_get(predicted, "peak"));
    double exact = json_number_value(json_object_get(expected, "peak"));
    if (!(fabs(peak - exact) <= 1e-9 * exact))
        fail_msg("%s: the predicted peak is %.17g, not %.17g", name, peak, exact);
    json_decref(placement);
    command_free(&run);
}

static void vectors(void **state)
{
    (void)state;
    json_t *root = material_json(vectors_path);
    const json_t *cases = json_object_get(root, "cases");
    size_t count = json_array_size(cases);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++)
        check_vector(json_array_get(cases, i));
    print_message("%zu vectors\n", count);
    json_decref(root);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        material_own("golden/vectors/policy.json", vectors_path, sizeof vectors_path);
    else if (strcmp(argv[1], "shared") != 0)
        return 2;
    else if (material_find("vectors/policy.json", vectors_path, sizeof vectors_path) != 0)
        return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
