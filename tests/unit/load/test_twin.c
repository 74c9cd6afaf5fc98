/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Random samples, commits and closes, good and bad, on the aggregator and on its plain twin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "unit/load/twin.h"

enum { MAX_RANKS = 8, STEPS = 400, RUNS = 40 };

/* One sample with its own memory, as a channel would hand it over. */
struct draft {
    struct eplb_sample sample;
    struct eplb_rank_report ranks[MAX_RANKS + 1];
    uint64_t generations[MAX_RANKS + 1][TWIN_LAYERS];
    int64_t prefix[MAX_RANKS + 1][TWIN_LAYERS * TWIN_SLOTS];
};

/* How often each verdict was met over all runs: a random test that never refuses shows nothing. */
static struct {
    int taken, lacking, refused, inconsistent, stale, unknown;
} met;

static int64_t random_count(struct eplb_prng *prng, int is_large)
{
    if (is_large && eplb_prng_below(prng, 8) == 0)
        return (int64_t)eplb_prng_below(prng, (uint64_t)EPLB_MAX_LOAD / 4);
    return eplb_prng_below(prng, 3) == 0 ? 0 : (int64_t)eplb_prng_below(prng, 1000);
}

static uint64_t random_generation(struct eplb_prng *prng, uint64_t active)
{
    uint64_t back = eplb_prng_below(prng, 12) < 8 ? 0 : eplb_prng_below(prng, 6);
    if (eplb_prng_below(prng, 40) == 0)
        return active + 1 + back;
    return back > active ? 0 : active - back;
}

static void draft_good(struct draft *draft, struct eplb_prng *prng, const struct twin *twin, int is_large)
{
    const struct eplb_shape *shape = &twin->shape;
    memset(draft, 0, sizeof *draft);
    for (int32_t l = 0; l < shape->num_layers; l++)
        draft->generations[0][l] = random_generation(prng, twin->generations[l]);
    for (int32_t r = 0; r <= shape->ep_size; r++) {
        memcpy(draft->generations[r], draft->generations[0], sizeof draft->generations[r]);
        draft->ranks[r] = (struct eplb_rank_report){.prefix = draft->prefix[r],
                                                    .generations = draft->generations[r],
                                                    .num_layers = shape->num_layers,
                                                    .slots_per_rank = shape->slots_per_rank};
        for (int32_t l = 0; l < shape->num_layers; l++) {
            int64_t sum = 0;
            for (int32_t s = 0; s < shape->slots_per_rank; s++) {
                int64_t count = random_count(prng, is_large);
                sum = sum > INT64_MAX - count ? INT64_MAX : sum + count;
                draft->prefix[r][l * shape->slots_per_rank + s] = sum;
            }
        }
    }
    draft->sample = (struct eplb_sample){.ranks = draft->ranks, .num_ranks = shape->ep_size};
}

static void draft_fault(struct draft *draft, struct eplb_prng *prng, const struct eplb_shape *shape)
{
    static const int64_t odd[] = {-1, 0, INT64_MIN, INT64_MAX, EPLB_MAX_LOAD};
    size_t rank = (size_t)eplb_prng_below(prng, (uint64_t)shape->ep_size);
    size_t layer = (size_t)eplb_prng_below(prng, (uint64_t)shape->num_layers);
    size_t entry = (size_t)eplb_prng_below(prng, (uint64_t)(shape->num_layers * shape->slots_per_rank));
    switch (eplb_prng_below(prng, 8)) {
    case 0:
        draft->ranks[rank].prefix = NULL;
        break;
    case 1:
        draft->ranks[rank].num_layers += (int32_t)eplb_prng_below(prng, 3) - 1;
        break;
    case 2:
        draft->ranks[rank].slots_per_rank += (int32_t)eplb_prng_below(prng, 3) - 1;
        break;
    case 3:
        draft->ranks[rank].generations = NULL;
        break;
    case 4:
        draft->generations[rank][layer] += 1;
        break;
    case 5:
        draft->sample.num_ranks += (int32_t)eplb_prng_below(prng, 3) - 1;
        break;
    default:
        draft->prefix[rank][entry] = odd[eplb_prng_below(prng, sizeof odd / sizeof *odd)];
    }
}

/* Swaps keep a placement legal: every expert stays somewhere, and none may meet itself on a rank. */
static void shuffle(int32_t *table, struct eplb_prng *prng, const struct eplb_shape *shape)
{
    for (int i = 0; i < 64; i++) {
        size_t a = (size_t)eplb_prng_below(prng, (uint64_t)shape->num_slots);
        size_t b = (size_t)eplb_prng_below(prng, (uint64_t)shape->num_slots);
        int32_t expert = table[a];
        table[a] = table[b];
        table[b] = expert;
        if (eplb_placement_check(shape, table, NULL) == EPLB_OK)
            continue;
        table[b] = table[a];
        table[a] = expert;
    }
}

static void assert_window(const struct eplb_window *window, const struct twin *twin, size_t number)
{
    const struct eplb_shape *shape = &twin->shape;
    for (int32_t l = 0; l < shape->num_layers; l++) {
        const struct twin_window *expected = &twin->windows[number];
        for (int32_t e = 0; e < shape->num_experts; e++)
            assert_int_equal(window->logical[l * shape->num_experts + e], expected->logical[l][e]);
        for (int32_t p = 0; p < shape->num_slots; p++)
            assert_int_equal(window->physical[l * shape->num_slots + p], expected->physical[l][p]);
    }
}

static void assert_same(const struct eplb_aggregator *aggregator, const struct twin *twin)
{
    const struct eplb_shape *shape = &twin->shape;
    const struct eplb_window *open = eplb_aggregator_open(aggregator);
    assert_window(open, twin, twin->num_closed);
    for (int32_t l = 0; l < shape->num_layers; l++) {
        assert_int_equal(open->generations[l], twin->generations[l]);
        assert_memory_equal(open->expert_ids + l * shape->num_slots, twin->tables[l][twin->generations[l]],
                            (size_t)shape->num_slots * sizeof(int32_t));
    }
    if (twin->num_closed > 0)
        assert_window(eplb_aggregator_closed(aggregator), twin, twin->num_closed - 1);
    int32_t length = eplb_aggregator_history_length(aggregator);
    assert_int_equal(length,
                     twin->num_closed < EPLB_HISTORY_WINDOWS ? twin->num_closed : EPLB_HISTORY_WINDOWS);
    for (int32_t w = 0; w < length; w++)
        for (int32_t l = 0; l < shape->num_layers; l++)
            assert_memory_equal(eplb_aggregator_history(aggregator, w, l),
                                twin->windows[twin->num_closed - (size_t)(length - w)].logical[l],
                                (size_t)shape->num_experts * sizeof(int64_t));
}

static void step_add(struct eplb_aggregator *aggregator, struct twin *twin, struct draft *draft)
{
    struct eplb_sample_result result = {.taken = -1, .counted_rows = -1};
    int taken;
    int64_t rows;
    enum eplb_status expected = twin_add(twin, &draft->sample, &taken, &rows);
    assert_int_equal(eplb_aggregator_add(aggregator, &draft->sample, &result, NULL), expected);
    met.refused += expected == EPLB_REFUSED;
    met.inconsistent += expected == EPLB_INCONSISTENT;
    if (expected != EPLB_OK) {
        assert_int_equal(result.taken, -1);
        return;
    }
    assert_int_equal(result.taken, taken);
    assert_int_equal(result.counted_rows, rows);
    met.taken += taken;
    met.lacking += !taken;
    for (int32_t l = 0; taken && l < twin->shape.num_layers; l++) {
        met.stale += draft->generations[0][l] < twin->generations[l];
        met.unknown += draft->generations[0][l] > twin->generations[l];
    }
}

static void run(uint64_t seed)
{
    static const int64_t shapes[][4] = {{1, 1, 1, 0},  {1, 4, 2, 0},  {3, 8, 4, 1}, {4, 16, 8, 2},
                                        {2, 16, 2, 8}, {4, 16, 4, 7}, {4, 8, 8, 1}};
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    const int64_t *sizes = shapes[seed % (sizeof shapes / sizeof *shapes)];
    struct eplb_shape shape;
    assert_int_equal(eplb_shape_init(&shape, sizes[0], sizes[1], sizes[2], sizes[3], NULL), EPLB_OK);
    int32_t tables[TWIN_LAYERS][TWIN_SLOTS];
    int32_t table[TWIN_SLOTS];
    eplb_placement_initial(&shape, table);
    for (int32_t l = 0; l < shape.num_layers; l++)
        memcpy((int32_t *)tables + l * shape.num_slots, table, (size_t)shape.num_slots * sizeof *table);
    int32_t overlap = (int32_t)eplb_prng_below(&prng, 3);
    struct twin *twin = twin_create(&shape, overlap, table);
    struct eplb_aggregator *aggregator;
    assert_int_equal(eplb_aggregator_create(&shape, overlap, &tables[0][0], NULL, NULL, &aggregator, NULL),
                     EPLB_OK);
    struct draft *draft = malloc(sizeof *draft);
    assert_non_null(draft);
    for (int i = 0; i < STEPS; i++) {
        uint64_t event = eplb_prng_below(&prng, 20);
        if (event == 0) {
            eplb_aggregator_close_window(aggregator);
            twin_close(twin);
        } else if (event < 4) {
            int32_t layer = (int32_t)eplb_prng_below(&prng, (uint64_t)shape.num_layers);
            shuffle(table, &prng, &shape);
            assert_int_equal(eplb_aggregator_commit(aggregator, layer, table, NULL), EPLB_OK);
            twin_commit(twin, layer, table);
        } else {
            draft_good(draft, &prng, twin, seed % 2 == 0);
            for (uint64_t faults = event > 15 ? 1 + eplb_prng_below(&prng, 2) : 0; faults > 0; faults--)
                draft_fault(draft, &prng, &shape);
            step_add(aggregator, twin, draft);
        }
        assert_same(aggregator, twin);
    }
    free(draft);
    eplb_aggregator_destroy(aggregator);
    free(twin);
}

static void aggregator_equals_its_plain_twin(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        printf("seed %llu\n", (unsigned long long)seed);
        run(seed);
    }
    printf("taken %d, lacking %d, refused %d, inconsistent %d, stale layers %d, unknown layers %d\n",
           met.taken, met.lacking, met.refused, met.inconsistent, met.stale, met.unknown);
    assert_true(met.taken > 1000 && met.lacking > 100 && met.refused > 500 && met.inconsistent > 100);
    assert_true(met.stale > 1000 && met.unknown > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(aggregator_equals_its_plain_twin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
