/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* B41: every message takes 200 ms. Who pays for it, and what is reported when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/director.h"
#include "e2e/slow_group.h"
#include "support/notes.h"

enum { RANKS = 4, SLOTS = 5, DELAY_MS = 200 };

static struct notes notes;
static struct slow_group slow[RANKS];

static void slow_down(void *context, int32_t rank, struct eplb_executor_params *params)
{
    (void)context;
    slow_group_init(&slow[rank], params->group, DELAY_MS * INT64_C(1000000));
    params->group = &slow[rank].group;
    params->clock = &slow[rank].clock.clock;
}

static int64_t clock_of(int32_t rank)
{
    return atomic_load(&slow[rank].clock.now);
}

static void start(struct director *director)
{
    struct team_params params;
    team_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.shape, 1, 16, RANKS, 1, NULL), EPLB_OK);
    params.chunk_bytes = params.inflight_bytes = standin_expert_bytes(params.matrix_bytes);
    params.adjust = slow_down;
    params.log = &notes.sink;
    director_init(director, team_create(&params));
}

/** Experts 0 to 2 and 13 to 15 change places; rank 1 sends one to rank 2. */
static const int32_t wanted[RANKS * SLOTS] = {13, 14, 15, 3,  4, 4,  5, 6, 7, 8,
                                              8,  9,  10, 11, 5, 12, 0, 1, 2, 3};

/** The messages that each rank sends and receives; one of each kind is under way at a time. */
static void count_messages(const struct director *director, int32_t sends[RANKS], int32_t receives[RANKS])
{
    struct eplb_move moves[TEAM_MAX_SLOTS];
    int32_t count =
        eplb_placement_diff(&director->shape, director_table(director, 0), wanted, director->scratch, moves);
    memset(sends, 0, RANKS * sizeof *sends);
    memset(receives, 0, RANKS * sizeof *receives);
    for (int32_t i = 0; i < count; i++) {
        sends[moves[i].source_slot / SLOTS] += moves[i].kind == EPLB_MOVE_P2P;
        receives[moves[i].slot / SLOTS] += moves[i].kind == EPLB_MOVE_P2P;
    }
}

static void test_only_the_activation_waits(void **state)
{
    (void)state;
    struct director director;
    int32_t sends[RANKS];
    int32_t receives[RANKS];
    start(&director);
    count_messages(&director, sends, receives);
    director_prepare(&director, 0, wanted);
    assert_int_equal(director_await_prepared(&director), EPLB_PREPARE_OK);
    for (int32_t i = 0; i < 20; i++)
        director_forward(&director);
    for (int32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(clock_of(rank), 0);

    director_activate(&director);
    team_hold(director.team, 2, TEAM_BEFORE_FINISH);
    director_submit(&director);
    team_await_held(director.team, 2);
    assert_int_equal(clock_of(2), 0);
    team_release(director.team, 2);
    assert_int_equal(director_outcome(&director, director_collect(&director)), EPLB_ACTIVATION_SWITCHED);
    director_check(&director);

    for (int32_t rank = 0; rank < RANKS; rank++) {
        char line[64];
        int32_t most = sends[rank] > receives[rank] ? sends[rank] : receives[rank];
        snprintf(line, sizeof line, "update_expert_weight | layer=0 | rank=%d |", rank);
        assert_int_equal(notes_count(&notes, line), 1);
        double transfer_ms = notes_sum(&notes, line, "transfer_ms");
        print_message("rank %d: %d sends, %d receives, %.0f ms\n", rank, sends[rank], receives[rank],
                      transfer_ms);
        assert_true(transfer_ms >= DELAY_MS * most);
        assert_true(transfer_ms <= DELAY_MS * (sends[rank] + receives[rank]));
        assert_true(transfer_ms == (double)clock_of(rank) / 1e6);
        assert_int_equal(slow[rank].posts, sends[rank] + receives[rank]);
        assert_int_equal(slow[rank].early_votes, 0);
    }

    int64_t before = clock_of(0);
    for (int32_t i = 0; i < 20; i++)
        director_forward(&director);
    assert_int_equal(clock_of(0), before);
    team_destroy(director.team);
    director_destroy(&director);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_only_the_activation_waits)};
    notes_init(&notes);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    notes_destroy(&notes);
    return failed;
}
