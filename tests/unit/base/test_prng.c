/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/prng.h"

static void follows_the_published_sequence(void **state)
{
    (void)state;
    static const uint64_t expected[] = {
        UINT64_C(11520),
        UINT64_C(0),
        UINT64_C(1509978240),
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
        UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832),
        UINT64_C(10595114339597558777),
        UINT64_C(2904607092377533576),
    };
    struct eplb_prng prng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_true(eplb_prng_next(&prng) == expected[i]);
}

static void is_seeded_by_splitmix64(void **state)
{
    (void)state;
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317),
        UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),
        UINT64_C(4593380528125082431),
    };
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 1234567);
    for (size_t i = 0; i < 4; i++)
        assert_true(prng.state[i] == expected[i]);
}

static void a_seed_fixes_every_kind_of_number(void **state)
{
    (void)state;
    static const uint64_t raw[] = {UINT64_C(1546998764402558742), UINT64_C(6990951692964543102),
                                   UINT64_C(12544586762248559009), UINT64_C(17057574109182124193)};
    static const uint64_t digits[] = {0, 3, 6, 9, 9, 7, 7, 8, 7, 5, 6, 2};
    static const double reals[] = {0x1.5780b2e0c2ec0p-4, 0x1.84136619b444ep-2, 0x1.5c2ea66473c93p-1};
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 42);
    for (size_t i = 0; i < 4; i++)
        assert_true(eplb_prng_next(&prng) == raw[i]);
    eplb_prng_seed(&prng, 42);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(eplb_prng_below(&prng, 10), digits[i]);
    eplb_prng_seed(&prng, 42);
    for (size_t i = 0; i < 3; i++)
        assert_true(eplb_prng_real(&prng) == reals[i]);
}

/* 3 * 2^62 is the bound that shows a bias best: without rejection every third result would come
 * from one 64-bit number and the others from two. These are the values with rejection. */
static void rejects_what_would_bias(void **state)
{
    (void)state;
    static const uint64_t expected[] = {
        UINT64_C(1160249073301919056),  UINT64_C(5243213769723407326), UINT64_C(9408440071686419256),
        UINT64_C(12793180581886593144), UINT64_C(9950984181700650565), UINT64_C(11759916168988360805),
    };
    const uint64_t bound = UINT64_C(3) << 62;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 42);
    for (size_t i = 0; i < 6; i++)
        assert_true(eplb_prng_below(&prng, bound) == expected[i]);

    enum { DRAWS = 30000 };
    int by_remainder[3] = {0};
    for (int i = 0; i < DRAWS; i++) {
        uint64_t drawn = eplb_prng_below(&prng, bound);
        assert_true(drawn < bound);
        by_remainder[drawn % 3]++;
    }
    /* Five standard deviations of a fair count: 5 * sqrt(30000 * 1/3 * 2/3) = 408. */
    for (int i = 0; i < 3; i++)
        assert_in_range(by_remainder[i], DRAWS / 3 - 408, DRAWS / 3 + 408);
}

static void small_bounds_are_uniform(void **state)
{
    (void)state;
    enum { BOUND = 7, DRAWS = 70000 };
    int counts[BOUND] = {0};
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 7);
    for (int i = 0; i < DRAWS; i++)
        counts[eplb_prng_below(&prng, BOUND)]++;
    /* 5 * sqrt(70000 * 1/7 * 6/7) = 463. */
    for (int i = 0; i < BOUND; i++)
        assert_in_range(counts[i], DRAWS / BOUND - 463, DRAWS / BOUND + 463);
    assert_int_equal(eplb_prng_below(&prng, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_published_sequence),    cmocka_unit_test(is_seeded_by_splitmix64),
        cmocka_unit_test(a_seed_fixes_every_kind_of_number), cmocka_unit_test(rejects_what_would_bias),
        cmocka_unit_test(small_bounds_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
