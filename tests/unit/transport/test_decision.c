/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The record's votes over several words, up to the largest group. What it means is in the contract suite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "eplb/placement.h"
#include "transport/decision.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { MOST_WORDS = EPLB_MAX_RANKS / EPLB_VOTES_PER_WORD };

static _Atomic uint64_t word;
static _Atomic uint64_t votes[MOST_WORDS + 1];

static struct eplb_decision_record fresh(int32_t num_ranks)
{
    word = 0;
    for (size_t i = 0; i < LENGTH(votes); i++)
        votes[i] = UINT64_C(0xeeeeeeeeeeeeeeee);
    return (struct eplb_decision_record){.word = &word, .votes = votes, .num_ranks = num_ranks};
}

static void words_are_as_many_as_the_ranks_need(void **state)
{
    (void)state;
    static const int32_t needs[][2] = {{1, 1},  {32, 1}, {33, 2},
                                       {64, 2}, {65, 3}, {EPLB_MAX_RANKS, MOST_WORDS}};
    for (size_t i = 0; i < LENGTH(needs); i++)
        assert_int_equal(eplb_decision_vote_words(needs[i][0]), needs[i][1]);
}

static void a_vote_is_one_bit_beside_its_token(void **state)
{
    (void)state;
    struct eplb_decision_record record = fresh(40);
    const struct eplb_activation_token token = {UINT64_C(0x0123456789abcdef)};
    eplb_decision_open(&record, token);
    assert_int_equal(word, token.value * 4);
    assert_false(eplb_decision_vote(&record, token, 0, true));
    assert_false(eplb_decision_vote(&record, token, 31, true));
    assert_false(eplb_decision_vote(&record, token, 33, true));
    assert_int_equal(votes[0], UINT64_C(0x89abcdef80000001));
    assert_int_equal(votes[1], UINT64_C(0x89abcdef00000002));
    assert_int_equal(votes[2], UINT64_C(0xeeeeeeeeeeeeeeee));
    assert_true(eplb_decision_vote(&record, token, 5, false));
    assert_int_equal(word, token.value * 4 + EPLB_ABORT);
    assert_false(eplb_decision_abort(&record, token));
}

/* In every size of group, whoever votes last decides, and nobody before. */
static void the_last_of_any_number_commits(void **state)
{
    (void)state;
    static const int32_t sizes[] = {1, 2, 31, 32, 33, 63, 64, 65, 100, 1000, EPLB_MAX_RANKS};
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        struct eplb_decision_record record = fresh(sizes[i]);
        const struct eplb_activation_token token = {i + 1};
        int32_t last = sizes[i] / 2;
        eplb_decision_open(&record, token);
        for (int32_t rank = 0; rank < sizes[i]; rank++)
            if (rank != last)
                assert_false(eplb_decision_vote(&record, token, rank, true));
        assert_int_equal(eplb_decision_read(&record, token), EPLB_UNDECIDED);
        assert_true(eplb_decision_vote(&record, token, last, true));
        assert_int_equal(eplb_decision_read(&record, token), EPLB_COMMIT);
        assert_int_equal(votes[eplb_decision_vote_words(sizes[i])], UINT64_C(0xeeeeeeeeeeeeeeee));
    }
}

/* A voter that saw its token in the word, but was held up until the votes were another's. */
static void a_vote_does_not_count_beside_another_token(void **state)
{
    (void)state;
    struct eplb_decision_record record = fresh(1);
    const struct eplb_activation_token token = {9};
    eplb_decision_open(&record, token);
    votes[0] = UINT64_C(10) << 32;
    assert_false(eplb_decision_vote(&record, token, 0, true));
    assert_int_equal(votes[0], UINT64_C(10) << 32);
    assert_int_equal(eplb_decision_read(&record, token), EPLB_UNDECIDED);
}

static void a_state_that_does_not_exist_decides_nothing(void **state)
{
    (void)state;
    struct eplb_decision_record record = fresh(2);
    const struct eplb_activation_token token = {9};
    word = token.value * 4 + 3;
    assert_int_equal(eplb_decision_read(&record, token), EPLB_UNDECIDED);
    assert_false(eplb_decision_abort(&record, token));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_as_many_as_the_ranks_need),
        cmocka_unit_test(a_vote_is_one_bit_beside_its_token),
        cmocka_unit_test(the_last_of_any_number_commits),
        cmocka_unit_test(a_vote_does_not_count_beside_another_token),
        cmocka_unit_test(a_state_that_does_not_exist_decides_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
