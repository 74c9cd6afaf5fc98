/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run_summary.h"

enum { RANKS = 2 };

struct scene {
    struct eplb_run_outcome with, without;
    struct eplb_run_notes notes;
    double measured[RANKS], initial[RANKS];
    struct eplb_run_summary summary;
};

static struct eplb_run_outcome some_outcome(void)
{
    struct eplb_run_outcome outcome = {
        .wall_ns = INT64_C(2500000000), .step_ns_p50 = 1500000, .step_ns_p99 = 4250000, .lost_rank = -1};
    outcome.statistics = (struct eplb_statistics){.forwards = 300,
                                                  .tokens = 5000,
                                                  .windows = 3,
                                                  .first_window = {1.5, 1.75, 1},
                                                  .last_window = {1.125, 1.25, 0},
                                                  .last_window_initial = {1.625, 1.875, 1},
                                                  .critical_path_ns = 750000000,
                                                  .critical_path_tokens = 60000,
                                                  .mean_path_tokens = 50000,
                                                  .digest = UINT64_C(0xfedcba987654321)};
    return outcome;
}

/** A verified run with balancing, on a scene that stays where it is. */
static void set_scene(struct scene *scene)
{
    *scene = (struct scene){.with = some_outcome(), .without = some_outcome()};
    scene->with.manager = (struct eplb_manager_status){.policy_runs = 3,
                                                       .rounds = 2,
                                                       .layers_published = 5,
                                                       .layers_committed = 3,
                                                       .layers_aborted = 2,
                                                       .layers_timed_out = 1,
                                                       .slots_moved = 9,
                                                       .slots_sent = 7};
    scene->with.bytes_moved = 9 * 1024;
    scene->with.slots_checked = 36;
    scene->without.statistics.critical_path_tokens = 80000;
    scene->without.statistics.critical_path_ns = 1000000000;
    scene->notes = (struct eplb_run_notes){.num_windows = 2,
                                           .watched_layer = 1,
                                           .loads_layer = 1,
                                           .layers_prepared = 4,
                                           .measured = scene->measured,
                                           .initial = scene->initial};
    scene->notes.windows[0] = (struct eplb_run_window){100, {1.5, 1.75, 1}, {1.5, 1.75, 1}, 3, 0.25, 0};
    scene->notes.windows[1] = (struct eplb_run_window){300, {1.125, 1.25, 0}, {1.625, 1.875, 1}, -1, 0, 3};
    memcpy(scene->initial, (double[RANKS]){300, 100}, sizeof scene->initial);
    memcpy(scene->measured, (double[RANKS]){220, 180}, sizeof scene->measured);
    scene->summary = (struct eplb_run_summary){.instance_name = "demo",
                                               .policy = "balanced",
                                               .routing = "model",
                                               .interval = "100 forwards",
                                               .window_forwards = 100,
                                               .processors = 2,
                                               .eplb = true,
                                               .verify = true,
                                               .verdict = EPLB_RUN_VERIFIED,
                                               .reason = "",
                                               .with = &scene->with,
                                               .without = &scene->without,
                                               .notes = &scene->notes};
    assert_int_equal(eplb_shape_init(&scene->summary.shape, 2, 4, RANKS, 1, NULL), EPLB_OK);
}

static void prints(const struct scene *scene, const char *expected)
{
    char *text;
    size_t size;
    /* The chart's bars are made of what the locale allows. */
    assert_int_equal(setenv("LC_ALL", "C", 1), 0);
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    eplb_run_summary_print(file, &scene->summary);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void a_verified_run_is_told(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    scene.summary.replica_routing = "batch";
    scene.with.statistics.routing_path_ns = 3750000;
    prints(
        &scene,
        "eplb run: policy balanced, routing model, 2 layers of 4 experts on 2 ranks x 3 slots (1 "
        "redundant on each, 2 in total)\n"
        "  wall time: 300 forwards and 5000 tokens in 2.50 s, 2000 tokens/s; a forward took 1.50 ms "
        "(p50), 4.25 ms (p99)\n"
        "  2 rounds: 4 layers prepared, 3 switched, 2 given up (1 timed out); 9 slots moved, 9.0 KiB\n"
        "  peak / mean of the ranks, mean over the layers: 1.500 in the first window, 1.125 in the last "
        "(1.625 under the initial placement)\n"
        "           forwards  initial placement  as it was  hottest of layer 1    switched\n"
        "            1 - 100              1.500      1.500  3 (25 %)                     0\n"
        "          201 - 300              1.625      1.125  -                            3\n"
        "  load of the ranks in layer 1 in the last window: under the initial placement (before), and as "
        "it was (after)\n"
        "             before (load / mean)              after\n"
        "  rank    0   1.50 ##########################   1.10 ###################\n"
        "  rank    1   0.50 #########                    0.90 ################\n"
        "  critical path (the busiest rank of every layer and forward, added up)\n"
        "                     without balancing       with\n"
        "             tokens              80000      60000   -25.0 %\n"
        "       CPU time, ms             1000.0      750.0   -25.0 %\n"
        "  tokens, mean rank              50000      50000  (perfect balance)\n"
        "  replica routing batch: choosing slots took 12.5 us of CPU time per forward (the slowest rank of "
        "every layer, added up)\n"
        "  verified: yes (all 5000 tokens and the bits of their logits are the same without balancing; 36 "
        "slots held the right expert after their layer had switched)\n");
}

static void a_run_without_balancing_is_told(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    scene.summary.eplb = false;
    scene.summary.policy = "none";
    scene.summary.verify = false;
    scene.summary.verdict = EPLB_RUN_NOT_COMPARED;
    scene.summary.without = NULL;
    scene.summary.processors = 1;
    scene.notes.num_windows = 0;
    scene.notes.loads_layer = EPLB_NO_LAYER;
    prints(&scene, "eplb run: policy none, routing model, 2 layers of 4 experts on 2 ranks x 3 slots (1 "
                   "redundant on each, 2 in total)\n"
                   "  wall time: 300 forwards and 5000 tokens in 2.50 s, 2000 tokens/s; a forward took 1.50 "
                   "ms (p50), 4.25 ms (p99)\n"
                   "  2 ranks share 1 processor, so wall time says little; the critical path does\n"
                   "  balancing was off\n"
                   "  peak / mean of the ranks, mean over the layers: 1.500 in the first window, 1.125 in "
                   "the last (1.625 under the initial placement)\n"
                   "  critical path (the busiest rank of every layer and forward, added up): 60000 tokens, "
                   "750.0 ms of CPU time\n");
}

static void what_was_left_out_and_what_differs_is_told(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    scene.with.manager.policy_runs = 0;
    scene.summary.verdict = EPLB_RUN_DIFFERS;
    scene.summary.reason = "the digests differ";
    scene.summary.without = NULL;
    scene.notes.left_out = 5;
    scene.notes.loads_layer = EPLB_NO_LAYER;
    prints(&scene, "eplb run: policy balanced, routing model, 2 layers of 4 experts on 2 ranks x 3 slots (1 "
                   "redundant on each, 2 in total)\n"
                   "  wall time: 300 forwards and 5000 tokens in 2.50 s, 2000 tokens/s; a forward took 1.50 "
                   "ms (p50), 4.25 ms (p99)\n"
                   "  the run ended before the policy's first one, whose interval is 100 forwards (--steps=0 "
                   "runs until interrupted, --eplb_update_interval_steps=N counts forwards)\n"
                   "  peak / mean of the ranks, mean over the layers: 1.500 in the first window, 1.125 in "
                   "the last (1.625 under the initial placement)\n"
                   "           forwards  initial placement  as it was  hottest of layer 1    switched\n"
                   "            1 - 100              1.500      1.500  3 (25 %)                     0\n"
                   "                ...  (5 windows are left out)\n"
                   "          201 - 300              1.625      1.125  -                            3\n"
                   "  critical path (the busiest rank of every layer and forward, added up): 60000 tokens, "
                   "750.0 ms of CPU time\n"
                   "  verified: no (the digests differ)\n");
}

static json_t *parse(const struct scene *scene)
{
    struct eplb_text text = {0};
    struct eplb_error error = {0};
    if (eplb_run_summary_json(&scene->summary, &text, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    json_error_t problem;
    json_t *root = json_loads(text.bytes, JSON_REJECT_DUPLICATES, &problem);
    if (root == NULL)
        fail_msg("line %d: %s: %s", problem.line, problem.text, text.bytes);
    eplb_text_free(&text);
    return root;
}

static void number_is(const json_t *root, const char *key, double expected)
{
    const json_t *value = json_object_get(root, key);
    if (!json_is_number(value) || json_number_value(value) != expected)
        fail_msg("%s is not %g", key, expected);
}

static void text_is(const json_t *root, const char *key, const char *expected)
{
    const json_t *value = json_object_get(root, key);
    if (!json_is_string(value))
        fail_msg("%s is no text", key);
    assert_string_equal(json_string_value(value), expected);
}

static void programs_get_every_figure(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    scene.summary.replica_routing = "batch";
    scene.with.statistics.routing_path_ns = 3750000;
    json_t *root = parse(&scene);
    text_is(root, "format", "eplb-run-1");
    text_is(root, "status", "ok");
    number_is(root, "steps", 300);
    number_is(root, "tokens", 5000);
    number_is(root, "ep_size", 2);
    number_is(root, "num_layers", 2);
    number_is(root, "num_experts", 4);
    number_is(root, "slots_per_rank", 3);
    text_is(root, "policy", "balanced");
    text_is(root, "routing", "model");
    text_is(root, "replica_routing", "batch");
    number_is(root, "replica_routing_us_per_step", 12.5);
    number_is(root, "rounds", 2);
    number_is(root, "layers_prepared", 4);
    number_is(root, "layers_activated", 3);
    number_is(root, "layers_aborted", 2);
    number_is(root, "layers_timed_out", 1);
    number_is(root, "slots_moved", 9);
    number_is(root, "bytes_moved", 9216);
    number_is(root, "slots_checked", 36);
    number_is(root, "peak_over_mean_first_window", 1.5);
    number_is(root, "peak_over_mean_last_window", 1.125);
    number_is(root, "peak_over_mean_last_window_initial", 1.625);
    number_is(root, "critical_path_ms_with", 750);
    number_is(root, "critical_path_ms_without", 1000);
    number_is(root, "critical_path_tokens_with", 60000);
    number_is(root, "critical_path_tokens_without", 80000);
    number_is(root, "wall_ms", 2500);
    number_is(root, "tokens_per_second", 2000);
    number_is(root, "step_ms_p50", 1.5);
    number_is(root, "step_ms_p99", 4.25);
    text_is(root, "digest", "0fedcba987654321");
    text_is(root, "digest_without_eplb", "0fedcba987654321");
    assert_true(json_is_true(json_object_get(root, "verified")));
    assert_true(json_is_null(json_object_get(root, "lost_rank")));
    const json_t *windows = json_object_get(root, "windows");
    assert_int_equal(json_array_size(windows), 2);
    number_is(json_array_get(windows, 1), "end", 300);
    number_is(json_array_get(windows, 1), "switched", 3);
    number_is(json_array_get(windows, 1), "hottest", -1);
    json_decref(root);
}

/** Six layers of which five switched; the plans of layer 3 were the least worth. */
static void set_outcomes(struct scene *scene, struct eplb_run_promises promises[6],
                         struct eplb_outcome *outcome)
{
    static const double measured[6] = {1.25, 1.5, 0, 4, 2.5, 1.125};
    for (size_t layer = 0; layer < 6; layer++)
        promises[layer] = (struct eplb_run_promises){
            .switches = 1, .predicted = 1, .even = 1.125, .measured = measured[layer]};
    promises[2] = (struct eplb_run_promises){0};
    promises[3] = (struct eplb_run_promises){.switches = 2, .predicted = 2, .even = 3, .measured = 4};
    *outcome = (struct eplb_outcome){.layer = 3,
                                     .generation = 2,
                                     .forwards = 64,
                                     .mean = 10,
                                     .predicted = 10.5,
                                     .even = 15.5,
                                     .measured = 20};
    scene->notes.shape.num_layers = 6;
    scene->notes.promises = promises;
    scene->notes.outcomes = outcome;
    scene->notes.num_outcomes = 1;
    scene->notes.published[0] = 5;
    scene->notes.num_policy_runs = 2;
}

static void what_plans_were_worth_is_told(void **state)
{
    (void)state;
    struct scene scene;
    struct eplb_run_promises promises[6];
    struct eplb_outcome outcome;
    set_scene(&scene);
    set_outcomes(&scene, promises, &outcome);
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    eplb_run_summary_print(file, &scene.summary);
    assert_int_equal(fclose(file), 0);
    assert_non_null(strstr(
        text, "  peak / mean in the window after each switch: as planned, if copies had shared their expert "
              "evenly, and as it was\n"
              "                      switches    planned  even split   measured\n"
              "         all layers          6      1.000       1.250      1.729\n"
              "            layer 4          1      1.000       1.125      2.500\n"
              "            layer 3          2      1.000       1.500      2.000\n"
              "            layer 1          1      1.000       1.125      1.500\n"
              "            layer 0          1      1.000       1.125      1.250\n"
              "  load of the ranks"));
    free(text);
    json_t *root = parse(&scene);
    const json_t *published = json_object_get(root, "layers_published_by_run");
    assert_int_equal(json_array_size(published), 2);
    assert_int_equal(json_integer_value(json_array_get(published, 0)), 5);
    assert_int_equal(json_integer_value(json_array_get(published, 1)), 0);
    const json_t *outcomes = json_object_get(root, "outcomes");
    assert_int_equal(json_array_size(outcomes), 1);
    const json_t *first = json_array_get(outcomes, 0);
    number_is(first, "layer", 3);
    number_is(first, "generation", 2);
    number_is(first, "forwards", 64);
    number_is(first, "predicted_peak", 10.5);
    number_is(first, "even_split_peak", 15.5);
    number_is(first, "measured_peak", 20);
    number_is(first, "mean", 10);
    number_is(root, "outcomes_left_out", 0);
    json_decref(root);
}

static void what_there_was_not_is_null(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    scene.summary.without = NULL;
    scene.summary.verdict = EPLB_RUN_NOT_COMPARED;
    scene.summary.status = EPLB_RANK_DEAD;
    scene.with.lost_rank = 1;
    scene.with.wall_ns = 0;
    scene.notes.num_windows = 0;
    json_t *root = parse(&scene);
    static const char *const nulls[] = {"critical_path_ms_without", "critical_path_tokens_without",
                                        "digest_without_eplb", "verified"};
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        assert_true(json_is_null(json_object_get(root, nulls[i])));
    text_is(root, "status", "a rank died");
    number_is(root, "lost_rank", 1);
    number_is(root, "tokens_per_second", 0);
    assert_int_equal(json_array_size(json_object_get(root, "windows")), 0);
    json_decref(root);
    scene.summary.verdict = EPLB_RUN_DIFFERS;
    root = parse(&scene);
    assert_true(json_is_false(json_object_get(root, "verified")));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verified_run_is_told),
        cmocka_unit_test(a_run_without_balancing_is_told),
        cmocka_unit_test(what_was_left_out_and_what_differs_is_told),
        cmocka_unit_test(programs_get_every_figure),
        cmocka_unit_test(what_there_was_not_is_null),
        cmocka_unit_test(what_plans_were_worth_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
