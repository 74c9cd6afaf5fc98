/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The one call for an engine that moves weights in its own way: counts in, placements out.
 */
#include <stdio.h>
#include <stdlib.h>

#include "eplb/plan.h"

enum { LAYERS = 2, EXPERTS = 8, RANKS = 8, REDUNDANT = 1, SLOTS = 16 };

int main(void)
{
    static const int64_t load[LAYERS][EXPERTS] = {{600, 560, 120, 120, 20, 10, 10, 10},
                                                  {100, 100, 100, 100, 100, 100, 100, 100}};
    int32_t expert_ids[LAYERS][RANKS][SLOTS / RANKS];
    struct eplb_plan_layer layers[LAYERS];
    struct eplb_plan_request request;
    struct eplb_plan plan;
    struct eplb_error error;
    eplb_plan_request_init(&request);
    if (eplb_shape_init(&request.shape, LAYERS, EXPERTS, RANKS, REDUNDANT, &error) != EPLB_OK)
        return fprintf(stderr, "%s\n", error.text), 1;
    request.policy = eplb_policy_find("minmax").ops;
    request.load = load[0];
    eplb_plan_init(&plan);
    plan.expert_ids = expert_ids[0][0];
    plan.layers = layers;
    void *scratch = malloc(eplb_plan_scratch(&request));
    if (scratch == NULL || eplb_plan(&request, scratch, &plan, &error) != EPLB_OK)
        return fprintf(stderr, "%s\n", scratch == NULL ? "no memory" : error.text), 1;
    free(scratch);
    for (int layer = 0; layer < LAYERS; layer++) {
        printf("layer %d: peak %.2f -> %.2f, mean %.2f, %d slots to move: %s\n ", layer,
               layers[layer].benefit.current_peak, layers[layer].balance.peak, layers[layer].balance.mean,
               (int)layers[layer].migration.moved_slots, layers[layer].benefit.publish ? "publish" : "keep");
        for (int rank = 0; rank < RANKS; rank++)
            printf(" [%d %d]", (int)expert_ids[layer][rank][0], (int)expert_ids[layer][rank][1]);
        printf("\n");
    }
    return 0;
}
