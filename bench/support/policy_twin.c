/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/policy_twin.h"

#include <stdlib.h>
#include <string.h>

#include "policy/plain.h"
#include "support/bench.h"
#include "unit/policy/deepseek_twin.h"

static void run_plain(const struct eplb_policy_ops *ops, const struct eplb_shape *shape, const int64_t *load,
                      const int32_t *active, int32_t *table)
{
    struct eplb_policy_settings settings;
    eplb_policy_settings_init(&settings);
    struct eplb_policy_problem problem = {
        .size = sizeof problem, .shape = shape, .settings = &settings, .load = load, .active = active};
    struct eplb_policy_answer answer = {.size = sizeof answer, .expert_ids = table};
    void *scratch = aligned_alloc(64, (ops->scratch_size(shape, &settings) + 127) / 64 * 64);
    struct eplb_error error;
    if (scratch == NULL || ops->plan_layer(&problem, scratch, &answer, &error) != EPLB_OK)
        eplb_bench_fail("a plain twin has no plan");
    free(scratch);
}

static void plan_deepseek(const struct eplb_shape *shape, const int64_t *load, int32_t *table)
{
    static struct twin_plan plan;
    static float weight[EPLB_TWIN_SLOTS];
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        weight[expert] = (float)load[expert];
    twin_rebalance(weight, shape->num_experts, shape->num_slots, 1, 1, shape->ep_size, &plan);
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        table[slot] = (int32_t)plan.phy2log[slot];
}

/** A placement under search: shares of the even split and what each rank carries. */
struct search {
    const struct eplb_shape *shape;
    int32_t *table;
    double share[EPLB_TWIN_SLOTS]; /* of each expert */
    double sums[EPLB_TWIN_SLOTS];  /* of each rank */
};

static int holds(const struct search *search, int32_t rank, int32_t expert)
{
    for (int32_t slot = 0; slot < search->shape->slots_per_rank; slot++)
        if (search->table[rank * search->shape->slots_per_rank + slot] == expert)
            return 1;
    return 0;
}

static int32_t fullest(const struct search *search)
{
    int32_t rank = 0;
    for (int32_t other = 1; other < search->shape->ep_size; other++)
        rank = search->sums[other] > search->sums[rank] ? other : rank;
    return rank;
}

/** Does the best swap between the fullest rank and any other; returns 0 when none lowers the fuller one. */
static int swap_best(struct search *search)
{
    int32_t per_rank = search->shape->slots_per_rank;
    int32_t from = fullest(search);
    int32_t best_own = -1;
    int32_t best_other = -1;
    double best = search->sums[from] * (1 - 1e-12);
    for (int32_t own = from * per_rank; own < (from + 1) * per_rank; own++)
        for (int32_t other = 0; other < search->shape->num_slots; other++) {
            int32_t to = other / per_rank;
            double moved = search->share[search->table[own]] - search->share[search->table[other]];
            double left = search->sums[from] - moved;
            double grown = search->sums[to] + moved;
            double larger = left > grown ? left : grown;
            if (to == from || larger >= best || holds(search, to, search->table[own]) ||
                holds(search, from, search->table[other]))
                continue;
            best = larger;
            best_own = own;
            best_other = other;
        }
    if (best_own < 0)
        return 0;
    int32_t expert = search->table[best_own];
    double moved = search->share[expert] - search->share[search->table[best_other]];
    search->table[best_own] = search->table[best_other];
    search->table[best_other] = expert;
    search->sums[from] -= moved;
    search->sums[best_other / per_rank] += moved;
    return 1;
}

static void plan_minmax(const struct eplb_shape *shape, const int64_t *load, const int32_t *active,
                        int32_t *table)
{
    static struct search search;
    int32_t replicas[EPLB_TWIN_SLOTS];
    run_plain(&eplb_plain_greedy, shape, load, active, table);
    eplb_placement_replicas(shape, table, replicas);
    search.shape = shape;
    search.table = table;
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        search.share[expert] = (double)load[expert] / replicas[expert];
    memset(search.sums, 0, sizeof search.sums);
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        search.sums[slot / shape->slots_per_rank] += search.share[table[slot]];
    while (swap_best(&search))
        continue;
}

void eplb_policy_twin(const char *policy, const struct eplb_shape *shape, const int64_t *load,
                      const int32_t *active, int32_t *table)
{
    if (strcmp(policy, "balanced") == 0)
        run_plain(&eplb_plain_balanced, shape, load, active, table);
    else if (strcmp(policy, "greedy") == 0)
        run_plain(&eplb_plain_greedy, shape, load, active, table);
    else if (strcmp(policy, "deepseek") == 0)
        plan_deepseek(shape, load, table);
    else
        plan_minmax(shape, load, active, table);
}
