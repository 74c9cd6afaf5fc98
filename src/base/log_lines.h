/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The one table of log lines: prefix and keys, in the order in which they are printed.
 *
 * LINE(id, level, prefix, number of keys, "key", "key", ...)
 */
#ifndef BASE_LOG_LINES_H
#define BASE_LOG_LINES_H

#define EPLB_LOG_LINES(LINE)                                                                                 \
    LINE(WARNING, WARNING, "EPLB warning", 1, "message")                                                     \
    LINE(MANAGER_START, INFO, "EPLB manager start", 4, "policy", "num_layers", "ep_size", "slots_per_rank")  \
    LINE(REBALANCE, INFO, "EPLB rebalance", 4, "policy", "policy_ms", "layers_to_update", "num_layers")      \
    LINE(TRAFFIC_SHIFT, INFO, "EPLB traffic shift", 7, "num_departed", "num_judged", "layers", "layer",      \
         "score", "promised_balance", "measured_balance")                                                    \
    LINE(HEARTBEAT, INFO, "EPLB heartbeat", 8, "path", "rank", "tasks_ok_since_last",                        \
         "tasks_failed_since_last", "layers_completed", "layers_timed_out", "last_sample_age_s",             \
         "last_tokens")                                                                                      \
    LINE(MEMORY_PLAN, INFO, "EPLB memory plan", 8, "rank", "weights", "redundant_slots", "staging",          \
         "kv_cache", "graph_pool", "activations", "total")                                                   \
    LINE(EXECUTION, WARNING, "EPLB execution", 4, "option", "asked", "used", "reason")                       \
    LINE(STAGING_WARMED, INFO, "EPLB staging reservation warmed", 3, "rank", "bytes", "tensors")             \
    LINE(LAYER_COMMITTED, INFO, "EPLB layer committed", 2, "layer", "generation")                            \
    LINE(LAYER_ABORTED, WARNING, "EPLB layer aborted", 2, "layer", "reason")                                 \
    LINE(PREPARE_EXPERT_WEIGHT, INFO, "prepare_expert_weight", 7, "layer", "rank", "prepare_token",          \
         "table_size", "ms", "status", "reason")                                                             \
    LINE(MATERIALIZE_EXPERT_WEIGHT, INFO, "materialize_expert_weight", 5, "layer", "rank",                   \
         "activation_token", "ms", "status")                                                                 \
    LINE(UPDATE_EXPERT_WEIGHT, INFO, "update_expert_weight", 11, "layer", "rank", "activation_token",        \
         "mc2_mode", "changed_slots", "p2p_messages", "transfer_ms", "activation_ms", "total_ms", "outcome", \
         "reason")                                                                                           \
    LINE(PLACEMENT_BENEFIT, INFO, "EPLB placement benefit", 12, "layer", "policy", "current_peak",           \
         "candidate_peak", "improvement", "threshold", "verdict", "unbounded_peak", "moved_slots",           \
         "sent_slots", "bytes", "break_even_forwards")                                                       \
    LINE(PLACEMENT_OUTCOME, INFO, "EPLB placement outcome", 7, "layer", "generation", "forwards",            \
         "predicted_peak", "even_split_peak", "measured_peak", "mean")

#endif
