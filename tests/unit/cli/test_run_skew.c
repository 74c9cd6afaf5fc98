/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cli/run_skew.h"
#include "support/material.h"
#include "trace/input.h"

static const struct eplb_skew_shape shape = {.num_layers = 2, .num_experts = 16, .top_k = 2};

static void make(const char *text, uint64_t seed, struct eplb_skew *skew)
{
    char warning[EPLB_ERROR_TEXT];
    struct eplb_error error = {0};
    if (eplb_skew_make(text, &shape, seed, skew, warning, &error) != EPLB_OK)
        fail_msg("%s: %s", text, error.text);
    assert_string_equal(warning, "");
}

static void refuses(const char *text, const struct eplb_skew_shape *of, const char *sentence)
{
    char warning[EPLB_ERROR_TEXT];
    struct eplb_skew skew = {.num_phases = 77};
    struct eplb_error error = {0};
    assert_int_equal(eplb_skew_make(text, of, 1, &skew, warning, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_int_equal(skew.num_phases, 77);
}

static int32_t hottest(const int64_t *rates)
{
    int32_t best = 0;
    for (int32_t expert = 1; expert < shape.num_experts; expert++)
        best = rates[expert] > rates[best] ? expert : best;
    return best;
}

static void zipf_has_its_shares_and_other_hot_experts_in_each_phase(void **state)
{
    (void)state;
    struct eplb_skew skew;
    make("zipf:1", 5, &skew);
    assert_int_equal(skew.num_phases, EPLB_SKEW_PHASES);
    int32_t hot[EPLB_SKEW_PHASES];
    for (int32_t phase = 0; phase < EPLB_SKEW_PHASES; phase++) {
        const int64_t *rates = skew.rates + phase * shape.num_layers * shape.num_experts;
        int64_t sum = 0;
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            sum += rates[expert];
        hot[phase] = hottest(rates);
        /* The share of the first of 16 is 1 / (1 + 1/2 + ... + 1/16) = 0.29579. */
        assert_int_equal(sum, 1000000000);
        assert_in_range(rates[hot[phase]], 295780000, 295800000);
    }
    assert_false(hot[0] == hot[1] && hot[1] == hot[2]);
    eplb_skew_free(&skew);
    assert_null(skew.rates);
}

static void the_seed_decides(void **state)
{
    (void)state;
    struct eplb_skew one;
    struct eplb_skew same;
    struct eplb_skew other;
    size_t bytes = (size_t)EPLB_SKEW_PHASES * 2 * 16 * sizeof *one.rates;
    make("lognormal:1.5", 1, &one);
    make("lognormal:1.5", 1, &same);
    make("lognormal:1.5", 2, &other);
    assert_memory_equal(one.rates, same.rates, bytes);
    assert_memory_not_equal(one.rates, other.rates, bytes);
    eplb_skew_free(&one);
    eplb_skew_free(&same);
    eplb_skew_free(&other);
}

static void nobody_is_without_a_share(void **state)
{
    (void)state;
    struct eplb_skew skew;
    make("zipf:8", 1, &skew);
    for (int32_t i = 0; i < EPLB_SKEW_PHASES * 2 * 16; i++)
        assert_true(skew.rates[i] > 0);
    eplb_skew_free(&skew);
}

static void numbers_are_read_strictly(void **state)
{
    (void)state;
    refuses("zipf:", &shape, "--skew=zipf:: after 'zipf:' comes a number from 0 to 8, as in zipf:1.2");
    refuses("zipf:1x", &shape, "--skew=zipf:1x: after 'zipf:' comes a number from 0 to 8, as in zipf:1.2");
    refuses("lognormal:nan", &shape,
            "--skew=lognormal:nan: after 'lognormal:' comes a number from 0 to 8, as in lognormal:1.2");
    refuses("zipf:9", &shape, "--skew=zipf:9: exponent is 9; allowed is 0 to 8");
    refuses("lognormal:-1", &shape, "--skew=lognormal:-1: sigma is -1; allowed is 0 to 8");
}

static void the_steps_of_a_file_are_phases(void **state)
{
    (void)state;
    char path[4096];
    char warning[EPLB_ERROR_TEXT];
    struct eplb_skew skew;
    struct eplb_error error = {0};
    const struct eplb_skew_shape small = {.num_layers = 2, .num_experts = 4, .top_k = 1};
    material_own("golden/load/two_steps.json", path, sizeof path);
    if (eplb_skew_make(path, &small, 1, &skew, warning, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    static const int64_t rates[] = {10, 0, 7, 3, 1, 2, 3, 4, 0, 20, 0, 0, 5, 5, 5, 5};
    assert_int_equal(skew.num_phases, 2);
    assert_memory_equal(skew.rates, rates, sizeof rates);
    eplb_skew_free(&skew);
}

static void a_file_must_fit_the_model(void **state)
{
    (void)state;
    char path[4096];
    char sentence[EPLB_ERROR_TEXT];
    const struct eplb_skew_shape two = {.num_layers = 2, .num_experts = 4, .top_k = 2};
    material_own("golden/load/two_steps.json", path, sizeof path);
    const char *name = eplb_input_name(path);
    snprintf(sentence, sizeof sentence,
             "%s: step 1, layer 3: 1 experts have tokens; the model's top_k 2 needs as many", name);
    refuses(path, &two, sentence);
    snprintf(sentence, sizeof sentence, "%s has 2 layers of 4 experts; the model has 2 of 16 (see --model)",
             name);
    refuses(path, &shape, sentence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zipf_has_its_shares_and_other_hot_experts_in_each_phase),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(nobody_is_without_a_share),
        cmocka_unit_test(numbers_are_read_strictly),
        cmocka_unit_test(the_steps_of_a_file_are_phases),
        cmocka_unit_test(a_file_must_fit_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
