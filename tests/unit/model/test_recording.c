/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Which recorded token a sequence of a run is at each of its positions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/recording.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* Ten steps of two sequences with two layers of top-2, in phases of six and four steps. */
enum { STEPS = 10, SEQUENCES = 2, LAYERS = 2, EXPERTS = 64, TOP_K = 2, TOKENS = STEPS * SEQUENCES };

static uint16_t experts[TOKENS * LAYERS * TOP_K];
static const struct eplb_recording_phase phases[] = {{0, 6}, {6, 10}};

/** Every id tells its token and layer. */
static void fill(void)
{
    for (size_t token = 0; token < TOKENS; token++)
        for (size_t layer = 0; layer < LAYERS; layer++)
            for (size_t k = 0; k < TOP_K; k++)
                experts[(token * LAYERS + layer) * TOP_K + k] =
                    (uint16_t)((token * 2 + layer + k * 7) % EXPERTS);
}

static struct eplb_recording example(void)
{
    fill();
    return (struct eplb_recording){.experts = experts,
                                   .num_steps = STEPS,
                                   .num_sequences = SEQUENCES,
                                   .num_layers = LAYERS,
                                   .num_experts = EXPERTS,
                                   .top_k = TOP_K,
                                   .has_sequences = true,
                                   .phases = phases,
                                   .num_phases = 2,
                                   .sequences = SEQUENCES,
                                   .repeat = 1};
}

/** The same without a sequence axis: 20 tokens. */
static struct eplb_recording stream(void)
{
    static const struct eplb_recording_phase parts[] = {{0, 13}, {13, 20}};
    struct eplb_recording recording = example();
    recording.num_steps = TOKENS;
    recording.num_sequences = 1;
    recording.has_sequences = false;
    recording.phases = parts;
    recording.sequences = 3;
    return recording;
}

static void assert_place(const struct eplb_recording *recording, uint64_t sequence, int32_t position,
                         int32_t step, int32_t recorded)
{
    struct eplb_recorded_place place = eplb_recording_place(recording, sequence, position);
    if (place.step != step || place.sequence != recorded)
        fail_msg("sequence %llu, position %d is step %d of sequence %d, and not %d of %d",
                 (unsigned long long)sequence, position, place.step, place.sequence, step, recorded);
}

/* With its own number of sequences a recording is what it was, from its first step to its last, and again. */
static void a_recording_is_replayed_as_it_was(void **state)
{
    (void)state;
    struct eplb_recording recording = example();
    assert_int_equal(eplb_recording_check(&recording, NULL), EPLB_OK);
    assert_int_equal(eplb_recording_forwards(&recording), STEPS);
    for (int32_t position = 0; position < 3 * STEPS; position++)
        for (int32_t sequence = 0; sequence < SEQUENCES; sequence++)
            assert_place(&recording, (uint64_t)sequence, position, position % STEPS, sequence);
    /* Sequences that begin when all have ended. */
    assert_place(&recording, 5, 3, 3, 1);
    assert_place(&recording, 5, INT32_MAX, INT32_MAX % STEPS, 1);
}

/* Six sequences are three copies of each: they begin at thirds of the phase and wrap inside it. */
static void copies_begin_at_other_steps(void **state)
{
    (void)state;
    struct eplb_recording recording = example();
    recording.sequences = 6;
    static const int32_t first_phase[6] = {0, 2, 2, 4, 4, 0};
    /* Thirds of four steps. */
    static const int32_t second_phase[6] = {0, 1, 1, 2, 2, 0};
    for (int32_t n = 0; n < 6; n++) {
        for (int32_t along = 0; along < 6; along++)
            assert_place(&recording, (uint64_t)n, along, (first_phase[n] + along) % 6, n % 2);
        for (int32_t along = 0; along < 4; along++)
            assert_place(&recording, (uint64_t)n, 6 + along, 6 + (second_phase[n] + along) % 4, n % 2);
    }
}

/* Whatever the number of copies: in each phase every token is met as often as any other. */
static void every_token_is_met_as_often(void **state)
{
    (void)state;
    for (int32_t copies = 1; copies <= 9; copies++)
        for (int32_t repeat = 1; repeat <= 3; repeat++) {
            int met[STEPS][SEQUENCES] = {{0}};
            struct eplb_recording recording = example();
            recording.sequences = copies * SEQUENCES;
            recording.repeat = repeat;
            uint64_t forwards = eplb_recording_forwards(&recording);
            assert_int_equal(forwards, STEPS * repeat);
            for (int32_t position = 0; position < (int32_t)forwards; position++)
                for (int32_t n = 0; n < recording.sequences; n++) {
                    struct eplb_recorded_place place =
                        eplb_recording_place(&recording, (uint64_t)n, position);
                    /* Phases follow each other, for all sequences at once. */
                    assert_int_equal(place.step >= 6, position >= 6 * repeat);
                    met[place.step][place.sequence]++;
                }
            for (size_t step = 0; step < STEPS; step++)
                for (size_t sequence = 0; sequence < SEQUENCES; sequence++)
                    assert_int_equal(met[step][sequence], copies * repeat);
        }
}

static void phases_are_repeated(void **state)
{
    (void)state;
    struct eplb_recording recording = example();
    recording.repeat = 2;
    assert_place(&recording, 0, 5, 5, 0);
    assert_place(&recording, 0, 6, 0, 0);
    assert_place(&recording, 0, 11, 5, 0);
    assert_place(&recording, 0, 12, 6, 0);
    assert_place(&recording, 1, 16, 6, 1);
    assert_place(&recording, 1, 19, 9, 1);
    assert_place(&recording, 1, 20, 0, 1);
}

/* Phases of 13 and 7 tokens in three streams: of four tokens each, and of two. */
static void tokens_are_cut_into_streams(void **state)
{
    (void)state;
    struct eplb_recording recording = stream();
    assert_int_equal(eplb_recording_check(&recording, NULL), EPLB_OK);
    assert_int_equal(eplb_recording_forwards(&recording), 6);
    for (int32_t n = 0; n < 3; n++) {
        for (int32_t along = 0; along < 4; along++)
            assert_place(&recording, (uint64_t)n, along, 4 * n + along, 0);
        for (int32_t along = 0; along < 2; along++)
            assert_place(&recording, (uint64_t)n, 4 + along, 13 + 2 * n + along, 0);
        assert_place(&recording, (uint64_t)n, 6, 4 * n, 0);
    }
    recording.repeat = 3;
    assert_int_equal(eplb_recording_forwards(&recording), 18);
    assert_place(&recording, 2, 11, 11, 0);
    assert_place(&recording, 2, 12, 17, 0);
}

static void routes_are_the_recorded_ones(void **state)
{
    (void)state;
    struct eplb_recording recording = example();
    struct eplb_recorded_routes *routes;
    recording.sequences = 6;
    assert_int_equal(eplb_recorded_routes_create(&recording, &routes, NULL), EPLB_OK);
    const struct eplb_route_source *source = eplb_recorded_routes_source(routes);
    const struct eplb_model_row rows[] = {{.sequence = 3, .position = 1}, {.sequence = 0, .position = 9}};
    int32_t chosen[LENGTH(rows) * TOP_K];
    const struct eplb_route_request request = {
        .seq = 77, .layer = 1, .rows = rows, .num_rows = 2, .num_experts = EXPERTS, .top_k = TOP_K};
    source->choose(source->context, &request, chosen);
    /* Sequence 3 is copy 1 of recorded sequence 1, and begins at step 4. */
    const int32_t tokens[] = {5 * SEQUENCES + 1, 9 * SEQUENCES};
    for (size_t row = 0; row < LENGTH(rows); row++)
        for (size_t k = 0; k < TOP_K; k++)
            assert_int_equal(chosen[row * TOP_K + k], (tokens[row] * 2 + 1 + (int32_t)k * 7) % EXPERTS);
    eplb_recorded_routes_destroy(routes);
}

static void assert_refused(const struct eplb_recording *recording, const char *text)
{
    struct eplb_error error;
    struct eplb_recorded_routes *routes = NULL;
    assert_int_equal(eplb_recorded_routes_create(recording, &routes, &error), EPLB_INVALID);
    assert_string_equal(error.text, text);
    assert_null(routes);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct eplb_recording recording = example();
    recording.sequences = 0;
    assert_refused(&recording, "0 sequences are to be replayed; allowed is 1 to 1048576");
    recording = example();
    recording.repeat = 0;
    assert_refused(&recording, "each phase is to be replayed 0 times; allowed is 1 or more");
    recording = example();
    recording.top_k = 65;
    assert_refused(&recording, "a recording's top_k is 65; with 64 experts, allowed is 1 to 64");
    recording = example();
    recording.num_phases = 0;
    assert_refused(&recording, "a recording has 0 phases; at least 1 is needed");
    recording = example();
    recording.num_steps = 9;
    assert_refused(&recording, "phase 1 of a recording is steps [6, 10); it has 9 steps");
    recording = stream();
    recording.sequences = 8;
    assert_refused(&recording,
                   "phase 1 of the recording has 7 tokens; 8 sequences, into which it is cut, need "
                   "one each");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_is_replayed_as_it_was), cmocka_unit_test(copies_begin_at_other_steps),
        cmocka_unit_test(every_token_is_met_as_often),       cmocka_unit_test(phases_are_repeated),
        cmocka_unit_test(tokens_are_cut_into_streams),       cmocka_unit_test(routes_are_the_recorded_ones),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
