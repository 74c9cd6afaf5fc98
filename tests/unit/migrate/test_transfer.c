/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* One transfer core, event by event. Actions are compared as text, one word group per action. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/layer_plan.h"
#include "migrate/transfer.h"
#include "support/death.h"
#include "support/tables.h"

enum { TIMEOUT = 100, EXPERT_BYTES = 10 };

static const struct eplb_transfer_limits two_chunks = {4, 8, TIMEOUT};
static const int32_t table_a[] = {0, 1, 2, 3};
static const int32_t table_b[] = {0, 2, 1, 3}; /* ranks 0 and 1 swap experts 1 and 2 */

/* Rank 0 of two, and what its core did last. */
struct fixture {
    struct eplb_shape shape;
    struct eplb_transfer *transfer;
    struct eplb_layer_plan plan;
    void *plan_memory;
    struct eplb_op posted[64]; /* in order */
    int32_t num_posted;
    char actions[1024];
};

static void build_plan(struct fixture *f, const int32_t *old_ids, const int32_t *new_ids)
{
    void *scratch = malloc(eplb_placement_diff_scratch(&f->shape));
    assert_non_null(scratch);
    eplb_layer_plan_build(&f->plan, &f->shape, 0, old_ids, new_ids, scratch);
    f->plan.layer = 5;
    free(scratch);
}

static struct fixture *set_up_with(const int32_t *old_ids, const int32_t *new_ids,
                                   const struct eplb_transfer_limits *limits, int64_t expert_bytes)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct eplb_arena arena;
    assert_non_null(f);
    f->shape = tables_shape(4, 2, 0);
    eplb_arena_init(&arena, NULL, 0);
    eplb_layer_plan_take(&arena, &f->shape, &f->plan);
    f->plan_memory = eplb_arena_block(arena.used);
    eplb_arena_init(&arena, f->plan_memory, arena.used);
    eplb_layer_plan_take(&arena, &f->shape, &f->plan);
    build_plan(f, old_ids, new_ids);
    void *memory = eplb_arena_block(eplb_transfer_size(&f->shape, expert_bytes, limits));
    assert_non_null(memory);
    f->transfer = eplb_transfer_init(memory, &f->shape, 0, expert_bytes, limits);
    return f;
}

static struct fixture *set_up(void)
{
    return set_up_with(table_a, table_b, &two_chunks, EXPERT_BYTES);
}

static void tear_down(struct fixture *f)
{
    eplb_arena_free(f->transfer);
    eplb_arena_free(f->plan_memory);
    free(f);
}

static void write_action(struct fixture *f, const struct eplb_transfer_action *action)
{
    size_t length = strlen(f->actions);
    char *text = f->actions + length;
    size_t room = sizeof f->actions - length;
    const char *comma = length > 0 ? ", " : "";
    bool send = action->type == EPLB_TRANSFER_POST_SEND;
    switch (action->type) {
    case EPLB_TRANSFER_POST_SEND:
    case EPLB_TRANSFER_POST_RECV:
        assert_int_equal(action->tag.token.value, action->token.value);
        assert_int_equal(action->layer, 5);
        f->posted[f->num_posted++] = action->op;
        snprintf(text, room, "%s%s %d slot %d/%d at %d: %" PRId64 "+%" PRId64, comma, send ? "to" : "from",
                 action->peer, action->tag.slot, action->tag.chunk, action->local_slot, action->offset,
                 action->bytes);
        break;
    case EPLB_TRANSFER_CANCEL:
        for (int32_t i = 0; i < f->num_posted; i++)
            if (f->posted[i].value == action->op.value)
                snprintf(text, room, "%scancel #%d", comma, i);
        break;
    case EPLB_TRANSFER_VOTE:
        snprintf(text, room, "%svote %s", comma, action->yes ? "yes" : "no");
        break;
    case EPLB_TRANSFER_ABORT_RECORD:
        snprintf(text, room, "%sabort the record", comma);
        break;
    }
}

/* Steps, and compares all actions. */
static void expect_at(struct fixture *f, struct eplb_transfer_event event, int64_t now, const char *actions)
{
    struct eplb_transfer_action action;
    f->actions[0] = '\0';
    eplb_transfer_step(f->transfer, &event, now);
    while (eplb_transfer_next(f->transfer, &action))
        write_action(f, &action);
    assert_string_equal(f->actions, actions);
}

static void expect(struct fixture *f, struct eplb_transfer_event event, const char *actions)
{
    expect_at(f, event, 0, actions);
}

static struct eplb_transfer_event begin(const struct fixture *f, uint64_t token)
{
    return (struct eplb_transfer_event){.type = EPLB_TRANSFER_BEGIN, .token = {token}, .plan = &f->plan};
}

static struct eplb_transfer_event materialised(uint64_t token, bool ok)
{
    return (struct eplb_transfer_event){.type = EPLB_TRANSFER_MATERIALISED,
                                        .token = {token},
                                        .ok = ok,
                                        .reason = ok ? EPLB_REASON_NONE : EPLB_REASON_HOOK_FAILED};
}

static struct eplb_transfer_event finish(uint64_t token)
{
    return (struct eplb_transfer_event){.type = EPLB_TRANSFER_FINISH, .token = {token}};
}

static struct eplb_transfer_event give_up(uint64_t token)
{
    return (struct eplb_transfer_event){
        .type = EPLB_TRANSFER_GIVE_UP, .token = {token}, .reason = EPLB_REASON_STEP_ABORTED};
}

static struct eplb_transfer_event decided(uint64_t token, enum eplb_decision decision)
{
    return (struct eplb_transfer_event){
        .type = EPLB_TRANSFER_DECIDED, .token = {token}, .decision = decision};
}

/* The end of the i-th posted operation. */
static struct eplb_transfer_event ended(const struct fixture *f, int32_t i, enum eplb_op_result result)
{
    assert_in_range(i, 0, f->num_posted - 1);
    return (struct eplb_transfer_event){.type = EPLB_TRANSFER_COMPLETED,
                                        .completion = {f->posted[i], result}};
}

static void assert_done(const struct fixture *f, enum eplb_decision decision, enum eplb_reason reason)
{
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_DONE);
    assert_int_equal(eplb_transfer_decision(f->transfer), decision);
    assert_int_equal(eplb_transfer_reason(f->transfer), reason);
    assert_int_equal(eplb_transfer_bytes_sending(f->transfer), 0);
    assert_int_equal(eplb_transfer_bytes_receiving(f->transfer), 0);
    assert_true(eplb_transfer_deadline(f->transfer) == INT64_MAX);
}

#define FIRST_POSTS                                                              \
    "from 1 slot 1/0 at 1: 0+4, from 1 slot 1/1 at 1: 4+4, to 1 slot 2/0 at 1: " \
    "0+4, to 1 slot 2/1 at 1: 4+4"

/* The four first operations of the swap: #0 and #1 are receives, #2 and #3 sends. */
static void start_swap(struct fixture *f, uint64_t token)
{
    f->num_posted = 0;
    expect(f, begin(f, token), "");
    expect(f, materialised(token, true), FIRST_POSTS);
}

static void finish_swap(struct fixture *f)
{
    expect(f, ended(f, 1, EPLB_OP_DONE), "from 1 slot 1/2 at 1: 8+2");
    expect(f, ended(f, 2, EPLB_OP_DONE), "to 1 slot 2/2 at 1: 8+2");
    expect(f, ended(f, 3, EPLB_OP_DONE), "");
    expect(f, ended(f, 0, EPLB_OP_DONE), "");
    expect(f, ended(f, 5, EPLB_OP_DONE), "");
    expect(f, ended(f, 4, EPLB_OP_DONE), "vote yes");
}

static void a_swap_is_committed(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_IDLE);
    start_swap(f, 7);
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_EXCHANGING);
    assert_int_equal(eplb_transfer_bytes_sending(f->transfer), 8);
    assert_int_equal(eplb_transfer_bytes_receiving(f->transfer), 8);
    finish_swap(f);
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_VOTED);
    expect(f, decided(7, EPLB_UNDECIDED), "");
    expect(f, finish(7), "");
    assert_int_equal(eplb_transfer_decision(f->transfer), EPLB_UNDECIDED);
    expect(f, decided(7, EPLB_COMMIT), "");
    assert_done(f, EPLB_COMMIT, EPLB_REASON_NONE);
    tear_down(f);
}

static void a_rank_without_messages_votes_when_staged(void **state)
{
    (void)state;
    static const int32_t reordered[] = {1, 0, 2, 3};
    struct fixture *f = set_up_with(table_a, reordered, &two_chunks, EXPERT_BYTES);
    assert_int_equal(f->plan.num_local_changes, 2);
    expect(f, begin(f, 1), "");
    expect(f, materialised(1, true), "vote yes");
    expect(f, decided(1, EPLB_COMMIT), "");
    assert_done(f, EPLB_COMMIT, EPLB_REASON_NONE);
    tear_down(f);
}

static void a_rank_without_plan_votes_no_and_takes_no_part(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    struct eplb_transfer_event event = {
        .type = EPLB_TRANSFER_NO_PLAN, .token = {3}, .reason = EPLB_REASON_BASE_HASH};
    expect(f, event, "vote no");
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_VOTED);
    expect(f, finish(3), "");
    expect(f, decided(3, EPLB_ABORT), "");
    assert_done(f, EPLB_ABORT, EPLB_REASON_BASE_HASH);
    tear_down(f);
}

/* Its peers get what they wait for: the active tensors are as good as ever. */
static void a_failed_hook_votes_no_and_still_exchanges(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    expect(f, begin(f, 1), "");
    expect(f, materialised(1, false), "vote no, " FIRST_POSTS);
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_VOTED);
    expect(f, ended(f, 0, EPLB_OP_DONE), "from 1 slot 1/2 at 1: 8+2");
    expect(f, ended(f, 2, EPLB_OP_DONE), "to 1 slot 2/2 at 1: 8+2");
    for (int32_t i = 1; i < 6; i++)
        if (i != 2)
            expect(f, ended(f, i, EPLB_OP_DONE), "");
    expect(f, decided(1, EPLB_ABORT), "");
    assert_done(f, EPLB_ABORT, EPLB_REASON_HOOK_FAILED);
    tear_down(f);
}

static void a_failed_operation_votes_no_once(void **state)
{
    (void)state;
    const enum eplb_op_result results[] = {EPLB_OP_FAILED, EPLB_OP_CANCELLED};
    for (size_t i = 0; i < 2; i++) {
        struct fixture *f = set_up();
        start_swap(f, 1);
        expect(f, ended(f, 3, results[i]), "vote no, to 1 slot 2/2 at 1: 8+2");
        expect(f, ended(f, 1, results[i]), "from 1 slot 1/2 at 1: 8+2");
        expect(f, decided(1, EPLB_ABORT), "cancel #2, cancel #4, cancel #0, cancel #5");
        for (int32_t j = 0; j < 6; j++)
            if (j != 3 && j != 1)
                expect(f, ended(f, j, EPLB_OP_CANCELLED), "");
        assert_done(f, EPLB_ABORT, EPLB_REASON_TRANSFER_FAILED);
        tear_down(f);
    }
}

/* A group that takes no more: the core is told between two actions. */
static void a_refused_post_is_a_failed_operation(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    struct eplb_transfer_event event = materialised(1, true);
    struct eplb_transfer_action action;
    expect(f, begin(f, 1), "");
    eplb_transfer_step(f->transfer, &event, 0);
    assert_true(eplb_transfer_next(f->transfer, &action));
    write_action(f, &action);
    expect(f, ended(f, 0, EPLB_OP_FAILED),
           "vote no, from 1 slot 1/1 at 1: 4+4, from 1 slot 1/2 at 1: 8+2, to 1 slot 2/0 at 1: 0+4, "
           "to 1 slot 2/1 at 1: 4+4");
    tear_down(f);
}

static void an_abort_before_the_vote_is_awaited_to_the_end(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    start_swap(f, 1);
    expect(f, ended(f, 0, EPLB_OP_DONE), "from 1 slot 1/2 at 1: 8+2");
    expect(f, decided(1, EPLB_ABORT), "cancel #2, cancel #3, cancel #4, cancel #1");
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_CANCELLING);
    expect(f, decided(1, EPLB_ABORT), "");
    expect(f, ended(f, 2, EPLB_OP_CANCELLED), "");
    expect(f, ended(f, 4, EPLB_OP_DONE), ""); /* the cancel came too late */
    expect(f, ended(f, 1, EPLB_OP_CANCELLED), "");
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_CANCELLING);
    expect(f, ended(f, 3, EPLB_OP_FAILED), "");
    assert_done(f, EPLB_ABORT, EPLB_REASON_ABORTED_BY_ANOTHER);
    tear_down(f);
}

/* The hook writes staging: it is one of the operations that must have ended. */
static void an_abort_during_the_hook_waits_for_it(void **state)
{
    (void)state;
    for (int ok = 0; ok < 2; ok++) {
        struct fixture *f = set_up();
        expect(f, begin(f, 1), "");
        expect(f, decided(1, EPLB_ABORT), "");
        assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_CANCELLING);
        expect(f, materialised(1, ok), "");
        assert_done(f, EPLB_ABORT, EPLB_REASON_ABORTED_BY_ANOTHER);
        tear_down(f);
    }
}

static void the_deadline_asks_the_record_once(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    start_swap(f, 1);
    assert_true(eplb_transfer_deadline(f->transfer) == INT64_MAX);
    expect_at(f, finish(1), 1000, "");
    assert_int_equal(eplb_transfer_deadline(f->transfer), 1000 + TIMEOUT);
    expect_at(f, decided(1, EPLB_UNDECIDED), 1000 + TIMEOUT - 1, "");
    expect_at(f, decided(1, EPLB_UNDECIDED), 1000 + TIMEOUT, "abort the record");
    assert_true(eplb_transfer_deadline(f->transfer) == INT64_MAX);
    assert_int_equal(eplb_transfer_decision(f->transfer), EPLB_UNDECIDED);
    expect_at(f, decided(1, EPLB_UNDECIDED), 5000, "");
    expect_at(f, ended(f, 0, EPLB_OP_DONE), 5000, "from 1 slot 1/2 at 1: 8+2");
    expect_at(f, decided(1, EPLB_ABORT), 5000, "cancel #2, cancel #3, cancel #4, cancel #1");
    for (int32_t i = 1; i < 5; i++)
        expect_at(f, ended(f, i, EPLB_OP_CANCELLED), 5000, "");
    assert_done(f, EPLB_ABORT, EPLB_REASON_DEADLINE);
    tear_down(f);
}

/* The others were in time: the record says commit, whatever this rank's clock says. */
static void a_commit_beats_the_deadline(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    start_swap(f, 1);
    finish_swap(f);
    expect_at(f, finish(1), 1, "");
    expect_at(f, decided(1, EPLB_UNDECIDED), 1 + TIMEOUT, "abort the record");
    expect_at(f, decided(1, EPLB_COMMIT), 1 + TIMEOUT, "");
    assert_done(f, EPLB_COMMIT, EPLB_REASON_NONE);
    start_swap(f, 2);
    finish_swap(f);
    expect_at(f, finish(2), 1000, "");
    expect_at(f, decided(2, EPLB_COMMIT), 1000 + TIMEOUT, "");
    assert_done(f, EPLB_COMMIT, EPLB_REASON_NONE);
    tear_down(f);
}

static void a_deadline_beyond_all_time_never_comes(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    start_swap(f, 1);
    expect_at(f, finish(1), INT64_MAX - TIMEOUT + 1, "");
    expect_at(f, decided(1, EPLB_UNDECIDED), INT64_MAX - 1, "");
    tear_down(f);
}

static void giving_up_votes_no_and_posts_no_more(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    start_swap(f, 1);
    expect(f, give_up(1), "vote no");
    expect(f, ended(f, 0, EPLB_OP_DONE), "");
    expect(f, give_up(1), "");
    expect(f, decided(1, EPLB_ABORT), "cancel #2, cancel #3, cancel #1");
    for (int32_t i = 1; i < 4; i++)
        expect(f, ended(f, i, EPLB_OP_CANCELLED), "");
    assert_done(f, EPLB_ABORT, EPLB_REASON_STEP_ABORTED);
    /* The next attempt knows nothing of it. */
    start_swap(f, 2);
    finish_swap(f);
    expect(f, decided(2, EPLB_COMMIT), "");
    assert_done(f, EPLB_COMMIT, EPLB_REASON_NONE);
    tear_down(f);
}

static void giving_up_before_the_hook_returns(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    expect(f, begin(f, 1), "");
    expect(f, give_up(1), "vote no");
    expect(f, materialised(1, true), "");
    expect(f, decided(1, EPLB_ABORT), "");
    assert_done(f, EPLB_ABORT, EPLB_REASON_STEP_ABORTED);
    tear_down(f);
}

/* It voted yes, so only the record can say, but it does not wait longer than a finish_step would. */
static void giving_up_after_a_yes_waits_for_the_record(void **state)
{
    (void)state;
    for (int commit = 0; commit < 2; commit++) {
        struct fixture *f = set_up();
        start_swap(f, 1);
        finish_swap(f);
        expect_at(f, give_up(1), 50, "");
        assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_VOTED);
        assert_int_equal(eplb_transfer_deadline(f->transfer), 50 + TIMEOUT);
        expect_at(f, decided(1, commit ? EPLB_COMMIT : EPLB_ABORT), 60, "");
        assert_done(f, commit ? EPLB_COMMIT : EPLB_ABORT,
                    commit ? EPLB_REASON_NONE : EPLB_REASON_STEP_ABORTED);
        tear_down(f);
    }
}

static void events_of_other_attempts_are_ignored(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    expect(f, decided(1, EPLB_ABORT), "");
    expect(f, finish(1), "");
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_IDLE);
    start_swap(f, 1);
    expect(f, decided(1, EPLB_ABORT), "cancel #2, cancel #3, cancel #0, cancel #1");
    struct eplb_transfer_event late[4];
    for (int32_t i = 0; i < 4; i++)
        late[i] = ended(f, i, EPLB_OP_CANCELLED);
    for (int32_t i = 0; i < 4; i++)
        expect(f, late[i], "");
    assert_done(f, EPLB_ABORT, EPLB_REASON_ABORTED_BY_ANOTHER);
    expect(f, finish(1), "");
    expect(f, give_up(1), "");
    expect(f, decided(1, EPLB_COMMIT), "");
    assert_done(f, EPLB_ABORT, EPLB_REASON_ABORTED_BY_ANOTHER);

    start_swap(f, 2);
    for (int32_t i = 0; i < 4; i++)
        expect(f, late[i], "");
    expect(f, decided(1, EPLB_ABORT), "");
    expect(f, decided(3, EPLB_ABORT), "");
    expect(f, give_up(1), "");
    expect_at(f, finish(1), 0, "");
    assert_true(eplb_transfer_deadline(f->transfer) == INT64_MAX);
    finish_swap(f);
    expect(f, decided(2, EPLB_COMMIT), "");
    assert_done(f, EPLB_COMMIT, EPLB_REASON_NONE);
    tear_down(f);
}

/* An operation's place is taken again within an attempt: the key must still name one of the two. */
static void a_repeated_completion_is_ignored(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    start_swap(f, 1);
    expect(f, ended(f, 0, EPLB_OP_DONE), "from 1 slot 1/2 at 1: 8+2");
    assert_int_equal(eplb_transfer_bytes_receiving(f->transfer), 6);
    expect(f, ended(f, 0, EPLB_OP_DONE), "");
    expect(f, ended(f, 0, EPLB_OP_FAILED), "");
    assert_int_equal(eplb_transfer_bytes_receiving(f->transfer), 6);
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_EXCHANGING);
    tear_down(f);
}

static void chunks_are_counted(void **state)
{
    (void)state;
    const int64_t mib = 1048576;
    assert_int_equal(eplb_transfer_chunks(4 * mib, 4 * mib), 1);
    assert_int_equal(eplb_transfer_chunks(4 * mib + 1, 4 * mib), 2);
    assert_int_equal(eplb_transfer_chunks(4 * mib - 1, 4 * mib), 1);
    assert_int_equal(eplb_transfer_chunks(8 * mib, 4 * mib), 2);
    assert_int_equal(eplb_transfer_chunks(10 * mib + 1, 4 * mib), 3);
    assert_int_equal(eplb_transfer_chunks(1, 4 * mib), 1);
    assert_int_equal(eplb_transfer_chunks(INT64_MAX, INT64_MAX), 1);
    assert_int_equal(eplb_transfer_chunks(INT64_MAX, (INT64_C(1) << 32) + 4), 2147483647);
}

static void the_last_chunk_is_the_rest(void **state)
{
    (void)state;
    static const struct {
        int64_t expert_bytes;
        const char *posts;
    } cases[] = {
        {8, "from 1 slot 1/0 at 1: 0+4, from 1 slot 1/1 at 1: 4+4, to 1 slot 2/0 at 1: 0+4, to 1 slot 2/1 at "
            "1: 4+4"},
        {7, "from 1 slot 1/0 at 1: 0+4, from 1 slot 1/1 at 1: 4+3, to 1 slot 2/0 at 1: 0+4, to 1 slot 2/1 at "
            "1: 4+3"},
        {5, "from 1 slot 1/0 at 1: 0+4, from 1 slot 1/1 at 1: 4+1, to 1 slot 2/0 at 1: 0+4, to 1 slot 2/1 at "
            "1: 4+1"},
        {4, "from 1 slot 1/0 at 1: 0+4, to 1 slot 2/0 at 1: 0+4"},
        {1, "from 1 slot 1/0 at 1: 0+1, to 1 slot 2/0 at 1: 0+1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture *f = set_up_with(table_a, table_b, &two_chunks, cases[i].expert_bytes);
        expect(f, begin(f, 1), "");
        expect(f, materialised(1, true), cases[i].posts);
        tear_down(f);
    }
}

/* B47: 10 MiB + 1 byte in chunks of 4 MiB; the third is 2 MiB + 1. */
static void a_large_expert_in_three_chunks(void **state)
{
    (void)state;
    const struct eplb_transfer_limits limits = {4194304, 8388608, TIMEOUT};
    struct fixture *f = set_up_with(table_a, table_b, &limits, 10485761);
    expect(f, begin(f, 1), "");
    expect(f, materialised(1, true),
           "from 1 slot 1/0 at 1: 0+4194304, from 1 slot 1/1 at 1: 4194304+4194304, "
           "to 1 slot 2/0 at 1: 0+4194304, to 1 slot 2/1 at 1: 4194304+4194304");
    expect(f, ended(f, 1, EPLB_OP_DONE), "from 1 slot 1/2 at 1: 8388608+2097153");
    tear_down(f);
}

/* Both queues go by slot, then chunk; a bound that leaves half a chunk over leaves it unused. */
static void posts_ascend(void **state)
{
    (void)state;
    static const int32_t crossed[] = {3, 2, 1, 0};
    const struct eplb_transfer_limits limits = {4, 11, TIMEOUT};
    struct fixture *f = set_up_with(table_a, crossed, &limits, 6);
    expect(f, begin(f, 1), "");
    expect(f, materialised(1, true),
           "from 1 slot 0/0 at 0: 0+4, from 1 slot 0/1 at 0: 4+2, from 1 slot 1/0 at 1: 0+4, "
           "to 1 slot 2/0 at 1: 0+4, to 1 slot 2/1 at 1: 4+2, to 1 slot 3/0 at 0: 0+4");
    expect(f, ended(f, 2, EPLB_OP_DONE), "from 1 slot 1/1 at 1: 4+2");
    expect(f, ended(f, 4, EPLB_OP_DONE), "to 1 slot 3/1 at 0: 4+2");
    tear_down(f);
}

static void outstanding_operations_are_bounded(void **state)
{
    (void)state;
    enum { CHUNKS = 1000 };
    const struct eplb_transfer_limits limits = {1, CHUNKS, TIMEOUT};
    struct fixture *f = set_up_with(table_a, table_b, &limits, CHUNKS);
    struct eplb_transfer_event events[] = {begin(f, 1), materialised(1, true)};
    struct eplb_transfer_action action;
    struct eplb_op first = {0};
    int32_t sends = 0;
    int32_t receives = 0;
    for (size_t i = 0; i < 2; i++)
        eplb_transfer_step(f->transfer, &events[i], 0);
    while (eplb_transfer_next(f->transfer, &action)) {
        first = receives == 0 ? action.op : first;
        sends += action.type == EPLB_TRANSFER_POST_SEND;
        receives += action.type == EPLB_TRANSFER_POST_RECV;
    }
    assert_int_equal(sends, EPLB_TRANSFER_MAX_OPS);
    assert_int_equal(receives, EPLB_TRANSFER_MAX_OPS);
    expect(f,
           (struct eplb_transfer_event){.type = EPLB_TRANSFER_COMPLETED, .completion = {first, EPLB_OP_DONE}},
           "from 1 slot 1/256 at 1: 256+1");
    tear_down(f);
}

static void limits_are_checked(void **state)
{
    (void)state;
    static const struct {
        struct eplb_transfer_limits limits;
        int64_t expert_bytes;
        const char *text;
    } cases[] = {
        {{0, 8, 1}, 1, "a transfer chunk of 0 bytes is not > 0"},
        {{-4, 8, 1}, 1, "a transfer chunk of -4 bytes is not > 0"},
        {{4, 3, 1}, 1, "3 bytes in flight are fewer than one transfer chunk of 4"},
        {{4, 4, 0}, 1, "a transfer timeout of 0 ns is not > 0"},
        {{2, 4, 1},
         INT64_C(4294967295),
         "an expert of 4294967295 bytes has more than 2^31 - 1 transfer chunks of 2"},
    };
    struct eplb_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(eplb_transfer_limits_check(&cases[i].limits, cases[i].expert_bytes, &error),
                         EPLB_INVALID);
        assert_string_equal(error.text, cases[i].text);
    }
    const struct eplb_transfer_limits fits = {2, 2, 1};
    assert_int_equal(eplb_transfer_limits_check(&fits, INT64_C(4294967294), &error), EPLB_OK);
}

static void commit_without_a_yes(void *argument)
{
    struct fixture *f = argument;
    struct eplb_transfer_event event = decided(1, EPLB_COMMIT);
    eplb_transfer_step(f->transfer, &event, 0);
}

static void begin_too_early(void *argument)
{
    struct fixture *f = argument;
    struct eplb_transfer_event event = begin(f, 2);
    eplb_transfer_step(f->transfer, &event, 0);
}

static void impossible_events_are_bugs(void **state)
{
    (void)state;
    char errors[512];
    struct fixture *f = set_up();
    start_swap(f, 1);
    assert_int_not_equal(death_of(commit_without_a_yes, f, errors, sizeof errors), 0);
    assert_non_null(strstr(errors, "transfer->voted_yes"));
    assert_int_not_equal(death_of(begin_too_early, f, errors, sizeof errors), 0);
    assert_non_null(strstr(errors, "num_outstanding(transfer) == 0"));
    tear_down(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_swap_is_committed),
        cmocka_unit_test(a_rank_without_messages_votes_when_staged),
        cmocka_unit_test(a_rank_without_plan_votes_no_and_takes_no_part),
        cmocka_unit_test(a_failed_hook_votes_no_and_still_exchanges),
        cmocka_unit_test(a_failed_operation_votes_no_once),
        cmocka_unit_test(a_refused_post_is_a_failed_operation),
        cmocka_unit_test(an_abort_before_the_vote_is_awaited_to_the_end),
        cmocka_unit_test(an_abort_during_the_hook_waits_for_it),
        cmocka_unit_test(the_deadline_asks_the_record_once),
        cmocka_unit_test(a_commit_beats_the_deadline),
        cmocka_unit_test(a_deadline_beyond_all_time_never_comes),
        cmocka_unit_test(giving_up_votes_no_and_posts_no_more),
        cmocka_unit_test(giving_up_before_the_hook_returns),
        cmocka_unit_test(giving_up_after_a_yes_waits_for_the_record),
        cmocka_unit_test(events_of_other_attempts_are_ignored),
        cmocka_unit_test(a_repeated_completion_is_ignored),
        cmocka_unit_test(chunks_are_counted),
        cmocka_unit_test(the_last_chunk_is_the_rest),
        cmocka_unit_test(a_large_expert_in_three_chunks),
        cmocka_unit_test(posts_ascend),
        cmocka_unit_test(outstanding_operations_are_bounded),
        cmocka_unit_test(limits_are_checked),
        cmocka_unit_test(impossible_events_are_bugs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
