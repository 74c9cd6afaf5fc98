/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "metrics/metrics.h"
#include "os/thread.h"
#include "support/death.h"

struct page {
    char text[8192];
    size_t length;
};

static void append(void *context, const char *text, size_t length)
{
    struct page *page = context;
    assert_true(length < sizeof page->text - page->length);
    memcpy(page->text + page->length, text, length);
    page->length += length;
    page->text[page->length] = '\0';
}

static struct eplb_metrics *create(void)
{
    struct eplb_metrics *metrics = NULL;
    struct eplb_error error = {0};
    assert_int_equal(eplb_metrics_create(&metrics, &error), EPLB_OK);
    return metrics;
}

static void assert_exposes(const struct eplb_metrics *metrics, const char *expected)
{
    static struct page page;
    page = (struct page){.length = 0};
    eplb_metrics_expose(metrics, append, &page);
    assert_string_equal(page.text, expected);
}

#define HEAD(name, type, help) "# HELP " name " " help "\n# TYPE " name " " type "\n"
#define COUNTER(name, help, value) HEAD(name, "counter", help) name " " value "\n"
#define GAUGE(name, help, value) HEAD(name, "gauge", help) name " " value "\n"
#define BUCKET(bound, count) "eplb_policy_seconds_bucket{le=\"" bound "\"} " count "\n"

static void new_metrics_expose_zeros(void **state)
{
    (void)state;
    struct eplb_metrics *metrics = create();
    assert_exposes(
        metrics,
        COUNTER("eplb_samples_taken_total", "Load samples that were added to the windows.", "0") COUNTER(
            "eplb_samples_refused_total",
            "Load samples that were refused because a rank's counts were wrong.",
            "0") COUNTER("eplb_samples_lacking_total",
                         "Forwards that gave no load sample because a rank's output was lacking.", "0")
            COUNTER("eplb_rebalances_started_total", "Policy runs over all layers that were started.",
                    "0") COUNTER("eplb_traffic_shifts_total",
                                 "Shifts of the traffic that started a policy run before its time.", "0")
                COUNTER("eplb_weight_solves_total",
                        "Solves of replica weights from the recent load that were started.",
                        "0") COUNTER("eplb_weight_updates_total",
                                     "New versions of a layer's replica weights that commands carried.",
                                     "0") COUNTER("eplb_layers_published_total",
                                                  "Layers whose candidate placement passed the gate.", "0")
                    COUNTER(
                        "eplb_layers_activated_total",
                        "Layers that were switched to their candidate placement on all ranks.",
                        "0") COUNTER("eplb_layers_aborted_total",
                                     "Layers whose candidate placement was given up, for whatever reason.",
                                     "0")
                        COUNTER("eplb_layers_timed_out_total",
                                "Layers among the aborted ones whose prepare was not answered in time.",
                                "0") COUNTER("eplb_moved_slots_total",
                                             "Physical slots that activations gave another expert.", "0")
                            COUNTER("eplb_moved_bytes_total",
                                    "Bytes of expert weights that activations sent between ranks.", "0")
                                HEAD("eplb_policy_seconds", "histogram",
                                     "Duration of one policy run over all layers.") BUCKET("0.0001", "0")
                                    BUCKET("0.0003", "0") BUCKET("0.001", "0") BUCKET("0.003", "0") BUCKET(
                                        "0.01", "0") BUCKET("0.03", "0") BUCKET("0.1", "0") BUCKET("0.3", "0")
                                        BUCKET("1", "0") BUCKET("3", "0") BUCKET("10", "0") BUCKET(
                                            "+Inf",
                                            "0") "eplb_policy_seconds_sum 0\neplb_policy_seconds_count "
                                                 "0\n" GAUGE("eplb_last_sample_age_seconds",
                                                             "Time since the last load sample was taken.",
                                                             "NaN")
                                                     GAUGE("eplb_last_activation_wait_seconds",
                                                           "Time that the last activation waited for the "
                                                           "reports of all ranks.",
                                                           "NaN")
                                                         GAUGE("eplb_activation_stuck",
                                                               "1 while an activation lacks a report for too "
                                                               "long, else 0.",
                                                               "NaN"));
    eplb_metrics_destroy(metrics);
}

/* One rebalance of five layers on four ranks counts once, and five layers: not per rank. */
static void count_some(struct eplb_metrics *metrics)
{
    eplb_metrics_add(metrics, EPLB_METRIC_SAMPLES_TAKEN, 41);
    eplb_metrics_add(metrics, EPLB_METRIC_SAMPLES_TAKEN, 1);
    eplb_metrics_add(metrics, EPLB_METRIC_SAMPLES_REFUSED, 2);
    eplb_metrics_add(metrics, EPLB_METRIC_SAMPLES_LACKING, 3);
    eplb_metrics_add(metrics, EPLB_METRIC_REBALANCES_STARTED, 1);
    eplb_metrics_add(metrics, EPLB_METRIC_LAYERS_PUBLISHED, 5);
    eplb_metrics_add(metrics, EPLB_METRIC_LAYERS_ACTIVATED, 3);
    eplb_metrics_add(metrics, EPLB_METRIC_LAYERS_ABORTED, 2);
    eplb_metrics_add(metrics, EPLB_METRIC_LAYERS_TIMED_OUT, 1);
    eplb_metrics_add(metrics, EPLB_METRIC_MOVED_SLOTS, 17);
    eplb_metrics_add(metrics, EPLB_METRIC_MOVED_BYTES, INT64_C(4611686018427387904));
    eplb_metrics_observe(metrics, EPLB_METRIC_POLICY_SECONDS, 0);
    eplb_metrics_observe(metrics, EPLB_METRIC_POLICY_SECONDS, 1000000);
    eplb_metrics_observe(metrics, EPLB_METRIC_POLICY_SECONDS, 1000001);
    eplb_metrics_observe(metrics, EPLB_METRIC_POLICY_SECONDS, INT64_C(60000000000));
    eplb_metrics_set(metrics, EPLB_METRIC_LAST_SAMPLE_AGE, 7);
    eplb_metrics_set(metrics, EPLB_METRIC_LAST_SAMPLE_AGE, 1500000000);
    eplb_metrics_set(metrics, EPLB_METRIC_LAST_ACTIVATION_WAIT, 1);
}

static void counts_appear_in_the_page(void **state)
{
    (void)state;
    struct eplb_metrics *metrics = create();
    count_some(metrics);
    assert_exposes(
        metrics,
        COUNTER("eplb_samples_taken_total", "Load samples that were added to the windows.", "42") COUNTER(
            "eplb_samples_refused_total",
            "Load samples that were refused because a rank's counts were wrong.",
            "2") COUNTER("eplb_samples_lacking_total",
                         "Forwards that gave no load sample because a rank's output was lacking.",
                         "3") COUNTER("eplb_rebalances_started_total",
                                      "Policy runs over all layers that were started.", "1")
            COUNTER(
                "eplb_traffic_shifts_total",
                "Shifts of the traffic that started a policy run before its time.",
                "0") COUNTER("eplb_weight_solves_total",
                             "Solves of replica weights from the recent load that were started.",
                             "0") COUNTER("eplb_weight_updates_total",
                                          "New versions of a layer's replica weights that commands carried.",
                                          "0") COUNTER("eplb_layers_published_total",
                                                       "Layers whose candidate placement passed the gate.",
                                                       "5")
                COUNTER("eplb_layers_activated_total",
                        "Layers that were switched to their candidate placement on all ranks.",
                        "3") COUNTER("eplb_layers_aborted_total",
                                     "Layers whose candidate placement was given up, for whatever reason.",
                                     "2")
                    COUNTER("eplb_layers_timed_out_total",
                            "Layers among the aborted ones whose prepare was not answered in time.",
                            "1") COUNTER("eplb_moved_slots_total",
                                         "Physical slots that activations gave another expert.", "17")
                        COUNTER("eplb_moved_bytes_total",
                                "Bytes of expert weights that activations sent between ranks.",
                                "4611686018427387904") HEAD("eplb_policy_seconds", "histogram",
                                                            "Duration of one policy run over all layers.")
                            BUCKET("0.0001", "1") BUCKET("0.0003", "1") BUCKET("0.001", "2") BUCKET(
                                "0.003", "3") BUCKET("0.01", "3") BUCKET("0.03", "3") BUCKET("0.1", "3")
                                BUCKET("0.3", "3") BUCKET("1", "3") BUCKET("3", "3") BUCKET("10", "3") BUCKET(
                                    "+Inf",
                                    "4") "eplb_policy_seconds_sum 60.002000001\neplb_policy_seconds_count "
                                         "4\n" GAUGE("eplb_last_sample_age_seconds",
                                                     "Time since the last load sample was taken.", "1.5")
                                             GAUGE("eplb_last_activation_wait_seconds",
                                                   "Time that the last activation waited for the reports of "
                                                   "all ranks.",
                                                   "0.000000001")
                                                 GAUGE("eplb_activation_stuck",
                                                       "1 while an activation lacks a report for too long, "
                                                       "else 0.",
                                                       "NaN"));
    eplb_metrics_destroy(metrics);
}

static void numbers_can_be_read_back(void **state)
{
    (void)state;
    struct eplb_metrics *metrics = create();
    assert_true(eplb_metrics_get(metrics, EPLB_METRIC_LAST_SAMPLE_AGE) == EPLB_METRIC_UNSET);
    eplb_metrics_set(metrics, EPLB_METRIC_LAST_SAMPLE_AGE, 0);
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_LAST_SAMPLE_AGE), 0);
    eplb_metrics_add(metrics, EPLB_METRIC_MOVED_SLOTS, 0);
    eplb_metrics_add(metrics, EPLB_METRIC_MOVED_SLOTS, 9);
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_MOVED_SLOTS), 9);
    eplb_metrics_observe(metrics, EPLB_METRIC_POLICY_SECONDS, 300000);
    eplb_metrics_observe(metrics, EPLB_METRIC_POLICY_SECONDS, 300001);
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_POLICY_SECONDS), 600001);
    assert_int_equal(eplb_metrics_bucket(metrics, EPLB_METRIC_POLICY_SECONDS, 0), 0);
    assert_int_equal(eplb_metrics_bucket(metrics, EPLB_METRIC_POLICY_SECONDS, 1), 1);
    assert_int_equal(eplb_metrics_bucket(metrics, EPLB_METRIC_POLICY_SECONDS, 2), 1);
    eplb_metrics_destroy(metrics);
    eplb_metrics_destroy(NULL);
}

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static void every_row_follows_the_conventions(void **state)
{
    (void)state;
    for (int i = 0; i < EPLB_NUM_METRICS; i++) {
        const struct eplb_metric_row *row = eplb_metric_row((enum eplb_metric)i);
        assert_memory_equal(row->name, "eplb_", 5);
        assert_int_equal(strspn(row->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(row->name));
        assert_int_equal(ends_with(row->name, "_total"), row->type == EPLB_METRIC_COUNTER);
        assert_int_equal(strstr(row->name, "_seconds") != NULL, row->unit == EPLB_UNIT_SECONDS);
        assert_int_equal(strstr(row->name, "_bytes") != NULL, row->unit == EPLB_UNIT_BYTES);
        assert_true(ends_with(row->help, "."));
        assert_null(strpbrk(row->help, "\\\n"));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(row->name, eplb_metric_row((enum eplb_metric)j)->name);
    }
    for (size_t i = 1; i < EPLB_NUM_METRIC_BOUNDS; i++)
        assert_true(eplb_metric_bounds[i - 1] < eplb_metric_bounds[i]);
}

enum { NUM_THREADS = 4, ROUNDS = 200000 }; /* long enough for the threads to meet */

static void count_and_observe(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        eplb_metrics_add(argument, EPLB_METRIC_SAMPLES_TAKEN, 1);
        eplb_metrics_observe(argument, EPLB_METRIC_POLICY_SECONDS, i % 2 == 0 ? 1 : 1000000);
    }
}

static void threads_lose_no_count(void **state)
{
    (void)state;
    struct eplb_metrics *metrics = create();
    struct eplb_thread threads[NUM_THREADS];
    for (int i = 0; i < NUM_THREADS; i++)
        assert_int_equal(eplb_thread_start(&threads[i], "counter", count_and_observe, metrics, NULL),
                         EPLB_OK);
    for (int i = 0; i < NUM_THREADS; i++)
        eplb_thread_join(&threads[i]);
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_SAMPLES_TAKEN), NUM_THREADS * ROUNDS);
    assert_int_equal(eplb_metrics_bucket(metrics, EPLB_METRIC_POLICY_SECONDS, 0), NUM_THREADS * ROUNDS / 2);
    assert_int_equal(eplb_metrics_bucket(metrics, EPLB_METRIC_POLICY_SECONDS, 2), NUM_THREADS * ROUNDS / 2);
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_POLICY_SECONDS),
                     NUM_THREADS * ROUNDS / 2 * INT64_C(1000001));
    eplb_metrics_destroy(metrics);
}

static void set_a_counter(void *argument)
{
    eplb_metrics_set(argument, EPLB_METRIC_SAMPLES_TAKEN, 1);
}

static void subtract(void *argument)
{
    eplb_metrics_add(argument, EPLB_METRIC_SAMPLES_TAKEN, -1);
}

static void misuse_is_our_bug(void **state)
{
    (void)state;
    struct eplb_metrics *metrics = create();
    char errors[256];
    assert_int_equal(death_of(set_a_counter, metrics, errors, sizeof errors), SIGABRT);
    assert_int_equal(death_of(subtract, metrics, errors, sizeof errors), SIGABRT);
    eplb_metrics_destroy(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_metrics_expose_zeros), cmocka_unit_test(counts_appear_in_the_page),
        cmocka_unit_test(numbers_can_be_read_back), cmocka_unit_test(every_row_follows_the_conventions),
        cmocka_unit_test(threads_lose_no_count),    cmocka_unit_test(misuse_is_our_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
