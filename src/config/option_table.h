/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The one table of options. Parsing, ranges, help, man page, --dump_config and the line at start
 * come from these rows. ROW(name, type, column = value, ...); the columns are the members of
 * struct eplb_option in option.h, and one that is not named is 0.
 *
 * Three sections:
 *   engine    flags of every command and keys of the JSON file; fields of struct eplb_options
 *   command   flags only; fields of struct eplb_command_options
 *   reserved  names that later work will use; giving one is refused
 */
#ifndef CONFIG_OPTION_TABLE_H
#define CONFIG_OPTION_TABLE_H

#include <stdint.h>

/* clang-format off */
#define EPLB_ENGINE_OPTIONS(ROW)                                                                             \
    ROW(enable_eplb, BOOL, .default_text = "false",                                                          \
        .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_RUNTIME,                                        \
        .doc = "Balance the load of the MoE experts while serving. Without it there are no redundant slots.")\
    ROW(redundant_experts_num, INT, .default_text = "1", .minimum = 0, .maximum = INT32_MAX, .word = "N",    \
        .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                                        \
        .doc = "Redundant physical slots of each EP rank (per rank, not in total).")                         \
    ROW(eplb_update_interval, INT, .default_text = "1000", .minimum = 0, .maximum = INT32_MAX,               \
        .word = "SECONDS", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                     \
        .doc = "Seconds from the first load sample, and then from one run of the policy to the next; "       \
               "0 is at once.")                                                                              \
    ROW(eplb_min_peak_load_improvement, REAL, .default_text = "0.05", .minimum = 0, .maximum = 1,            \
        .word = "SHARE", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                       \
        .doc = "Share of the slowest rank's load that a candidate placement must save to be published; "     \
               "an equal share publishes.")                                                                  \
    ROW(eplb_policy_kind, NAME, .default_text = "balanced", .word = "NAME",                                  \
        .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                                        \
        .doc = "Policy that computes the placements: balanced or greedy, in any case. Older names such as "  \
               "flat and hier mean balanced; an unknown one means greedy, with a warning.")                  \
    ROW(eplb_use_decode_only_load, BOOL, .default_text = "false",                                            \
        .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_RUNTIME,                                        \
        .doc = "Count decode tokens only; prefill rows of mixed batches are filtered out.")                  \
    ROW(eplb_prepare_timeout_seconds, INT, .default_text = "30", .minimum = 1, .maximum = INT32_MAX,         \
        .word = "SECONDS", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                     \
        .doc = "How long all ranks may take to prepare a layer before it is skipped and rolled back.")       \
    ROW(expert_parallel_degree, INT, .default_text = "0", .minimum = 0, .maximum = 2, .word = "N",           \
        .group = EPLB_GROUP_PARALLELISM, .reader = EPLB_READER_RUNTIME,                                      \
        .doc = "EP level: 0 and 1 gather all tokens on every rank, 2 sends each token to the ranks that "    \
               "hold its experts.")                                                                          \
    ROW(enable_fused_mc2, INT, .default_text = "-1", .minimum = -1, .maximum = 2, .word = "N",               \
        .group = EPLB_GROUP_PARALLELISM, .reader = EPLB_READER_RUNTIME,                                      \
        .doc = "Execution of a MoE layer: 0 separate dispatch, grouped GEMM and combine, 1 fused and "       \
               "pipelined, 2 fused for all-decode batches, -1 automatic: 1 with expert_parallel_degree=2, "  \
               "else 0.")                                                                                    \
    ROW(ep_size, INT, .default_text = "1", .minimum = 1, .maximum = INT32_MAX, .word = "N",                  \
        .group = EPLB_GROUP_PARALLELISM, .reader = EPLB_READER_RUNTIME,                                      \
        .doc = "Number of EP ranks; it must equal the number of workers, divide the number of experts, "     \
               "and be at least 2 with enable_eplb.")                                                        \
    ROW(instance_name, NAME, .default_text = "eplb", .word = "NAME", .accepts = eplb_is_word,                \
        .rule = "1 to 32 letters, digits, '-' or '_'",                                                       \
        .commands = EPLB_FOR(SHM_LS) | EPLB_FOR(SHM_CLEAN) | EPLB_FOR(SHM),                                  \
        .group = EPLB_GROUP_PROCESSES, .reader = EPLB_READER_RUNTIME,                                        \
        .doc = "Keeps runs on one machine apart: the names of a run's shared memory carry it.")

#define EPLB_COMMAND_OPTIONS(ROW)                                                                            \
    ROW(load, TEXT, .word = "FILE", .rule = "the name of a file", .commands = EPLB_FOR(PLAN),                \
        .doc = "Recorded load to plan for: eplb-load-1 JSON, CSV, or .npy.")                                 \
    ROW(current, TEXT, .word = "FILE", .rule = "the name of a file", .commands = EPLB_FOR(PLAN),             \
        .doc = "Placement that is active now (eplb-placement-1 JSON); without it the initial placement.")    \
    ROW(output, TEXT, .word = "FILE", .rule = "the name of a file", .commands = EPLB_FOR(PLAN),              \
        .doc = "Write the placement there and not on standard output.")                                      \
    ROW(keep_unpublished, BOOL, .default_text = "false", .commands = EPLB_FOR(PLAN),                         \
        .doc = "Write a layer's current placement where the gate does not publish its candidate.")           \
    ROW(step, TEXT, .word = "N|last", .rule = "the number of a step, or last", .commands = EPLB_FOR(PLAN),   \
        .doc = "Use one step of the file; without it all steps are added up.")                               \
    ROW(verbose, BOOL, .default_text = "false", .commands = EPLB_FOR(PLAN),                                  \
        .doc = "Write one log line per layer with the gate's figures and verdict.")                          \
    ROW(config_json_file, TEXT, .word = "FILE", .rule = "the name of a file", .commands = EPLB_FOR(PLAN),    \
        .doc = "Read options from a JSON object; flags win over it.")                                        \
    ROW(dump_config, BOOL, .default_text = "false", .commands = EPLB_FOR(PLAN),                              \
        .doc = "Print the effective options and their sources as such a JSON object, and exit.")             \
    ROW(json, BOOL, .default_text = "false",                                                                 \
        .commands = EPLB_FOR(SHM_LS) | EPLB_FOR(SHM_INSPECT) | EPLB_FOR(SHM),                                \
        .doc = "Print a JSON object instead of lines.")                                                      \
    ROW(shm_directory, TEXT, .default_text = "/dev/shm", .word = "DIR", .rule = "the name of a directory",   \
        .commands = EPLB_FOR(SHM_LS) | EPLB_FOR(SHM_INSPECT) | EPLB_FOR(SHM_CLEAN) | EPLB_FOR(SHM),          \
        .doc = "Directory of the shared-memory segments.")                                                   \
    ROW(help, BOOL, .default_text = "false", .doc = "Print this help, and exit.")                            \
    ROW(man, BOOL, .default_text = "false", .doc = "Print the manual page in roff, and exit.")               \
    ROW(version, BOOL, .default_text = "false", .doc = "Print the version, and exit.")

#define EPLB_RESERVED_OPTIONS(ROW)                                                                           \
    ROW(eplb_replica_routing, TEXT, .doc = "how tokens choose among the replicas of their expert")           \
    ROW(eplb_transfer_timeout_seconds, INT, .doc = "deadline of a layer's weight transfer")                  \
    ROW(eplb_transfer_chunk_bytes, INT, .doc = "size of one transfer message")                               \
    ROW(eplb_transfer_inflight_bytes, INT, .doc = "bound of the bytes in flight")                            \
    ROW(eplb_max_bytes_per_step, INT, .doc = "bound of the bytes moved per forward")                         \
    ROW(eplb_max_moves_per_layer, INT, .doc = "bound of the moves of one layer")                             \
    ROW(eplb_expert_bytes, INT, .doc = "size of one expert's weights")                                       \
    ROW(eplb_max_break_even_steps, INT, .doc = "forwards within which a migration must pay")                 \
    ROW(eplb_num_groups, INT, .doc = "expert groups of hierarchical balancing")                              \
    ROW(eplb_num_nodes, INT, .doc = "nodes of hierarchical balancing")                                       \
    ROW(eplb_shift_trigger, REAL, .doc = "departure from the promised balance that starts a round early")    \
    ROW(eplb_min_tokens_per_layer, INT, .doc = "tokens a layer's window needs before it is planned for")     \
    ROW(eplb_cost_per_active_slot, REAL, .doc = "cost of a slot that receives a token")                      \
    ROW(eplb_cost_per_token, REAL, .doc = "cost of one token")                                               \
    ROW(eplb_update_interval_steps, INT, .doc = "the update interval in forwards")                           \
    ROW(initial_placement, TEXT, .doc = "file of the placement to start from")                               \
    ROW(process_group, TEXT, .doc = "transport between the ranks")                                           \
    ROW(node_of_rank, TEXT, .doc = "the node that each rank runs on")                                        \
    ROW(on_rank_failure, TEXT, .doc = "what a rank's death means")                                           \
    ROW(rank_silence_timeout_seconds, INT, .doc = "silence after which a rank is named")                     \
    ROW(enable_graph, BOOL, .doc = "replay captured decode graphs")                                          \
    ROW(max_graph_batch, INT, .doc = "largest captured decode batch")                                        \
    ROW(enable_schedule_overlap, BOOL, .doc = "schedule a forward while another runs")                       \
    ROW(memory_limit, INT, .doc = "bound of a rank's memory plan")
/* clang-format on */

#define EPLB_OPTION_TABLE(ROW) \
    EPLB_ENGINE_OPTIONS(ROW)   \
    EPLB_COMMAND_OPTIONS(ROW)  \
    EPLB_RESERVED_OPTIONS(ROW)

/**
 * The commands that parse options: COMMAND(id, name, whether it takes all of the engine's options, word
 * for the one argument that is no option, or NULL). Of several that have an option, the first is named
 * as its owner.
 */
#define EPLB_COMMANDS(COMMAND)                              \
    COMMAND(TOP, "eplb", false, NULL)                       \
    COMMAND(PLAN, "eplb plan", true, NULL)                  \
    COMMAND(SHM_LS, "eplb shm ls", false, NULL)             \
    COMMAND(SHM_INSPECT, "eplb shm inspect", false, "NAME") \
    COMMAND(SHM_CLEAN, "eplb shm clean", false, NULL)       \
    COMMAND(SHM, "eplb shm", false, NULL)

#endif
