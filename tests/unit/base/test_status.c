/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/error.h"

struct row {
    const char *name;
    int value;
    int exit_code;
    const char *text;
};

/* Written out once more: values are part of the ABI, exit codes of the command's contract. */
static const struct row expected[] = {
    {"OK", 0, 0, "ok"},
    {"INTERNAL", 1, 1, "internal error"},
    {"IO", 2, 1, "input/output error"},
    {"NO_MEMORY", 3, 1, "out of memory"},
    {"INVALID", 4, 2, "invalid input"},
    {"USAGE", 5, 2, "wrong usage"},
    {"UNSUPPORTED", 6, 2, "not supported"},
    {"REFUSED", 7, 2, "refused"},
    {"INCONSISTENT", 8, 1, "ranks disagree"},
    {"VERIFY", 9, 3, "verification failed"},
    {"RANK_DEAD", 10, 4, "a rank died"},
    {"RANK_SILENT", 11, 5, "a rank is silent or a hook hangs"},
    {"LAYOUT", 12, 6, "shared memory of another layout"},
    {"IN_USE", 13, 7, "instance name in use"},
};

static const struct row table[] = {
#define STATUS_ROW(name, value, exit_code, text) {#name, value, exit_code, text},
    EPLB_STATUS_MAP(STATUS_ROW)};

enum { NUM_EXPECTED = sizeof expected / sizeof expected[0], NUM_ROWS = sizeof table / sizeof table[0] };

static void values_texts_and_exit_codes_are_stable(void **state)
{
    (void)state;
    assert_true(NUM_ROWS >= NUM_EXPECTED);
    for (int i = 0; i < NUM_EXPECTED; i++) {
        assert_string_equal(table[i].name, expected[i].name);
        assert_int_equal(table[i].value, expected[i].value);
        assert_int_equal(eplb_status_exit_code((enum eplb_status)expected[i].value), expected[i].exit_code);
        assert_string_equal(eplb_status_text((enum eplb_status)expected[i].value), expected[i].text);
    }
}

static void values_are_unique_and_exit_codes_known(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_ROWS; i++) {
        assert_in_range(table[i].exit_code, 0, 7);
        assert_int_equal(table[i].exit_code == 0, table[i].value == EPLB_OK);
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(table[i].value, table[j].value);
            assert_string_not_equal(table[i].text, table[j].text);
        }
    }
}

static void an_unknown_status_is_an_internal_error(void **state)
{
    (void)state;
    assert_string_equal(eplb_status_text((enum eplb_status)77), "unknown status");
    assert_int_equal(eplb_status_exit_code((enum eplb_status)77), 1);
}

static enum eplb_status refuse(int layer, struct eplb_error *error)
{
    EPLB_FAIL(EPLB_INVALID, "layer %d: too many slots", layer);
}

static enum eplb_status forward(int layer, int *reached_end, struct eplb_error *error)
{
    *reached_end = 0;
    if (layer >= 0)
        EPLB_TRY(refuse(layer, error));
    EPLB_TRY(EPLB_OK);
    *reached_end = 1;
    return EPLB_OK;
}

static void failing_records_and_forwarding_keeps(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    int reached_end;
    assert_int_equal(forward(-1, &reached_end, &error), EPLB_OK);
    assert_true(reached_end);
    assert_int_equal(error.status, EPLB_OK);
    assert_string_equal(error.text, "");
    assert_int_equal(forward(3, &reached_end, &error), EPLB_INVALID);
    assert_false(reached_end);
    assert_int_equal(error.status, EPLB_INVALID);
    assert_string_equal(error.text, "layer 3: too many slots");
    assert_int_equal(refuse(4, NULL), EPLB_INVALID);
}

static void a_long_sentence_is_cut(void **state)
{
    (void)state;
    char word[EPLB_ERROR_TEXT + 100];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    struct {
        struct eplb_error error;
        char behind[8];
    } guarded = {.behind = "intact"};

    assert_int_equal(eplb_fail(&guarded.error, EPLB_IO, "%s", word), EPLB_IO);
    assert_int_equal(strlen(guarded.error.text), EPLB_ERROR_TEXT - 1);
    assert_memory_equal(guarded.error.text, word, EPLB_ERROR_TEXT - 1);
    assert_string_equal(guarded.behind, "intact");

    eplb_fail(&guarded.error, EPLB_IO, "%.*s", EPLB_ERROR_TEXT - 1, word);
    assert_int_equal(strlen(guarded.error.text), EPLB_ERROR_TEXT - 1);
    eplb_fail(&guarded.error, EPLB_IO, "%s", "short");
    assert_string_equal(guarded.error.text, "short");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_texts_and_exit_codes_are_stable),
        cmocka_unit_test(values_are_unique_and_exit_codes_known),
        cmocka_unit_test(an_unknown_status_is_an_internal_error),
        cmocka_unit_test(failing_records_and_forwarding_keeps),
        cmocka_unit_test(a_long_sentence_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
