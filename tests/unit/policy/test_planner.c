/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The planner: all layers, the active table, and what a policy of the host may do wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/allocations.h"
#include "support/tables.h"
#include "unit/policy/plan.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int64_t l2[12] = {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};

/* ---- log lines ---- */

enum { MAX_LINES = 16, LINE = 384 };

#define STAYS " | moved_slots=0 | sent_slots=0 | bytes=0 | break_even_forwards=0"

struct lines {
    char text[MAX_LINES][LINE];
    int count;
};

static struct lines lines;

static void take_line(void *context, const struct eplb_log_record *record)
{
    struct lines *into = context;
    assert_true(into->count < MAX_LINES);
    assert_int_equal(record->level, EPLB_LOG_INFO);
    assert_true(eplb_log_format(record, into->text[into->count++], LINE) < LINE);
}

static const struct eplb_log_sink sink = {.size = sizeof sink, .context = &lines, .write = take_line};

/* ---- planners ---- */

static struct eplb_planner_params params_of(int32_t layers, int32_t experts, int32_t ranks, int32_t redundant)
{
    struct eplb_planner_params params;
    eplb_planner_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.shape, layers, experts, ranks, redundant, NULL), EPLB_OK);
    params.log = &sink;
    lines.count = 0;
    return params;
}

static struct eplb_planner *create(const struct eplb_planner_params *params)
{
    struct eplb_planner *planner = NULL;
    struct eplb_error error;
    if (eplb_planner_create(params, &planner, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return planner;
}

static void rebalance(struct eplb_planner *planner, const int64_t *logical, const int64_t *physical)
{
    struct eplb_error error;
    lines.count = 0;
    if (eplb_planner_rebalance(planner, logical, physical, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

/** One layer's physical load when the active table splits every expert evenly. */
static void split(const struct eplb_planner *planner, const struct eplb_shape *shape, const int64_t *logical,
                  int64_t *physical)
{
    int32_t scratch[PLAN_MAX_EXPERTS];
    eplb_split_evenly(shape, eplb_planner_active(planner), logical, scratch, physical);
}

static void assert_no_benefit(const struct eplb_benefit *benefit)
{
    assert_true(benefit->current_peak == 0 && benefit->candidate_peak == 0 && benefit->improvement == 0);
    assert_int_equal(benefit->sets_changed, 0);
    assert_int_equal(benefit->publish, 0);
}

static void the_defaults_are_balanced_and_five_percent(void **state)
{
    (void)state;
    struct eplb_planner_params params;
    memset(&params, 0x5a, sizeof params);
    eplb_planner_params_init(&params);
    assert_int_equal(params.size, sizeof params);
    assert_string_equal(params.ops->name, "balanced");
    assert_true(params.min_peak_load_improvement == 0.05);
    assert_null(params.initial);
    assert_null(params.log);
    assert_null(params.layer_ids);
}

static void a_new_planner_has_the_initial_placement_and_no_verdicts(void **state)
{
    (void)state;
    struct eplb_planner_params params = params_of(2, 8, 4, 1);
    struct eplb_planner *planner = create(&params);
    int32_t initial[12];
    eplb_placement_initial(&params.shape, initial);
    for (int layer = 0; layer < 2; layer++) {
        assert_memory_equal(eplb_planner_active(planner) + 12 * layer, initial, sizeof initial);
        assert_memory_equal(eplb_planner_candidates(planner) + 12 * layer, initial, sizeof initial);
        assert_no_benefit(&eplb_planner_benefits(planner)[layer]);
    }
    assert_int_equal(lines.count, 0);
    eplb_planner_destroy(planner);
    eplb_planner_destroy(NULL);
}

static void the_parameters_are_copied(void **state)
{
    (void)state;
    static const int32_t expected[12] = {0, 1, 2, 3, 0, 1, 3, 2, 1, 0, 3, 2};
    int32_t table[12];
    int32_t layer_ids[2] = {3, 60};
    const int64_t logical[8] = {1, 0, 0, 0, 0, 0, 0, 0};
    const int64_t physical[12] = {1};
    memcpy(table, expected, sizeof table);
    struct eplb_planner_params params = params_of(2, 4, 2, 1);
    params.initial = table;
    params.layer_ids = layer_ids;
    struct eplb_planner *planner = create(&params);
    memset(table, 0, sizeof table);
    memset(layer_ids, 0, sizeof layer_ids);
    memset(&params, 0, sizeof params);
    assert_memory_equal(eplb_planner_active(planner), expected, sizeof expected);
    rebalance(planner, logical, physical);
    assert_int_equal(lines.count, 2);
    assert_non_null(strstr(lines.text[0], "| layer=3 |"));
    assert_non_null(strstr(lines.text[1], "| layer=60 |"));
    eplb_planner_destroy(planner);
}

/* ---- commit and abort ---- */

static void commit_and_abort_move_one_layer(void **state)
{
    (void)state;
    static const int64_t logical[12] = {55, 45, 50, 40, 55, 45, 50, 40, 55, 45, 50, 40};
    static const int32_t old_row[4] = {0, 1, 2, 3};
    static const int32_t new_row[4] = {0, 3, 2, 1};
    struct eplb_planner_params params = params_of(3, 4, 2, 0);
    struct eplb_planner *planner = create(&params);
    const int32_t *active = eplb_planner_active(planner);
    const int32_t *candidates = eplb_planner_candidates(planner);
    rebalance(planner, logical, logical);
    for (int layer = 0; layer < 3; layer++) {
        assert_memory_equal(active + 4 * layer, old_row, sizeof old_row);
        assert_memory_equal(candidates + 4 * layer, new_row, sizeof new_row);
        assert_int_equal(eplb_planner_benefits(planner)[layer].publish, 1);
    }
    eplb_planner_commit_layer(planner, 1);
    eplb_planner_abort_layer(planner, 2);
    assert_memory_equal(active, old_row, sizeof old_row);
    assert_memory_equal(candidates, new_row, sizeof new_row);
    assert_memory_equal(active + 4, new_row, sizeof new_row);
    assert_memory_equal(candidates + 4, new_row, sizeof new_row);
    assert_memory_equal(active + 8, old_row, sizeof old_row);
    assert_memory_equal(candidates + 8, old_row, sizeof old_row);
    /* A further run plans the layers from where they are now. */
    static const int64_t measured[12] = {55, 45, 50, 40, 55, 40, 50, 45, 55, 45, 50, 40};
    rebalance(planner, logical, measured);
    assert_int_equal(eplb_planner_benefits(planner)[0].publish, 1);
    assert_int_equal(eplb_planner_benefits(planner)[1].publish, 0);
    assert_int_equal(eplb_planner_benefits(planner)[2].publish, 1);
    assert_ptr_equal(eplb_planner_active(planner), active);
    assert_ptr_equal(eplb_planner_candidates(planner), candidates);
    eplb_planner_destroy(planner);
}

/* ---- loads of all kinds ---- */

static void layers_without_load_keep_their_placement(void **state)
{
    (void)state;
    static const int64_t none[24] = {0};
    static const int64_t one[24] = {[8] = 60, 40, 50, 30};
    static const int64_t no_rows[36] = {0};
    static const int64_t rows[36] = {[12] = 60, 20, 25, 25, 15, 0, 0, 0, 0, 0, 0, 0};
    struct eplb_planner_params params = params_of(3, 8, 4, 1);
    params.min_peak_load_improvement = 0;
    struct eplb_planner *planner = create(&params);
    const struct eplb_benefit *benefits = eplb_planner_benefits(planner);
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);

    rebalance(planner, none, no_rows);
    for (int layer = 0; layer < 3; layer++) {
        char line[LINE];
        snprintf(line, sizeof line,
                 "EPLB placement benefit | layer=%d | policy=balanced | current_peak=0 | candidate_peak=0 | "
                 "improvement=0 | threshold=0 | verdict=keep: no load | unbounded_peak=0" STAYS,
                 layer);
        assert_no_benefit(&benefits[layer]);
        assert_string_equal(lines.text[layer], line);
    }
    assert_memory_equal(eplb_planner_candidates(planner), eplb_planner_active(planner), 36 * sizeof(int32_t));

    rebalance(planner, one, rows);
    assert_no_benefit(&benefits[0]);
    assert_no_benefit(&benefits[2]);
    assert_true(benefits[1].current_peak == 105 && benefits[1].candidate_peak == 45 * (145.0 / 180));
    assert_int_equal(benefits[1].publish, 1);
    assert_memory_equal(eplb_planner_candidates(planner), eplb_planner_active(planner), 12 * sizeof(int32_t));
    fedisableexcept(FE_ALL_EXCEPT);
    eplb_planner_destroy(planner);
}

static void without_a_window_nothing_is_published(void **state)
{
    (void)state;
    static const int64_t logical[4] = {55, 45, 50, 40};
    struct eplb_planner_params params = params_of(1, 4, 2, 0);
    struct eplb_planner *planner = create(&params);
    rebalance(planner, logical, logical);
    assert_int_equal(eplb_planner_benefits(planner)[0].publish, 1);
    rebalance(planner, NULL, NULL);
    assert_no_benefit(&eplb_planner_benefits(planner)[0]);
    assert_memory_equal(eplb_planner_candidates(planner), eplb_planner_active(planner), 4 * sizeof(int32_t));
    assert_int_equal(lines.count, 0);
    eplb_planner_destroy(planner);
}

static void a_load_out_of_range_changes_nothing(void **state)
{
    (void)state;
    static const int64_t good[8] = {55, 45, 50, 40, 55, 45, 50, 40};
    static const struct {
        int physical;
        int entry;
        int64_t load;
        const char *sentence;
    } cases[] = {
        {0, 6, -1, "layer 1: load of expert 2 is -1; allowed is 0 to 2^62"},
        {0, 0, EPLB_MAX_LOAD + 1, "layer 0: load of expert 0 is 4611686018427387905; allowed is 0 to 2^62"},
        {0, 7, INT64_MAX, "layer 1: load of expert 3 is 9223372036854775807; allowed is 0 to 2^62"},
        {1, 3, INT64_MIN, "layer 0: load of slot 3 is -9223372036854775808; allowed is 0 to 2^62"},
        {1, 5, EPLB_MAX_LOAD + 1, "layer 1: load of slot 1 is 4611686018427387905; allowed is 0 to 2^62"},
    };
    struct eplb_planner_params params = params_of(2, 4, 2, 0);
    struct eplb_planner *planner = create(&params);
    rebalance(planner, good, good);
    struct eplb_benefit before[2];
    int32_t candidates[8];
    memcpy(before, eplb_planner_benefits(planner), sizeof before);
    memcpy(candidates, eplb_planner_candidates(planner), sizeof candidates);
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t loads[2][8];
        struct eplb_error error;
        memcpy(loads[0], good, sizeof good);
        memcpy(loads[1], good, sizeof good);
        loads[cases[i].physical][cases[i].entry] = cases[i].load;
        lines.count = 0;
        assert_int_equal(eplb_planner_rebalance(planner, loads[0], loads[1], &error), EPLB_INVALID);
        assert_string_equal(error.text, cases[i].sentence);
        assert_int_equal(lines.count, 0);
        assert_memory_equal(eplb_planner_benefits(planner), before, sizeof before);
        assert_memory_equal(eplb_planner_candidates(planner), candidates, sizeof candidates);
    }
    eplb_planner_destroy(planner);
}

static void the_largest_loads_are_planned(void **state)
{
    (void)state;
    int64_t logical[8];
    int64_t physical[12];
    for (int expert = 0; expert < 8; expert++)
        logical[expert] = EPLB_MAX_LOAD;
    for (int slot = 0; slot < 12; slot++)
        physical[slot] = EPLB_MAX_LOAD;
    static const char *const kinds[] = {"balanced", "greedy"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct eplb_planner_params params = params_of(1, 8, 4, 1);
        params.ops = eplb_policy_find(kinds[i]).ops;
        struct eplb_planner *planner = create(&params);
        rebalance(planner, logical, physical);
        const struct eplb_benefit *benefit = eplb_planner_benefits(planner);
        /* Four ranks share eight experts: two each, scaled from 8 measured loads to 12. */
        assert_true(benefit->current_peak == 3 * 0x1p62 && benefit->candidate_peak == 3 * 0x1p62);
        assert_int_equal(benefit->publish, 0);
        eplb_planner_destroy(planner);
    }
}

/* ---- staying put ---- */

static void small_changes_of_the_load_move_nothing(void **state)
{
    (void)state;
    struct eplb_planner_params params = params_of(1, 12, 4, 1);
    struct eplb_planner *planner = create(&params);
    int64_t physical[16];
    split(planner, &params.shape, l2, physical);
    rebalance(planner, l2, physical);
    assert_int_equal(eplb_planner_benefits(planner)[0].publish, 1);
    eplb_planner_commit_layer(planner, 0);
    int32_t table[16];
    memcpy(table, eplb_planner_active(planner), sizeof table);

    int published = 0;
    int64_t drifted[12];
    memcpy(drifted, l2, sizeof drifted);
    for (int run = 0; run < 20; run++) {
        /* First the reported change, then every expert in turn a little up or down. */
        drifted[(5 + run) % 12] += run % 3 == 1 ? -1 : 2;
        split(planner, &params.shape, drifted, physical);
        rebalance(planner, drifted, physical);
        if (run == 0)
            assert_int_equal(drifted[5], 199);
        if (eplb_planner_benefits(planner)[0].publish) {
            published++;
            eplb_planner_commit_layer(planner, 0);
        }
    }
    assert_int_equal(published, 0);
    assert_memory_equal(eplb_planner_active(planner), table, sizeof table);
    eplb_planner_destroy(planner);
}

/* ---- log lines ---- */

static void every_layer_gets_its_line(void **state)
{
    (void)state;
    static const int32_t layer_ids[5] = {3, 4, 5, 6, 60};
    static const int64_t logical[20] = {55, 45, 50, 40, 55, 40, 45, 50, 10, 10,
                                        10, 10, 0,  0,  0,  0,  50, 52, 51, 47};
    static const char *const expected[5] = {
        "EPLB placement benefit | layer=3 | policy=balanced | current_peak=100 | candidate_peak=95 | "
        "improvement=0.05 | threshold=0.05 | verdict=publish | unbounded_peak=95 | moved_slots=2 | "
        "sent_slots=2 | bytes=unknown | break_even_forwards=unknown",
        "EPLB placement benefit | layer=4 | policy=balanced | current_peak=95 | candidate_peak=95 | "
        "improvement=0 | threshold=0.05 | verdict=keep: no change | unbounded_peak=95" STAYS,
        "EPLB placement benefit | layer=5 | policy=balanced | current_peak=20 | candidate_peak=20 | "
        "improvement=0 | threshold=0.05 | verdict=keep: below threshold | unbounded_peak=20 | moved_slots=2 "
        "| "
        "sent_slots=2 | bytes=unknown | break_even_forwards=unknown",
        "EPLB placement benefit | layer=6 | policy=balanced | current_peak=0 | candidate_peak=0 | "
        "improvement=0 | threshold=0.05 | verdict=keep: no load | unbounded_peak=0" STAYS,
        "EPLB placement benefit | layer=60 | policy=balanced | current_peak=102 | candidate_peak=101 | "
        "improvement=0.00980392 | threshold=0.05 | verdict=keep: below threshold | unbounded_peak=101 | "
        "moved_slots=2 | sent_slots=2 | bytes=unknown | break_even_forwards=unknown",
    };
    struct eplb_planner_params params = params_of(5, 4, 2, 0);
    params.layer_ids = layer_ids;
    struct eplb_planner *planner = create(&params);
    rebalance(planner, logical, logical);
    assert_int_equal(lines.count, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(lines.text[i], expected[i]);
    eplb_planner_destroy(planner);
}

static void a_plan_that_changes_no_set_says_so(void **state)
{
    (void)state;
    static const int32_t planned[4] = {0, 3, 2, 1};
    static const int64_t logical[4] = {55, 45, 50, 40};
    static const int64_t physical[4] = {60, 40, 45, 45};
    struct eplb_planner_params params = params_of(1, 4, 2, 0);
    params.initial = planned;
    struct eplb_planner *planner = create(&params);
    rebalance(planner, logical, physical);
    assert_string_equal(lines.text[0],
                        "EPLB placement benefit | layer=0 | policy=balanced | current_peak=100 | "
                        "candidate_peak=95 | improvement=0.05 | threshold=0.05 | verdict=keep: no change | "
                        "unbounded_peak=95" STAYS);
    eplb_planner_destroy(planner);
}

/** A window that measured rows but has no logical load: there is nothing to plan from. */
static void a_plan_without_logical_load_says_so(void **state)
{
    (void)state;
    static const int64_t none[4] = {0};
    static const int64_t physical[4] = {5, 1, 1, 1};
    struct eplb_planner_params params = params_of(1, 4, 2, 0);
    struct eplb_planner *planner = create(&params);
    rebalance(planner, none, physical);
    assert_string_equal(lines.text[0],
                        "EPLB placement benefit | layer=0 | policy=balanced | current_peak=6 | "
                        "candidate_peak=0 | improvement=1 | threshold=0.05 | verdict=keep: no load | "
                        "unbounded_peak=0" STAYS);
    eplb_planner_destroy(planner);
}

static void no_sink_is_no_line(void **state)
{
    (void)state;
    static const int64_t logical[4] = {55, 45, 50, 40};
    struct eplb_planner_params params = params_of(1, 4, 2, 0);
    params.log = NULL;
    struct eplb_planner *planner = create(&params);
    rebalance(planner, logical, logical);
    assert_int_equal(eplb_planner_benefits(planner)[0].publish, 1);
    eplb_planner_destroy(planner);
}

/* ---- a policy of the host ---- */

/** What odd_plan does with a layer: the load of its expert 0. */
enum { FAILS = 1, FAILS_SILENTLY, REPEATS, LEAVES_OUT, OUT_OF_RANGE, ROTATES };

static size_t odd_scratch_size(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)settings;
    (void)shape;
    return 0;
}

static enum eplb_status odd_plan(const struct eplb_policy_problem *problem, void *scratch,
                                 struct eplb_policy_answer *answer, struct eplb_error *error)
{
    (void)scratch;
    const struct eplb_shape *shape = problem->shape;
    int32_t *candidate = answer->expert_ids;
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        candidate[slot] = problem->active[(slot + shape->slots_per_rank) % shape->num_slots];
    switch (problem->load[0]) {
    case FAILS:
        memset(candidate, 0x5a, (size_t)shape->num_slots * sizeof *candidate);
        return eplb_fail(error, EPLB_UNSUPPORTED, "no plan on a Monday");
    case FAILS_SILENTLY:
        return EPLB_NO_MEMORY;
    case REPEATS:
        candidate[1] = candidate[0];
        return EPLB_OK;
    case LEAVES_OUT:
        candidate[5] = candidate[0];
        return EPLB_OK;
    case OUT_OF_RANGE:
        candidate[5] = shape->num_experts;
        return EPLB_OK;
    default:
        return EPLB_OK;
    }
}

static const struct eplb_policy_ops odd = {
    .size = sizeof odd, .name = "odd", .scratch_size = odd_scratch_size, .plan_layer = odd_plan};

/** Runs the odd policy over layers of six experts on two ranks; expert 5 is hot beside expert 4. */
static struct eplb_planner *run_odd(const int64_t *what, int32_t layers, enum eplb_status *status,
                                    struct eplb_error *error)
{
    static const int32_t layer_ids[4] = {10, 11, 12, 13};
    int64_t logical[24];
    int64_t physical[24];
    for (int32_t layer = 0; layer < layers; layer++) {
        int64_t row[6] = {what[layer], 0, 0, 0, 50, 100};
        int64_t measured[6] = {0, 0, 0, 50, 50, 100};
        memcpy(logical + 6 * layer, row, sizeof row);
        memcpy(physical + 6 * layer, measured, sizeof measured);
    }
    struct eplb_planner_params params = params_of(layers, 6, 2, 0);
    params.ops = &odd;
    params.layer_ids = layer_ids;
    struct eplb_planner *planner = create(&params);
    *status = eplb_planner_rebalance(planner, logical, physical, error);
    assert_int_equal(lines.count, layers);
    return planner;
}

static void a_policy_that_fails_leaves_its_layer_alone(void **state)
{
    (void)state;
    static const int64_t what[4] = {ROTATES, FAILS, ROTATES, FAILS_SILENTLY};
    static const int32_t rotated[6] = {3, 4, 5, 0, 1, 2};
    static const int32_t as_it_was[6] = {0, 1, 2, 3, 4, 5};
    enum eplb_status status;
    struct eplb_error error;
    struct eplb_planner *planner = run_odd(what, 4, &status, &error);
    assert_int_equal(status, EPLB_UNSUPPORTED);
    assert_int_equal(error.status, EPLB_UNSUPPORTED);
    assert_string_equal(error.text, "policy odd, layer 11: no plan on a Monday");
    for (int layer = 0; layer < 4; layer++) {
        const int32_t *candidate = eplb_planner_candidates(planner) + 6 * layer;
        const struct eplb_benefit *benefit = &eplb_planner_benefits(planner)[layer];
        assert_memory_equal(candidate, layer % 2 == 0 ? rotated : as_it_was, sizeof rotated);
        assert_int_equal(benefit->sets_changed, layer % 2 == 0);
        assert_true(benefit->current_peak == 200);
        assert_int_equal(benefit->publish, benefit->sets_changed && benefit->improvement >= 0.05);
    }
    eplb_planner_destroy(planner);
}

static void a_failure_without_a_sentence_gets_one(void **state)
{
    (void)state;
    static const int64_t what[2] = {ROTATES, FAILS_SILENTLY};
    enum eplb_status status;
    struct eplb_error error;
    struct eplb_planner *planner = run_odd(what, 2, &status, &error);
    assert_int_equal(status, EPLB_NO_MEMORY);
    assert_string_equal(error.text, "policy odd, layer 11: out of memory");
    eplb_planner_destroy(planner);
    planner = run_odd(what, 2, &status, NULL);
    assert_int_equal(status, EPLB_NO_MEMORY);
    eplb_planner_destroy(planner);
}

static void an_illegal_candidate_is_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t what;
        const char *sentence;
    } cases[] = {
        {REPEATS, "policy odd, layer 10: rank 0 slot 1 repeats expert 3; a rank may hold an expert once"},
        {LEAVES_OUT, "policy odd, layer 10: expert 2 is on no rank; every one of the 6 experts needs a slot"},
        {OUT_OF_RANGE, "policy odd, layer 10: rank 1 slot 2 holds expert 6; allowed is 0 to 5"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const int64_t what[2] = {cases[i].what, ROTATES};
        enum eplb_status status;
        struct eplb_error error;
        struct eplb_planner *planner = run_odd(what, 2, &status, &error);
        assert_int_equal(status, EPLB_INVALID);
        assert_string_equal(error.text, cases[i].sentence);
        assert_memory_equal(eplb_planner_candidates(planner), eplb_planner_active(planner),
                            6 * sizeof(int32_t));
        assert_int_equal(eplb_planner_benefits(planner)[0].publish, 0);
        assert_int_equal(eplb_planner_benefits(planner)[1].sets_changed, 1);
        eplb_planner_destroy(planner);
    }
}

/* ---- refused parameters ---- */

static void assert_refused(const struct eplb_planner_params *params, const char *sentence)
{
    struct eplb_planner *const untouched = (struct eplb_planner *)&lines;
    struct eplb_planner *planner = untouched;
    struct eplb_error error;
    assert_int_equal(eplb_planner_create(params, &planner, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_ptr_equal(planner, untouched);
}

static void a_table_of_another_size_is_refused(void **state)
{
    (void)state;
    char sentence[128];
    struct eplb_planner_params params = params_of(1, 8, 4, 1);
    params.size -= 8;
    snprintf(sentence, sizeof sentence, "eplb_planner_params.size is %zu; this library's is %zu", params.size,
             sizeof params);
    assert_refused(&params, sentence);
    params.size = 0;
    snprintf(sentence, sizeof sentence, "eplb_planner_params.size is 0; this library's is %zu",
             sizeof params);
    assert_refused(&params, sentence);
}

static void an_unusable_policy_is_refused(void **state)
{
    (void)state;
    static const char sentence[] =
        "the policy table is missing, too small, or lacks name, plan_layer or scratch_size";
    struct eplb_planner_params params = params_of(1, 8, 4, 1);
    struct eplb_policy_ops ops = odd;
    params.ops = NULL;
    assert_refused(&params, sentence);
    params.ops = &ops;
    ops.name = NULL;
    assert_refused(&params, sentence);
    ops = odd;
    ops.plan_layer = NULL;
    assert_refused(&params, sentence);
    ops = odd;
    ops.scratch_size = NULL;
    assert_refused(&params, sentence);
    ops = odd;
    ops.size = sizeof ops - 1;
    assert_refused(&params, sentence);
    ops.size = sizeof ops + 16;
    eplb_planner_destroy(create(&params));
}

static void a_threshold_out_of_range_is_refused(void **state)
{
    (void)state;
    static const struct {
        double threshold;
        const char *sentence;
    } cases[] = {
        {1.0000001, "min_peak_load_improvement is 1.0000001000000001; allowed is 0 to 1"},
        {-0.25, "min_peak_load_improvement is -0.25; allowed is 0 to 1"},
        {-0x1p-1074, "min_peak_load_improvement is -4.9406564584124654e-324; allowed is 0 to 1"},
        {INFINITY, "min_peak_load_improvement is inf; allowed is 0 to 1"},
        {-INFINITY, "min_peak_load_improvement is -inf; allowed is 0 to 1"},
        {NAN, "min_peak_load_improvement is nan; allowed is 0 to 1"},
    };
    struct eplb_planner_params params = params_of(1, 8, 4, 1);
    for (size_t i = 0; i < COUNT(cases); i++) {
        params.min_peak_load_improvement = cases[i].threshold;
        assert_refused(&params, cases[i].sentence);
    }
    static const double allowed[] = {0, -0.0, 0x1p-1074, 0.05, 1};
    for (size_t i = 0; i < COUNT(allowed); i++) {
        params.min_peak_load_improvement = allowed[i];
        eplb_planner_destroy(create(&params));
    }
}

static void an_illegal_initial_table_is_refused(void **state)
{
    (void)state;
    static const int32_t layer_ids[2] = {3, 60};
    static const struct {
        int32_t slot, expert;
        const char *sentence;
    } cases[] = {
        {11, 4, "initial table, layer 60: rank 1 slot 2 holds expert 4; allowed is 0 to 3"},
        {1, 0, "initial table, layer 3: rank 0 slot 1 repeats expert 0; a rank may hold an expert once"},
        {8, 3, "initial table, layer 60: expert 2 is on no rank; every one of the 4 experts needs a slot"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int32_t table[12] = {0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 0, 1};
        table[cases[i].slot] = cases[i].expert;
        struct eplb_planner_params params = params_of(2, 4, 2, 1);
        params.initial = table;
        params.layer_ids = layer_ids;
        assert_refused(&params, cases[i].sentence);
    }
}

/** A shape that eplb_shape_init did not fill, or that was changed since, is not believed. */
static void a_shape_that_does_not_add_up_is_refused(void **state)
{
    (void)state;
    struct eplb_planner_params params = params_of(1, 8, 4, 1);
    params.shape.ep_size = 3;
    assert_refused(&params, "num_experts 8 is not divisible by ep_size 3: every rank must own the same "
                            "number of experts");
    static const char sentence[] =
        "eplb_planner_params.shape has 3 slots per rank and 12 slots; 8 experts on 4 ranks with 2 redundant "
        "have 4 and 16";
    params = params_of(1, 8, 4, 1);
    params.shape.redundant_experts_num = 2;
    assert_refused(&params, sentence);
}

/* ---- memory ---- */

static size_t boundless_scratch(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)settings;
    (void)shape;
    return SIZE_MAX;
}

static void assert_no_memory(const struct eplb_planner_params *params)
{
    struct eplb_planner *planner = NULL;
    struct eplb_error error;
    assert_int_equal(eplb_planner_create(params, &planner, &error), EPLB_NO_MEMORY);
    assert_string_equal(error.text, "no memory for a planner of 2 layers with 12 slots each");
    assert_null(planner);
}

static void a_failed_allocation_is_a_status(void **state)
{
    (void)state;
    struct eplb_planner_params params = params_of(2, 8, 4, 1);
    allocations_reset(1);
    assert_no_memory(&params);
    assert_int_equal(allocations_counted(), 1);
    struct eplb_policy_ops ops = odd;
    ops.scratch_size = boundless_scratch;
    params.ops = &ops;
    allocations_reset(0);
    assert_no_memory(&params);
    assert_int_equal(allocations_counted(), 0);
}

static void only_create_allocates(void **state)
{
    (void)state;
    static const char *const kinds[] = {"balanced", "greedy"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct eplb_planner_params params = params_of(1, 12, 4, 1);
        params.ops = eplb_policy_find(kinds[i]).ops;
        int64_t physical[16];
        allocations_reset(0);
        struct eplb_planner *planner = create(&params);
        assert_int_equal(allocations_counted(), 1);
        split(planner, &params.shape, l2, physical);
        allocations_reset(1);
        for (int run = 0; run < 100; run++) {
            rebalance(planner, l2, physical);
            if (run % 2 == 0)
                eplb_planner_commit_layer(planner, 0);
            else
                eplb_planner_abort_layer(planner, 0);
        }
        assert_int_equal(allocations_counted(), 0);
        allocations_reset(0);
        eplb_planner_destroy(planner);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_balanced_and_five_percent),
        cmocka_unit_test(a_new_planner_has_the_initial_placement_and_no_verdicts),
        cmocka_unit_test(the_parameters_are_copied),
        cmocka_unit_test(commit_and_abort_move_one_layer),
        cmocka_unit_test(layers_without_load_keep_their_placement),
        cmocka_unit_test(without_a_window_nothing_is_published),
        cmocka_unit_test(a_load_out_of_range_changes_nothing),
        cmocka_unit_test(the_largest_loads_are_planned),
        cmocka_unit_test(small_changes_of_the_load_move_nothing),
        cmocka_unit_test(every_layer_gets_its_line),
        cmocka_unit_test(a_plan_that_changes_no_set_says_so),
        cmocka_unit_test(a_plan_without_logical_load_says_so),
        cmocka_unit_test(no_sink_is_no_line),
        cmocka_unit_test(a_policy_that_fails_leaves_its_layer_alone),
        cmocka_unit_test(a_failure_without_a_sentence_gets_one),
        cmocka_unit_test(an_illegal_candidate_is_refused),
        cmocka_unit_test(a_table_of_another_size_is_refused),
        cmocka_unit_test(an_unusable_policy_is_refused),
        cmocka_unit_test(a_threshold_out_of_range_is_refused),
        cmocka_unit_test(an_illegal_initial_table_is_refused),
        cmocka_unit_test(a_shape_that_does_not_add_up_is_refused),
        cmocka_unit_test(a_failed_allocation_is_a_status),
        cmocka_unit_test(only_create_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
