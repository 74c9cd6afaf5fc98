/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "os/file.h"
#include "support/material.h"
#include "trace/load_file.h"
#include "trace/placement_file.h"

enum { MUTATIONS = 20000, SEED = 20250101 };

static const char *const load_names[] = {"golden/load/two_steps.json", "golden/load/two_steps.csv",
                                         "golden/load/two_steps_int32.npy", "golden/load/one_step_int64.npy"};
static const char *const placement_names[] = {"golden/placement/four_experts.json",
                                              "golden/placement/weighted.json"};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static char *read_own(const char *name, size_t *size)
{
    char path[4096];
    char *bytes;
    struct eplb_error error;
    material_own(name, path, sizeof path);
    if (eplb_file_read(path, &bytes, size, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return bytes;
}

/* The bytes lie in a block of just their size, so that a sanitizer sees a read past them. */
static char *exact_copy(const char *bytes, size_t size)
{
    char *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    return copy;
}

static enum eplb_status finish(enum eplb_status status, const struct eplb_error *error)
{
    if (status != EPLB_OK) {
        assert_int_equal(status, EPLB_INVALID);
        assert_int_equal(error->status, EPLB_INVALID);
        assert_int_not_equal(error->text[0], '\0');
        assert_null(strpbrk(error->text, "\r\n\t"));
    }
    return status;
}

/* What a reader accepts is whole: its counts are in range. */
static enum eplb_status parse_load(const char *bytes, size_t size, int *warned)
{
    char *copy = exact_copy(bytes, size);
    struct eplb_input input = {.name = "in", .bytes = copy, .size = size};
    struct eplb_load load;
    struct eplb_error error = {0};
    enum eplb_status status = finish(eplb_load_parse(&input, &load, &error), &error);
    free(copy);
    if (status != EPLB_OK)
        return status;
    *warned = load.warning[0] != '\0';
    for (int32_t step = 0; step < load.num_steps; step++)
        for (int32_t layer = 0; layer < load.num_layers; layer++)
            for (int32_t expert = 0; expert < load.num_experts; expert++) {
                int64_t count = eplb_load_row(&load, step, layer)[expert];
                assert_true(count >= 0 && count <= EPLB_MAX_LOAD);
            }
    eplb_load_free(&load);
    return status;
}

static enum eplb_status parse_placement(const char *bytes, size_t size)
{
    char *copy = exact_copy(bytes, size);
    struct eplb_input input = {.name = "in", .bytes = copy, .size = size};
    struct eplb_placement_file file;
    struct eplb_error error = {0};
    enum eplb_status status = finish(eplb_placement_file_parse(&input, &file, &error), &error);
    free(copy);
    if (status != EPLB_OK)
        return status;
    for (int32_t layer = 0; layer < file.shape.num_layers; layer++)
        assert_int_equal(
            eplb_placement_check(&file.shape, file.expert_ids + layer * file.shape.num_slots, &error),
            EPLB_OK);
    eplb_placement_file_free(&file);
    return status;
}

static void a_cut_json_or_npy_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(load_names); i++) {
        size_t size;
        int warned;
        char *bytes = read_own(load_names[i], &size);
        if (strstr(load_names[i], ".csv") == NULL) {
            assert_int_equal(parse_load(bytes, size, &warned), EPLB_OK);
            size_t whole = strstr(load_names[i], ".json") == NULL ? size : size - 1; /* without the newline */
            for (size_t cut = 0; cut < whole; cut++)
                assert_int_equal(parse_load(bytes, cut, &warned), EPLB_INVALID);
        }
        free(bytes);
    }
    for (size_t i = 0; i < COUNT(placement_names); i++) {
        size_t size;
        char *bytes = read_own(placement_names[i], &size);
        assert_int_equal(parse_placement(bytes, size), EPLB_OK);
        for (size_t cut = 0; cut + 1 < size; cut++)
            assert_int_equal(parse_placement(bytes, cut), EPLB_INVALID);
        free(bytes);
    }
}

static void a_cut_csv_is_refused_or_warned_about(void **state)
{
    (void)state;
    static const char text[] = "step,label,layer,e0,e1\n"
                               "0,a,0,12,345\n"
                               "0,a,1,6,7\n"
                               "1,b,0,8,90\n"
                               "1,b,1,1,234\n";
    /* Whole are the header with each line of the first step, for that may be all the layers there
     * are, and with both steps. A cut inside the last number of these cannot be told. */
    static const char *const whole[] = {"12,345\n", "6,7\n", "1,234\n"};
    static const size_t last_digits[] = {3, 1, 3};
    for (size_t cut = 0; cut < strlen(text); cut++) {
        int complete = 0;
        int doubtful = 0;
        for (size_t i = 0; i < COUNT(whole); i++) {
            size_t end = (size_t)(strstr(text, whole[i]) - text) + strlen(whole[i]);
            complete |= cut == end;
            doubtful |= cut < end && cut >= end - last_digits[i];
        }
        int warned = 0;
        assert_int_equal(parse_load(text, cut, &warned), complete || doubtful ? EPLB_OK : EPLB_INVALID);
        assert_int_equal(warned, doubtful);
    }
}

static char random_byte(struct eplb_prng *prng)
{
    static const char telling[] = "{}[]\",:-+.eE0123456789 \r\n\xef\xbb\xbf\x93()'TFx";
    if (eplb_prng_below(prng, 4) == 0)
        return (char)eplb_prng_below(prng, 256);
    return telling[eplb_prng_below(prng, sizeof telling)];
}

/* Every other mutant only has other digits, so that many get past the grammar; in the rest one to
 * four bytes are changed, inserted or removed. */
static size_t mutate(struct eplb_prng *prng, char *bytes, size_t size)
{
    int only_digits = eplb_prng_below(prng, 2) == 0;
    for (uint64_t edits = 1 + eplb_prng_below(prng, 4); edits > 0; edits--) {
        size_t at = eplb_prng_below(prng, size);
        uint64_t kind = eplb_prng_below(prng, 4);
        if (only_digits) {
            if (bytes[at] >= '0' && bytes[at] <= '9')
                bytes[at] = (char)('0' + eplb_prng_below(prng, 10));
        } else if (kind == 0) {
            memmove(bytes + at + 1, bytes + at, size - at);
            bytes[at] = random_byte(prng);
            size++;
        } else if (kind == 1 && size > 1) {
            memmove(bytes + at, bytes + at + 1, size - at - 1);
            size--;
        } else {
            bytes[at] = random_byte(prng);
        }
    }
    return size;
}

static void mutated_files_are_read_or_refused(void **state)
{
    (void)state;
    print_message("seed %d\n", SEED);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, SEED);
    size_t accepted = 0;
    size_t refused = 0;
    for (size_t i = 0; i < COUNT(load_names) + COUNT(placement_names); i++) {
        int is_load = i < COUNT(load_names);
        size_t size;
        char *bytes = read_own(is_load ? load_names[i] : placement_names[i - COUNT(load_names)], &size);
        char *mutant = malloc(size + 8);
        assert_non_null(mutant);
        for (int round = 0; round < MUTATIONS; round++) {
            int warned;
            memcpy(mutant, bytes, size);
            size_t mutant_size = mutate(&prng, mutant, size);
            enum eplb_status status =
                is_load ? parse_load(mutant, mutant_size, &warned) : parse_placement(mutant, mutant_size);
            accepted += status == EPLB_OK;
            refused += status != EPLB_OK;
        }
        free(mutant);
        free(bytes);
    }
    print_message("%zu accepted, %zu refused\n", accepted, refused);
    /* Neither a reader that takes everything nor one that takes nothing would be tested by this. */
    assert_true(accepted > MUTATIONS / 2);
    assert_true(refused > 3 * MUTATIONS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_json_or_npy_is_refused),
        cmocka_unit_test(a_cut_csv_is_refused_or_warned_about),
        cmocka_unit_test(mutated_files_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
