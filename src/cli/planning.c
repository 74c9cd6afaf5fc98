/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/planning.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/config_file.h"
#include "cli/nodes.h"
#include "os/file.h"
#include "policy/deepseek.h"
#include "trace/ids_file.h"

enum eplb_status eplb_planning_options(struct eplb_config *config, enum eplb_command_id command, int argc,
                                       char **argv, struct eplb_error *error)
{
    struct eplb_source unless_given = {.kind = EPLB_SOURCE_DEFAULT};
    eplb_config_init(config, command);
    EPLB_TRY(eplb_options_set_bool(&config->options, "enable_eplb", true, unless_given, error));
    return eplb_planning_parse(config, argc, argv, error);
}

enum eplb_status eplb_planning_parse(struct eplb_config *config, int argc, char **argv,
                                     struct eplb_error *error)
{
    EPLB_TRY(eplb_config_parse(config, argc, argv, error));
    if (config->own.config_json_file == NULL)
        return EPLB_OK;
    char unused[EPLB_UNUSED_KEYS_TEXT];
    EPLB_TRY(eplb_config_file_read(config->own.config_json_file, config, unused, error));
    if (unused[0] != '\0')
        eplb_cli_note("%s: keys that are not used here: %s", config->own.config_json_file, unused);
    return EPLB_OK;
}

bool eplb_planning_page(const struct eplb_config *config, const struct eplb_command_doc *doc)
{
    if (eplb_cli_page(config, doc))
        return true;
    struct eplb_text_sink pages = eplb_cli_pages(stdout);
    if (config->own.dump_config)
        eplb_dump_write(&config->options, &pages);
    return config->own.dump_config;
}

enum eplb_status eplb_planning_check_output(const struct eplb_config *config, struct eplb_error *error)
{
    const char *output = config->own.output;
    const char *load = config->own.load;
    if (output == NULL || load == NULL)
        return EPLB_OK;
    bool lost = eplb_file_is_same(output, load);
    if (!lost && eplb_ids_is_name(load)) {
        char *sidecar = eplb_ids_sidecar_path(load);
        if (sidecar == NULL)
            EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the name of the sidecar of %s", eplb_input_name(load));
        lost = eplb_file_is_same(output, sidecar);
        free(sidecar);
    }
    if (lost)
        EPLB_FAIL(EPLB_USAGE, "--output=%s is the file of --load; the recording would be lost",
                  eplb_input_name(output));
    return EPLB_OK;
}

enum eplb_status eplb_planning_check_given(const struct eplb_config *config, struct eplb_error *error)
{
    const char *command = eplb_command_name(config->command);
    if (config->own.load == NULL)
        EPLB_FAIL(EPLB_USAGE, "--load=FILE is missing: the recorded load to plan for (see %s --help)",
                  command);
    if (!eplb_options_was_given(&config->options, "ep_size"))
        EPLB_FAIL(EPLB_USAGE, "--ep_size=N is missing: the number of EP ranks to plan for (see %s --help)",
                  command);
    return EPLB_OK;
}

enum eplb_status eplb_planning_load(const struct eplb_config *config, struct eplb_load *load,
                                    struct eplb_error *error)
{
    EPLB_TRY(eplb_planning_check_given(config, error));
    EPLB_TRY(eplb_load_read(config->own.load, load, error));
    if (load->warning[0] != '\0')
        eplb_cli_warn("%s", load->warning);
    return EPLB_OK;
}

enum eplb_status eplb_planning_name_file(enum eplb_status status, const char *path,
                                         const struct eplb_error *reason, struct eplb_error *error)
{
    if (status != EPLB_OK)
        EPLB_FAIL(status, "%s: %s", eplb_input_name(path), reason->text);
    return EPLB_OK;
}

enum eplb_status eplb_planning_shape(const struct eplb_config *config, const struct eplb_load *load,
                                     struct eplb_shape *shape, struct eplb_error *error)
{
    const struct eplb_options *options = &config->options;
    int32_t *node_of_rank;
    EPLB_TRY(eplb_options_check(options, load->num_experts, 0, error));
    /* Nothing is planned by nodes, but what eplb run would refuse is not taken without a word. */
    enum eplb_status status = eplb_nodes_read(options, &node_of_rank, error);
    free(node_of_rank);
    if (status != EPLB_OK)
        return status;
    return eplb_shape_init(shape, load->num_layers, load->num_experts, options->ep_size,
                           eplb_options_effective_redundancy(options), error);
}

/** The row of a layer id; -1 when there is none. */
static int32_t row_of(const int32_t *layer_ids, int32_t num_layers, int32_t id)
{
    for (int32_t row = 0; row < num_layers; row++)
        if ((layer_ids == NULL ? row : layer_ids[row]) == id)
            return row;
    return -1;
}

/** A layer's weights, where the file has them and somebody wants them. */
static void take_weights(const struct eplb_placement_file *given, int32_t row,
                         const struct eplb_planning_tables *tables, int32_t layer)
{
    size_t slots = (size_t)tables->shape->num_slots;
    if (given->weights != NULL && tables->weights != NULL)
        memcpy(tables->weights + (size_t)layer * slots, given->weights + (size_t)row * slots,
               slots * sizeof *given->weights);
}

static void take_layers(const char *path, const struct eplb_placement_file *given,
                        const struct eplb_planning_tables *tables)
{
    int32_t num_layers = tables->shape->num_layers;
    size_t slots = (size_t)tables->shape->num_slots;
    if (given->weights != NULL && tables->weights == NULL)
        eplb_cli_warn("%s has weights%s", eplb_input_name(path), tables->weights_remark);
    for (int32_t row = 0; row < given->shape.num_layers; row++)
        if (row_of(tables->layer_ids, num_layers, given->layer_ids[row]) < 0)
            eplb_cli_warn("%s has layer %d, which the %s has not; it is left out", eplb_input_name(path),
                          given->layer_ids[row], tables->owner);
    for (int32_t layer = 0; layer < num_layers; layer++) {
        int32_t id = tables->layer_ids == NULL ? layer : tables->layer_ids[layer];
        int32_t row = eplb_placement_file_row(given, id);
        if (row < 0) {
            eplb_cli_warn("%s has no layer %d; it starts from the initial placement", eplb_input_name(path),
                          id);
            continue;
        }
        memcpy(tables->expert_ids + (size_t)layer * slots, given->expert_ids + (size_t)row * slots,
               slots * sizeof *given->expert_ids);
        take_weights(given, row, tables, layer);
    }
}

enum eplb_status eplb_planning_tables(const char *path, const struct eplb_planning_tables *tables,
                                      struct eplb_error *error)
{
    const struct eplb_shape *shape = tables->shape;
    struct eplb_placement_file given = {0};
    EPLB_TRY(eplb_placement_file_read(path, &given, error));
    struct eplb_error reason;
    enum eplb_status status = eplb_placement_file_match(&given, shape->num_experts, shape->ep_size,
                                                        shape->redundant_experts_num, &reason);
    status = eplb_planning_name_file(status, path, &reason, error);
    if (status == EPLB_OK)
        take_layers(path, &given, tables);
    eplb_placement_file_free(&given);
    return status;
}

/** The file of the placement to start from; NULL: none. */
static const char *current_file(const struct eplb_config *config)
{
    if (config->own.current != NULL)
        return config->own.current;
    return config->options.initial_placement[0] == '\0' ? NULL : config->options.initial_placement;
}

enum eplb_status eplb_planning_fill_weights(const struct eplb_shape *shape, const int32_t *expert_ids,
                                            int32_t *weights, struct eplb_error *error)
{
    int32_t *scratch = calloc((size_t)shape->num_experts, sizeof *scratch);
    if (scratch == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the replicas of %d experts", shape->num_experts);
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        size_t first = (size_t)layer * (size_t)shape->num_slots;
        if (weights[first] == 0)
            eplb_weights_equal(shape, expert_ids + first, scratch, weights + first);
    }
    free(scratch);
    return EPLB_OK;
}

enum eplb_status eplb_planning_current(const struct eplb_config *config, const struct eplb_load *load,
                                       const struct eplb_shape *shape, struct eplb_placement_file *current,
                                       struct eplb_error *error)
{
    const char *path = current_file(config);
    bool with_weights = eplb_planning_routing(config) >= EPLB_ROUTING_WEIGHTED;
    EPLB_TRY(eplb_placement_file_init(current, shape, with_weights, error));
    memcpy(current->layer_ids, load->layer_ids, (size_t)load->num_layers * sizeof *load->layer_ids);
    if (path == NULL)
        return EPLB_OK;
    const struct eplb_planning_tables tables = {
        .shape = shape,
        .layer_ids = current->layer_ids,
        .owner = "load",
        .weights_remark = ", which eplb_replica_routing does not use; loads count as split evenly here",
        .expert_ids = current->expert_ids,
        .weights = current->weights};
    if (with_weights)
        memset(current->weights, 0,
               (size_t)shape->num_layers * (size_t)shape->num_slots * sizeof *current->weights);
    EPLB_TRY(eplb_planning_tables(path, &tables, error));
    return with_weights ? eplb_planning_fill_weights(shape, current->expert_ids, current->weights, error)
                        : EPLB_OK;
}

void eplb_planning_say_options(const struct eplb_config *config)
{
    char list[1024];
    eplb_options_log(&config->options, eplb_cli_log());
    if (eplb_options_without_effect(&config->options, list, sizeof list) > 0)
        eplb_cli_warn("enable_eplb is false, so these have no effect: %s", list);
}

struct eplb_policy_settings eplb_planning_settings(const struct eplb_config *config)
{
    struct eplb_policy_settings settings;
    eplb_policy_settings_init(&settings);
    settings.num_groups = config->options.eplb_num_groups;
    settings.num_nodes = config->options.eplb_num_nodes;
    return settings;
}

static struct eplb_migration_cost cost_of(const struct eplb_config *config)
{
    const struct eplb_options *options = &config->options;
    return (struct eplb_migration_cost){.expert_bytes = options->eplb_expert_bytes,
                                        .bytes_per_second = (double)options->eplb_bandwidth_bytes_per_second,
                                        .seconds_per_token = config->own.seconds_per_token,
                                        .num_forwards = (double)config->own.forwards,
                                        .max_break_even_forwards = options->eplb_max_break_even_steps};
}

const struct eplb_policy_ops *eplb_planning_policy(const struct eplb_config *config)
{
    const char *kind = config->options.eplb_policy_kind;
    struct eplb_policy_choice choice = eplb_policy_find(kind);
    if (!choice.known)
        eplb_cli_warn("unknown eplb_policy_kind '%s' (the nearest known is '%s'): using %s", kind,
                      choice.nearest, choice.ops->name);
    return choice.ops;
}

enum eplb_replica_routing eplb_planning_routing(const struct eplb_config *config)
{
    enum eplb_replica_routing routing = EPLB_ROUTING_STATIC;
    if (config->options.enable_eplb)
        eplb_replica_routing_parse(config->options.eplb_replica_routing, &routing, NULL);
    return routing;
}

bool eplb_planning_is_robust(const struct eplb_policy_ops *policy)
{
    return policy == eplb_policy_find("robust").ops;
}

/** A hierarchy that is given and not used is a mistake, or a surprise. */
static void say_groups(const struct eplb_policy_ops *policy, const struct eplb_policy_settings *settings,
                       const struct eplb_shape *shape)
{
    if (settings->num_groups == 1 && settings->num_nodes == 1)
        return;
    if (policy != eplb_policy_find("deepseek").ops)
        eplb_cli_warn("eplb_num_groups and eplb_num_nodes have no effect with policy %s", policy->name);
    else if (!eplb_deepseek_groups_fit(shape, settings))
        eplb_cli_warn(
            "%d groups on %d nodes do not fit %d experts on %d ranks with %d slots each (groups must "
            "divide by nodes, experts by groups and ranks by nodes, and a node needs as many experts "
            "as a rank has slots); they are planned as one group on one node",
            settings->num_groups, settings->num_nodes, shape->num_experts, shape->ep_size,
            shape->slots_per_rank);
}

void eplb_planning_say_mismatch(const struct eplb_config *config, const struct eplb_policy_ops *policy,
                                const struct eplb_shape *shape)
{
    const struct eplb_policy_settings settings = eplb_planning_settings(config);
    if (config->options.enable_eplb)
        say_groups(policy, &settings, shape);
    enum eplb_replica_routing routing = eplb_planning_routing(config);
    if (config->options.enable_eplb && routing < EPLB_ROUTING_WEIGHTED && eplb_planning_is_robust(policy))
        eplb_cli_warn("placements of policy robust are made for routing that follows the load "
                      "(eplb_replica_routing=weighted, adaptive or batch); with %s they can be worse than "
                      "those of balanced",
                      eplb_replica_routing_name(routing));
}

void eplb_planning_params(const struct eplb_config *config, const struct eplb_policy_ops *policy,
                          const struct eplb_layer_runner *runner, struct eplb_planner_params *params)
{
    eplb_planner_params_init(params);
    params->ops = policy;
    params->runner = runner;
    params->settings = eplb_planning_settings(config);
    params->cost = cost_of(config);
    params->max_moves = config->options.eplb_max_moves_per_layer;
    params->min_peak_load_improvement = config->options.eplb_min_peak_load_improvement;
    params->replica_routing = eplb_planning_routing(config);
    params->log = config->own.verbose ? eplb_cli_log() : NULL;
}
