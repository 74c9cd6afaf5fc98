/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/tables.h"

enum { MAX_SLOTS = 512 };

/** The difference, computed with exactly the scratch memory that is asked for, full of `dirt`. */
static int32_t diff(const struct eplb_shape *shape, const int32_t *old_ids, const int32_t *new_ids, int dirt,
                    struct eplb_move *moves)
{
    size_t bytes = eplb_placement_diff_scratch(shape);
    void *scratch = malloc(bytes);
    assert_non_null(scratch);
    memset(scratch, dirt, bytes);
    int32_t count = eplb_placement_diff(shape, old_ids, new_ids, scratch, moves);
    free(scratch);
    return count;
}

static void assert_moves(const struct eplb_shape *shape, const int32_t *old_ids, const int32_t *new_ids,
                         const struct eplb_move *expected, int32_t num_expected)
{
    struct eplb_move moves[MAX_SLOTS];
    assert_int_equal(eplb_placement_check(shape, old_ids, NULL), EPLB_OK);
    assert_int_equal(eplb_placement_check(shape, new_ids, NULL), EPLB_OK);
    assert_int_equal(diff(shape, old_ids, new_ids, 0x5a, moves), num_expected);
    for (int32_t i = 0; i < num_expected; i++) {
        assert_int_equal(moves[i].slot, expected[i].slot);
        assert_int_equal(moves[i].expert, expected[i].expert);
        assert_int_equal(moves[i].source_slot, expected[i].source_slot);
        assert_int_equal(moves[i].kind, expected[i].kind);
    }
}

static void a_reorder_inside_ranks_sends_nothing(void **state)
{
    (void)state;
    static const int32_t old_ids[] = {0, 1, 2, 0, 3, 1};
    static const int32_t new_ids[] = {2, 0, 1, 1, 0, 3};
    static const struct eplb_move expected[] = {
        {0, 2, 2, EPLB_MOVE_LOCAL}, {1, 0, 0, EPLB_MOVE_LOCAL}, {2, 1, 1, EPLB_MOVE_LOCAL},
        {3, 1, 5, EPLB_MOVE_LOCAL}, {4, 0, 3, EPLB_MOVE_LOCAL}, {5, 3, 4, EPLB_MOVE_LOCAL},
    };
    struct eplb_shape shape = tables_shape(4, 2, 1);
    assert_moves(&shape, old_ids, new_ids, expected, 6);
    assert_moves(&shape, old_ids, old_ids, NULL, 0);
}

static void one_changed_slot_each_is_one_message_each(void **state)
{
    (void)state;
    static const int32_t old_ids[] = {0, 1, 2, 0, 3, 1};
    static const int32_t new_ids[] = {0, 1, 3, 0, 3, 2};
    static const struct eplb_move expected[] = {{2, 3, 4, EPLB_MOVE_P2P}, {5, 2, 2, EPLB_MOVE_P2P}};
    struct eplb_shape shape = tables_shape(4, 2, 1);
    assert_moves(&shape, old_ids, new_ids, expected, 2);
}

/** Experts 0 (ranks 0 and 3) and 4 (ranks 1 and 2) go to two ranks each: every holder sends once. */
static void the_holder_with_the_fewest_sends_is_the_source(void **state)
{
    (void)state;
    static const int32_t old_ids[] = {0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 0};
    static const int32_t new_ids[] = {0, 1, 4, 2, 3, 0, 0, 5, 6, 6, 7, 4};
    static const struct eplb_move expected[] = {
        {2, 4, 5, EPLB_MOVE_P2P},
        {5, 0, 0, EPLB_MOVE_P2P},
        {6, 0, 11, EPLB_MOVE_P2P},
        {11, 4, 6, EPLB_MOVE_P2P},
    };
    struct eplb_shape shape = tables_shape(8, 4, 1);
    assert_moves(&shape, old_ids, new_ids, expected, 4);
}

/** Sends are counted per rank, not per expert: after rank 0 sent expert 1, rank 3 sends expert 0. */
static void sends_count_for_the_rank(void **state)
{
    (void)state;
    static const int32_t old_ids[] = {0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 0};
    static const int32_t new_ids[] = {0, 1, 2, 2, 3, 1, 4, 5, 0, 6, 7, 0};
    static const struct eplb_move expected[] = {{5, 1, 1, EPLB_MOVE_P2P}, {8, 0, 11, EPLB_MOVE_P2P}};
    struct eplb_shape shape = tables_shape(8, 4, 1);
    assert_moves(&shape, old_ids, new_ids, expected, 2);
}

/** The local source may itself change: it is read from the old placement. */
static void a_resident_expert_is_copied_within_the_rank(void **state)
{
    (void)state;
    static const int32_t old_ids[] = {0, 1, 2, 2, 3, 0};
    static const int32_t new_ids[] = {2, 1, 3, 2, 3, 0};
    static const struct eplb_move expected[] = {{0, 2, 2, EPLB_MOVE_LOCAL}, {2, 3, 4, EPLB_MOVE_P2P}};
    struct eplb_shape shape = tables_shape(4, 2, 1);
    assert_moves(&shape, old_ids, new_ids, expected, 2);
}

/** Checks a move by the rule itself; `sends` is what each rank has sent before it. */
static void check_move(const struct eplb_shape *shape, const int32_t *old_ids, const struct eplb_move *move,
                       const int32_t *sends)
{
    int32_t rank = move->slot / shape->slots_per_rank;
    int32_t source_rank = move->source_slot / shape->slots_per_rank;
    int32_t resident = -1;
    assert_int_equal(old_ids[move->source_slot], move->expert);
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int32_t holder = slot / shape->slots_per_rank;
        if (old_ids[slot] != move->expert)
            continue;
        if (holder == rank)
            resident = slot;
        else if (move->kind == EPLB_MOVE_P2P)
            assert_true(sends[source_rank] < sends[holder] ||
                        (sends[source_rank] == sends[holder] && source_rank <= holder));
    }
    assert_int_equal(move->kind, resident < 0 ? EPLB_MOVE_P2P : EPLB_MOVE_LOCAL);
    if (resident >= 0)
        assert_int_equal(move->source_slot, resident);
    else
        assert_int_not_equal(source_rank, rank);
}

/** Replays a list of moves; returns how many of them are messages. */
static int32_t check_moves(const struct eplb_shape *shape, const int32_t *old_ids, const int32_t *new_ids,
                           const struct eplb_move *moves, int32_t count)
{
    int32_t sends[64] = {0};
    int32_t table[MAX_SLOTS];
    int32_t messages = 0;
    memcpy(table, old_ids, (size_t)shape->num_slots * sizeof *table);
    for (int32_t i = 0; i < count; i++) {
        assert_true(i == 0 || moves[i - 1].slot < moves[i].slot);
        assert_int_not_equal(old_ids[moves[i].slot], moves[i].expert);
        check_move(shape, old_ids, &moves[i], sends);
        sends[moves[i].source_slot / shape->slots_per_rank] += moves[i].kind == EPLB_MOVE_P2P;
        messages += moves[i].kind == EPLB_MOVE_P2P;
        table[moves[i].slot] = moves[i].expert;
    }
    assert_memory_equal(table, new_ids, (size_t)shape->num_slots * sizeof *table);
    return messages;
}

static void random_differences_follow_the_rule(void **state)
{
    (void)state;
    enum { PAIRS = 10000 };
    static const int32_t shapes[][3] = {{4, 2, 1},  {8, 4, 1}, {8, 2, 4},  {12, 3, 5},  {16, 8, 2},
                                        {16, 4, 0}, {6, 6, 2}, {64, 8, 1}, {32, 32, 3}, {16, 16, 13}};
    const uint64_t seed = 20240612;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    int64_t changed = 0;
    int64_t messages = 0;
    for (int i = 0; i < PAIRS; i++) {
        const int32_t *sizes = shapes[(size_t)i % (sizeof shapes / sizeof *shapes)];
        struct eplb_shape shape = tables_shape(sizes[0], sizes[1], sizes[2]);
        int32_t old_ids[MAX_SLOTS];
        int32_t new_ids[MAX_SLOTS];
        struct eplb_move moves[MAX_SLOTS];
        struct eplb_move again[MAX_SLOTS];
        tables_random(&prng, &shape, old_ids);
        memcpy(new_ids, old_ids, sizeof new_ids);
        tables_stir(&prng, &shape, new_ids, (int32_t)eplb_prng_below(&prng, 4 * (uint64_t)shape.num_slots));
        int32_t count = diff(&shape, old_ids, new_ids, 0x00, moves);
        changed += count;
        messages += check_moves(&shape, old_ids, new_ids, moves, count);
        assert_int_equal(diff(&shape, old_ids, new_ids, 0xff, again), count);
        assert_memory_equal(again, moves, (size_t)count * sizeof *moves);
    }
    printf("%d pairs: %" PRId64 " changed slots, %" PRId64 " messages\n", PAIRS, changed, messages);
    assert_true(messages > 10 * PAIRS / 2 && messages < changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reorder_inside_ranks_sends_nothing),
        cmocka_unit_test(one_changed_slot_each_is_one_message_each),
        cmocka_unit_test(the_holder_with_the_fewest_sends_is_the_source),
        cmocka_unit_test(sends_count_for_the_rank),
        cmocka_unit_test(a_resident_expert_is_copied_within_the_rank),
        cmocka_unit_test(random_differences_follow_the_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
