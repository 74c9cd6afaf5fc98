/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/material.h"
#include "trace/load_file.h"

static void read_recording(const char *path, struct eplb_load *load)
{
    struct eplb_error error;
    if (eplb_load_read(path, load, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    assert_string_equal(load->warning, "");
}

static int64_t total(const struct eplb_load *load, int32_t step, int32_t layer)
{
    int64_t sum = 0;
    for (int32_t expert = 0; expert < load->num_experts; expert++)
        sum += eplb_load_row(load, step, layer)[expert];
    return sum;
}

static void decode_windows(void **state)
{
    (void)state;
    char path[4096];
    struct eplb_load load;
    if (material_find("data/gpt-oss-20b-decode/decode_3phases_steps.csv", path, sizeof path) != 0)
        skip();
    read_recording(path, &load);
    assert_int_equal(load.num_steps, 21);
    assert_int_equal(load.num_layers, 24);
    assert_int_equal(load.num_experts, 32);
    assert_int_equal(load.layer_ids[23], 23);
    assert_string_equal(load.labels[0], "humanities_law");
    assert_int_equal(eplb_load_row(&load, 0, 0)[0], 86);
    /* 73 of the recording's 1533 steps, 16 sequences, top-4. */
    for (int32_t step = 0; step < 21; step++)
        for (int32_t layer = 0; layer < 24; layer++)
            assert_int_equal(total(&load, step, layer), 73 * 16 * 4);
    eplb_load_free(&load);
}

static void prefill_windows(void **state)
{
    (void)state;
    char path[4096];
    struct eplb_load load;
    if (material_find("data/deepseek-v2-lite-prefill/steps.csv", path, sizeof path) != 0)
        skip();
    read_recording(path, &load);
    assert_int_equal(load.num_steps, 16);
    assert_int_equal(load.num_layers, 26);
    assert_int_equal(load.num_experts, 64);
    for (int32_t layer = 0; layer < 26; layer++)
        assert_int_equal(load.layer_ids[layer], layer + 1);
    assert_string_equal(load.labels[7], "intent");
    assert_string_equal(load.labels[8], "law");
    eplb_load_free(&load);
}

static void languages(void **state)
{
    (void)state;
    char path[4096];
    struct eplb_load load;
    if (material_find("data/qwen3-30b-a3b-prefill/counts_by_language.csv", path, sizeof path) != 0)
        skip();
    read_recording(path, &load);
    assert_int_equal(load.num_steps, 5);
    assert_int_equal(load.num_layers, 48);
    assert_int_equal(load.num_experts, 128);
    assert_int_equal(load.step_ids[0], 1);
    assert_string_equal(load.labels[0], "de");
    assert_int_equal(eplb_load_row(&load, 0, 0)[2], 4141);
    eplb_load_free(&load);
}

static void expert_map_of_another_engine(void **state)
{
    (void)state;
    char path[4096];
    struct eplb_load load;
    struct eplb_error error;
    if (material_find(
            "data/deepseek-v3-placements/placement_pattern_20250626_221356_58_rearrange_layers_58_layers_16_"
            "ranks_prefill_step0to100000.npy",
            path, sizeof path) != 0)
        skip();
    assert_int_equal(eplb_load_read(path, &load, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "holds only 0 and 1: it looks like an expert map"));
}

int main(void)
{
    char path[4096];
    if (material_find("data", path, sizeof path) != 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_windows),
        cmocka_unit_test(prefill_windows),
        cmocka_unit_test(languages),
        cmocka_unit_test(expert_map_of_another_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
