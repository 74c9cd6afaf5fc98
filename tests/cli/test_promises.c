/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * Case B98: under every routing, each layer that switched has a line later that says what its plan promised
 * and what was measured.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

static const char *const routings[] = {"static", "local", "weighted", "adaptive", "batch"};

/** The figure behind `key=` of the line that begins at `line`. */
static double figure(const char *line, const char *key)
{
    const char *end = strchr(line, '\n');
    const char *found = strstr(line, key);
    if (found == NULL || end == NULL || found > end)
        fail_msg("no %s in: %.200s", key, line);
    return strtod(found + strlen(key), NULL);
}

/** A peak lies between the mean rank and all on one of the four. */
static void check_outcome(const char *line)
{
    const double mean = figure(line, " mean=");
    static const char *const peaks[] = {" predicted_peak=", " even_split_peak=", " measured_peak="};
    assert_true(mean > 0);
    assert_true(figure(line, " forwards=") >= 1);
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
        const double peak = figure(line, peaks[i]);
        if (!(peak >= mean * (1 - 1e-9) && peak <= 4 * mean))
            fail_msg("%s%.17g beside a mean of %.17g", peaks[i], peak, mean);
    }
}

/** Every commit has its outcome behind it. */
static int check_log(const char *log)
{
    static const char committed[] = "EPLB layer committed | ";
    int commits = 0;
    for (const char *at = log; (at = strstr(at, committed)) != NULL; at += sizeof committed - 1) {
        int32_t layer;
        int32_t generation;
        char begin[96];
        if (sscanf(at + sizeof committed - 1, "layer=%" SCNd32 " | generation=%" SCNd32, &layer,
                   &generation) != 2)
            fail_msg("no layer and generation in: %.100s", at);
        snprintf(begin, sizeof begin, "EPLB placement outcome | layer=%" PRId32 " | generation=%" PRId32 " |",
                 layer, generation);
        const char *outcome = strstr(at, begin);
        if (outcome == NULL)
            fail_msg("no line begins with %s", begin);
        check_outcome(outcome);
        commits++;
    }
    return commits;
}

static void every_switch_says_what_became_of_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof routings / sizeof *routings; i++) {
        char routing[64];
        const char *const arguments[] = {"run",
                                         "--instance_name=promises",
                                         "--enable_eplb",
                                         "--ep_size=4",
                                         "--steps=240",
                                         "--eplb_update_interval_steps=48",
                                         "--log=promises.log",
                                         "--summary_json=-",
                                         routing,
                                         NULL};
        struct command_run ended;
        (void)unlink("promises.log");
        snprintf(routing, sizeof routing, "--eplb_replica_routing=%s", routings[i]);
        command_run(arguments, &ended);
        if (ended.exit_code != 0)
            fail_msg("exit code %d: %s", ended.exit_code, ended.errors);
        char *log = command_read_file("promises.log");
        const int commits = check_log(log);
        print_message("%s: %d layers switched\n", routings[i], commits);
        assert_true(commits >= 4);
        int told = 0;
        for (const char *at = ended.output; (at = strstr(at, "\"measured_peak\"")) != NULL; at++)
            told++;
        assert_int_equal(told, commits);
        free(log);
        command_free(&ended);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_switch_says_what_became_of_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
