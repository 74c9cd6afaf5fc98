/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a model implements so that its experts can move: three hooks. Belongs to src/executor.
 *
 * A hook never votes and never talks to other ranks: the library owns the transfer and the vote.
 *
 * Order, for one plan: prepare_expert_weight, then start_expert_weight_transfer before a forward,
 * then update_expert_weight after it. A plan whose hook failed, that is no longer wanted, or whose
 * activation is refused skips what is between. The plan's table, map and moves do not change while
 * it exists. It ends when update_expert_weight returns, or when prepare_expert_weight is called
 * with another plan in the same place. So a model that keeps something of its own with a plan keeps
 * EPLB_MAX_PLANS of it, indexed by plan->place, and has nothing to free.
 */
#ifndef EPLB_HOOKS_H
#define EPLB_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/migrate.h"
#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The hooks of one rank's model. Owned by the model; outlives the executor. The first three are required;
 * a table that ends before update_replica_weights is as good as one where it is NULL.
 */
struct eplb_model_hooks {
    size_t size;   /**< sizeof(struct eplb_model_hooks). */
    void *context; /**< First argument of every hook. */
    /**
     * Makes ready on the host what the layer needs for the new placement (the plan holds table,
     * map and moves; they are complete). Called from the executor's background thread, one plan at
     * a time, while forwards run and while another layer may be transferring: it must touch neither
     * staging nor weights. May block; a hook that does not return keeps later prepares waiting, and
     * eplb_executor_stop names it. May fail: the plan is then gone. Idempotent.
     */
    enum eplb_status (*prepare_expert_weight)(void *context, const struct eplb_layer_plan *plan,
                                              struct eplb_error *error);
    /**
     * Fills staging with the experts that are resident here; usually
     * eplb_weights_materialise(weights, plan, error). Called from the thread that runs the forward,
     * before it, once per attempt; the messages of the attempt are posted after it. The weights
     * that it reads do not change before update_expert_weight. A failure becomes a vote of no. May
     * block the forward, so it should be copies only.
     */
    enum eplb_status (*start_expert_weight_transfer)(void *context, const struct eplb_layer_plan *plan,
                                                     struct eplb_error *error);
    /**
     * Told the decision, after the forward, in its thread. commit 1: copy staging into the active
     * tensors in place (usually eplb_weights_activate) and switch the layer's log2phy, only by
     * copies and stores that cannot fail. commit 0: drop what prepare made. Never blocks. commit is
     * 1 only after start_expert_weight_transfer succeeded and all messages have arrived. A model that
     * spreads tokens by weight takes plan->replica_weights with the switch, as version 0.
     */
    void (*update_expert_weight)(void *context, const struct eplb_layer_plan *plan, int commit);
    /**
     * New weights for the replicas of the layer's present placement: the share of expert e's tokens that
     * slot p gets is weights[p] / EPLB_WEIGHT_UNIT. Called in start_step, in the forward's thread; the
     * forward that follows is the first one under them, on all ranks. Copies what it needs; cannot fail;
     * never blocks. Optional: without it every weight update is ignored, and the versions stay 0.
     *
     * @param layer      layer row
     * @param generation of the placement that the layer runs
     * @param version    above the one before it; dispatches carry both
     * @param weights    [num_slots], each > 0, adding up to the unit per expert; valid until it returns
     */
    void (*update_replica_weights)(void *context, int32_t layer, uint64_t generation, uint64_t version,
                                   const int32_t *weights);
};

#ifdef __cplusplus
}
#endif
#endif
