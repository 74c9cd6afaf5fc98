/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Plans in one call: all layers of a model, the caller's memory, no state kept between calls.
 * Belongs to src/policy.
 *
 * An engine that has its own way of moving weights needs this header only: counts go in, placements
 * and what they bring come out.
 *
 *     struct eplb_plan_request request;
 *     struct eplb_plan plan;
 *     eplb_plan_request_init(&request);           the defaults
 *     if (eplb_shape_init(&request.shape, num_layers, num_experts, ep_size, redundant, &error) != EPLB_OK)
 *         ... say error.text ...
 *     request.policy = eplb_policy_find("minmax").ops;  or balanced, greedy, deepseek, robust, one's own
 *     request.load = counts;                      tokens of each expert in each layer, [L][E]
 *     request.active = running;                   what runs now, [L][R][K]
 *     eplb_plan_init(&plan);                      nothing is wanted yet
 *     plan.expert_ids = placements;               [L][R][K], to be written
 *     plan.layers = figures;                      [L], to be written
 *     void *scratch = malloc(eplb_plan_scratch(&request));  to be freed; kept from call to call
 *     if (scratch == NULL || eplb_plan(&request, scratch, &plan, &error) != EPLB_OK)
 *         ... say error.text ...
 *     for each layer with figures[layer].benefit.publish: make its placement the running one
 *
 * An engine that routes by weights or divides every batch asks for `robust`, says how it routes
 * (replica_routing), and gives the windows before this one (history): see eplb/routing.h.
 *
 * The scratch memory serves any number of calls with the same shape, policy, settings, max_moves and number
 * of threads. `redundant` is the number of redundant slots of each rank, not of all of them together.
 *
 * Shapes: L = num_layers, E = num_experts, R = ep_size, K = slots_per_rank; a global slot is
 * rank * K + local slot, and K = E / R + redundant. A placement says which expert each slot holds: every
 * expert is in one slot at least and in no rank twice. An expert's replicas are the slots that hold it; its
 * tokens are split evenly over them, or by weights.
 */
#ifndef EPLB_PLAN_H
#define EPLB_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/placement.h"
#include "eplb/policy.h"
#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What to plan. Set by eplb_plan_request_init, then changed by the caller; everything is borrowed. */
struct eplb_plan_request {
    size_t size;                          /**< sizeof(struct eplb_plan_request). */
    struct eplb_shape shape;              /**< Filled by eplb_shape_init. No default. */
    const struct eplb_policy_ops *policy; /**< Default balanced. */
    struct eplb_policy_settings settings; /**< What the policy is told beside the load. */
    const int64_t *load;                  /**< [L][E] tokens, each in [0, EPLB_MAX_LOAD]. No default. */
    const int32_t *active;           /**< Legal table [L][R][K] that runs now; NULL: the initial placement. */
    const int64_t *physical;         /**< [L][R][K] measured under it; NULL: the exact even split of load. */
    double min_improvement;          /**< The gate's threshold, in [0, 1]; default 0.05. */
    int32_t max_moves;               /**< Slots of a layer that may change; 0 (default): any number. */
    struct eplb_migration_cost cost; /**< What moving a slot costs; default: unknown. */
    int32_t num_threads;             /**< In [1, 1024]; default 1: everything in the calling thread. */
    const int64_t *history; /**< [num_history][L][E] windows before this one, oldest first; NULL: none. */
    int32_t num_history;    /**< 0 (default) to EPLB_MAX_POLICY_WINDOWS. */
    const int64_t *parts; /**< [num_parts][L][E] the window of load in pieces, oldest first; NULL: unknown. */
    int32_t num_parts;    /**< 0 (default) to EPLB_MAX_POLICY_WINDOWS. */
    enum eplb_replica_routing replica_routing; /**< What the gate judges for; default static. */
};

/** What the plan of one layer brings. */
struct eplb_plan_layer {
    struct eplb_balance balance;     /**< Of the new placement under even split: peak, mean, lower bound. What
                                          it comes to as tokens are routed is benefit.candidate_peak. */
    struct eplb_benefit benefit;     /**< The gate's figures and verdict. */
    struct eplb_migration migration; /**< Slots to move, bytes, forwards until that has paid. */
    double unbounded_peak;           /**< The benefit.candidate_peak of the plan that max_moves did not allow;
                                          that of this one where it did. */
    enum eplb_status status;         /**< EPLB_OK, or how the policy failed: the layer stays as it is. */
};

/** Where to write. Set by eplb_plan_init; arrays are the caller's, one that is NULL is not wanted. */
struct eplb_plan {
    size_t size;                    /**< sizeof(struct eplb_plan). */
    int32_t *expert_ids;            /**< [L][R][K] placements. Required. */
    int32_t *weights;               /**< [L][R][K] in units of 1 / EPLB_WEIGHT_UNIT: the policy's; without,
                                         as eplb_planner_weights says. */
    int32_t *replicas;              /**< [L][E] replicas of each expert. */
    struct eplb_plan_layer *layers; /**< [L] figures. NULL: no gate is passed and no time spent on it. */
};

/** Writes the defaults. */
EPLB_API void eplb_plan_request_init(struct eplb_plan_request *request);

/** Makes a result that wants nothing. */
EPLB_API void eplb_plan_init(struct eplb_plan *plan);

/**
 * Bytes of scratch memory that eplb_plan needs, aligned as malloc does or not at all; SIZE_MAX for a request
 * that eplb_plan refuses for anything but its arrays. Thread-safe.
 */
EPLB_API size_t eplb_plan_scratch(const struct eplb_plan_request *request);

/**
 * Plans all layers.
 *
 * A layer without load keeps its placement; so does one whose policy fails, and its status says so: the
 * other layers are planned all the same. Every candidate is written, whatever the gate says of it:
 * `layers[i].benefit.publish` is the verdict. Where a candidate would change more than max_moves slots, what
 * is found within them is written, and unbounded_peak says what that costs.
 *
 * The same request gives the same tables and figures with any number of threads. Thread-safe: no state is
 * kept, nothing is allocated, and only what `plan` points to and `scratch` are written. With num_threads
 * above 1, up to num_threads - 1 threads are started and joined within the call, at most one per layer; it
 * then wants 64 KiB of stack.
 *
 * @param scratch eplb_plan_scratch(request) bytes of any content
 * @param plan    its arrays overlap neither each other nor those of the request
 * @return EPLB_OK; EPLB_INVALID with a sentence when the request is not as described above: nothing is
 *         written then; the status of the first layer whose policy failed, with a sentence that begins
 *         `policy NAME, layer ROW:`
 */
EPLB_API enum eplb_status eplb_plan(const struct eplb_plan_request *request, void *scratch,
                                    struct eplb_plan *plan, struct eplb_error *error);

#ifdef __cplusplus
}
#endif
#endif
