/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Plans from pairs of tables, and that all ranks' lists of messages mirror each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/layer_plan.h"
#include "migrate/transfer.h"
#include "support/tables.h"

enum { MAX_RANKS = 8, MAX_SLOTS = 128, MAX_CHUNKS = 4, MAX_POSTS = MAX_SLOTS * MAX_CHUNKS };

static const struct eplb_transfer_limits limits = {4, 8, 1};

/* One side of a message as its poster sees it. */
struct post {
    int32_t peer;
    struct eplb_message_tag tag;
    int64_t offset;
    int64_t bytes;
};

struct posts {
    struct post list[MAX_POSTS];
    int32_t count;
};

/* A plan with its memory, as rank r of the shape. */
struct plan {
    struct eplb_layer_plan layer;
    void *memory;
    void *scratch;
};

static struct plan new_plan(const struct eplb_shape *shape)
{
    struct plan plan;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_layer_plan_take(&arena, shape, &plan.layer);
    assert_null(plan.layer.moves);
    plan.memory = eplb_arena_block(arena.used);
    plan.scratch = malloc(eplb_placement_diff_scratch(shape));
    assert_true(plan.memory != NULL && plan.scratch != NULL);
    eplb_arena_init(&arena, plan.memory, arena.used);
    eplb_layer_plan_take(&arena, shape, &plan.layer);
    assert_int_equal(plan.layer.layer, EPLB_NO_LAYER);
    assert_int_equal(plan.layer.num_moves, 0);
    return plan;
}

static void free_plan(struct plan *plan)
{
    eplb_arena_free(plan->memory);
    free(plan->scratch);
}

static void assert_moves(const struct eplb_layer_plan *plan, const struct eplb_move *moves, int32_t count)
{
    assert_int_equal(plan->num_moves, count);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(plan->moves[i].slot, moves[i].slot);
        assert_int_equal(plan->moves[i].expert, moves[i].expert);
        assert_int_equal(plan->moves[i].source_slot, moves[i].source_slot);
        assert_int_equal(plan->moves[i].kind, moves[i].kind);
    }
}

static void a_plan_is_exact(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 1);
    static const int32_t old_ids[] = {0, 1, 2, 2, 3, 0};
    static const int32_t new_ids[] = {1, 0, 3, 2, 3, 1};
    static const struct eplb_move moves[] = {{0, 1, 1, EPLB_MOVE_LOCAL},
                                             {1, 0, 0, EPLB_MOVE_LOCAL},
                                             {2, 3, 4, EPLB_MOVE_P2P},
                                             {5, 1, 1, EPLB_MOVE_P2P}};
    struct plan plan = new_plan(&shape);
    eplb_layer_plan_build(&plan.layer, &shape, 0, old_ids, new_ids, plan.scratch);
    assert_moves(&plan.layer, moves, 4);
    assert_int_equal(plan.layer.num_local_changes, 3);
    assert_memory_equal(plan.layer.expert_ids, new_ids, sizeof new_ids);
    assert_memory_equal(plan.layer.log2phy, ((const int32_t[]){1, 0, 3, 2}), 4 * sizeof(int32_t));

    memcpy(plan.layer.expert_ids, new_ids, sizeof new_ids);
    eplb_layer_plan_build(&plan.layer, &shape, 1, old_ids, plan.layer.expert_ids, plan.scratch);
    assert_moves(&plan.layer, moves, 4);
    assert_int_equal(plan.layer.num_local_changes, 1);
    assert_memory_equal(plan.layer.log2phy, ((const int32_t[]){1, 5, 3, 4}), 4 * sizeof(int32_t));

    eplb_layer_plan_build(&plan.layer, &shape, 1, new_ids, new_ids, plan.scratch);
    assert_int_equal(plan.layer.num_moves, 0);
    assert_int_equal(plan.layer.num_local_changes, 0);
    free_plan(&plan);
}

static void add(struct posts *posts, const struct eplb_transfer_action *action)
{
    assert_in_range(posts->count, 0, MAX_POSTS - 1);
    posts->list[posts->count++] = (struct post){action->peer, action->tag, action->offset, action->bytes};
}

/* Runs a core to its yes; every operation is done as soon as it is posted. */
static void run(struct eplb_transfer *transfer, const struct eplb_layer_plan *plan, uint64_t token,
                struct posts *sends, struct posts *receives)
{
    struct eplb_transfer_event events[] = {
        {.type = EPLB_TRANSFER_BEGIN, .token = {token}, .plan = plan},
        {.type = EPLB_TRANSFER_MATERIALISED, .token = {token}, .ok = true}};
    struct eplb_transfer_action action;
    bool yes = false;
    sends->count = receives->count = 0;
    eplb_transfer_step(transfer, &events[0], 0);
    eplb_transfer_step(transfer, &events[1], 0);
    while (eplb_transfer_next(transfer, &action)) {
        if (action.type == EPLB_TRANSFER_VOTE) {
            yes = action.yes;
            continue;
        }
        assert_true(action.type == EPLB_TRANSFER_POST_SEND || action.type == EPLB_TRANSFER_POST_RECV);
        add(action.type == EPLB_TRANSFER_POST_SEND ? sends : receives, &action);
        struct eplb_transfer_event done = {.type = EPLB_TRANSFER_COMPLETED,
                                           .completion = {action.op, EPLB_OP_DONE}};
        eplb_transfer_step(transfer, &done, 0);
    }
    assert_true(yes);
    struct eplb_transfer_event commit = {
        .type = EPLB_TRANSFER_DECIDED, .token = {token}, .decision = EPLB_COMMIT};
    eplb_transfer_step(transfer, &commit, 0);
    assert_int_equal(eplb_transfer_state(transfer), EPLB_TRANSFER_DONE);
}

/* The next post for a peer at or after `from`; NULL at the end. */
static const struct post *next_with(const struct posts *posts, int32_t peer, int32_t *from)
{
    for (; *from < posts->count; ++*from)
        if (posts->list[*from].peer == peer)
            return &posts->list[(*from)++];
    return NULL;
}

static int32_t assert_mirror(const struct posts *sends, const struct posts *receives, int32_t from,
                             int32_t to)
{
    int32_t s = 0;
    int32_t r = 0;
    int32_t count = 0;
    for (;; count++) {
        const struct post *sent = next_with(&sends[from], to, &s);
        const struct post *received = next_with(&receives[to], from, &r);
        assert_int_equal(sent == NULL, received == NULL);
        if (sent == NULL)
            return count;
        assert_memory_equal(&sent->tag, &received->tag, sizeof sent->tag);
        assert_int_equal(sent->offset, received->offset);
        assert_int_equal(sent->bytes, received->bytes);
    }
}

/* A shape with all that one pair of tables needs on every rank. */
struct group {
    struct eplb_shape shape;
    struct plan plans[MAX_RANKS];
    struct eplb_transfer *transfers[MAX_RANKS];
    struct posts sends[MAX_RANKS];
    struct posts receives[MAX_RANKS];
    uint64_t token;
};

static struct group *new_group(const struct eplb_shape *shape, int64_t expert_bytes)
{
    struct group *group = calloc(1, sizeof *group);
    assert_non_null(group);
    group->shape = *shape;
    for (int32_t r = 0; r < shape->ep_size; r++) {
        void *memory = eplb_arena_block(eplb_transfer_size(shape, expert_bytes, &limits));
        assert_non_null(memory);
        group->plans[r] = new_plan(shape);
        group->transfers[r] = eplb_transfer_init(memory, shape, r, expert_bytes, &limits);
    }
    return group;
}

static void free_group(struct group *group)
{
    for (int32_t r = 0; r < group->shape.ep_size; r++) {
        free_plan(&group->plans[r]);
        eplb_arena_free(group->transfers[r]);
    }
    free(group);
}

/* Messages of the whole group for a pair of tables, checked on both sides. */
static int32_t exchange(struct group *group, const int32_t *old_ids, const int32_t *new_ids)
{
    int32_t ranks = group->shape.ep_size;
    int32_t messages = 0;
    int32_t posts = 0;
    group->token++;
    for (int32_t r = 0; r < ranks; r++) {
        struct plan *plan = &group->plans[r];
        eplb_layer_plan_build(&plan->layer, &group->shape, r, old_ids, new_ids, plan->scratch);
        assert_moves(&plan->layer, group->plans[0].layer.moves, group->plans[0].layer.num_moves);
        run(group->transfers[r], &plan->layer, group->token, &group->sends[r], &group->receives[r]);
        posts += group->sends[r].count + group->receives[r].count;
    }
    for (int32_t from = 0; from < ranks; from++)
        for (int32_t to = 0; to < ranks; to++)
            messages += assert_mirror(group->sends, group->receives, from, to);
    assert_int_equal(posts, 2 * messages);
    return messages;
}

static int32_t count_p2p(const struct eplb_layer_plan *plan)
{
    int32_t count = 0;
    for (int32_t move = 0; move < plan->num_moves; move++)
        count += plan->moves[move].kind == EPLB_MOVE_P2P;
    return count;
}

/* B45, B62. */
static void both_sides_list_the_same_messages(void **state)
{
    (void)state;
    enum { SHAPES = 100, PAIRS = 100 };
    struct eplb_prng prng;
    int64_t messages = 0;
    eplb_prng_seed(&prng, 45);
    for (int i = 0; i < SHAPES; i++) {
        int32_t ranks = 2 + (int32_t)eplb_prng_below(&prng, MAX_RANKS - 1);
        int32_t experts = ranks * (2 + (int32_t)eplb_prng_below(&prng, 6));
        struct eplb_shape shape = tables_shape(experts, ranks, (int32_t)eplb_prng_below(&prng, 3));
        int64_t expert_bytes = 1 + (int64_t)eplb_prng_below(&prng, 16);
        int32_t chunks = eplb_transfer_chunks(expert_bytes, limits.chunk_bytes);
        struct group *group = new_group(&shape, expert_bytes);
        int32_t old_ids[MAX_SLOTS];
        int32_t new_ids[MAX_SLOTS];
        for (int j = 0; j < PAIRS; j++) {
            tables_random(&prng, &shape, old_ids);
            tables_random(&prng, &shape, new_ids);
            int32_t count = exchange(group, old_ids, new_ids);
            const struct eplb_layer_plan *plan = &group->plans[0].layer;
            assert_int_equal(count, count_p2p(plan) * chunks);
            assert_true(count <= plan->num_moves * chunks);
            messages += count;
        }
        free_group(group);
    }
    printf("seed 45: %d pairs of tables, %lld messages\n", SHAPES * PAIRS, (long long)messages);
    assert_true(messages > SHAPES * PAIRS);
}

static void known_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t experts, ranks, redundant;
        int32_t old_ids[8], new_ids[8];
        int32_t messages;
    } cases[] = {
        {"swap", 2, 2, 0, {0, 1}, {1, 0}, 2},
        {"cycle of four", 4, 4, 0, {0, 1, 2, 3}, {3, 0, 1, 2}, 4},
        {"cycle inside a rank", 4, 2, 0, {0, 1, 2, 3}, {1, 0, 3, 2}, 0},
        {"one to all the others", 4, 4, 1, {0, 1, 1, 2, 2, 3, 3, 1}, {0, 1, 1, 0, 2, 0, 3, 0}, 3},
        {"one stays, one goes, one comes", 4, 2, 0, {0, 1, 2, 3}, {0, 2, 3, 1}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eplb_shape shape = tables_shape(cases[i].experts, cases[i].ranks, cases[i].redundant);
        struct group *group = new_group(&shape, 3);
        int32_t messages = exchange(group, cases[i].old_ids, cases[i].new_ids);
        if (messages != cases[i].messages)
            fail_msg("%s: %d messages", cases[i].name, messages);
        free_group(group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_exact),
        cmocka_unit_test(both_sides_list_the_same_messages),
        cmocka_unit_test(known_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
