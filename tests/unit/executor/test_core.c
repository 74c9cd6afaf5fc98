/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The executor core's rules as traces; see script.h for how to read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "executor/core.h"
#include "script.h"

/* Plan p1 of layer 0, from A to a table. */
#define PREPARED_P1(table)                                    \
    "> start 1 prepare p1 layer 0 base 0 of A to " table "\n" \
    "run prepare p1 layer 0\n"                                \
    "level p1 running\n"                                      \
    "> began p1\n"                                            \
    "> prepared p1 ok\n"                                      \
    "level p1 ok\n"

/* Plan p2 of layer 1, from A to B, beside whatever there is. */
#define PREPARED_P2                                   \
    "> start 2 prepare p2 layer 1 base 0 of A to B\n" \
    "run prepare p2 layer 1\n"                        \
    "level p2 running\n"                              \
    "> began p2\n"                                    \
    "> prepared p2 ok\n"                              \
    "level p2 ok\n"

/* The activation of p1 to B, until its two messages are awaited. */
#define RECEIVING_A1                                               \
    "> start 2 activate a1 of p1 layer 0\n"                        \
    "materialise p1\n"                                             \
    "waits\n"                                                      \
    "> materialised ok\n"                                          \
    "receive #1 a1 layer 0 slot 2 from rank 1 local 2 bytes 0+8\n" \
    "receive #2 a1 layer 0 slot 2 from rank 1 local 2 bytes 8+2\n"

static void test_a_layer_that_receives_an_expert(void **state)
{
    (void)state;
    script_play(PREPARED_P1("B") RECEIVING_A1 "> finish\n"
                                              "> complete #1 done\n"
                                              "> read undecided\n"
                                              "> complete #2 done\n"
                                              "vote yes a1\n"
                                              "> read undecided\n"
                                              "> read commit\n"
                                              "update p1 a1 commit\n"
                                              "level a1 switched\n"
                                              "layer 0 runs generation 1, table B\n"
                                              "idle\n");
}

static void test_a_layer_that_sends_an_expert(void **state)
{
    (void)state;
    script_play(PREPARED_P1("C") "> start 2 activate a1 of p1 layer 0\n"
                                 "materialise p1\n"
                                 "waits\n"
                                 "> materialised ok\n"
                                 "send #1 a1 layer 0 slot 5 to rank 1 local 1 bytes 0+8\n"
                                 "send #2 a1 layer 0 slot 5 to rank 1 local 1 bytes 8+2\n"
                                 "> complete #2 done\n"
                                 "> complete #1 done\n"
                                 "vote yes a1\n"
                                 "> finish\n"
                                 "> read commit\n"
                                 "update p1 a1 commit\n"
                                 "level a1 switched\n"
                                 "layer 0 runs generation 1, table C\n"
                                 "idle\n");
}

/* The vote may be in before the forward has run; the rank still waits for the record. */
static void test_a_local_change_votes_at_once(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") "> start 2 activate a1 of p1 layer 0\n"
                                 "materialise p1\n"
                                 "waits\n"
                                 "> materialised ok\n"
                                 "vote yes a1\n"
                                 "> finish\n"
                                 "> read undecided\n"
                                 "> read commit\n"
                                 "update p1 a1 commit\n"
                                 "level a1 switched\n"
                                 "layer 0 runs generation 1, table D\n"
                                 "idle\n");
}

/* The next layer is prepared while this one transfers; its plan is not touched by the outcome. */
static void test_activation_and_next_prepare_in_one_command(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") "> start 2 activate a1 of p1 layer 0 prepare p2 layer 1 base 0 of A to D\n"
                                 "materialise p1\n"
                                 "run prepare p2 layer 1\n"
                                 "level p2 running\n"
                                 "waits\n"
                                 "> began p2\n"
                                 "> materialised ok\n"
                                 "vote yes a1\n"
                                 "> prepared p2 ok\n"
                                 "level p2 ok\n"
                                 "> finish\n"
                                 "> read commit\n"
                                 "update p1 a1 commit\n"
                                 "level a1 switched\n"
                                 "layer 0 runs generation 1, table D\n"
                                 "idle\n"
                                 "> start 3 activate a2 of p2 layer 1\n"
                                 "materialise p2\n"
                                 "waits\n"
                                 "> materialised ok\n"
                                 "vote yes a2\n"
                                 "> finish\n"
                                 "> read commit\n"
                                 "update p2 a2 commit\n"
                                 "level a2 switched\n"
                                 "layer 1 runs generation 1, table D\n"
                                 "idle\n");
}

static void test_an_empty_command_changes_nothing(void **state)
{
    (void)state;
    script_play("> start 1\n"
                "> finish\n"
                "> start 5\n"
                "> finish\n");
}

/* ----------------------------------------------------------------------------------- prepares */

static void test_a_prepare_that_has_not_begun_is_replaced(void **state)
{
    (void)state;
    script_play("> start 1 prepare p1 layer 0 base 0 of A to B\n"
                "run prepare p1 layer 0\n"
                "level p1 running\n"
                "> start 2 prepare p2 layer 1 base 0 of A to B\n"
                "run prepare p2 layer 1\n"
                "level p2 running\n"
                "> began p2\n"
                "> prepared p2 ok\n"
                "level p2 ok\n"
                "> start 3 activate a1 of p1 layer 0\n"
                "vote no a1\n"
                "waits\n"
                "> finish\n"
                "> read abort\n"
                "level a1 kept: the worker does not hold the plan\n"
                "idle\n");
}

/* p1's late success is not p2's, and p1's plan is not there either. */
static void test_a_superseded_result_is_discarded(void **state)
{
    (void)state;
    script_play("> start 1 prepare p1 layer 0 base 0 of A to B\n"
                "run prepare p1 layer 0\n"
                "level p1 running\n"
                "> began p1\n"
                "> start 2 prepare p2 layer 1 base 0 of A to B\n"
                "run prepare p2 layer 1\n"
                "level p2 running\n"
                "> start 3 prepare p3 layer 1 base 0 of A to D\n"
                "run prepare p3 layer 1\n"
                "level p3 running\n"
                "> prepared p1 ok\n"
                "> began p3\n"
                "> prepared p3 failed\n"
                "level p3 failed: a model hook failed\n"
                "> start 4 activate a1 of p1 layer 0\n"
                "vote no a1\n"
                "waits\n"
                "> finish\n"
                "> read abort\n"
                "level a1 kept: the worker does not hold the plan\n"
                "idle\n");
}

static void test_the_older_of_two_finished_plans_can_be_activated(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") PREPARED_P2 "> start 3 activate a1 of p1 layer 0\n"
                                             "materialise p1\n"
                                             "waits\n"
                                             "> materialised ok\n"
                                             "vote yes a1\n"
                                             "> finish\n"
                                             "> read commit\n"
                                             "update p1 a1 commit\n"
                                             "level a1 switched\n"
                                             "layer 0 runs generation 1, table D\n"
                                             "idle\n"
                                             "> start 4 activate a2 of p2 layer 1\n"
                                             "materialise p2\n"
                                             "waits\n");
}

static void test_a_third_finished_plan_evicts_the_oldest(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") PREPARED_P2 "> start 3 prepare p3 layer 1 base 0 of A to D\n"
                                             "run prepare p3 layer 1\n"
                                             "level p3 running\n"
                                             "> began p3\n"
                                             "> prepared p3 ok\n"
                                             "level p3 ok\n"
                                             "> start 4 activate a1 of p1 layer 0\n"
                                             "vote no a1\n"
                                             "waits\n"
                                             "> finish\n"
                                             "> read abort\n"
                                             "level a1 kept: the worker does not hold the plan\n"
                                             "idle\n"
                                             "> start 5 activate a2 of p2 layer 1\n"
                                             "materialise p2\n"
                                             "waits\n");
}

/* A failed one evicts nothing. */
static void test_a_failed_prepare_evicts_nothing(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") PREPARED_P2 "> start 3 prepare p3 layer 1 base 0 of A to D\n"
                                             "run prepare p3 layer 1\n"
                                             "level p3 running\n"
                                             "> began p3\n"
                                             "> prepared p3 failed\n"
                                             "level p3 failed: a model hook failed\n"
                                             "> start 4 activate a1 of p1 layer 0\n"
                                             "materialise p1\n"
                                             "waits\n");
}

/* p1 is older than p2 and survives p3, because it is being activated. */
static void test_the_plan_being_activated_is_not_evicted(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") PREPARED_P2
                "> start 3 activate a1 of p1 layer 0 prepare p3 layer 1 base 0 of A to D\n"
                "materialise p1\n"
                "run prepare p3 layer 1\n"
                "level p3 running\n"
                "waits\n"
                "> began p3\n"
                "> prepared p3 ok\n"
                "level p3 ok\n"
                "> materialised ok\n"
                "vote yes a1\n"
                "> finish\n"
                "> read commit\n"
                "update p1 a1 commit\n"
                "level a1 switched\n"
                "layer 0 runs generation 1, table D\n"
                "idle\n"
                "> start 4 activate a2 of p2 layer 1\n"
                "vote no a2\n"
                "waits\n");
}

static void test_refused_prepares_say_why(void **state)
{
    (void)state;
    script_play("> start 1 prepare p1 layer 0 base 0 of A to S\n"
                "level p1 failed: the table has another length\n"
                "> start 2 prepare p2 layer 0 base 0 of A to X\n"
                "level p2 failed: the table is not legal\n"
                "> start 3 prepare p3 layer 2 base 0 of A to B\n"
                "level p3 failed: there is no such layer\n"
                "> start 4 prepare p4 layer 0 base 1 of A to B\n"
                "level p4 failed: the worker runs another generation\n"
                "> start 5 prepare p5 layer 0 base 0 of C to B\n"
                "level p5 failed: the worker runs another table\n"
                "> start 6 activate a1 of p5 layer 0\n"
                "vote no a1\n"
                "waits\n");
}

/* The level shows the newest token; the plan that runs meanwhile is finished and held all the same. */
static void test_a_refused_prepare_changes_nothing_but_the_level(void **state)
{
    (void)state;
    script_play("> start 1 prepare p1 layer 0 base 0 of A to D\n"
                "run prepare p1 layer 0\n"
                "level p1 running\n"
                "> began p1\n"
                "> start 2 prepare p2 layer 1 base 0 of A to X\n"
                "level p2 failed: the table is not legal\n"
                "> prepared p1 ok\n"
                "> start 3 activate a1 of p1 layer 0\n"
                "materialise p1\n"
                "waits\n");
}

/* --------------------------------------------------------------------------------- activation */

/* A prepare that was never submitted, that runs, that failed, that is of another layer. */
static void test_a_plan_that_is_not_held_is_never_done(void **state)
{
    (void)state;
    script_play("> start 1 activate a1 of p9 layer 0\n"
                "vote no a1\n"
                "waits\n"
                "> finish\n"
                "> read undecided\n"
                "> read abort\n"
                "level a1 kept: the worker does not hold the plan\n"
                "idle\n"
                "> start 2 prepare p10 layer 0 base 0 of A to B\n"
                "run prepare p10 layer 0\n"
                "level p10 running\n"
                "> began p10\n"
                "> start 3 activate a2 of p10 layer 0\n"
                "vote no a2\n"
                "waits\n"
                "> finish\n"
                "> read abort\n"
                "level a2 kept: the worker does not hold the plan\n"
                "idle\n"
                "> prepared p10 ok\n"
                "level p10 ok\n"
                "> start 4 activate a3 of p10 layer 1\n"
                "vote no a3\n"
                "waits\n"
                "> finish\n"
                "> read abort\n"
                "level a3 kept: the worker does not hold the plan\n"
                "idle\n"
                "> start 5 activate a4 of p10 layer 7\n"
                "vote no a4\n"
                "waits\n"
                "> finish\n"
                "> read abort\n"
                "level a4 kept: there is no such layer\n"
                "idle\n"
                "> start 6 activate a5 of p10 layer 0\n"
                "materialise p10\n"
                "waits\n");
}

/* Two plans of one layer from one base: once the first has switched it, the second is stale. */
static void test_the_base_is_checked_again_at_activation(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") "> start 2 prepare p2 layer 0 base 0 of A to B\n"
                                 "run prepare p2 layer 0\n"
                                 "level p2 running\n"
                                 "> began p2\n"
                                 "> prepared p2 ok\n"
                                 "level p2 ok\n"
                                 "> start 3 activate a1 of p1 layer 0\n"
                                 "materialise p1\n"
                                 "waits\n"
                                 "> materialised ok\n"
                                 "vote yes a1\n"
                                 "> finish\n"
                                 "> read commit\n"
                                 "update p1 a1 commit\n"
                                 "level a1 switched\n"
                                 "layer 0 runs generation 1, table D\n"
                                 "idle\n"
                                 "> start 4 activate a2 of p2 layer 0\n"
                                 "vote no a2\n"
                                 "waits\n"
                                 "> finish\n"
                                 "> read abort\n"
                                 "update p2 a2 drop\n"
                                 "level a2 kept: the worker runs another generation\n"
                                 "idle\n");
}

/* A plan is built from the table that its base names, though a commit changes the layer meanwhile. */
static void test_a_commit_during_a_prepare_of_the_same_layer(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") "> start 2 prepare p2 layer 0 base 0 of A to B\n"
                                 "run prepare p2 layer 0\n"
                                 "level p2 running\n"
                                 "> began p2\n"
                                 "> start 3 activate a1 of p1 layer 0\n"
                                 "materialise p1\n"
                                 "waits\n"
                                 "> materialised ok\n"
                                 "vote yes a1\n"
                                 "> finish\n"
                                 "> read commit\n"
                                 "update p1 a1 commit\n"
                                 "level a1 switched\n"
                                 "layer 0 runs generation 1, table D\n"
                                 "idle\n"
                                 "> prepared p2 ok\n"
                                 "level p2 ok\n"
                                 "> moves\n"
                                 "p2 moves 1\n"
                                 "> start 4 prepare p3 layer 0 base 0 of A to B\n"
                                 "level p3 failed: the worker runs another generation\n"
                                 "> start 5 prepare p4 layer 0 base 1 of D to A\n"
                                 "run prepare p4 layer 0\n"
                                 "level p4 running\n");
}

static void test_weights_that_were_reloaded_make_a_plan_stale(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") "> epoch 2\n"
                                 "> start 2 activate a1 of p1 layer 0\n"
                                 "vote no a1\n"
                                 "waits\n"
                                 "> finish\n"
                                 "> read abort\n"
                                 "update p1 a1 drop\n"
                                 "level a1 kept: a registered tensor moved or changed its size\n"
                                 "idle\n");
}

/* The rank still takes its part in the exchange, and reports when nothing is outstanding. */
static void test_a_rank_that_cannot_materialise_votes_no(void **state)
{
    (void)state;
    script_play(PREPARED_P1("C") "> start 2 activate a1 of p1 layer 0\n"
                                 "materialise p1\n"
                                 "waits\n"
                                 "> materialised failed\n"
                                 "vote no a1\n"
                                 "send #1 a1 layer 0 slot 5 to rank 1 local 1 bytes 0+8\n"
                                 "send #2 a1 layer 0 slot 5 to rank 1 local 1 bytes 8+2\n"
                                 "> finish\n"
                                 "> complete #1 done\n"
                                 "> read abort\n"
                                 "cancel #2\n"
                                 "> complete #2 cancelled\n"
                                 "update p1 a1 drop\n"
                                 "level a1 kept: a model hook failed\n"
                                 "idle\n");
}

static void test_an_abort_is_reported_only_when_nothing_is_outstanding(void **state)
{
    (void)state;
    script_play(PREPARED_P1("B") RECEIVING_A1 "> finish\n"
                                              "> read abort\n"
                                              "cancel #1\n"
                                              "cancel #2\n"
                                              "> complete #2 cancelled\n"
                                              "> read abort\n"
                                              "> complete #1 done\n"
                                              "update p1 a1 drop\n"
                                              "level a1 kept: another aborted the record\n"
                                              "idle\n"
                                              "> start 3 activate a2 of p1 layer 0\n"
                                              "vote no a2\n"
                                              "waits\n");
}

static void test_a_failed_message_is_a_no(void **state)
{
    (void)state;
    script_play(PREPARED_P1("B") RECEIVING_A1 "> finish\n"
                                              "> complete #1 failed\n"
                                              "vote no a1\n"
                                              "> read abort\n"
                                              "cancel #2\n"
                                              "> complete #2 cancelled\n"
                                              "update p1 a1 drop\n"
                                              "level a1 kept: a transfer failed\n"
                                              "idle\n");
}

static void test_the_deadline_runs_from_finish_step(void **state)
{
    (void)state;
    script_play(PREPARED_P1("B") RECEIVING_A1 "> time 5000\n"
                                              "> read undecided\n"
                                              "> finish\n"
                                              "> time 999\n"
                                              "> read undecided\n"
                                              "> time 1\n"
                                              "> read undecided\n"
                                              "abort record a1\n"
                                              "> read abort\n"
                                              "cancel #1\n"
                                              "cancel #2\n"
                                              "> complete #1 cancelled\n"
                                              "> complete #2 cancelled\n"
                                              "update p1 a1 drop\n"
                                              "level a1 kept: the transfer timeout passed\n"
                                              "idle\n");
}

/* Another rank was the last to vote just before this one's clock ran out: the record decides. */
static void test_a_deadline_loses_against_a_commit(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") "> start 2 activate a1 of p1 layer 0\n"
                                 "materialise p1\n"
                                 "waits\n"
                                 "> materialised ok\n"
                                 "vote yes a1\n"
                                 "> finish\n"
                                 "> time 1000\n"
                                 "> read undecided\n"
                                 "abort record a1\n"
                                 "> read commit\n"
                                 "update p1 a1 commit\n"
                                 "level a1 switched\n"
                                 "layer 0 runs generation 1, table D\n"
                                 "idle\n");
}

/* The forward still reads the old weights: a decision takes force when it is over. */
static void test_a_decision_waits_for_finish_step(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") "> start 2 activate a1 of p1 layer 0\n"
                                 "materialise p1\n"
                                 "waits\n"
                                 "> materialised ok\n"
                                 "vote yes a1\n"
                                 "> read commit\n"
                                 "> read commit\n"
                                 "> finish\n"
                                 "update p1 a1 commit\n"
                                 "level a1 switched\n"
                                 "layer 0 runs generation 1, table D\n"
                                 "idle\n");
}

/* --------------------------------------------------------------------------------- abort_step */

static void test_a_begun_forward_is_given_up(void **state)
{
    (void)state;
    script_play(PREPARED_P1("B") RECEIVING_A1 "> abort 2 activate a1 of p1 layer 0\n"
                                              "vote no a1\n"
                                              "> read abort\n"
                                              "cancel #1\n"
                                              "cancel #2\n"
                                              "> complete #1 cancelled\n"
                                              "> complete #2 cancelled\n"
                                              "update p1 a1 drop\n"
                                              "level a1 kept: the forward was given up\n"
                                              "idle\n"
                                              "> abort 2 activate a1 of p1 layer 0\n"
                                              "> abort\n");
}

/* The yes is in the record: no clock of this rank and no abort_step takes it back. */
static void test_a_forward_given_up_after_the_vote_does_what_the_record_says(void **state)
{
    (void)state;
    script_play(PREPARED_P1("D") "> start 2 activate a1 of p1 layer 0\n"
                                 "materialise p1\n"
                                 "waits\n"
                                 "> materialised ok\n"
                                 "vote yes a1\n"
                                 "> abort\n"
                                 "> time 1000\n"
                                 "> read undecided\n"
                                 "abort record a1\n"
                                 "> read commit\n"
                                 "update p1 a1 commit\n"
                                 "level a1 switched\n"
                                 "layer 0 runs generation 1, table D\n"
                                 "idle\n");
}

static void test_a_forward_that_has_not_begun_is_taken_and_voted_down(void **state)
{
    (void)state;
    script_play(PREPARED_P1("B") "> abort 2 activate a1 of p1 layer 0 prepare p2 layer 1 base 0 of A to B\n"
                                 "vote no a1\n"
                                 "level p2 failed: the forward was given up\n"
                                 "waits\n"
                                 "> read undecided\n"
                                 "> read abort\n"
                                 "update p1 a1 drop\n"
                                 "level a1 kept: the forward was given up\n"
                                 "idle\n"
                                 "> abort 3 activate a2 of p1 layer 0\n"
                                 "vote no a2\n"
                                 "waits\n"
                                 "> read abort\n"
                                 "level a2 kept: the forward was given up\n"
                                 "idle\n"
                                 "> abort 4\n"
                                 "> start 5\n");
}

/* What a begun forward had queued goes on; its own token answers for it. */
static void test_a_prepare_survives_the_abort_of_its_forward(void **state)
{
    (void)state;
    script_play("> start 1 prepare p1 layer 0 base 0 of A to B\n"
                "run prepare p1 layer 0\n"
                "level p1 running\n"
                "> abort 1 prepare p1 layer 0 base 0 of A to B\n"
                "> began p1\n"
                "> prepared p1 ok\n"
                "level p1 ok\n");
}

/* -------------------------------------------------------------------------------------- check */

static void test_commands_that_cannot_be_of_this_run(void **state)
{
    (void)state;
    script_play(
        PREPARED_P1("B") RECEIVING_A1
        "> refused 3\n"
        "forward 3 cannot start: activation_token 1 of layer 0 is unresolved; finish_step or abort_step of "
        "forward 2 comes first\n"
        "> abort\n"
        "vote no a1\n"
        "> read abort\n"
        "cancel #1\n"
        "cancel #2\n"
        "> complete #1 done\n"
        "> complete #2 done\n"
        "update p1 a1 drop\n"
        "level a1 kept: the forward was given up\n"
        "idle\n"
        "> refused 2\n"
        "forward 2 cannot start: numbers rise, and this rank has begun 2\n"
        "> refused 3 activate a1 of p1 layer 0\n"
        "the command of forward 3 has activation_token 1; tokens rise, and this rank has taken 1\n"
        "> refused 3 prepare p1 layer 0 base 0 of A to B\n"
        "the command of forward 3 has prepare_token 1; tokens rise, and this rank has taken 1\n"
        "> refused 3 activate a2 of p1 layer 1 prepare p2 layer 1 base 0 of A to B\n"
        "the command of forward 3 names layer 1 to prepare and to activate; one of the two is allowed\n"
        "> refused 3 activate a2 of p0 layer 1\n"
        "the command of forward 3 has update_layer_id 1, activation_token 2 and update_prepare_token 0; it "
        "must have all or none (-1, 0 and 0)\n"
        "> refused 3 prepare p0 layer 1 base 0 of A to B\n"
        "the command of forward 3 has prepare_layer_id 1 and prepare_token 0; it must have both or neither "
        "(-1 and 0)\n");
}

static void feed(struct eplb_executor_core *core, const struct eplb_executor_event *event)
{
    struct eplb_executor_action action;
    eplb_executor_core_step(core, event, 0);
    while (eplb_executor_core_next(core, &action))
        continue;
}

/* A host knows its layers by their names, not by their rows. */
static void test_sentences_name_a_layer_as_the_host_does(void **state)
{
    (void)state;
    static const int32_t names[] = {61};
    struct eplb_executor_core_params params = {
        .layer_ids = names,
        .expert_bytes = 1,
        .limits = {.chunk_bytes = 1, .inflight_bytes = 1, .timeout_ns = 1}};
    assert_int_equal(eplb_shape_init(&params.shape, 1, 4, 1, 0, NULL), EPLB_OK);
    struct eplb_executor_core *core;
    assert_int_equal(eplb_executor_core_create(&params, &core, NULL), EPLB_OK);
    assert_int_equal(eplb_executor_core_layer_id(core, 0), 61);
    assert_int_equal(eplb_executor_core_layer_id(core, 1), 1);
    assert_int_equal(eplb_executor_core_layer_id(core, EPLB_NO_LAYER), EPLB_NO_LAYER);

    struct eplb_command command;
    struct eplb_error error;
    eplb_command_init(&command, 1);
    command.prepare_layer_id = command.update_layer_id = 0;
    assert_int_equal(eplb_executor_core_check(core, &command, &error), EPLB_INVALID);
    assert_string_equal(error.text, "the command of forward 1 names layer 61 to prepare and to activate; one "
                                    "of the two is allowed");
    command.prepare_layer_id = EPLB_NO_LAYER;
    command.activation_token.value = 5;
    command.update_prepare_token.value = 4;
    feed(core, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_START_STEP, .command = &command});
    command.seq = 2;
    assert_int_equal(eplb_executor_core_check(core, &command, &error), EPLB_REFUSED);
    assert_string_equal(error.text, "forward 2 cannot start: activation_token 5 of layer 61 is unresolved; "
                                    "finish_step or abort_step of forward 1 comes first");
    eplb_executor_core_destroy(core);
}

/* -------------------------------------------------------------------------------- generations */

/* The forward that carried the activation ran under the old generation, and its output says so. */
static void test_an_output_reports_the_generation_that_its_forward_ran_under(void **state)
{
    (void)state;
    static const int32_t initial[] = {0, 1, 2, 3};
    static const int32_t wanted[] = {1, 0, 2, 3};
    struct eplb_executor_core_params params = {
        .initial = initial,
        .expert_bytes = 1,
        .limits = {.chunk_bytes = 1, .inflight_bytes = 1, .timeout_ns = 1}};
    assert_int_equal(eplb_shape_init(&params.shape, 1, 4, 1, 0, NULL), EPLB_OK);
    struct eplb_executor_core *core;
    assert_int_equal(eplb_executor_core_create(&params, &core, NULL), EPLB_OK);

    struct eplb_command command;
    struct eplb_executor_event event = {.type = EPLB_EXECUTOR_START_STEP, .command = &command};
    eplb_command_init(&command, 7);
    command.prepare_layer_id = 0;
    command.prepare_token.value = 4;
    command.base_hash = eplb_placement_hash(&params.shape, initial);
    command.expert_ids = wanted;
    command.num_expert_ids = 4;
    feed(core, &event);
    struct eplb_layer_plan *plan = eplb_executor_core_queued(core);
    assert_non_null(plan);
    event = (struct eplb_executor_event){.type = EPLB_EXECUTOR_PREPARE_BEGAN, .token = {4}};
    feed(core, &event);
    assert_null(eplb_executor_core_queued(core));
    eplb_executor_core_build(core, plan);
    assert_int_equal(plan->num_moves, 2);
    assert_int_equal(plan->log2phy[0], 1);
    event = (struct eplb_executor_event){.type = EPLB_EXECUTOR_PREPARED, .token = {4}, .ok = true};
    feed(core, &event);

    eplb_command_init(&command, 8);
    command.update_layer_id = 0;
    command.activation_token.value = 5;
    command.update_prepare_token.value = 4;
    event = (struct eplb_executor_event){.type = EPLB_EXECUTOR_START_STEP, .command = &command};
    feed(core, &event);
    event = (struct eplb_executor_event){.type = EPLB_EXECUTOR_MATERIALISED, .ok = true};
    feed(core, &event);
    event = (struct eplb_executor_event){.type = EPLB_EXECUTOR_FINISH_STEP};
    feed(core, &event);
    event = (struct eplb_executor_event){.type = EPLB_EXECUTOR_DECIDED, .decision = EPLB_COMMIT};
    feed(core, &event);
    assert_int_equal(eplb_executor_core_seq(core), 8);
    assert_int_equal(eplb_executor_core_ran_generations(core)[0], 0);
    assert_int_equal(eplb_executor_core_generations(core)[0], 1);
    assert_memory_equal(eplb_executor_core_tables(core), wanted, sizeof wanted);

    eplb_command_init(&command, 9);
    event = (struct eplb_executor_event){.type = EPLB_EXECUTOR_START_STEP, .command = &command};
    feed(core, &event);
    assert_int_equal(eplb_executor_core_ran_generations(core)[0], 1);
    eplb_executor_core_destroy(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_layer_that_receives_an_expert),
        cmocka_unit_test(test_a_layer_that_sends_an_expert),
        cmocka_unit_test(test_a_local_change_votes_at_once),
        cmocka_unit_test(test_activation_and_next_prepare_in_one_command),
        cmocka_unit_test(test_an_empty_command_changes_nothing),
        cmocka_unit_test(test_a_prepare_that_has_not_begun_is_replaced),
        cmocka_unit_test(test_a_superseded_result_is_discarded),
        cmocka_unit_test(test_the_older_of_two_finished_plans_can_be_activated),
        cmocka_unit_test(test_a_third_finished_plan_evicts_the_oldest),
        cmocka_unit_test(test_a_failed_prepare_evicts_nothing),
        cmocka_unit_test(test_the_plan_being_activated_is_not_evicted),
        cmocka_unit_test(test_refused_prepares_say_why),
        cmocka_unit_test(test_a_refused_prepare_changes_nothing_but_the_level),
        cmocka_unit_test(test_a_plan_that_is_not_held_is_never_done),
        cmocka_unit_test(test_the_base_is_checked_again_at_activation),
        cmocka_unit_test(test_a_commit_during_a_prepare_of_the_same_layer),
        cmocka_unit_test(test_weights_that_were_reloaded_make_a_plan_stale),
        cmocka_unit_test(test_a_rank_that_cannot_materialise_votes_no),
        cmocka_unit_test(test_an_abort_is_reported_only_when_nothing_is_outstanding),
        cmocka_unit_test(test_a_failed_message_is_a_no),
        cmocka_unit_test(test_the_deadline_runs_from_finish_step),
        cmocka_unit_test(test_a_deadline_loses_against_a_commit),
        cmocka_unit_test(test_a_decision_waits_for_finish_step),
        cmocka_unit_test(test_a_begun_forward_is_given_up),
        cmocka_unit_test(test_a_forward_given_up_after_the_vote_does_what_the_record_says),
        cmocka_unit_test(test_a_forward_that_has_not_begun_is_taken_and_voted_down),
        cmocka_unit_test(test_a_prepare_survives_the_abort_of_its_forward),
        cmocka_unit_test(test_commands_that_cannot_be_of_this_run),
        cmocka_unit_test(test_sentences_name_a_layer_as_the_host_does),
        cmocka_unit_test(test_an_output_reports_the_generation_that_its_forward_ran_under),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
