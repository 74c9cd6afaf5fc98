/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `eplb plan`: load in, placement out.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/config_file.h"
#include "cli/plan_summary.h"
#include "eplb/policy.h"
#include "os/file.h"
#include "trace/load_file.h"
#include "trace/placement_file.h"

static const struct eplb_command_doc plan_doc = {
    .command = EPLB_COMMAND_PLAN,
    .summary = "compute placements for a recorded load",
    .usage = "eplb plan --load=FILE --ep_size=N [--option[=value]]...",
    .description =
        "Reads the load of every expert, plans a placement of every layer with the chosen policy, passes "
        "each "
        "through the gate, and prints the candidates as JSON (eplb-placement-1) on standard output. The "
        "gate's "
        "verdict and figures stand in the key \"gate\", what the placement promises in \"predicted\". A "
        "summary "
        "for people goes to standard error.\n"
        "\n"
        "The load is what the recording says; how it falls on the slots of the current placement was not "
        "recorded, so every expert's load counts as split evenly over its replicas.\n"
        "\n"
        "Here enable_eplb is true unless it is given. Given as false, there are no redundant slots and "
        "nothing "
        "is planned: the current placement is written.",
    .examples =
        "eplb plan --load=load.json --ep_size=8 > placement.json\n"
        "eplb plan --load=load.csv --ep_size=16 --redundant_experts_num=2 --step=last --output=next.json\n"
        "eplb plan --load=load.npy --ep_size=8 --current=placement.json --keep_unpublished\n",
};

/** Everything of one call; freed as a whole. */
struct plan {
    struct eplb_config config;
    struct eplb_load load;
    int64_t *logical;  /* [L][E] the steps that were asked for */
    int32_t *replicas; /* [E] scratch */
    struct eplb_placement_file current;
    struct eplb_placement_file result;
    struct eplb_placement_prediction *predicted; /* [L] */
    struct eplb_placement_verdict *verdicts;     /* [L] */
    struct eplb_planner *planner;
    struct eplb_text text;
};

static void plan_free(struct plan *plan)
{
    eplb_text_free(&plan->text);
    eplb_planner_destroy(plan->planner);
    free(plan->verdicts);
    free(plan->predicted);
    eplb_placement_file_free(&plan->result);
    eplb_placement_file_free(&plan->current);
    free(plan->replicas);
    free(plan->logical);
    eplb_load_free(&plan->load);
}

static enum eplb_status read_options(struct plan *plan, int argc, char **argv, struct eplb_error *error)
{
    struct eplb_source unless_given = {.kind = EPLB_SOURCE_DEFAULT};
    eplb_config_init(&plan->config, EPLB_COMMAND_PLAN);
    EPLB_TRY(eplb_options_set_bool(&plan->config.options, "enable_eplb", true, unless_given, error));
    EPLB_TRY(eplb_config_parse(&plan->config, argc, argv, error));
    if (plan->config.own.config_json_file == NULL)
        return EPLB_OK;
    char unused[EPLB_UNUSED_KEYS_TEXT];
    EPLB_TRY(eplb_config_file_read(plan->config.own.config_json_file, &plan->config, unused, error));
    if (unused[0] != '\0')
        eplb_cli_note("%s: keys that are not used here: %s", plan->config.own.config_json_file, unused);
    return EPLB_OK;
}

/** The row of the step that --step names. */
static enum eplb_status find_step(const struct plan *plan, int32_t *row, struct eplb_error *error)
{
    const struct eplb_load *load = &plan->load;
    const char *text = plan->config.own.step;
    if (strcmp(text, "last") == 0) {
        *row = load->num_steps - 1;
        return EPLB_OK;
    }
    char *end;
    errno = 0;
    long long step = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return eplb_config_refuse(&plan->config, EPLB_OPTION_step, error);
    for (int32_t i = 0; i < load->num_steps; i++)
        if (load->step_ids[i] == step) {
            *row = i;
            return EPLB_OK;
        }
    EPLB_FAIL(EPLB_INVALID,
              "--step=%s: %s has no such step; its %d steps are numbered %" PRId64 " to %" PRId64, text,
              eplb_input_name(plan->config.own.load), load->num_steps, load->step_ids[0],
              load->step_ids[load->num_steps - 1]);
}

/** Forwards a status; a sentence that names no file gets the name. */
static enum eplb_status name_file(enum eplb_status status, const char *path, const struct eplb_error *reason,
                                  struct eplb_error *error)
{
    if (status != EPLB_OK)
        EPLB_FAIL(status, "%s: %s", eplb_input_name(path), reason->text);
    return EPLB_OK;
}

static enum eplb_status read_load(struct plan *plan, struct eplb_error *error)
{
    if (plan->config.own.load == NULL)
        EPLB_FAIL(EPLB_USAGE, "--load=FILE is missing: the recorded load to plan for (see eplb plan --help)");
    if (!eplb_options_was_given(&plan->config.options, "ep_size"))
        EPLB_FAIL(EPLB_USAGE,
                  "--ep_size=N is missing: the number of EP ranks to plan for (see eplb plan --help)");
    EPLB_TRY(eplb_load_read(plan->config.own.load, &plan->load, error));
    if (plan->load.warning[0] != '\0')
        eplb_cli_warn("%s", plan->load.warning);
    int32_t first = 0;
    int32_t end = plan->load.num_steps;
    if (plan->config.own.step != NULL) {
        EPLB_TRY(find_step(plan, &first, error));
        end = first + 1;
    }
    plan->logical =
        calloc((size_t)plan->load.num_layers * (size_t)plan->load.num_experts, sizeof *plan->logical);
    if (plan->logical == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the load of %d layers", plan->load.num_layers);
    struct eplb_error reason;
    return name_file(eplb_load_sum(&plan->load, first, end, plan->logical, &reason), plan->config.own.load,
                     &reason, error);
}

/** Says what of a placement file is not used: nothing is dropped without a word. */
static void warn_unused(const struct plan *plan, const char *path, const struct eplb_placement_file *given)
{
    if (given->weights != NULL)
        eplb_cli_warn("%s has weights; loads count as split evenly here, and no weights are written",
                      eplb_input_name(path));
    for (int32_t row = 0; row < given->shape.num_layers; row++)
        if (eplb_placement_file_row(&plan->current, given->layer_ids[row]) < 0)
            eplb_cli_warn("%s has layer %d, which the load has not; it is left out", eplb_input_name(path),
                          given->layer_ids[row]);
}

/** The file of the placement to plan from; NULL: none. */
static const char *current_file(const struct plan *plan)
{
    if (plan->config.own.current != NULL)
        return plan->config.own.current;
    return plan->config.options.initial_placement[0] == '\0' ? NULL : plan->config.options.initial_placement;
}

/** The current placement of the load's layers: from the file, else the initial one. */
static enum eplb_status read_current(struct plan *plan, struct eplb_error *error)
{
    const char *path = current_file(plan);
    int32_t *ids = plan->current.layer_ids;
    memcpy(ids, plan->load.layer_ids, (size_t)plan->load.num_layers * sizeof *ids);
    if (path == NULL)
        return EPLB_OK;
    struct eplb_placement_file given = {0};
    EPLB_TRY(eplb_placement_file_read(path, &given, error));
    const struct eplb_shape *shape = &plan->current.shape;
    struct eplb_error reason;
    enum eplb_status status = eplb_placement_file_match(&given, shape->num_experts, shape->ep_size,
                                                        shape->redundant_experts_num, &reason);
    status = name_file(status, path, &reason, error);
    if (status == EPLB_OK)
        warn_unused(plan, path, &given);
    size_t slots = (size_t)shape->num_slots;
    for (int32_t layer = 0; status == EPLB_OK && layer < shape->num_layers; layer++) {
        int32_t row = eplb_placement_file_row(&given, ids[layer]);
        if (row < 0)
            eplb_cli_warn("%s has no layer %d; it starts from the initial placement", eplb_input_name(path),
                          ids[layer]);
        else
            memcpy(plan->current.expert_ids + (size_t)layer * slots, given.expert_ids + (size_t)row * slots,
                   slots * sizeof *given.expert_ids);
    }
    eplb_placement_file_free(&given);
    return status;
}

static enum eplb_status allocate(struct plan *plan, struct eplb_error *error)
{
    const struct eplb_options *options = &plan->config.options;
    struct eplb_shape shape;
    EPLB_TRY(eplb_options_check(options, plan->load.num_experts, 0, error));
    EPLB_TRY(eplb_shape_init(&shape, plan->load.num_layers, plan->load.num_experts, options->ep_size,
                             eplb_options_effective_redundancy(options), error));
    EPLB_TRY(eplb_placement_file_init(&plan->current, &shape, false, error));
    EPLB_TRY(eplb_placement_file_init(&plan->result, &shape, false, error));
    size_t layers = (size_t)shape.num_layers;
    plan->replicas = calloc((size_t)shape.num_experts, sizeof *plan->replicas);
    plan->predicted = calloc(layers, sizeof *plan->predicted);
    plan->verdicts = calloc(layers, sizeof *plan->verdicts);
    if (plan->replicas == NULL || plan->predicted == NULL || plan->verdicts == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a plan of %d layers with %d slots each", shape.num_layers,
                  shape.num_slots);
    return EPLB_OK;
}

static const struct eplb_policy_ops *choose_policy(const struct plan *plan)
{
    const char *kind = plan->config.options.eplb_policy_kind;
    struct eplb_policy_choice choice = eplb_policy_find(kind);
    if (!choice.known)
        eplb_cli_warn("unknown eplb_policy_kind '%s' (the nearest known is '%s'): using %s", kind,
                      choice.nearest, choice.ops->name);
    return choice.ops;
}

static enum eplb_status compute(struct plan *plan, struct eplb_error *error)
{
    struct eplb_planner_params params;
    eplb_planner_params_init(&params);
    params.shape = plan->current.shape;
    params.ops = choose_policy(plan);
    params.min_peak_load_improvement = plan->config.options.eplb_min_peak_load_improvement;
    params.initial = plan->current.expert_ids;
    params.layer_ids = plan->load.layer_ids;
    params.log = plan->config.own.verbose ? eplb_cli_log() : NULL;
    EPLB_TRY(eplb_planner_create(&params, &plan->planner, error));
    snprintf(plan->result.policy, sizeof plan->result.policy, "%s", params.ops->name);
    const int64_t *load = plan->config.options.enable_eplb ? plan->logical : NULL;
    return eplb_planner_rebalance(plan->planner, load, NULL, error);
}

static void take_layer(struct plan *plan, int32_t layer)
{
    const struct eplb_shape *shape = &plan->current.shape;
    const struct eplb_benefit *benefit = &eplb_planner_benefits(plan->planner)[layer];
    size_t row = (size_t)layer * (size_t)shape->num_slots;
    if (!benefit->publish && plan->config.own.keep_unpublished)
        eplb_planner_abort_layer(plan->planner, layer);
    int32_t *written = plan->result.expert_ids + row;
    memcpy(written, eplb_planner_candidates(plan->planner) + row, (size_t)shape->num_slots * sizeof *written);
    plan->result.layer_ids[layer] = plan->load.layer_ids[layer];
    struct eplb_balance balance = eplb_balance_of(
        shape, written, plan->logical + (size_t)layer * (size_t)shape->num_experts, plan->replicas);
    plan->predicted[layer] =
        (struct eplb_placement_prediction){balance.peak, balance.mean, balance.lower_bound};
    plan->verdicts[layer] = (struct eplb_placement_verdict){benefit->publish, benefit->current_peak,
                                                            benefit->candidate_peak, benefit->improvement};
}

static enum eplb_status write_result(struct plan *plan, struct eplb_error *error)
{
    const struct eplb_placement_verdict *gate = plan->config.options.enable_eplb ? plan->verdicts : NULL;
    EPLB_TRY(eplb_placement_file_write(&plan->result, plan->predicted, gate, &plan->text, error));
    if (plan->config.own.output != NULL)
        return eplb_file_write_atomic(plan->config.own.output, plan->text.bytes, plan->text.length, error);
    fwrite(plan->text.bytes, 1, plan->text.length, stdout);
    return eplb_cli_flush(error);
}

static enum eplb_status summarise(const struct plan *plan, struct eplb_error *error)
{
    bool planned = plan->config.options.enable_eplb;
    struct eplb_plan_view view = {.shape = plan->result.shape,
                                  .policy = plan->result.policy,
                                  .threshold = plan->config.options.eplb_min_peak_load_improvement,
                                  .layer_ids = plan->result.layer_ids,
                                  .load = plan->logical,
                                  .before = plan->current.expert_ids,
                                  .after = plan->result.expert_ids,
                                  .benefits = planned ? eplb_planner_benefits(plan->planner) : NULL};
    return eplb_plan_summary(stderr, &view, error);
}

static void say_options(const struct plan *plan)
{
    char list[1024];
    eplb_options_log(&plan->config.options, eplb_cli_log());
    if (eplb_options_without_effect(&plan->config.options, list, sizeof list) > 0)
        eplb_cli_warn("enable_eplb is false, so these have no effect: %s", list);
}

/** A recording is not to be lost to a mistyped name. */
static enum eplb_status check_output(const struct plan *plan, struct eplb_error *error)
{
    const char *output = plan->config.own.output;
    const char *load = plan->config.own.load;
    if (output != NULL && load != NULL && eplb_file_is_same(output, load))
        EPLB_FAIL(EPLB_USAGE, "--output=%s is the file of --load; the recording would be lost",
                  eplb_input_name(output));
    return EPLB_OK;
}

static enum eplb_status run(struct plan *plan, struct eplb_error *error)
{
    EPLB_TRY(check_output(plan, error));
    EPLB_TRY(read_load(plan, error));
    EPLB_TRY(allocate(plan, error));
    EPLB_TRY(read_current(plan, error));
    say_options(plan);
    EPLB_TRY(compute(plan, error));
    for (int32_t layer = 0; layer < plan->current.shape.num_layers; layer++)
        take_layer(plan, layer);
    EPLB_TRY(write_result(plan, error));
    return summarise(plan, error);
}

/** The pages that need no load; false when none was asked for. */
static bool show_page(const struct eplb_config *config)
{
    if (eplb_cli_page(config, &plan_doc))
        return true;
    struct eplb_text_sink pages = eplb_cli_pages(stdout);
    if (config->own.dump_config)
        eplb_dump_write(&config->options, &pages);
    return config->own.dump_config;
}

static int plan_command(int argc, char **argv)
{
    struct plan plan = {0};
    struct eplb_error error = {0};
    enum eplb_status status = read_options(&plan, argc, argv, &error);
    if (status == EPLB_OK)
        status = show_page(&plan.config) ? eplb_cli_flush(&error) : run(&plan, &error);
    plan_free(&plan);
    return status == EPLB_OK ? 0 : eplb_cli_fail(&error);
}

const struct eplb_subcommand eplb_subcommand_plan = {.name = "plan", .doc = &plan_doc, .run = plan_command};
