/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Whole groups of transfer cores over a network that delivers in any order, with faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "exchange.h"
#include "support/tables.h"

static const int64_t mib = 1048576;

static void run_clean(const struct exchange_params *params, struct exchange_result *result)
{
    exchange_run(params, result);
    if (result->violation[0] != '\0')
        fail_msg("seed %llu: %s", (unsigned long long)params->seed, result->violation);
}

static void random_groups_hold_the_rules(void **state)
{
    (void)state;
    enum { SEEDS = 1000 };
    int32_t commits = 0;
    int32_t aborts = 0;
    int32_t deaths = 0;
    int64_t kept_for[EPLB_REASON_STORAGE_CHANGED + 1] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct exchange_params params = exchange_draw(seed);
        struct exchange_result result;
        run_clean(&params, &result);
        commits += result.commits;
        aborts += result.aborts;
        deaths += result.deaths;
        for (size_t reason = 0; reason < sizeof kept_for / sizeof *kept_for; reason++)
            kept_for[reason] += result.kept_for[reason];
    }
    printf("seeds 1 to %d: %d commits, %d aborts, %d deaths\n", SEEDS, commits, aborts, deaths);
    /* Every way out was taken, and often. */
    assert_true(commits > SEEDS && aborts > SEEDS / 2 && deaths > SEEDS / 40);
    assert_true(kept_for[EPLB_REASON_HOOK_FAILED] > 25);
    assert_true(kept_for[EPLB_REASON_NO_PLAN] > 25);
    assert_true(kept_for[EPLB_REASON_TRANSFER_FAILED] > 25);
    assert_true(kept_for[EPLB_REASON_DEADLINE] > 25);
    assert_true(kept_for[EPLB_REASON_ABORTED_BY_ANOTHER] > 25);
    assert_true(kept_for[EPLB_REASON_STEP_ABORTED] > 25);
    assert_int_equal(kept_for[EPLB_REASON_NONE], 0);
}

/* B47. Every slot of 32 ranks with 9 slots changes: 288 experts of 10 MiB + 1 byte in 3 chunks. */
static void in_flight_bytes_never_exceed_the_bound(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct exchange_params params = {.seed = seed,
                                         .shape = tables_shape(256, 32, 1),
                                         .limits = {4 * mib, 8 * mib, INT64_MAX},
                                         .expert_bytes = 10 * mib + 1,
                                         .num_attempts = 1,
                                         .all_change = true};
        struct exchange_result result;
        run_clean(&params, &result);
        printf("seed %llu: %lld messages\n", (unsigned long long)seed, (long long)result.messages);
        assert_int_equal(result.commits, 1);
        /* A rank's redundant expert is its neighbour's first: of 9 slots, 8 come over the network. */
        assert_int_equal(result.messages, 3 * 8 * 32);
        assert_int_equal(result.bytes, 8 * 32 * (10 * mib + 1));
        assert_int_equal(result.most_sending, 8 * mib);
        assert_int_equal(result.most_receiving, 8 * mib);
    }
}

/* B46. Two ranks swap, 64 MiB each, one chunk in flight, and nothing on the way holds a byte. */
static void a_swap_needs_no_buffer(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct exchange_params params = {.seed = seed,
                                         .shape = tables_shape(2, 2, 0),
                                         .limits = {mib, mib, INT64_MAX},
                                         .expert_bytes = 64 * mib,
                                         .num_attempts = 3,
                                         .all_change = true};
        struct exchange_result result;
        run_clean(&params, &result);
        assert_int_equal(result.commits, 3);
        assert_int_equal(result.messages, 3 * 2 * 64);
        assert_int_equal(result.most_sending, mib);
    }
}

/* One chunk at a time, longest cycles: the narrowest way through. */
static void one_chunk_in_flight_is_enough(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct exchange_params params = exchange_draw(seed);
        params.limits = (struct eplb_transfer_limits){3, 3, INT64_MAX};
        params.faults = false;
        struct exchange_result result;
        run_clean(&params, &result);
        assert_int_equal(result.commits, params.num_attempts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_groups_hold_the_rules),
        cmocka_unit_test(in_flight_bytes_never_exceed_the_bound),
        cmocka_unit_test(a_swap_needs_no_buffer),
        cmocka_unit_test(one_chunk_in_flight_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
