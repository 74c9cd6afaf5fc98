/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * eplb_plan: the same as the planner's plans, the same with any number of threads, and what it refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eplb/plan.h"
#include "support/allocations.h"
#include "support/tables.h"
#include "unit/policy/plan.h"

enum { LAYERS = 13, EXPERTS = 32, RANKS = 8, SLOTS = 40, WINDOWS = 3 };

static const char *const policies[] = {"balanced", "greedy", "minmax", "deepseek", "robust"};

enum { NUM_POLICIES = sizeof policies / sizeof *policies };

#define FIRST_SEED UINT64_C(20261130)

#if defined(__SANITIZE_THREAD__)
enum { NUM_ROUNDS = 10 };
#else
enum { NUM_ROUNDS = 40 };
#endif

/** Everything that a call writes. */
struct written {
    int32_t expert_ids[LAYERS * SLOTS];
    int32_t weights[LAYERS * SLOTS];
    int32_t replicas[LAYERS * EXPERTS];
    struct eplb_plan_layer layers[LAYERS];
};

/** A request over random loads; one layer has none. */
struct desk {
    struct eplb_plan_request request;
    int64_t load[LAYERS * EXPERTS];
    int64_t physical[LAYERS * SLOTS];
    int64_t past[WINDOWS * LAYERS * EXPERTS];
    int32_t active[LAYERS * SLOTS];
    struct written written;
    struct eplb_plan plan;
    char *scratch;
};

static void desk_open(struct desk *desk, uint64_t seed, const char *policy)
{
    struct eplb_prng prng;
    memset(desk, 0, sizeof *desk);
    eplb_plan_request_init(&desk->request);
    assert_int_equal(eplb_shape_init(&desk->request.shape, LAYERS, EXPERTS, RANKS, 1, NULL), EPLB_OK);
    desk->request.policy = eplb_policy_find(policy).ops;
    desk->request.load = desk->load;
    desk->request.active = desk->active;
    desk->request.cost = (struct eplb_migration_cost){
        .expert_bytes = 1000, .bytes_per_second = 1e6, .seconds_per_token = 1e-6, .num_forwards = 10};
    eplb_prng_seed(&prng, seed);
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        if (layer != 4)
            plan_random_load(&prng, &desk->request.shape, 1 << 20, desk->load + layer * EXPERTS);
        tables_random(&prng, &desk->request.shape, desk->active + layer * SLOTS);
    }
    eplb_plan_init(&desk->plan);
    desk->plan.expert_ids = desk->written.expert_ids;
    desk->plan.weights = desk->written.weights;
    desk->plan.replicas = desk->written.replicas;
    desk->plan.layers = desk->written.layers;
}

static enum eplb_status plan(struct desk *desk, struct eplb_error *error)
{
    free(desk->scratch);
    size_t size = eplb_plan_scratch(&desk->request);
    assert_true(size != SIZE_MAX);
    /* An odd address: the memory need not be aligned. */
    desk->scratch = malloc(size + 1);
    assert_non_null(desk->scratch);
    memset(desk->scratch, 0x5a, size + 1);
    memset(&desk->written, 0, sizeof desk->written);
    return eplb_plan(&desk->request, desk->scratch + 1, &desk->plan, error);
}

static void plan_well(struct desk *desk)
{
    struct eplb_error error;
    if (plan(desk, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static void desk_close(struct desk *desk)
{
    free(desk->scratch);
}

/* ---- what is planned ---- */

static struct eplb_planner *planner_of(const struct desk *desk)
{
    struct eplb_planner_params params;
    struct eplb_planner *planner = NULL;
    struct eplb_error error;
    eplb_planner_params_init(&params);
    params.shape = desk->request.shape;
    params.ops = desk->request.policy;
    params.initial = desk->request.active;
    params.max_moves = desk->request.max_moves;
    params.cost = desk->request.cost;
    params.replica_routing = desk->request.replica_routing;
    struct eplb_planner_loads loads;
    eplb_planner_loads_init(&loads);
    loads.logical = desk->load;
    loads.physical = desk->request.physical;
    loads.num_history = desk->request.num_history;
    loads.num_parts = desk->request.num_parts;
    for (int32_t i = 0; i < WINDOWS; i++)
        loads.history[i] = loads.parts[i] = desk->past + (size_t)i * LAYERS * EXPERTS;
    if (eplb_planner_create(&params, &planner, &error) != EPLB_OK ||
        eplb_planner_plan(planner, &loads, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return planner;
}

static void check_layer(const struct desk *desk, const struct eplb_planner *planner, int32_t layer)
{
    const struct eplb_plan_layer *figures = &desk->written.layers[layer];
    const int32_t *table = desk->written.expert_ids + layer * SLOTS;
    int32_t replicas[EXPERTS];
    struct eplb_balance balance =
        eplb_balance_of(&desk->request.shape, table, desk->load + layer * EXPERTS, replicas);
    assert_int_equal(figures->status, EPLB_OK);
    assert_memory_equal(&figures->benefit, &eplb_planner_benefits(planner)[layer], sizeof figures->benefit);
    assert_true(figures->unbounded_peak == eplb_planner_unbounded_peaks(planner)[layer]);
    const struct eplb_migration *migration = &eplb_planner_migrations(planner)[layer];
    assert_int_equal(figures->migration.moved_slots, migration->moved_slots);
    assert_int_equal(figures->migration.bytes, migration->bytes);
    assert_true(figures->migration.break_even_forwards == migration->break_even_forwards);
    assert_true(figures->balance.peak == balance.peak && figures->balance.mean == balance.mean);
    eplb_placement_replicas(&desk->request.shape, table, replicas);
    assert_memory_equal(desk->written.replicas + layer * EXPERTS, replicas, sizeof replicas);
}

/** Windows like this one before it, or as its pieces: three quarters to five quarters of each load. */
static void tell_past(struct desk *desk, uint64_t round)
{
    struct eplb_prng prng;
    eplb_prng_seed(&prng, FIRST_SEED - round);
    for (int32_t i = 0; i < WINDOWS * LAYERS * EXPERTS; i++) {
        const int64_t quarter = desk->load[i % (LAYERS * EXPERTS)] / 4;
        desk->past[i] = 3 * quarter + (int64_t)eplb_prng_below(&prng, (uint64_t)(2 * quarter + 1));
    }
    if (round % 4 < 2)
        desk->request.num_history = WINDOWS;
    else
        desk->request.num_parts = WINDOWS;
    desk->request.history = desk->past;
    desk->request.parts = desk->past;
}

static void it_plans_as_the_planner_does(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < NUM_ROUNDS; round++) {
        struct desk desk;
        desk_open(&desk, FIRST_SEED + round, policies[round % NUM_POLICIES]);
        tell_past(&desk, round);
        desk.request.replica_routing = (enum eplb_replica_routing)(round / 3 % EPLB_NUM_ROUTINGS);
        desk.request.max_moves = round % 3 == 0 ? (int32_t)round + 1 : 0;
        if (round % 2 == 0) {
            int32_t scratch[EXPERTS];
            for (int32_t layer = 0; layer < LAYERS; layer++)
                eplb_split_evenly(&desk.request.shape, desk.active + layer * SLOTS,
                                  desk.load + layer * EXPERTS, scratch, desk.physical + layer * SLOTS);
            desk.request.physical = desk.physical;
        }
        plan_well(&desk);
        struct eplb_planner *planner = planner_of(&desk);
        assert_memory_equal(desk.written.expert_ids, eplb_planner_candidates(planner),
                            sizeof desk.written.expert_ids);
        assert_memory_equal(desk.written.weights, eplb_planner_weights(planner), sizeof desk.written.weights);
        for (int32_t layer = 0; layer < LAYERS; layer++)
            check_layer(&desk, planner, layer);
        assert_memory_equal(desk.written.expert_ids + 4 * SLOTS, desk.active + 4 * SLOTS,
                            SLOTS * sizeof(int32_t));
        assert_int_equal(desk.written.layers[4].benefit.publish, 0);
        eplb_planner_destroy(planner);
        desk_close(&desk);
    }
}

static bool same_real(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/** All but the padding of the figures. */
static void same_written(const struct written *a, const struct written *b)
{
    assert_memory_equal(a->expert_ids, b->expert_ids, sizeof a->expert_ids);
    assert_memory_equal(a->weights, b->weights, sizeof a->weights);
    assert_memory_equal(a->replicas, b->replicas, sizeof a->replicas);
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        const struct eplb_plan_layer *left = &a->layers[layer];
        const struct eplb_plan_layer *right = &b->layers[layer];
        assert_memory_equal(&left->balance, &right->balance, sizeof left->balance);
        assert_memory_equal(&left->benefit, &right->benefit, sizeof left->benefit);
        assert_int_equal(left->migration.moved_slots, right->migration.moved_slots);
        assert_int_equal(left->migration.sent_slots, right->migration.sent_slots);
        assert_int_equal(left->migration.bytes, right->migration.bytes);
        assert_true(same_real(left->migration.seconds, right->migration.seconds));
        assert_true(same_real(left->migration.break_even_forwards, right->migration.break_even_forwards));
        assert_int_equal(left->migration.pays, right->migration.pays);
        assert_true(same_real(left->unbounded_peak, right->unbounded_peak));
        assert_int_equal(left->status, right->status);
    }
}

static void threads_make_the_same_bytes(void **state)
{
    (void)state;
    for (size_t policy = 0; policy < NUM_POLICIES; policy++) {
        static const int32_t threads[] = {2, 3, 8, 1024};
        struct desk desk;
        desk_open(&desk, FIRST_SEED + 100 + policy, policies[policy]);
        desk.request.max_moves = policy == 0 ? 5 : 0;
        plan_well(&desk);
        const struct written alone = desk.written;
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
            desk.request.num_threads = threads[i];
            plan_well(&desk);
            same_written(&desk.written, &alone);
        }
        desk_close(&desk);
    }
}

static void only_what_is_wanted_is_written(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk, FIRST_SEED, "balanced");
    plan_well(&desk);
    const struct written whole = desk.written;
    desk.plan.weights = desk.plan.replicas = NULL;
    desk.plan.layers = NULL;
    plan_well(&desk);
    assert_memory_equal(desk.written.expert_ids, whole.expert_ids, sizeof whole.expert_ids);
    desk_close(&desk);
}

static void without_an_active_table_it_starts_from_the_initial_one(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk, FIRST_SEED, "balanced");
    for (int32_t layer = 0; layer < LAYERS; layer++)
        eplb_placement_initial(&desk.request.shape, desk.active + layer * SLOTS);
    plan_well(&desk);
    const struct written given = desk.written;
    desk.request.active = NULL;
    plan_well(&desk);
    same_written(&desk.written, &given);
    desk_close(&desk);
}

static void a_bound_is_kept_and_says_what_it_costs(void **state)
{
    (void)state;
    int32_t bounded = 0;
    for (int32_t most = 1; most <= SLOTS; most++) {
        struct desk desk;
        desk_open(&desk, FIRST_SEED + (uint64_t)most, "balanced");
        plan_well(&desk);
        const struct written free_plan = desk.written;
        desk.request.max_moves = most;
        plan_well(&desk);
        for (int32_t layer = 0; layer < LAYERS; layer++) {
            const struct eplb_plan_layer *figures = &desk.written.layers[layer];
            double free_peak = free_plan.layers[layer].benefit.candidate_peak;
            assert_true(figures->migration.moved_slots <= most);
            assert_true(figures->unbounded_peak == free_peak);
            if (free_plan.layers[layer].migration.moved_slots > most)
                bounded++;
            else
                assert_memory_equal(desk.written.expert_ids + layer * SLOTS,
                                    free_plan.expert_ids + layer * SLOTS, SLOTS * sizeof(int32_t));
        }
        desk_close(&desk);
    }
    assert_true(bounded > 100);
}

static void what_does_not_pay_is_not_published(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk, FIRST_SEED, "balanced");
    plan_well(&desk);
    const struct written whole = desk.written;
    int32_t published = 0;
    desk.request.cost.max_break_even_forwards = 1;
    desk.request.cost.expert_bytes = INT64_C(1) << 40;
    plan_well(&desk);
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        published += whole.layers[layer].benefit.publish;
        assert_int_equal(desk.written.layers[layer].benefit.publish, 0);
        assert_int_equal(desk.written.layers[layer].migration.pays, !whole.layers[layer].benefit.publish);
    }
    assert_true(published > 0);
    desk_close(&desk);
}

static void nothing_is_allocated(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk, FIRST_SEED, "minmax");
    void *scratch = malloc(eplb_plan_scratch(&desk.request));
    struct eplb_error error;
    allocations_reset(1);
    enum eplb_status status = eplb_plan(&desk.request, scratch, &desk.plan, &error);
    size_t counted = allocations_counted();
    allocations_reset(0);
    assert_int_equal(status, EPLB_OK);
    assert_int_equal(counted, 0);
    free(scratch);
    desk_close(&desk);
}

/* ---- policies that fail ---- */

static size_t moody_scratch(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)settings;
    (void)shape;
    return 0;
}

/** Fails where expert 0 has load 1, and repeats an expert where it has 2. */
static enum eplb_status moody_plan(const struct eplb_policy_problem *problem, void *scratch,
                                   struct eplb_policy_answer *answer, struct eplb_error *error)
{
    (void)scratch;
    for (int32_t slot = 0; slot < problem->shape->num_slots; slot++)
        answer->expert_ids[slot] =
            problem->active[(slot + problem->shape->slots_per_rank) % problem->shape->num_slots];
    if (problem->load[0] == 1)
        return eplb_fail(error, EPLB_UNSUPPORTED, "no plan on a Monday");
    if (problem->load[0] == 2)
        answer->expert_ids[1] = answer->expert_ids[0];
    return EPLB_OK;
}

static const struct eplb_policy_ops moody = {
    .size = sizeof moody, .name = "moody", .scratch_size = moody_scratch, .plan_layer = moody_plan};

static void a_layer_that_fails_leaves_the_others_planned(void **state)
{
    (void)state;
    for (int32_t threads = 1; threads <= 4; threads++) {
        struct desk desk;
        struct eplb_error error;
        desk_open(&desk, FIRST_SEED, "balanced");
        desk.request.policy = &moody;
        desk.request.num_threads = threads;
        for (int32_t layer = 0; layer < LAYERS; layer++)
            desk.load[layer * EXPERTS] = 3;
        desk.load[6 * EXPERTS] = 1;
        desk.load[9 * EXPERTS] = 2;
        assert_int_equal(plan(&desk, &error), EPLB_UNSUPPORTED);
        assert_string_equal(error.text, "policy moody, layer 6: no plan on a Monday");
        for (int32_t layer = 0; layer < LAYERS; layer++) {
            enum eplb_status status = desk.written.layers[layer].status;
            bool failed = layer == 6 || layer == 9;
            assert_int_equal(status, layer == 6 ? EPLB_UNSUPPORTED : layer == 9 ? EPLB_INVALID : EPLB_OK);
            assert_int_equal(memcmp(desk.written.expert_ids + layer * SLOTS, desk.active + layer * SLOTS,
                                    SLOTS * sizeof(int32_t)) == 0,
                             failed);
            assert_true(!failed || !desk.written.layers[layer].benefit.publish);
        }
        desk_close(&desk);
    }
}

/* ---- refusals ---- */

/** The request must be refused with the sentence, and nothing be written. */
static void refused(struct desk *desk, const char *sentence)
{
    struct written before;
    struct eplb_error error;
    char scratch[64];
    memset(&desk->written, 0x5a, sizeof desk->written);
    before = desk->written;
    assert_int_equal(eplb_plan(&desk->request, scratch, &desk->plan, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_memory_equal(&desk->written, &before, sizeof before);
}

/** The same of a request whose scratch cannot be told. */
static void refused_whole(struct desk *desk, const char *sentence)
{
    assert_true(eplb_plan_scratch(&desk->request) == SIZE_MAX);
    refused(desk, sentence);
}

static void a_request_out_of_range_is_refused(void **state)
{
    (void)state;
    struct desk desk;
    char sentence[128];
    desk_open(&desk, FIRST_SEED, "balanced");
    const struct eplb_plan_request good = desk.request;
    desk.request.size = 8;
    snprintf(sentence, sizeof sentence, "eplb_plan_request.size is 8; this library's is %zu", good.size);
    refused_whole(&desk, sentence);
    desk.request = good;
    desk.request.policy = NULL;
    refused_whole(&desk, "the policy table is missing, too small, or lacks name, plan_layer or scratch_size");
    desk.request = good;
    desk.request.settings.num_groups = 0;
    refused_whole(&desk, "eplb_plan_request.settings has 0 groups and 1 nodes; both must be 1 or more");
    desk.request = good;
    desk.request.min_improvement = -0.5;
    refused_whole(&desk, "min_improvement is -0.5; allowed is 0 to 1");
    desk.request = good;
    desk.request.max_moves = -1;
    refused_whole(&desk, "eplb_plan_request.max_moves is -1; it must be 0 (no limit) or more");
    desk.request = good;
    desk.request.num_threads = 0;
    refused_whole(&desk, "eplb_plan_request.num_threads is 0; allowed is 1 to 1024");
    desk.request.num_threads = 1025;
    refused_whole(&desk, "eplb_plan_request.num_threads is 1025; allowed is 1 to 1024");
    desk.request = good;
    desk.request.shape.num_slots++;
    refused_whole(&desk, "eplb_plan_request.shape has 5 slots per rank and 41 slots; 32 experts on 8 ranks "
                         "with 1 redundant have 5 and 40");
    desk.request = good;
    desk.request.cost.expert_bytes = -1;
    refused_whole(&desk,
                  "the cost of a migration has expert_bytes -1 and max_break_even_forwards 0; both must "
                  "be 0 or more");
    desk.request = good;
    desk.request.cost.seconds_per_token = -1;
    refused_whole(&desk, "the cost of a migration has bytes_per_second 1000000, seconds_per_token -1 and "
                         "num_forwards 10; each must be 0 or more, and finite");
}

/** With the same random numbers robust plans from three windows what it does not plan from one. */
static void the_past_and_the_routing_count(void **state)
{
    (void)state;
    struct desk desk;
    struct written alone;
    desk_open(&desk, FIRST_SEED, "robust");
    plan_well(&desk);
    alone = desk.written;
    tell_past(&desk, 0);
    plan_well(&desk);
    assert_memory_not_equal(desk.written.expert_ids, alone.expert_ids, sizeof alone.expert_ids);
    /* The same plan promises more to tokens that are divided in the best way than to evenly split ones. */
    const double even = desk.written.layers[0].benefit.candidate_peak;
    assert_true(even == desk.written.layers[0].balance.peak);
    desk.request.replica_routing = EPLB_ROUTING_ADAPTIVE;
    plan_well(&desk);
    assert_true(desk.written.layers[0].benefit.candidate_peak < even);
    assert_true(desk.written.layers[0].balance.peak == even);
    desk_close(&desk);
}

static void the_past_is_checked(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk, FIRST_SEED, "robust");
    const struct eplb_plan_request good = desk.request;
    desk.request.num_history = 17;
    desk.request.history = desk.past;
    refused(&desk, "eplb_plan_request.num_history is 17; allowed is 0 to 16");
    desk.request = good;
    desk.request.num_parts = 1;
    refused(&desk, "eplb_plan_request.num_parts is 1, and there are none; allowed is 0 to 16");
    desk.request = good;
    desk.request.parts = desk.past;
    desk.request.num_parts = 2;
    desk.past[(LAYERS + 2) * EXPERTS + 1] = -1;
    refused(&desk, "layer 2: load of expert 1 is -1; allowed is 0 to 2^62");
    desk.request = good;
    desk.request.replica_routing = (enum eplb_replica_routing)5;
    refused_whole(&desk, "eplb_plan_request.replica_routing is 5; allowed is 0 to 4");
    desk_close(&desk);
}

static void arrays_that_are_not_right_are_refused(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk, FIRST_SEED, "balanced");
    const struct eplb_plan_request good = desk.request;
    desk.request.load = NULL;
    refused(&desk, "eplb_plan_request.load is NULL; it is the load to plan for");
    desk.request = good;
    desk.load[3 * EXPERTS + 5] = -1;
    refused(&desk, "layer 3: load of expert 5 is -1; allowed is 0 to 2^62");
    desk.load[3 * EXPERTS + 5] = 1;
    desk.physical[2 * SLOTS] = EPLB_MAX_LOAD + 1;
    desk.request.physical = desk.physical;
    refused(&desk, "layer 2: load of slot 0 is 4611686018427387905; allowed is 0 to 2^62");
    desk.request = good;
    int32_t kept = desk.active[7 * SLOTS + 1];
    desk.active[7 * SLOTS + 1] = EXPERTS;
    refused(&desk, "active table, layer 7: rank 0 slot 1 holds expert 32; allowed is 0 to 31");
    desk.active[7 * SLOTS + 1] = kept;
    desk.plan.expert_ids = NULL;
    refused(&desk, "eplb_plan.expert_ids is NULL; the placements are written there");
    desk.plan.expert_ids = desk.active;
    refused(&desk, "eplb_plan.expert_ids is eplb_plan_request.active; the plan needs both");
    desk.plan.expert_ids = desk.written.expert_ids;
    desk.plan.size = 1;
    char sentence[128];
    snprintf(sentence, sizeof sentence, "eplb_plan.size is 1; this library's is %zu", sizeof desk.plan);
    refused(&desk, sentence);
    desk.plan.size = sizeof desk.plan;
    struct eplb_error error;
    assert_int_equal(eplb_plan(&desk.request, NULL, &desk.plan, &error), EPLB_INVALID);
    assert_string_equal(error.text,
                        "eplb_plan was given no scratch memory; it needs eplb_plan_scratch bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_plans_as_the_planner_does),
        cmocka_unit_test(threads_make_the_same_bytes),
        cmocka_unit_test(only_what_is_wanted_is_written),
        cmocka_unit_test(without_an_active_table_it_starts_from_the_initial_one),
        cmocka_unit_test(a_bound_is_kept_and_says_what_it_costs),
        cmocka_unit_test(what_does_not_pay_is_not_published),
        cmocka_unit_test(nothing_is_allocated),
        cmocka_unit_test(a_layer_that_fails_leaves_the_others_planned),
        cmocka_unit_test(a_request_out_of_range_is_refused),
        cmocka_unit_test(the_past_and_the_routing_count),
        cmocka_unit_test(the_past_is_checked),
        cmocka_unit_test(arrays_that_are_not_right_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
