/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a plan brings, told to a person.
 */
#ifndef CLI_PLAN_SUMMARY_H
#define CLI_PLAN_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/routed.h"
#include "trace/placement_file.h"

/** A finished plan. All tables are [num_layers][ep_size][slots_per_rank]. */
struct eplb_plan_view {
    struct eplb_shape shape;
    const char *policy;
    struct eplb_routed *routed; /* how tokens are routed */
    double threshold;
    const int32_t *layer_ids;                          /* [num_layers] */
    const int64_t *load;                               /* [num_layers][num_experts] */
    const int32_t *before;                             /* what is active now */
    const int32_t *before_weights;                     /* NULL: equal ones */
    const int32_t *after;                              /* what is written */
    const int32_t *after_weights;                      /* likewise */
    const struct eplb_placement_prediction *predicted; /* [num_layers] of it, with cuts and replicas */
    const struct eplb_placement_verdict *verdicts;     /* [num_layers]; NULL when balancing is off */
    int32_t max_moves;                                 /* of a layer; 0: no limit */
    int32_t max_break_even;                            /* forwards; 0: off */
    bool all_copies;                                   /* name the copied experts of every layer */
};

/** Writes the summary; EPLB_NO_MEMORY when it cannot. */
enum eplb_status eplb_plan_summary(FILE *file, const struct eplb_plan_view *plan, struct eplb_error *error);

#endif
