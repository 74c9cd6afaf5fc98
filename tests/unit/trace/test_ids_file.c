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
#include <unistd.h>

#include "os/file.h"
#include "trace/ids_file.h"
#include "trace/load_file.h"

/* Three steps of two sequences, layers 3 and 5, the best 2 of 4 experts. */
static const unsigned char ids_u8[] = {0, 1, 2, 3, /**/ 1, 0, 2, 3, /* step 0 */
                                       0, 2, 3, 2, /**/ 3, 0, 2, 1, /* step 1 */
                                       2, 0, 1, 2, /**/ 1, 3, 1, 0 /* step 2 */};

#define FORMAT "\"format\":\"eplb-ids-1\","
#define AXES "\"axes\":[\"step\",\"sequence\",\"layer\",\"k\"],"
#define SHAPE "\"shape\":[3,2,2,2],"
#define DTYPE "\"dtype\":\"uint8\","
#define SIZES "\"num_experts\":4,\"top_k\":2,"
#define LAYERS "\"layer_ids\":[3,5],"
#define PHASES \
    "\"phases\":[{\"name\":\"law\",\"first\":0,\"end\":1},{\"name\":\"art\",\"first\":1,\"end\":3}],"
#define KIND "\"kind\":\"decode\""

static const char sidecar_u8[] = "{" FORMAT AXES SHAPE DTYPE SIZES LAYERS PHASES KIND "}";

static enum eplb_status parse(const char *name, const void *bytes, size_t size, const char *text,
                              struct eplb_ids *ids, struct eplb_error *error)
{
    struct eplb_input data = {.name = name, .bytes = bytes, .size = size};
    struct eplb_input sidecar = {.name = "in.json", .bytes = text, .size = strlen(text)};
    return eplb_ids_parse(&data, &sidecar, ids, error);
}

static void refuses_bytes(const void *bytes, size_t size, const char *text, const char *sentence)
{
    struct eplb_ids ids = {.num_steps = 77};
    struct eplb_error error = {0};
    assert_int_equal(parse("in.ids.u8", bytes, size, text, &ids, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_int_equal(ids.num_steps, 77);
}

static void refuses(const char *text, const char *sentence)
{
    refuses_bytes(ids_u8, sizeof ids_u8, text, sentence);
}

static void accepts(const void *bytes, size_t size, const char *text, struct eplb_ids *ids)
{
    struct eplb_error error = {0};
    if (parse("in.ids.u8", bytes, size, text, ids, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static void everything_is_read(void **state)
{
    (void)state;
    struct eplb_ids ids;
    accepts(ids_u8, sizeof ids_u8, sidecar_u8, &ids);
    assert_int_equal(ids.num_steps, 3);
    assert_int_equal(ids.num_sequences, 2);
    assert_int_equal(ids.num_layers, 2);
    assert_int_equal(ids.top_k, 2);
    assert_int_equal(ids.num_experts, 4);
    assert_true(ids.has_sequences);
    assert_false(ids.is_prefill);
    assert_int_equal(ids.layer_ids[0], 3);
    assert_int_equal(ids.layer_ids[1], 5);
    assert_int_equal(ids.num_phases, 2);
    assert_string_equal(ids.phases[1].name, "art");
    assert_int_equal(ids.phases[1].first, 1);
    assert_int_equal(ids.phases[1].end, 3);
    for (size_t i = 0; i < sizeof ids_u8; i++)
        assert_int_equal(ids.experts[i], ids_u8[i]);
    eplb_ids_free(&ids);
    assert_null(ids.experts);
}

static void tokens_counts_and_phases_are_found(void **state)
{
    (void)state;
    struct eplb_ids ids;
    int64_t load[2 * 4];
    accepts(ids_u8, sizeof ids_u8, sidecar_u8, &ids);
    assert_int_equal(eplb_ids_at(&ids, 1, 1, 0)[0], 3);
    assert_int_equal(eplb_ids_at(&ids, 1, 1, 1)[1], 1);
    assert_int_equal(eplb_ids_at(&ids, 2, 0, 1)[0], 1);
    assert_int_equal(eplb_ids_find_phase(&ids, "law"), 0);
    assert_int_equal(eplb_ids_find_phase(&ids, "art"), 1);
    assert_int_equal(eplb_ids_find_phase(&ids, "ar"), -1);
    static const int64_t one[2 * 4] = {2, 0, 1, 1, 0, 1, 2, 1};
    eplb_ids_count(&ids, 1, 2, load);
    assert_memory_equal(load, one, sizeof one);
    static const int64_t all[2 * 4] = {5, 3, 2, 2, 1, 3, 5, 3};
    eplb_ids_count(&ids, 0, 3, load);
    assert_memory_equal(load, all, sizeof all);
    static const int64_t none[2 * 4] = {0};
    eplb_ids_count(&ids, 2, 2, load);
    assert_memory_equal(load, none, sizeof none);
    eplb_ids_free(&ids);
}

#define TOKENS "\"axes\":[\"token\",\"layer\",\"k\"],"

static void tokens_are_steps_of_one_sequence(void **state)
{
    (void)state;
    struct eplb_ids ids;
    accepts(ids_u8, sizeof ids_u8, "{" FORMAT TOKENS "\"shape\":[6,2,2]," DTYPE SIZES "\"kind\":\"prefill\"}",
            &ids);
    assert_int_equal(ids.num_steps, 6);
    assert_int_equal(ids.num_sequences, 1);
    assert_false(ids.has_sequences);
    assert_true(ids.is_prefill);
    /* What the sidecar does not say. */
    assert_int_equal(ids.layer_ids[0], 0);
    assert_int_equal(ids.layer_ids[1], 1);
    assert_int_equal(ids.num_phases, 1);
    assert_string_equal(ids.phases[0].name, "all");
    assert_int_equal(ids.phases[0].first, 0);
    assert_int_equal(ids.phases[0].end, 6);
    assert_int_equal(eplb_ids_at(&ids, 5, 0, 0)[1], 3);
    eplb_ids_free(&ids);
}

static void two_bytes_are_little_endian(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {1, 0, 0, 1, /**/ 0xff, 1, 2, 0};
    static const char text[] = "{" FORMAT TOKENS "\"shape\":[2,1,2],\"dtype\":\"uint16\",\"num_experts\":512,"
                               "\"top_k\":2," KIND "}";
    struct eplb_ids ids;
    struct eplb_error error = {0};
    assert_int_equal(parse("in.ids.u16", bytes, sizeof bytes, text, &ids, &error), EPLB_OK);
    static const uint16_t experts[] = {1, 256, 511, 2};
    assert_memory_equal(ids.experts, experts, sizeof experts);
    eplb_ids_free(&ids);
    assert_int_equal(parse("in.ids.u16", bytes, 7, text, &ids, &error), EPLB_INVALID);
    assert_string_equal(error.text,
                        "in.ids.u16 has 7 bytes: 1 tokens of 4 bytes and 3 bytes over; by the shape "
                        "of in.json it must hold exactly 2");
}

static void names_tell_the_type(void **state)
{
    (void)state;
    assert_true(eplb_ids_is_name("a.ids.u8"));
    assert_true(eplb_ids_is_name("b/a.ids.u16"));
    assert_true(eplb_ids_is_name(".ids.u8"));
    assert_false(eplb_ids_is_name("a.ids.u32"));
    assert_false(eplb_ids_is_name("a.ids.u8.json"));
    assert_false(eplb_ids_is_name("ids.u8"));
    assert_false(eplb_ids_is_name(""));
    char *path = eplb_ids_sidecar_path("b.ids.u8/a.ids.u16");
    assert_string_equal(path, "b.ids.u8/a.json");
    free(path);
}

static void sizes_must_fit_exactly(void **state)
{
    (void)state;
    unsigned char more[sizeof ids_u8 + 8] = {0};
    memcpy(more, ids_u8, sizeof ids_u8);
    refuses_bytes(
        more, sizeof ids_u8 + 1, sidecar_u8,
        "in.ids.u8 has 25 bytes: 3 steps of 8 bytes and 1 bytes over; by the shape of in.json it must "
        "hold exactly 3");
    refuses_bytes(
        more, sizeof ids_u8 + 8, sidecar_u8,
        "in.ids.u8 has 32 bytes: 4 steps of 8 bytes and 0 bytes over; by the shape of in.json it must "
        "hold exactly 3");
    refuses_bytes(
        more, sizeof ids_u8 - 1, sidecar_u8,
        "in.ids.u8 has 23 bytes: 2 steps of 8 bytes and 7 bytes over; by the shape of in.json it must "
        "hold exactly 3");
    refuses_bytes(
        more, 0, sidecar_u8,
        "in.ids.u8 has 0 bytes: 0 steps of 8 bytes and 0 bytes over; by the shape of in.json it must "
        "hold exactly 3");
}

#define OPEN "{" FORMAT TOKENS "\"shape\":[-1,2,2]," DTYPE SIZES KIND "}"

static void an_open_recording_has_its_whole_tokens(void **state)
{
    (void)state;
    for (size_t size = 4; size <= sizeof ids_u8; size++) {
        struct eplb_ids ids;
        accepts(ids_u8, size, OPEN, &ids);
        assert_int_equal(ids.num_steps, size / 4);
        assert_int_equal(ids.phases[0].end, size / 4);
        for (size_t i = 0; i < size / 4 * 4; i++)
            assert_int_equal(ids.experts[i], ids_u8[i]);
        eplb_ids_free(&ids);
    }
    refuses_bytes(ids_u8, 3, OPEN, "in.ids.u8 has 0 whole tokens of 4 bytes; allowed are 1 to 2147483647");
}

static void ids_are_checked(void **state)
{
    (void)state;
    unsigned char bytes[sizeof ids_u8];
    memcpy(bytes, ids_u8, sizeof bytes);
    bytes[15] = 4;
    refuses_bytes(bytes, sizeof bytes, sidecar_u8,
                  "in.ids.u8: step 1, sequence 1, layer 5, k 1 is expert 4; ids are below num_experts of the "
                  "sidecar");
    refuses_bytes(bytes, sizeof bytes, OPEN,
                  "in.ids.u8: token 3, layer 1, k 1 is expert 4; ids are below num_experts of the sidecar");
    bytes[15] = 2;
    refuses_bytes(
        bytes, sizeof bytes, sidecar_u8,
        "in.ids.u8: step 1, sequence 1, layer 5, k 1 is expert 2; this token has it already in this "
        "layer");
    /* The same expert in the row before and in the one after is no duplicate. */
    bytes[15] = 1;
    struct eplb_ids ids;
    accepts(bytes, sizeof bytes, sidecar_u8, &ids);
    eplb_ids_free(&ids);
}

static void another_document_is_refused(void **state)
{
    (void)state;
    refuses("", "in.json is empty");
    refuses("[]", "the top of in.json is an array; it must be an object");
    refuses("{}", "in.json has no \"format\" key; read here: the sidecar of routed ids, with "
                  "\"format\":\"eplb-ids-1\"");
    refuses("{\"format\":\"eplb-load-1\"}",
            "in.json has the format \"eplb-load-1\"; read here: the sidecar of routed ids, with "
            "\"format\":\"eplb-ids-1\"");
    refuses("{" FORMAT "\"dtyp\":1}",
            "in.json: the top level has an unknown key \"dtyp\"; the nearest known one is \"dtype\"");
}

static void types_and_axes_are_checked(void **state)
{
    (void)state;
    static const char allowed[] =
        "allowed are [\"step\", \"sequence\", \"layer\", \"k\"] and [\"token\", \"layer\", \"k\"]";
    char sentence[EPLB_ERROR_TEXT];
    refuses("{" FORMAT AXES "\"dtype\":8}", "in.json: \"dtype\" is 8; for in.ids.u8 it must be \"uint8\"");
    refuses("{" FORMAT AXES SHAPE "\"dtype\":\"uint16\"," SIZES LAYERS PHASES KIND "}",
            "in.json: \"dtype\" is \"uint16\"; for in.ids.u8 it must be \"uint8\"");
    snprintf(sentence, sizeof sentence, "in.json: \"axes\" is missing; %s", allowed);
    refuses("{" FORMAT DTYPE SHAPE KIND "}", sentence);
    snprintf(sentence, sizeof sentence, "in.json: \"axes\" names other axes than can be read; %s", allowed);
    refuses("{" FORMAT DTYPE "\"axes\":[\"step\",\"layer\",\"k\"]}", sentence);
    refuses("{" FORMAT DTYPE "\"axes\":[\"token\",\"sequence\",\"layer\",\"k\"]}", sentence);
    refuses("{" FORMAT DTYPE "\"axes\":[\"layer\",\"token\",\"k\"]}", sentence);
    refuses("{" FORMAT DTYPE "\"axes\":[1,2,3]}", sentence);
    refuses("{" FORMAT DTYPE "\"axes\":[]}", sentence);
}

static void shapes_are_checked(void **state)
{
    (void)state;
#define BEFORE "{" FORMAT DTYPE AXES
#define AFTER "," SIZES LAYERS PHASES KIND "}"
    refuses(BEFORE "\"shape\":7" AFTER,
            "in.json: \"shape\" is 7; it must be an array of 4 lengths, one per axis");
    refuses(BEFORE "\"shape\":[3,2,2]" AFTER, "in.json: \"shape\" has 3 lengths; there are 4 axes");
    refuses(BEFORE "\"shape\":[0,2,2,2]" AFTER,
            "in.json: shape[0] (step) is 0; allowed is an integer from 1 to 2147483647, or -1 while the "
            "recording is being written");
    refuses(BEFORE "\"shape\":[-2,2,2,2]" AFTER,
            "in.json: shape[0] (step) is -2; allowed is an integer from 1 to 2147483647, or -1 while the "
            "recording is being written");
    refuses(BEFORE "\"shape\":[3,-1,2,2]" AFTER,
            "in.json: shape[1] (sequence) is -1; allowed is an integer from 1 to 1048576");
    refuses(BEFORE "\"shape\":[3,2,65537,2]" AFTER,
            "in.json: shape[2] (layer) is 65537; allowed is an integer from 1 to 65536");
    refuses(BEFORE "\"shape\":[3,2,2,2.5]" AFTER,
            "in.json: shape[3] (k) is the real 2.5; allowed is an integer from 1 to 65536");
    /* 2^51 bytes a step and 2^82 in all, of which nothing is allocated. */
    refuses(
        "{" FORMAT AXES DTYPE "\"shape\":[2147483647,1048576,65536,256],\"num_experts\":256,"
        "\"top_k\":256," KIND "}",
        "in.ids.u8 has 24 bytes: 0 steps of 17592186044416 bytes and 24 bytes over; by the shape of in.json "
        "it must hold exactly 2147483647");
#undef BEFORE
#undef AFTER
}

static void experts_and_layers_are_checked(void **state)
{
    (void)state;
#define BEFORE "{" FORMAT DTYPE AXES SHAPE
#define AFTER PHASES KIND "}"
    refuses(BEFORE "\"num_experts\":257,\"top_k\":2," LAYERS AFTER,
            "in.json: \"num_experts\" is 257; allowed is an integer from 1 to 256");
    refuses(BEFORE LAYERS AFTER, "in.json: \"num_experts\" is missing; allowed is an integer from 1 to 256");
    refuses(BEFORE "\"num_experts\":4,\"top_k\":5," LAYERS AFTER,
            "in.json: \"top_k\" is 5; allowed is an integer from 1 to 4");
    refuses(BEFORE "\"num_experts\":4,\"top_k\":1," LAYERS AFTER,
            "in.json: \"top_k\" is 1; shape[3] (k) is 2");
    refuses(BEFORE SIZES "\"layer_ids\":[3]," AFTER,
            "in.json: \"layer_ids\" has 1 entries; shape[2] (layer) is 2");
    refuses(BEFORE SIZES "\"layer_ids\":[3,5,7]," AFTER,
            "in.json: \"layer_ids\" has 3 entries; shape[2] (layer) is 2");
    refuses(BEFORE SIZES "\"layer_ids\":[5,3]," AFTER,
            "in.json: layer_ids[1] is 3 after 5; layer ids must ascend");
    refuses(BEFORE SIZES "\"layer_ids\":[3,3]," AFTER,
            "in.json: layer_ids[1] is 3 after 3; layer ids must ascend");
    refuses(BEFORE SIZES "\"layer_ids\":[-1,3]," AFTER,
            "in.json: layer_ids[0] is -1; a layer id is an integer from 0 to 2147483647");
    refuses(BEFORE SIZES "\"layer_ids\":3," AFTER,
            "in.json: \"layer_ids\" is 3; it must be an array, one entry per layer");
    refuses(BEFORE SIZES LAYERS PHASES "\"kind\":\"train\"}",
            "in.json: \"kind\" is \"train\"; allowed are \"decode\" and \"prefill\"");
    refuses(BEFORE SIZES LAYERS "\"phases\":[]}",
            "in.json: \"kind\" is missing; allowed are \"decode\" and \"prefill\"");
#undef BEFORE
#undef AFTER
}

static void refuses_phases(const char *phases, const char *sentence)
{
    char text[2048];
    snprintf(text, sizeof text, "{" FORMAT AXES SHAPE DTYPE SIZES LAYERS "\"phases\":%s," KIND "}", phases);
    refuses(text, sentence);
}

static void phases_are_checked(void **state)
{
    (void)state;
    refuses_phases("{}", "in.json: \"phases\" is an object; it must be an array of phases");
    refuses_phases("[]", "in.json: \"phases\" has 0 entries; allowed are 1 to 1024");
    refuses_phases("[7]", "in.json: phases[0] is 7; a phase is an object");
    refuses_phases("[{\"nam\":\"a\"}]",
                   "in.json: phases[0] has an unknown key \"nam\"; the nearest known one is \"name\"");
    refuses_phases("[{\"first\":0,\"end\":3}]", "in.json: phases[0].name is missing; a phase has a name");
    refuses_phases("[{\"name\":\"\",\"first\":0,\"end\":3}]",
                   "in.json: phases[0].name is empty; a phase has a name");
    refuses_phases("[{\"name\":\"a\",\"end\":3}]",
                   "in.json: phases[0].first is missing; it must be 0, where the recording begins");
    refuses_phases("[{\"name\":\"a\",\"first\":1,\"end\":3}]",
                   "in.json: phases[0].first is 1; it must be 0, where the recording begins");
    refuses_phases("[{\"name\":\"a\",\"first\":0,\"end\":2},{\"name\":\"b\",\"first\":1,\"end\":3}]",
                   "in.json: phases[1].first is 1; it must be 2, where the phase before it ends");
    refuses_phases("[{\"name\":\"a\",\"first\":0,\"end\":1},{\"name\":\"b\",\"first\":2,\"end\":3}]",
                   "in.json: phases[1].first is 2; it must be 1, where the phase before it ends");
    refuses_phases("[{\"name\":\"a\",\"first\":0,\"end\":0}]",
                   "in.json: phases[0].end is 0; allowed is an integer from 1 to 3");
    refuses_phases("[{\"name\":\"a\",\"first\":0,\"end\":4}]",
                   "in.json: phases[0].end is 4; allowed is an integer from 1 to 3");
    refuses_phases("[{\"name\":\"a\",\"first\":0,\"end\":2}]",
                   "in.json: phases[0].end is 2; the last phase ends with the recording, at 3");
    refuses_phases("[{\"name\":\"a\",\"first\":0,\"end\":2},{\"name\":\"a\",\"first\":2,\"end\":3}]",
                   "in.json: phases[1].name is \"a\" like that of phases[0]; names of phases differ");
}

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/eplb-test-ids-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *bytes, size_t size)
{
    struct eplb_error error;
    if (eplb_file_write_atomic(in_folder(name), bytes, size, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static void both_files_are_read(void **state)
{
    (void)state;
    struct eplb_ids ids = {0};
    struct eplb_error error = {0};
    char sentence[EPLB_ERROR_TEXT];
    assert_int_equal(eplb_ids_read("a.npy", &ids, &error), EPLB_INVALID);
    assert_string_equal(error.text, "a.npy is no name of routed ids: they end with .ids.u8 or .ids.u16");
    put("in.ids.u8", ids_u8, sizeof ids_u8);
    assert_int_equal(eplb_ids_read(in_folder("in.ids.u8"), &ids, &error), EPLB_INVALID);
    snprintf(sentence, sizeof sentence,
             "the sidecar of %s/in.ids.u8: cannot open %s/in.json: No such file or directory", folder,
             folder);
    assert_string_equal(error.text, sentence);
    put("in.json", sidecar_u8, strlen(sidecar_u8));
    assert_int_equal(eplb_ids_read(in_folder("in.ids.u8"), &ids, &error), EPLB_OK);
    assert_int_equal(ids.num_steps, 3);
    eplb_ids_free(&ids);
    unlink(in_folder("in.ids.u8"));
    assert_int_equal(eplb_ids_read(in_folder("in.ids.u8"), &ids, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "cannot open"));
    unlink(in_folder("in.json"));
}

static void a_phase_is_a_step_of_a_load(void **state)
{
    (void)state;
    struct eplb_load load;
    struct eplb_error error = {0};
    put("in.ids.u8", ids_u8, sizeof ids_u8);
    put("in.json", sidecar_u8, strlen(sidecar_u8));
    if (eplb_load_read(in_folder("in.ids.u8"), &load, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    assert_int_equal(load.num_steps, 2);
    assert_int_equal(load.num_layers, 2);
    assert_int_equal(load.num_experts, 4);
    assert_int_equal(load.top_k, 2);
    assert_int_equal(load.layer_ids[1], 5);
    assert_string_equal(load.labels[0], "law");
    assert_string_equal(load.labels[1], "art");
    static const int64_t counts[] = {2, 2, 0, 0, 0, 0, 2, 2, /**/ 3, 1, 2, 2, 1, 3, 3, 1};
    assert_memory_equal(load.load, counts, sizeof counts);
    eplb_load_free(&load);
    unlink(in_folder("in.ids.u8"));
    unlink(in_folder("in.json"));
}

/* A few bytes may declare counts that would take 32 GiB. */
static void a_load_is_not_as_large_as_declared(void **state)
{
    (void)state;
    enum { LAYERS_DECLARED = 65536 };
    static unsigned char zeros[LAYERS_DECLARED * 2];
    static const char text[] = "{" FORMAT TOKENS "\"shape\":[1,65536,1],\"dtype\":\"uint16\","
                               "\"num_experts\":65536,\"top_k\":1," KIND "}";
    struct eplb_load load = {.num_steps = 77};
    struct eplb_error error = {0};
    put("in.ids.u16", zeros, sizeof zeros);
    put("in.json", text, strlen(text));
    assert_int_equal(eplb_load_read(in_folder("in.ids.u16"), &load, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text,
                           "in.ids.u16: 1 phases x 65536 layers x 65536 experts are more than the "
                           "134217728 counts that a load may have"));
    assert_int_equal(load.num_steps, 77);
    unlink(in_folder("in.ids.u16"));
    unlink(in_folder("in.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read),
        cmocka_unit_test(tokens_counts_and_phases_are_found),
        cmocka_unit_test(tokens_are_steps_of_one_sequence),
        cmocka_unit_test(two_bytes_are_little_endian),
        cmocka_unit_test(names_tell_the_type),
        cmocka_unit_test(sizes_must_fit_exactly),
        cmocka_unit_test(an_open_recording_has_its_whole_tokens),
        cmocka_unit_test(ids_are_checked),
        cmocka_unit_test(another_document_is_refused),
        cmocka_unit_test(types_and_axes_are_checked),
        cmocka_unit_test(shapes_are_checked),
        cmocka_unit_test(experts_and_layers_are_checked),
        cmocka_unit_test(phases_are_checked),
        cmocka_unit_test(both_files_are_read),
        cmocka_unit_test(a_phase_is_a_step_of_a_load),
        cmocka_unit_test(a_load_is_not_as_large_as_declared),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
