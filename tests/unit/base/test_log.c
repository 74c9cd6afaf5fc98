/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "support/death.h"
#include "support/point_locale.h"

/* ---- eplb_log_format: the exact line ---- */

#define FIELD_INT(name, x)                                        \
    {                                                             \
        .key = (name), .type = EPLB_LOG_INT, .value.integer = (x) \
    }
#define FIELD_REAL(name, x)                                     \
    {                                                           \
        .key = (name), .type = EPLB_LOG_REAL, .value.real = (x) \
    }
#define FIELD_TEXT(name, x)                                     \
    {                                                           \
        .key = (name), .type = EPLB_LOG_TEXT, .value.text = (x) \
    }

static void assert_line(const char *prefix, const struct eplb_log_field *fields, size_t count,
                        const char *line)
{
    struct eplb_log_record record = {.size = sizeof record,
                                     .level = EPLB_LOG_INFO,
                                     .prefix = prefix,
                                     .num_fields = count,
                                     .fields = fields};
    char text[512];
    memset(text, '#', sizeof text);
    size_t length = eplb_log_format(&record, text, sizeof text);
    assert_string_equal(text, line);
    assert_int_equal(length, strlen(line));

    for (size_t capacity = 1; capacity <= length + 1; capacity++) {
        memset(text, '#', sizeof text);
        assert_int_equal(eplb_log_format(&record, text, capacity), length);
        assert_int_equal(strlen(text), capacity - 1);
        assert_memory_equal(text, line, capacity - 1);
        assert_int_equal(text[capacity], '#');
    }
    assert_int_equal(eplb_log_format(&record, NULL, 0), length);
}

static void a_record_is_one_line(void **state)
{
    (void)state;
    const struct eplb_log_field fields[] = {
        FIELD_INT("layer", 3),
        FIELD_INT("smallest", INT64_MIN),
        FIELD_REAL("improvement", 0.0525),
        FIELD_TEXT("policy", "balanced"),
    };
    assert_line("EPLB rebalance", NULL, 0, "EPLB rebalance");
    assert_line(
        "EPLB rebalance", fields, 4,
        "EPLB rebalance | layer=3 | smallest=-9223372036854775808 | improvement=0.0525 | policy=balanced");
}

static void values_cannot_break_the_line(void **state)
{
    (void)state;
    const struct eplb_log_field fields[] = {
        FIELD_TEXT("file", "a\nb\tc\rd\x01"
                           "e\x7f|f=g"),
        FIELD_TEXT("none", NULL),
        FIELD_TEXT("expert", "\xe4\xb8\x93"),
    };
    assert_line("p|q", fields, 3, "p/q | file=a b c d e /f=g | none= | expert=\xe4\xb8\x93");
}

static void reals_have_six_digits(void **state)
{
    (void)state;
    const struct eplb_log_field fields[] = {
        FIELD_REAL("a", 1.0 / 3),
        FIELD_REAL("b", -0.0),
        FIELD_REAL("c", 1e300),
        FIELD_REAL("d", -1.5e-07),
        FIELD_REAL("e", 1234567.0),
        FIELD_REAL("f", 2.0),
        FIELD_REAL("g", (double)INFINITY),
        FIELD_REAL("h", (double)-INFINITY),
    };
    assert_line("r", fields, 8,
                "r | a=0.333333 | b=-0 | c=1e+300 | d=-1.5e-07 | e=1.23457e+06 | f=2 | g=inf | h=-inf");
}

static void the_locale_changes_nothing(void **state)
{
    (void)state;
    const struct eplb_log_field fields[] = {FIELD_REAL("x", 0.5), FIELD_REAL("y", -1.25e-9)};
    const enum point_locale kinds[] = {POINT_LOCALE_COMMA, POINT_LOCALE_WIDE};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!point_locale_begin(kinds[i]))
            skip();
        assert_line("r", fields, 2, "r | x=0.5 | y=-1.25e-09");
        point_locale_end();
    }
}

/* ---- the table of lines ---- */

struct line {
    const char *prefix;
    enum eplb_log_level level;
    size_t declared;
    size_t counted;
    const char *const *keys;
};

#define NUM_KEYS(...) (sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
static const struct line lines[] = {
#define TABLE_ROW(id, level_name, prefix_text, number, ...) \
    {prefix_text, EPLB_LOG_##level_name, number, NUM_KEYS(__VA_ARGS__), (const char *const[]){__VA_ARGS__}},
    EPLB_LOG_LINES(TABLE_ROW)};

static void every_line_of_the_table_is_well_formed(void **state)
{
    (void)state;
    assert_int_equal(sizeof lines / sizeof lines[0], EPLB_NUM_LOG_LINES);
    for (size_t i = 0; i < EPLB_NUM_LOG_LINES; i++) {
        assert_int_equal(lines[i].declared, lines[i].counted);
        assert_true(strlen(lines[i].prefix) > 0);
        assert_null(strchr(lines[i].prefix, '|'));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(lines[i].prefix, lines[j].prefix);
        for (size_t k = 0; k < lines[i].counted; k++) {
            const char *key = lines[i].keys[k];
            assert_int_equal(strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(key));
            assert_true(strlen(key) > 0);
            for (size_t m = 0; m < k; m++)
                assert_string_not_equal(key, lines[i].keys[m]);
        }
    }
}

/* ---- eplb_log_write ---- */

struct capture {
    int calls;
    enum eplb_log_level level;
    size_t size;
    char text[512];
};

static void take(void *context, const struct eplb_log_record *record)
{
    struct capture *capture = context;
    capture->calls++;
    capture->level = record->level;
    capture->size = record->size;
    eplb_log_format(record, capture->text, sizeof capture->text);
}

static void a_written_line_reaches_the_sink(void **state)
{
    (void)state;
    struct capture capture = {0};
    const struct eplb_log_sink sink = {.size = sizeof sink, .context = &capture, .write = take};
    EPLB_LOG(&sink, WARNING, EPLB_VALUE_TEXT("mind the gap"));
    assert_int_equal(capture.calls, 1);
    assert_int_equal(capture.level, EPLB_LOG_WARNING);
    assert_int_equal(capture.size, sizeof(struct eplb_log_record));
    assert_string_equal(capture.text, "EPLB warning | message=mind the gap");

    EPLB_LOG(&sink, PLACEMENT_BENEFIT, EPLB_VALUE_INT(7), EPLB_VALUE_TEXT("greedy"), EPLB_VALUE_REAL(100),
             EPLB_VALUE_REAL(95), EPLB_VALUE_REAL(0.05), EPLB_VALUE_REAL(0.05), EPLB_VALUE_TEXT("publish"),
             EPLB_VALUE_REAL(90.5), EPLB_VALUE_INT(3), EPLB_VALUE_INT(2), EPLB_VALUE_INT(4096),
             EPLB_VALUE_TEXT("unknown"));
    assert_int_equal(capture.calls, 2);
    assert_int_equal(capture.level, EPLB_LOG_INFO);
    assert_string_equal(capture.text,
                        "EPLB placement benefit | layer=7 | policy=greedy | current_peak=100 | "
                        "candidate_peak=95 | improvement=0.05 | threshold=0.05 | verdict=publish | "
                        "unbounded_peak=90.5 | moved_slots=3 | sent_slots=2 | bytes=4096 | "
                        "break_even_forwards=unknown");
}

static void no_sink_drops_lines(void **state)
{
    (void)state;
    const struct eplb_log_sink silent = {.size = sizeof silent};
    EPLB_LOG(NULL, WARNING, EPLB_VALUE_TEXT("nobody"));
    EPLB_LOG(&silent, WARNING, EPLB_VALUE_TEXT("nobody"));
}

static void write_too_few_values(void *argument)
{
    EPLB_LOG(argument, PLACEMENT_BENEFIT, EPLB_VALUE_INT(7));
}

static void a_missing_value_is_our_bug(void **state)
{
    (void)state;
    char errors[256];
    assert_int_equal(death_of(write_too_few_values, NULL, errors, sizeof errors), SIGABRT);
    assert_non_null(strstr(errors, "assertion failed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_one_line),
        cmocka_unit_test(values_cannot_break_the_line),
        cmocka_unit_test(reals_have_six_digits),
        cmocka_unit_test(the_locale_changes_nothing),
        cmocka_unit_test(every_line_of_the_table_is_well_formed),
        cmocka_unit_test(a_written_line_reaches_the_sink),
        cmocka_unit_test(no_sink_drops_lines),
        cmocka_unit_test(a_missing_value_is_our_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
