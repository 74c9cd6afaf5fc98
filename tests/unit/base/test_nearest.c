/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/nearest.h"

struct pair {
    const char *a;
    const char *b;
    size_t distance;
};

static void distances(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"greedy", "greedy", 0},
        {"GREEDY", "greedy", 0},
        {"kitten", "sitting", 3},
        {"ab", "ba", 1},
        {"abcd", "acbd", 1},
        {"abcd", "badc", 2},
        {"ca", "abc", 3}, /* the swapped pair is not edited again */
        {"layer", "layers", 1},
        {"xyz", "abc", 3},
        {"eplb_prepare_timout_seconds", "eplb_prepare_timeout_seconds", 1},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_int_equal(eplb_edit_distance(pairs[i].a, pairs[i].b), pairs[i].distance);
        assert_int_equal(eplb_edit_distance(pairs[i].b, pairs[i].a), pairs[i].distance);
    }
}

static void long_words_are_cut(void **state)
{
    (void)state;
    char first[100];
    char second[200];
    memset(first, 'a', sizeof first);
    memset(second, 'a', sizeof second);
    first[sizeof first - 1] = '\0';
    second[sizeof second - 1] = '\0';
    assert_int_equal(eplb_edit_distance(first, second), 0);
    assert_int_equal(eplb_edit_distance(first, ""), 63);
    first[62] = 'b';
    assert_int_equal(eplb_edit_distance(first, second), 1);
    first[62] = 'a';
    first[63] = 'b';
    assert_int_equal(eplb_edit_distance(first, second), 0);
}

static void the_nearest_word_wins_and_ties_go_first(void **state)
{
    (void)state;
    static const char *const words[] = {"flat", "greedy", "balanced", "heir", "hier"};
    assert_int_equal(eplb_nearest("ballanced", words, 5), 2);
    assert_int_equal(eplb_nearest("Greddy", words, 5), 1);
    assert_int_equal(eplb_nearest("hier", words, 5), 4);
    assert_int_equal(eplb_nearest("hexr", words, 5), 3);
    assert_int_equal(eplb_nearest("her", words, 5), 3);
    assert_int_equal(eplb_nearest("zzzz", words, 5), 0);
    assert_int_equal(eplb_nearest("anything", words, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(the_nearest_word_wins_and_ties_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
