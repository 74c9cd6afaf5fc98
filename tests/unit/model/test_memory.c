/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Everything is reserved when the model is made: that may fail at every step, and no forward allocates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "eplb/threads.h"
#include "model/model.h"
#include "support/allocations.h"

enum { MAX_ROWS = 40 };

static struct eplb_threads *threads;

static struct eplb_model_params params_of(void)
{
    struct eplb_model_params params = {.max_rows = MAX_ROWS, .num_caches = 2};
    eplb_model_config_init(&params.config);
    params.config.num_layers = 2;
    params.config.hidden_size = 32;
    params.config.num_experts = 8;
    params.config.top_k = 3;
    params.config.expert_hidden_size = 16;
    assert_int_equal(eplb_shape_init(&params.shape, 2, 8, 1, 0, NULL), EPLB_OK);
    params.group = eplb_threads_group(threads, 0);
    return params;
}

static int make_group(void **state)
{
    struct eplb_threads_params params;
    (void)state;
    eplb_threads_params_init(&params);
    params.num_ranks = 1;
    return eplb_threads_create(&params, &threads, NULL) == EPLB_OK ? 0 : -1;
}

static int free_group(void **state)
{
    (void)state;
    eplb_threads_destroy(threads);
    return 0;
}

static void creation_says_when_memory_is_short(void **state)
{
    const struct eplb_model_params params = params_of();
    struct eplb_model *model = NULL;
    size_t failing = 0;
    (void)state;
    for (;;) {
        struct eplb_error error = {0};
        allocations_reset(++failing);
        enum eplb_status status = eplb_model_create(&params, &model, &error);
        allocations_reset(0);
        if (status == EPLB_OK)
            break;
        assert_int_equal(status, EPLB_NO_MEMORY);
        assert_non_null(strstr(error.text, "no memory for "));
        assert_null(model);
    }
    assert_int_equal(failing - 1, 5); /* model, counter, tables, descriptions, staging */
    eplb_model_destroy(model);
}

static void fingerprints_say_when_memory_is_short(void **state)
{
    const struct eplb_model_params params = params_of();
    uint64_t fingerprints[2 * 8];
    struct eplb_error error;
    (void)state;
    allocations_reset(1);
    enum eplb_status status = eplb_model_expected_fingerprints(&params.config, fingerprints, &error);
    allocations_reset(0);
    assert_int_equal(status, EPLB_NO_MEMORY);
    assert_non_null(strstr(error.text, "no memory for one expert"));
}

static void a_forward_allocates_nothing(void **state)
{
    static const uint64_t generations[2];
    const struct eplb_model_params params = params_of();
    struct eplb_model *model;
    struct eplb_model_row rows[MAX_ROWS];
    struct eplb_model_sample samples[MAX_ROWS];
    int32_t num_samples = 0;
    (void)state;
    assert_int_equal(eplb_model_create(&params, &model, NULL), EPLB_OK);
    allocations_reset(0);
    for (uint64_t seq = 1; seq <= 4; seq++) {
        int32_t count = seq == 1 ? MAX_ROWS : seq == 2 ? 0 : 1;
        int32_t before = seq <= 2 ? 0 : MAX_ROWS + (int32_t)seq - 3;
        for (int32_t i = 0; i < count; i++)
            rows[i] = (struct eplb_model_row){
                .position = before + i, .token = i, .kind = EPLB_TOKEN_PREFILL, .sample = 1};
        const struct eplb_model_batch batch = {
            .seq = seq, .rows = rows, .num_rows = count, .generations = generations};
        assert_int_equal(eplb_model_forward(model, &batch, samples, &num_samples, NULL), EPLB_OK);
        assert_int_equal(num_samples, count);
    }
    assert_int_equal(allocations_counted(), 0);
    eplb_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creation_says_when_memory_is_short),
        cmocka_unit_test(fingerprints_say_when_memory_is_short),
        cmocka_unit_test(a_forward_allocates_nothing),
    };
    return cmocka_run_group_tests_name("model_memory", tests, make_group, free_group);
}
