/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* What the forward path uses: exchanges and barriers, beside transfers and when a member dies. */
#include "contract/group_stage.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/thread.h"

enum { KIB = 1024, RANKS = 4 };

static void open_ranks(struct stage *stage, void **state, int32_t num_ranks)
{
    const struct contract_request request = {
        .num_ranks = num_ranks, .max_ops = MAX_STAGE_OPS, .transfer_bytes = 4 * KIB};
    stage_open_apart(stage, *state, &request);
}

/* ---- barrier ---- */

enum { BARRIERS = 2000 };

struct steps {
    _Atomic int taken[MAX_STAGE_RANKS];
};

static void step_together(struct stage_rank *rank)
{
    const struct eplb_group *group = rank->group;
    struct steps *steps = rank->shared;
    for (int step = 1; step <= BARRIERS; step++) {
        stage_dawdle(&rank->prng, 3);
        atomic_store_explicit(&steps->taken[group->rank], step, memory_order_relaxed);
        RANK_CHECK(rank, group->barrier(group->self, NULL) == EPLB_OK);
        for (int32_t other = 0; other < group->num_ranks; other++) {
            int taken = atomic_load_explicit(&steps->taken[other], memory_order_relaxed);
            RANK_CHECK(rank, taken == step || taken == step + 1);
        }
    }
}

static void nobody_passes_a_barrier_before_all_have_come(void **state)
{
    for (int32_t num_ranks = 1; num_ranks <= MAX_STAGE_RANKS; num_ranks += 7) {
        struct stage stage;
        struct steps *steps = stage_memory(sizeof *steps);
        open_ranks(&stage, state, num_ranks);
        stage_run(&stage, step_together, 3, steps);
        stage_close(&stage);
        stage_release(steps, sizeof *steps);
    }
}

/* ---- all_to_all ---- */

enum { ROUNDS = 300, MOST_BYTES = 50 * KIB };

/* What a rank sends to another in a round: both sides know it. */
static size_t exchanged(uint64_t round, int32_t from, int32_t to)
{
    uint64_t mixed = (round * 64 + (uint64_t)from * 8 + (uint64_t)to) * UINT64_C(0x9e3779b97f4a7c15);
    switch (mixed >> 62) {
    case 0:
        return 0;
    case 1:
        return (mixed >> 20) % 100;
    default:
        return (mixed >> 20) % MOST_BYTES;
    }
}

static uint64_t seed_of(uint64_t round, int32_t from, int32_t to)
{
    return round * 64 + (uint64_t)from * 8 + (uint64_t)to;
}

/* One rank's memory for exchanges: a row per rank, each way. */
struct rows {
    unsigned char send[MAX_STAGE_RANKS][MOST_BYTES];
    unsigned char receive[MAX_STAGE_RANKS][MOST_BYTES];
};

/* One exchange with checked contents; what is wrong with it, or NULL. */
static const char *exchange(const struct eplb_group *group, struct rows *rows, uint64_t round)
{
    struct eplb_part send[MAX_STAGE_RANKS];
    struct eplb_part receive[MAX_STAGE_RANKS];
    for (int32_t other = 0; other < group->num_ranks; other++) {
        send[other] = (struct eplb_part){rows->send[other], exchanged(round, group->rank, other)};
        receive[other] = (struct eplb_part){rows->receive[other], exchanged(round, other, group->rank)};
        stage_fill(send[other].data, send[other].size, seed_of(round, group->rank, other));
    }
    if (group->all_to_all(group->self, send, receive, NULL) != EPLB_OK)
        return "an exchange failed";
    for (int32_t other = 0; other < group->num_ranks; other++)
        if (!stage_is(receive[other].data, receive[other].size, seed_of(round, other, group->rank)))
            return "an exchange brought other bytes";
    return NULL;
}

static void exchange_many_times(struct stage_rank *rank)
{
    struct rows *rows = malloc(sizeof *rows);
    RANK_CHECK(rank, rows != NULL);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        stage_dawdle(&rank->prng, 3);
        RANK_CHECK(rank, exchange(rank->group, rows, round) == NULL);
    }
    free(rows);
}

static void exchanges_bring_what_each_rank_sent(void **state)
{
    for (int32_t num_ranks = 1; num_ranks <= MAX_STAGE_RANKS; num_ranks += 7) {
        struct stage stage;
        open_ranks(&stage, state, num_ranks);
        stage_run(&stage, exchange_many_times, 4, NULL);
        stage_close(&stage);
    }
}

/* Rank i gives i * 1000 bytes. */
static void gather_from_all(struct stage_rank *rank)
{
    enum { STEP = 1000 };
    static const uint64_t seed = 50;
    const struct eplb_group *group = rank->group;
    struct rows *rows = malloc(sizeof *rows);
    struct eplb_part scratch[MAX_STAGE_RANKS];
    struct eplb_part receive[MAX_STAGE_RANKS];
    RANK_CHECK(rank, rows != NULL);
    struct eplb_part send = {rows->send[0], (size_t)group->rank * STEP};
    stage_fill(send.data, send.size, seed + (uint64_t)group->rank);
    for (int32_t other = 0; other < group->num_ranks; other++)
        receive[other] = (struct eplb_part){rows->receive[other], (size_t)other * STEP};
    RANK_CHECK(rank, eplb_group_all_gather(group, send, receive, scratch, NULL) == EPLB_OK);
    for (int32_t other = 0; other < group->num_ranks; other++)
        RANK_CHECK(rank, stage_is(rows->receive[other], (size_t)other * STEP, seed + (uint64_t)other));
    free(rows);
}

static void a_gather_brings_all_to_all(void **state)
{
    struct stage stage;
    open_ranks(&stage, state, RANKS);
    stage_run(&stage, gather_from_all, 5, NULL);
    stage_close(&stage);
}

/* Rank 2 sends rank 0 more than it expects, by far: more than any buffer between them. */
static void exchange_with_a_wrong_size(struct stage_rank *rank)
{
    enum { WRONG = 40 * KIB };
    const struct eplb_group *group = rank->group;
    struct rows *rows = malloc(sizeof *rows);
    struct eplb_part send[RANKS];
    struct eplb_part receive[RANKS];
    RANK_CHECK(rank, rows != NULL);
    memset(rows->receive, 0xee, sizeof rows->receive);
    for (int32_t other = 0; other < RANKS; other++) {
        send[other] = (struct eplb_part){rows->send[other], 8};
        receive[other] = (struct eplb_part){rows->receive[other], 8};
        stage_fill(rows->send[other], MOST_BYTES, seed_of(0, group->rank, other));
    }
    if (group->rank == 2)
        send[0].size = WRONG;
    struct eplb_error error = {0};
    enum eplb_status status = group->all_to_all(group->self, send, receive, &error);
    if (group->rank == 0) {
        RANK_CHECK(rank, status == EPLB_INCONSISTENT);
        RANK_CHECK(
            rank, strcmp(error.text, "exchange 1: rank 2 sent 40960 bytes to rank 0, which expected 8") == 0);
        for (size_t i = 0; i < MOST_BYTES; i++)
            RANK_CHECK(rank, rows->receive[2][i] == 0xee);
    } else {
        RANK_CHECK(rank, status == EPLB_OK);
    }
    /* Nobody was left behind: the next exchange is in order. */
    RANK_CHECK(rank, exchange(group, rows, 1) == NULL);

    send[group->rank].size = 9;
    RANK_CHECK(rank, group->all_to_all(group->self, send, receive, NULL) == EPLB_INVALID);
    RANK_CHECK(rank, exchange(group, rows, 2) == NULL);
    free(rows);
}

static void a_wrong_size_is_named_and_holds_nobody_up(void **state)
{
    struct stage stage;
    open_ranks(&stage, state, RANKS);
    stage_run(&stage, exchange_with_a_wrong_size, 6, NULL);
    stage_close(&stage);
}

/* ---- deaths ---- */

/* Rank 2 never comes; rank 3, which does not take part either, says after a while that it is dead. */
static void wait_for_the_dead(struct stage_rank *rank)
{
    const struct eplb_group *group = rank->group;
    int in_barrier = *(const int *)rank->shared;
    struct rows *rows = malloc(sizeof *rows);
    RANK_CHECK(rank, rows != NULL);
    stage_dawdle(&rank->prng, 300);
    if (group->rank == 3)
        group->member_dead(group->self, 2);
    if (group->rank >= 2) {
        free(rows);
        return;
    }
    struct eplb_part send[RANKS];
    struct eplb_part receive[RANKS];
    for (int32_t other = 0; other < RANKS; other++) {
        send[other] = (struct eplb_part){rows->send[other], other == group->rank ? 0 : MOST_BYTES};
        receive[other] = (struct eplb_part){rows->receive[other], other == group->rank ? 0 : MOST_BYTES};
    }
    /* The second time it is known from the start. */
    for (int i = 0; i < 2; i++) {
        struct eplb_error error = {0};
        char expected[128];
        snprintf(expected, sizeof expected, "rank %d: rank 2 died; %s cannot be completed without it",
                 group->rank, in_barrier ? "a barrier" : "an exchange");
        enum eplb_status status = in_barrier ? group->barrier(group->self, &error)
                                             : group->all_to_all(group->self, send, receive, &error);
        RANK_CHECK(rank, status == EPLB_RANK_DEAD);
        RANK_CHECK(rank, strcmp(error.text, expected) == 0);
    }
    free(rows);
}

static void a_death_ends_what_blocks(void **state)
{
    int *in_barrier = stage_memory(sizeof *in_barrier);
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct stage stage;
        open_ranks(&stage, state, RANKS);
        *in_barrier = seed % 2 == 0;
        stage_run(&stage, wait_for_the_dead, seed, in_barrier);
        stage_close(&stage);
    }
    stage_release(in_barrier, sizeof *in_barrier);
}

/* ---- beside transfers ---- */

/* B48: every rank transfers in one thread and runs forwards in another, started in any order. */
enum { BESIDE_ROUNDS = 1000, BESIDE_BYTES = 9000 };

struct forwards {
    const struct eplb_group *group;
    struct eplb_prng prng;
    const char *failure;
};

static void run_forwards(void *argument)
{
    struct forwards *forwards = argument;
    struct rows *rows = malloc(sizeof *rows);
    if (rows == NULL)
        forwards->failure = "no memory";
    for (uint64_t round = 0; round < BESIDE_ROUNDS && forwards->failure == NULL; round++) {
        stage_dawdle(&forwards->prng, 5);
        forwards->failure = exchange(forwards->group, rows, round);
        if (forwards->failure == NULL && forwards->group->barrier(forwards->group->self, NULL) != EPLB_OK)
            forwards->failure = "a barrier failed";
    }
    free(rows);
}

/* Sends to and receives from every other rank; numbers below the number of ranks are sends. */
static void transfer_rounds(struct stage_rank *rank, unsigned char (*from)[BESIDE_BYTES],
                            unsigned char (*to)[BESIDE_BYTES])
{
    const struct eplb_group *group = rank->group;
    int32_t ranks = group->num_ranks;
    for (uint64_t token = 1; token <= BESIDE_ROUNDS; token++) {
        stage_dawdle(&rank->prng, 5);
        for (int32_t i = 0; i < ranks; i++) {
            int32_t other = (group->rank + i) % ranks;
            struct eplb_message_tag out = stage_tag(token, group->rank, other);
            struct eplb_message_tag in = stage_tag(token, other, group->rank);
            struct eplb_part send = {from[other], BESIDE_BYTES};
            struct eplb_part receive = {to[other], BESIDE_BYTES};
            stage_fill(from[other], BESIDE_BYTES, seed_of(token, group->rank, other));
            RANK_CHECK(rank, group->post_recv(group->self, other, &in, &receive, 1,
                                              (struct eplb_op){(uint32_t)(ranks + other)}) == EPLB_OK);
            RANK_CHECK(rank, group->post_send(group->self, other, &out, &send, 1,
                                              (struct eplb_op){(uint32_t)other}) == EPLB_OK);
        }
        int results[2 * MAX_STAGE_RANKS];
        RANK_CHECK(rank,
                   stage_finish(rank, (struct eplb_activation_token){token}, results, 2 * (size_t)ranks));
        for (int32_t i = 0; i < 2 * ranks; i++)
            RANK_CHECK(rank, results[i] == EPLB_OP_DONE);
        for (int32_t other = 0; other < ranks; other++)
            RANK_CHECK(rank, stage_is(to[other], BESIDE_BYTES, seed_of(token, other, group->rank)));
    }
}

static void transfer_beside_forwards(struct stage_rank *rank)
{
    static const size_t row_bytes = MAX_STAGE_RANKS * BESIDE_BYTES;
    struct eplb_thread thread;
    struct forwards forwards = {.group = rank->group};
    eplb_prng_seed(&forwards.prng, eplb_prng_next(&rank->prng));
    unsigned char(*from)[BESIDE_BYTES] = malloc(row_bytes);
    unsigned char(*to)[BESIDE_BYTES] = malloc(row_bytes);
    RANK_CHECK(rank, from != NULL && to != NULL);
    RANK_CHECK(rank, eplb_thread_start(&thread, "forwards", run_forwards, &forwards, NULL) == EPLB_OK);
    transfer_rounds(rank, from, to);
    eplb_thread_join(&thread);
    free(from);
    free(to);
    if (forwards.failure != NULL)
        stage_fail(rank, __FILE__, __LINE__, forwards.failure);
}

static void transfers_and_forwards_do_not_meet(void **state)
{
    struct stage stage;
    open_ranks(&stage, state, RANKS);
    stage_run(&stage, transfer_beside_forwards, 8, NULL);
    stage_close(&stage);
}

int group_collectives_run(const struct contract_maker *maker)
{
    void *given = (void *)(uintptr_t)maker;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(nobody_passes_a_barrier_before_all_have_come, given),
        cmocka_unit_test_prestate(exchanges_bring_what_each_rank_sent, given),
        cmocka_unit_test_prestate(a_gather_brings_all_to_all, given),
        cmocka_unit_test_prestate(a_wrong_size_is_named_and_holds_nobody_up, given),
        cmocka_unit_test_prestate(a_death_ends_what_blocks, given),
        cmocka_unit_test_prestate(transfers_and_forwards_do_not_meet, given),
    };
    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
