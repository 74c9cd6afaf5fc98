/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/material.h"
#include "trace/placement_file.h"

static enum eplb_status parse(const char *text, struct eplb_placement_file *file, struct eplb_error *error)
{
    struct eplb_input input = {.name = "in", .bytes = text, .size = strlen(text)};
    return eplb_placement_file_parse(&input, file, error);
}

static void refuses(const char *text, const char *sentence)
{
    struct eplb_placement_file file = {.shape.num_layers = 77};
    struct eplb_error error = {0};
    assert_int_equal(parse(text, &file, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_int_equal(file.shape.num_layers, 77);
}

static void read_own(const char *name, struct eplb_placement_file *file)
{
    char path[4096];
    struct eplb_error error = {0};
    material_own(name, path, sizeof path);
    if (eplb_placement_file_read(path, file, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static void a_file_is_read(void **state)
{
    (void)state;
    struct eplb_placement_file file;
    read_own("golden/placement/four_experts.json", &file);
    static const int32_t expert_ids[] = {0, 1, 2, 3, 0, 1, 3, 2, 1, 0, 3, 2};
    assert_int_equal(file.shape.num_layers, 2);
    assert_int_equal(file.shape.num_experts, 4);
    assert_int_equal(file.shape.ep_size, 2);
    assert_int_equal(file.shape.slots_per_rank, 3);
    assert_int_equal(file.shape.redundant_experts_num, 1);
    assert_int_equal(file.shape.num_slots, 6);
    assert_memory_equal(file.expert_ids, expert_ids, sizeof expert_ids);
    assert_null(file.weights);
    assert_string_equal(file.policy, "balanced");
    assert_int_equal(eplb_placement_file_row(&file, 0), -1);
    assert_int_equal(eplb_placement_file_row(&file, 1), 0);
    assert_int_equal(eplb_placement_file_row(&file, 2), -1);
    assert_int_equal(eplb_placement_file_row(&file, 4), 1);
    assert_int_equal(eplb_placement_file_row(&file, 5), -1);
    eplb_placement_file_free(&file);
    assert_null(file.expert_ids);
}

static void weights_are_read(void **state)
{
    (void)state;
    struct eplb_placement_file file;
    read_own("golden/placement/weighted.json", &file);
    static const int32_t weights[] = {524288, 1, 1048576, 1048576, 524288, 1048575};
    assert_memory_equal(file.weights, weights, sizeof weights);
    assert_string_equal(file.policy, "");
    eplb_placement_file_free(&file);
}

#define PLACEMENT                                                                                           \
    "{\"format\":\"eplb-placement-1\",\"num_experts\":4,\"ep_size\":2,\"slots_per_rank\":3,\"layer_ids\":[" \
    "2,61],"
#define FIRST PLACEMENT "\"expert_ids\":[[[0,1,2],[3,0,1]],"

static void illegal_tables_name_layer_rank_and_slot(void **state)
{
    (void)state;
    refuses(FIRST "[[0,1,2],[3,0,4]]]}",
            "in: expert_ids[1][1][2] (layer 61, rank 1, slot 2) is 4; an expert id is an "
            "integer from 0 to 3");
    refuses(FIRST "[[0,1,2],[3,0,-1]]]}",
            "in: expert_ids[1][1][2] (layer 61, rank 1, slot 2) is -1; an expert id is "
            "an integer from 0 to 3");
    refuses(FIRST "[[0,1,2],[0,1,2]]]}",
            "in: layer 61: expert 3 is on no rank; every one of the 4 experts needs a slot");
    refuses(FIRST "[[0,0,1],[2,3,1]]]}",
            "in: layer 61: rank 0 slot 1 repeats expert 0; a rank may hold an expert once");
    static const char *const bad[][2] = {{"1.5", "the real 1.5"}, {"\"1\"", "a string"},
                                         {"true", "true"},        {"null", "null"},
                                         {"[1]", "an array"},     {"1e0", "the real 1"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[256];
        char sentence[256];
        snprintf(text, sizeof text, FIRST "[[0,%s,2],[3,0,1]]]}", bad[i][0]);
        snprintf(sentence, sizeof sentence,
                 "in: expert_ids[1][0][1] (layer 61, rank 0, slot 1) is %s; an expert id is an integer from "
                 "0 to 3",
                 bad[i][1]);
        refuses(text, sentence);
    }
}

static void sizes_are_counted_per_layer(void **state)
{
    (void)state;
    refuses(FIRST "[[0,1,2],[3,0]]]}",
            "in: expert_ids[1][1] (layer 61, rank 1) has 2 slots; slots_per_rank is 3");
    refuses(FIRST "[[0,1,2,3],[3,0,1]]]}",
            "in: expert_ids[1][0] (layer 61, rank 0) has 4 slots; slots_per_rank is 3");
    refuses(FIRST "[[0,1,2],[3,0,1],[0,1,2]]]}", "in: expert_ids[1] (layer 61) has 3 ranks; ep_size is 2");
    refuses(FIRST "[0,1,2,3,0,1]]}", "in: expert_ids[1] (layer 61) has 6 ranks; ep_size is 2");
    refuses(FIRST "[0,1]]}", "in: expert_ids[1][0] (layer 61, rank 0) is 0; it must be an array of 3 slots");
    refuses(FIRST "5]}", "in: expert_ids[1] (layer 61) is 5; it must be an array of 2 ranks");
    refuses(PLACEMENT "\"expert_ids\":[[[0,1,2],[3,0,1]]]}",
            "in: \"expert_ids\" has 1 layers; the file has 2 layer ids");
    refuses(PLACEMENT "\"policy\":\"\"}", "in: \"expert_ids\" is missing; it must be an array of 2 layers");
}

static void sizes_must_agree(void **state)
{
    (void)state;
#define SIZES(experts, ranks, slots)                                                  \
    "{\"format\":\"eplb-placement-1\",\"num_experts\":" experts ",\"ep_size\":" ranks \
    ",\"slots_per_rank\":" slots ",\"expert_ids\":[[[]]]}"
    refuses(SIZES("8", "4", "1"), "in: slots_per_rank is 1; 8 experts on 4 ranks need at least 2");
    refuses(SIZES("0", "4", "1"), "in: \"num_experts\" is 0; allowed is an integer from 1 to 65536");
    refuses(SIZES("8", "65537", "1"), "in: \"ep_size\" is 65537; allowed is an integer from 1 to 65536");
    refuses(SIZES("8", "4", "\"2\""),
            "in: \"slots_per_rank\" is a string; allowed is an integer from 1 to 16777216");
    struct eplb_placement_file file;
    struct eplb_error error;
    assert_int_equal(parse(SIZES("8", "3", "3"), &file, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "in: num_experts 8 is not divisible by ep_size 3"));
    assert_int_equal(parse(SIZES("8", "2", "9"), &file, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "in: redundant_experts_num 5 gives a rank 4 + 5 slots for 8 experts"));
    /* A wide declaration over a tiny file takes no memory. */
    refuses(SIZES("65536", "256", "65536"), "in: expert_ids[0] (layer 0) has 1 ranks; ep_size is 256");
}

static void weights_are_checked(void **state)
{
    (void)state;
#define ONE                                                                                                 \
    "{\"format\":\"eplb-placement-1\",\"num_experts\":2,\"ep_size\":2,\"slots_per_rank\":2,\"layer_ids\":[" \
    "9],"                                                                                                   \
    "\"expert_ids\":[[[0,1],[1,0]]],\"weights\":"
    refuses(ONE "[[[0,1],[1,1]]]}",
            "in: weights[0][0][0] (layer 9, rank 0, slot 0) is 0; a weight is an integer from 1 to 1048576");
    refuses(ONE "[[[1,1],[1]]]}", "in: weights[0][1] (layer 9, rank 1) has 1 slots; slots_per_rank is 2");
    refuses(ONE "null}", "in: \"weights\" is null; it must be an array of 1 layers");
    struct eplb_placement_file file;
    struct eplb_error error;
    assert_int_equal(parse(ONE "[[[524288,524288],[524288,524287]]]}", &file, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "in: layer 9: the weights of expert 0 add up to 1048575"));
}

static void documents_are_checked(void **state)
{
    (void)state;
    refuses("", "in is empty");
    refuses("\xef\xbb\xbf{}", "in begins with a UTF-8 byte order mark; save it without one");
    refuses("{\"format\":\"eplb-load-1\"}",
            "in has the format \"eplb-load-1\"; read here: JSON with \"format\":\"eplb-placement-1\"");
    refuses("{\"physical_to_logical_map\":[[0]]}",
            "in has no \"format\" key; read here: JSON with \"format\":\"eplb-placement-1\"");
    refuses(PLACEMENT "\"weight\":[]}",
            "in: the top level has an unknown key \"weight\"; the nearest known one is \"weights\"");
    refuses(PLACEMENT "\"expert_ids\":[[[0,1,2],[3,0,1]],[[0,1,2],[3,0,1]]],\"policy\":1}",
            "in: \"policy\" is 1; it must be a string");
    refuses("{", "in:1:1: not JSON: string or '}' expected near end of file");
}

static void matching_names_both_numbers(void **state)
{
    (void)state;
    struct eplb_shape shape;
    struct eplb_placement_file file;
    struct eplb_error error;
    assert_int_equal(eplb_shape_init(&shape, 1, 8, 4, 1, &error), EPLB_OK);
    assert_int_equal(eplb_placement_file_init(&file, &shape, false, &error), EPLB_OK);
    assert_int_equal(eplb_placement_file_match(&file, 8, 4, 1, &error), EPLB_OK);
    assert_int_equal(eplb_placement_file_match(&file, 8, 4, 2, &error), EPLB_INVALID);
    assert_string_equal(error.text, "the placement has 12 slots (3 on each of 4 ranks); 8 experts with "
                                    "redundant_experts_num 2 need 16 (4 on each)");
    assert_int_equal(eplb_placement_file_match(&file, 16, 4, 1, &error), EPLB_INVALID);
    assert_string_equal(error.text, "the placement is for 8 experts; num_experts is 16");
    assert_int_equal(eplb_placement_file_match(&file, 8, 2, 1, &error), EPLB_INVALID);
    assert_string_equal(error.text, "the placement is for 4 ranks; ep_size is 2");
    assert_int_equal(eplb_placement_file_match(&file, 8, 3, 1, &error), EPLB_INVALID);
    assert_string_equal(error.text, "the placement is for 4 ranks; ep_size is 3");
    eplb_placement_file_free(&file);
}

static void every_layer_is_found(void **state)
{
    (void)state;
    enum { LAYERS = 7 };
    struct eplb_shape shape;
    struct eplb_placement_file file;
    struct eplb_error error;
    assert_int_equal(eplb_shape_init(&shape, LAYERS, 2, 1, 0, &error), EPLB_OK);
    assert_int_equal(eplb_placement_file_init(&file, &shape, false, &error), EPLB_OK);
    for (int32_t row = 0; row < LAYERS; row++)
        file.layer_ids[row] = 2 * row + 1;
    for (int32_t id = 0; id <= 2 * LAYERS; id++)
        assert_int_equal(eplb_placement_file_row(&file, id), id % 2 == 1 ? id / 2 : -1);
    eplb_placement_file_free(&file);
}

static void the_written_text_is_known(void **state)
{
    (void)state;
    static const char *const names[] = {"golden/placement/four_experts.json",
                                        "golden/placement/weighted.json"};
    for (size_t i = 0; i < 2; i++) {
        static const int32_t replicas[4] = {2, 2, 1, 1};
        static const uint64_t cut = 1 << 1;
        const struct eplb_placement_prediction predicted = {.peak = 12.5,
                                                            .mean = 10,
                                                            .lower_bound = 10.25,
                                                            .even_split_peak = 13,
                                                            .best_split_peak = 10.5,
                                                            .components = 1,
                                                            .cut = &cut,
                                                            .cut_load = 10.5,
                                                            .replicas = replicas};
        const struct eplb_placement_verdict gate = {.publish = true,
                                                    .current_peak = 0.1,
                                                    .candidate_peak = 1e-9,
                                                    .improvement = 1.0 / 3,
                                                    .unbounded_peak = 2.5,
                                                    .moved_slots = 3,
                                                    .sent_slots = 2,
                                                    .bytes = 4096,
                                                    .break_even_forwards = 12.5,
                                                    .pays = true};
        struct eplb_placement_file file;
        struct eplb_text text = {0};
        struct eplb_error error;
        char path[4096];
        char golden[2048];
        read_own(names[i], &file);
        assert_int_equal(eplb_placement_file_write(&file, i == 0 ? NULL : &predicted, i == 0 ? NULL : &gate,
                                                   &text, &error),
                         EPLB_OK);
        material_own(names[i], path, sizeof path);
        FILE *stream = fopen(path, "rb");
        assert_non_null(stream);
        golden[fread(golden, 1, sizeof golden - 1, stream)] = '\0';
        fclose(stream);
        assert_string_equal(text.bytes, golden);
        eplb_text_free(&text);
        eplb_placement_file_free(&file);
    }
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    struct eplb_shape shape;
    struct eplb_placement_file file;
    struct eplb_placement_file again;
    struct eplb_text text = {0};
    struct eplb_error error;
    assert_int_equal(eplb_shape_init(&shape, 3, 12, 4, 2, &error), EPLB_OK);
    assert_int_equal(eplb_placement_file_init(&file, &shape, true, &error), EPLB_OK);
    for (int32_t layer = 0; layer < 3; layer++)
        file.layer_ids[layer] = 5 * layer + 1;
    snprintf(file.policy, sizeof file.policy, "a \"b\" \\c");
    snprintf(file.replica_routing, sizeof file.replica_routing, "weighted");
    assert_int_equal(eplb_placement_file_write(&file, NULL, NULL, &text, &error), EPLB_OK);
    if (parse(text.bytes, &again, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    assert_memory_equal(&again.shape, &shape, sizeof shape);
    assert_memory_equal(again.layer_ids, file.layer_ids, 3 * sizeof(int32_t));
    assert_memory_equal(again.expert_ids, file.expert_ids, 3 * 20 * sizeof(int32_t));
    assert_memory_equal(again.weights, file.weights, 3 * 20 * sizeof(int32_t));
    assert_string_equal(again.policy, file.policy);
    assert_string_equal(again.replica_routing, "weighted");
    eplb_placement_file_free(&again);
    eplb_placement_file_free(&file);
    eplb_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(weights_are_read),
        cmocka_unit_test(illegal_tables_name_layer_rank_and_slot),
        cmocka_unit_test(sizes_are_counted_per_layer),
        cmocka_unit_test(sizes_must_agree),
        cmocka_unit_test(weights_are_checked),
        cmocka_unit_test(documents_are_checked),
        cmocka_unit_test(matching_names_both_numbers),
        cmocka_unit_test(every_layer_is_found),
        cmocka_unit_test(the_written_text_is_known),
        cmocka_unit_test(what_is_written_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
