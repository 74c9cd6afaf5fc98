/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The test for a shift of the traffic: quiet on what chance and drift explain, awake at a shift.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "eplb/policy.h"
#include "manager/shift.h"
#include "support/material.h"
#include "trace/ids_file.h"

/* What the option's text recommends. */
#define TRIGGER 12.0

/* ---------------------------------------------------------------------------------- a world */

/** A window that counts grow in, the placement that they run, and the test. */
struct world {
    struct eplb_shape shape;
    void *memory;
    struct eplb_shift shift;
    struct eplb_planner *planner;
    int64_t *load;      /* [L][E] since the last plan */
    int64_t *slots;     /* [L][P] likewise, under the active table, replicas taking turns */
    int64_t *turn;      /* [L][E] */
    uint64_t *versions; /* [L] all 0 */
    uint64_t samples;   /* of the block */
    int64_t rows;       /* likewise */
};

static void *zeroes(int32_t layers, int32_t length, size_t size)
{
    void *memory = calloc((size_t)layers * (size_t)length, size);
    assert_non_null(memory);
    return memory;
}

static void build(struct world *world, int32_t layers, int32_t experts, int32_t ranks, double trigger)
{
    struct eplb_error error;
    memset(world, 0, sizeof *world);
    struct eplb_shape *shape = &world->shape;
    assert_int_equal(eplb_shape_init(shape, layers, experts, ranks, 1, &error), EPLB_OK);
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_shift_layout(&arena, shape, &world->shift);
    world->memory = eplb_arena_reserve(&arena);
    assert_non_null(world->memory);
    eplb_shift_layout(&arena, shape, &world->shift);
    eplb_shift_start(&world->shift, shape, trigger, 0.05);
    struct eplb_planner_params params;
    eplb_planner_params_init(&params);
    params.shape = *shape;
    assert_int_equal(eplb_planner_create(&params, &world->planner, &error), EPLB_OK);
    world->load = zeroes(layers, experts, sizeof(int64_t));
    world->slots = zeroes(layers, shape->num_slots, sizeof(int64_t));
    world->turn = zeroes(layers, experts, sizeof(int64_t));
    world->versions = zeroes(layers, 1, sizeof(uint64_t));
}

static void tear_down(struct world *world)
{
    free(world->load);
    free(world->slots);
    free(world->turn);
    free(world->versions);
    eplb_planner_destroy(world->planner);
    eplb_arena_free(world->memory);
}

static struct eplb_shift_counts counts_of(const struct world *world)
{
    return (struct eplb_shift_counts){world->load, world->slots, world->versions};
}

/** One token of a layer goes to an expert. */
static void count(struct world *world, int32_t layer, int32_t expert)
{
    const struct eplb_shape *shape = &world->shape;
    const int32_t *table = eplb_planner_active(world->planner) + (size_t)layer * (size_t)shape->num_slots;
    size_t place = (size_t)layer * (size_t)shape->num_experts + (size_t)expert;
    int32_t copies = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        copies += table[slot] == expert;
    int64_t turn = world->turn[place]++ % copies;
    int32_t slot = 0;
    while (table[slot] != expert || turn-- > 0)
        slot++;
    world->load[place]++;
    world->slots[(size_t)layer * (size_t)shape->num_slots + (size_t)slot]++;
    world->rows++;
}

/** Plans from the window, moves every layer, and begins a window. */
static void plan(struct world *world)
{
    const struct eplb_shape *shape = &world->shape;
    assert_int_equal(eplb_planner_rebalance(world->planner, world->load, NULL, NULL), EPLB_OK);
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        const int64_t *load = world->load + (size_t)layer * (size_t)shape->num_experts;
        double total = 0;
        for (int32_t e = 0; e < shape->num_experts; e++)
            total += (double)load[e];
        double peak = eplb_planner_benefits(world->planner)[layer].candidate_peak;
        eplb_shift_promise(&world->shift, layer, load, total > 0 ? peak * shape->ep_size / total : 0);
        eplb_planner_commit_layer(world->planner, layer);
    }
    size_t layers = (size_t)shape->num_layers;
    memset(world->load, 0, layers * (size_t)shape->num_experts * sizeof(int64_t));
    memset(world->slots, 0, layers * (size_t)shape->num_slots * sizeof(int64_t));
    const struct eplb_shift_counts counts = counts_of(world);
    eplb_shift_begin(&world->shift, &counts);
    world->samples = 0;
    world->rows = 0;
}

/** The sample of a step is complete; whether a block ended with it and the traffic shifted. */
static bool step(struct world *world, struct eplb_shift_verdict *verdict)
{
    *verdict = (struct eplb_shift_verdict){.worst = EPLB_SHIFT_NONE};
    if (!eplb_shift_is_block(&world->shift, ++world->samples, world->rows))
        return false;
    const struct eplb_shift_counts counts = counts_of(world);
    *verdict = eplb_shift_end(&world->shift, &counts);
    eplb_shift_begin(&world->shift, &counts);
    world->samples = 0;
    world->rows = 0;
    return verdict->shifted;
}

/* ------------------------------------------------------------------------------ made traffic */

enum { LAYERS = 6, EXPERTS = 32, RANKS = 8, SEQUENCES = 16, TOP_K = 4 };

/** Tokens of all sequences, with experts of falling probability from `hottest` on. */
static void traffic(struct world *world, struct eplb_prng *prng, int32_t layer, int32_t hottest)
{
    for (int i = 0; i < SEQUENCES * TOP_K; i++) {
        uint64_t a = eplb_prng_below(prng, EXPERTS);
        uint64_t b = eplb_prng_below(prng, EXPERTS);
        uint64_t low = a < b ? a : b;
        count(world, layer, (int32_t)((low + (uint64_t)hottest) % EXPERTS));
    }
}

static bool steps(struct world *world, struct eplb_prng *prng, int32_t number, int32_t hottest,
                  int32_t *fired_at)
{
    struct eplb_shift_verdict verdict;
    for (int32_t i = 0; i < number; i++) {
        for (int32_t layer = 0; layer < LAYERS; layer++)
            traffic(world, prng, layer, hottest);
        if (step(world, &verdict)) {
            *fired_at = i + 1;
            return true;
        }
    }
    return false;
}

static void small_batches_of_one_kind_fire_nothing(void **state)
{
    (void)state;
    struct world world;
    struct eplb_prng prng;
    int32_t fired_at;
    const uint64_t seed = 8;
    /* Chance alone needs no such trigger: 5 standard deviations in half of the layers are never seen. */
    build(&world, LAYERS, EXPERTS, RANKS, 5);
    eplb_prng_seed(&prng, seed);
    steps(&world, &prng, 64, 0, &fired_at);
    plan(&world);
    if (steps(&world, &prng, 10000, 0, &fired_at))
        fail_msg("seed %" PRIu64 ": fired at step %d", seed, fired_at);
    tear_down(&world);
}

static void a_shift_fires_within_two_blocks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world world;
        struct eplb_prng prng;
        int32_t fired_at = 0;
        build(&world, LAYERS, EXPERTS, RANKS, TRIGGER);
        eplb_prng_seed(&prng, seed);
        steps(&world, &prng, 64, 0, &fired_at);
        plan(&world);
        int32_t before = 40 + (int32_t)(seed % EPLB_SHIFT_SAMPLES);
        assert_false(steps(&world, &prng, before, 0, &fired_at));
        if (!steps(&world, &prng, 2 * EPLB_SHIFT_SAMPLES, 13, &fired_at))
            fail_msg("seed %" PRIu64 ": 16 steps of other traffic fired nothing", seed);
        tear_down(&world);
    }
}

/* Other experts of the same ranks are hot: nothing that a plan could mend. */
static void a_shift_that_costs_no_balance_is_none(void **state)
{
    (void)state;
    const int64_t promise[8] = {1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000};
    for (int uneven = 0; uneven < 2; uneven++) {
        struct world world;
        build(&world, 1, 8, 4, 5);
        eplb_shift_promise(&world.shift, 0, promise, 1.05);
        struct eplb_shift_counts counts = counts_of(&world);
        eplb_shift_begin(&world.shift, &counts);
        for (int rank = 0; rank < 4; rank++) {
            world.load[2 * rank] = 100;
            /* 115 by a mean of 103.75: 5 % less is still above the promised 1.05. */
            world.slots[3 * rank] = rank == 0 && uneven ? 115 : 100;
        }
        struct eplb_shift_verdict verdict = eplb_shift_end(&world.shift, &counts);
        assert_int_equal(verdict.judged, 1);
        assert_true(world.shift.score[0] > 6);
        assert_int_equal(verdict.departed, uneven);
        assert_int_equal(verdict.shifted, uneven);
        tear_down(&world);
    }
}

static void one_layer_alone_must_depart_strongly(void **state)
{
    (void)state;
    struct world world;
    struct eplb_prng prng;
    struct eplb_shift_verdict verdict = {0};
    int32_t fired_at;
    build(&world, LAYERS, EXPERTS, RANKS, TRIGGER);
    eplb_prng_seed(&prng, 3);
    steps(&world, &prng, 64, 0, &fired_at);
    plan(&world);
    for (int i = 0; i < EPLB_SHIFT_SAMPLES; i++) {
        for (int32_t layer = 0; layer < LAYERS; layer++)
            traffic(&world, &prng, layer, layer == 4 ? 3 : 0);
        assert_false(step(&world, &verdict));
    }
    assert_int_equal(verdict.judged, LAYERS);
    for (int i = 0; i < EPLB_SHIFT_SAMPLES; i++) {
        for (int32_t layer = 0; layer < LAYERS; layer++)
            if (layer != 4)
                traffic(&world, &prng, layer, 0);
        for (int token = 0; token < SEQUENCES * TOP_K; token++)
            count(&world, 4, 31);
        step(&world, &verdict);
    }
    assert_true(verdict.shifted);
    assert_int_equal(verdict.departed, 1);
    assert_int_equal(verdict.worst, 4);
    tear_down(&world);
}

static void what_was_promised_nothing_is_not_judged(void **state)
{
    (void)state;
    struct world world;
    struct eplb_prng prng;
    struct eplb_shift_verdict verdict = {0};
    build(&world, 2, EXPERTS, RANKS, 0.001);
    eplb_prng_seed(&prng, 4);
    for (int i = 0; i < 3 * EPLB_SHIFT_SAMPLES; i++) {
        for (int32_t layer = 0; layer < 2; layer++)
            traffic(&world, &prng, layer, i);
        assert_false(step(&world, &verdict));
        assert_int_equal(verdict.judged, 0);
    }
    /* Layer 1 has no load in the plan's window. */
    memset(world.load + EXPERTS, 0, EXPERTS * sizeof *world.load);
    plan(&world);
    for (int i = 0; i < EPLB_SHIFT_SAMPLES; i++) {
        for (int32_t layer = 0; layer < 2; layer++)
            traffic(&world, &prng, layer, 0);
        step(&world, &verdict);
    }
    assert_int_equal(verdict.judged, 1);
    assert_true(world.shift.score[1] == 0);
    tear_down(&world);
}

/* ---------------------------------------------------------------------------------- the sums */

/** Puts counts of one layer into a block after a promise, and gives the score. */
static double score_of(const int64_t *promise, const int64_t *block, int32_t experts)
{
    struct world world;
    build(&world, 1, experts, 2, TRIGGER);
    world.shift.dispersion[0] = 1;
    eplb_shift_promise(&world.shift, 0, promise, 1.5);
    struct eplb_shift_counts counts = counts_of(&world);
    eplb_shift_begin(&world.shift, &counts);
    memcpy(world.load, block, (size_t)experts * sizeof *block);
    world.slots[0] = 1;
    eplb_shift_end(&world.shift, &counts);
    double score = world.shift.score[0];
    tear_down(&world);
    return score;
}

static void the_score_is_chi_square_in_deviations(void **state)
{
    (void)state;
    /* 2 x 2: chi-square 40 * (12 * 12 - 8 * 8)^2 / 20^4 = 1.6, one degree. With s^2 = 2 the quantile is
     * 1 + z s + 2 (z^2 - 1) / 3. */
    double z = score_of((int64_t[]){12, 8, 0, 0}, (int64_t[]){8, 12, 0, 0}, 4);
    double back = 1 + z * 1.4142135623730951 + 2 * (z * z - 1) / 3;
    assert_true(back > 1.6 - 1e-9 && back < 1.6 + 1e-9);
    /* Of more rows in the block than 16 for each of the 4 experts, only so many count. */
    double much = score_of((int64_t[]){1200, 800, 0, 0}, (int64_t[]){80, 120, 0, 0}, 4);
    double more = score_of((int64_t[]){1200, 800, 0, 0}, (int64_t[]){800, 1200, 0, 0}, 4);
    assert_true(more > much * 0.9 && more < much * 1.1);
}

static void sequences_that_stay_put_raise_the_dispersion(void **state)
{
    (void)state;
    struct world world;
    struct eplb_prng prng;
    struct eplb_shift_verdict verdict;
    int32_t at[SEQUENCES] = {0};
    build(&world, 1, EXPERTS, RANKS, TRIGGER);
    eplb_prng_seed(&prng, 6);
    /* Each sequence stays with an expert for a while: far fewer choices than tokens. */
    for (int i = 0; i < 2000; i++) {
        if (i == 400)
            plan(&world);
        for (int sequence = 0; sequence < SEQUENCES; sequence++) {
            if (eplb_prng_below(&prng, 4) == 0)
                at[sequence] = (int32_t)eplb_prng_below(&prng, EXPERTS);
            for (int k = 0; k < TOP_K; k++)
                count(&world, 0, (at[sequence] + k) % EXPERTS);
        }
        assert_false(step(&world, &verdict));
    }
    assert_true(world.shift.dispersion[0] > 2.5);
    tear_down(&world);
}

static void a_new_version_of_weights_starts_the_measurement_anew(void **state)
{
    (void)state;
    struct world world;
    build(&world, 1, 4, 2, TRIGGER);
    int64_t *slots = world.slots;
    slots[0] = 900;
    slots[3] = 100;
    struct eplb_shift_counts counts = counts_of(&world);
    eplb_shift_begin(&world.shift, &counts);
    slots[0] = 30;
    slots[3] = 10;
    world.versions[0] = 1;
    eplb_shift_end(&world.shift, &counts);
    assert_true(world.shift.measured[0] == 1.5);
    eplb_shift_begin(&world.shift, &counts);
    slots[3] = 30;
    eplb_shift_end(&world.shift, &counts);
    assert_true(world.shift.measured[0] == 2);
    tear_down(&world);
}

/* -------------------------------------------------------------------------------- recordings */

static void read_decode(struct eplb_ids *ids)
{
    char path[4096];
    struct eplb_error error;
    if (material_find("data/gpt-oss-20b-decode/decode_3phases_16seq_511steps.ids.u8", path, sizeof path) != 0)
        skip();
    if (eplb_ids_read(path, ids, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

/** Copies of the recorded sequences, each beginning at another place of the phase. */
static void replay_step(struct world *world, const struct eplb_ids *ids, int32_t at, int32_t copies)
{
    const struct eplb_ids_phase *phase = ids->phases;
    while (phase->end <= at)
        phase++;
    int32_t length = phase->end - phase->first;
    for (int32_t sequence = 0; sequence < ids->num_sequences * copies; sequence++) {
        int32_t place = (sequence / ids->num_sequences + sequence % ids->num_sequences) % copies;
        int32_t from = phase->first + (place * length / copies + at - phase->first) % length;
        for (int32_t layer = 0; layer < ids->num_layers; layer++) {
            const uint16_t *experts = eplb_ids_at(ids, from, sequence % ids->num_sequences, layer);
            for (int32_t k = 0; k < ids->top_k; k++)
                count(world, layer, experts[k]);
        }
    }
}

/** Plans from the first `window` steps and after each shift; expects one shift per boundary, soon. */
static void check_recording(int32_t ranks, int32_t copies, int32_t window)
{
    struct eplb_ids ids;
    struct world world;
    struct eplb_shift_verdict verdict;
    read_decode(&ids);
    build(&world, ids.num_layers, ids.num_experts, ranks, TRIGGER);
    /* As the manager: so many rows, in a block's samples at least. */
    int32_t wait = EPLB_SHIFT_PLAN_ROWS * ids.num_experts / (ids.num_sequences * copies * ids.top_k);
    wait = wait < EPLB_SHIFT_SAMPLES ? EPLB_SHIFT_SAMPLES : wait;
    int32_t plan_at = window;
    int32_t shifts = 0;
    size_t layers = (size_t)ids.num_layers;
    for (int32_t at = 0; at < ids.num_steps; at++) {
        replay_step(&world, &ids, at, copies);
        bool shifted = step(&world, &verdict);
        if (at + 1 == plan_at) {
            plan(&world);
        } else if (shifted && at >= plan_at) {
            shifts++;
            int32_t late = at + 1 - ids.phases[shifts].first;
            if (late < 1 || late > 2 * EPLB_SHIFT_SAMPLES)
                fail_msg("%d ranks, %d copies, plan from %d steps: shift %d found %d steps after it", ranks,
                         copies, window, shifts, late);
            plan_at = at + 1 + wait;
            memset(world.load, 0, layers * (size_t)ids.num_experts * sizeof(int64_t));
            memset(world.slots, 0, layers * (size_t)world.shape.num_slots * sizeof(int64_t));
            struct eplb_shift_counts counts = counts_of(&world);
            eplb_shift_begin(&world.shift, &counts);
        }
    }
    assert_int_equal(shifts, ids.num_phases - 1);
    tear_down(&world);
    eplb_ids_free(&ids);
}

static void the_shifts_of_a_recording_are_found_and_nothing_else(void **state)
{
    (void)state;
    for (int32_t ranks = 8; ranks <= 16; ranks *= 2)
        for (int32_t window = 64; window <= 256; window *= 2)
            check_recording(ranks, 1, window);
    check_recording(8, 8, 100);
    check_recording(16, 8, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_batches_of_one_kind_fire_nothing),
        cmocka_unit_test(a_shift_fires_within_two_blocks),
        cmocka_unit_test(a_shift_that_costs_no_balance_is_none),
        cmocka_unit_test(one_layer_alone_must_depart_strongly),
        cmocka_unit_test(what_was_promised_nothing_is_not_judged),
        cmocka_unit_test(the_score_is_chi_square_in_deviations),
        cmocka_unit_test(sequences_that_stay_put_raise_the_dispersion),
        cmocka_unit_test(a_new_version_of_weights_starts_the_measurement_anew),
        cmocka_unit_test(the_shifts_of_a_recording_are_found_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
