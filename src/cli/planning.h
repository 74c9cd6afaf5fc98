/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What the commands that plan or run begin with: options, load, policy, placement to start from.
 */
#ifndef CLI_PLANNING_H
#define CLI_PLANNING_H

#include "config/command_line.h"
#include "config/pages.h"
#include "eplb/policy.h"
#include "trace/load_file.h"
#include "trace/placement_file.h"

/** Reads flags and --config_json_file; enable_eplb is true here unless it is given. */
enum eplb_status eplb_planning_options(struct eplb_config *config, enum eplb_command_id command, int argc,
                                       char **argv, struct eplb_error *error);

/** Reads the flags and the file of --config_json_file into a config that was made for its command. */
enum eplb_status eplb_planning_parse(struct eplb_config *config, int argc, char **argv,
                                     struct eplb_error *error);

/** Prints the page that --help, --man, --version or --dump_config asks for; false when none was asked for. */
bool eplb_planning_page(const struct eplb_config *config, const struct eplb_command_doc *doc);

/** A recording is not to be lost to a mistyped name: refuses an --output that is the file of --load. */
enum eplb_status eplb_planning_check_output(const struct eplb_config *config, struct eplb_error *error);

/** Refuses a command line without --load or --ep_size. */
enum eplb_status eplb_planning_check_given(const struct eplb_config *config, struct eplb_error *error);

/** The same, and reads the file of --load; says what is doubtful about it. */
enum eplb_status eplb_planning_load(const struct eplb_config *config, struct eplb_load *load,
                                    struct eplb_error *error);

/** Forwards a status; its reason, which names no file, gets the name. */
enum eplb_status eplb_planning_name_file(enum eplb_status status, const char *path,
                                         const struct eplb_error *reason, struct eplb_error *error);

/** The sizes that options and load give together. */
enum eplb_status eplb_planning_shape(const struct eplb_config *config, const struct eplb_load *load,
                                     struct eplb_shape *shape, struct eplb_error *error);

/** Tables that a placement file may replace. */
struct eplb_planning_tables {
    const struct eplb_shape *shape;
    const int32_t *layer_ids;   /* [num_layers] as the file numbers layers; NULL: 0, 1, ... */
    const char *owner;          /* what has these layers: "load", "model" */
    const char *weights_remark; /* why a file's weights are not used, after "FILE has weights" */
    int32_t *expert_ids;        /* [num_layers][num_slots]; a layer that the file lacks stays as it is */
    int32_t *weights;           /* the same of a file with weights; NULL: they are not used */
};

/**
 * Puts a file's rows into the tables, by the numbers of the layers. Says what of the file is not used, and
 * what it lacks.
 */
enum eplb_status eplb_planning_tables(const char *path, const struct eplb_planning_tables *tables,
                                      struct eplb_error *error);

/**
 * The placement to start from, of the load's layers: from the file of --current or --initial_placement, else
 * the default one. Weights are there where the routing uses them: the file's, else equal ones. Says what of
 * the file is not used: nothing is dropped without a word.
 *
 * @param current must be zeroed; free it with eplb_placement_file_free, also on failure
 */
enum eplb_status eplb_planning_current(const struct eplb_config *config, const struct eplb_load *load,
                                       const struct eplb_shape *shape, struct eplb_placement_file *current,
                                       struct eplb_error *error);

/** Gives the layers whose weights are 0 equal ones. Both tables are [num_layers][num_slots]. */
enum eplb_status eplb_planning_fill_weights(const struct eplb_shape *shape, const int32_t *expert_ids,
                                            int32_t *weights, struct eplb_error *error);

/** Says the effective options, and which have no effect. */
void eplb_planning_say_options(const struct eplb_config *config);

/** The policy of eplb_policy_kind; warns of an unknown one. */
const struct eplb_policy_ops *eplb_planning_policy(const struct eplb_config *config);

/** What the options tell a policy beside the load. */
struct eplb_policy_settings eplb_planning_settings(const struct eplb_config *config);

/** How tokens are routed; static when balancing is off. The option was checked when it was read. */
enum eplb_replica_routing eplb_planning_routing(const struct eplb_config *config);

/** Whether a policy's plans come with weights whatever the routing is. */
bool eplb_planning_is_robust(const struct eplb_policy_ops *policy);

/**
 * Warns when the policy's placements are not made for the way in which tokens are routed, and when groups and
 * nodes were given that it cannot use.
 */
void eplb_planning_say_mismatch(const struct eplb_config *config, const struct eplb_policy_ops *policy,
                                const struct eplb_shape *shape);

/** Defaults, and all that the options say; not the shape and where it starts. The runner is kept. */
void eplb_planning_params(const struct eplb_config *config, const struct eplb_policy_ops *policy,
                          const struct eplb_layer_runner *runner, struct eplb_planner_params *params);

#endif
