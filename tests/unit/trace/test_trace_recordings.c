/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/material.h"
#include "trace/ids_file.h"
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

static void read_ids(const char *path, struct eplb_ids *ids)
{
    struct eplb_error error;
    if (eplb_ids_read(path, ids, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

/* Windows of `steps` steps each, from the first on, count as `num_windows` steps of the table do. */
static void check_windows(const struct eplb_ids *ids, int32_t steps, const struct eplb_load *load,
                          int32_t first, int32_t num_windows)
{
    size_t bytes = (size_t)ids->num_layers * (size_t)ids->num_experts * sizeof(int64_t);
    int64_t *counts = malloc(bytes);
    assert_non_null(counts);
    assert_int_equal(ids->num_layers, load->num_layers);
    assert_int_equal(ids->num_experts, load->num_experts);
    assert_memory_equal(ids->layer_ids, load->layer_ids, (size_t)ids->num_layers * sizeof *ids->layer_ids);
    for (int32_t window = 0; window < num_windows; window++) {
        eplb_ids_count(ids, window * steps, (window + 1) * steps, counts);
        assert_memory_equal(counts, eplb_load_row(load, first + window, 0), bytes);
    }
    free(counts);
}

static void decode_ids(void **state)
{
    (void)state;
    char path[4096];
    struct eplb_ids ids;
    struct eplb_load windows;
    struct eplb_load phases;
    if (material_find("data/gpt-oss-20b-decode/decode_3phases_steps.csv", path, sizeof path) != 0)
        skip();
    read_recording(path, &windows);
    if (material_find("data/gpt-oss-20b-decode/decode_3phases_16seq_511steps.ids.u8", path, sizeof path) != 0)
        skip();
    read_ids(path, &ids);
    assert_int_equal(ids.num_steps, 1533);
    assert_int_equal(ids.num_sequences, 16);
    assert_int_equal(ids.top_k, 4);
    assert_true(ids.has_sequences);
    assert_false(ids.is_prefill);
    assert_int_equal(eplb_ids_find_phase(&ids, "physics"), 1);
    assert_int_equal(ids.phases[1].first, 511);
    assert_int_equal(ids.phases[1].end, 1022);
    check_windows(&ids, 73, &windows, 0, 21);
    /* As a load: seven windows of the table are a phase. */
    read_recording(path, &phases);
    assert_int_equal(phases.num_steps, 3);
    assert_int_equal(phases.top_k, 4);
    size_t row = (size_t)windows.num_layers * (size_t)windows.num_experts;
    int64_t *sum = malloc(row * sizeof *sum);
    assert_non_null(sum);
    for (int32_t phase = 0; phase < 3; phase++) {
        struct eplb_error error;
        assert_string_equal(phases.labels[phase], windows.labels[7 * phase]);
        assert_int_equal(eplb_load_sum(&windows, 7 * phase, 7 * phase + 7, sum, &error), EPLB_OK);
        assert_memory_equal(eplb_load_row(&phases, phase, 0), sum, row * sizeof *sum);
    }
    free(sum);
    eplb_load_free(&phases);
    eplb_load_free(&windows);
    eplb_ids_free(&ids);
}

static void prefill_ids(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t tokens;
    } domains[] = {{"data/deepseek-v2-lite-prefill/intent.ids.u8", 8222},
                   {"data/deepseek-v2-lite-prefill/law.ids.u8", 8327}};
    char path[4096];
    struct eplb_load windows;
    if (material_find("data/deepseek-v2-lite-prefill/steps.csv", path, sizeof path) != 0)
        skip();
    read_recording(path, &windows);
    for (int32_t domain = 0; domain < 2; domain++) {
        struct eplb_ids ids;
        if (material_find(domains[domain].name, path, sizeof path) != 0)
            skip();
        read_ids(path, &ids);
        assert_int_equal(ids.num_steps, domains[domain].tokens);
        assert_int_equal(ids.num_sequences, 1);
        assert_false(ids.has_sequences);
        assert_true(ids.is_prefill);
        /* The table leaves out the few tokens that do not fill a window. */
        check_windows(&ids, domains[domain].tokens / 8, &windows, 8 * domain, 8);
        eplb_ids_free(&ids);
    }
    eplb_load_free(&windows);
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
        cmocka_unit_test(decode_windows), cmocka_unit_test(prefill_windows),
        cmocka_unit_test(decode_ids),     cmocka_unit_test(prefill_ids),
        cmocka_unit_test(languages),      cmocka_unit_test(expert_map_of_another_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
