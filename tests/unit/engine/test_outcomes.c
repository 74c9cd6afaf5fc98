/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * What became of plans. Two ranks with three slots each and four experts: expert 0 gets a copy, and then the
 * ranks send it more or less than half of its tokens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/outcomes.h"

enum { LAYERS = 2, EXPERTS = 4, RANKS = 2, SLOTS = 3, TABLE = RANKS * SLOTS };

static const int32_t initial[LAYERS * TABLE] = {0, 1, 2, 2, 3, 0, 0, 1, 2, 2, 3, 0};
static const int32_t switched[TABLE] = {0, 1, 3, 2, 3, 0};

struct bench {
    struct eplb_shape shape;
    struct eplb_outcomes *outcomes;
    uint64_t seq;
    uint64_t generations[LAYERS];
    uint64_t versions[LAYERS]; /* of the weights */
};

static void bench_open(struct bench *bench)
{
    struct eplb_arena arena;
    *bench = (struct bench){0};
    assert_int_equal(eplb_shape_init(&bench->shape, LAYERS, EXPERTS, RANKS, 1, NULL), EPLB_OK);
    eplb_arena_init(&arena, NULL, 0);
    assert_null(eplb_outcomes_take(&arena, &bench->shape));
    void *block = eplb_arena_reserve(&arena);
    assert_non_null(block);
    bench->outcomes = eplb_outcomes_take(&arena, &bench->shape);
    assert_ptr_equal(bench->outcomes, block);
    eplb_outcomes_init(bench->outcomes, &bench->shape, initial);
}

static void bench_close(struct bench *bench)
{
    struct eplb_outcome outcome;
    assert_false(eplb_outcomes_next(bench->outcomes, &outcome));
    eplb_arena_free(bench->outcomes);
}

/** A forward with these counts in layer 0, and as many in its first slot in layer 1. */
static void forward(struct bench *bench, const int64_t counts[TABLE])
{
    int64_t prefix[RANKS][LAYERS * SLOTS];
    struct eplb_worker_output outputs[RANKS];
    bench->seq++;
    for (int32_t rank = 0; rank < RANKS; rank++) {
        for (int32_t slot = 0; slot < SLOTS; slot++) {
            prefix[rank][slot] = (slot == 0 ? 0 : prefix[rank][slot - 1]) + counts[rank * SLOTS + slot];
            prefix[rank][SLOTS + slot] = counts[rank * SLOTS];
        }
        outputs[rank] = (struct eplb_worker_output){.size = sizeof outputs[rank],
                                                    .seq = bench->seq,
                                                    .ep_rank = rank,
                                                    .num_layers = LAYERS,
                                                    .slots_per_rank = SLOTS,
                                                    .prefix = prefix[rank],
                                                    .generations = bench->generations,
                                                    .weight_versions = bench->versions};
    }
    const struct eplb_manager_event event = {
        .type = EPLB_MANAGER_OUTPUTS, .seq = bench->seq, .outputs = outputs, .num_outputs = RANKS};
    eplb_outcomes_event(bench->outcomes, &event);
}

/** A run of the policy that promises layer 0 this peak. */
static void plan(struct bench *bench, double peak)
{
    const struct eplb_benefit benefits[LAYERS] = {{.candidate_peak = peak}};
    const struct eplb_manager_action run = {.type = EPLB_MANAGER_RUN_POLICY, .layer = EPLB_NO_LAYER};
    const struct eplb_manager_event done = {.type = EPLB_MANAGER_POLICY_DONE, .benefits = benefits};
    eplb_outcomes_action(bench->outcomes, &run);
    eplb_outcomes_event(bench->outcomes, &done);
}

static void commit(struct bench *bench)
{
    const struct eplb_manager_action action = {
        .type = EPLB_MANAGER_COMMITTED, .layer = 0, .generation = 7, .expert_ids = switched};
    eplb_outcomes_action(bench->outcomes, &action);
}

static void assert_outcome(struct bench *bench, uint64_t forwards, double mean, double predicted, double even,
                           double measured)
{
    struct eplb_outcome outcome;
    assert_true(eplb_outcomes_next(bench->outcomes, &outcome));
    assert_int_equal(outcome.layer, 0);
    assert_int_equal(outcome.generation, 7);
    assert_int_equal(outcome.forwards, forwards);
    assert_true(outcome.mean == mean);
    assert_true(outcome.predicted == predicted);
    assert_true(outcome.even == even);
    assert_true(outcome.measured == measured);
}

/* The plan was for 40 tokens and promised a peak of 22; 80 came. Expert 0 had 32 of them, of which 24 went to
 * rank 0: with 16 each it would have been 16 + 10 + 14 = 40 and 40. */
static void uneven_traffic_of_copies_is_told(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench);
    forward(&bench, (const int64_t[TABLE]){16, 10, 0, 8, 6, 0});
    plan(&bench, 22);
    commit(&bench);
    bench.generations[0] = 7;
    forward(&bench, (const int64_t[TABLE]){12, 5, 7, 10, 2, 4});
    forward(&bench, (const int64_t[TABLE]){12, 5, 7, 10, 2, 4});
    plan(&bench, 0);
    /* Expert 3 has 18: 14 on rank 0, 4 on rank 1. An even split: 16 + 10 + 9 = 35 and 16 + 20 + 9 = 45. */
    assert_outcome(&bench, 2, 40, 44, 45, 48);
    bench_close(&bench);
}

/* Forwards of the table before are not of the window; nor are those without load. */
static void a_window_is_of_one_table(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench);
    forward(&bench, (const int64_t[TABLE]){10, 0, 0, 10, 0, 0});
    plan(&bench, 10);
    commit(&bench);
    forward(&bench, (const int64_t[TABLE]){99, 0, 0, 0, 0, 0});
    /* Nothing has come yet: the window goes on. */
    plan(&bench, 0);
    struct eplb_outcome outcome;
    assert_false(eplb_outcomes_next(bench.outcomes, &outcome));
    bench.generations[0] = 7;
    forward(&bench, (const int64_t[TABLE]){0, 0, 0, 0, 0, 0});
    forward(&bench, (const int64_t[TABLE]){2, 1, 0, 1, 0, 0});
    eplb_outcomes_finish(bench.outcomes);
    assert_outcome(&bench, 1, 2, 2, 2, 3);
    /* Told once. */
    forward(&bench, (const int64_t[TABLE]){2, 1, 0, 1, 0, 0});
    plan(&bench, 0);
    eplb_outcomes_finish(bench.outcomes);
    bench_close(&bench);
}

/* The manager's physical window restarts with new weights, and a plan's peak is scaled to it: here to the 20
 * tokens that came under version 2. The window after a switch goes on under whatever weights. */
static void a_plan_is_made_from_the_newest_weights(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench);
    forward(&bench, (const int64_t[TABLE]){30, 0, 0, 10, 0, 0});
    bench.versions[0] = 2;
    forward(&bench, (const int64_t[TABLE]){6, 0, 0, 4, 0, 0});
    bench.versions[0] = 1;
    forward(&bench, (const int64_t[TABLE]){50, 0, 0, 0, 0, 0});
    bench.versions[0] = 2;
    forward(&bench, (const int64_t[TABLE]){6, 0, 0, 4, 0, 0});
    plan(&bench, 11);
    commit(&bench);
    bench.generations[0] = 7;
    bench.versions[0] = 0;
    forward(&bench, (const int64_t[TABLE]){12, 5, 7, 10, 2, 4});
    bench.versions[0] = 1;
    forward(&bench, (const int64_t[TABLE]){12, 5, 7, 10, 2, 4});
    plan(&bench, 0);
    assert_outcome(&bench, 2, 40, 44, 45, 48);
    bench_close(&bench);
}

/* What is no sample for the manager is none here. */
static void refused_outputs_do_not_count(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench);
    forward(&bench, (const int64_t[TABLE]){10, 0, 0, 10, 0, 0});
    plan(&bench, 10);
    commit(&bench);
    bench.generations[0] = 7;
    forward(&bench, (const int64_t[TABLE]){5, -3, 0, 1, 0, 0});
    const struct eplb_worker_output lacking[RANKS] = {{.prefix = NULL}};
    const struct eplb_manager_event event = {
        .type = EPLB_MANAGER_OUTPUTS, .seq = 9, .outputs = lacking, .num_outputs = RANKS};
    eplb_outcomes_event(bench.outcomes, &event);
    forward(&bench, (const int64_t[TABLE]){3, 0, 0, 1, 0, 0});
    eplb_outcomes_finish(bench.outcomes);
    assert_outcome(&bench, 1, 2, 2, 2.5, 3);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uneven_traffic_of_copies_is_told),
        cmocka_unit_test(a_window_is_of_one_table),
        cmocka_unit_test(a_plan_is_made_from_the_newest_weights),
        cmocka_unit_test(refused_outputs_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
