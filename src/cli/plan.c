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
#include "base/nearest.h"
#include "cli/plan_summary.h"
#include "cli/planning.h"
#include "os/file.h"
#include "trace/ids_file.h"

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
        "Of routed ids (NAME.ids.u8 or NAME.ids.u16, with NAME.json beside them) each phase counts as one "
        "step, with all of its tokens added up: --phase names one, --step counts them from 0.\n"
        "\n"
        "Here enable_eplb is true unless it is given. Given as false, there are no redundant slots and "
        "nothing "
        "is planned: the current placement is written.",
    .examples =
        "eplb plan --load=load.json --ep_size=8 > placement.json\n"
        "eplb plan --load=load.csv --ep_size=16 --redundant_experts_num=2 --step=last --output=next.json\n"
        "eplb plan --load=load.npy --ep_size=8 --current=placement.json --keep_unpublished\n"
        "eplb plan --load=recorded.ids.u8 --phase=law --ep_size=8 --output=law.json\n",
};

/** Everything of one call; freed as a whole. */
struct plan {
    struct eplb_config config;
    struct eplb_load load;
    int64_t *logical;  /* [L][E] the steps that were asked for */
    int32_t *replicas; /* [L][E] of the placement that is written */
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

/** The row of the phase that --phase names: of routed ids, each phase is a step with its name as label. */
static enum eplb_status find_phase(const struct plan *plan, int32_t *row, struct eplb_error *error)
{
    const struct eplb_load *load = &plan->load;
    const char *file = eplb_input_name(plan->config.own.load);
    const char *name = plan->config.own.phase;
    const char *labels[EPLB_MAX_IDS_PHASES];
    if (!eplb_ids_is_name(plan->config.own.load))
        EPLB_FAIL(EPLB_USAGE,
                  "--phase is for routed ids (.ids.u8 or .ids.u16) only; of %s, --step=N|last chooses a step",
                  file);
    if (plan->config.own.step != NULL)
        EPLB_FAIL(EPLB_USAGE, "--phase and --step both choose a phase of %s; give one of them", file);
    for (int32_t i = 0; i < load->num_steps; i++)
        labels[i] = load->labels[i];
    size_t nearest = eplb_nearest(name, labels, (size_t)load->num_steps);
    if (strcmp(name, labels[nearest]) != 0)
        EPLB_FAIL(EPLB_INVALID, "--phase=%s: %s has no such phase; of its %d the nearest is \"%s\"",
                  eplb_quote(name, strlen(name)).text, file, load->num_steps, labels[nearest]);
    *row = (int32_t)nearest;
    return EPLB_OK;
}

/** The steps [first, end) that --step or --phase choose; without them all. */
static enum eplb_status choose_steps(const struct plan *plan, int32_t *first, int32_t *end,
                                     struct eplb_error *error)
{
    const struct eplb_command_options *own = &plan->config.own;
    *first = 0;
    *end = plan->load.num_steps;
    if (own->step == NULL && own->phase == NULL)
        return EPLB_OK;
    EPLB_TRY(own->phase != NULL ? find_phase(plan, first, error) : find_step(plan, first, error));
    *end = *first + 1;
    return EPLB_OK;
}

static enum eplb_status read_load(struct plan *plan, struct eplb_error *error)
{
    EPLB_TRY(eplb_planning_load(&plan->config, &plan->load, error));
    int32_t first;
    int32_t end;
    EPLB_TRY(choose_steps(plan, &first, &end, error));
    plan->logical =
        calloc((size_t)plan->load.num_layers * (size_t)plan->load.num_experts, sizeof *plan->logical);
    if (plan->logical == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the load of %d layers", plan->load.num_layers);
    struct eplb_error reason;
    enum eplb_status status = eplb_load_sum(&plan->load, first, end, plan->logical, &reason);
    return eplb_planning_name_file(status, plan->config.own.load, &reason, error);
}

static enum eplb_status allocate(struct plan *plan, struct eplb_error *error)
{
    struct eplb_shape shape;
    EPLB_TRY(eplb_planning_shape(&plan->config, &plan->load, &shape, error));
    EPLB_TRY(eplb_planning_current(&plan->config, &plan->load, &shape, &plan->current, error));
    EPLB_TRY(eplb_placement_file_init(&plan->result, &shape, false, error));
    size_t layers = (size_t)shape.num_layers;
    plan->replicas = calloc(layers, (size_t)shape.num_experts * sizeof *plan->replicas);
    plan->predicted = calloc(layers, sizeof *plan->predicted);
    plan->verdicts = calloc(layers, sizeof *plan->verdicts);
    if (plan->replicas == NULL || plan->predicted == NULL || plan->verdicts == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a plan of %d layers with %d slots each", shape.num_layers,
                  shape.num_slots);
    return EPLB_OK;
}

static enum eplb_status compute(struct plan *plan, struct eplb_error *error)
{
    struct eplb_planner_params params;
    eplb_planner_params_init(&params);
    params.shape = plan->current.shape;
    params.ops = eplb_planning_policy(&plan->config);
    const struct eplb_layer_runner runner = eplb_layer_runner_threads(plan->config.own.threads);
    params.runner = &runner;
    params.settings = eplb_planning_settings(&plan->config);
    params.cost = eplb_planning_cost(&plan->config);
    params.max_moves = plan->config.options.eplb_max_moves_per_layer;
    params.min_peak_load_improvement = plan->config.options.eplb_min_peak_load_improvement;
    params.initial = plan->current.expert_ids;
    params.layer_ids = plan->load.layer_ids;
    params.log = plan->config.own.verbose ? eplb_cli_log() : NULL;
    EPLB_TRY(eplb_planner_create(&params, &plan->planner, error));
    snprintf(plan->result.policy, sizeof plan->result.policy, "%s", params.ops->name);
    const int64_t *load = plan->config.options.enable_eplb ? plan->logical : NULL;
    return eplb_planner_rebalance(plan->planner, load, NULL, error);
}

static struct eplb_placement_verdict verdict_of(const struct plan *plan, int32_t layer)
{
    const struct eplb_benefit *benefit = &eplb_planner_benefits(plan->planner)[layer];
    const struct eplb_migration *migration = &eplb_planner_migrations(plan->planner)[layer];
    bool bytes_known = migration->sent_slots == 0 || plan->config.options.eplb_expert_bytes > 0;
    return (struct eplb_placement_verdict){.publish = benefit->publish,
                                           .current_peak = benefit->current_peak,
                                           .candidate_peak = benefit->candidate_peak,
                                           .improvement = benefit->improvement,
                                           .unbounded_peak =
                                               eplb_planner_unbounded_peaks(plan->planner)[layer],
                                           .moved_slots = migration->moved_slots,
                                           .sent_slots = migration->sent_slots,
                                           .bytes = bytes_known ? migration->bytes : -1,
                                           .break_even_forwards = migration->break_even_forwards,
                                           .pays = migration->pays != 0};
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
    size_t experts = (size_t)layer * (size_t)shape->num_experts;
    int32_t *replicas = plan->replicas + experts;
    struct eplb_balance balance = eplb_balance_of(shape, written, plan->logical + experts, replicas);
    eplb_placement_replicas(shape, written, replicas);
    plan->predicted[layer] = (struct eplb_placement_prediction){
        .peak = balance.peak, .mean = balance.mean, .lower_bound = balance.lower_bound, .replicas = replicas};
    plan->verdicts[layer] = verdict_of(plan, layer);
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
                                  .replicas = plan->replicas,
                                  .verdicts = planned ? plan->verdicts : NULL,
                                  .max_moves = plan->config.options.eplb_max_moves_per_layer,
                                  .max_break_even = plan->config.options.eplb_max_break_even_steps,
                                  .all_copies = plan->config.own.verbose};
    return eplb_plan_summary(stderr, &view, error);
}

static enum eplb_status run(struct plan *plan, struct eplb_error *error)
{
    EPLB_TRY(eplb_planning_check_output(&plan->config, error));
    EPLB_TRY(read_load(plan, error));
    EPLB_TRY(allocate(plan, error));
    eplb_planning_say_options(&plan->config);
    EPLB_TRY(compute(plan, error));
    for (int32_t layer = 0; layer < plan->current.shape.num_layers; layer++)
        take_layer(plan, layer);
    EPLB_TRY(write_result(plan, error));
    return summarise(plan, error);
}

static int plan_command(int argc, char **argv)
{
    struct plan plan = {0};
    struct eplb_error error = {0};
    enum eplb_status status = eplb_planning_options(&plan.config, EPLB_COMMAND_PLAN, argc, argv, &error);
    if (status == EPLB_OK)
        status = eplb_planning_page(&plan.config, &plan_doc) ? eplb_cli_flush(&error) : run(&plan, &error);
    plan_free(&plan);
    return status == EPLB_OK ? 0 : eplb_cli_fail(&error);
}

const struct eplb_subcommand eplb_subcommand_plan = {.name = "plan", .doc = &plan_doc, .run = plan_command};
