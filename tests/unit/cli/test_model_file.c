/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cli/model_file.h"

#define HEAD "{\"format\":\"eplb-model-1\""

static enum eplb_status parse(const char *text, struct eplb_model_config *config, struct eplb_error *error)
{
    struct eplb_input input = {.name = "in", .bytes = text, .size = strlen(text)};
    return eplb_model_file_parse(&input, config, error);
}

static void refuses(const char *text, const char *sentence)
{
    struct eplb_model_config config = {.num_layers = 77};
    struct eplb_error error = {0};
    assert_int_equal(parse(text, &config, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_int_equal(error.status, EPLB_INVALID);
    assert_int_equal(config.num_layers, 77);
}

static void what_is_missing_takes_its_default(void **state)
{
    (void)state;
    struct eplb_model_config config;
    struct eplb_model_config defaults;
    struct eplb_error error = {0};
    memset(&config, 0xff, sizeof config);
    memset(&defaults, 0, sizeof defaults);
    eplb_model_config_init(&defaults);
    if (parse(HEAD "}", &config, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    assert_memory_equal(&config, &defaults, sizeof config);
}

static void every_key_sets_its_member(void **state)
{
    (void)state;
    struct eplb_model_config config;
    struct eplb_error error = {0};
    if (parse(HEAD ",\"vocab_size\":300,\"hidden_size\":128,\"num_layers\":3,\"num_heads\":5,\"head_dim\":24,"
                   "\"kv_window\":99,\"num_experts\":32,\"top_k\":7,\"expert_hidden_size\":40,"
                   "\"shared_hidden_size\":0,\"seed\":9223372036854775807}",
              &config, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    assert_int_equal(config.vocab_size, 300);
    assert_int_equal(config.hidden_size, 128);
    assert_int_equal(config.num_layers, 3);
    assert_int_equal(config.num_heads, 5);
    assert_int_equal(config.head_dim, 24);
    assert_int_equal(config.kv_window, 99);
    assert_int_equal(config.num_experts, 32);
    assert_int_equal(config.top_k, 7);
    assert_int_equal(config.expert_hidden_size, 40);
    assert_int_equal(config.shared_hidden_size, 0);
    assert_true(config.seed == INT64_MAX);
}

static void other_documents_are_refused(void **state)
{
    (void)state;
    refuses("", "in is empty");
    refuses("[]", "the top of in is an array; it must be an object");
    refuses("{}", "in has no \"format\" key; read here: JSON with \"format\":\"eplb-model-1\"");
    refuses("{\"format\":\"eplb-load-1\"}",
            "in has the format \"eplb-load-1\"; read here: JSON with \"format\":\"eplb-model-1\"");
    refuses(HEAD ",\"top_k\":1,\"top_k\":2}",
            "in:1:42: duplicate object key near '\"top_k\"'; a key stands once in an object");
}

static void an_unknown_key_is_refused_with_the_nearest(void **state)
{
    (void)state;
    refuses(HEAD ",\"num_expert\":8}",
            "in: the top level has an unknown key \"num_expert\"; the nearest known one is \"num_experts\"");
    refuses(HEAD ",\"sead\":8}",
            "in: the top level has an unknown key \"sead\"; the nearest known one is \"seed\"");
}

static void values_are_integers_in_their_ranges(void **state)
{
    (void)state;
    refuses(HEAD ",\"num_layers\":1.5}",
            "in: \"num_layers\" is the real 1.5; it must be an integer of at most 31 bits");
    refuses(HEAD ",\"num_layers\":\"4\"}",
            "in: \"num_layers\" is a string; it must be an integer of at most 31 bits");
    refuses(HEAD ",\"num_layers\":null}",
            "in: \"num_layers\" is null; it must be an integer of at most 31 bits");
    refuses(HEAD ",\"num_layers\":2147483648}",
            "in: \"num_layers\" is 2147483648; it must be an integer of at most 31 bits");
    refuses(HEAD ",\"num_layers\":0}", "in: num_layers is 0; allowed is 1 to 1024");
    refuses(HEAD ",\"hidden_size\":60}", "in: hidden_size is 60; allowed is a multiple of 8 from 8 to 8192");
    refuses(HEAD ",\"top_k\":17}", "in: top_k is 17; with num_experts 16, allowed is 1 to 16");
    refuses(HEAD ",\"seed\":-1}", "in: \"seed\" is -1; it must be an integer from 0 to 2^63 - 1");
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct eplb_model_config config = {.num_layers = 77};
    struct eplb_error error = {0};
    assert_int_equal(eplb_model_file_read("no/such.json", &config, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "no/such.json"));
    assert_int_equal(config.num_layers, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_takes_its_default),
        cmocka_unit_test(every_key_sets_its_member),
        cmocka_unit_test(other_documents_are_refused),
        cmocka_unit_test(an_unknown_key_is_refused_with_the_nearest),
        cmocka_unit_test(values_are_integers_in_their_ranges),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
