/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/utf8.h"
#include "config/text.h"

static void utf8_lengths(void **state)
{
    (void)state;
    assert_int_equal(eplb_utf8_length("a"), 1);
    assert_int_equal(eplb_utf8_length(""), 0);
    assert_int_equal(eplb_utf8_length("\xc3\xa9"), 2);
    assert_int_equal(eplb_utf8_length("\xe4\xb8\x93"), 3);
    assert_int_equal(eplb_utf8_length("\xf0\x9f\x98\x80"), 4);
    /* Malformed: a lone continuation, a cut character, overlong, a surrogate, past U+10FFFF. */
    static const char *const bad[] = {"\x80",
                                      "\xc3",
                                      "\xe4\xb8",
                                      "\xc0\xaf",
                                      "\xe0\x80\xaf",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xff",
                                      "\xf0\x9f\x98",
                                      "\xf0\x9f\x41\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(eplb_utf8_length(bad[i]), 0);
}

static void strangers_text_is_made_harmless(void **state)
{
    (void)state;
    char shown[EPLB_SHOWN_TEXT];
    eplb_text_shown(shown, "a\nb\x1b[31m\xff\x7f|");
    assert_string_equal(shown, "a?b?[31m??|");
    eplb_text_shown(shown, "\xe4\xb8\x93\xe5\xae\xb6");
    assert_string_equal(shown, "\xe4\xb8\x93\xe5\xae\xb6");
    eplb_text_shown(shown, "");
    assert_string_equal(shown, "");
}

static void long_text_is_cut_between_characters(void **state)
{
    (void)state;
    char text[301];
    char shown[EPLB_SHOWN_TEXT];
    memset(text, 'x', sizeof text);
    text[64] = '\0';
    eplb_text_shown(shown, text);
    assert_string_equal(shown, text);
    text[64] = 'x';
    text[300] = '\0';
    eplb_text_shown(shown, text);
    assert_int_equal(strlen(shown), 68);
    assert_string_equal(shown + 60, "xxxxx...");
    for (size_t i = 0; i < 300; i += 3)
        memcpy(text + i, "\xe4\xb8\x93", 3);
    eplb_text_shown(shown, text);
    assert_string_equal(shown + strlen(shown) - 6, "\xe4\xb8\x93...");
    assert_int_equal(strlen(shown) % 3, 0);
}

struct page {
    char text[1024];
    size_t length;
};

static void put(void *context, const char *text, size_t length)
{
    struct page *page = context;
    assert_true(page->length + length < sizeof page->text);
    memcpy(page->text + page->length, text, length);
    page->length += length;
    page->text[page->length] = '\0';
}

static void paragraphs_are_wrapped_at_80_columns(void **state)
{
    (void)state;
    struct page page = {.length = 0};
    struct eplb_text_sink sink = {.context = &page, .put = put};
    eplb_text_wrap(&sink, 4, "  one\ntwo  three ");
    assert_string_equal(page.text, "    one two three\n");

    page.length = 0;
    eplb_text_wrap(&sink, 2,
                   "123456789 123456789 123456789 123456789 123456789 123456789 123456789 12345678 next");
    assert_string_equal(page.text, "  123456789 123456789 123456789 123456789 123456789 123456789 123456789 "
                                   "12345678\n  next\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_lengths),
        cmocka_unit_test(strangers_text_is_made_harmless),
        cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(paragraphs_are_wrapped_at_80_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
