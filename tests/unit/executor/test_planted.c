/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* What each of the executor's planted bugs does, so that a change does not defuse one unnoticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/planted.h"
#include "script.h"

/* Plan p1 of layer 0, from A to D, which needs no message. */
#define PREPARED_P1                                   \
    "> start 1 prepare p1 layer 0 base 0 of A to D\n" \
    "run prepare p1 layer 0\n"                        \
    "level p1 running\n"                              \
    "> began p1\n"                                    \
    "> prepared p1 ok\n"                              \
    "level p1 ok\n"

static void play_with(enum eplb_planted_bug bug, const char *script)
{
    eplb_planted[bug] = true;
    script_play(script);
    eplb_planted[bug] = false;
}

static void test_vote_skipped(void **state)
{
    (void)state;
    play_with(EPLB_BUG_VOTE_SKIPPED, PREPARED_P1 "> start 2 activate a1 of p1 layer 0\n"
                                                 "materialise p1\n"
                                                 "waits\n"
                                                 "> materialised ok\n"
                                                 "vote yes a1\n"
                                                 "> finish\n"
                                                 "> read undecided\n"
                                                 "update p1 a1 commit\n"
                                                 "level a1 switched\n"
                                                 "layer 0 runs generation 1, table D\n"
                                                 "idle\n");
}

static void test_prepare_on_another_base(void **state)
{
    (void)state;
    play_with(EPLB_BUG_PREPARE_ON_ANOTHER_BASE, "> start 1 prepare p1 layer 0 base 5 of C to D\n"
                                                "run prepare p1 layer 0\n"
                                                "level p1 running\n");
}

static void test_report_lost_once(void **state)
{
    (void)state;
    play_with(EPLB_BUG_REPORT_LOST_ONCE, "> start 1 activate a1 of p1 layer 0\n"
                                         "vote no a1\n"
                                         "waits\n"
                                         "> finish\n"
                                         "> read abort\n"
                                         "level a1 kept: the worker does not hold the plan\n"
                                         "idle\n"
                                         "> start 2\n"
                                         "level a0 none\n");
}

static void test_prepare_before_activation(void **state)
{
    (void)state;
    play_with(EPLB_BUG_PREPARE_BEFORE_ACTIVATION,
              PREPARED_P1 "> start 2 activate a1 of p1 layer 0 prepare p2 layer 1 base 0 of A to D\n"
                          "vote no a1\n"
                          "run prepare p2 layer 1\n"
                          "level p2 running\n"
                          "waits\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vote_skipped),
        cmocka_unit_test(test_prepare_on_another_base),
        cmocka_unit_test(test_report_lost_once),
        cmocka_unit_test(test_prepare_before_activation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
