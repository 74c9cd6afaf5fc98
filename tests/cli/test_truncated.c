/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Every file that the command reads, cut at every byte: each prefix gets a sentence.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cli/command.h"

#define LOAD_ARGUMENT "--load=load.json"

static const char load_json[] = "{\"format\": \"eplb-load-1\", \"num_experts\": 2, \"top_k\": 1,\n"
                                "\"layer_ids\": [3, 12],\n"
                                "\"steps\": [{\"label\": \"\\u00e9\", \"load\": [[10, 0], [1, 400]]}]}";

static const char placement_json[] =
    "{\"format\": \"eplb-placement-1\", \"num_experts\": 2, \"ep_size\": 2,\n"
    "\"slots_per_rank\": 2, \"layer_ids\": [3, 12],\n"
    "\"expert_ids\": [[[0, 1], [1, 0]], [[0, 1], [0, 1]]],\n"
    "\"policy\": \"x\", \"predicted\": [{\"peak\": 2.5}]}";

static const char config_json[] = "{\"enable_eplb\": true, \"eplb_min_peak_load_improvement\": 5e-2,\n"
                                  "\"host\": {\"batch\": [64]}, \"ep_size\": 2}";

static const char load_csv[] = "step,label,layer,e0,e1,e2,e3\n0,a,3,10,0,7,300";

static const char load_npy[] = "\223NUMPY\1\0\75\0"
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2), } \n"
                               "\1\0\0\0\2\0\0\0";

static const char ids_json[] =
    "{\"format\": \"eplb-ids-1\", \"axes\": [\"token\", \"layer\", \"k\"], \"shape\": [3, 2, 2],\n"
    "\"dtype\": \"uint8\", \"num_experts\": 4, \"top_k\": 2, \"kind\": \"prefill\"}";

static const char ids_u8[] = "\1\2\3\1\2\1\3\2\1\3\2\3";

static void run_prefix(const char *name, const char *bytes, size_t size, const char *const *arguments,
                       struct command_run *run)
{
    command_write_file(name, bytes, size);
    command_run(arguments, run);
}

/** Cuts the file at every byte before `size`, then checks that the whole is read. */
static void refuse_prefixes(const char *name, const char *bytes, size_t size, const char *const *arguments)
{
    struct command_run run;
    for (size_t length = 0; length < size; length++) {
        run_prefix(name, bytes, length, arguments, &run);
        if (run.exit_code != 2)
            print_error("%s, cut to %zu bytes:\n", name, length);
        command_check_refused(&run, name);
        command_free(&run);
    }
    run_prefix(name, bytes, size, arguments, &run);
    if (run.exit_code != 0)
        fail_msg("the whole of %s: %s", name, run.errors);
    command_free(&run);
    print_message("%s: %zu prefixes\n", name, size);
}

static void cut_load(void **state)
{
    (void)state;
    refuse_prefixes("cut.json", load_json, strlen(load_json),
                    (const char *const[]){"plan", "--load=cut.json", "--ep_size=2", NULL});
}

static void cut_placement(void **state)
{
    (void)state;
    command_write_file("load.json", load_json, strlen(load_json));
    refuse_prefixes(
        "placement.json", placement_json, strlen(placement_json),
        (const char *const[]){"plan", LOAD_ARGUMENT, "--ep_size=2", "--current=placement.json", NULL});
}

static void cut_config(void **state)
{
    (void)state;
    command_write_file("load.json", load_json, strlen(load_json));
    refuse_prefixes("config.json", config_json, strlen(config_json),
                    (const char *const[]){"plan", LOAD_ARGUMENT, "--config_json_file=config.json", NULL});
}

static void cut_array(void **state)
{
    (void)state;
    refuse_prefixes("cut.npy", load_npy, sizeof load_npy - 1,
                    (const char *const[]){"plan", "--load=cut.npy", "--ep_size=2", NULL});
}

/** Of routed ids both files, each beside the whole other one. */
static void cut_ids(void **state)
{
    (void)state;
    const char *const arguments[] = {"plan", "--load=cut.ids.u8", "--ep_size=2", NULL};
    command_write_file("cut.ids.u8", ids_u8, sizeof ids_u8 - 1);
    refuse_prefixes("cut.json", ids_json, strlen(ids_json), arguments);
    refuse_prefixes("cut.ids.u8", ids_u8, sizeof ids_u8 - 1, arguments);
}

/** A table that ends inside its last count cannot be told from a whole one: it is read, with a warning. */
static void cut_table(void **state)
{
    (void)state;
    const char *const arguments[] = {"plan", "--load=cut.csv", "--ep_size=2", NULL};
    size_t last_count = strlen(load_csv) - strlen("300");
    for (size_t length = 0; length <= strlen(load_csv); length++) {
        struct command_run run;
        run_prefix("cut.csv", load_csv, length, arguments, &run);
        if (length <= last_count)
            command_check_refused(&run, "cut.csv");
        else if (run.exit_code != 0 || strstr(run.errors, "the last line of cut.csv has no newline") == NULL)
            fail_msg("cut.csv, %zu bytes: exit code %d: %s", length, run.exit_code, run.errors);
        command_free(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_load),  cmocka_unit_test(cut_placement), cmocka_unit_test(cut_config),
        cmocka_unit_test(cut_array), cmocka_unit_test(cut_ids),       cmocka_unit_test(cut_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
