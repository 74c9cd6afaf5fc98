/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/tables.h"

enum { MAX_SLOTS = 65536 };

static int32_t table[MAX_SLOTS];
static int32_t other[MAX_SLOTS];

static void assert_legal(const struct eplb_shape *shape, const int32_t *expert_ids)
{
    struct eplb_error error;
    if (eplb_placement_check(shape, expert_ids, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static void assert_refused(const struct eplb_shape *shape, const int32_t *expert_ids, const char *sentence)
{
    struct eplb_error error;
    assert_int_equal(eplb_placement_check(shape, expert_ids, &error), EPLB_INVALID);
    assert_int_equal(error.status, EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_int_equal(eplb_placement_check(shape, expert_ids, NULL), EPLB_INVALID);
}

/* ---- the initial placement ---- */

static void assert_initial(int32_t experts, int32_t ranks, int32_t redundant, const int32_t *expected)
{
    struct eplb_shape shape = tables_shape(experts, ranks, redundant);
    eplb_placement_initial(&shape, table);
    assert_memory_equal(table, expected, (size_t)shape.num_slots * sizeof *table);
}

static void the_initial_placement_is_contiguous(void **state)
{
    (void)state;
    static const int32_t plain[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int32_t one_each[] = {0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 0};
    static const int32_t wrapping[] = {0, 1, 2, 1, 2, 3, 2, 3, 0, 3, 0, 1};
    static const int32_t everything[] = {0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 0, 1, 2, 3};
    assert_initial(8, 4, 0, plain);
    assert_initial(8, 4, 1, one_each);
    assert_initial(4, 4, 2, wrapping);
    assert_initial(8, 2, 4, everything);
}

static void the_initial_placement_follows_its_formula(void **state)
{
    (void)state;
    int shapes = 0;
    for (int32_t experts = 1; experts <= 24; experts++)
        for (int32_t ranks = 1; ranks <= experts; ranks++)
            for (int32_t redundant = 0; experts % ranks == 0 && redundant <= experts - experts / ranks;
                 redundant++, shapes++) {
                struct eplb_shape shape = tables_shape(experts, ranks, redundant);
                eplb_placement_initial(&shape, table);
                assert_legal(&shape, table);
                int32_t owned = experts / ranks;
                const int32_t *next = table;
                for (int32_t rank = 0; rank < ranks; rank++) {
                    for (int32_t slot = 0; slot < owned; slot++)
                        assert_int_equal(*next++, rank * owned + slot);
                    for (int32_t j = 0; j < redundant; j++)
                        assert_int_equal(*next++, ((rank + 1) * owned + j) % experts);
                }
                assert_int_equal(next - table, shape.num_slots);
            }
    assert_int_equal(shapes, 789);
}

static void the_initial_placement_of_real_models_is_legal(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(256, 16, 1);
    eplb_placement_initial(&shape, table);
    assert_legal(&shape, table);
    assert_int_equal(table[16], 16);
    assert_int_equal(table[17], 16);
    assert_int_equal(table[271], 0);
    shape = tables_shape(72, 8, 1);
    eplb_placement_initial(&shape, table);
    assert_legal(&shape, table);
    assert_int_equal(table[9], 9);
    assert_int_equal(table[79], 0);
}

/* ---- legality ---- */

static void takes_legal_placements(void **state)
{
    (void)state;
    static const int32_t first[] = {0, 1, 2, 3, 0, 1};
    static const int32_t second[] = {3, 2, 1, 0, 3, 2};
    struct eplb_shape shape = tables_shape(4, 2, 1);
    assert_legal(&shape, first);
    assert_legal(&shape, second);
}

static void refuses_an_id_out_of_range(void **state)
{
    (void)state;
    static const struct {
        int32_t ids[6];
        const char *sentence;
    } cases[] = {
        {{0, 1, 2, 3, 0, 4}, "rank 1 slot 2 holds expert 4; allowed is 0 to 3"},
        {{0, 1, 2, 3, 0, -1}, "rank 1 slot 2 holds expert -1; allowed is 0 to 3"},
        {{4, 1, 2, 3, 0, 1}, "rank 0 slot 0 holds expert 4; allowed is 0 to 3"},
        {{0, 1, 2, INT32_MAX, 0, 1}, "rank 1 slot 0 holds expert 2147483647; allowed is 0 to 3"},
        {{0, 1, INT32_MIN, 3, 0, 1}, "rank 0 slot 2 holds expert -2147483648; allowed is 0 to 3"},
    };
    struct eplb_shape shape = tables_shape(4, 2, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(&shape, cases[i].ids, cases[i].sentence);
}

/** A map builder that takes slots for experts names ids past the last expert. */
static void refuses_a_physical_id_for_an_expert(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8};
    struct eplb_shape shape = tables_shape(8, 4, 1);
    assert_refused(&shape, ids, "rank 3 slot 2 holds expert 8; allowed is 0 to 7");
}

static void refuses_a_repeat_on_a_rank(void **state)
{
    (void)state;
    static const int32_t early[] = {0, 0, 1, 2, 3, 1};
    static const int32_t apart[] = {0, 1, 2, 3, 1, 3};
    struct eplb_shape shape = tables_shape(4, 2, 1);
    assert_refused(&shape, early, "rank 0 slot 1 repeats expert 0; a rank may hold an expert once");
    assert_refused(&shape, apart, "rank 1 slot 2 repeats expert 3; a rank may hold an expert once");

    static const int32_t reported[] = {200, 226, 236, 236, 12, 204, 156, 229, 184};
    shape = tables_shape(256, 32, 1);
    eplb_placement_initial(&shape, table);
    memcpy(table + 279, reported, sizeof reported);
    assert_refused(&shape, table, "rank 31 slot 3 repeats expert 236; a rank may hold an expert once");
}

static void refuses_a_missing_expert(void **state)
{
    (void)state;
    static const int32_t last[] = {0, 1, 2, 0, 1, 2};
    static const int32_t first[] = {3, 1, 2, 3, 1, 2};
    static const int32_t two[] = {0, 3, 3, 0};
    struct eplb_shape shape = tables_shape(4, 2, 1);
    assert_refused(&shape, last, "expert 3 is on no rank; every one of the 4 experts needs a slot");
    assert_refused(&shape, first, "expert 0 is on no rank; every one of the 4 experts needs a slot");
    shape = tables_shape(4, 2, 0);
    assert_refused(&shape, two, "expert 1 is on no rank; every one of the 4 experts needs a slot");
}

/** Ids around the 64-bit words of a set, and the largest shape of one rank. */
static void tells_neighbouring_ids_apart(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(65536, 1, 0);
    eplb_placement_initial(&shape, table);
    assert_legal(&shape, table);
    static const int32_t edges[] = {0, 31, 32, 63, 64, 65, 127, 128, 65535};
    const int32_t slot = 12345;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        char sentence[128];
        snprintf(sentence, sizeof sentence,
                 "rank 0 slot %d repeats expert %d; a rank may hold an expert once",
                 edges[i] > slot ? edges[i] : slot, edges[i]);
        table[slot] = edges[i];
        assert_refused(&shape, table, sentence);
        table[slot] = slot;
    }
    assert_legal(&shape, table);
}

/* ---- replicas ---- */

static void counts_replicas(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 2, 0, 3, 1, 0, 4, 5, 0, 6, 7};
    static const int32_t expected[] = {4, 2, 1, 1, 1, 1, 1, 1};
    int32_t replicas[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    struct eplb_shape shape = tables_shape(8, 4, 1);
    eplb_placement_replicas(&shape, ids, replicas);
    assert_memory_equal(replicas, expected, sizeof expected);
}

/* ---- the hash ---- */

/** Ranks compare hashes over the wire, so the values below never change. */
static void hashes_are_what_they_always_were(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(8, 4, 1);
    eplb_placement_initial(&shape, table);
    assert_true(eplb_placement_hash(&shape, table) == UINT64_C(0xe2cd2fc078ee1e0d));
    shape = tables_shape(256, 16, 1);
    eplb_placement_initial(&shape, table);
    assert_true(eplb_placement_hash(&shape, table) == UINT64_C(0x1c78eb8da994a5ef));
}

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x;
    uint64_t y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/** All placements that differ from the initial one in one slot, legal or not, and in one swap. */
static void a_changed_slot_changes_the_hash(void **state)
{
    (void)state;
    static uint64_t hashes[4096];
    size_t count = 0;
    struct eplb_shape shape = tables_shape(16, 4, 2);
    eplb_placement_initial(&shape, table);
    hashes[count++] = eplb_placement_hash(&shape, table);
    assert_true(hashes[0] == eplb_placement_hash(&shape, table));
    for (int32_t slot = 0; slot < shape.num_slots; slot++) {
        int32_t expert = table[slot];
        for (table[slot] = 0; table[slot] < shape.num_experts; table[slot]++)
            if (table[slot] != expert)
                hashes[count++] = eplb_placement_hash(&shape, table);
        table[slot] = expert;
    }
    for (int32_t a = 0; a < shape.num_slots; a++)
        for (int32_t b = a + 1; b < shape.num_slots; b++) {
            if (table[a] == table[b])
                continue;
            memcpy(other, table, (size_t)shape.num_slots * sizeof *other);
            other[a] = table[b];
            other[b] = table[a];
            hashes[count++] = eplb_placement_hash(&shape, other);
        }
    assert_int_equal(count, 1 + 24 * 15 + (24 * 23 / 2 - 8));
    qsort(hashes, count, sizeof *hashes, compare_hashes);
    for (size_t i = 1; i < count; i++)
        assert_true(hashes[i - 1] != hashes[i]);
}

static void the_hash_knows_the_shape(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
    struct eplb_shape wide = tables_shape(8, 2, 4);
    struct eplb_shape narrow = tables_shape(8, 4, 2);
    assert_legal(&wide, ids);
    assert_legal(&narrow, ids);
    assert_true(eplb_placement_hash(&wide, ids) != eplb_placement_hash(&narrow, ids));
}

/* ---- sets ---- */

static void a_reorder_inside_ranks_is_no_change(void **state)
{
    (void)state;
    static const int32_t old_ids[] = {0, 1, 2, 0, 3, 1};
    static const int32_t reordered[] = {2, 0, 1, 1, 0, 3};
    static const int32_t swapped_ranks[] = {0, 3, 1, 0, 1, 2};
    static const int32_t last_rank[] = {0, 1, 2, 0, 3, 2};
    static const int32_t both[] = {0, 1, 3, 0, 2, 3};
    struct eplb_shape shape = tables_shape(4, 2, 1);
    assert_int_equal(eplb_placement_sets_differ(&shape, old_ids, old_ids), 0);
    assert_int_equal(eplb_placement_sets_differ(&shape, old_ids, reordered), 0);
    assert_int_equal(eplb_placement_sets_differ(&shape, old_ids, swapped_ranks), 1);
    assert_int_equal(eplb_placement_sets_differ(&shape, old_ids, last_rank), 1);
    assert_int_equal(eplb_placement_sets_differ(&shape, last_rank, old_ids), 1);
    assert_int_equal(eplb_placement_sets_differ(&shape, old_ids, both), 1);
}

static void sets_of_many_experts_differ_by_one(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(256, 2, 1);
    eplb_placement_initial(&shape, table);
    memcpy(other, table, (size_t)shape.num_slots * sizeof *other);
    other[128] = 192; /* rank 0's redundant slot: 128 before, the same bit of the next word now */
    assert_legal(&shape, other);
    assert_int_equal(eplb_placement_sets_differ(&shape, table, other), 1);
    assert_int_equal(eplb_placement_sets_differ(&shape, table, table), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_initial_placement_is_contiguous),
        cmocka_unit_test(the_initial_placement_follows_its_formula),
        cmocka_unit_test(the_initial_placement_of_real_models_is_legal),
        cmocka_unit_test(takes_legal_placements),
        cmocka_unit_test(refuses_an_id_out_of_range),
        cmocka_unit_test(refuses_a_physical_id_for_an_expert),
        cmocka_unit_test(refuses_a_repeat_on_a_rank),
        cmocka_unit_test(refuses_a_missing_expert),
        cmocka_unit_test(tells_neighbouring_ids_apart),
        cmocka_unit_test(counts_replicas),
        cmocka_unit_test(hashes_are_what_they_always_were),
        cmocka_unit_test(a_changed_slot_changes_the_hash),
        cmocka_unit_test(the_hash_knows_the_shape),
        cmocka_unit_test(a_reorder_inside_ranks_is_no_change),
        cmocka_unit_test(sets_of_many_experts_differ_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
