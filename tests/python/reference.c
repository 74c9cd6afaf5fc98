/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The C functions behind the Python package, called by lines on standard input, so that the package's
 * results can be compared with those of C. Every request is answered with one line of numbers:
 *
 *   sizes                                                       sizes of the structs that Python mirrors
 *   deepseek L E P groups nodes gpus remove_repeats WEIGHT...    phy2log, logcnt, width, log2phy
 *   plan L E R redundant policy groups nodes max_moves LOAD... ACTIVE... PHYSICAL...
 *                                                               expert ids, weights, replicas, figures
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eplb/deepseek.h"
#include "eplb/plan.h"

static _Noreturn void give_up(const char *why)
{
    fprintf(stderr, "reference: %s\n", why);
    exit(1);
}

static int64_t number(void)
{
    int64_t value;
    if (scanf("%" SCNd64, &value) != 1)
        give_up("a whole number is missing");
    return value;
}

static void *room(size_t count, size_t size)
{
    void *block = aligned_alloc(64, (count * size + 64) / 64 * 64);
    if (block == NULL)
        give_up("out of memory");
    return block;
}

static void print_all(const int64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%" PRId64 " ", values[i]);
}

static void print_all32(const int32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%" PRId32 " ", values[i]);
}

static void answer_sizes(void)
{
    printf("%zu %zu %zu %zu %zu %zu %zu\n", sizeof(struct eplb_error), sizeof(struct eplb_shape),
           sizeof(struct eplb_policy_settings), sizeof(struct eplb_plan_request),
           sizeof(struct eplb_plan_layer), sizeof(struct eplb_plan), sizeof(struct eplb_deepseek_sizes));
}

static void answer_deepseek(void)
{
    int64_t given[7];
    struct eplb_deepseek_sizes sizes;
    struct eplb_error error;
    for (int i = 0; i < 7; i++)
        given[i] = number();
    if (eplb_deepseek_sizes_init(&sizes, given[0], given[1], given[2], given[3], given[4], given[5],
                                 &error) != EPLB_OK)
        give_up(error.text);
    const size_t experts = (size_t)(given[0] * given[1]);
    const size_t slots = (size_t)(given[0] * given[2]);
    float *weight = room(experts, sizeof *weight);
    int64_t *phy2log = room(slots, sizeof *phy2log);
    int64_t *phyrank = room(slots, sizeof *phyrank);
    int64_t *logcnt = room(experts, sizeof *logcnt);
    void *scratch = room(1, eplb_deepseek_scratch(&sizes));
    for (size_t i = 0; i < experts; i++)
        weight[i] = (float)number();
    if (eplb_deepseek_rebalance(&sizes, weight, (int)given[6], scratch, phy2log, phyrank, logcnt, &error) !=
        EPLB_OK)
        give_up(error.text);
    const int64_t width = eplb_deepseek_width(&sizes, logcnt);
    int64_t *log2phy = room(experts * (size_t)width, sizeof *log2phy);
    if (eplb_deepseek_log2phy(&sizes, phy2log, phyrank, width, log2phy, &error) != EPLB_OK)
        give_up(error.text);
    print_all(phy2log, slots);
    print_all(logcnt, experts);
    print_all(&width, 1);
    print_all(log2phy, experts * (size_t)width);
    printf("\n");
    free(weight);
    free(phy2log);
    free(phyrank);
    free(logcnt);
    free(log2phy);
    free(scratch);
}

/** Reals in hexadecimal: nothing is rounded. */
static void print_figures(const struct eplb_plan_layer *layer)
{
    printf("%a %a %a ", layer->balance.peak, layer->balance.mean, layer->balance.lower_bound);
    printf("%a %a %a %d %d ", layer->benefit.current_peak, layer->benefit.candidate_peak,
           layer->benefit.improvement, layer->benefit.sets_changed, layer->benefit.publish);
    printf("%" PRId32 " %" PRId32 " %" PRId64 " %a %a %d %a ", layer->migration.moved_slots,
           layer->migration.sent_slots, layer->migration.bytes, layer->migration.seconds,
           layer->migration.break_even_forwards, layer->migration.pays, layer->unbounded_peak);
}

static void plan(struct eplb_plan_request *request)
{
    const size_t experts = (size_t)request->shape.num_layers * (size_t)request->shape.num_experts;
    const size_t slots = (size_t)request->shape.num_layers * (size_t)request->shape.num_slots;
    struct eplb_error error;
    struct eplb_plan result;
    eplb_plan_init(&result);
    result.expert_ids = room(slots, sizeof *result.expert_ids);
    result.weights = room(slots, sizeof *result.weights);
    result.replicas = room(experts, sizeof *result.replicas);
    result.layers = room((size_t)request->shape.num_layers, sizeof *result.layers);
    void *scratch = room(1, eplb_plan_scratch(request));
    if (eplb_plan(request, scratch, &result, &error) != EPLB_OK)
        give_up(error.text);
    print_all32(result.expert_ids, slots);
    print_all32(result.weights, slots);
    print_all32(result.replicas, experts);
    for (int32_t layer = 0; layer < request->shape.num_layers; layer++)
        print_figures(&result.layers[layer]);
    printf("\n");
    free(result.expert_ids);
    free(result.weights);
    free(result.replicas);
    free(result.layers);
    free(scratch);
}

static int64_t *numbers(size_t count)
{
    int64_t *all = room(count + 1, sizeof *all);
    for (size_t i = 0; i < count; i++)
        all[i] = number();
    return all;
}

static void answer_plan(void)
{
    int64_t given[4];
    char policy[32];
    struct eplb_error error;
    struct eplb_plan_request request;
    eplb_plan_request_init(&request);
    for (int i = 0; i < 4; i++)
        given[i] = number();
    if (eplb_shape_init(&request.shape, given[0], given[1], given[2], given[3], &error) != EPLB_OK)
        give_up(error.text);
    if (scanf("%31s", policy) != 1)
        give_up("a policy is missing");
    request.policy = eplb_policy_find(policy).ops;
    request.settings.num_groups = (int32_t)number();
    request.settings.num_nodes = (int32_t)number();
    request.max_moves = (int32_t)number();
    request.num_history = (int32_t)number();
    request.num_parts = (int32_t)number();
    request.replica_routing = (enum eplb_replica_routing)number();
    request.cost = (struct eplb_migration_cost){.expert_bytes = 1000000,
                                                .bytes_per_second = 1e9,
                                                .seconds_per_token = 1e-6,
                                                .num_forwards = 10,
                                                .max_break_even_forwards = 100};
    const size_t experts = (size_t)(given[0] * given[1]);
    const size_t slots = (size_t)given[0] * (size_t)request.shape.num_slots;
    int64_t *load = room(experts, sizeof *load);
    int32_t *active = room(slots, sizeof *active);
    int64_t *physical = room(slots, sizeof *physical);
    int64_t *history = numbers((size_t)request.num_history * experts);
    int64_t *parts = numbers((size_t)request.num_parts * experts);
    for (size_t i = 0; i < experts; i++)
        load[i] = number();
    for (size_t i = 0; i < slots; i++)
        active[i] = (int32_t)number();
    for (size_t i = 0; i < slots; i++)
        physical[i] = number();
    request.load = load;
    request.active = active;
    request.physical = physical;
    request.history = history;
    request.parts = parts;
    plan(&request);
    free(load);
    free(active);
    free(physical);
    free(history);
    free(parts);
}

int main(void)
{
    char word[16];
    while (scanf("%15s", word) == 1) {
        if (strcmp(word, "sizes") == 0)
            answer_sizes();
        else if (strcmp(word, "deepseek") == 0)
            answer_deepseek();
        else if (strcmp(word, "plan") == 0)
            answer_plan();
        else
            give_up("neither sizes, deepseek nor plan");
    }
    return fflush(stdout) != 0;
}
