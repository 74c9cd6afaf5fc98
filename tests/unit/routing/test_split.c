/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/wide.h"
#include "eplb/routing.h"
#include "support/tables.h"
#include "unit/routing/twin.h"

enum { MAX_EXPERTS = 1024, MAX_SLOTS = 2048, MAX_WORDS = 4 };

/** One problem with its answer. */
struct split {
    struct eplb_shape shape;
    int32_t ids[MAX_SLOTS];
    int64_t load[MAX_EXPERTS];
    int32_t weights[MAX_SLOTS];
    uint64_t cut[MAX_WORDS];
    struct eplb_best_split result;
};

static void *allocate_graph(const struct eplb_shape *shape)
{
    void *memory = aligned_alloc(64, eplb_split_graph_size(shape));
    assert_non_null(memory);
    memset(memory, 0x5a, eplb_split_graph_size(shape));
    return memory;
}

static void solve(struct split *split)
{
    void *memory = allocate_graph(&split->shape);
    eplb_best_split(&split->shape, split->ids, split->load, memory, split->weights, split->cut,
                    &split->result);
    free(memory);
}

static void random_split(struct eplb_prng *prng, struct split *split, int32_t max_ranks)
{
    split->shape = twin_random_shape(prng, max_ranks);
    tables_random(prng, &split->shape, split->ids);
    twin_random_load(prng, split->shape.num_experts, split->load);
}

static int32_t in_cut(const struct split *split, int32_t rank)
{
    return (int32_t)(split->cut[rank / 64] >> rank % 64 & 1);
}

/** The load of the experts whose replicas are all in the cut, and its ranks, are what the result says. */
static void assert_cut(const struct split *split)
{
    int32_t replicas[MAX_EXPERTS] = {0};
    int32_t inside[MAX_EXPERTS] = {0};
    int32_t size = 0;
    for (int32_t slot = 0; slot < split->shape.num_slots; slot++) {
        int32_t rank = slot / split->shape.slots_per_rank;
        replicas[split->ids[slot]]++;
        inside[split->ids[slot]] += in_cut(split, rank);
    }
    for (int32_t rank = 0; rank < split->shape.ep_size; rank++)
        size += in_cut(split, rank);
    int64_t sum = 0;
    for (int32_t expert = 0; expert < split->shape.num_experts; expert++)
        sum += inside[expert] == replicas[expert] ? split->load[expert] >> split->result.scale : 0;
    assert_int_equal(size, split->result.cut_size);
    assert_int_equal(sum, split->result.cut_load);
}

/** Legal weights under which no rank is above the peak by more than the rounding that is allowed. */
static void assert_weights(const struct split *split)
{
    const struct eplb_shape *shape = &split->shape;
    int32_t replicas[MAX_EXPERTS];
    struct eplb_error error;
    assert_int_equal(eplb_weights_check(shape, split->ids, split->weights, replicas, &error), EPLB_OK);
    eplb_placement_replicas(shape, split->ids, replicas);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        eplb_u128 sum = 0;
        eplb_u128 rounding = 0;
        for (int32_t i = 0; i < shape->slots_per_rank; i++) {
            int32_t slot = rank * shape->slots_per_rank + i;
            uint64_t load = (uint64_t)split->load[split->ids[slot]];
            sum += (eplb_u128)load * (uint32_t)split->weights[slot];
            rounding +=
                replicas[split->ids[slot]] > 1 ? (eplb_u128)load * (uint32_t)replicas[split->ids[slot]] : 0;
        }
        eplb_u128 allowed = (eplb_u128)(uint64_t)split->result.cut_load * EPLB_WEIGHT_UNIT
                            << split->result.scale;
        /* A load that was divided by 2^scale lost less than 2^scale tokens. */
        rounding += ((eplb_u128)(uint32_t)shape->num_experts * EPLB_WEIGHT_UNIT << split->result.scale) *
                    (split->result.scale > 0);
        assert_true((sum - (sum < rounding ? sum : rounding)) * (uint32_t)split->result.cut_size <= allowed);
    }
}

static void the_peak_is_that_of_a_plain_flow(void **state)
{
    (void)state;
    static struct split split;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct eplb_prng prng;
        eplb_prng_seed(&prng, seed);
        random_split(&prng, &split, 16);
        solve(&split);
        struct twin_ratio twin = twin_best_peak(&split.shape, split.ids, split.load);
        if (split.result.cut_load * twin.size != twin.load * split.result.cut_size)
            fail_msg("seed %" PRIu64 ": %" PRId64 " / %" PRId32 ", not %" PRId64 " / %" PRId64, seed,
                     split.result.cut_load, split.result.cut_size, twin.load, twin.size);
        assert_true(split.result.peak == (double)split.result.cut_load / split.result.cut_size);
        assert_cut(&split);
        assert_weights(&split);
    }
}

static void the_peak_is_the_densest_of_all_rank_sets(void **state)
{
    (void)state;
    static struct split split;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct eplb_prng prng;
        eplb_prng_seed(&prng, seed);
        random_split(&prng, &split, 10);
        solve(&split);
        struct twin_ratio twin = twin_densest(&split.shape, split.ids, split.load);
        if (split.result.cut_load * twin.size != twin.load * split.result.cut_size)
            fail_msg("seed %" PRIu64 ": %" PRId64 " / %" PRId32 ", not %" PRId64 " / %" PRId64, seed,
                     split.result.cut_load, split.result.cut_size, twin.load, twin.size);
    }
}

/** Larger than the twins can do: the cut bounds from below what the weights reach from above. */
static void large_splits_prove_themselves(void **state)
{
    (void)state;
    static struct split split;
    static const int32_t ranks[] = {32, 64, 128};
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct eplb_prng prng;
        eplb_prng_seed(&prng, seed);
        split.shape = tables_shape(256 + 128 * (int32_t)(seed % 2), ranks[seed % 3], 1 + (int32_t)(seed % 4));
        tables_random(&prng, &split.shape, split.ids);
        twin_random_load(&prng, split.shape.num_experts, split.load);
        solve(&split);
        assert_cut(&split);
        assert_weights(&split);
    }
}

static void components_are_counted(void **state)
{
    (void)state;
    static struct split split;
    split.shape = tables_shape(8, 4, 1);
    static const int32_t pairs[] = {0, 1, 2, 2, 3, 0, 4, 5, 6, 6, 7, 4};
    memcpy(split.ids, pairs, sizeof pairs);
    for (int32_t expert = 0; expert < 8; expert++)
        split.load[expert] = expert < 4 ? 10 : 1;
    solve(&split);
    assert_int_equal(split.result.num_components, 2);
    assert_int_equal(split.result.cut_load, 40);
    assert_int_equal(split.result.cut_size, 2);
    assert_int_equal(split.cut[0], 3);
    assert_true(split.result.peak == 20 && split.result.mean == 11);
    eplb_placement_initial(&split.shape, split.ids);
    solve(&split);
    assert_int_equal(split.result.num_components, 1);
}

static void without_shared_experts_the_largest_rank_is_the_peak(void **state)
{
    (void)state;
    static struct split split;
    split.shape = tables_shape(6, 3, 0);
    eplb_placement_initial(&split.shape, split.ids);
    static const int64_t load[] = {1, 2, 3, 5, 7, 0};
    memcpy(split.load, load, sizeof load);
    solve(&split);
    assert_int_equal(split.result.num_components, 3);
    assert_int_equal(split.result.cut_load, 8);
    assert_int_equal(split.cut[0], 2);
    for (int32_t slot = 0; slot < 6; slot++)
        assert_int_equal(split.weights[slot], EPLB_WEIGHT_UNIT);
}

static void with_everything_everywhere_the_mean_is_the_peak(void **state)
{
    (void)state;
    static struct split split;
    split.shape = tables_shape(8, 8, 7);
    for (int32_t slot = 0; slot < 64; slot++)
        split.ids[slot] = slot % 8;
    memset(split.load, 0, sizeof split.load);
    split.load[3] = 1000003;
    solve(&split);
    assert_int_equal(split.result.num_components, 1);
    assert_int_equal(split.result.cut_load, 1000003);
    assert_int_equal(split.result.cut_size, 8);
    assert_weights(&split);
}

static void no_load_has_equal_weights(void **state)
{
    (void)state;
    static struct split split;
    static int32_t equal[MAX_SLOTS];
    int32_t scratch[16];
    split.shape = tables_shape(16, 8, 1);
    eplb_placement_initial(&split.shape, split.ids);
    memset(split.load, 0, sizeof split.load);
    solve(&split);
    assert_true(split.result.peak == 0 && split.result.mean == 0);
    assert_true(split.result.cut_size >= 1);
    eplb_weights_equal(&split.shape, split.ids, scratch, equal);
    assert_memory_equal(split.weights, equal, 24 * sizeof equal[0]);
}

static void one_rank_with_all_load_is_the_cut(void **state)
{
    (void)state;
    static struct split split;
    split.shape = tables_shape(16, 8, 1);
    eplb_placement_initial(&split.shape, split.ids);
    memset(split.load, 0, sizeof split.load);
    split.load[1] = 77; /* only on rank 0 */
    solve(&split);
    assert_int_equal(split.result.cut_load, 77);
    assert_int_equal(split.result.cut_size, 1);
    assert_int_equal(split.cut[0], 1);
}

/** Twice the load, up to the largest there is, has twice the peak. */
static void huge_loads_have_the_same_split(void **state)
{
    (void)state;
    static struct split split;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct eplb_prng prng;
        eplb_prng_seed(&prng, seed);
        random_split(&prng, &split, 32);
        solve(&split);
        double peak = split.result.peak;
        double mean = split.result.mean;
        for (int32_t expert = 0; expert < split.shape.num_experts; expert++)
            split.load[expert] <<= 42;
        solve(&split);
        assert_true(fabs(split.result.peak - ldexp(peak, 42)) <= ldexp(peak, 42 - 40));
        assert_true(split.result.mean == ldexp(mean, 42));
        assert_weights(&split);
    }
    for (int32_t expert = 0; expert < split.shape.num_experts; expert++)
        split.load[expert] = EPLB_MAX_LOAD;
    solve(&split);
    assert_true(split.result.peak >= split.result.mean && split.result.scale > 0);
    assert_cut(&split);
    assert_weights(&split);
}

static void assert_same_result(const struct eplb_best_split *a, const struct eplb_best_split *b)
{
    assert_true(a->peak == b->peak && a->mean == b->mean);
    assert_int_equal(a->cut_load, b->cut_load);
    assert_int_equal(a->cut_size, b->cut_size);
    assert_int_equal(a->scale, b->scale);
    assert_int_equal(a->num_components, b->num_components);
}

static void one_graph_serves_many_loads(void **state)
{
    (void)state;
    static struct split split;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 5);
    split.shape = tables_shape(64, 16, 1);
    tables_random(&prng, &split.shape, split.ids);
    void *memory = allocate_graph(&split.shape);
    struct eplb_split_graph *graph = eplb_split_graph_build(&split.shape, split.ids, memory);
    for (int round = 0; round < 50; round++) {
        int32_t weights[80];
        uint64_t cut[1];
        struct eplb_best_split result;
        twin_random_load(&prng, 64, split.load);
        solve(&split);
        eplb_split_graph_solve(graph, split.load, weights, cut, &result);
        assert_memory_equal(weights, split.weights, sizeof weights);
        assert_same_result(&result, &split.result);
        assert_int_equal(cut[0], split.cut[0]);
        eplb_split_graph_solve(graph, split.load, NULL, NULL, &result);
        assert_same_result(&result, &split.result);
        assert_int_equal(eplb_split_graph_components(graph), result.num_components);
        assert_true(eplb_split_graph_peak(graph, split.load, INFINITY) == result.peak);
        assert_true(eplb_split_graph_peak(graph, split.load, result.peak) == result.peak);
        double stop = result.peak * 0.9;
        double bound = eplb_split_graph_peak(graph, split.load, stop);
        assert_true(bound <= result.peak && (result.peak == 0 || bound > stop));
    }
    free(memory);
}

static void routings_have_names(void **state)
{
    (void)state;
    struct eplb_error error;
    for (int i = 0; i < EPLB_NUM_ROUTINGS; i++) {
        enum eplb_replica_routing routing;
        const char *name = eplb_replica_routing_name((enum eplb_replica_routing)i);
        assert_int_equal(eplb_replica_routing_parse(name, &routing, &error), EPLB_OK);
        assert_int_equal((int)routing, i);
    }
    enum eplb_replica_routing routing = EPLB_ROUTING_BATCH;
    assert_int_equal(eplb_replica_routing_parse("Static", &routing, &error), EPLB_INVALID);
    assert_int_equal(routing, EPLB_ROUTING_BATCH);
    assert_non_null(strstr(error.text, "'Static' is not one of static, local, weighted, adaptive, batch"));
    assert_string_equal(eplb_replica_routing_name((enum eplb_replica_routing)EPLB_NUM_ROUTINGS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_is_that_of_a_plain_flow),
        cmocka_unit_test(the_peak_is_the_densest_of_all_rank_sets),
        cmocka_unit_test(large_splits_prove_themselves),
        cmocka_unit_test(components_are_counted),
        cmocka_unit_test(without_shared_experts_the_largest_rank_is_the_peak),
        cmocka_unit_test(with_everything_everywhere_the_mean_is_the_peak),
        cmocka_unit_test(no_load_has_equal_weights),
        cmocka_unit_test(one_rank_with_all_load_is_the_cut),
        cmocka_unit_test(huge_loads_have_the_same_split),
        cmocka_unit_test(one_graph_serves_many_loads),
        cmocka_unit_test(routings_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
