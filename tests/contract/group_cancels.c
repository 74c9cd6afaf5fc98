/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Giving up, on either side and at any moment; what is left of it; and members that die. */
#include "contract/group_stage.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { KIB = 1024, RING = 4 * KIB, LARGE = 64 * KIB };

static unsigned char source[LARGE];
static unsigned char target[LARGE];
static unsigned char other_target[LARGE];

static void open_with(struct stage *stage, void **state, int32_t num_ranks)
{
    const struct contract_request request = {.num_ranks = num_ranks, .max_ops = 64, .transfer_bytes = RING};
    stage_open(stage, *state, &request);
    stage_fill(source, LARGE, 1);
    memset(target, 0xee, LARGE);
    memset(other_target, 0xee, LARGE);
}

static void cancel(struct stage *stage, int32_t rank, uint32_t op)
{
    stage->ranks[rank]->cancel(stage->ranks[rank]->self, (struct eplb_op){op});
}

static bool is_untouched(const unsigned char *memory)
{
    for (size_t i = 0; i < LARGE; i++)
        if (memory[i] != 0xee)
            return false;
    return true;
}

/* A message of slot 0 from rank 0 to rank 1 that is under way: some of it has left, not all. */
static void start_large(struct stage *stage, uint64_t token)
{
    stage_send(stage, 0, 1, stage_tag(token, 0, 0), source, LARGE, 0);
    stage_receive(stage, 1, 0, stage_tag(token, 0, 0), target, LARGE, 0);
    /* Rank 0 polls alone, so its side of the way fills up. */
    for (int i = 0; i < 20; i++)
        stage_poll(stage, 0);
    assert_int_equal(stage_result(stage, 0, 0), NOT_ENDED);
}

/* ---- cancel ---- */

static void a_lone_send_is_cancelled(void **state)
{
    struct stage stage;
    open_with(&stage, state, 2);
    stage_send(&stage, 0, 1, stage_tag(1, 0, 0), source, LARGE, 0);
    stage_pass(&stage, 5);
    cancel(&stage, 0, 0);
    cancel(&stage, 0, 0);
    stage_poll(&stage, 0);
    assert_int_equal(stage_result(&stage, 0, 0), EPLB_OP_CANCELLED);
    stage_receive(&stage, 1, 0, stage_tag(1, 0, 0), target, LARGE, 0);
    stage_pass(&stage, 50);
    assert_int_equal(stage_result(&stage, 1, 0), NOT_ENDED);
    assert_true(is_untouched(target));
    stage_close(&stage);
}

static void a_lone_receive_is_cancelled(void **state)
{
    struct stage stage;
    open_with(&stage, state, 2);
    stage_receive(&stage, 1, 0, stage_tag(1, 0, 0), target, LARGE, 0);
    stage_pass(&stage, 5);
    cancel(&stage, 1, 0);
    stage_poll(&stage, 1);
    assert_int_equal(stage_result(&stage, 1, 0), EPLB_OP_CANCELLED);
    stage_send(&stage, 0, 1, stage_tag(1, 0, 0), source, LARGE, 0);
    stage_pass(&stage, 50);
    assert_int_equal(stage_result(&stage, 0, 0), NOT_ENDED);
    assert_true(is_untouched(target));

    /* The send is as good as new for a later receive. */
    stage_receive(&stage, 1, 0, stage_tag(1, 0, 0), other_target, LARGE, 1);
    assert_int_equal(stage_until(&stage, 1, 1), EPLB_OP_DONE);
    assert_true(stage_is(other_target, LARGE, 1));
    assert_true(is_untouched(target));
    stage_close(&stage);
}

static void a_send_under_way_is_cancelled(void **state)
{
    struct stage stage;
    open_with(&stage, state, 2);
    start_large(&stage, 1);
    cancel(&stage, 0, 0);
    stage_poll(&stage, 0);
    assert_int_equal(stage_result(&stage, 0, 0), EPLB_OP_CANCELLED);
    /* Its memory is its owner's again. */
    memset(source, 0, LARGE);
    stage_pass(&stage, 50);
    assert_int_equal(stage_result(&stage, 1, 0), NOT_ENDED);

    /* The receive takes another send of that tag from its first byte on. */
    stage_fill(source, LARGE, 2);
    stage_send(&stage, 0, 1, stage_tag(1, 0, 0), source, LARGE, 1);
    assert_int_equal(stage_until(&stage, 1, 0), EPLB_OP_DONE);
    assert_int_equal(stage_until(&stage, 0, 1), EPLB_OP_DONE);
    assert_true(stage_is(target, LARGE, 2));
    stage_close(&stage);
}

static void a_receive_under_way_is_cancelled(void **state)
{
    struct stage stage;
    open_with(&stage, state, 2);
    start_large(&stage, 1);
    stage_poll(&stage, 1);
    cancel(&stage, 1, 0);
    /* From here on the memory is its owner's again, though much is still on its way. */
    memset(target, 0xee, LARGE);
    stage_pass(&stage, 50);
    assert_int_equal(stage_result(&stage, 1, 0), EPLB_OP_CANCELLED);
    assert_true(is_untouched(target));
    assert_int_equal(stage_result(&stage, 0, 0), NOT_ENDED);

    stage_receive(&stage, 1, 0, stage_tag(1, 0, 0), other_target, LARGE, 1);
    assert_int_equal(stage_until(&stage, 1, 1), EPLB_OP_DONE);
    assert_int_equal(stage_until(&stage, 0, 0), EPLB_OP_DONE);
    assert_true(stage_is(other_target, LARGE, 1));
    assert_true(is_untouched(target));
    stage_close(&stage);
}

/* Cancelled and posted again at once, so that what is on its way was meant for the first one. */
static void a_receive_that_is_posted_anew_gets_the_whole_message(void **state)
{
    struct stage stage;
    open_with(&stage, state, 2);
    start_large(&stage, 1);
    stage_poll(&stage, 1);
    cancel(&stage, 1, 0);
    stage_poll(&stage, 1);
    assert_int_equal(stage_result(&stage, 1, 0), EPLB_OP_CANCELLED);
    stage_forget(&stage, 1, 0);
    stage_receive(&stage, 1, 0, stage_tag(1, 0, 0), other_target, LARGE, 0);
    assert_int_equal(stage_until(&stage, 1, 0), EPLB_OP_DONE);
    assert_int_equal(stage_until(&stage, 0, 0), EPLB_OP_DONE);
    assert_true(stage_is(other_target, LARGE, 1));
    stage_close(&stage);
}

static void a_cancel_that_comes_too_late_changes_nothing(void **state)
{
    struct stage stage;
    open_with(&stage, state, 2);
    unsigned char byte = 7;
    unsigned char received = 0;
    stage_send(&stage, 0, 1, stage_tag(1, 0, 0), &byte, 1, 0);
    stage_receive(&stage, 1, 0, stage_tag(1, 0, 0), &received, 1, 0);
    /* Both end, but nobody collects. */
    for (int i = 0; i < 20; i++)
        for (int32_t rank = 0; rank < 2; rank++) {
            const struct eplb_group *group = stage.ranks[rank];
            assert_int_equal(group->poll(group->self, stage.current, NULL, 0), 0);
        }
    cancel(&stage, 0, 0);
    cancel(&stage, 1, 0);
    cancel(&stage, 1, 33);
    stage_pass(&stage, 2);
    assert_int_equal(stage_result(&stage, 0, 0), EPLB_OP_DONE);
    assert_int_equal(stage_result(&stage, 1, 0), EPLB_OP_DONE);
    assert_int_equal(received, 7);
    /* Long gone. */
    cancel(&stage, 0, 0);
    stage_pass(&stage, 2);
    stage_close(&stage);
}

static void a_cancel_leaves_the_others_alone(void **state)
{
    enum { COUNT = 9 };
    struct stage stage;
    open_with(&stage, state, 2);
    size_t size = LARGE / COUNT;
    for (uint32_t op = 0; op < COUNT; op++) {
        stage_send(&stage, 0, 1, stage_tag(1, (int32_t)op, 0), source, size, op);
        stage_receive(&stage, 1, 0, stage_tag(1, (int32_t)op, 0), target + op * size, size, op);
    }
    stage_poll(&stage, 0);
    /* The first, the last and one between, of each side. */
    static const uint32_t sends[] = {0, 4, 8};
    static const uint32_t receives[] = {1, 5, 8};
    for (size_t i = 0; i < LENGTH(sends); i++) {
        cancel(&stage, 0, sends[i]);
        cancel(&stage, 1, receives[i]);
    }
    for (uint32_t op = 0; op < COUNT; op++) {
        bool lives = op != 0 && op != 4 && op != 8 && op != 1 && op != 5;
        if (lives) {
            assert_int_equal(stage_until(&stage, 0, op), EPLB_OP_DONE);
            assert_int_equal(stage_until(&stage, 1, op), EPLB_OP_DONE);
            assert_true(stage_is(target + op * size, size, 1));
        }
    }
    for (size_t i = 0; i < LENGTH(sends); i++) {
        assert_int_equal(stage_until(&stage, 0, sends[i]), EPLB_OP_CANCELLED);
        assert_int_equal(stage_until(&stage, 1, receives[i]), EPLB_OP_CANCELLED);
    }
    stage_close(&stage);
}

/* ---- what an attempt leaves behind ---- */

static void an_aborted_attempt_leaves_nothing_in_the_next(void **state)
{
    struct stage stage;
    open_with(&stage, state, 2);
    start_large(&stage, 1);
    cancel(&stage, 0, 0);
    cancel(&stage, 1, 0);
    /* Rank 1 does not take a look at the way before it goes on; rank 0 sends other bytes this time. */
    stage_poll(&stage, 0);
    stage.current.value = 2;
    stage_fill(source, LARGE, 2);
    stage_send(&stage, 0, 1, stage_tag(2, 0, 0), source, LARGE, 1);
    stage_receive(&stage, 1, 0, stage_tag(2, 0, 0), other_target, LARGE, 1);
    assert_int_equal(stage_until(&stage, 1, 1), EPLB_OP_DONE);
    assert_int_equal(stage_until(&stage, 0, 1), EPLB_OP_DONE);
    assert_true(stage_is(other_target, LARGE, 2));
    assert_int_equal(stage_result(&stage, 0, 0), EPLB_OP_CANCELLED);
    assert_int_equal(stage_result(&stage, 1, 0), EPLB_OP_CANCELLED);
    stage_close(&stage);
}

/* Within one attempt: what is on its way for some slots is not taken for others, though all else agrees. So
 * many are on their way that one poll, which frees their receives, need not have met them all. */
static void what_is_left_of_one_slot_does_not_fill_another(void **state)
{
    enum { COUNT = 20, SMALL = 100 };
    struct stage stage;
    open_with(&stage, state, 2);
    for (uint32_t op = 0; op < COUNT; op++) {
        stage_receive(&stage, 1, 0, stage_tag(1, (int32_t)op, 0), target + op * SMALL, SMALL, op);
        stage_send(&stage, 0, 1, stage_tag(1, (int32_t)op, 0), source, SMALL, op);
    }
    for (int i = 0; i < COUNT; i++)
        stage_poll(&stage, 0);
    for (uint32_t op = 0; op < COUNT; op++)
        cancel(&stage, 1, op);
    struct eplb_completion completions[COUNT];
    const struct eplb_group *group = stage.ranks[1];
    assert_int_equal(group->poll(group->self, stage.current, completions, COUNT), COUNT);
    for (uint32_t op = 0; op < COUNT; op++) {
        assert_int_equal(completions[op].result, EPLB_OP_CANCELLED);
        stage_receive(&stage, 1, 0, stage_tag(1, (int32_t)(COUNT + op), 0), other_target + op * SMALL, SMALL,
                      op);
    }
    stage_pass(&stage, 20);
    for (uint32_t op = 0; op < COUNT; op++)
        assert_int_equal(stage_result(&stage, 1, op), NOT_ENDED);
    assert_true(is_untouched(target));
    assert_true(is_untouched(other_target));
    stage_close(&stage);
}

/* A sender that is an attempt ahead is not lost on a receiver that still polls for the one before. */
static void a_message_may_be_early(void **state)
{
    struct stage stage;
    open_with(&stage, state, 2);
    stage_send(&stage, 0, 1, stage_tag(2, 0, 0), source, LARGE, 0);
    stage.current.value = 1;
    stage_pass(&stage, 20);
    stage.current.value = 2;
    stage_receive(&stage, 1, 0, stage_tag(2, 0, 0), target, LARGE, 0);
    assert_int_equal(stage_until(&stage, 1, 0), EPLB_OP_DONE);
    assert_true(stage_is(target, LARGE, 1));
    stage_close(&stage);
}

/* Attempts of random messages, each given up at a random moment unless it completes before; the tags of
 * all are the same but for the token. What completes must have the content of its own attempt. */
enum { ATTEMPTS = 1500, ATTEMPT_RANKS = 3, ATTEMPT_MESSAGES = 6, ATTEMPT_BYTES = 9000 };

static int give_up_at_random(struct stage *stage, struct eplb_prng *prng, const int32_t *from,
                             const int32_t *to)
{
    int ended = 0;
    for (uint64_t polls = eplb_prng_below(prng, 60); polls > 0; polls--)
        stage_poll(stage, (int32_t)eplb_prng_below(prng, ATTEMPT_RANKS));
    for (uint32_t op = 0; op < ATTEMPT_MESSAGES; op++) {
        ended += stage_result(stage, to[op], ATTEMPT_MESSAGES + op) == EPLB_OP_DONE;
        cancel(stage, from[op], op);
        cancel(stage, to[op], ATTEMPT_MESSAGES + op);
    }
    return ended;
}

static int run_attempt(struct stage *stage, struct eplb_prng *prng, uint64_t token)
{
    static unsigned char sent[ATTEMPT_MESSAGES][ATTEMPT_BYTES];
    static unsigned char received[ATTEMPT_MESSAGES][ATTEMPT_BYTES];
    int32_t from[ATTEMPT_MESSAGES];
    int32_t to[ATTEMPT_MESSAGES];
    stage->current.value = token;
    for (uint32_t op = 0; op < ATTEMPT_MESSAGES; op++) {
        from[op] = (int32_t)eplb_prng_below(prng, ATTEMPT_RANKS);
        to[op] = (int32_t)eplb_prng_below(prng, ATTEMPT_RANKS);
        stage_fill(sent[op], ATTEMPT_BYTES, token * ATTEMPT_MESSAGES + op);
        stage_send(stage, from[op], to[op], stage_tag(token, (int32_t)op, 0), sent[op], ATTEMPT_BYTES, op);
        stage_receive(stage, to[op], from[op], stage_tag(token, (int32_t)op, 0), received[op], ATTEMPT_BYTES,
                      ATTEMPT_MESSAGES + op);
        if (eplb_prng_below(prng, 2) == 0)
            stage_poll(stage, from[op]);
    }
    int done = give_up_at_random(stage, prng, from, to);
    for (uint32_t op = 0; op < ATTEMPT_MESSAGES; op++) {
        int result = stage_until(stage, to[op], ATTEMPT_MESSAGES + op);
        assert_true(result == EPLB_OP_DONE || result == EPLB_OP_CANCELLED);
        assert_true(result != EPLB_OP_DONE ||
                    stage_is(received[op], ATTEMPT_BYTES, token * ATTEMPT_MESSAGES + op));
        stage_until(stage, from[op], op);
        stage_forget(stage, from[op], op);
        stage_forget(stage, to[op], ATTEMPT_MESSAGES + op);
    }
    return done;
}

static void attempts_given_up_at_random_do_not_mix(void **state)
{
    struct stage stage;
    struct eplb_prng prng;
    open_with(&stage, state, ATTEMPT_RANKS);
    print_message("seed 31\n");
    eplb_prng_seed(&prng, 31);
    int done = 0;
    for (uint64_t token = 1; token <= ATTEMPTS; token++)
        done += run_attempt(&stage, &prng, token);
    /* Both must have been common, or the test says little. */
    assert_in_range(done, ATTEMPTS * ATTEMPT_MESSAGES / 20, ATTEMPTS * ATTEMPT_MESSAGES * 19 / 20);
    stage_close(&stage);
}

/* ---- deaths ---- */

static void operations_with_a_dead_member_fail(void **state)
{
    struct stage stage;
    open_with(&stage, state, 3);
    start_large(&stage, 1);
    unsigned char byte = 5;
    unsigned char received[4] = {0};
    stage_send(&stage, 0, 2, stage_tag(1, 1, 0), &byte, 1, 1);
    stage_receive(&stage, 2, 0, stage_tag(1, 1, 0), &received[0], 1, 1);
    stage_receive(&stage, 0, 1, stage_tag(1, 2, 0), &received[1], 1, 2);
    stage_send(&stage, 0, 1, stage_tag(1, 3, 0), &byte, 1, 3);
    stage_receive(&stage, 2, 1, stage_tag(1, 4, 0), &received[2], 1, 4);

    /* Said twice and by two: by a member, and by the engine. */
    stage.ranks[2]->member_dead(stage.ranks[2]->self, 1);
    stage.engine->member_dead(stage.engine->self, 1);
    for (int pass = 0; pass < 20; pass++) {
        stage_poll(&stage, 0);
        stage_poll(&stage, 2);
    }
    static const uint32_t failed[] = {0, 2, 3};
    for (size_t i = 0; i < LENGTH(failed); i++)
        assert_int_equal(stage_result(&stage, 0, failed[i]), EPLB_OP_FAILED);
    assert_int_equal(stage_result(&stage, 2, 4), EPLB_OP_FAILED);
    assert_int_equal(stage_result(&stage, 0, 1), EPLB_OP_DONE);
    assert_int_equal(stage_result(&stage, 2, 1), EPLB_OP_DONE);
    assert_int_equal(received[0], 5);

    /* What is posted afterwards fails too, and the living go on. */
    stage_send(&stage, 0, 1, stage_tag(2, 0, 0), &byte, 1, 10);
    stage_receive(&stage, 0, 1, stage_tag(2, 1, 0), &received[1], 1, 11);
    stage_send(&stage, 2, 0, stage_tag(2, 2, 0), &byte, 1, 12);
    stage_receive(&stage, 0, 2, stage_tag(2, 2, 0), &received[3], 1, 13);
    assert_int_equal(stage_until(&stage, 0, 10), EPLB_OP_FAILED);
    assert_int_equal(stage_until(&stage, 0, 11), EPLB_OP_FAILED);
    assert_int_equal(stage_until(&stage, 0, 13), EPLB_OP_DONE);
    assert_int_equal(received[3], 5);
    stage_close(&stage);
}

/* ---- waiting ---- */

static bool has_been_seen(const _Atomic int *seen)
{
    int64_t deadline = stage_now() + PATIENCE_NS;
    while (atomic_load(seen) == 0 && stage_now() < deadline)
        sched_yield();
    return atomic_load(seen) != 0;
}

/* Rank 0 sleeps until rank 1 does the first, second, third thing, each of which comes only after the one
 * before was seen; a wait that missed one would last for the whole of the patience. */
static void sleep_through_three_events(struct stage_rank *rank)
{
    _Atomic int *seen = rank->shared;
    const struct eplb_group *group = rank->group;
    const struct eplb_activation_token token = {1};
    unsigned char byte = 9;
    const struct eplb_part part = {.data = &byte, .size = 1};
    const struct eplb_message_tag tag = stage_tag(1, 0, 0);
    int result;
    stage_dawdle(&rank->prng, 200);
    if (group->rank == 1) {
        RANK_CHECK(rank, group->post_send(group->self, 0, &tag, &part, 1, (struct eplb_op){0}) == EPLB_OK);
        RANK_CHECK(rank, stage_finish(rank, token, &result, 1) && result == EPLB_OP_DONE);
        /* The message has left, but what a dead rank sent need not arrive. */
        RANK_CHECK(rank, group->barrier(group->self, NULL) == EPLB_OK);
        stage_dawdle(&rank->prng, 200);
        if (eplb_prng_below(&rank->prng, 2) == 0)
            group->record_abort(group->self, token);
        else
            group->record_vote(group->self, token, 0);
        RANK_CHECK(rank, has_been_seen(seen));
        group->member_dead(group->self, 1);
        return;
    }
    byte = 0;
    RANK_CHECK(rank, group->post_recv(group->self, 1, &tag, &part, 1, (struct eplb_op){0}) == EPLB_OK);
    RANK_CHECK(rank, stage_finish(rank, token, &result, 1) && result == EPLB_OP_DONE);
    RANK_CHECK(rank, byte == 9);
    RANK_CHECK(rank, group->barrier(group->self, NULL) == EPLB_OK);
    int64_t deadline = stage_now() + PATIENCE_NS;
    struct eplb_completion completion;
    while (group->poll(group->self, token, &completion, 1) == 0 &&
           group->record_read(group->self, token) == EPLB_UNDECIDED)
        group->wait(group->self, deadline);
    atomic_store(seen, 1);
    const struct eplb_message_tag never = stage_tag(1, 1, 0);
    RANK_CHECK(rank, group->post_recv(group->self, 1, &never, &part, 1, (struct eplb_op){0}) == EPLB_OK);
    RANK_CHECK(rank, stage_finish(rank, token, &result, 1) && result == EPLB_OP_FAILED);
    RANK_CHECK(rank, stage_now() < deadline);
}

static void a_wait_ends_when_something_happens(void **state)
{
    _Atomic int *seen = stage_memory(sizeof *seen);
    const struct contract_request request = {.num_ranks = 2, .max_ops = 64, .transfer_bytes = RING};
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct stage stage;
        atomic_store(seen, 0);
        stage_open_apart(&stage, *state, &request);
        stage.engine->record_open(stage.engine->self, (struct eplb_activation_token){1});
        stage_run(&stage, sleep_through_three_events, seed, seen);
        stage_close(&stage);
    }
    stage_release(seen, sizeof *seen);
}

/* A wait that overlooks what poll could do now would last for seconds. */
static void a_wait_does_not_begin_while_there_is_work(void **state)
{
    enum { SECONDS = 5 };
    struct stage stage;
    open_with(&stage, state, 2);
    unsigned char byte = 1;
    unsigned char received = 0;
    const struct eplb_group *group = stage.ranks[0];
    stage_receive(&stage, 1, 0, stage_tag(1, 0, 0), &received, 1, 0);
    stage_poll(&stage, 0);
    int64_t deadline = stage_now() + SECONDS * INT64_C(1000000000);
    stage_send(&stage, 0, 1, stage_tag(1, 0, 0), &byte, 1, 0);
    group->wait(group->self, deadline);
    /* Now it has ended, but was not collected. */
    assert_int_equal(group->poll(group->self, stage.current, NULL, 0), 0);
    group->wait(group->self, deadline);
    stage_poll(&stage, 0);
    assert_int_equal(stage_result(&stage, 0, 0), EPLB_OP_DONE);
    assert_true(stage_now() < deadline);
    stage_close(&stage);
}

static void a_wait_ends_at_its_deadline(void **state)
{
    enum { NANOSECONDS = 3000000 };
    struct stage stage;
    open_with(&stage, state, 2);
    const struct eplb_group *group = stage.ranks[0];
    stage_pass(&stage, 3);
    int64_t deadline = stage_now() + NANOSECONDS;
    /* It may wake without cause, but not busily: after the deadline it has at last come back. */
    int wakes = 0;
    while (stage_now() < deadline && wakes < 1000) {
        stage_poll(&stage, 0);
        group->wait(group->self, deadline);
        wakes++;
    }
    assert_in_range(wakes, 1, 999);
    assert_true(stage_now() >= deadline);
    stage_close(&stage);
}

int group_cancels_run(const struct contract_maker *maker)
{
    void *given = (void *)(uintptr_t)maker;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_lone_send_is_cancelled, given),
        cmocka_unit_test_prestate(a_lone_receive_is_cancelled, given),
        cmocka_unit_test_prestate(a_send_under_way_is_cancelled, given),
        cmocka_unit_test_prestate(a_receive_under_way_is_cancelled, given),
        cmocka_unit_test_prestate(a_receive_that_is_posted_anew_gets_the_whole_message, given),
        cmocka_unit_test_prestate(a_cancel_that_comes_too_late_changes_nothing, given),
        cmocka_unit_test_prestate(a_cancel_leaves_the_others_alone, given),
        cmocka_unit_test_prestate(an_aborted_attempt_leaves_nothing_in_the_next, given),
        cmocka_unit_test_prestate(what_is_left_of_one_slot_does_not_fill_another, given),
        cmocka_unit_test_prestate(a_message_may_be_early, given),
        cmocka_unit_test_prestate(attempts_given_up_at_random_do_not_mix, given),
        cmocka_unit_test_prestate(operations_with_a_dead_member_fail, given),
        cmocka_unit_test_prestate(a_wait_ends_when_something_happens, given),
        cmocka_unit_test_prestate(a_wait_does_not_begin_while_there_is_work, given),
        cmocka_unit_test_prestate(a_wait_ends_at_its_deadline, given),
    };
    return cmocka_run_group_tests_name("cancels", tests, NULL, NULL);
}
