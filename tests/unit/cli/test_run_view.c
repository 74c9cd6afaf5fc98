/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cli/run_view.h"

static struct eplb_run_view some_view(void)
{
    struct eplb_run_view view = {.title = "", .policy = "balanced", .tokens_per_second = 3456.4};
    assert_int_equal(eplb_shape_init(&view.shape, 4, 16, 4, 1, NULL), EPLB_OK);
    return view;
}

static struct eplb_manager_status some_manager(void)
{
    return (struct eplb_manager_status){.size = sizeof(struct eplb_manager_status),
                                        .layers_waiting = 1,
                                        .preparing_layer = 2,
                                        .activating_layer = EPLB_NO_LAYER,
                                        .last_sample_age_ns = 140000000,
                                        .rounds = 2,
                                        .layers_committed = 7,
                                        .slots_moved = 24,
                                        .samples_lacking = 3};
}

static struct eplb_run_progress some_progress(const struct eplb_manager_status *manager)
{
    return (struct eplb_run_progress){.step = 1200,
                                      .steps = 2000,
                                      .elapsed_ns = INT64_C(72500000000),
                                      .statistics.first_window = {1.612, 1.8, 1},
                                      .balance = {1.2134, 1.4019, 2},
                                      .step_ns_p50 = 3100000,
                                      .step_ns_p99 = 9000000,
                                      .manager = manager,
                                      .bytes_moved = 3250585};
}

static void shows(const struct eplb_run_view *view, const struct eplb_run_progress *progress, int columns,
                  const char *expected)
{
    char text[EPLB_RUN_VIEW_TEXT];
    size_t length = eplb_run_view_format(view, progress, columns, text);
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
}

static void a_run_with_balancing(void **state)
{
    (void)state;
    struct eplb_run_view view = some_view();
    struct eplb_manager_status manager = some_manager();
    struct eplb_run_progress progress = some_progress(&manager);
    shows(&view, &progress, 120,
          "\n"
          "  eplb run      policy balanced   4 layers, 16 experts on 4 ranks x 5 slots\n"
          "  step          1200 of 2000   3456 tokens/s   1:12\n"
          "  peak / mean   layers' mean 1.213   worst 1.402 (layer 2)   first window 1.612\n"
          "  layers        preparing layer 2   waiting 1   switched 7   given up 0\n"
          "  moved         24 slots   3.1 MiB   in 2 rounds\n"
          "  step time     p50 3.10 ms   p99 9.00 ms\n"
          "  health        ok   last sample 0.1 s ago   samples refused 0, lacking 3\n"
          "\n");
}

static void a_run_without_balancing_and_without_end(void **state)
{
    (void)state;
    struct eplb_run_view view = some_view();
    struct eplb_run_progress progress = some_progress(NULL);
    view.title = "run 2 of 2";
    view.policy = "none";
    progress.steps = 0;
    progress.balance = (struct eplb_window_balance){1, 1, EPLB_NO_LAYER};
    shows(&view, &progress, 120,
          "\n"
          "  eplb run      run 2 of 2   policy none   4 layers, 16 experts on 4 ranks x 5 slots\n"
          "  step          1200   3456 tokens/s   1:12   (Ctrl-C ends it)\n"
          "  peak / mean   no load yet in this window\n"
          "  layers        balancing is off: they stay as they are\n"
          "  moved         nothing\n"
          "  step time     p50 3.10 ms   p99 9.00 ms\n"
          "  health        ok\n"
          "\n");
}

static void every_line_fits_the_columns(void **state)
{
    (void)state;
    struct eplb_run_view view = some_view();
    struct eplb_manager_status manager = some_manager();
    struct eplb_run_progress progress = some_progress(&manager);
    char text[EPLB_RUN_VIEW_TEXT];
    for (int columns = -1; columns < 1000; columns++) {
        eplb_run_view_format(&view, &progress, columns, text);
        int lines = 0;
        for (const char *line = text; *line != '\0'; lines++) {
            size_t length = strcspn(line, "\n");
            assert_true(length <= (size_t)(columns < 1 ? 1 : columns));
            line += length + 1;
        }
        assert_int_equal(lines, EPLB_RUN_VIEW_LINES);
    }
    eplb_run_view_format(&view, &progress, 20, text);
    assert_non_null(strstr(text, "\n  step          1200\n"));
}

static void has(const struct eplb_manager_status *manager, const char *line)
{
    struct eplb_run_view view = some_view();
    struct eplb_run_progress progress = some_progress(manager);
    char text[EPLB_RUN_VIEW_TEXT];
    eplb_run_view_format(&view, &progress, 120, text);
    if (strstr(text, line) == NULL)
        fail_msg("\"%s\" is not in: %s", line, text);
}

static void what_the_layers_do(void **state)
{
    (void)state;
    struct eplb_manager_status manager = some_manager();
    manager.ready = 1;
    has(&manager, "  layers        layer 2 is ready   waiting 1");
    manager.activating_layer = 3;
    has(&manager, "  layers        activating layer 3   waiting 1");
    manager.activating_layer = EPLB_NO_LAYER;
    manager.preparing_layer = EPLB_NO_LAYER;
    has(&manager, "  layers        idle   waiting 1");
    manager.policy_running = 1;
    has(&manager, "  layers        planning   waiting 1");
}

static void what_is_wrong(void **state)
{
    (void)state;
    struct eplb_manager_status manager = some_manager();
    manager.last_sample_age_ns = -1;
    has(&manager, "  health        ok   no sample yet   ");
    manager.policy_failures = 2;
    has(&manager, "  health        policy runs failed: 2   ");
    manager.activation_stuck = 1;
    manager.activating_layer = 3;
    manager.activation_age_ns = INT64_C(12340000000);
    has(&manager, "  health        the activation of layer 3 is stuck for 12.3 s   ");
    manager.num_dead = 1;
    has(&manager, "  health        ranks dead: 1   ");
}

static void a_painting_ends_where_it_began(void **state)
{
    (void)state;
    char painting[EPLB_RUN_PAINT_TEXT];
    size_t length = eplb_run_view_paint("\nab\n\n", painting);
    assert_string_equal(painting, "\033[K\nab\033[K\n\033[K\n\033[3A\r");
    assert_int_equal(length, strlen(painting));
    assert_string_equal(eplb_run_view_erase(), "\r\033[J");
}

static void bytes_as_people_read_them(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {{0, "0 bytes"},          {1, "1 bytes"},
                 {1023, "1023 bytes"},    {1024, "1.0 KiB"},
                 {1536, "1.5 KiB"},       {1048575, "1.0 MiB"},
                 {1047527, "1023.0 KiB"}, {1048576, "1.0 MiB"},
                 {4194304, "4.0 MiB"},    {INT64_C(1) << 40, "1.0 TiB"},
                 {INT64_MAX, "8.0 EiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[EPLB_BYTES_TEXT];
        assert_string_equal(eplb_bytes_text(cases[i].bytes, text), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_with_balancing),
        cmocka_unit_test(a_run_without_balancing_and_without_end),
        cmocka_unit_test(every_line_fits_the_columns),
        cmocka_unit_test(what_the_layers_do),
        cmocka_unit_test(what_is_wrong),
        cmocka_unit_test(a_painting_ends_where_it_began),
        cmocka_unit_test(bytes_as_people_read_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
