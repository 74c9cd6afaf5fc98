/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "config/pages.h"

struct page {
    char text[32768];
    size_t length;
};

static void put(void *context, const char *text, size_t length)
{
    struct page *page = context;
    assert_true(page->length + length < sizeof page->text);
    memcpy(page->text + page->length, text, length);
    page->length += length;
    page->text[page->length] = '\0';
}

static const struct eplb_command_doc plan_doc = {
    .command = EPLB_COMMAND_PLAN,
    .summary = "plan placements for recorded load",
    .usage = "eplb plan --load=FILE [options]\neplb plan --help",
    .description = "First line,\nsecond line.\n\n.Another paragraph with a back\\slash.",
    .examples = "eplb plan --load=a.json\n'quoted'",
};

static void dump_is(const struct eplb_options *options, const char *expected)
{
    struct page page = {.length = 0};
    struct eplb_text_sink sink = {.context = &page, .put = put};
    eplb_dump_write(options, &sink);
    assert_string_equal(page.text, expected);
}

static const char dump_of_the_defaults[] = "{\n"
                                           "  \"enable_eplb\": false,\n"
                                           "  \"redundant_experts_num\": 1,\n"
                                           "  \"eplb_update_interval\": 1000,\n"
                                           "  \"eplb_min_peak_load_improvement\": 0.05,\n"
                                           "  \"eplb_policy_kind\": \"balanced\",\n"
                                           "  \"eplb_use_decode_only_load\": false,\n"
                                           "  \"eplb_prepare_timeout_seconds\": 30,\n"
                                           "  \"expert_parallel_degree\": 0,\n"
                                           "  \"enable_fused_mc2\": -1,\n"
                                           "  \"ep_size\": 1,\n"
                                           "  \"eplb_update_interval_steps\": 0,\n"
                                           "  \"eplb_transfer_timeout_seconds\": 10,\n"
                                           "  \"eplb_transfer_chunk_bytes\": 4194304,\n"
                                           "  \"eplb_transfer_inflight_bytes\": 67108864,\n"
                                           "  \"eplb_max_moves_per_layer\": 0,\n"
                                           "  \"eplb_expert_bytes\": 0,\n"
                                           "  \"eplb_bandwidth_bytes_per_second\": 0,\n"
                                           "  \"eplb_max_break_even_steps\": 0,\n"
                                           "  \"eplb_num_groups\": 1,\n"
                                           "  \"eplb_num_nodes\": 1,\n"
                                           "  \"initial_placement\": \"\",\n"
                                           "  \"enable_schedule_overlap\": false,\n"
                                           "  \"instance_name\": \"eplb\",\n"
                                           "  \"process_group\": \"shm\",\n"
                                           "  \"rank_silence_timeout_seconds\": 30,\n"
                                           "  \"memory_limit\": 0,\n"
                                           "  \"eplb_replica_routing\": \"static\",\n"
                                           "  \"eplb_cost_per_active_slot\": 0,\n"
                                           "  \"eplb_cost_per_token\": 1,\n"
                                           "  \"node_of_rank\": \"\",\n"
                                           "  \"eplb_shift_trigger\": 0,\n"
                                           "  \"eplb_min_tokens_per_layer\": 0,\n"
                                           "  \"sources\": {\n"
                                           "    \"enable_eplb\": \"default\",\n"
                                           "    \"redundant_experts_num\": \"default\",\n"
                                           "    \"eplb_update_interval\": \"default\",\n"
                                           "    \"eplb_min_peak_load_improvement\": \"default\",\n"
                                           "    \"eplb_policy_kind\": \"default\",\n"
                                           "    \"eplb_use_decode_only_load\": \"default\",\n"
                                           "    \"eplb_prepare_timeout_seconds\": \"default\",\n"
                                           "    \"expert_parallel_degree\": \"default\",\n"
                                           "    \"enable_fused_mc2\": \"default\",\n"
                                           "    \"ep_size\": \"default\",\n"
                                           "    \"eplb_update_interval_steps\": \"default\",\n"
                                           "    \"eplb_transfer_timeout_seconds\": \"default\",\n"
                                           "    \"eplb_transfer_chunk_bytes\": \"default\",\n"
                                           "    \"eplb_transfer_inflight_bytes\": \"default\",\n"
                                           "    \"eplb_max_moves_per_layer\": \"default\",\n"
                                           "    \"eplb_expert_bytes\": \"default\",\n"
                                           "    \"eplb_bandwidth_bytes_per_second\": \"default\",\n"
                                           "    \"eplb_max_break_even_steps\": \"default\",\n"
                                           "    \"eplb_num_groups\": \"default\",\n"
                                           "    \"eplb_num_nodes\": \"default\",\n"
                                           "    \"initial_placement\": \"default\",\n"
                                           "    \"enable_schedule_overlap\": \"default\",\n"
                                           "    \"instance_name\": \"default\",\n"
                                           "    \"process_group\": \"default\",\n"
                                           "    \"rank_silence_timeout_seconds\": \"default\",\n"
                                           "    \"memory_limit\": \"default\",\n"
                                           "    \"eplb_replica_routing\": \"default\",\n"
                                           "    \"eplb_cost_per_active_slot\": \"default\",\n"
                                           "    \"eplb_cost_per_token\": \"default\",\n"
                                           "    \"node_of_rank\": \"default\",\n"
                                           "    \"eplb_shift_trigger\": \"default\",\n"
                                           "    \"eplb_min_tokens_per_layer\": \"default\"\n"
                                           "  }\n"
                                           "}\n";

static void the_dump_of_the_defaults(void **state)
{
    (void)state;
    struct eplb_options options;
    assert_int_equal(eplb_options_init(&options, sizeof options, NULL), EPLB_OK);
    dump_is(&options, dump_of_the_defaults);
}

static void the_dump_tells_sources_and_escapes(void **state)
{
    (void)state;
    struct eplb_source file = {EPLB_SOURCE_FILE, "a \"b\"\\\n\xff\xe4\xb8\x93.json"};
    struct eplb_source flag = {EPLB_SOURCE_FLAG, NULL};
    struct eplb_options options;
    assert_int_equal(eplb_options_init(&options, sizeof options, NULL), EPLB_OK);
    assert_int_equal(eplb_options_set_bool(&options, "enable_eplb", true, file, NULL), EPLB_OK);
    assert_int_equal(eplb_options_set(&options, "eplb_policy_kind", "a\"b\\c", flag, NULL), EPLB_OK);
    assert_int_equal(eplb_options_set(&options, "eplb_min_peak_load_improvement", "1e-7", flag, NULL),
                     EPLB_OK);
    struct page page = {.length = 0};
    struct eplb_text_sink sink = {.context = &page, .put = put};
    eplb_dump_write(&options, &sink);
    assert_non_null(strstr(page.text, "  \"enable_eplb\": true,\n"));
    assert_non_null(strstr(page.text, "  \"eplb_policy_kind\": \"a\\\"b\\\\c\",\n"));
    assert_non_null(strstr(page.text, "  \"eplb_min_peak_load_improvement\": 1e-07,\n"));
    assert_non_null(
        strstr(page.text, "    \"enable_eplb\": \"file a \\\"b\\\"\\\\\\u000a?\xe4\xb8\x93.json\",\n"));
    assert_non_null(strstr(page.text, "    \"eplb_policy_kind\": \"flag\",\n"));
}

static const char *help_of(const struct eplb_command_doc *doc, struct page *page)
{
    struct eplb_text_sink sink = {.context = page, .put = put};
    page->length = 0;
    eplb_help_write(doc, &sink);
    return page->text;
}

static void the_help_has_every_option_of_the_command(void **state)
{
    (void)state;
    static struct page page;
    const char *help = help_of(&plan_doc, &page);
    static const char begin[] = "eplb plan - plan placements for recorded load\n\nusage:\n"
                                "  eplb plan --load=FILE [options]\n  eplb plan --help\n\n"
                                "First line, second line.\n\n.Another paragraph with a back\\slash.\n\n"
                                "Command options:\n  --load=FILE\n      Recorded load to plan for";
    assert_memory_equal(help, begin, sizeof begin - 1);
    assert_non_null(strstr(help, "\nLoad balancing:\n  --enable_eplb\n"));
    assert_non_null(strstr(help,
                           "  --redundant_experts_num=N\n"
                           "      Redundant physical slots of each EP rank (per rank, not in total). Takes\n"
                           "      an integer in [0, 2147483647]. Default: 1.\n"));
    assert_non_null(strstr(help,
                           "  --keep_unpublished\n"
                           "      Write a layer's current placement where the gate does not publish its\n"
                           "      candidate. Default: false.\n"));
    assert_non_null(strstr(help, "\nExamples:\n  eplb plan --load=a.json\n  'quoted'\n"));
    const char *reserved = strstr(help, "\nReserved names, refused because they are not built yet:\n");
    assert_non_null(reserved);
    for (int i = 0; i < EPLB_NUM_OPTIONS; i++) {
        char name[64];
        bool built = i < EPLB_NUM_BUILT_OPTIONS;
        snprintf(name, sizeof name, built ? "\n  --%s" : "%s", eplb_option_row(i)->name);
        const char *found = strstr(built ? help : reserved, name);
        if (built && !eplb_option_is_of(eplb_option_row(i), EPLB_COMMAND_PLAN)) {
            if (found != NULL)
                fail_msg("%s is not of this command", name);
            continue;
        }
        if (found == NULL || (built && found > reserved))
            fail_msg("%s is not where it belongs", name);
    }
}

static void lines_of_the_help_fit_80_columns(void **state)
{
    (void)state;
    static struct page page;
    for (const char *line = help_of(&plan_doc, &page); *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (length > 80)
            fail_msg("%zu columns: %.*s", length, (int)length, line);
        line += length + 1;
    }
}

static void the_help_of_another_command_lacks_its_options(void **state)
{
    (void)state;
    static struct page page;
    struct eplb_command_doc doc = plan_doc;
    doc.command = EPLB_COMMAND_TOP;
    doc.examples = "";
    const char *help = help_of(&doc, &page);
    assert_memory_equal(help, "eplb - plan", 11);
    assert_null(strstr(help, "--keep_unpublished"));
    assert_null(strstr(help, "Command options:"));
    assert_null(strstr(help, "Examples:"));
    assert_null(strstr(help, "--ep_size"));
    assert_non_null(strstr(help, "--version"));
}

static void a_command_has_the_engine_s_options_that_name_it(void **state)
{
    (void)state;
    static struct page page;
    struct eplb_command_doc doc = plan_doc;
    doc.command = EPLB_COMMAND_SHM_CLEAN;
    const char *help = help_of(&doc, &page);
    assert_non_null(strstr(help,
                           "Command options:\n"
                           "  --shm_directory=DIR\n"
                           "      Directory of the shared-memory segments. Default: /dev/shm.\n"
                           "\nProcesses:\n"
                           "  --instance_name=NAME\n"
                           "      Keeps runs on one machine apart: the names of a run's shared memory carry\n"
                           "      it. Takes 1 to 32 letters, digits, '-' or '_'. Default: eplb.\n"
                           "\nGeneral:\n"
                           "  --help\n"));
    assert_null(strstr(help, "--ep_size"));
    assert_null(strstr(help, "--json"));
    assert_null(strstr(help, "not built yet"));
    struct eplb_text_sink sink = {.context = &page, .put = put};
    page.length = 0;
    eplb_man_write(&doc, "0.1.0", &sink);
    assert_non_null(strstr(page.text, ".TH \"eplb\\-shm\\-clean\" 1"));
    assert_null(strstr(page.text, "not built yet"));
    assert_null(strstr(page.text, "config_json_file"));
}

static void the_manual_page_is_roff(void **state)
{
    (void)state;
    static struct page page;
    struct eplb_text_sink sink = {.context = &page, .put = put};
    page.length = 0;
    eplb_man_write(&plan_doc, "0.1.0", &sink);
    static const char begin[] =
        ".TH \"eplb\\-plan\" 1 \"\" \"eplb 0.1.0\" \"User Commands\"\n.SH NAME\n"
        "eplb\\-plan \\- plan placements for recorded load\n.SH SYNOPSIS\n.nf\n"
        "eplb plan \\-\\-load=FILE [options]\neplb plan \\-\\-help\n.fi\n.SH DESCRIPTION\n"
        "First line,\nsecond line.\n.PP\n\\&.Another paragraph with a back\\eslash.\n.SH OPTIONS\n"
        ".SS Command options\n.TP\n\\fB\\-\\-load\\fR=\\fIFILE\\fR\n";
    assert_memory_equal(page.text, begin, sizeof begin - 1);
    assert_non_null(strstr(page.text, ".TP\n\\fB\\-\\-ep_size\\fR=\\fIN\\fR\n"));
    assert_non_null(strstr(page.text, ".TP\n\\fB\\-\\-enable_eplb\\fR\n"));
    assert_non_null(strstr(page.text, "Default: 1.\nFixed when the manager is created.\n"));
    assert_non_null(strstr(page.text, "Fixed when the worker starts.\n"));
    assert_non_null(strstr(page.text, ".SH RESERVED OPTIONS\n"));
    assert_non_null(strstr(page.text, ".TP\n\\fB\\-\\-enable_graph\\fR\nreplay captured decode graphs\n"));
    assert_non_null(strstr(page.text, ".SH EXIT STATUS\n.TP\n0\nok\n.TP\n1\ninternal error; "));
    assert_non_null(strstr(page.text, ".TP\n7\ninstance name in use\n.TP\n130, 143\nended by a signal\n"));
    assert_non_null(strstr(page.text, ".SH EXAMPLES\n.nf\neplb plan \\-\\-load=a.json\n\\&'quoted'\n.fi\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dump_of_the_defaults),
        cmocka_unit_test(the_dump_tells_sources_and_escapes),
        cmocka_unit_test(the_help_has_every_option_of_the_command),
        cmocka_unit_test(lines_of_the_help_fit_80_columns),
        cmocka_unit_test(the_help_of_another_command_lacks_its_options),
        cmocka_unit_test(a_command_has_the_engine_s_options_that_name_it),
        cmocka_unit_test(the_manual_page_is_roff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
