/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/json_key.h"

static void expect_kind(const char *key, enum eplb_json_key expected)
{
    enum eplb_json_key kind = (enum eplb_json_key)99;
    struct eplb_error error = {0};
    if (eplb_json_key(key, "conf.json", &kind, &error) != EPLB_OK)
        fail_msg("%s: %s", key, error.text);
    if (kind != expected)
        fail_msg("%s is of kind %d, not %d", key, (int)kind, (int)expected);
}

static void expect_nearest(const char *key, const char *sentence)
{
    enum eplb_json_key kind = (enum eplb_json_key)99;
    struct eplb_error error = {0};
    assert_int_equal(eplb_json_key(key, "conf.json", &kind, &error), EPLB_INVALID);
    assert_int_equal(error.status, EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_int_equal(kind, 99);
}

static void known_keys_are_options(void **state)
{
    (void)state;
    expect_kind("enable_eplb", EPLB_KEY_OPTION);
    expect_kind("ep_size", EPLB_KEY_OPTION);
    expect_kind("instance_name", EPLB_KEY_OPTION);
    expect_kind("eplb_min_peak_load_improvement", EPLB_KEY_OPTION);
    expect_kind("eplb_shift_trigger", EPLB_KEY_OPTION); /* reserved, and ours by its prefix */
    expect_kind("sources", EPLB_KEY_SOURCES);
}

static void host_keys_are_left_alone(void **state)
{
    (void)state;
    static const char *const host[] = {"cp_size", "dp_size", "etp_size", "mp_size",
                                       "pp_size", "sp_size", "tp_size"};
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++)
        expect_kind(host[i], EPLB_KEY_HOST);
    static const char *const other[] = {"model",
                                        "max_tokens_per_batch",
                                        "block_size",
                                        "",
                                        "load",
                                        "output",
                                        "config_json_file",
                                        "help",
                                        "dump_config",
                                        "source",
                                        "enable_mtp",
                                        "world_size",
                                        "port",
                                        "enable_graph", /* reserved for later: the host may have one now */
                                        "enable_graphs",
                                        "eplb"};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        expect_kind(other[i], EPLB_KEY_OTHER);
}

static void misspelt_keys_are_refused_with_the_nearest(void **state)
{
    (void)state;
    expect_nearest("eplb_prepare_timout_seconds",
                   "unknown key \"eplb_prepare_timout_seconds\" (file conf.json); the "
                   "nearest known name is eplb_prepare_timeout_seconds");
    expect_nearest(
        "eplb_policy",
        "unknown key \"eplb_policy\" (file conf.json); the nearest known name is eplb_policy_kind");
    expect_nearest("ENABLE_EPLB",
                   "unknown key \"ENABLE_EPLB\" (file conf.json); the nearest known name is enable_eplb");
    expect_nearest("redundant_expert_nums",
                   "unknown key \"redundant_expert_nums\" (file conf.json); the nearest known name is "
                   "redundant_experts_num");
    expect_nearest("enable_epl\n",
                   "unknown key \"enable_epl?\" (file conf.json); the nearest known name is enable_eplb");
}

static void nearness_is_two_edits_and_a_fifth(void **state)
{
    (void)state;
    /* ep_size has 7 characters: one edit is near, two are not. */
    expect_nearest("ep_sise", "unknown key \"ep_sise\" (file conf.json); the nearest known name is ep_size");
    expect_nearest("epsize", "unknown key \"epsize\" (file conf.json); the nearest known name is ep_size");
    expect_kind("ep_sice_", EPLB_KEY_OTHER);
    expect_kind("epsise", EPLB_KEY_OTHER);
    /* enable_fused_mc2 has 16: two are near, three are not although three fifths would be. */
    expect_nearest(
        "enable_fusd_mc",
        "unknown key \"enable_fusd_mc\" (file conf.json); the nearest known name is enable_fused_mc2");
    expect_kind("enabl_fusd_mc", EPLB_KEY_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_keys_are_options),
        cmocka_unit_test(host_keys_are_left_alone),
        cmocka_unit_test(misspelt_keys_are_refused_with_the_nearest),
        cmocka_unit_test(nearness_is_two_edits_and_a_fifth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
