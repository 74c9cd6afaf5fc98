/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The planted bugs of this folder: the random groups must find each, or they prove nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/planted.h"
#include "exchange.h"

static void must_be_found(enum eplb_planted_bug bug, const char *name)
{
    enum { SEEDS = 5000 };
    struct exchange_result result;
    eplb_planted[bug] = true;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct exchange_params params = exchange_draw(seed);
        exchange_run(&params, &result);
        if (result.violation[0] == '\0')
            continue;
        eplb_planted[bug] = false;
        printf("%s, seed %llu: %s\n", name, (unsigned long long)seed, result.violation);
        exchange_run(&params, &result);
        assert_string_equal(result.violation, "");
        return;
    }
    fail_msg("%s is not found in %d seeds", name, SEEDS);
}

static void staging_reused_early(void **state)
{
    (void)state;
    must_be_found(EPLB_BUG_STAGING_REUSED_EARLY, "staging reused early");
}

static void message_without_token(void **state)
{
    (void)state;
    must_be_found(EPLB_BUG_MESSAGE_WITHOUT_TOKEN, "message without token");
}

static void keep_by_own_clock(void **state)
{
    (void)state;
    must_be_found(EPLB_BUG_KEEP_BY_OWN_CLOCK, "keep by own clock");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staging_reused_early),
        cmocka_unit_test(message_without_token),
        cmocka_unit_test(keep_by_own_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
