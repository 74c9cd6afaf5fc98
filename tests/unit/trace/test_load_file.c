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

#include "support/material.h"
#include "trace/load_file.h"

static enum eplb_status parse(const char *text, struct eplb_load *load, struct eplb_error *error)
{
    struct eplb_input input = {.name = "in", .bytes = text, .size = strlen(text)};
    return eplb_load_parse(&input, load, error);
}

static void refuses(const char *text, const char *sentence)
{
    struct eplb_load load = {.num_steps = 77};
    struct eplb_error error = {0};
    assert_int_equal(parse(text, &load, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_int_equal(load.num_steps, 77);
}

static void read_own(const char *name, struct eplb_load *load)
{
    char path[4096];
    struct eplb_error error = {0};
    material_own(name, path, sizeof path);
    if (eplb_load_read(path, load, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

/* The two steps that the golden files tell in three formats. */
static void check_two_steps(const struct eplb_load *load)
{
    static const int64_t counts[] = {10, 0, 7, 3, 1, 2, 3, 4, 0, 20, 0, 0, 5, 5, 5, 5};
    assert_int_equal(load->num_steps, 2);
    assert_int_equal(load->num_layers, 2);
    assert_int_equal(load->num_experts, 4);
    assert_memory_equal(load->load, counts, sizeof counts);
    assert_string_equal(load->warning, "");
}

static void json_is_read(void **state)
{
    (void)state;
    struct eplb_load load;
    read_own("golden/load/two_steps.json", &load);
    check_two_steps(&load);
    assert_int_equal(load.top_k, 2);
    assert_int_equal(load.layer_ids[0], 3);
    assert_int_equal(load.layer_ids[1], 5);
    assert_int_equal(load.step_ids[1], 1);
    assert_string_equal(load.labels[0], "morning");
    assert_string_equal(load.labels[1], "evening");
    eplb_load_free(&load);
    assert_null(load.load);
}

static void csv_rows_are_sorted(void **state)
{
    (void)state;
    struct eplb_load load;
    read_own("golden/load/two_steps.csv", &load);
    check_two_steps(&load);
    assert_int_equal(load.top_k, 0);
    assert_int_equal(load.layer_ids[0], 3);
    assert_int_equal(load.layer_ids[1], 5);
    assert_int_equal(load.step_ids[0], 2);
    assert_int_equal(load.step_ids[1], 8);
    assert_string_equal(load.labels[0], "morning");
    assert_string_equal(load.labels[1], "evening");
    eplb_load_free(&load);
}

static void npy_is_read(void **state)
{
    (void)state;
    struct eplb_load load;
    read_own("golden/load/two_steps_int32.npy", &load);
    check_two_steps(&load);
    assert_int_equal(load.layer_ids[1], 1);
    eplb_load_free(&load);
    read_own("golden/load/one_step_int64.npy", &load);
    assert_int_equal(load.num_steps, 1);
    assert_int_equal(load.num_layers, 2);
    assert_int_equal(load.num_experts, 4);
    assert_int_equal(eplb_load_row(&load, 0, 0)[2], 7);
    assert_int_equal(eplb_load_row(&load, 0, 1)[3], 4);
    eplb_load_free(&load);
}

static void optional_keys_may_be_absent(void **state)
{
    (void)state;
    struct eplb_load load;
    struct eplb_error error;
    assert_int_equal(parse("{\"format\":\"eplb-load-1\",\"num_experts\":2,\"steps\":[{\"load\":"
                           "[[0,4611686018427387904],[1,2],[0,0]]}]}",
                           &load, &error),
                     EPLB_OK);
    assert_int_equal(load.num_layers, 3);
    assert_int_equal(load.layer_ids[2], 2);
    assert_int_equal(load.top_k, 0);
    assert_string_equal(load.labels[0], "");
    assert_true(eplb_load_row(&load, 0, 0)[1] == EPLB_MAX_LOAD);
    eplb_load_free(&load);
}

#define LOAD "{\"format\":\"eplb-load-1\","
#define FORMATS                                                                                             \
    "JSON with \"format\":\"eplb-load-1\", CSV with the header step,label,layer,e0,e1,.., NumPy .npy, and " \
    "routed ids NAME.ids.u8 or NAME.ids.u16 with NAME.json"

static void other_documents_are_refused(void **state)
{
    (void)state;
    refuses("", "in is empty");
    refuses("\xef\xbb\xbf{}", "in begins with a UTF-8 byte order mark; save it without one");
    refuses("\xef\xbb\xbfstep,", "in begins with a UTF-8 byte order mark; save it without one");
    refuses("hello\nworld, wide",
            "in begins with \"hello?world,\", which no load format does; read here: " FORMATS);
    refuses(" \n", "in begins with \" ?\", which no load format does; read here: " FORMATS);
    refuses("{\"logical_count\":[[1]]}", "in has no \"format\" key; read here: " FORMATS);
    refuses("{\"format\":7}", "in: \"format\" is 7; read here: " FORMATS);
    refuses("{\"format\":\"eplb-placement-1\"}",
            "in has the format \"eplb-placement-1\"; read here: " FORMATS);
    refuses("[1]", "the top of in is an array; it must be an object");
}

static void json_errors_have_a_place(void **state)
{
    (void)state;
    refuses("{\n \"format\": x}", "in:2:12: not JSON: invalid token near 'x'");
    refuses("{\"format\":\"a\",\n\"format\":\"b\"}",
            "in:2:8: duplicate object key near '\"format\"'; a key stands once in an object");
    refuses("{} {}", "in:1:4: not JSON: end of file expected near '{'");
    refuses(LOAD "\"num_experts\":1,\"steps\":[{\"load\":[[9223372036854775808]]}]}",
            "in:1:78: too big integer near '9223372036854775808'; no number of that size is allowed");
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    char *text = malloc(DEPTH + 1);
    memset(text, '[', DEPTH);
    text[DEPTH] = '\0';
    refuses(text, "in:1:2049: brackets are nested deeper than any file that is read here needs");
    free(text);
}

static void json_keys_are_checked(void **state)
{
    (void)state;
    refuses(LOAD "\"num_expert\":1}",
            "in: the top level has an unknown key \"num_expert\"; the nearest known one is \"num_experts\"");
    refuses(LOAD "\"num_experts\":1,\"steps\":[{\"load\":[[1]],\"lable\":\"a\"}]}",
            "in: steps[0] has an unknown key \"lable\"; the nearest known one is \"label\"");
    refuses(LOAD "\"steps\":[]}", "in: \"num_experts\" is missing; allowed is an integer from 1 to 65536");
    refuses(LOAD "\"num_experts\":0}", "in: \"num_experts\" is 0; allowed is an integer from 1 to 65536");
    refuses(LOAD "\"num_experts\":65537}",
            "in: \"num_experts\" is 65537; allowed is an integer from 1 to 65536");
    refuses(LOAD "\"num_experts\":2.0}",
            "in: \"num_experts\" is the real 2; allowed is an integer from 1 to 65536");
    refuses(LOAD "\"num_experts\":2,\"top_k\":3}", "in: \"top_k\" is 3; allowed is an integer from 1 to 2");
    refuses(LOAD "\"num_experts\":2,\"top_k\":null}",
            "in: \"top_k\" is null; allowed is an integer from 1 to 2");
    refuses(LOAD "\"num_experts\":2}", "in: \"steps\" is missing; it must be an array of steps");
    refuses(LOAD "\"num_experts\":2,\"steps\":[]}", "in: \"steps\" has 0 entries; allowed are 1 to 1048576");
    refuses(LOAD "\"num_experts\":2,\"steps\":[7],\"layer_ids\":[0]}",
            "in: steps[0] is 7; a step is an object");
    refuses(LOAD "\"num_experts\":2,\"steps\":[{}]}",
            "in: steps[0].load is missing; it must be an array, one entry per layer");
    refuses(LOAD "\"num_experts\":2,\"steps\":[{\"load\":[]}]}",
            "in: steps[0].load has 0 entries; allowed are 1 to 65536 layers");
    refuses(LOAD "\"num_experts\":1,\"steps\":[{\"load\":[[1]],\"label\":\"a\\u001bb\"}]}",
            "in: steps[0].label has a control character at byte 1");
}

static void layer_ids_must_ascend(void **state)
{
    (void)state;
    refuses(LOAD "\"num_experts\":1,\"layer_ids\":[2,1],\"steps\":[{}]}",
            "in: layer_ids[1] is 1 after 2; layer ids must ascend");
    refuses(LOAD "\"num_experts\":1,\"layer_ids\":[2,2],\"steps\":[{}]}",
            "in: layer_ids[1] is 2 after 2; layer ids must ascend");
    refuses(LOAD "\"num_experts\":1,\"layer_ids\":[\"2\"],\"steps\":[{}]}",
            "in: layer_ids[0] is a string; a layer id is an integer from 0 to 2147483647");
    refuses(LOAD "\"num_experts\":1,\"layer_ids\":[-1],\"steps\":[{}]}",
            "in: layer_ids[0] is -1; a layer id is an integer from 0 to 2147483647");
    refuses(LOAD "\"num_experts\":1,\"layer_ids\":[0,1],\"steps\":[{\"load\":[[1],[1],[1]]}]}",
            "in: steps[0].load has 3 rows; the file has 2 layers");
}

static void json_rows_are_counted(void **state)
{
    (void)state;
#define ROWS LOAD "\"num_experts\":2,\"layer_ids\":[4,9],\"steps\":[{\"load\":[[1,2],[3,4]]},{\"load\":"
    refuses(ROWS "[[1,2],[3]]}]}", "in: steps[1].load[1] (layer 9) has 1 counts; num_experts is 2");
    refuses(ROWS "[[1,2],[3,4,5]]}]}", "in: steps[1].load[1] (layer 9) has 3 counts; num_experts is 2");
    refuses(ROWS "[[1,2]]}]}", "in: steps[1].load has 1 rows; the file has 2 layers");
    refuses(ROWS "[[1,2],3]}]}", "in: steps[1].load[1] (layer 9) is 3; it must be an array of 2 counts");
#undef ROWS
}

static void json_counts_are_integers(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"-1", "-1"},
                                         {"1.5", "the real 1.5"},
                                         {"1e3", "the real 1000"},
                                         {"\"1\"", "a string"},
                                         {"true", "true"},
                                         {"null", "null"},
                                         {"[1]", "an array"},
                                         {"4611686018427387905", "4611686018427387905"},
                                         {"{}", "an object"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[256];
        char sentence[256];
        snprintf(text, sizeof text, LOAD "\"num_experts\":2,\"steps\":[{\"load\":[[1,2],[3,%s]]}]}",
                 bad[i][0]);
        snprintf(sentence, sizeof sentence,
                 "in: steps[0].load[1][1] (layer 1) is %s; a count is an integer from 0 to 2^62", bad[i][1]);
        refuses(text, sentence);
    }
}

static void a_layer_may_add_up_to_more_than_2_62(void **state)
{
    (void)state;
    struct eplb_load load;
    struct eplb_error error;
    assert_int_equal(
        parse("step,label,layer,e0,e1\n3,a,7,4611686018427387904,4611686018427387903\n", &load, &error),
        EPLB_OK);
    assert_true(eplb_load_row(&load, 0, 0)[0] == EPLB_MAX_LOAD);
    assert_true(eplb_load_row(&load, 0, 0)[1] == EPLB_MAX_LOAD - 1);
    eplb_load_free(&load);
}

#define HEADER "step,label,layer,e0,e1\n"

static void csv_headers_are_checked(void **state)
{
    (void)state;
    refuses("step,label,layer\n", "in:1: the header names 0 experts; allowed are 1 to 65536 (e0, e1, ..)");
    refuses("step,\n", "in:1: column 2 of the header is \"\"; it must be \"label\"");
    refuses("step,label,layer,e0,e2\n", "in:1: column 5 of the header is \"e2\"; it must be \"e1\"");
    refuses("step,label,layer, e0\n", "in:1: column 4 of the header is \" e0\"; it must be \"e0\"");
    refuses("step,layer,label,e0\n", "in:1: column 2 of the header is \"layer\"; it must be \"label\"");
    refuses(HEADER, "in has no line after the header");
    refuses("step,label,layer,e0", "in has no line after the header");
}

static void csv_lines_are_checked(void **state)
{
    (void)state;
    refuses(HEADER "0,a,0,1,2\n0,a,1,1\n", "in:3: step 0, layer 1 has 1 counts; the header has 2");
    refuses(HEADER "0,a,0,1,2\n\n0,a,1,1,2,3\n", "in:4: step 0, layer 1 has 3 counts; the header has 2");
    refuses(HEADER "0,a,0\n", "in:2: the line has 3 fields; the header has 5");
    refuses(HEADER "x,a,0,1,2\n", "in:2: step is \"x\"; it must be an integer from 0 to 2^62");
    refuses(HEADER "0,a,-1,1,2\n", "in:2: layer is \"-1\"; it must be an integer from 0 to 2147483647");
    refuses(HEADER "0,a,2147483648,1,2\n",
            "in:2: layer is \"2147483648\"; it must be an integer from 0 to 2147483647");
    refuses(HEADER "0,\"a\",0,1,2\n",
            "in:2: the label \"\"a\"\" has a quote or control character; labels are plain text");
    refuses(HEADER "0,1234567890123456789012345678901234567890123456789012345678901234,0,1,2\n",
            "in:2: the label has 64 bytes; at most 63 are read");
}

static void csv_counts_are_integers(void **state)
{
    (void)state;
    static const char *const bad[] = {"-1",
                                      "1.5",
                                      "1e3",
                                      "",
                                      " 1",
                                      "1 ",
                                      "+1",
                                      "0x1",
                                      "nan",
                                      "4611686018427387905",
                                      "9223372036854775808",
                                      "18446744073709551617"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[256];
        char sentence[256];
        snprintf(text, sizeof text, HEADER "6,a,2,5,%s\n", bad[i]);
        snprintf(sentence, sizeof sentence,
                 "in:2: column e1 (step 6, layer 2) is \"%s\"; a count is an integer from 0 to 2^62", bad[i]);
        refuses(text, sentence);
    }
}

static void csv_steps_and_layers_form_a_grid(void **state)
{
    (void)state;
    refuses(HEADER "0,a,0,1,2\n1,b,0,1,2\n0,a,0,3,4\n", "in:4: step 0, layer 0 was given in line 2 already");
    refuses(HEADER "0,a,0,1,2\n0,b,1,1,2\n", "in:3: step 0 is labelled \"b\" here and \"a\" in line 2");
    refuses(HEADER "0,a,0,1,2\n0,a,1,1,2\n5,b,0,1,2\n",
            "in: step 5 has no line for layer 1, which step 0 has");
    refuses(HEADER "0,a,0,1,2\n0,a,1,1,2\n5,b,1,1,2\n",
            "in: step 5 has no line for layer 0, which step 0 has");
    refuses(HEADER "0,a,0,1,2\n0,a,2,1,2\n3,b,0,1,2\n4,c,0,1,2\n4,c,2,1,2\n",
            "in: step 3 has no line for layer 2, which step 0 has");
    refuses(HEADER "0,a,0,1,2\n5,b,0,1,2\n5,b,1,1,2\n",
            "in: step 0 has no line for layer 1, which step 5 has");
    refuses(HEADER "0,a,1,1,2\n0,a,2,1,2\n5,b,0,1,2\n5,b,1,1,2\n",
            "in: step 0 has no line for layer 0, which step 5 has");
}

static void csv_line_ends(void **state)
{
    (void)state;
    struct eplb_load load;
    struct eplb_error error;
    assert_int_equal(parse("step,label,layer,e0,e1\r\n0,a,0,1,2\r\n\r\n", &load, &error), EPLB_OK);
    assert_int_equal(eplb_load_row(&load, 0, 0)[1], 2);
    assert_string_equal(load.warning, "");
    eplb_load_free(&load);
    assert_int_equal(parse(HEADER "0,,0,1,23", &load, &error), EPLB_OK);
    assert_int_equal(eplb_load_row(&load, 0, 0)[1], 23);
    assert_string_equal(load.labels[0], "");
    assert_string_equal(load.warning,
                        "the last line of in has no newline: its last count may have been cut short");
    eplb_load_free(&load);
}

static void steps_are_summed(void **state)
{
    (void)state;
    struct eplb_load load;
    struct eplb_error error;
    int64_t sum[8];
    read_own("golden/load/two_steps.json", &load);
    static const int64_t both[] = {10, 20, 7, 3, 6, 7, 8, 9};
    assert_int_equal(eplb_load_sum(&load, 0, 2, sum, &error), EPLB_OK);
    assert_memory_equal(sum, both, sizeof both);
    static const int64_t second[] = {0, 20, 0, 0, 5, 5, 5, 5};
    assert_int_equal(eplb_load_sum(&load, 1, 2, sum, &error), EPLB_OK);
    assert_memory_equal(sum, second, sizeof second);

    eplb_load_row(&load, 1, 1)[2] = EPLB_MAX_LOAD - 3;
    assert_int_equal(eplb_load_sum(&load, 0, 2, sum, &error), EPLB_OK);
    assert_true(sum[6] == EPLB_MAX_LOAD);
    eplb_load_row(&load, 1, 1)[2]++;
    assert_int_equal(eplb_load_sum(&load, 0, 2, sum, &error), EPLB_INVALID);
    assert_string_equal(error.text,
                        "the counts of layer 5, expert 2, summed from step 0, pass 2^62 at step 1; "
                        "sum fewer steps");
    eplb_load_free(&load);
}

static void paths_that_are_no_file(void **state)
{
    (void)state;
    struct eplb_load load;
    struct eplb_error error;
    assert_int_equal(eplb_load_read("/", &load, &error), EPLB_INVALID);
    assert_string_equal(error.text, "/ is a directory, not a file");
    assert_int_equal(eplb_load_read("/nowhere/at all", &load, &error), EPLB_INVALID);
    assert_string_equal(error.text, "cannot open /nowhere/at all: No such file or directory");
    assert_int_equal(eplb_load_read("/dev/null", &load, &error), EPLB_INVALID);
    assert_string_equal(error.text, "/dev/null is empty");
}

static void a_very_long_path_keeps_its_end(void **state)
{
    (void)state;
    char path[601];
    memset(path, 'd', 600);
    path[600] = '\0';
    memcpy(path + 590, "/load.json", 10);
    struct eplb_input input = {.name = eplb_input_name(path), .bytes = "", .size = 0};
    struct eplb_load load;
    struct eplb_error error;
    assert_int_equal(eplb_load_parse(&input, &load, &error), EPLB_INVALID);
    assert_int_equal(strlen(error.text), 200 + strlen(" is empty"));
    assert_non_null(strstr(error.text, "ddd/load.json is empty"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_read),
        cmocka_unit_test(csv_rows_are_sorted),
        cmocka_unit_test(npy_is_read),
        cmocka_unit_test(optional_keys_may_be_absent),
        cmocka_unit_test(other_documents_are_refused),
        cmocka_unit_test(json_errors_have_a_place),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(json_keys_are_checked),
        cmocka_unit_test(layer_ids_must_ascend),
        cmocka_unit_test(json_rows_are_counted),
        cmocka_unit_test(json_counts_are_integers),
        cmocka_unit_test(a_layer_may_add_up_to_more_than_2_62),
        cmocka_unit_test(csv_headers_are_checked),
        cmocka_unit_test(csv_lines_are_checked),
        cmocka_unit_test(csv_counts_are_integers),
        cmocka_unit_test(csv_steps_and_layers_form_a_grid),
        cmocka_unit_test(csv_line_ends),
        cmocka_unit_test(steps_are_summed),
        cmocka_unit_test(paths_that_are_no_file),
        cmocka_unit_test(a_very_long_path_keeps_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
