/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Plans thousands of layers from seeded loads and prints one digest line per policy and shape, over
 * every bit that the planner decides: tables, verdicts, peaks. The lines must be the same whatever
 * compiled this program, and however many copies of it run at once.
 *
 * usage: table_digest [THREADS [WORKERS]]   each thread plans everything, WORKERS layers at a time; all
 *                                           must agree
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "eplb/placement.h"
#include "eplb/policy.h"

enum { NUM_LAYERS = 12, MAX_THREADS = 64 };

#define FIRST_SEED UINT64_C(20240607)

struct form {
    int num_experts;
    int ep_size;
    int redundant_experts_num;
    int rounds; /* policy runs over NUM_LAYERS layers each; every run starts from what the last one left */
};

static const struct form forms[] = {
    {8, 2, 0, 200},  {8, 2, 1, 200},  {8, 8, 7, 100},   {12, 4, 2, 200},  {16, 1, 0, 10},   {60, 6, 3, 100},
    {64, 8, 1, 100}, {32, 16, 1, 40}, {128, 16, 2, 40}, {256, 32, 1, 20}, {256, 64, 1, 20},
};

enum { NUM_FORMS = sizeof forms / sizeof *forms };

/* Those that search take longer: they get one round of so many, and shapes up to so many experts. */
static const struct {
    const char *name;
    int one_of;
    int most_experts;
} policies[] = {
    {"balanced", 1, 256}, {"deepseek", 1, 256}, {"greedy", 1, 256}, {"minmax", 20, 256}, {"robust", 50, 64}};

enum { NUM_POLICIES = sizeof policies / sizeof *policies };

/** What one thread works with and finds. */
struct run {
    int32_t workers;
    uint64_t digests[NUM_POLICIES][NUM_FORMS];
    size_t published[NUM_POLICIES][NUM_FORMS];
};

/** Loads and scratch memory of one planner. */
struct desk {
    struct eplb_shape shape;
    int64_t *logical;  /* [NUM_LAYERS][E] */
    int64_t *physical; /* [NUM_LAYERS][R][K] */
    int32_t *scratch;  /* [E] */
};

static void *room_for(size_t count, size_t size)
{
    void *block = calloc(count, size);
    if (block == NULL) {
        fprintf(stderr, "table_digest: out of memory\n");
        exit(1);
    }
    return block;
}

static void insist(enum eplb_status status, const struct eplb_error *error)
{
    if (status == EPLB_OK)
        return;
    fprintf(stderr, "table_digest: %s\n", error->text);
    exit(1);
}

/** FNV-1a over the value's bytes, lowest first, on every machine. */
static void digest(uint64_t *state, uint64_t value)
{
    for (int shift = 0; shift < 64; shift += 8)
        *state = (*state ^ ((value >> shift) & 0xff)) * UINT64_C(0x100000001b3);
}

static void digest_real(uint64_t *state, double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    digest(state, bits);
}

enum { LOAD_PLAIN, LOAD_STEEP, LOAD_TIES, LOAD_SPARSE, LOAD_EQUAL, LOAD_HUGE, LOAD_HUGE_TIES, NUM_LOADS };

static int64_t draw(struct eplb_prng *prng, int kind)
{
    uint64_t shift;
    switch (kind) {
    case LOAD_STEEP:
        shift = 24 + eplb_prng_below(prng, 40);
        return (int64_t)(eplb_prng_next(prng) >> shift);
    case LOAD_TIES:
        return (int64_t)eplb_prng_below(prng, 4);
    case LOAD_SPARSE:
        return eplb_prng_below(prng, 8) == 0 ? (int64_t)eplb_prng_below(prng, 100) : 0;
    case LOAD_EQUAL:
        return 7;
    case LOAD_HUGE:
        return (int64_t)eplb_prng_below(prng, (uint64_t)EPLB_MAX_LOAD + 1);
    case LOAD_HUGE_TIES:
        return EPLB_MAX_LOAD - (int64_t)eplb_prng_below(prng, 2);
    default:
        return (int64_t)eplb_prng_below(prng, 100000);
    }
}

static void draw_layer(struct eplb_prng *prng, int64_t *logical, int32_t num_experts)
{
    int kind = (int)eplb_prng_below(prng, NUM_LOADS);
    for (int32_t i = 0; i < num_experts; i++)
        logical[i] = draw(prng, kind);
}

static void draw_loads(struct eplb_prng *prng, const struct desk *desk, const int32_t *active)
{
    for (int32_t layer = 0; layer < NUM_LAYERS; layer++) {
        int64_t *logical = desk->logical + (size_t)layer * (size_t)desk->shape.num_experts;
        size_t slots = (size_t)layer * (size_t)desk->shape.num_slots;
        draw_layer(prng, logical, desk->shape.num_experts);
        eplb_split_evenly(&desk->shape, active + slots, logical, desk->scratch, desk->physical + slots);
    }
}

/** Digests the last run and puts into force what it would publish. Returns how many layers. */
static size_t digest_run(struct eplb_planner *planner, const struct eplb_shape *shape, uint64_t *state)
{
    const int32_t *candidates = eplb_planner_candidates(planner);
    const struct eplb_benefit *benefits = eplb_planner_benefits(planner);
    size_t published = 0;
    for (int32_t p = 0; p < NUM_LAYERS * shape->num_slots; p++)
        digest(state, (uint64_t)candidates[p]);
    for (int32_t layer = 0; layer < NUM_LAYERS; layer++) {
        digest_real(state, benefits[layer].current_peak);
        digest_real(state, benefits[layer].candidate_peak);
        digest_real(state, benefits[layer].improvement);
        digest(state, (uint64_t)benefits[layer].sets_changed);
        digest(state, (uint64_t)benefits[layer].publish);
        if (benefits[layer].publish) {
            eplb_planner_commit_layer(planner, layer);
            published++;
        }
    }
    return published;
}

/** Policy runs over a form; two at least, for the second starts from a plan. */
static int rounds_of(size_t policy, size_t form)
{
    int rounds = forms[form].rounds / policies[policy].one_of;
    return rounds < 2 ? 2 : rounds;
}

static int is_planned(size_t policy, size_t form)
{
    return forms[form].num_experts <= policies[policy].most_experts;
}

static struct eplb_planner *open_planner(const char *policy, const struct form *form, int32_t workers,
                                         struct desk *desk)
{
    struct eplb_layer_runner runner = eplb_layer_runner_threads(workers);
    struct eplb_error error;
    struct eplb_planner_params params;
    struct eplb_planner *planner;
    eplb_planner_params_init(&params);
    insist(eplb_shape_init(&params.shape, NUM_LAYERS, form->num_experts, form->ep_size,
                           form->redundant_experts_num, &error),
           &error);
    params.ops = eplb_policy_find(policy).ops;
    params.runner = &runner;
    insist(eplb_planner_create(&params, &planner, &error), &error);
    desk->shape = params.shape;
    desk->logical = room_for((size_t)NUM_LAYERS * (size_t)desk->shape.num_experts, sizeof *desk->logical);
    desk->physical = room_for((size_t)NUM_LAYERS * (size_t)desk->shape.num_slots, sizeof *desk->physical);
    desk->scratch = room_for((size_t)desk->shape.num_experts, sizeof *desk->scratch);
    return planner;
}

static void plan_form(struct run *run, size_t policy, size_t form)
{
    struct desk desk;
    struct eplb_error error;
    struct eplb_prng prng;
    struct eplb_planner *planner = open_planner(policies[policy].name, &forms[form], run->workers, &desk);
    uint64_t state = UINT64_C(0xcbf29ce484222325);
    eplb_prng_seed(&prng, FIRST_SEED + form);
    for (int round = 0; round < rounds_of(policy, form); round++) {
        draw_loads(&prng, &desk, eplb_planner_active(planner));
        insist(eplb_planner_rebalance(planner, desk.logical, desk.physical, &error), &error);
        run->published[policy][form] += digest_run(planner, &desk.shape, &state);
    }
    run->digests[policy][form] = state;
    free(desk.logical);
    free(desk.physical);
    free(desk.scratch);
    eplb_planner_destroy(planner);
}

static void *plan_all(void *argument)
{
    for (size_t policy = 0; policy < NUM_POLICIES; policy++) {
        for (size_t form = 0; form < NUM_FORMS; form++)
            if (is_planned(policy, form))
                plan_form(argument, policy, form);
    }
    return NULL;
}

static void print_run(const struct run *run)
{
    for (size_t policy = 0; policy < NUM_POLICIES; policy++) {
        for (size_t i = 0; i < NUM_FORMS; i++) {
            if (!is_planned(policy, i))
                continue;
            printf("%s experts=%d ep_size=%d redundant=%d layers=%d published=%zu digest=%016" PRIx64 "\n",
                   policies[policy].name, forms[i].num_experts, forms[i].ep_size,
                   forms[i].redundant_experts_num, rounds_of(policy, i) * NUM_LAYERS,
                   run->published[policy][i], run->digests[policy][i]);
        }
    }
}

int main(int argc, char **argv)
{
    static struct run runs[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    long workers = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    if (argc > 3 || count < 1 || count > MAX_THREADS || workers < 1 || workers > NUM_LAYERS) {
        fprintf(stderr, "usage: table_digest [THREADS [WORKERS]], 1 to %d and 1 to %d\n", MAX_THREADS,
                NUM_LAYERS);
        return 2;
    }
    for (long i = 0; i < count; i++) {
        runs[i].workers = (int32_t)workers;
        if (pthread_create(&threads[i], NULL, plan_all, &runs[i]) != 0) {
            fprintf(stderr, "table_digest: cannot start a thread\n");
            return 1;
        }
    }
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (long i = 1; i < count; i++) {
        if (memcmp(&runs[i], &runs[0], sizeof runs[0]) != 0) {
            fprintf(stderr, "table_digest: threads 0 and %ld disagree\n", i);
            return 1;
        }
    }
    print_run(&runs[0]);
    return 0;
}
