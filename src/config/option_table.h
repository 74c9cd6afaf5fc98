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

/* Limits of the rows, as the column holds them: 2^62, and what a rank's batch is sized by. */
#define EPLB_MOST_BYTES 4611686018427387904.0
#define EPLB_MOST_ROWS 1048576
#define EPLB_MOST_COST 1000000
#define EPLB_MOST_DEVIATIONS 1000

/* clang-format off */
#if EPLB_TEST_BUILD
#define EPLB_INJECT_OPTION(ROW)                                                                              \
    ROW(inject, TEXT, .word = "wrong-slot", .rule = "wrong-slot", .commands = EPLB_FOR(RUN),                 \
        .doc = "Test builds: leave a wrong expert in a slot at the first switch, which --verify must find.")
#else
#define EPLB_INJECT_OPTION(ROW)
#endif

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
        .doc = "Policy that computes the placements: balanced, greedy, deepseek, minmax or robust, in any "  \
               "case. robust is for eplb_replica_routing=weighted, adaptive or batch. Older names such as "  \
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
    ROW(eplb_update_interval_steps, INT, .default_text = "0", .minimum = 0, .maximum = INT32_MAX,            \
        .word = "FORWARDS", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                    \
        .doc = "The update interval in forwards instead of seconds, for traces and tests; 0: in seconds.")   \
    ROW(eplb_transfer_timeout_seconds, INT, .default_text = "10", .minimum = 1, .maximum = INT32_MAX,        \
        .word = "SECONDS", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                     \
        .doc = "How long a layer's weights may travel before all ranks keep what they have.")                \
    ROW(eplb_transfer_chunk_bytes, WIDE, .default_text = "4194304", .minimum = 1,                            \
        .maximum = EPLB_MOST_BYTES, .word = "BYTES", .group = EPLB_GROUP_BALANCING,                          \
        .reader = EPLB_READER_RUNTIME, .doc = "Size of one transfer message at most.")                       \
    ROW(eplb_transfer_inflight_bytes, WIDE, .default_text = "67108864", .minimum = 1,                        \
        .maximum = EPLB_MOST_BYTES, .word = "BYTES", .group = EPLB_GROUP_BALANCING,                          \
        .reader = EPLB_READER_RUNTIME,                                                                       \
        .doc = "Bytes that a rank may have under way at a time, at least one message.")                      \
    ROW(eplb_max_moves_per_layer, INT, .default_text = "0", .minimum = 0, .maximum = INT32_MAX,              \
        .word = "N", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                           \
        .doc = "Slots of a layer that a candidate may change; what is found within them takes its place. 0: "\
               "no limit.")                                                                                  \
    ROW(eplb_expert_bytes, WIDE, .default_text = "0", .minimum = 0, .maximum = EPLB_MOST_BYTES,              \
        .word = "BYTES", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                       \
        .doc = "Bytes of one expert's weights in one layer, which moving it costs; 0: from the model, "      \
               "unknown where there is none.")                                                               \
    ROW(eplb_bandwidth_bytes_per_second, WIDE, .default_text = "0", .minimum = 0,                            \
        .maximum = EPLB_MOST_BYTES, .word = "N", .group = EPLB_GROUP_BALANCING,                              \
        .reader = EPLB_READER_MANAGER,                                                                       \
        .doc = "Bytes per second that a rank receives during a migration; 0: measured while serving, "       \
               "unknown before.")                                                                            \
    ROW(eplb_max_break_even_steps, INT, .default_text = "0", .minimum = 0, .maximum = INT32_MAX,             \
        .word = "FORWARDS", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                    \
        .doc = "Do not publish a candidate whose gain pays for its migration only after more forwards; what "\
               "cannot be told yet is not refused. 0: off.")                                                 \
    ROW(eplb_num_groups, INT, .default_text = "1", .minimum = 1, .maximum = INT32_MAX, .word = "N",          \
        .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                                        \
        .doc = "Of eplb_policy_kind=deepseek: groups of experts that stay together on a node.")              \
    ROW(eplb_num_nodes, INT, .default_text = "1", .minimum = 1, .maximum = INT32_MAX, .word = "N",           \
        .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                                        \
        .doc = "Of eplb_policy_kind=deepseek: nodes that the ranks are spread over evenly.")                 \
    ROW(initial_placement, PATH, .word = "FILE", .rule = "the name of a file, or nothing",                   \
        .group = EPLB_GROUP_PARALLELISM, .reader = EPLB_READER_RUNTIME,                                      \
        .doc = "Placement to start from (eplb-placement-1 JSON), as eplb plan writes it; a layer that it "   \
               "lacks starts from the default one.")                                                         \
    ROW(enable_schedule_overlap, BOOL, .default_text = "false",                                              \
        .group = EPLB_GROUP_PARALLELISM, .reader = EPLB_READER_RUNTIME,                                      \
        .doc = "Hand out a forward while the one before it is still running.")                               \
    ROW(instance_name, NAME, .default_text = "eplb", .word = "NAME", .accepts = eplb_is_word,                \
        .rule = "1 to 32 letters, digits, '-' or '_'",                                                       \
        .commands = EPLB_FOR(SHM_LS) | EPLB_FOR(SHM_CLEAN) | EPLB_FOR(SHM),                                  \
        .group = EPLB_GROUP_PROCESSES, .reader = EPLB_READER_RUNTIME,                                        \
        .doc = "Keeps runs on one machine apart: the names of a run's shared memory carry it.")              \
    ROW(process_group, NAME, .default_text = "shm", .word = "NAME", .accepts = eplb_is_process_group,        \
        .rule = "shm (there is no mpi, ucx, nccl or hccl yet)",                                              \
        .group = EPLB_GROUP_PROCESSES, .reader = EPLB_READER_RUNTIME,                                        \
        .doc = "Transport between the ranks.")                                                               \
    ROW(rank_silence_timeout_seconds, INT, .default_text = "30", .minimum = 1, .maximum = INT32_MAX,         \
        .word = "SECONDS", .group = EPLB_GROUP_PROCESSES, .reader = EPLB_READER_RUNTIME,                     \
        .doc = "A rank whose heartbeat is quiet for so long is killed and named; must exceed "               \
               "eplb_transfer_timeout_seconds.")                                                             \
    ROW(memory_limit, WIDE, .default_text = "0", .minimum = 0, .maximum = EPLB_MOST_BYTES,                   \
        .word = "BYTES", .group = EPLB_GROUP_PROCESSES, .reader = EPLB_READER_RUNTIME,                       \
        .doc = "Refuse to start when a rank's memory plan is larger; 0: no limit.")                          \
    ROW(eplb_replica_routing, NAME, .default_text = "static", .word = "NAME",                                \
        .accepts = eplb_is_replica_routing, .rule = "static, local, weighted, adaptive or batch",            \
        .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                                        \
        .doc = "How tokens choose among the replicas of their expert: static, one replica for each source "  \
               "rank; local, one on the source's rank or else its node; weighted, by the placement's "       \
               "weights; adaptive, by weights that follow the recent load; batch, by the best split of "     \
               "each batch.")                                                                                \
    ROW(eplb_cost_per_active_slot, INT, .default_text = "0", .minimum = 0, .maximum = EPLB_MOST_COST,        \
        .word = "COST", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_RUNTIME,                        \
        .doc = "With eplb_replica_routing=batch, what a slot costs that receives a token, because its "      \
               "weights must be read; in the unit of eplb_cost_per_token.")                                  \
    ROW(eplb_cost_per_token, INT, .default_text = "1", .minimum = 1, .maximum = EPLB_MOST_COST,              \
        .word = "COST", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_RUNTIME,                        \
        .doc = "With eplb_replica_routing=batch, what a token costs.")                                       \
    ROW(node_of_rank, PATH, .word = "LIST", .rule = "numbers separated by commas, or nothing",               \
        .group = EPLB_GROUP_PARALLELISM, .reader = EPLB_READER_RUNTIME,                                      \
        .doc = "The node that each rank runs on, a number for each; or one number, the ranks of a node. "    \
               "Nothing: all on one node.")                                                                  \
    ROW(eplb_shift_trigger, REAL, .default_text = "0", .minimum = 0, .maximum = EPLB_MOST_DEVIATIONS,        \
        .word = "Z", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                           \
        .doc = "Plan before the interval ends when the traffic departs from what the placements were "       \
               "planned from by so many standard deviations, in half of the layers, and their balance from " \
               "the promised one. Chance alone stays below 5; 12 also rides out the drift of one kind of "   \
               "traffic. 0: off.")                                                                           \
    ROW(eplb_min_tokens_per_layer, WIDE, .default_text = "0", .minimum = 0, .maximum = EPLB_MOST_BYTES,      \
        .word = "N", .group = EPLB_GROUP_BALANCING, .reader = EPLB_READER_MANAGER,                           \
        .doc = "Counts that a layer's window must have before the policy runs, a token once for each expert "\
               "that it went to. 0: any number, and 128 for each expert after a shift of the traffic.")

#define EPLB_COMMAND_OPTIONS(ROW)                                                                            \
    ROW(load, TEXT, .word = "FILE", .rule = "the name of a file",                                            \
        .commands = EPLB_FOR(PLAN) | EPLB_FOR(REPLAY),                                                       \
        .doc = "Recorded load to plan for: eplb-load-1 JSON, CSV, .npy, or routed ids (NAME.ids.u8 or "      \
               "NAME.ids.u16 with NAME.json).")                                                              \
    ROW(current, TEXT, .word = "FILE", .rule = "the name of a file",                                         \
        .commands = EPLB_FOR(PLAN) | EPLB_FOR(REPLAY),                                                       \
        .doc = "Placement that is active now (eplb-placement-1 JSON); without it the initial placement.")    \
    ROW(output, TEXT, .word = "FILE", .rule = "the name of a file",                                          \
        .commands = EPLB_FOR(PLAN) | EPLB_FOR(REPLAY),                                                       \
        .doc = "Write the placement there and not on standard output; of eplb replay the one that is "       \
               "active in the end.")                                                                         \
    ROW(keep_unpublished, BOOL, .default_text = "false", .commands = EPLB_FOR(PLAN),                         \
        .doc = "Write a layer's current placement where the gate does not publish its candidate.")           \
    ROW(step, TEXT, .word = "N|last", .rule = "the number of a step, or last", .commands = EPLB_FOR(PLAN),   \
        .doc = "Use one step of the file; without it all steps are added up. Of routed ids a step is a "     \
               "phase, counted from 0.")                                                                     \
    ROW(phase, TEXT, .word = "NAME", .rule = "the name of a phase", .commands = EPLB_FOR(PLAN),              \
        .doc = "Use one phase of routed ids, by its name.")                                                  \
    ROW(window, INT, .default_text = "0", .minimum = 0, .maximum = INT32_MAX, .word = "N",                   \
        .commands = EPLB_FOR(REPLAY),                                                                        \
        .doc = "Steps of the recording that are added up to one window; of routed ids without sequences a "  \
               "token is a step. 0: each step of a load file, each phase of routed ids.")                    \
    ROW(seconds_per_token, REAL, .default_text = "0", .minimum = 0, .maximum = 1e6, .word = "SECONDS",       \
        .commands = EPLB_FOR(PLAN) | EPLB_FOR(REPLAY),                                                       \
        .doc = "What one token more on the slowest rank of a layer costs a forward; 0: unknown, and with it "\
               "when a migration has paid.")                                                                 \
    ROW(forwards, WIDE, .default_text = "0", .minimum = 0, .maximum = EPLB_MOST_BYTES, .word = "N",          \
        .commands = EPLB_FOR(PLAN) | EPLB_FOR(REPLAY),                                                       \
        .doc = "Forwards that the load was counted over, of eplb replay those of a window; 0: unknown.")     \
    ROW(threads, INT, .default_text = "1", .minimum = 1, .maximum = 1024, .word = "N",                       \
        .commands = EPLB_FOR(PLAN) | EPLB_FOR(REPLAY),                                                       \
        .doc = "Threads that plan layers; the plans are the same with any number.")                          \
    ROW(events, TEXT, .word = "FILE", .rule = "the name of a file", .commands = EPLB_FOR(REPLAY),            \
        .doc = "Recorded events of a run, to go through the manager once more.")                             \
    ROW(model, TEXT, .word = "FILE", .rule = "the name of a file", .commands = EPLB_FOR(RUN),                \
        .doc = "Shapes of the reference model (eplb-model-1 JSON); without it a small one.")                 \
    ROW(prompts, TEXT, .word = "FILE", .rule = "the name of a file", .commands = EPLB_FOR(RUN),              \
        .doc = "Text to serve, each byte a token; without it a built-in text whose topic changes twice.")    \
    ROW(routing, TEXT, .default_text = "model", .word = "model|skew|trace", .rule = "model, skew or trace",  \
        .commands = EPLB_FOR(RUN),                                                                           \
        .doc = "Where tokens go: to the experts that the model's router chooses, by made-up popularities "   \
               "(see --skew), or where those of a recording went (see --route_trace).")                      \
    ROW(route_trace, TEXT, .word = "FILE", .rule = "the name of a file", .commands = EPLB_FOR(RUN),          \
        .doc = "Recorded routed ids to replay with --routing=trace: NAME.ids.u8 or NAME.ids.u16, with "      \
               "NAME.json. Layers, experts and top-k are the recording's.")                                  \
    ROW(route_trace_repeat, INT, .default_text = "1", .minimum = 1, .maximum = 1000000, .word = "N",         \
        .commands = EPLB_FOR(RUN), .doc = "Times that each phase of the recording is gone through.")         \
    ROW(sequences, INT, .default_text = "0", .minimum = 0, .maximum = EPLB_MOST_ROWS, .word = "N",           \
        .commands = EPLB_FOR(RUN),                                                                           \
        .doc = "Sequences that --routing=trace replays side by side, a decode token of each per forward; "   \
               "when the recording has fewer, copies begin at other steps of a phase. 0: as many as the "    \
               "recording has, or one per rank when it has none.")                                           \
    ROW(record, TEXT, .word = "PREFIX", .rule = "the beginning of file names", .commands = EPLB_FOR(RUN),    \
        .doc = "Record the routed ids of all tokens in PREFIX.ids.u8 (or .u16) and PREFIX.json, and, with "  \
               "enable_eplb, what the manager was told and did in PREFIX.events. With --verify of the run "  \
               "with balancing.")                                                                            \
    ROW(skew, TEXT, .word = "zipf:S|lognormal:S|FILE", .commands = EPLB_FOR(RUN),                            \
        .rule = "zipf:S or lognormal:S with S from 0 to 8, or the name of a load file",                      \
        .doc = "Popularities of the experts with --routing=skew: drawn with the seed for three phases of "   \
               "the run, or the steps of a recorded load, each a phase.")                                    \
    ROW(seed, WIDE, .default_text = "1", .minimum = 0, .maximum = EPLB_MOST_BYTES, .word = "N",              \
        .commands = EPLB_FOR(RUN), .doc = "Decides the text, the lengths and the popularities.")             \
    ROW(steps, WIDE, .default_text = "1000", .minimum = 0, .maximum = EPLB_MOST_BYTES, .word = "N",          \
        .commands = EPLB_FOR(RUN),                                                                           \
        .doc = "Forwards to run; 0: until SIGINT or SIGTERM. With --routing=trace, when it is not given, "   \
               "the length of the recording.")                                                               \
    ROW(max_rows, INT, .default_text = "64", .minimum = 1, .maximum = EPLB_MOST_ROWS, .word = "N",           \
        .commands = EPLB_FOR(RUN), .doc = "Rows of one rank's batch at most.")                               \
    ROW(num_caches, INT, .default_text = "8", .minimum = 1, .maximum = EPLB_MOST_ROWS, .word = "N",          \
        .commands = EPLB_FOR(RUN),                                                                           \
        .doc = "Sequences that a rank serves at a time, at most as many as rows.")                           \
    ROW(prompt_tokens, INT, .default_text = "32", .minimum = 1, .maximum = 16777216, .word = "N",            \
        .commands = EPLB_FOR(RUN), .doc = "Longest prompt.")                                                 \
    ROW(new_tokens, INT, .default_text = "32", .minimum = 1, .maximum = 16777216, .word = "N",               \
        .commands = EPLB_FOR(RUN), .doc = "Most tokens that follow a prompt.")                               \
    ROW(admit_interval, INT, .default_text = "32", .minimum = 1, .maximum = INT32_MAX, .word = "N",          \
        .commands = EPLB_FOR(RUN),                                                                           \
        .doc = "Forwards between admissions of new sequences. Layers switch between them, when no prompt "   \
               "is on its way.")                                                                             \
    ROW(busy_ranks, INT, .default_text = "0", .minimum = 0, .maximum = INT32_MAX, .word = "N",               \
        .commands = EPLB_FOR(RUN),                                                                           \
        .doc = "Ranks that get sequences, the others take part with empty batches; 0: all.")                 \
    ROW(verify, BOOL, .default_text = "false", .commands = EPLB_FOR(RUN),                                    \
        .doc = "Run the same without balancing as well and compare all tokens and the bits of their "        \
               "logits; check every expert slot after every switch. Exit code 3 when something differs.")    \
    ROW(dry_run, BOOL, .default_text = "false", .commands = EPLB_FOR(RUN),                                   \
        .doc = "Print what memory each rank needs, and exit.")                                               \
    ROW(summary_json, TEXT, .word = "FILE", .rule = "the name of a file, or - for standard output",          \
        .commands = EPLB_FOR(RUN), .doc = "Write the summary there as JSON; - is standard output.")          \
    ROW(log, TEXT, .word = "FILE", .rule = "the name of a file", .commands = EPLB_FOR(RUN),                  \
        .doc = "Append the log lines of engine and workers there. Without it they go to standard error, "    \
               "of which a terminal shows warnings only.")                                                   \
    ROW(verbose, BOOL, .default_text = "false",                                                              \
        .commands = EPLB_FOR(PLAN) | EPLB_FOR(RUN) | EPLB_FOR(REPLAY),                                       \
        .doc = "Write one log line per layer with the gate's figures and verdict; eplb run writes all log "  \
               "lines to the terminal, in place of its view.")                                               \
    ROW(config_json_file, TEXT, .word = "FILE", .rule = "the name of a file",                                \
        .commands = EPLB_FOR(PLAN) | EPLB_FOR(RUN) | EPLB_FOR(REPLAY),                                       \
        .doc = "Read options from a JSON object; flags win over it.")                                        \
    ROW(dump_config, BOOL, .default_text = "false",                                                          \
        .commands = EPLB_FOR(PLAN) | EPLB_FOR(RUN) | EPLB_FOR(REPLAY),                                       \
        .doc = "Print the effective options and their sources as such a JSON object, and exit.")             \
    ROW(json, BOOL, .default_text = "false",                                                                 \
        .commands = EPLB_FOR(SHM_LS) | EPLB_FOR(SHM_INSPECT) | EPLB_FOR(SHM) | EPLB_FOR(REPLAY),             \
        .doc = "Print a JSON object instead of lines.")                                                      \
    ROW(shm_directory, TEXT, .default_text = "/dev/shm", .word = "DIR", .rule = "the name of a directory",   \
        .commands = EPLB_FOR(RUN) | EPLB_FOR(SHM_LS) | EPLB_FOR(SHM_INSPECT) | EPLB_FOR(SHM_CLEAN) |         \
                    EPLB_FOR(SHM),                                                                           \
        .doc = "Directory of the shared-memory segments.")                                                   \
    EPLB_INJECT_OPTION(ROW)                                                                                  \
    ROW(help, BOOL, .default_text = "false", .doc = "Print this help, and exit.")                            \
    ROW(man, BOOL, .default_text = "false", .doc = "Print the manual page in roff, and exit.")               \
    ROW(version, BOOL, .default_text = "false", .doc = "Print the version, and exit.")

#define EPLB_RESERVED_OPTIONS(ROW)                                                                           \
    ROW(eplb_max_bytes_per_step, INT, .doc = "bound of the bytes moved per forward")                         \
    ROW(on_rank_failure, TEXT, .doc = "what a rank's death means")                                           \
    ROW(enable_graph, BOOL, .doc = "replay captured decode graphs")                                          \
    ROW(max_graph_batch, INT, .doc = "largest captured decode batch")
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
    COMMAND(RUN, "eplb run", true, NULL)                    \
    COMMAND(SHM_LS, "eplb shm ls", false, NULL)             \
    COMMAND(SHM_INSPECT, "eplb shm inspect", false, "NAME") \
    COMMAND(SHM_CLEAN, "eplb shm clean", false, NULL)       \
    COMMAND(SHM, "eplb shm", false, NULL)                   \
    COMMAND(REPLAY, "eplb replay", true, NULL)

#endif
