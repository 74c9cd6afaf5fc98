/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Masks, prefix coding and the counter: what a worker counts and reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "eplb/load.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static void assert_counts(const int64_t *actual, const int64_t *expected, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(actual[i], expected[i]);
}

static struct eplb_shape make_shape(int64_t layers, int64_t experts, int64_t ranks, int64_t redundant)
{
    struct eplb_shape shape;
    assert_int_equal(eplb_shape_init(&shape, layers, experts, ranks, redundant, NULL), EPLB_OK);
    return shape;
}

static struct eplb_counter *make_counter(const struct eplb_shape *shape, int32_t ep_rank)
{
    struct eplb_counter *counter;
    assert_int_equal(eplb_counter_create(shape, ep_rank, &counter, NULL), EPLB_OK);
    assert_int_equal(eplb_counter_begin(counter, 0, NULL), EPLB_OK);
    return counter;
}

/* The counts of one layer, as the engine will read them from the report. */
static void read_counts(const struct eplb_counter *counter, const struct eplb_shape *shape, int32_t layer,
                        int64_t *counts)
{
    size_t n = (size_t)shape->slots_per_rank;
    int64_t *prefix = calloc((size_t)shape->num_layers * n, sizeof *prefix);
    assert_non_null(prefix);
    eplb_counter_prefix(counter, prefix);
    assert_int_equal(eplb_prefix_decode(prefix + (size_t)layer * n, n, counts, NULL), EPLB_OK);
    free(prefix);
}

/* ------------------------------------------------------------------------------------ masks */

static void mask_build_marks_real_tokens(void **state)
{
    (void)state;
    const uint8_t kinds[] = {EPLB_TOKEN_DECODE, EPLB_TOKEN_PREFILL, EPLB_TOKEN_PADDING, EPLB_TOKEN_DECODE};
    uint8_t mask[4] = {9, 9, 9, 9};
    assert_int_equal(eplb_mask_build(kinds, 4, 0, mask, NULL), EPLB_OK);
    assert_memory_equal(mask, ((const uint8_t[]){1, 1, 0, 1}), 4);
    assert_int_equal(eplb_mask_build(kinds, 4, 1, mask, NULL), EPLB_OK);
    assert_memory_equal(mask, ((const uint8_t[]){1, 0, 0, 1}), 4);
    assert_int_equal(eplb_mask_build(NULL, 0, 1, NULL, NULL), EPLB_OK);
}

static void mask_build_refuses_unknown_kinds(void **state)
{
    (void)state;
    const uint8_t kinds[] = {1, 2, 3};
    uint8_t mask[3] = {9, 9, 9};
    struct eplb_error error;
    assert_int_equal(eplb_mask_build(kinds, 3, 0, mask, &error), EPLB_INVALID);
    assert_string_equal(error.text, "token 2: kind 3 is none of 0 (padding), 1 (prefill), 2 (decode)");
    assert_memory_equal(mask, ((const uint8_t[]){9, 9, 9}), 3);
}

static void mask_align_pads_each_dp_rank_with_zeros(void **state)
{
    (void)state;
    const uint8_t first[] = {1, 1, 0};
    const uint8_t third[] = {0, 1, 1, 1};
    const uint8_t *const masks[] = {first, NULL, third};
    const size_t lengths[] = {3, 0, 4};
    uint8_t aligned[12];
    memset(aligned, 9, sizeof aligned);
    assert_int_equal(eplb_mask_align(masks, lengths, 3, 4, aligned, NULL), EPLB_OK);
    assert_memory_equal(aligned, ((const uint8_t[]){1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}), 12);
}

static void mask_align_refuses(void **state)
{
    (void)state;
    const uint8_t good[] = {1, 1};
    const uint8_t bad[] = {1, 2};
    uint8_t aligned[4] = {9, 9, 9, 9};
    const struct {
        const uint8_t *mask;
        size_t length;
        const char *text;
    } cases[] = {
        {good, 3, "DP rank 1: mask of 3 tokens is longer than the 2 that each DP rank is padded to"},
        {NULL, 1, "DP rank 1: no mask for its 1 tokens"},
        {bad, 2, "DP rank 1, token 1: mask byte 2 is neither 0 nor 1"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        const uint8_t *const masks[] = {good, cases[i].mask};
        const size_t lengths[] = {2, cases[i].length};
        struct eplb_error error;
        assert_int_equal(eplb_mask_align(masks, lengths, 2, 2, aligned, &error), EPLB_INVALID);
        assert_string_equal(error.text, cases[i].text);
        assert_memory_equal(aligned, ((const uint8_t[]){9, 9, 9, 9}), 4);
    }
}

/* ------------------------------------------------------------------------------ prefix coding */

/* B16, B17 */
static void prefix_decode_restores_counts(void **state)
{
    (void)state;
    int64_t counts[3];
    assert_int_equal(eplb_prefix_decode((const int64_t[]){10, 25, 30}, 3, counts, NULL), EPLB_OK);
    assert_counts(counts, (const int64_t[]){10, 15, 5}, 3);
    assert_int_equal(eplb_prefix_decode((const int64_t[]){7}, 1, counts, NULL), EPLB_OK);
    assert_counts(counts, (const int64_t[]){7}, 1);
    assert_int_equal(eplb_prefix_decode((const int64_t[]){0, 0, 0}, 3, counts, NULL), EPLB_OK);
    assert_counts(counts, (const int64_t[]){0, 0, 0}, 3);
    const int64_t large[] = {3000000000, 6000000000, 9000000000};
    assert_int_equal(eplb_prefix_decode(large, 3, counts, NULL), EPLB_OK);
    assert_counts(counts, (const int64_t[]){3000000000, 3000000000, 3000000000}, 3);
}

static void prefix_decode_refuses(void **state)
{
    (void)state;
    const struct {
        int64_t prefix[3];
        const char *text;
    } cases[] = {
        {{10, 8, 30}, "entry 1: prefix sum 8 is below 10, the sum before it"},
        {{-1, 0, 0}, "entry 0: prefix sum -1 is below 0, the sum before it"},
        {{0, INT64_MAX, INT64_MIN},
         "entry 2: prefix sum -9223372036854775808 is below 9223372036854775807, the sum before it"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        int64_t counts[3] = {-9, -9, -9};
        struct eplb_error error;
        assert_int_equal(eplb_prefix_decode(cases[i].prefix, 3, counts, &error), EPLB_INVALID);
        assert_string_equal(error.text, cases[i].text);
        assert_counts(counts, (const int64_t[]){-9, -9, -9}, 3);
    }
}

static void prefix_encode_is_the_inverse(void **state)
{
    (void)state;
    const int64_t counts[] = {0, 5, 0, INT64_MAX - 5};
    int64_t prefix[4];
    int64_t decoded[4];
    assert_int_equal(eplb_prefix_encode(counts, 4, prefix, NULL), EPLB_OK);
    assert_counts(prefix, (const int64_t[]){0, 5, 5, INT64_MAX}, 4);
    assert_int_equal(eplb_prefix_decode(prefix, 4, decoded, NULL), EPLB_OK);
    assert_counts(decoded, counts, 4);
}

static void prefix_encode_refuses(void **state)
{
    (void)state;
    int64_t prefix[2] = {-9, -9};
    struct eplb_error error;
    assert_int_equal(eplb_prefix_encode((const int64_t[]){3, -1}, 2, prefix, &error), EPLB_INVALID);
    assert_string_equal(error.text, "entry 1: count -1 is negative");
    assert_int_equal(eplb_prefix_encode((const int64_t[]){INT64_MAX, 1}, 2, prefix, &error), EPLB_INVALID);
    assert_string_equal(error.text, "entry 1: the sum of the counts passes 2^63 - 1");
    assert_counts(prefix, (const int64_t[]){-9, -9}, 2);
}

/* -------------------------------------------------------------------------------- the counter */

static void counter_create_refuses_a_rank_outside(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(1, 4, 2, 0);
    struct eplb_counter *counter = NULL;
    struct eplb_error error;
    assert_int_equal(eplb_counter_create(&shape, 2, &counter, &error), EPLB_INVALID);
    assert_string_equal(error.text, "EP rank 2 is not in [0, 2)");
    assert_int_equal(eplb_counter_create(&shape, -1, &counter, &error), EPLB_INVALID);
    assert_null(counter);
    eplb_counter_destroy(NULL);
}

static void routed_entries_of_this_rank_count(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(2, 4, 2, 1);
    struct eplb_counter *counter = make_counter(&shape, 1);
    const int32_t slots[] = {0, 3, 5, 3, 4, 2};
    int64_t counts[3];
    assert_int_equal(eplb_counter_add_routed(counter, 1, slots, 3, 2, NULL, 0, NULL), EPLB_OK);
    assert_int_equal(eplb_counter_add_routed(counter, 1, slots, 1, 2, NULL, 0, NULL), EPLB_OK);
    assert_int_equal(eplb_counter_add_routed(counter, 1, NULL, 0, 2, NULL, 0, NULL), EPLB_OK);
    read_counts(counter, &shape, 1, counts);
    assert_counts(counts, (const int64_t[]){3, 1, 1}, 3);
    read_counts(counter, &shape, 0, counts);
    assert_counts(counts, (const int64_t[]){0, 0, 0}, 3);
    assert_int_equal(eplb_counter_begin(counter, 0, NULL), EPLB_OK);
    read_counts(counter, &shape, 1, counts);
    assert_counts(counts, (const int64_t[]){0, 0, 0}, 3);
    eplb_counter_destroy(counter);
}

/* B19: five real tokens padded to eight, the padding routed to expert 0; and ids of padding are not read. */
static void padding_never_counts(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(1, 4, 1, 0);
    struct eplb_counter *counter = make_counter(&shape, 0);
    const int32_t slots[] = {0, 1, 2, 3, 1, 0, 0, -1};
    const uint8_t real[] = {1, 1, 1, 1, 1, 0, 0, 0};
    const uint8_t none[8] = {0};
    int64_t counts[4];
    assert_int_equal(eplb_counter_add_routed(counter, 0, slots, 8, 1, real, 8, NULL), EPLB_OK);
    assert_int_equal(eplb_counter_add_routed(counter, 0, slots, 8, 1, none, 8, NULL), EPLB_OK);
    read_counts(counter, &shape, 0, counts);
    assert_counts(counts, (const int64_t[]){1, 2, 1, 1}, 4);
    eplb_counter_destroy(counter);
}

/* B20, the counting half: three warm-up forwards, checked but not counted, then ten tokens. */
static void warmup_never_counts(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(1, 2, 1, 0);
    struct eplb_counter *counter = make_counter(&shape, 0);
    const int32_t slots[10] = {1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
    const int64_t rows[] = {4, 4};
    int64_t counts[2];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(eplb_counter_begin(counter, EPLB_FORWARD_WARMUP, NULL), EPLB_OK);
        assert_int_equal(eplb_counter_add_routed(counter, 0, slots, 10, 1, NULL, 0, NULL), EPLB_OK);
        assert_int_equal(eplb_counter_add_received(counter, 0, rows, rows, NULL), EPLB_OK);
        assert_int_equal(eplb_counter_add_routed(counter, 1, slots, 10, 1, NULL, 0, NULL), EPLB_INVALID);
        read_counts(counter, &shape, 0, counts);
        assert_counts(counts, (const int64_t[]){0, 0}, 2);
    }
    assert_int_equal(eplb_counter_begin(counter, 0, NULL), EPLB_OK);
    assert_int_equal(eplb_counter_add_routed(counter, 0, slots, 10, 1, NULL, 0, NULL), EPLB_OK);
    read_counts(counter, &shape, 0, counts);
    assert_counts(counts, (const int64_t[]){3, 7}, 2);
    eplb_counter_destroy(counter);
}

static void begin_refuses_unknown_flags(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(1, 1, 1, 0);
    struct eplb_counter *counter = make_counter(&shape, 0);
    struct eplb_error error;
    int64_t counts[1];
    assert_int_equal(eplb_counter_add_routed(counter, 0, (const int32_t[]){0}, 1, 1, NULL, 0, NULL), EPLB_OK);
    assert_int_equal(eplb_counter_begin(counter, 6, &error), EPLB_INVALID);
    assert_string_equal(error.text, "forward flags 0x6 have a bit that is none of 0x1 (warm-up)");
    read_counts(counter, &shape, 0, counts);
    assert_int_equal(counts[0], 1);
    eplb_counter_destroy(counter);
}

/* B25: the mask's length is the batch's, and ones at the tail count the tail. */
static void mask_must_fit_the_batch(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(1, 3, 1, 0);
    struct eplb_counter *counter = make_counter(&shape, 0);
    const int32_t slots[] = {0, 1, 2};
    const uint8_t tail[] = {0, 0, 1, 1};
    struct eplb_error error;
    int64_t counts[3];
    assert_int_equal(eplb_counter_add_routed(counter, 0, slots, 3, 1, tail, 4, &error), EPLB_INVALID);
    assert_string_equal(error.text, "layer 0: mask of 4 tokens for a batch of 3");
    assert_int_equal(eplb_counter_add_routed(counter, 0, slots, 3, 1, tail, 2, &error), EPLB_INVALID);
    assert_string_equal(error.text, "layer 0: mask of 2 tokens for a batch of 3");
    read_counts(counter, &shape, 0, counts);
    assert_counts(counts, (const int64_t[]){0, 0, 0}, 3);
    assert_int_equal(eplb_counter_add_routed(counter, 0, slots, 3, 1, tail, 3, &error), EPLB_OK);
    read_counts(counter, &shape, 0, counts);
    assert_counts(counts, (const int64_t[]){0, 0, 1}, 3);
    eplb_counter_destroy(counter);
}

/* B23, the counting half: a layer that is not there. And whatever else is out of range. */
static void routed_refuses_and_counts_nothing(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(61, 4, 2, 1);
    struct eplb_counter *counter = make_counter(&shape, 0);
    const int32_t good[] = {0, 1, 2, 5};
    const int32_t above[] = {0, 1, 2, 6};
    const int32_t below[] = {0, 1, -1, 5};
    const uint8_t odd[] = {1, 3};
    const struct {
        int32_t layer;
        int32_t top_k;
        const int32_t *slots;
        const uint8_t *mask;
        const char *text;
    } cases[] = {
        {-1, 2, good, NULL, "layer -1 is not in [0, 61)"},
        {61, 2, good, NULL, "layer 61 is not in [0, 61)"},
        {60, 0, good, NULL, "layer 60: top_k 0 is below 1"},
        {60, 2, above, NULL, "layer 60, token 1, k 1: slot 6 is not in [0, 6)"},
        {60, 2, below, NULL, "layer 60, token 1, k 0: slot -1 is not in [0, 6)"},
        {60, 2, good, odd, "layer 60, token 1: mask byte 3 is neither 0 nor 1"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct eplb_error error;
        int64_t counts[3];
        assert_int_equal(eplb_counter_add_routed(counter, cases[i].layer, cases[i].slots, 2, cases[i].top_k,
                                                 cases[i].mask, 2, &error),
                         EPLB_INVALID);
        assert_string_equal(error.text, cases[i].text);
        read_counts(counter, &shape, 60, counts);
        assert_counts(counts, (const int64_t[]){0, 0, 0}, 3);
    }
    eplb_counter_destroy(counter);
}

static void received_counts_the_counted_rows(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(2, 4, 2, 0);
    struct eplb_counter *counter = make_counter(&shape, 0);
    const int64_t rows[] = {5, 7};
    const int64_t counted[] = {2, 7};
    int64_t counts[2];
    assert_int_equal(eplb_counter_add_received(counter, 1, rows, counted, NULL), EPLB_OK);
    assert_int_equal(eplb_counter_add_received(counter, 1, rows, rows, NULL), EPLB_OK);
    read_counts(counter, &shape, 1, counts);
    assert_counts(counts, (const int64_t[]){7, 14}, 2);
    read_counts(counter, &shape, 0, counts);
    assert_counts(counts, (const int64_t[]){0, 0}, 2);
    eplb_counter_destroy(counter);
}

static void received_refuses_and_counts_nothing(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(1, 4, 2, 0);
    struct eplb_counter *counter = make_counter(&shape, 0);
    const struct {
        int32_t layer;
        int64_t rows[2];
        int64_t counted[2];
        const char *text;
    } cases[] = {
        {1, {1, 1}, {1, 1}, "layer 1 is not in [0, 1)"},
        {0, {1, -1}, {1, -1}, "layer 0, slot 1: -1 received rows are below 0"},
        {0, {1, 1}, {1, -1}, "layer 0, slot 1: -1 counted rows are not in [0, 1], the rows received"},
        {0, {1, 1}, {1, 2}, "layer 0, slot 1: 2 counted rows are not in [0, 1], the rows received"},
        {0, {INT64_MAX, 1}, {INT64_MAX, 1}, "layer 0, slot 1: the counted rows pass 2^62"},
        {0,
         {EPLB_MAX_LOAD, 1},
         {EPLB_MAX_LOAD, 1},
         "layer 0: 4611686018427387905 more rows on a count of 0 pass 2^62"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct eplb_error error;
        int64_t counts[2];
        assert_int_equal(
            eplb_counter_add_received(counter, cases[i].layer, cases[i].rows, cases[i].counted, &error),
            EPLB_INVALID);
        assert_string_equal(error.text, cases[i].text);
        read_counts(counter, &shape, 0, counts);
        assert_counts(counts, (const int64_t[]){0, 0}, 2);
    }
    eplb_counter_destroy(counter);
}

static void a_full_counter_takes_no_more(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(1, 2, 1, 0);
    struct eplb_counter *counter = make_counter(&shape, 0);
    const int64_t full[] = {EPLB_MAX_LOAD - 1, 0};
    const int32_t slots[] = {1, 1};
    struct eplb_error error;
    int64_t counts[2];
    assert_int_equal(eplb_counter_add_received(counter, 0, full, full, NULL), EPLB_OK);
    assert_int_equal(eplb_counter_add_routed(counter, 0, slots, 2, 1, NULL, 0, &error), EPLB_INVALID);
    assert_string_equal(error.text, "layer 0: 2 more rows on a count of 4611686018427387903 pass 2^62");
    assert_int_equal(eplb_counter_add_routed(counter, 0, slots, 1, 1, NULL, 0, NULL), EPLB_OK);
    read_counts(counter, &shape, 0, counts);
    assert_counts(counts, (const int64_t[]){EPLB_MAX_LOAD - 1, 1}, 2);
    eplb_counter_destroy(counter);
}

/* ------------------------------------------------------------------- the invariant, every path */

enum { LAYERS = 3, EXPERTS = 16, RANKS = 4, TOP_K = 3, STRIDE = 40, TOKENS = RANKS * STRIDE };

/* One forward of RANKS DP ranks, every batch padded to STRIDE rows, with a route for each row. */
struct forward {
    struct eplb_shape shape;
    uint8_t kinds[TOKENS];
    uint8_t mask[TOKENS];
    int32_t slots[LAYERS][TOKENS][TOP_K];
    int64_t num_counted;
};

static void make_forward(struct forward *forward, struct eplb_prng *prng, int decode_only)
{
    uint8_t masks[RANKS][STRIDE];
    const uint8_t *rows[RANKS];
    size_t lengths[RANKS];
    forward->shape = make_shape(LAYERS, EXPERTS, RANKS, 1);
    for (size_t d = 0; d < RANKS; d++) {
        /* DP rank 2 is empty; its rows of the batch are made up (B21). */
        lengths[d] = d == 2 ? 0 : 1 + eplb_prng_below(prng, STRIDE);
        uint8_t *kinds = forward->kinds + d * STRIDE;
        for (size_t t = 0; t < STRIDE; t++)
            kinds[t] = t < lengths[d] ? (uint8_t)(1 + eplb_prng_below(prng, 2)) : EPLB_TOKEN_PADDING;
        assert_int_equal(eplb_mask_build(kinds, lengths[d], decode_only, masks[d], NULL), EPLB_OK);
        rows[d] = masks[d];
    }
    assert_int_equal(eplb_mask_align(rows, lengths, RANKS, STRIDE, forward->mask, NULL), EPLB_OK);
    forward->num_counted = 0;
    for (size_t t = 0; t < TOKENS; t++) {
        int counts = forward->kinds[t] == EPLB_TOKEN_DECODE ||
                     (forward->kinds[t] == EPLB_TOKEN_PREFILL && !decode_only);
        forward->num_counted += counts;
    }
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t k = 0; k < TOP_K; k++)
                forward->slots[l][t][k] = (int32_t)eplb_prng_below(prng, (uint64_t)forward->shape.num_slots);
}

/* Rows, and counted rows, that the tokens [first, end) send to each slot of one rank. */
static void dispatch(const struct forward *forward, size_t layer, int32_t rank, size_t first, size_t end,
                     int64_t *rows, int64_t *counted)
{
    int32_t n = forward->shape.slots_per_rank;
    for (size_t t = first; t < end; t++)
        for (size_t k = 0; k < TOP_K; k++) {
            int32_t slot = forward->slots[layer][t][k] - rank * n;
            if (slot < 0 || slot >= n)
                continue;
            rows[slot]++;
            counted[slot] += forward->mask[t];
        }
}

/* EP level 1: every rank sees all ids. */
static void count_gathered(struct eplb_counter *counter, const struct forward *forward, int32_t layer,
                           int32_t rank)
{
    (void)rank;
    assert_int_equal(eplb_counter_add_routed(counter, layer, &forward->slots[layer][0][0], TOKENS, TOP_K,
                                             forward->mask, TOKENS, NULL),
                     EPLB_OK);
}

/* EP level 2: two counts per (source, slot). */
static void count_per_source(struct eplb_counter *counter, const struct forward *forward, int32_t layer,
                             int32_t rank)
{
    for (size_t d = 0; d < RANKS; d++) {
        int64_t rows[EXPERTS] = {0};
        int64_t counted[EXPERTS] = {0};
        dispatch(forward, (size_t)layer, rank, d * STRIDE, (d + 1) * STRIDE, rows, counted);
        assert_int_equal(eplb_counter_add_received(counter, layer, rows, counted, NULL), EPLB_OK);
    }
}

/* Fused: what the receiver saw in all. */
static void count_fused(struct eplb_counter *counter, const struct forward *forward, int32_t layer,
                        int32_t rank)
{
    int64_t rows[EXPERTS] = {0};
    int64_t counted[EXPERTS] = {0};
    dispatch(forward, (size_t)layer, rank, 0, TOKENS, rows, counted);
    assert_int_equal(eplb_counter_add_received(counter, layer, rows, counted, NULL), EPLB_OK);
}

/* B18, B21, B24: per layer, the slots of all ranks add up to counted tokens times top_k, on every path. */
static void slots_add_up_on_every_path(void **state)
{
    (void)state;
    static void (*const paths[])(struct eplb_counter *, const struct forward *, int32_t,
                                 int32_t) = {count_gathered, count_per_source, count_fused};
    const uint64_t seed = 20240718;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    printf("seed %llu\n", (unsigned long long)seed);
    struct forward *forward = malloc(sizeof *forward);
    assert_non_null(forward);
    for (int round = 0; round < 50; round++) {
        make_forward(forward, &prng, round % 2);
        for (int32_t l = 0; l < LAYERS; l++) {
            int64_t counts[LENGTH(paths)][RANKS][EXPERTS] = {0};
            for (size_t path = 0; path < LENGTH(paths); path++) {
                int64_t sum = 0;
                for (int32_t r = 0; r < RANKS; r++) {
                    struct eplb_counter *counter = make_counter(&forward->shape, r);
                    paths[path](counter, forward, l, r);
                    read_counts(counter, &forward->shape, l, counts[path][r]);
                    for (int32_t s = 0; s < forward->shape.slots_per_rank; s++)
                        sum += counts[path][r][s];
                    eplb_counter_destroy(counter);
                }
                assert_int_equal(sum, forward->num_counted * TOP_K);
                assert_memory_equal(counts[path], counts[0], sizeof counts[0]);
            }
        }
    }
    free(forward);
}

/* B18: two ranks, 100 tokens each, top-2. */
static void two_ranks_of_a_hundred_tokens(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape(1, 4, 2, 0);
    int32_t slots[200][2];
    int64_t sum = 0;
    for (int32_t t = 0; t < 200; t++) {
        slots[t][0] = t % 4;
        slots[t][1] = (t + 1) % 4;
    }
    for (int32_t r = 0; r < 2; r++) {
        struct eplb_counter *counter = make_counter(&shape, r);
        int64_t counts[2];
        assert_int_equal(eplb_counter_add_routed(counter, 0, &slots[0][0], 200, 2, NULL, 0, NULL), EPLB_OK);
        read_counts(counter, &shape, 0, counts);
        sum += counts[0] + counts[1];
        eplb_counter_destroy(counter);
    }
    assert_int_equal(sum, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mask_build_marks_real_tokens),
        cmocka_unit_test(mask_build_refuses_unknown_kinds),
        cmocka_unit_test(mask_align_pads_each_dp_rank_with_zeros),
        cmocka_unit_test(mask_align_refuses),
        cmocka_unit_test(prefix_decode_restores_counts),
        cmocka_unit_test(prefix_decode_refuses),
        cmocka_unit_test(prefix_encode_is_the_inverse),
        cmocka_unit_test(prefix_encode_refuses),
        cmocka_unit_test(counter_create_refuses_a_rank_outside),
        cmocka_unit_test(routed_entries_of_this_rank_count),
        cmocka_unit_test(padding_never_counts),
        cmocka_unit_test(warmup_never_counts),
        cmocka_unit_test(begin_refuses_unknown_flags),
        cmocka_unit_test(mask_must_fit_the_batch),
        cmocka_unit_test(routed_refuses_and_counts_nothing),
        cmocka_unit_test(received_counts_the_counted_rows),
        cmocka_unit_test(received_refuses_and_counts_nothing),
        cmocka_unit_test(a_full_counter_takes_no_more),
        cmocka_unit_test(slots_add_up_on_every_path),
        cmocka_unit_test(two_ranks_of_a_hundred_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
