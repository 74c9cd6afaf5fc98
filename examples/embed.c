/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <stdio.h>

#include "eplb/load.h"
#include "eplb/policy.h"

static int fail(const struct eplb_error *error)
{
    fprintf(stderr, "%s\n", error->text);
    return 1;
}

int main(void)
{
    struct eplb_error error;
    struct eplb_planner_params params;
    struct eplb_planner *planner;
    struct eplb_aggregator *aggregator;
    struct eplb_sample_result result;
    eplb_planner_params_init(&params);
    /* 1 layer of 4 experts on 2 ranks, 1 redundant slot on each: 3 slots per rank */
    if (eplb_shape_init(&params.shape, 1, 4, 2, 1, &error) ||
        eplb_planner_create(&params, &planner, &error) ||
        eplb_aggregator_create(&params.shape, 0, eplb_planner_active(planner), NULL, NULL, &aggregator,
                               &error))
        return fail(&error);

    /* What the two workers report after a forward: prefix sums of tokens per slot, and which
     * generation of the placement each layer ran under. Initially rank 0 holds experts 0, 1 and 2,
     * rank 1 holds 2, 3 and 0; expert 0 is hot, and so is rank 0. */
    const int64_t prefix[2][3] = {{90, 100, 105}, {5, 15, 25}};
    const uint64_t generation = 0;
    const struct eplb_rank_report reports[2] = {
        {.prefix = prefix[0], .generations = &generation, .num_layers = 1, .slots_per_rank = 3},
        {.prefix = prefix[1], .generations = &generation, .num_layers = 1, .slots_per_rank = 3}};
    if (eplb_aggregator_add(aggregator, &(struct eplb_sample){reports, 2}, &result, &error))
        return fail(&error);

    eplb_aggregator_close_window(aggregator);
    const struct eplb_window *window = eplb_aggregator_closed(aggregator);
    if (eplb_planner_rebalance(planner, window->logical, window->physical, &error))
        return fail(&error);
    const struct eplb_benefit *benefit = eplb_planner_benefits(planner);
    const int32_t *candidate = eplb_planner_candidates(planner);
    printf("peak %g -> %g: %s [%d %d %d] [%d %d %d]\n", benefit->current_peak, benefit->candidate_peak,
           benefit->publish ? "publish" : "keep", candidate[0], candidate[1], candidate[2], candidate[3],
           candidate[4], candidate[5]);
    eplb_aggregator_destroy(aggregator);
    eplb_planner_destroy(planner);
    return 0;
}
