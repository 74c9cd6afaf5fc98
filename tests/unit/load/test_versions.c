/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Windows by version of the replica weights, in pieces, and the recent load. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "eplb/load.h"

enum { RANKS = 2, SLOTS = 3 };

/* One layer of 4 experts; rank 0 holds 0 1 2, rank 1 holds 2 3 0. */
static struct eplb_aggregator *aggregator;
static struct eplb_shape shape;
static const int32_t table[RANKS * SLOTS] = {0, 1, 2, 2, 3, 0};

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(eplb_shape_init(&shape, 1, 4, RANKS, 1, NULL), EPLB_OK);
    assert_int_equal(eplb_aggregator_create(&shape, 0, table, NULL, NULL, &aggregator, NULL), EPLB_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    eplb_aggregator_destroy(aggregator);
    return 0;
}

static enum eplb_status add_as(uint64_t generation, const uint64_t versions[RANKS], const int64_t *counts,
                               struct eplb_error *error)
{
    int64_t prefix[RANKS][SLOTS];
    struct eplb_rank_report reports[RANKS];
    struct eplb_sample_result result = {0};
    for (int32_t r = 0; r < RANKS; r++) {
        assert_int_equal(eplb_prefix_encode(counts + (ptrdiff_t)r * SLOTS, SLOTS, prefix[r], NULL), EPLB_OK);
        reports[r] = (struct eplb_rank_report){.prefix = prefix[r],
                                               .generations = &generation,
                                               .num_layers = 1,
                                               .slots_per_rank = SLOTS,
                                               .weight_versions = versions == NULL ? NULL : &versions[r]};
    }
    enum eplb_status status =
        eplb_aggregator_add(aggregator, &(struct eplb_sample){reports, RANKS}, &result, error);
    assert_int_equal(result.taken, status == EPLB_OK);
    return status;
}

static void add(uint64_t generation, uint64_t version, const int64_t *counts)
{
    const uint64_t versions[RANKS] = {version, version};
    assert_int_equal(add_as(generation, versions, counts, NULL), EPLB_OK);
}

static void assert_window(const struct eplb_window *window, const int64_t logical[4],
                          const int64_t physical[RANKS * SLOTS], uint64_t version)
{
    assert_memory_equal(window->logical, logical, 4 * sizeof *logical);
    assert_memory_equal(window->physical, physical, RANKS * SLOTS * sizeof *physical);
    assert_int_equal(window->weight_versions[0], version);
}

static const int64_t first[] = {1, 2, 3, 4, 5, 6};
static const int64_t second[] = {10, 0, 0, 0, 0, 1};

static void a_higher_version_restarts_the_physical_load(void **state)
{
    (void)state;
    const struct eplb_window *open = eplb_aggregator_open(aggregator);
    assert_int_equal(add_as(0, NULL, first, NULL), EPLB_OK);
    add(0, 0, first);
    assert_window(open, (int64_t[]){14, 4, 14, 10}, (int64_t[]){2, 4, 6, 8, 10, 12}, 0);
    add(0, 3, second);
    assert_window(open, (int64_t[]){25, 4, 14, 10}, second, 3);
    add(0, 3, second);
    assert_window(open, (int64_t[]){36, 4, 14, 10}, (int64_t[]){20, 0, 0, 0, 0, 2}, 3);
}

static void an_older_version_adds_to_the_logical_load_only(void **state)
{
    (void)state;
    const struct eplb_window *open = eplb_aggregator_open(aggregator);
    add(0, 2, second);
    add(0, 1, first);
    assert_window(open, (int64_t[]){18, 2, 7, 5}, second, 2);
}

static void a_close_keeps_the_version_and_a_commit_restarts_it(void **state)
{
    (void)state;
    const struct eplb_window *open = eplb_aggregator_open(aggregator);
    const int64_t none[RANKS * SLOTS] = {0};
    add(0, 2, first);
    eplb_aggregator_close_window(aggregator);
    assert_window(eplb_aggregator_closed(aggregator), (int64_t[]){7, 2, 7, 5}, first, 2);
    assert_window(open, none, none, 2);
    add(0, 1, second);
    assert_window(open, (int64_t[]){11, 0, 0, 0}, none, 2);
    const int32_t next[RANKS * SLOTS] = {0, 1, 3, 2, 3, 0};
    assert_int_equal(eplb_aggregator_commit(aggregator, 0, next, NULL), EPLB_OK);
    assert_int_equal(open->weight_versions[0], 0);
    /* Of the old placement, whatever its version: not of this window of slots. */
    add(0, 2, second);
    assert_window(open, (int64_t[]){22, 0, 0, 0}, none, 0);
    add(1, 0, second);
    assert_window(open, (int64_t[]){33, 0, 0, 0}, second, 0);
    assert_int_equal(eplb_aggregator_closed(aggregator)->weight_versions[0], 2);
}

static void ranks_of_two_versions_stop_the_run(void **state)
{
    (void)state;
    struct eplb_error error;
    const uint64_t versions[RANKS] = {4, 5};
    assert_int_equal(add_as(0, versions, first, &error), EPLB_INCONSISTENT);
    assert_string_equal(error.text, "layer 0: rank 0 ran the forward under weight version 4, rank 1 under "
                                    "weight version 5");
    const int64_t none[RANKS * SLOTS] = {0};
    assert_window(eplb_aggregator_open(aggregator), none, none, 0);
}

static void the_recent_load_decays(void **state)
{
    (void)state;
    const int64_t *recent = eplb_aggregator_recent(aggregator);
    add(0, 0, first);
    assert_memory_equal(recent, ((int64_t[]){0, 0, 0, 0}), 4 * sizeof *recent);
    assert_int_equal(eplb_aggregator_keep_recent(aggregator, 0.5, NULL), EPLB_OK);
    add(0, 0, first);
    assert_memory_equal(recent, ((int64_t[]){7 * 256, 2 * 256, 7 * 256, 5 * 256}), 4 * sizeof *recent);
    add(0, 1, second);
    assert_memory_equal(recent, ((int64_t[]){7 * 128 + 11 * 256, 256, 7 * 128, 5 * 128}), 4 * sizeof *recent);
    /* Neither a close nor a commit touches it. */
    eplb_aggregator_close_window(aggregator);
    const int32_t next[RANKS * SLOTS] = {0, 1, 3, 2, 3, 0};
    assert_int_equal(eplb_aggregator_commit(aggregator, 0, next, NULL), EPLB_OK);
    assert_int_equal(recent[3], 5 * 128);
    assert_int_equal(eplb_aggregator_keep_recent(aggregator, 0, NULL), EPLB_OK);
    add(1, 0, second);
    assert_memory_equal(recent, ((int64_t[]){11 * 256, 0, 0, 0}), 4 * sizeof *recent);
}

static void large_samples_leave_less(void **state)
{
    (void)state;
    const int64_t *recent = eplb_aggregator_recent(aggregator);
    const int64_t none[RANKS * SLOTS] = {0};
    assert_int_equal(eplb_aggregator_keep_recent(aggregator, 0.875, NULL), EPLB_OK);
    add(0, 0, (const int64_t[]){1024, 0, 0, 0, 0, 0});
    assert_int_equal(recent[0], 1024 * 256);
    add(0, 0, none);
    assert_int_equal(recent[0], 896 * 256);
    /* 32 of 4 x 64 rows are an eighth, 64 a quarter, and more than half leave half. */
    add(0, 0, (const int64_t[]){0, 32, 0, 0, 0, 0});
    assert_int_equal(recent[0], 784 * 256);
    add(0, 0, (const int64_t[]){0, 64, 0, 0, 0, 0});
    assert_int_equal(recent[0], 588 * 256);
    add(0, 0, (const int64_t[]){0, 128, 0, 0, 0, 0});
    assert_int_equal(recent[0], 294 * 256);
    add(0, 0, (const int64_t[]){0, EPLB_MAX_LOAD / 8, 0, 0, 0, 0});
    assert_int_equal(recent[0], 147 * 256);
}

static void the_recent_load_has_a_limit(void **state)
{
    (void)state;
    const int64_t huge[] = {EPLB_MAX_LOAD / 8, 0, 0, 0, 0, EPLB_MAX_LOAD / 8};
    assert_int_equal(eplb_aggregator_keep_recent(aggregator, EPLB_MAX_RECENT_DECAY, NULL), EPLB_OK);
    add(0, 0, huge);
    assert_int_equal(eplb_aggregator_recent(aggregator)[0], INT64_C(1) << 35);
    struct eplb_error error;
    assert_int_equal(eplb_aggregator_keep_recent(aggregator, 1, &error), EPLB_INVALID);
    assert_string_equal(error.text, "the decay of the recent load is 1; allowed is 0 to 0.999");
    assert_int_equal(eplb_aggregator_keep_recent(aggregator, -0.1, NULL), EPLB_INVALID);
}

/* Each sample has another load, so that a piece says which samples it holds. */
static void a_window_is_kept_in_pieces(void **state)
{
    (void)state;
    assert_int_equal(eplb_aggregator_num_parts(aggregator), 0);
    for (int64_t samples = 1; samples < 200; samples++) {
        for (int64_t i = 1; i <= samples; i++)
            add(0, 0, (int64_t[RANKS * SLOTS]){i, 1, 0, 0, 0, 0});
        eplb_aggregator_close_window(aggregator);
        int32_t parts = eplb_aggregator_num_parts(aggregator);
        int64_t length = 1;
        while (length * EPLB_WINDOW_PARTS < samples)
            length *= 2;
        assert_int_equal(parts, (samples + length - 1) / length);
        int64_t first_sample = 1;
        for (int32_t part = 0; part < parts; part++) {
            int64_t last = first_sample + length - 1 < samples ? first_sample + length - 1 : samples;
            const int64_t *load = eplb_aggregator_part(aggregator, part);
            assert_int_equal(load[0], (first_sample + last) * (last - first_sample + 1) / 2);
            assert_int_equal(load[1], last - first_sample + 1);
            first_sample = last + 1;
        }
        assert_null(eplb_aggregator_part(aggregator, parts));
        assert_null(eplb_aggregator_part(aggregator, -1));
    }
    eplb_aggregator_close_window(aggregator);
    assert_int_equal(eplb_aggregator_num_parts(aggregator), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_higher_version_restarts_the_physical_load, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_older_version_adds_to_the_logical_load_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_close_keeps_the_version_and_a_commit_restarts_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(ranks_of_two_versions_stop_the_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_recent_load_decays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_samples_leave_less, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_recent_load_has_a_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_window_is_kept_in_pieces, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
