/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Messages arrive whole, under their tags, in whatever order they are posted. */
#include "contract/group_stage.h"

#include <stdlib.h>
#include <string.h>

enum { KIB = 1024, MIB = 1024 * 1024, RING = 4 * KIB };

static void open_small(struct stage *stage, void **state, int32_t num_ranks)
{
    const struct contract_request request = {
        .num_ranks = num_ranks, .max_ops = MAX_STAGE_OPS, .transfer_bytes = RING};
    stage_open(stage, *state, &request);
}

/* ---- one message ---- */

static void sizes_of_all_kinds_arrive_whole(void **state)
{
    static const size_t sizes[] = {0,
                                   1,
                                   63,
                                   64,
                                   65,
                                   RING / 2,
                                   RING - 1,
                                   RING,
                                   RING + 1,
                                   3 * RING + 17,
                                   MIB,
                                   MIB + 1,
                                   RING / 2 - 64,
                                   RING / 2 - 63,
                                   10 * MIB + 1};
    struct stage stage;
    open_small(&stage, state, 2);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        size_t size = sizes[i];
        unsigned char *from = malloc(size + 1);
        unsigned char *to = malloc(size + 2);
        assert_non_null(from);
        assert_non_null(to);
        stage_fill(from, size, i);
        memset(to, 0xee, size + 2);
        stage_send(&stage, 0, 1, stage_tag(1, (int32_t)i, 0), from, size, 0);
        stage_receive(&stage, 1, 0, stage_tag(1, (int32_t)i, 0), to + 1, size, 0);
        assert_int_equal(stage_until(&stage, 1, 0), EPLB_OP_DONE);
        assert_int_equal(stage_until(&stage, 0, 0), EPLB_OP_DONE);
        assert_true(stage_is(to + 1, size, i));
        assert_int_equal(to[0], 0xee);
        assert_int_equal(to[size + 1], 0xee);
        stage_forget(&stage, 0, 0);
        stage_forget(&stage, 1, 0);
        free(from);
        free(to);
    }
    stage_close(&stage);
}

static void both_sides_cut_a_message_as_they_like(void **state)
{
    enum { SIZE = 20000 };
    struct stage stage;
    struct eplb_prng prng;
    open_small(&stage, state, 2);
    eplb_prng_seed(&prng, 11);
    static unsigned char from[SIZE];
    static unsigned char to[SIZE];
    stage_fill(from, SIZE, 5);
    for (int32_t round = 0; round < 200; round++) {
        struct eplb_part send[EPLB_MAX_PARTS];
        struct eplb_part receive[EPLB_MAX_PARTS];
        size_t num_send = 1 + eplb_prng_below(&prng, EPLB_MAX_PARTS);
        size_t num_receive = 1 + eplb_prng_below(&prng, EPLB_MAX_PARTS);
        stage_cut(&prng, from, SIZE, send, num_send);
        stage_cut(&prng, to, SIZE, receive, num_receive);
        memset(to, 0, SIZE);
        struct eplb_message_tag tag = stage_tag(1, round, 0);
        const struct eplb_group *const *ranks = stage.ranks;
        assert_int_equal(ranks[0]->post_send(ranks[0]->self, 1, &tag, send, num_send, (struct eplb_op){3}),
                         EPLB_OK);
        assert_int_equal(
            ranks[1]->post_recv(ranks[1]->self, 0, &tag, receive, num_receive, (struct eplb_op){4}), EPLB_OK);
        /* The arrays were copied. */
        memset(send, 0xff, sizeof send);
        memset(receive, 0xff, sizeof receive);
        assert_int_equal(stage_until(&stage, 1, 4), EPLB_OP_DONE);
        assert_int_equal(stage_until(&stage, 0, 3), EPLB_OP_DONE);
        assert_true(stage_is(to, SIZE, 5));
        stage_forget(&stage, 0, 3);
        stage_forget(&stage, 1, 4);
    }
    stage_close(&stage);
}

static void a_message_without_parts_arrives(void **state)
{
    struct stage stage;
    open_small(&stage, state, 2);
    struct eplb_message_tag tag = stage_tag(1, 0, 0);
    const struct eplb_group *const *ranks = stage.ranks;
    assert_int_equal(ranks[0]->post_send(ranks[0]->self, 1, &tag, NULL, 0, (struct eplb_op){0}), EPLB_OK);
    stage_pass(&stage, 10);
    assert_int_equal(stage_result(&stage, 0, 0), NOT_ENDED);
    assert_int_equal(ranks[1]->post_recv(ranks[1]->self, 0, &tag, NULL, 0, (struct eplb_op){0}), EPLB_OK);
    assert_int_equal(stage_until(&stage, 0, 0), EPLB_OP_DONE);
    assert_int_equal(stage_until(&stage, 1, 0), EPLB_OP_DONE);
    stage_close(&stage);
}

static void a_rank_may_send_to_itself(void **state)
{
    enum { SIZE = 3 * RING };
    static unsigned char from[SIZE];
    static unsigned char to[SIZE];
    struct stage stage;
    open_small(&stage, state, 1);
    stage_fill(from, SIZE, 9);
    stage_send(&stage, 0, 0, stage_tag(1, 2, 3), from, SIZE, 0);
    stage_receive(&stage, 0, 0, stage_tag(1, 2, 3), to, SIZE, 1);
    assert_int_equal(stage_until(&stage, 0, 1), EPLB_OP_DONE);
    assert_int_equal(stage_until(&stage, 0, 0), EPLB_OP_DONE);
    assert_true(stage_is(to, SIZE, 9));
    stage_close(&stage);
}

/* ---- matching ---- */

/* Five receives that differ from the send in one thing each; only the sixth is meant. */
static void every_part_of_the_address_counts(void **state)
{
    static unsigned char to[6][32];
    unsigned char from[32];
    struct stage stage;
    open_small(&stage, state, 3);
    stage_fill(from, sizeof from, 77);
    memset(to, 0xee, sizeof to);
    stage_receive(&stage, 1, 0, stage_tag(2, 5, 6), to[0], 32, 0);
    stage_receive(&stage, 1, 0, stage_tag(1, 4, 6), to[1], 32, 1);
    stage_receive(&stage, 1, 0, stage_tag(1, 5, 7), to[2], 32, 2);
    stage_receive(&stage, 1, 2, stage_tag(1, 5, 6), to[3], 32, 3);
    stage_receive(&stage, 2, 0, stage_tag(1, 5, 6), to[4], 32, 0);
    stage_send(&stage, 0, 1, stage_tag(1, 5, 6), from, 32, 0);
    stage_pass(&stage, 20);
    assert_int_equal(stage_result(&stage, 0, 0), NOT_ENDED);
    stage_receive(&stage, 1, 0, stage_tag(1, 5, 6), to[5], 32, 5);
    assert_int_equal(stage_until(&stage, 1, 5), EPLB_OP_DONE);
    assert_int_equal(stage_until(&stage, 0, 0), EPLB_OP_DONE);
    stage_pass(&stage, 20);
    assert_true(stage_is(to[5], 32, 77));
    for (uint32_t op = 0; op < 4; op++)
        assert_int_equal(stage_result(&stage, 1, op), NOT_ENDED);
    assert_int_equal(stage_result(&stage, 2, 0), NOT_ENDED);
    for (size_t i = 0; i < 5; i++)
        for (size_t at = 0; at < 32; at++)
            assert_int_equal(to[i][at], 0xee);
    stage_close(&stage);
}

/* What is posted on both sides goes through, though larger messages before it lack their other side. */
static void no_message_stands_in_the_way_of_another(void **state)
{
    enum { SIZE = 4 * RING };
    static unsigned char from[3][SIZE];
    static unsigned char to[3][SIZE];
    struct stage stage;
    open_small(&stage, state, 2);
    for (uint32_t i = 0; i < 3; i++)
        stage_fill(from[i], SIZE, i);
    stage_send(&stage, 0, 1, stage_tag(1, 0, 0), from[0], SIZE, 0);
    stage_send(&stage, 0, 1, stage_tag(1, 2, 0), from[2], SIZE, 2);
    stage_receive(&stage, 1, 0, stage_tag(1, 1, 0), to[1], SIZE, 1);
    stage_receive(&stage, 1, 0, stage_tag(1, 2, 0), to[2], SIZE, 2);
    assert_int_equal(stage_until(&stage, 1, 2), EPLB_OP_DONE);
    assert_int_equal(stage_until(&stage, 0, 2), EPLB_OP_DONE);
    assert_int_equal(stage_result(&stage, 0, 0), NOT_ENDED);
    assert_int_equal(stage_result(&stage, 1, 1), NOT_ENDED);
    stage_receive(&stage, 1, 0, stage_tag(1, 0, 0), to[0], SIZE, 0);
    assert_int_equal(stage_until(&stage, 1, 0), EPLB_OP_DONE);
    stage_send(&stage, 0, 1, stage_tag(1, 1, 0), from[1], SIZE, 1);
    assert_int_equal(stage_until(&stage, 1, 1), EPLB_OP_DONE);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(stage_is(to[i], SIZE, i));
    stage_close(&stage);
}

/* ---- any order ---- */

enum { ORDER_RANKS = 3, ORDER_MESSAGES = 40, ORDER_BYTES = 3000 };

/* One side of one message. */
struct side {
    int32_t from;
    int32_t to;
    int32_t slot;
    bool is_send;
};

static void shuffle(struct eplb_prng *prng, struct side *sides, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)eplb_prng_below(prng, i);
        struct side side = sides[i - 1];
        sides[i - 1] = sides[other];
        sides[other] = side;
    }
}

static size_t size_of(int32_t slot)
{
    return (size_t)(slot * slot * 31) % ORDER_BYTES;
}

/* Sends have the numbers from 0, receives those from ORDER_MESSAGES. */
static void post_side(struct stage *stage, const struct side *side, unsigned char (*from)[ORDER_BYTES],
                      unsigned char (*to)[ORDER_BYTES])
{
    struct eplb_message_tag tag = stage_tag(1, side->slot, side->slot % 3);
    size_t size = size_of(side->slot);
    if (side->is_send)
        stage_send(stage, side->from, side->to, tag, from[side->slot], size, (uint32_t)side->slot);
    else
        stage_receive(stage, side->to, side->from, tag, to[side->slot], size,
                      (uint32_t)(ORDER_MESSAGES + side->slot));
}

static void try_an_order(void **state, uint64_t seed)
{
    static unsigned char from[ORDER_MESSAGES][ORDER_BYTES];
    static unsigned char to[ORDER_MESSAGES][ORDER_BYTES];
    struct side sides[2 * ORDER_MESSAGES];
    struct eplb_prng prng;
    struct stage stage;
    const struct contract_request request = {
        .num_ranks = ORDER_RANKS, .max_ops = 2 * ORDER_MESSAGES, .transfer_bytes = 256};
    stage_open(&stage, *state, &request);
    eplb_prng_seed(&prng, seed);
    for (int32_t slot = 0; slot < ORDER_MESSAGES; slot++) {
        struct side side = {.from = (int32_t)eplb_prng_below(&prng, ORDER_RANKS),
                            .to = (int32_t)eplb_prng_below(&prng, ORDER_RANKS),
                            .slot = slot};
        stage_fill(from[slot], ORDER_BYTES, seed * ORDER_MESSAGES + (uint64_t)slot);
        sides[2 * slot] = sides[2 * slot + 1] = side;
        sides[2 * slot].is_send = true;
    }
    shuffle(&prng, sides, LENGTH(sides));
    for (size_t i = 0; i < LENGTH(sides); i++) {
        post_side(&stage, &sides[i], from, to);
        for (uint64_t polls = eplb_prng_below(&prng, 4); polls > 0; polls--)
            stage_poll(&stage, (int32_t)eplb_prng_below(&prng, ORDER_RANKS));
    }
    for (size_t i = 0; i < LENGTH(sides); i++) {
        const struct side *side = &sides[i];
        uint32_t op = (uint32_t)(side->is_send ? side->slot : ORDER_MESSAGES + side->slot);
        assert_int_equal(stage_until(&stage, side->is_send ? side->from : side->to, op), EPLB_OP_DONE);
        assert_true(stage_is(to[side->slot], side->is_send ? 0 : size_of(side->slot),
                             seed * ORDER_MESSAGES + (uint64_t)side->slot));
    }
    stage_close(&stage);
}

static void the_order_of_posts_and_polls_does_not_matter(void **state)
{
    print_message("seeds 0 to 299\n");
    for (uint64_t seed = 0; seed < 300; seed++)
        try_an_order(state, seed);
}

/* ---- limits and refusals ---- */

static void posts_over_the_limit_are_refused(void **state)
{
    enum { MAX_OPS = 5 };
    unsigned char bytes[MAX_OPS + 1] = {0};
    struct stage stage;
    const struct contract_request request = {.num_ranks = 2, .max_ops = MAX_OPS, .transfer_bytes = RING};
    stage_open(&stage, *state, &request);
    const struct eplb_group *group = stage.ranks[0];
    assert_int_equal(group->max_ops, MAX_OPS);
    for (uint32_t op = 0; op < MAX_OPS; op++) {
        if (op % 2 == 0)
            stage_send(&stage, 0, 1, stage_tag(1, (int32_t)op, 0), &bytes[op], 1, op);
        else
            stage_receive(&stage, 0, 1, stage_tag(1, (int32_t)op, 0), &bytes[op], 1, op);
    }
    const struct eplb_message_tag tag = stage_tag(1, MAX_OPS, 0);
    const struct eplb_part part = {.data = &bytes[MAX_OPS], .size = 1};
    const struct eplb_op next = {MAX_OPS};
    assert_int_equal(group->post_send(group->self, 1, &tag, &part, 1, next), EPLB_REFUSED);
    assert_int_equal(group->post_recv(group->self, 1, &tag, &part, 1, next), EPLB_REFUSED);

    /* One that has ended is outstanding until poll has returned it. */
    group->cancel(group->self, (struct eplb_op){2});
    assert_int_equal(group->post_send(group->self, 1, &tag, &part, 1, next), EPLB_REFUSED);
    stage_poll(&stage, 0);
    assert_int_equal(stage_result(&stage, 0, 2), EPLB_OP_CANCELLED);
    assert_int_equal(group->post_send(group->self, 1, &tag, &part, 1, next), EPLB_OK);
    assert_int_equal(group->post_recv(group->self, 1, &tag, &part, 1, (struct eplb_op){7}), EPLB_REFUSED);

    /* The other rank has a limit of its own, and what was refused was not posted. */
    unsigned char received = 0;
    stage_receive(&stage, 1, 0, tag, &received, 1, 0);
    assert_int_equal(stage_until(&stage, 1, 0), EPLB_OP_DONE);
    assert_int_equal(stage_until(&stage, 0, MAX_OPS), EPLB_OP_DONE);
    stage_pass(&stage, 10);
    assert_int_equal(stage_result(&stage, 0, 7), NOT_ENDED);
    stage_close(&stage);
}

static void impossible_posts_are_refused(void **state)
{
    unsigned char byte = 0;
    struct eplb_part parts[EPLB_MAX_PARTS + 1] = {{.data = &byte, .size = 1}};
    const struct eplb_part endless[2] = {{.data = &byte, .size = SIZE_MAX}, {.data = &byte, .size = 1}};
    struct stage stage;
    open_small(&stage, state, 2);
    const struct eplb_group *group = stage.ranks[0];
    const struct eplb_op op = {0};
    const struct eplb_message_tag good = stage_tag(1, 0, 0);
    const struct eplb_message_tag none = stage_tag(0, 0, 0);
    const struct eplb_message_tag large = stage_tag(EPLB_MAX_TOKEN + 1, 0, 0);
    assert_int_equal(group->post_send(group->self, 2, &good, parts, 1, op), EPLB_INVALID);
    assert_int_equal(group->post_recv(group->self, -1, &good, parts, 1, op), EPLB_INVALID);
    assert_int_equal(group->post_send(group->self, 1, &none, parts, 1, op), EPLB_INVALID);
    assert_int_equal(group->post_recv(group->self, 1, &large, parts, 1, op), EPLB_INVALID);
    assert_int_equal(group->post_send(group->self, 1, &good, parts, EPLB_MAX_PARTS + 1, op), EPLB_INVALID);
    assert_int_equal(group->post_recv(group->self, 1, &good, endless, 2, op), EPLB_INVALID);
    assert_int_equal(group->post_send(group->self, 1, &good, parts, 1, op), EPLB_OK);
    assert_int_equal(group->post_recv(group->self, 1, &good, parts, 1, op), EPLB_INVALID);
    stage_close(&stage);
}

static void sizes_that_differ_fail_on_both_sides(void **state)
{
    enum { SIZE = 2 * RING };
    static const size_t pairs[][2] = {{0, 1}, {1, 0}, {SIZE, SIZE - 1}, {SIZE - 1, SIZE}, {5, SIZE}};
    static unsigned char from[SIZE];
    static unsigned char to[SIZE];
    struct stage stage;
    open_small(&stage, state, 2);
    stage_fill(from, SIZE, 3);
    for (uint32_t i = 0; i < LENGTH(pairs); i++) {
        stage_send(&stage, 0, 1, stage_tag(1, (int32_t)i, 0), from, pairs[i][0], i);
        stage_receive(&stage, 1, 0, stage_tag(1, (int32_t)i, 0), to, pairs[i][1], i);
        assert_int_equal(stage_until(&stage, 0, i), EPLB_OP_FAILED);
        assert_int_equal(stage_until(&stage, 1, i), EPLB_OP_FAILED);
    }
    stage_send(&stage, 0, 1, stage_tag(1, 100, 0), from, SIZE, 100);
    stage_receive(&stage, 1, 0, stage_tag(1, 100, 0), to, SIZE, 100);
    assert_int_equal(stage_until(&stage, 1, 100), EPLB_OP_DONE);
    assert_true(stage_is(to, SIZE, 3));
    stage_close(&stage);
}

static void poll_returns_what_there_is_room_for(void **state)
{
    enum { COUNT = 5 };
    unsigned char from[COUNT] = {1, 2, 3, 4, 5};
    unsigned char to[COUNT] = {0};
    struct stage stage;
    open_small(&stage, state, 2);
    for (uint32_t op = 0; op < COUNT; op++) {
        stage_receive(&stage, 1, 0, stage_tag(1, (int32_t)op, 0), &to[op], 1, op);
        stage_send(&stage, 0, 1, stage_tag(1, (int32_t)op, 0), &from[op], 1, op);
    }
    const struct eplb_group *const *ranks = stage.ranks;
    for (uint32_t op = 0; op < COUNT; op++)
        assert_int_equal(stage_until(&stage, 0, op), EPLB_OP_DONE);
    struct eplb_completion completions[COUNT];
    size_t got = 0;
    for (int pass = 0; pass < 100; pass++)
        assert_int_equal(ranks[1]->poll(ranks[1]->self, stage.current, completions, 0), 0);
    for (int pass = 0; pass < 100 && got < COUNT; pass++) {
        for (uint32_t op = 0; op < COUNT; op++)
            got += stage_result(&stage, 1, op) != NOT_ENDED;
        if (got == COUNT)
            break;
        got = 0;
        size_t now = ranks[1]->poll(ranks[1]->self, stage.current, completions, 1);
        assert_in_range(now, 0, 1);
        if (now == 1)
            stage.results[1][completions[0].op.value] = (int)completions[0].result;
    }
    assert_int_equal(got, COUNT);
    assert_memory_equal(from, to, COUNT);
    stage_close(&stage);
}

/* ---- ranks at once ---- */

/* B46: both post both sides at once, larger than any buffer between them. */
enum { SWAP_BYTES = 64 * MIB };

static void swap_with_the_other(struct stage_rank *rank)
{
    const struct eplb_group *group = rank->group;
    int32_t other = 1 - group->rank;
    unsigned char *from = malloc(SWAP_BYTES);
    unsigned char *to = malloc(SWAP_BYTES);
    RANK_CHECK(rank, from != NULL && to != NULL);
    stage_fill(from, SWAP_BYTES, (uint64_t)group->rank);
    struct eplb_message_tag out = stage_tag(1, other, 0);
    struct eplb_message_tag in = stage_tag(1, group->rank, 0);
    struct eplb_part send = {.data = from, .size = SWAP_BYTES};
    struct eplb_part receive = {.data = to, .size = SWAP_BYTES};
    int results[2];
    RANK_CHECK(rank, group->post_send(group->self, other, &out, &send, 1, (struct eplb_op){0}) == EPLB_OK);
    RANK_CHECK(rank, group->post_recv(group->self, other, &in, &receive, 1, (struct eplb_op){1}) == EPLB_OK);
    RANK_CHECK(rank, stage_finish(rank, (struct eplb_activation_token){1}, results, 2));
    RANK_CHECK(rank, results[0] == EPLB_OP_DONE && results[1] == EPLB_OP_DONE);
    RANK_CHECK(rank, stage_is(to, SWAP_BYTES, (uint64_t)other));
    free(from);
    free(to);
}

static void two_ranks_swap_64_mib(void **state)
{
    struct stage stage;
    const struct contract_request request = {.num_ranks = 2, .max_ops = 2, .transfer_bytes = 64 * KIB};
    stage_open_apart(&stage, *state, &request);
    stage_run(&stage, swap_with_the_other, 1, NULL);
    stage_close(&stage);
}

/* Every rank sends one message to the next in a ring of ranks, and one to itself, for many rounds. */
enum { CYCLE_BYTES = 300 * KIB + 5, CYCLE_ROUNDS = 50 };

static void pass_on_to_the_next(struct stage_rank *rank)
{
    static const struct eplb_op next_op = {0};
    const struct eplb_group *group = rank->group;
    int32_t ranks = group->num_ranks;
    int32_t next = (group->rank + 1) % ranks;
    int32_t before = (group->rank + ranks - 1) % ranks;
    unsigned char *from = malloc(CYCLE_BYTES);
    unsigned char *to = malloc(CYCLE_BYTES);
    unsigned char *own = malloc(CYCLE_BYTES);
    RANK_CHECK(rank, from != NULL && to != NULL && own != NULL);
    for (uint64_t token = 1; token <= CYCLE_ROUNDS; token++) {
        struct eplb_message_tag out = stage_tag(token, next, 0);
        struct eplb_message_tag in = stage_tag(token, group->rank, 0);
        struct eplb_message_tag self = stage_tag(token, group->rank, 1);
        struct eplb_part send = {.data = from, .size = CYCLE_BYTES};
        struct eplb_part receive = {.data = to, .size = CYCLE_BYTES};
        struct eplb_part keep = {.data = own, .size = CYCLE_BYTES};
        int results[4];
        stage_fill(from, CYCLE_BYTES, token * MAX_STAGE_RANKS + (uint64_t)group->rank);
        stage_dawdle(&rank->prng, 20);
        RANK_CHECK(rank, group->post_send(group->self, next, &out, &send, 1, next_op) == EPLB_OK);
        stage_dawdle(&rank->prng, 20);
        RANK_CHECK(rank,
                   group->post_recv(group->self, before, &in, &receive, 1, (struct eplb_op){1}) == EPLB_OK);
        RANK_CHECK(rank, group->post_recv(group->self, group->rank, &self, &keep, 1, (struct eplb_op){2}) ==
                             EPLB_OK);
        RANK_CHECK(rank, group->post_send(group->self, group->rank, &self, &send, 1, (struct eplb_op){3}) ==
                             EPLB_OK);
        RANK_CHECK(rank, stage_finish(rank, out.token, results, 4));
        for (int i = 0; i < 4; i++)
            RANK_CHECK(rank, results[i] == EPLB_OP_DONE);
        RANK_CHECK(rank, stage_is(to, CYCLE_BYTES, token * MAX_STAGE_RANKS + (uint64_t)before));
        RANK_CHECK(rank, stage_is(own, CYCLE_BYTES, token * MAX_STAGE_RANKS + (uint64_t)group->rank));
    }
    free(from);
    free(to);
    free(own);
}

static void cycles_come_round(void **state)
{
    struct stage stage;
    const struct contract_request request = {
        .num_ranks = MAX_STAGE_RANKS, .max_ops = 4, .transfer_bytes = RING};
    stage_open_apart(&stage, *state, &request);
    stage_run(&stage, pass_on_to_the_next, 2, NULL);
    stage_close(&stage);
}

int group_messages_run(const struct contract_maker *maker)
{
    void *given = (void *)(uintptr_t)maker;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(sizes_of_all_kinds_arrive_whole, given),
        cmocka_unit_test_prestate(both_sides_cut_a_message_as_they_like, given),
        cmocka_unit_test_prestate(a_message_without_parts_arrives, given),
        cmocka_unit_test_prestate(a_rank_may_send_to_itself, given),
        cmocka_unit_test_prestate(every_part_of_the_address_counts, given),
        cmocka_unit_test_prestate(no_message_stands_in_the_way_of_another, given),
        cmocka_unit_test_prestate(the_order_of_posts_and_polls_does_not_matter, given),
        cmocka_unit_test_prestate(posts_over_the_limit_are_refused, given),
        cmocka_unit_test_prestate(impossible_posts_are_refused, given),
        cmocka_unit_test_prestate(sizes_that_differ_fail_on_both_sides, given),
        cmocka_unit_test_prestate(poll_returns_what_there_is_room_for, given),
        cmocka_unit_test_prestate(two_ranks_swap_64_mib, given),
        cmocka_unit_test_prestate(cycles_come_round, given),
    };
    return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
