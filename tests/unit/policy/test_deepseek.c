/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * DeepSeek's function: the published example, the shared vectors, its plain twin, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "eplb/deepseek.h"
#include "support/material.h"
#include "unit/policy/deepseek_twin.h"

enum { MAX_ENTRIES = 8192, MAX_MAP = 65536 };

static float weight[MAX_ENTRIES];
static int64_t phy2log[MAX_ENTRIES];
static int64_t phyrank[MAX_ENTRIES];
static int64_t logcnt[MAX_ENTRIES];
static int64_t log2phy[MAX_MAP];
static int64_t numbers[MAX_MAP];

static struct eplb_deepseek_sizes sizes_of(int64_t layers, int64_t experts, int64_t replicas, int64_t groups,
                                           int64_t nodes, int64_t gpus)
{
    struct eplb_deepseek_sizes sizes;
    struct eplb_error error;
    if (eplb_deepseek_sizes_init(&sizes, layers, experts, replicas, groups, nodes, gpus, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    assert_true(layers * replicas <= MAX_ENTRIES);
    return sizes;
}

/** With exactly the scratch it asks for, full of rubbish. */
static enum eplb_status rebalance(const struct eplb_deepseek_sizes *sizes, int remove_repeats,
                                  struct eplb_error *error)
{
    size_t bytes = eplb_deepseek_scratch(sizes);
    void *scratch = aligned_alloc(64, bytes);
    assert_non_null(scratch);
    memset(scratch, 0xa5, bytes);
    enum eplb_status status =
        eplb_deepseek_rebalance(sizes, weight, remove_repeats, scratch, phy2log, phyrank, logcnt, error);
    free(scratch);
    return status;
}

static void assert_rows(const int64_t *got, const int64_t *want, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i])
            fail_msg("%s[%zu] is %" PRId64 ", expected %" PRId64, what, i, got[i], want[i]);
}

/* ---- known tables ---- */

static void the_published_example(void **state)
{
    (void)state;
    static const float published[24] = {90, 132, 40,  61, 104, 165, 39,  4,   73,  56, 183, 86,
                                        20, 107, 104, 64, 19,  197, 187, 157, 172, 86, 16,  27};
    static const int64_t slots[32] = {5, 6,  5, 7, 8, 4,  3, 4, 10, 9, 10, 2, 0, 1, 11, 1,
                                      7, 10, 6, 8, 6, 11, 8, 9, 2,  4, 5,  1, 5, 0, 3,  1};
    static const int64_t counts[12] = {1, 2, 1, 1, 2, 2, 1, 1, 1, 1, 2, 1};
    static const int64_t map[24] = {12, -1, 15, 13, 11, -1, 6, -1, 7, 5,  0,  2,
                                    1,  -1, 3,  -1, 4,  -1, 9, -1, 8, 10, 14, -1};
    struct eplb_deepseek_sizes sizes = sizes_of(2, 12, 16, 4, 2, 8);
    memcpy(weight, published, sizeof published);
    assert_int_equal(rebalance(&sizes, 0, NULL), EPLB_OK);
    assert_rows(phy2log, slots, 32, "phy2log");
    assert_rows(logcnt, counts, 12, "logcnt");
    assert_int_equal(eplb_deepseek_width(&sizes, logcnt), 2);
    assert_int_equal(eplb_deepseek_log2phy(&sizes, phy2log, phyrank, 2, log2phy, NULL), EPLB_OK);
    assert_rows(log2phy, map, 24, "log2phy");
}

static void check_vector(const char *path)
{
    json_t *one = material_json(path);
    const json_t *rows = json_object_get(one, "weight");
    const int64_t layers = (int64_t)json_array_size(rows);
    const int64_t experts = (int64_t)json_array_size(json_array_get(rows, 0));
    struct eplb_deepseek_sizes sizes =
        sizes_of(layers, experts, material_int(one, "num_replicas"), material_int(one, "num_groups"),
                 material_int(one, "num_nodes"), material_int(one, "num_gpus"));
    const size_t count = material_int64(rows, numbers, MAX_ENTRIES);
    for (size_t i = 0; i < count; i++)
        weight[i] = (float)numbers[i];
    assert_int_equal(rebalance(&sizes, 0, NULL), EPLB_OK);

    const size_t slots = material_int64(json_object_get(one, "phy2log"), numbers, MAX_MAP);
    assert_int_equal(slots, sizes.num_layers * sizes.num_replicas);
    assert_rows(phy2log, numbers, slots, "phy2log");
    assert_int_equal(material_int64(json_object_get(one, "logcnt"), numbers, MAX_MAP), count);
    assert_rows(logcnt, numbers, count, "logcnt");

    const int64_t width = eplb_deepseek_width(&sizes, logcnt);
    assert_true(layers * experts * width <= MAX_MAP);
    assert_int_equal(eplb_deepseek_log2phy(&sizes, phy2log, phyrank, width, log2phy, NULL), EPLB_OK);
    const size_t entries = material_int64(json_object_get(one, "log2phy"), numbers, MAX_MAP);
    assert_int_equal(entries, layers * experts * width);
    assert_rows(log2phy, numbers, entries, "log2phy");
    printf("%s\n", path);
    json_decref(one);
}

static void the_shared_vectors(void **state)
{
    (void)state;
    static const char *const names[] = {
        "all_zero",
        "global_128_160_r32",
        "global_16_24_8",
        "half_zero",
        "global_256_576_r288",
        "global_384_512_r128",
        "hier_16_24_g4n2",
        "hier_32_40_g8n4",
        "global_fallback_groups_not_divisible",
        "one_per_gpu",
        "hier_256_288_r32_g8n4",
        "no_redundancy_8x8",
        "readme_example",
        "single_hot",
        "ties_all_equal",
    };
    char folder[1024];
    if (material_find("vectors/deepseek", folder, sizeof folder) != 0)
        skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s.json", folder, names[i]);
        check_vector(path);
    }
}

/* ---- random tables ---- */

static int below(struct eplb_prng *prng, int bound)
{
    return (int)eplb_prng_below(prng, (uint64_t)bound);
}

/** Ties only, whole numbers with few ties, hot experts over zeros, or fractions. */
static void random_weights(struct eplb_prng *prng, size_t count)
{
    const int kind = below(prng, 4);
    for (size_t i = 0; i < count; i++) {
        const int64_t whole = (int64_t)eplb_prng_below(prng, UINT64_C(1) << 30);
        weight[i] = kind == 0   ? (float)(whole % 4)
                    : kind == 1 ? (float)whole
                    : kind == 2 ? (whole % 8 == 0 ? (float)(whole % 100000) : 0)
                                : (float)eplb_prng_real(prng) * 1e3F;
    }
}

/** per_rank slots at most, where that is not 0. */
static struct eplb_deepseek_sizes random_sizes(struct eplb_prng *prng, int without_repeats)
{
    const int nodes = 1 + below(prng, 3);
    const int groups_per_node = 1 + below(prng, 3);
    const int group_size = 1 + below(prng, 8);
    const int gpus_per_node = 1 + below(prng, 5);
    const int of_node = groups_per_node * group_size;
    const int least = (of_node + gpus_per_node - 1) / gpus_per_node;
    const int most = without_repeats ? of_node : least + 3;
    const int per_rank = least + below(prng, most - least + 1);
    const int gpus = nodes * gpus_per_node;
    return sizes_of(1 + below(prng, 3), nodes * of_node, gpus * per_rank, nodes * groups_per_node, nodes,
                    gpus);
}

static void the_plain_twin_agrees(void **state)
{
    (void)state;
    static struct twin_plan twin;
    const uint64_t seed = 20240611;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    for (int round = 0; round < 2000; round++) {
        const struct eplb_deepseek_sizes sizes = random_sizes(&prng, 0);
        const size_t experts = (size_t)sizes.num_experts;
        const size_t replicas = (size_t)sizes.num_replicas;
        random_weights(&prng, (size_t)sizes.num_layers * experts);
        assert_int_equal(rebalance(&sizes, 0, NULL), EPLB_OK);
        for (size_t layer = 0; layer < (size_t)sizes.num_layers; layer++) {
            twin_rebalance(weight + layer * experts, sizes.num_experts, sizes.num_replicas, sizes.num_groups,
                           sizes.num_nodes, sizes.num_gpus, &twin);
            assert_rows(phy2log + layer * replicas, twin.phy2log, replicas, "phy2log");
            assert_rows(phyrank + layer * replicas, twin.phyrank, replicas, "phyrank");
            assert_rows(logcnt + layer * experts, twin.logcnt, experts, "logcnt");
        }
    }
}

/** Larger layers take the sort for many keys. */
static void the_plain_twin_agrees_on_large_layers(void **state)
{
    (void)state;
    static struct twin_plan twin;
    static const int shapes[][5] = {{256, 288, 8, 4, 32}, {256, 320, 1, 1, 64}, {384, 512, 1, 1, 128}};
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 7);
    for (int round = 0; round < 30; round++) {
        const int *s = shapes[round % 3];
        const struct eplb_deepseek_sizes sizes = sizes_of(1, s[0], s[1], s[2], s[3], s[4]);
        random_weights(&prng, (size_t)s[0]);
        assert_int_equal(rebalance(&sizes, 0, NULL), EPLB_OK);
        twin_rebalance(weight, s[0], s[1], s[2], s[3], s[4], &twin);
        assert_rows(phy2log, twin.phy2log, (size_t)s[1], "phy2log");
        assert_rows(phyrank, twin.phyrank, (size_t)s[1], "phyrank");
    }
}

/* ---- repeats ---- */

static int count_repeats(const struct eplb_deepseek_sizes *sizes)
{
    const int per_rank = sizes->num_replicas / sizes->num_gpus;
    int repeats = 0;
    for (int slot = 0; slot < sizes->num_layers * sizes->num_replicas; slot++)
        for (int before = slot - slot % per_rank; before < slot; before++)
            repeats += phy2log[before] == phy2log[slot];
    return repeats;
}

/** Every replica number of every expert stands once, and the counts are those of the table. */
static void assert_whole(const struct eplb_deepseek_sizes *sizes)
{
    const int64_t width = eplb_deepseek_width(sizes, logcnt);
    const size_t entries = (size_t)sizes->num_layers * (size_t)sizes->num_experts * (size_t)width;
    assert_int_equal(eplb_deepseek_log2phy(sizes, phy2log, phyrank, width, log2phy, NULL), EPLB_OK);
    assert_true(entries <= MAX_MAP);
    for (size_t i = 0; i < entries; i++)
        assert_int_equal(log2phy[i] >= 0, (int64_t)i % width < logcnt[(int64_t)i / width]);
}

static void repeats_are_removed(void **state)
{
    (void)state;
    const uint64_t seed = 20240612;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    int had_repeats = 0;
    for (int round = 0; round < 10000; round++) {
        static int64_t plain[MAX_ENTRIES];
        const struct eplb_deepseek_sizes sizes = random_sizes(&prng, 1);
        const size_t slots = (size_t)sizes.num_layers * (size_t)sizes.num_replicas;
        random_weights(&prng, (size_t)sizes.num_layers * (size_t)sizes.num_experts);
        assert_int_equal(rebalance(&sizes, 0, NULL), EPLB_OK);
        const int repeats = count_repeats(&sizes);
        memcpy(plain, phy2log, slots * sizeof *plain);
        assert_int_equal(rebalance(&sizes, 1, NULL), EPLB_OK);
        if (count_repeats(&sizes) != 0)
            fail_msg("round %d: %d repeats are left", round, count_repeats(&sizes));
        assert_whole(&sizes);
        if (repeats == 0)
            assert_rows(phy2log, plain, slots, "phy2log");
        had_repeats += repeats > 0;
    }
    printf("%d of 10000 plans had repeats\n", had_repeats);
    assert_true(had_repeats > 1000);
}

/**
 * Two replicas of 3 come to rank 3, beside nothing but light experts; the exchange with the next rank
 * leaves the peak where it was.
 */
static void an_exchange_that_costs_nothing_is_found(void **state)
{
    (void)state;
    static const float loads[8] = {20, 40, 5, 80, 5, 20, 80, 40};
    const struct eplb_deepseek_sizes sizes = sizes_of(1, 8, 12, 1, 1, 4);
    double peaks[2];
    int repeats[2];
    memcpy(weight, loads, sizeof loads);
    for (int removed = 0; removed < 2; removed++) {
        assert_int_equal(rebalance(&sizes, removed, NULL), EPLB_OK);
        peaks[removed] = 0;
        for (int rank = 0; rank < 4; rank++) {
            double sum = 0;
            for (int slot = 3 * rank; slot < 3 * rank + 3; slot++)
                sum += (double)weight[phy2log[slot]] / (double)logcnt[phy2log[slot]];
            peaks[removed] = fmax(peaks[removed], sum);
        }
        repeats[removed] = count_repeats(&sizes);
    }
    assert_true(repeats[0] > 0);
    assert_int_equal(repeats[1], 0);
    assert_true(fabs(peaks[1] - peaks[0]) < 1e-3);
}

/* ---- slots kept ---- */

static void an_expert_that_stays_keeps_its_slot(void **state)
{
    (void)state;
    static const int64_t old[12] = {0, 1, 2, 3, 7, 7, 0, 9, -1, 5, 4, 4};
    static const int64_t now[12] = {2, 5, 0, 1, 7, 7, 7, 3, 9, 1, 0, 4};
    static const int64_t number[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    static const int64_t kept[12] = {0, 1, 2, 5, 7, 7, 7, 3, 9, 1, 4, 0};
    static const int64_t kept_number[12] = {2, 3, 0, 1, 4, 5, 6, 7, 8, 9, 11, 10};
    const struct eplb_deepseek_sizes sizes = sizes_of(1, 10, 12, 1, 1, 3);
    void *scratch = aligned_alloc(64, eplb_deepseek_scratch(&sizes));
    assert_non_null(scratch);
    memcpy(phy2log, now, sizeof now);
    memcpy(phyrank, number, sizeof number);
    eplb_deepseek_keep_slots(&sizes, old, scratch, phy2log, phyrank);
    assert_rows(phy2log, kept, 12, "phy2log");
    assert_rows(phyrank, kept_number, 12, "phyrank");
    free(scratch);
}

/* ---- edges ---- */

static void degenerate_sizes(void **state)
{
    (void)state;
    static const int shapes[][5] = {{1, 1, 1, 1, 1},    {1, 6, 1, 1, 3},  {1, 6, 1, 1, 1}, {4, 4, 4, 4, 4},
                                    {4, 8, 2, 2, 2},    {5, 5, 1, 1, 1},  {6, 6, 6, 3, 6}, {7, 14, 3, 2, 7},
                                    {2, 1000, 2, 2, 2}, {64, 64, 8, 8, 8}};
    static struct twin_plan twin;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int *s = shapes[i];
        const struct eplb_deepseek_sizes sizes = sizes_of(1, s[0], s[1], s[2], s[3], s[4]);
        for (int expert = 0; expert < s[0]; expert++)
            weight[expert] = (float)(expert * 7 % 5);
        assert_int_equal(rebalance(&sizes, 0, NULL), EPLB_OK);
        twin_rebalance(weight, s[0], s[1], s[2], s[3], s[4], &twin);
        assert_rows(phy2log, twin.phy2log, (size_t)s[1], "phy2log");
        assert_rows(phyrank, twin.phyrank, (size_t)s[1], "phyrank");
        assert_whole(&sizes);
    }
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t sizes[6];
        const char *sentence;
    } cases[] = {
        {{0, 8, 8, 1, 1, 8}, "num_layers is 0, allowed is 1 to 65536"},
        {{1, -3, 8, 1, 1, 8}, "num_experts is -3, allowed is 1 to 65536"},
        {{1, 8, INT64_MAX, 1, 1, 8}, "num_replicas is 9223372036854775807, allowed is 1 to 16777216"},
        {{1, 8, 8, 0, 1, 8}, "num_groups is 0, allowed is 1 to 2147483647"},
        {{1, 8, 8, 1, -1, 8}, "num_nodes is -1, allowed is 1 to 2147483647"},
        {{1, 8, 8, 1, 1, 0}, "num_gpus is 0, allowed is 1 to 65536"},
        {{1, 8, 7, 1, 1, 1}, "num_replicas 7 are fewer than num_experts 8"},
        {{1, 8, 10, 1, 1, 4}, "num_replicas 10 is not divisible by num_gpus 4"},
        {{1, 8, 12, 6, 2, 4}, "num_experts 8 is not divisible by num_groups 6"},
        {{1, 8, 12, 4, 4, 6}, "num_gpus 6 is not divisible by num_nodes 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *s = cases[i].sizes;
        struct eplb_deepseek_sizes sizes = {.num_layers = -7};
        struct eplb_error error;
        assert_int_equal(eplb_deepseek_sizes_init(&sizes, s[0], s[1], s[2], s[3], s[4], s[5], &error),
                         EPLB_INVALID);
        assert_string_equal(error.text, cases[i].sentence);
        assert_int_equal(sizes.num_layers, -7);
    }
}

static void bad_weights_are_refused(void **state)
{
    (void)state;
    static const float bad[] = {-1, NAN, INFINITY, -INFINITY};
    const struct eplb_deepseek_sizes sizes = sizes_of(2, 4, 4, 1, 1, 2);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct eplb_error error;
        for (int entry = 0; entry < 8; entry++)
            weight[entry] = 1;
        weight[6] = bad[i];
        phy2log[0] = -7;
        assert_int_equal(rebalance(&sizes, 0, &error), EPLB_INVALID);
        assert_memory_equal(error.text, "layer 1, expert 2: weight is ", 29);
        assert_non_null(strstr(error.text, ", a finite number >= 0 is expected"));
        assert_int_equal(phy2log[0], -7);
    }
    weight[6] = -0.0F;
    assert_int_equal(rebalance(&sizes, 0, NULL), EPLB_OK);
    weight[6] = 0;
    memcpy(numbers, phy2log, 8 * sizeof *numbers);
    assert_int_equal(rebalance(&sizes, 0, NULL), EPLB_OK);
    assert_rows(phy2log, numbers, 8, "phy2log");
}

static void more_slots_than_experts_have_no_plan_without_repeats(void **state)
{
    (void)state;
    struct eplb_error error;
    const struct eplb_deepseek_sizes sizes = sizes_of(1, 8, 20, 2, 2, 4);
    for (int entry = 0; entry < 8; entry++)
        weight[entry] = 1;
    assert_int_equal(rebalance(&sizes, 1, &error), EPLB_INVALID);
    assert_string_equal(error.text,
                        "a rank has 5 slots and its node 4 experts: without repeats a rank cannot "
                        "have more slots than that");
    assert_int_equal(rebalance(&sizes, 0, NULL), EPLB_OK);
}

static void maps_of_rubbish_are_refused(void **state)
{
    (void)state;
    struct eplb_error error;
    const struct eplb_deepseek_sizes sizes = sizes_of(1, 4, 4, 1, 1, 2);
    const int64_t slots[4] = {0, 1, 2, 3};
    const int64_t ranks[4] = {0, 0, 0, 0};
    const int64_t bad_slots[4] = {0, 1, 4, 3};
    const int64_t bad_ranks[4] = {0, 0, 0, 2};
    assert_int_equal(eplb_deepseek_log2phy(&sizes, slots, ranks, 0, log2phy, &error), EPLB_INVALID);
    assert_string_equal(error.text, "width is 0, allowed is 1 to 4");
    assert_int_equal(eplb_deepseek_log2phy(&sizes, bad_slots, ranks, 1, log2phy, &error), EPLB_INVALID);
    assert_string_equal(error.text, "layer 0, slot 2: expert is 4, allowed is 0 to 3");
    assert_int_equal(eplb_deepseek_log2phy(&sizes, slots, bad_ranks, 2, log2phy, &error), EPLB_INVALID);
    assert_string_equal(error.text, "layer 0, slot 3: replica number is 2, allowed is 0 to width - 1 = 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_example),
        cmocka_unit_test(the_shared_vectors),
        cmocka_unit_test(the_plain_twin_agrees),
        cmocka_unit_test(the_plain_twin_agrees_on_large_layers),
        cmocka_unit_test(repeats_are_removed),
        cmocka_unit_test(an_exchange_that_costs_nothing_is_found),
        cmocka_unit_test(an_expert_that_stays_keeps_its_slot),
        cmocka_unit_test(degenerate_sizes),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(bad_weights_are_refused),
        cmocka_unit_test(more_slots_than_experts_have_no_plan_without_repeats),
        cmocka_unit_test(maps_of_rubbish_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
