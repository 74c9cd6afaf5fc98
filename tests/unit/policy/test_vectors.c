/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Exact plans, verdicts and maps: the project's own and, when they are there, the shared ones.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eplb/policy.h"
#include "support/material.h"

enum { MAX_ENTRIES = 8192 };

static int32_t active[MAX_ENTRIES];
static int32_t expected[MAX_ENTRIES];
static int32_t candidate[MAX_ENTRIES];
static int32_t scratch[MAX_ENTRIES];
static int64_t load[MAX_ENTRIES];
static int64_t physical[MAX_ENTRIES];

static struct eplb_shape shape_of(const json_t *one)
{
    struct eplb_shape shape;
    struct eplb_error error;
    enum eplb_status status =
        eplb_shape_init(&shape, 1, material_int(one, "num_experts"), material_int(one, "ep_size"),
                        material_int(one, "redundant_experts_num"), &error);
    if (status != EPLB_OK)
        fail_msg("%s", error.text);
    return shape;
}

static void assert_near(double got, double want)
{
    assert_true(isfinite(got));
    if (fabs(got - want) > 1e-9 * fabs(want))
        fail_msg("got %.17g, expected %.17g", got, want);
}

static void check_policy(const json_t *one)
{
    const json_t *want = json_object_get(one, "expected");
    struct eplb_shape shape = shape_of(one);
    size_t slots = (size_t)shape.num_slots;
    assert_int_equal(material_int64(json_object_get(one, "load"), load, MAX_ENTRIES), shape.num_experts);
    assert_int_equal(material_int32(json_object_get(one, "active"), active, MAX_ENTRIES), slots);
    assert_int_equal(material_int32(json_object_get(want, "expert_ids"), expected, MAX_ENTRIES), slots);
    eplb_split_evenly(&shape, active, load, scratch, physical);

    struct eplb_planner_params params;
    eplb_planner_params_init(&params);
    params.shape = shape;
    params.initial = active;
    params.ops = eplb_policy_find(json_string_value(json_object_get(one, "policy"))).ops;
    struct eplb_planner *planner = NULL;
    struct eplb_error error;
    assert_int_equal(eplb_planner_create(&params, &planner, &error), EPLB_OK);
    assert_int_equal(eplb_planner_rebalance(planner, load, physical, &error), EPLB_OK);
    if (memcmp(eplb_planner_candidates(planner), expected, slots * sizeof *expected) != 0)
        fail_msg("%s: another table", json_string_value(json_object_get(one, "name")));
    eplb_planner_destroy(planner);

    double peak = eplb_balance_of(&shape, expected, load, scratch).peak;
    assert_near(peak, json_number_value(json_object_get(want, "peak")));
}

static void check_gate(const json_t *one)
{
    const json_t *want = json_object_get(one, "expected");
    struct eplb_shape shape = shape_of(one);
    assert_int_equal(material_int64(json_object_get(one, "load"), load, MAX_ENTRIES), shape.num_experts);
    assert_int_equal(material_int64(json_object_get(one, "physical"), physical, MAX_ENTRIES),
                     shape.num_slots);
    assert_int_equal(material_int32(json_object_get(one, "active"), active, MAX_ENTRIES), shape.num_slots);
    assert_int_equal(material_int32(json_object_get(one, "candidate"), candidate, MAX_ENTRIES),
                     shape.num_slots);
    double threshold =
        strtod(json_string_value(json_object_get(one, "eplb_min_peak_load_improvement")), NULL);
    struct eplb_benefit got = eplb_gate(&shape, active, candidate, load, physical, threshold, scratch);
    if (got.publish != json_is_true(json_object_get(want, "publish")))
        fail_msg("%s: verdict %d", json_string_value(json_object_get(one, "name")), got.publish);
    assert_near(got.current_peak, json_number_value(json_object_get(want, "current_peak")));
    assert_near(got.candidate_peak, json_number_value(json_object_get(want, "candidate_peak")));
    assert_near(got.improvement, json_number_value(json_object_get(want, "improvement")));
}

static void check_log2phy(const json_t *one)
{
    const json_t *rows = json_object_get(one, "expert_ids");
    int64_t ranks = (int64_t)json_array_size(rows);
    int64_t slots = (int64_t)json_array_size(json_array_get(rows, 0));
    int64_t experts = material_int(one, "num_experts");
    struct eplb_shape shape;
    assert_int_equal(eplb_shape_init(&shape, 1, experts, ranks, slots - experts / ranks, NULL), EPLB_OK);
    assert_int_equal(material_int32(rows, active, MAX_ENTRIES), shape.num_slots);
    assert_int_equal(material_int32(json_object_get(one, "expected"), expected, MAX_ENTRIES), experts);
    eplb_log2phy(&shape, active, (int32_t)material_int(one, "ep_rank"), (int32_t)material_int(one, "tp_rank"),
                 candidate);
    assert_memory_equal(candidate, expected, (size_t)experts * sizeof *expected);
}

static void check_all(const char *path, void (*check)(const json_t *one), size_t at_least)
{
    json_t *root = material_json(path);
    const json_t *cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) >= at_least);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check(json_array_get(cases, i));
    printf("%s: %zu cases\n", path, json_array_size(cases));
    json_decref(root);
}

static void check_shared(const char *name, void (*check)(const json_t *one), size_t at_least)
{
    char path[1024];
    if (material_find(name, path, sizeof path) != 0)
        skip();
    check_all(path, check, at_least);
}

static void check_own(const char *name, void (*check)(const json_t *one))
{
    char path[1024];
    material_own(name, path, sizeof path);
    check_all(path, check, 1);
}

static void shared_policy_vectors(void **state)
{
    (void)state;
    check_shared("vectors/policy.json", check_policy, 100);
}

static void shared_gate_vectors(void **state)
{
    (void)state;
    check_shared("vectors/gate.json", check_gate, 60);
}

static void shared_log2phy_vectors(void **state)
{
    (void)state;
    check_shared("vectors/log2phy.json", check_log2phy, 4);
}

static void own_policy_vectors(void **state)
{
    (void)state;
    check_own("golden/vectors/policy.json", check_policy);
}

static void own_gate_vectors(void **state)
{
    (void)state;
    check_own("golden/vectors/gate.json", check_gate);
}

static void own_log2phy_vectors(void **state)
{
    (void)state;
    check_own("golden/vectors/log2phy.json", check_log2phy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_policy_vectors),  cmocka_unit_test(own_gate_vectors),
        cmocka_unit_test(own_log2phy_vectors), cmocka_unit_test(shared_policy_vectors),
        cmocka_unit_test(shared_gate_vectors), cmocka_unit_test(shared_log2phy_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
