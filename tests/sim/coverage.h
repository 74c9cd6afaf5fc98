/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a range of seeds must have met: COUNT(name, what). A clean run prints the list; a row that
 * stays at zero fails it, so that the simulator cannot quietly stop exercising something.
 */
#ifndef SIM_COVERAGE_H
#define SIM_COVERAGE_H

#define SIM_COVERAGE(COUNT)                                                                        \
    COUNT(FORWARDS, "forwards submitted")                                                          \
    COUNT(WARMUPS, "of these graph warm-ups")                                                      \
    COUNT(OVERLAPS, "submitted while another was in flight")                                       \
    COUNT(POLICY_RUNS, "policy runs")                                                              \
    COUNT(SHIFTS, "shifts of the traffic that were found")                                         \
    COUNT(EARLY_ROUNDS, "policy runs after a shift, before the interval ended")                    \
    COUNT(POLICY_FAILURES, "policy runs that failed")                                              \
    COUNT(POLICY_DISCARDED, "policy results after a death")                                        \
    COUNT(RESTARTS, "managers that took over living ranks")                                        \
    COUNT(RESTARTS_OPEN, "of these with a layer preparing, ready or activating")                   \
    COUNT(PREPARES, "prepares handed out")                                                         \
    COUNT(ACTIVATIONS, "activations handed out")                                                   \
    COUNT(BOTH, "commands with activation and prepare")                                            \
    COUNT(OVERLAPPED_ACTIVATIONS, "forwards submitted after an activation and before its output")  \
    COUNT(COMMITS, "layers committed")                                                             \
    COUNT(COMMITS_FAULTLESS, "of these where nothing may go wrong")                                \
    COUNT(ABORTED_FAILED, "layers aborted: prepare failed")                                        \
    COUNT(ABORTED_TIMEOUT, "layers aborted: prepare timeout")                                      \
    COUNT(ABORTED_KEPT, "layers aborted: activation kept")                                         \
    COUNT(ABORTED_STALE, "layers aborted: ready too long and no longer worth it")                  \
    COUNT(ABORTED_DEAD, "layers aborted: a rank died")                                             \
    COUNT(TIMEOUT_IN_FLIGHT, "prepare timeouts without the output of the forward that carried it") \
    COUNT(DROPS, "forwards dropped")                                                               \
    COUNT(DROPS_OF_PREPARE, "dropped with a prepare")                                              \
    COUNT(DROPS_OF_ACTIVATION, "dropped with an activation")                                       \
    COUNT(DROPS_OF_DEAD_ACTIVATION, "dropped with an activation after a death")                    \
    COUNT(LOCAL_MOVES, "slots filled by local copies")                                             \
    COUNT(MESSAGES, "chunks delivered")                                                            \
    COUNT(MESSAGES_LOST, "chunks lost")                                                            \
    COUNT(MESSAGES_FAILED, "operations failed")                                                    \
    COUNT(POSTS_REFUSED, "posts refused")                                                          \
    COUNT(MESSAGES_LATE, "chunks delivered into an operation under cancellation")                  \
    COUNT(MESSAGES_STRAY, "chunks of an earlier attempt in the receiver's mailbox")                \
    COUNT(CANCELLED, "operations cancelled")                                                       \
    COUNT(VOTES_NO, "votes of no")                                                                 \
    COUNT(DEADLINES, "records aborted by a deadline")                                              \
    COUNT(DEADLINES_LATE, "deadlines that found the record decided")                               \
    COUNT(KEPT_HOOK, "kept: materialise failed")                                                   \
    COUNT(KEPT_TRANSFER, "kept: transfer failed")                                                  \
    COUNT(KEPT_DEADLINE, "kept: deadline")                                                         \
    COUNT(KEPT_PEER, "kept: another rank")                                                         \
    COUNT(KEPT_DEAD, "kept: a forward given up")                                                   \
    COUNT(KEPT_STORAGE, "kept: a tensor was registered again")                                     \
    COUNT(KEPT_NO_PLAN, "kept: the plan is not there")                                             \
    COUNT(PREPARES_FAILED, "prepare hooks that failed")                                            \
    COUNT(PREPARES_SLOW, "prepare hooks that were slow")                                           \
    COUNT(PREPARES_HUNG, "prepare hooks that hung")                                                \
    COUNT(PREPARES_CONFUSED, "prepares planned from another base")                                 \
    COUNT(ACTIVATIONS_CONFUSED, "activations of a prepare that the ranks lack")                    \
    COUNT(PREPARES_SUPERSEDED, "prepares replaced before they began")                              \
    COUNT(MATERIALISE_FAILED, "materialise hooks that failed")                                     \
    COUNT(RELOADS, "tensors registered again")                                                     \
    COUNT(OUTPUTS_LOST, "outputs lost")                                                            \
    COUNT(OUTPUTS_TWICE, "outputs that came twice")                                                \
    COUNT(SAMPLES, "samples added")                                                                \
    COUNT(SAMPLES_AHEAD, "samples of a placement that is not committed yet")                       \
    COUNT(SAMPLES_LACKING, "samples without an output")                                            \
    COUNT(SAMPLES_CORRUPT, "samples with a corrupt prefix")                                        \
    COUNT(STUCK, "activations reported as stuck")                                                  \
    COUNT(STUCK_RESOLVED, "of these resolved by a late report")                                    \
    COUNT(PAUSES, "ranks paused")                                                                  \
    COUNT(DEATHS, "ranks killed")                                                                  \
    COUNT(DEATHS_AFTER_YES, "killed after a yes vote on an open record")                           \
    COUNT(DEATHS_AFTER_COMMIT, "killed with a committed activation that was not reported by all")  \
    COUNT(STEPS_ABORTED_BEGUN, "steps given up in the forward")                                    \
    COUNT(STEPS_ABORTED_UNBEGUN, "steps given up before the forward")                              \
    COUNT(IDLE_GAPS, "gaps longer than the prepare timeout with a prepare open")                   \
    COUNT(SOLVES, "solves of weights")                                                             \
    COUNT(WEIGHTS, "weight updates handed out")                                                    \
    COUNT(WEIGHTS_TAKEN, "of these taken by a rank")                                               \
    COUNT(WEIGHTS_IN_PREFILL, "handed out with a forward that is no decode boundary")              \
    COUNT(WEIGHTS_LOST, "in a dropped forward")                                                    \
    COUNT(WEIGHTS_LOST_OLDER, "in a dropped forward after which a newer version was sent")         \
    COUNT(WEIGHTS_AGAIN, "handed out again after a drop")                                          \
    COUNT(WEIGHTS_IN_FLIGHT, "activations handed out while an update of the layer is in flight")   \
    COUNT(WEIGHTS_WAITING, "solved for a layer that is activating")                                \
    COUNT(WEIGHTS_OVERTAKEN, "solved for a placement that was replaced meanwhile")                 \
    COUNT(WEIGHTS_CONFUSED, "weight updates of another generation")                                \
    COUNT(WEIGHTS_ILLEGAL, "weight updates that are not legal")                                    \
    COUNT(WEIGHTS_REFUSED, "of these refused by a rank")                                           \
    COUNT(WEIGHTS_WITH_TABLE, "prepares with weights")

enum sim_count {
#define SIM_COVERAGE_ENUM(name, what) SIM_COUNT_##name,
    SIM_COVERAGE(SIM_COVERAGE_ENUM)
#undef SIM_COVERAGE_ENUM
        SIM_NUM_COUNTS
};

#endif
