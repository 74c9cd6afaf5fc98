/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/option.h"
#include "eplb/options.h"
#include "shm/segment.h"
#include "support/point_locale.h"

static const struct eplb_source by_default = {EPLB_SOURCE_DEFAULT, NULL};
static const struct eplb_source by_flag = {EPLB_SOURCE_FLAG, NULL};
static const struct eplb_source by_file = {EPLB_SOURCE_FILE, "conf.json"};

static struct eplb_options defaults(void)
{
    struct eplb_options options;
    assert_int_equal(eplb_options_init(&options, sizeof options, NULL), EPLB_OK);
    return options;
}

static void must_set(struct eplb_options *options, const char *name, const char *value,
                     struct eplb_source source)
{
    struct eplb_error error = {0};
    if (eplb_options_set(options, name, value, source, &error) != EPLB_OK)
        fail_msg("%s=%s: %s", name, value, error.text);
}

/** Compares a refusal's status and sentence. */
#define EXPECT_REFUSED(call, expected_status, sentence)  \
    do {                                                 \
        struct eplb_error error = {0};                   \
        assert_int_equal(call, expected_status);         \
        assert_int_equal(error.status, expected_status); \
        assert_string_equal(error.text, sentence);       \
    } while (0)

static void defaults_are_the_documented_ones(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    assert_int_equal(options.size, sizeof options);
    assert_false(options.enable_eplb);
    assert_int_equal(options.redundant_experts_num, 1);
    assert_int_equal(options.eplb_update_interval, 1000);
    assert_true(options.eplb_min_peak_load_improvement == 0.05);
    assert_string_equal(options.eplb_policy_kind, "balanced");
    assert_false(options.eplb_use_decode_only_load);
    assert_int_equal(options.eplb_prepare_timeout_seconds, 30);
    assert_int_equal(options.expert_parallel_degree, 0);
    assert_int_equal(options.enable_fused_mc2, -1);
    assert_int_equal(options.ep_size, 1);
    assert_int_equal(options.eplb_update_interval_steps, 0);
    assert_int_equal(options.eplb_transfer_timeout_seconds, 10);
    assert_int_equal(options.eplb_transfer_chunk_bytes, 4 << 20);
    assert_int_equal(options.eplb_transfer_inflight_bytes, 64 << 20);
    assert_string_equal(options.initial_placement, "");
    assert_false(options.enable_schedule_overlap);
    assert_string_equal(options.instance_name, "eplb");
    assert_string_equal(options.process_group, "shm");
    assert_int_equal(options.rank_silence_timeout_seconds, 30);
    assert_int_equal(options.memory_limit, 0);
    assert_int_equal(options.eplb_max_moves_per_layer, 0);
    assert_int_equal(options.eplb_expert_bytes, 0);
    assert_int_equal(options.eplb_bandwidth_bytes_per_second, 0);
    assert_int_equal(options.eplb_max_break_even_steps, 0);
    assert_int_equal(options.eplb_num_groups, 1);
    assert_int_equal(options.eplb_num_nodes, 1);
    assert_true(options.eplb_shift_trigger == 0);
    assert_int_equal(options.eplb_min_tokens_per_layer, 0);
    for (int i = 0; i < EPLB_NUM_ENGINE_OPTIONS; i++)
        assert_false(eplb_options_was_given(&options, eplb_option_row(i)->name));
}

static void a_host_of_another_version_is_refused(void **state)
{
    (void)state;
    struct eplb_options options = {.size = 42};
    struct eplb_error error = {0};
    assert_int_equal(eplb_options_init(&options, sizeof options - 8, &error), EPLB_UNSUPPORTED);
    assert_int_equal(error.status, EPLB_UNSUPPORTED);
    assert_int_equal(options.size, 42);
}

static void every_option_is_set_in_its_own_field(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    must_set(&options, "enable_eplb", "true", by_flag);
    must_set(&options, "redundant_experts_num", "2", by_flag);
    must_set(&options, "eplb_update_interval", "300", by_flag);
    must_set(&options, "eplb_min_peak_load_improvement", "0.25", by_flag);
    must_set(&options, "eplb_policy_kind", "Greedy", by_flag);
    must_set(&options, "eplb_use_decode_only_load", "yes", by_flag);
    must_set(&options, "eplb_prepare_timeout_seconds", "7", by_flag);
    must_set(&options, "expert_parallel_degree", "2", by_flag);
    must_set(&options, "enable_fused_mc2", "0", by_flag);
    must_set(&options, "ep_size", "16", by_flag);
    must_set(&options, "eplb_update_interval_steps", "100", by_flag);
    must_set(&options, "eplb_transfer_timeout_seconds", "3", by_flag);
    must_set(&options, "eplb_transfer_chunk_bytes", "4294967296", by_flag);
    must_set(&options, "eplb_transfer_inflight_bytes", "4611686018427387904", by_flag);
    must_set(&options, "initial_placement", "a b.json", by_flag);
    must_set(&options, "enable_schedule_overlap", "true", by_flag);
    must_set(&options, "instance_name", "blue", by_flag);
    must_set(&options, "process_group", "shm", by_flag);
    must_set(&options, "rank_silence_timeout_seconds", "4", by_flag);
    must_set(&options, "memory_limit", "4611686018427387903", by_flag);
    must_set(&options, "eplb_max_moves_per_layer", "12", by_flag);
    must_set(&options, "eplb_expert_bytes", "44040192", by_flag);
    must_set(&options, "eplb_bandwidth_bytes_per_second", "25000000000", by_flag);
    must_set(&options, "eplb_max_break_even_steps", "5000", by_flag);
    must_set(&options, "eplb_num_groups", "8", by_flag);
    must_set(&options, "eplb_num_nodes", "4", by_flag);
    must_set(&options, "eplb_shift_trigger", "12.5", by_flag);
    must_set(&options, "eplb_min_tokens_per_layer", "5000000000", by_flag);
    assert_true(options.enable_eplb);
    assert_int_equal(options.redundant_experts_num, 2);
    assert_int_equal(options.eplb_update_interval, 300);
    assert_true(options.eplb_min_peak_load_improvement == 0.25);
    assert_string_equal(options.eplb_policy_kind, "Greedy");
    assert_true(options.eplb_use_decode_only_load);
    assert_int_equal(options.eplb_prepare_timeout_seconds, 7);
    assert_int_equal(options.expert_parallel_degree, 2);
    assert_int_equal(options.enable_fused_mc2, 0);
    assert_int_equal(options.ep_size, 16);
    assert_int_equal(options.eplb_update_interval_steps, 100);
    assert_int_equal(options.eplb_transfer_timeout_seconds, 3);
    assert_true(options.eplb_transfer_chunk_bytes == INT64_C(4294967296));
    assert_true(options.eplb_transfer_inflight_bytes == INT64_C(4611686018427387904));
    assert_string_equal(options.initial_placement, "a b.json");
    assert_true(options.enable_schedule_overlap);
    assert_string_equal(options.instance_name, "blue");
    assert_string_equal(options.process_group, "shm");
    assert_int_equal(options.rank_silence_timeout_seconds, 4);
    assert_true(options.memory_limit == INT64_C(4611686018427387903));
    assert_int_equal(options.eplb_max_moves_per_layer, 12);
    assert_int_equal(options.eplb_expert_bytes, 44040192);
    assert_true(options.eplb_bandwidth_bytes_per_second == INT64_C(25000000000));
    assert_int_equal(options.eplb_max_break_even_steps, 5000);
    assert_int_equal(options.eplb_num_groups, 8);
    assert_int_equal(options.eplb_num_nodes, 4);
    assert_true(options.eplb_shift_trigger == 12.5);
    assert_true(options.eplb_min_tokens_per_layer == INT64_C(5000000000));
}

static void a_flag_wins_over_the_file_in_any_order(void **state)
{
    (void)state;
    for (int flag_first = 0; flag_first < 2; flag_first++) {
        struct eplb_options options = defaults();
        if (flag_first)
            must_set(&options, "eplb_update_interval", "20", by_flag);
        assert_int_equal(eplb_options_set_int(&options, "eplb_update_interval", 300, by_file, NULL), EPLB_OK);
        assert_int_equal(eplb_options_set_int(&options, "redundant_experts_num", 2, by_file, NULL), EPLB_OK);
        if (!flag_first)
            must_set(&options, "eplb_update_interval", "20", by_flag);
        assert_int_equal(options.eplb_update_interval, 20);
        assert_int_equal(options.redundant_experts_num, 2);
        assert_int_equal(eplb_options_source(&options, "eplb_update_interval").kind, EPLB_SOURCE_FLAG);
        assert_int_equal(eplb_options_source(&options, "redundant_experts_num").kind, EPLB_SOURCE_FILE);
        assert_string_equal(eplb_options_source(&options, "redundant_experts_num").file, "conf.json");
    }
}

static void the_default_given_counts_as_given(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    must_set(&options, "eplb_update_interval", "1000", by_flag);
    assert_true(eplb_options_was_given(&options, "eplb_update_interval"));
    assert_false(eplb_options_was_given(&options, "ep_size"));
    assert_false(eplb_options_was_given(&options, "no_such_option"));
    assert_false(eplb_options_was_given(&options, "load"));
    assert_int_equal(eplb_options_set_int(&options, "eplb_update_interval", 300, by_file, NULL), EPLB_OK);
    assert_int_equal(options.eplb_update_interval, 1000);
}

static void a_host_changes_a_default(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    must_set(&options, "ep_size", "8", by_default);
    assert_int_equal(options.ep_size, 8);
    assert_false(eplb_options_was_given(&options, "ep_size"));
    must_set(&options, "ep_size", "4", by_file);
    must_set(&options, "ep_size", "2", by_default);
    assert_int_equal(options.ep_size, 4);
}

static void a_value_that_loses_is_still_checked(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    must_set(&options, "ep_size", "4", by_flag);
    EXPECT_REFUSED(eplb_options_set_int(&options, "ep_size", 0, by_file, &error), EPLB_INVALID,
                   "option ep_size takes an integer in [1, 2147483647], not 0 (file conf.json)");
    assert_int_equal(options.ep_size, 4);
}

static void check_thresholds(void)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0}, {"-0.0", 0}, {"0.05", 0.05}, {"5e-2", 0.05}, {"1", 1}, {"1.0", 1}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct eplb_options options = defaults();
        must_set(&options, "eplb_min_peak_load_improvement", good[i].text, by_flag);
        assert_true(options.eplb_min_peak_load_improvement == good[i].value);
        assert_false(signbit(options.eplb_min_peak_load_improvement));
    }
    static const char *const bad[] = {"nan",   "NaN",   "inf",   "-inf",   "1e400",  "1.0000001",
                                      "",      " 0.05", "0.05x", "0x1p-4", "1e-400", "-0.1",
                                      "+0.05", "0,05",  "0.05 ", "-1e-300"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct eplb_options options = defaults();
        char sentence[128];
        snprintf(sentence, sizeof sentence,
                 "option eplb_min_peak_load_improvement takes a number in [0, 1], not \"%s\" (flag)", bad[i]);
        EXPECT_REFUSED(eplb_options_set(&options, "eplb_min_peak_load_improvement", bad[i], by_flag, &error),
                       EPLB_INVALID, sentence);
        assert_true(options.eplb_min_peak_load_improvement == 0.05);
        assert_false(eplb_options_was_given(&options, "eplb_min_peak_load_improvement"));
    }
}

static void thresholds_are_finite_numbers_from_0_to_1(void **state)
{
    (void)state;
    check_thresholds();
}

static void thresholds_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    if (!point_locale_begin(POINT_LOCALE_COMMA))
        skip();
    check_thresholds();
    point_locale_end();
}

static void bools_take_the_words_of_gflags(void **state)
{
    (void)state;
    static const char *const words[][5] = {{"false", "0", "f", "NO", "n"}, {"true", "1", "T", "yes", "Y"}};
    for (int truth = 0; truth < 2; truth++) {
        for (size_t i = 0; i < 5; i++) {
            struct eplb_options options = defaults();
            options.enable_eplb = !truth;
            must_set(&options, "enable_eplb", words[truth][i], by_flag);
            assert_int_equal(options.enable_eplb, truth);
        }
    }
    struct eplb_options options = defaults();
    EXPECT_REFUSED(eplb_options_set(&options, "enable_eplb", "on", by_flag, &error), EPLB_INVALID,
                   "option enable_eplb takes true or false, not \"on\" (flag)");
    EXPECT_REFUSED(eplb_options_set(&options, "enable_eplb", "", by_flag, &error), EPLB_INVALID,
                   "option enable_eplb takes true or false, not \"\" (flag)");
}

static void integers_stay_in_their_range(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    must_set(&options, "redundant_experts_num", "2147483647", by_flag);
    assert_int_equal(options.redundant_experts_num, 2147483647);
    EXPECT_REFUSED(eplb_options_set(&options, "redundant_experts_num", "-1", by_flag, &error), EPLB_INVALID,
                   "option redundant_experts_num takes an integer in [0, 2147483647], not \"-1\" (flag)");
    EXPECT_REFUSED(
        eplb_options_set(&options, "redundant_experts_num", "2147483648", by_flag, &error), EPLB_INVALID,
        "option redundant_experts_num takes an integer in [0, 2147483647], not \"2147483648\" (flag)");
    EXPECT_REFUSED(eplb_options_set(&options, "eplb_update_interval", "1.5", by_flag, &error), EPLB_INVALID,
                   "option eplb_update_interval takes an integer in [0, 2147483647], not \"1.5\" (flag)");
    EXPECT_REFUSED(
        eplb_options_set(&options, "eplb_prepare_timeout_seconds", "0", by_flag, &error), EPLB_INVALID,
        "option eplb_prepare_timeout_seconds takes an integer in [1, 2147483647], not \"0\" (flag)");
    EXPECT_REFUSED(eplb_options_set(&options, "enable_fused_mc2", "3", by_flag, &error), EPLB_INVALID,
                   "option enable_fused_mc2 takes -1, 0, 1 or 2, not \"3\" (flag)");
    EXPECT_REFUSED(eplb_options_set(&options, "expert_parallel_degree", "-1", by_flag, &error), EPLB_INVALID,
                   "option expert_parallel_degree takes 0, 1 or 2, not \"-1\" (flag)");
    EXPECT_REFUSED(
        eplb_options_set_int(&options, "ep_size", INT64_MAX, by_file, &error), EPLB_INVALID,
        "option ep_size takes an integer in [1, 2147483647], not 9223372036854775807 (file conf.json)");
}

static void json_values_have_the_type_of_the_option(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    EXPECT_REFUSED(
        eplb_options_set_real(&options, "eplb_update_interval", 300.0, by_file, &error), EPLB_INVALID,
        "option eplb_update_interval takes an integer in [0, 2147483647], not 300.0 (file conf.json)");
    EXPECT_REFUSED(
        eplb_options_set_real(&options, "eplb_update_interval", 1.5, by_file, &error), EPLB_INVALID,
        "option eplb_update_interval takes an integer in [0, 2147483647], not 1.5 (file conf.json)");
    EXPECT_REFUSED(
        eplb_options_set_text(&options, "eplb_update_interval", "300", by_file, &error), EPLB_INVALID,
        "option eplb_update_interval takes an integer in [0, 2147483647], not the text \"300\" (file "
        "conf.json)");
    EXPECT_REFUSED(eplb_options_set_bool(&options, "ep_size", true, by_file, &error), EPLB_INVALID,
                   "option ep_size takes an integer in [1, 2147483647], not true (file conf.json)");
    EXPECT_REFUSED(eplb_options_set_int(&options, "enable_eplb", 1, by_file, &error), EPLB_INVALID,
                   "option enable_eplb takes true or false, not 1 (file conf.json)");
    EXPECT_REFUSED(eplb_options_set_text(&options, "enable_eplb", "true", by_file, &error), EPLB_INVALID,
                   "option enable_eplb takes true or false, not the text \"true\" (file conf.json)");
    EXPECT_REFUSED(eplb_options_set_int(&options, "eplb_policy_kind", 3, by_file, &error), EPLB_INVALID,
                   "option eplb_policy_kind takes a name of 1 to 63 printable ASCII characters, not 3 (file "
                   "conf.json)");
    EXPECT_REFUSED(eplb_options_refuse("ep_size", "null", by_file, &error), EPLB_INVALID,
                   "option ep_size takes an integer in [1, 2147483647], not null (file conf.json)");
    assert_int_equal(eplb_options_set_bool(&options, "enable_eplb", true, by_file, NULL), EPLB_OK);
    assert_int_equal(eplb_options_set_text(&options, "eplb_policy_kind", "greedy", by_file, NULL), EPLB_OK);
    assert_true(options.enable_eplb);
    assert_string_equal(options.eplb_policy_kind, "greedy");
}

static void json_reals_are_checked_like_texts(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY, 1.0000001, -0.1, 5e-324};
    struct eplb_options options = defaults();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(
            eplb_options_set_real(&options, "eplb_min_peak_load_improvement", bad[i], by_file, NULL),
            EPLB_INVALID);
    EXPECT_REFUSED(
        eplb_options_set_real(&options, "eplb_min_peak_load_improvement", 1.25, by_file, &error),
        EPLB_INVALID,
        "option eplb_min_peak_load_improvement takes a number in [0, 1], not 1.25 (file conf.json)");
    assert_true(options.eplb_min_peak_load_improvement == 0.05);
    assert_int_equal(eplb_options_set_real(&options, "eplb_min_peak_load_improvement", -0.0, by_file, NULL),
                     EPLB_OK);
    assert_false(signbit(options.eplb_min_peak_load_improvement));
    assert_int_equal(eplb_options_set_int(&options, "eplb_min_peak_load_improvement", 1, by_file, NULL),
                     EPLB_OK);
    assert_true(options.eplb_min_peak_load_improvement == 1.0);
    assert_int_equal(eplb_options_set_int(&options, "eplb_min_peak_load_improvement", 2, by_file, NULL),
                     EPLB_INVALID);
}

static void names_fit_their_buffer(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    char name[EPLB_OPTION_TEXT + 1];
    memset(name, 'p', sizeof name);
    name[63] = '\0';
    must_set(&options, "eplb_policy_kind", name, by_flag);
    assert_string_equal(options.eplb_policy_kind, name);
    name[63] = 'p';
    name[64] = '\0';
    assert_int_equal(eplb_options_set(&options, "eplb_policy_kind", name, by_flag, NULL), EPLB_INVALID);
    assert_int_equal(eplb_options_set(&options, "eplb_policy_kind", "a\nb", by_flag, NULL), EPLB_INVALID);
    assert_int_equal(eplb_options_set(&options, "eplb_policy_kind", "\xc3\xa9", by_flag, NULL), EPLB_INVALID);
    must_set(&options, "eplb_policy_kind", "flat", by_flag);
    assert_string_equal(options.eplb_policy_kind, "flat");
}

#define RULE_OF_INSTANCES "option instance_name takes 1 to 32 letters, digits, '-' or '_', not "

static void instance_names_are_words(void **state)
{
    (void)state;
    static const char *const good[] = {
        "a", "Z", "0", "-", "_", "run-2_B", "12345678901234567890123456789012"};
    static const char *const bad[] = {"",
                                      ".",
                                      "a.b",
                                      "a/b",
                                      "..",
                                      "a b",
                                      "a\n",
                                      "\xc3\xa9",
                                      "a:1",
                                      "a|b",
                                      "123456789012345678901234567890123"};
    struct eplb_options options = defaults();
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        must_set(&options, "instance_name", good[i], by_flag);
        assert_string_equal(options.instance_name, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(eplb_options_set(&options, "instance_name", bad[i], by_flag, NULL), EPLB_INVALID);
    EXPECT_REFUSED(eplb_options_set(&options, "instance_name", "a/b", by_flag, &error), EPLB_INVALID,
                   RULE_OF_INSTANCES "\"a/b\" (flag)");
    EXPECT_REFUSED(eplb_options_set_int(&options, "instance_name", 7, by_file, &error), EPLB_INVALID,
                   RULE_OF_INSTANCES "7 (file conf.json)");
    assert_string_equal(options.instance_name, "12345678901234567890123456789012");
    options.instance_name[32] = '3';
    EXPECT_REFUSED(eplb_options_check(&options, 8, 0, &error), EPLB_INVALID,
                   RULE_OF_INSTANCES "the text \"123456789012345678901234567890123\" (flag)");
}

/* The table cannot ask those who make the names, as it is below them. */
static void instance_names_are_what_shared_memory_takes(void **state)
{
    (void)state;
    char word[42];
    for (int letter = 1; letter < 256; letter++) {
        snprintf(word, sizeof word, "a%cz", letter);
        if (eplb_is_word(word) != (eplb_instance_name_check(word, NULL) == EPLB_OK))
            fail_msg("the two judge letter %d differently", letter);
    }
    for (size_t length = 0; length < sizeof word; length++) {
        memset(word, 'w', sizeof word);
        word[length] = '\0';
        if (eplb_is_word(word) != (eplb_instance_name_check(word, NULL) == EPLB_OK))
            fail_msg("the two judge %zu letters differently", length);
    }
}

static void wide_integers_keep_every_digit(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    /* A double could not tell this one from the limit. */
    EXPECT_REFUSED(eplb_options_set(&options, "memory_limit", "4611686018427387905", by_flag, &error),
                   EPLB_INVALID,
                   "option memory_limit takes an integer in [0, 4611686018427387904], not "
                   "\"4611686018427387905\" (flag)");
    EXPECT_REFUSED(
        eplb_options_set_int(&options, "memory_limit", -1, by_file, &error), EPLB_INVALID,
        "option memory_limit takes an integer in [0, 4611686018427387904], not -1 (file conf.json)");
    EXPECT_REFUSED(eplb_options_set_real(&options, "memory_limit", 5, by_file, &error), EPLB_INVALID,
                   "option memory_limit takes an integer in [0, 4611686018427387904], not 5.0 (file "
                   "conf.json)");
    assert_int_equal(eplb_options_set_int(&options, "memory_limit", INT64_C(9007199254740993), by_file, NULL),
                     EPLB_OK);
    assert_true(options.memory_limit == INT64_C(9007199254740993));
}

static void paths_are_copied_whole_or_refused(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    char path[EPLB_OPTION_PATH + 1];
    memset(path, 'p', sizeof path);
    path[EPLB_OPTION_PATH] = '\0';
    assert_int_equal(eplb_options_set(&options, "initial_placement", path, by_flag, NULL), EPLB_INVALID);
    assert_string_equal(options.initial_placement, "");
    path[EPLB_OPTION_PATH - 1] = '\0';
    must_set(&options, "initial_placement", path, by_file);
    assert_string_equal(options.initial_placement, path);
    must_set(&options, "initial_placement", "", by_flag);
    assert_string_equal(options.initial_placement, "");
    EXPECT_REFUSED(eplb_options_set_int(&options, "initial_placement", 3, by_file, &error), EPLB_INVALID,
                   "option initial_placement takes the name of a file, or nothing, not 3 (file conf.json)");
}

static void process_groups_that_are_not_built_are_refused(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    EXPECT_REFUSED(eplb_options_set(&options, "process_group", "mpi", by_flag, &error), EPLB_INVALID,
                   "option process_group takes shm (there is no mpi, ucx, nccl or hccl yet), not \"mpi\" "
                   "(flag)");
}

static void timeouts_and_sizes_of_transfers_fit_together(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    struct eplb_error error = {0};
    must_set(&options, "rank_silence_timeout_seconds", "10", by_flag);
    assert_int_equal(eplb_options_check(&options, 8, 0, &error), EPLB_INVALID);
    assert_string_equal(
        error.text,
        "rank_silence_timeout_seconds 10 (flag) must exceed eplb_transfer_timeout_seconds 10 (default)");
    must_set(&options, "rank_silence_timeout_seconds", "11", by_flag);
    assert_int_equal(eplb_options_check(&options, 8, 0, NULL), EPLB_OK);
    must_set(&options, "eplb_transfer_inflight_bytes", "4194303", by_file);
    assert_int_equal(eplb_options_check(&options, 8, 0, &error), EPLB_INVALID);
    assert_string_equal(error.text,
                        "eplb_transfer_inflight_bytes 4194303 (file conf.json) is below "
                        "eplb_transfer_chunk_bytes 4194304 (default): one message must be allowed");
}

static void unknown_and_reserved_names_are_refused(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    EXPECT_REFUSED(
        eplb_options_set(&options, "eplb_prepare_timout_seconds", "5", by_file, &error), EPLB_USAGE,
        "unknown option \"eplb_prepare_timout_seconds\" (file conf.json); the nearest known name is "
        "eplb_prepare_timeout_seconds");
    EXPECT_REFUSED(eplb_options_set_int(&options, "load", 5, by_file, &error), EPLB_USAGE,
                   "unknown option \"load\" (file conf.json); the nearest known name is ep_size");
    EXPECT_REFUSED(
        eplb_options_set_text(&options, "on_rank_failure", "stop", by_file, &error), EPLB_UNSUPPORTED,
        "option on_rank_failure is reserved (what a rank's death means) and not built yet; leave it "
        "out (file conf.json)");
    EXPECT_REFUSED(
        eplb_options_refuse("max_graph_batch", "null", by_file, &error), EPLB_UNSUPPORTED,
        "option max_graph_batch is reserved (largest captured decode batch) and not built yet; leave it out "
        "(file conf.json)");
    struct eplb_options untouched = defaults();
    assert_memory_equal(&options.sources, &untouched.sources, sizeof options.sources);
}

static void every_plus_name_is_reserved(void **state)
{
    (void)state;
    static const char *const names[] = {"eplb_max_bytes_per_step", "on_rank_failure", "enable_graph",
                                        "max_graph_batch"};
    struct eplb_options options = defaults();
    assert_int_equal(sizeof names / sizeof names[0], EPLB_NUM_OPTIONS - EPLB_NUM_BUILT_OPTIONS);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(eplb_options_set(&options, names[i], "1", by_flag, NULL), EPLB_UNSUPPORTED);
}

static void replica_routings_are_known_by_name(void **state)
{
    static const char *const names[] = {"static", "local", "weighted", "adaptive", "batch"};
    struct eplb_options options = defaults();
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        must_set(&options, "eplb_replica_routing", names[i], by_flag);
        assert_string_equal(options.eplb_replica_routing, names[i]);
    }
    EXPECT_REFUSED(eplb_options_set(&options, "eplb_replica_routing", "weightd", by_flag, &error),
                   EPLB_INVALID,
                   "option eplb_replica_routing takes static, local, weighted, adaptive or batch, not "
                   "\"weightd\" (flag)");
    EXPECT_REFUSED(eplb_options_set(&options, "eplb_cost_per_token", "0", by_flag, &error), EPLB_INVALID,
                   "option eplb_cost_per_token takes an integer in [1, 1000000], not \"0\" (flag)");
}

static void a_long_value_is_cut_in_the_sentence(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    struct eplb_error error = {0};
    char value[5001];
    memset(value, '9', 5000);
    value[5000] = '\0';
    assert_int_equal(eplb_options_set(&options, "ep_size", value, by_flag, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "9999...\" (flag)"));
    assert_true(strlen(error.text) < 160);
}

/** Checks options against a model; "" is legal. */
static void expect_verdict(int ep_size, int redundant, int64_t num_experts, int64_t num_workers, bool enable,
                           const char *sentence)
{
    struct eplb_options options = defaults();
    struct eplb_error error = {0};
    assert_int_equal(eplb_options_set_int(&options, "ep_size", ep_size, by_flag, NULL), EPLB_OK);
    assert_int_equal(eplb_options_set_int(&options, "redundant_experts_num", redundant, by_file, NULL),
                     EPLB_OK);
    assert_int_equal(eplb_options_set_bool(&options, "enable_eplb", enable, by_flag, NULL), EPLB_OK);
    enum eplb_status status = eplb_options_check(&options, num_experts, num_workers, &error);
    assert_string_equal(error.text, sentence);
    assert_int_equal(status, sentence[0] == '\0' ? EPLB_OK : EPLB_INVALID);
}

static void options_are_checked_against_the_model(void **state)
{
    (void)state;
    expect_verdict(2, 4, 8, 2, true, "");
    expect_verdict(4, 1, 12, 0, true, "");
    expect_verdict(
        2, 5, 8, 2, true,
        "redundant_experts_num 5 (file conf.json) gives a rank 9 slots for 8 experts (num_experts 8 / "
        "ep_size 2 (flag) + redundancy): no rank may hold an expert twice, so at most 4 is allowed");
    expect_verdict(2, 5, 8, 2, false, "");
    expect_verdict(2, INT32_MAX, 8, 2, false, "");
    expect_verdict(
        3, 1, 8, 3, true,
        "num_experts 8 is no multiple of ep_size 3 (flag): every rank must own the same number of experts");
    expect_verdict(
        3, 1, 8, 3, false,
        "num_experts 8 is no multiple of ep_size 3 (flag): every rank must own the same number of experts");
    expect_verdict(
        8, 1, 12, 8, true,
        "num_experts 12 is no multiple of ep_size 8 (flag): every rank must own the same number of experts");
    expect_verdict(1, 1, 8, 1, true, "enable_eplb true (flag) needs ep_size >= 2, not 1 (flag)");
    expect_verdict(1, 1, 8, 1, false, "");
    expect_verdict(
        4, 1, 8, 2, false,
        "ep_size 4 (flag) differs from the number of workers, which is 2: each worker is one EP rank");
    expect_verdict(4, 1, 0, 4, true, "a MoE layer needs at least 1 expert, not 0");
}

static void fields_set_directly_are_checked_too(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    options.eplb_min_peak_load_improvement = NAN;
    EXPECT_REFUSED(eplb_options_check(&options, 8, 0, &error), EPLB_INVALID,
                   "option eplb_min_peak_load_improvement takes a number in [0, 1], not nan (default)");
    options = defaults();
    options.redundant_experts_num = -1;
    EXPECT_REFUSED(eplb_options_check(&options, 8, 0, &error), EPLB_INVALID,
                   "option redundant_experts_num takes an integer in [0, 2147483647], not -1 (default)");
    options = defaults();
    options.ep_size = 0;
    EXPECT_REFUSED(eplb_options_check(&options, 8, 0, &error), EPLB_INVALID,
                   "option ep_size takes an integer in [1, 2147483647], not 0 (default)");
}

static void without_eplb_there_are_no_redundant_slots(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    must_set(&options, "redundant_experts_num", "3", by_flag);
    assert_int_equal(eplb_options_effective_redundancy(&options), 0);
    must_set(&options, "enable_eplb", "1", by_flag);
    assert_int_equal(eplb_options_effective_redundancy(&options), 3);
}

static void fused_mc2_is_resolved(void **state)
{
    (void)state;
    static const int expected[3][4] = {{0, 0, 1, 2}, {0, 0, 1, 2}, {1, 0, 1, 2}};
    for (int degree = 0; degree <= 2; degree++) {
        for (int mode = -1; mode <= 2; mode++) {
            struct eplb_options options = defaults();
            options.expert_parallel_degree = degree;
            options.enable_fused_mc2 = mode;
            assert_int_equal(eplb_options_fused_mc2(&options), expected[degree][mode + 1]);
        }
    }
}

static void options_without_effect_are_listed(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    char text[256] = "x";
    assert_int_equal(eplb_options_without_effect(&options, text, sizeof text), 0);
    assert_string_equal(text, "");
    must_set(&options, "eplb_update_interval", "1000", by_flag);
    must_set(&options, "redundant_experts_num", "2", by_file);
    must_set(&options, "ep_size", "2", by_flag);
    must_set(&options, "enable_fused_mc2", "1", by_flag);
    must_set(&options, "enable_eplb", "false", by_flag);
    static const char expected[] = "redundant_experts_num (file conf.json), eplb_update_interval (flag)";
    assert_int_equal(eplb_options_without_effect(&options, text, sizeof text), sizeof expected - 1);
    assert_string_equal(text, expected);
    assert_int_equal(eplb_options_without_effect(&options, NULL, 0), sizeof expected - 1);
    for (size_t capacity = 1; capacity < sizeof expected; capacity++) {
        memset(text, 'x', sizeof text);
        assert_int_equal(eplb_options_without_effect(&options, text, capacity), sizeof expected - 1);
        assert_int_equal(strlen(text), capacity - 1);
        assert_memory_equal(text, expected, capacity - 1);
    }
    must_set(&options, "enable_eplb", "true", by_flag);
    assert_int_equal(eplb_options_without_effect(&options, text, sizeof text), 0);
}

static void take_line(void *context, const struct eplb_log_record *record)
{
    assert_int_equal(record->level, EPLB_LOG_INFO);
    assert_true(eplb_log_format(record, context, 2048) < 2048);
}

static void the_line_at_start_has_every_value_and_source(void **state)
{
    (void)state;
    struct eplb_options options = defaults();
    assert_int_equal(eplb_options_set_bool(&options, "enable_eplb", true, by_file, NULL), EPLB_OK);
    assert_int_equal(eplb_options_set_int(&options, "eplb_update_interval", 300, by_file, NULL), EPLB_OK);
    assert_int_equal(eplb_options_set_int(&options, "redundant_experts_num", 2, by_file, NULL), EPLB_OK);
    must_set(&options, "eplb_policy_kind", "a|b", by_flag);
    char line[2048] = "";
    struct eplb_log_sink sink = {.size = sizeof sink, .context = line, .write = take_line};
    eplb_options_log(&options, &sink);
    assert_string_equal(
        line, "EPLB options | enable_eplb=true (file conf.json) | redundant_experts_num=2 (file "
              "conf.json) | eplb_update_interval=300 (file conf.json) | "
              "eplb_min_peak_load_improvement=0.05 (default) | eplb_policy_kind=a/b (flag) | "
              "eplb_use_decode_only_load=false (default) | eplb_prepare_timeout_seconds=30 "
              "(default) | expert_parallel_degree=0 (default) | enable_fused_mc2=-1 (default) | "
              "ep_size=1 (default) | eplb_update_interval_steps=0 (default) | "
              "eplb_transfer_timeout_seconds=10 (default) | eplb_transfer_chunk_bytes=4194304 "
              "(default) | eplb_transfer_inflight_bytes=67108864 (default) | eplb_max_moves_per_layer=0 "
              "(default) | eplb_expert_bytes=0 (default) | eplb_bandwidth_bytes_per_second=0 (default) | "
              "eplb_max_break_even_steps=0 (default) | eplb_num_groups=1 (default) | "
              "eplb_num_nodes=1 (default) | initial_placement= "
              "(default) | enable_schedule_overlap=false (default) | instance_name=eplb (default) | "
              "process_group=shm (default) | rank_silence_timeout_seconds=30 (default) | "
              "memory_limit=0 (default) | eplb_replica_routing=static (default) | "
              "eplb_cost_per_active_slot=0 (default) | eplb_cost_per_token=1 (default) | "
              "node_of_rank= (default) | eplb_shift_trigger=0 (default) | "
              "eplb_min_tokens_per_layer=0 (default)");
    eplb_options_log(&options, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_documented_ones),
        cmocka_unit_test(a_host_of_another_version_is_refused),
        cmocka_unit_test(every_option_is_set_in_its_own_field),
        cmocka_unit_test(a_flag_wins_over_the_file_in_any_order),
        cmocka_unit_test(the_default_given_counts_as_given),
        cmocka_unit_test(a_host_changes_a_default),
        cmocka_unit_test(a_value_that_loses_is_still_checked),
        cmocka_unit_test(thresholds_are_finite_numbers_from_0_to_1),
        cmocka_unit_test(thresholds_do_not_depend_on_the_locale),
        cmocka_unit_test(bools_take_the_words_of_gflags),
        cmocka_unit_test(integers_stay_in_their_range),
        cmocka_unit_test(json_values_have_the_type_of_the_option),
        cmocka_unit_test(json_reals_are_checked_like_texts),
        cmocka_unit_test(names_fit_their_buffer),
        cmocka_unit_test(instance_names_are_words),
        cmocka_unit_test(instance_names_are_what_shared_memory_takes),
        cmocka_unit_test(wide_integers_keep_every_digit),
        cmocka_unit_test(paths_are_copied_whole_or_refused),
        cmocka_unit_test(process_groups_that_are_not_built_are_refused),
        cmocka_unit_test(timeouts_and_sizes_of_transfers_fit_together),
        cmocka_unit_test(unknown_and_reserved_names_are_refused),
        cmocka_unit_test(every_plus_name_is_reserved),
        cmocka_unit_test(replica_routings_are_known_by_name),
        cmocka_unit_test(a_long_value_is_cut_in_the_sentence),
        cmocka_unit_test(options_are_checked_against_the_model),
        cmocka_unit_test(fields_set_directly_are_checked_too),
        cmocka_unit_test(without_eplb_there_are_no_redundant_slots),
        cmocka_unit_test(fused_mc2_is_resolved),
        cmocka_unit_test(options_without_effect_are_listed),
        cmocka_unit_test(the_line_at_start_has_every_value_and_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
