/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * eplb run --record, and eplb replay --events on what it recorded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "support/material.h"

/** A run that rebalances a few times. Its processes meet in /dev/shm under a name of their own. */
static void record(void)
{
    char name[64];
    const char *const arguments[] = {
        "run",         "--enable_eplb", "--ep_size=2", "--eplb_update_interval_steps=30",
        "--steps=300", "--record=live", name,          "--summary_json=summary.json",
        NULL};
    struct command_run run;
    snprintf(name, sizeof name, "--instance_name=events-%ld", (long)getpid());
    unlink("live.events");
    unlink("live.ids.u8");
    unlink("live.json");
    command_run(arguments, &run);
    if (run.exit_code != 0)
        fail_msg("exit code %d: %s", run.exit_code, run.errors);
    command_free(&run);
}

static json_t *parse(const char *text)
{
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    return json;
}

static void a_recorded_run_is_identical(void **state)
{
    (void)state;
    const char *const as_json[] = {"replay", "--events=live.events", "--json", "--output=last.json", NULL};
    const char *const as_lines[] = {"replay", "--events=live.events", NULL};
    struct command_run run;
    record();
    command_run(as_json, &run);
    assert_int_equal(run.exit_code, 0);
    json_t *report = parse(run.output);
    assert_true(json_is_true(json_object_get(report, "identical")));
    assert_true(json_is_true(json_object_get(report, "complete")));
    assert_true(json_is_null(json_object_get(report, "difference")));
    assert_true(material_int(report, "policy_runs") > 2);
    int64_t committed = 0;
    size_t at;
    json_t *round;
    json_array_foreach(json_object_get(report, "rounds"), at, round) committed +=
        material_int(round, "committed");
    assert_true(committed > 0);
    json_decref(report);
    command_free(&run);
    char *placement = command_read_file("last.json");
    json_t *last = parse(placement);
    assert_int_equal(material_int(last, "ep_size"), 2);
    json_decref(last);
    free(placement);
    command_run(as_lines, &run);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.output, "  identical: yes\n"));
    command_free(&run);
}

static void another_threshold_differs(void **state)
{
    (void)state;
    const char *const arguments[] = {"replay", "--events=live.events",
                                     "--eplb_min_peak_load_improvement=0.99", NULL};
    struct command_run run;
    command_run(arguments, &run);
    assert_int_equal(run.exit_code, 3);
    assert_non_null(strstr(run.output, "  identical: no; record "));
    assert_non_null(strstr(run.output, "    recorded: layer "));
    assert_non_null(strstr(run.output, "    came:     layer "));
    assert_non_null(strstr(run.errors, "eplb: live.events: record "));
    command_free(&run);
}

static void a_part_is_replayed_and_a_damaged_one_refused(void **state)
{
    (void)state;
    const char *const part[] = {"replay", "--events=part.events", NULL};
    const char *const output[] = {"replay", "--events=part.events", "--output=part.events", NULL};
    struct command_run run;
    static char bytes[20000];
    FILE *file = fopen("live.events", "rb");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), sizeof bytes);
    fclose(file);
    command_write_file("part.events", bytes, sizeof bytes - 3);
    command_run(part, &run);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.output, "  identical: yes, as far as the recording goes\n"));
    assert_non_null(strstr(run.errors, "part.events is cut off after record "));
    command_free(&run);
    bytes[10000] ^= 4;
    command_write_file("part.events", bytes, sizeof bytes);
    command_run(part, &run);
    command_check_refused(&run, "part.events: record ");
    command_free(&run);
    command_run(output, &run);
    command_check_refused(&run, "--output=part.events is the file of --events");
    command_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_run_is_identical),
        cmocka_unit_test(another_threshold_differs),
        cmocka_unit_test(a_part_is_replayed_and_a_damaged_one_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
