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
#include "cli/routed.h"
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
        "recorded. With --eplb_replica_routing=static or local every expert's load counts as split evenly "
        "over its replicas; with weighted as split by the weights, the current ones and those that come "
        "with the plan; with adaptive and batch as divided in the best way. Weights are written with all "
        "but static and local, and with --eplb_policy_kind=robust.\n"
        "\n"
        "A policy is told what else the file has: of a step that was chosen the 16 steps before it, of all "
        "steps added up the steps themselves. Only robust asks for it.\n"
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
        "eplb plan --load=recorded.ids.u8 --phase=law --ep_size=8 --output=law.json\n"
        "eplb plan --load=load.csv --ep_size=8 --eplb_policy_kind=robust --eplb_replica_routing=adaptive\n",
};

/** Everything of one call; freed as a whole. */
struct plan {
    struct eplb_config config;
    struct eplb_load load;
    int32_t first;     /* of the steps that were asked for */
    int32_t end;       /* behind the last of them */
    int64_t *logical;  /* [L][E] these steps */
    int64_t *pieces;   /* [EPLB_MAX_POLICY_WINDOWS][L][E] the same, as far as they are too many to be told */
    int64_t *physical; /* [L][R][K] the same by the current weights; NULL: split evenly */
    int32_t *replicas; /* [L][E] of the placement that is written */
    uint64_t *cuts;    /* [L][words] densest rank sets of it */
    struct eplb_placement_file current;
    struct eplb_placement_file result;
    struct eplb_placement_prediction *predicted; /* [L] */
    struct eplb_placement_verdict *verdicts;     /* [L] */
    const struct eplb_policy_ops *policy;
    struct eplb_routed routed;
    struct eplb_planner *planner;
    struct eplb_text text;
};

static void plan_free(struct plan *plan)
{
    eplb_text_free(&plan->text);
    eplb_planner_destroy(plan->planner);
    eplb_routed_free(&plan->routed);
    free(plan->verdicts);
    free(plan->predicted);
    eplb_placement_file_free(&plan->result);
    eplb_placement_file_free(&plan->current);
    free(plan->cuts);
    free(plan->replicas);
    free(plan->physical);
    free(plan->pieces);
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

/** The steps that --step or --phase choose; without them all. */
static enum eplb_status choose_steps(struct plan *plan, struct eplb_error *error)
{
    const struct eplb_command_options *own = &plan->config.own;
    plan->first = 0;
    plan->end = plan->load.num_steps;
    if (own->step == NULL && own->phase == NULL)
        return EPLB_OK;
    EPLB_TRY(own->phase != NULL ? find_phase(plan, &plan->first, error)
                                : find_step(plan, &plan->first, error));
    plan->end = plan->first + 1;
    return EPLB_OK;
}

static size_t counts_of(const struct eplb_load *load)
{
    return (size_t)load->num_layers * (size_t)load->num_experts;
}

static enum eplb_status add_steps(const struct plan *plan, int32_t first, int32_t end, int64_t *sum,
                                  struct eplb_error *error)
{
    struct eplb_error reason;
    enum eplb_status status = eplb_load_sum(&plan->load, first, end, sum, &reason);
    return eplb_planning_name_file(status, plan->config.own.load, &reason, error);
}

static enum eplb_status read_load(struct plan *plan, struct eplb_error *error)
{
    EPLB_TRY(eplb_planning_load(&plan->config, &plan->load, error));
    EPLB_TRY(choose_steps(plan, error));
    plan->logical = calloc(counts_of(&plan->load), sizeof *plan->logical);
    if (plan->logical == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the load of %d layers", plan->load.num_layers);
    return add_steps(plan, plan->first, plan->end, plan->logical, error);
}

static enum eplb_status allocate(struct plan *plan, struct eplb_error *error)
{
    struct eplb_shape shape;
    enum eplb_replica_routing routing = eplb_planning_routing(&plan->config);
    EPLB_TRY(eplb_planning_shape(&plan->config, &plan->load, &shape, error));
    EPLB_TRY(eplb_planning_current(&plan->config, &plan->load, &shape, &plan->current, error));
    bool with_weights = routing >= EPLB_ROUTING_WEIGHTED || eplb_planning_is_robust(plan->policy);
    EPLB_TRY(eplb_placement_file_init(&plan->result, &shape, with_weights, error));
    EPLB_TRY(eplb_routed_init(&plan->routed, &shape, routing, error));
    size_t layers = (size_t)shape.num_layers;
    plan->replicas = calloc(layers, (size_t)shape.num_experts * sizeof *plan->replicas);
    plan->cuts = calloc(layers, (size_t)eplb_routed_words(&shape) * sizeof *plan->cuts);
    plan->predicted = calloc(layers, sizeof *plan->predicted);
    plan->verdicts = calloc(layers, sizeof *plan->verdicts);
    bool measured = routing == EPLB_ROUTING_WEIGHTED;
    if (measured)
        plan->physical = calloc(layers, (size_t)shape.num_slots * sizeof *plan->physical);
    if (plan->replicas == NULL || plan->cuts == NULL || plan->predicted == NULL || plan->verdicts == NULL ||
        (measured && plan->physical == NULL))
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a plan of %d layers with %d slots each", shape.num_layers,
                  shape.num_slots);
    return EPLB_OK;
}

/** The window in pieces: its steps, or, where these are too many, several of them added up. */
static enum eplb_status tell_parts(struct plan *plan, struct eplb_planner_loads *loads,
                                   struct eplb_error *error)
{
    int32_t steps = plan->end - plan->first;
    bool each = steps <= EPLB_MAX_POLICY_WINDOWS;
    loads->num_parts = each ? steps : EPLB_MAX_POLICY_WINDOWS;
    for (int32_t i = 0; each && i < steps; i++)
        loads->parts[i] = eplb_load_row(&plan->load, plan->first + i, 0);
    if (each)
        return EPLB_OK;
    size_t counts = counts_of(&plan->load);
    plan->pieces = calloc(EPLB_MAX_POLICY_WINDOWS, counts * sizeof *plan->pieces);
    if (plan->pieces == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the load of %d layers in %d pieces", plan->load.num_layers,
                  EPLB_MAX_POLICY_WINDOWS);
    for (int32_t i = 0; i < loads->num_parts; i++) {
        int64_t *piece = plan->pieces + (size_t)i * counts;
        loads->parts[i] = piece;
        EPLB_TRY(add_steps(plan, plan->first + (int32_t)((int64_t)steps * i / loads->num_parts),
                           plan->first + (int32_t)((int64_t)steps * (i + 1) / loads->num_parts), piece,
                           error));
    }
    return EPLB_OK;
}

/** What the policy is told of the load: of one step what came before it, of several their course. */
static enum eplb_status tell_loads(struct plan *plan, struct eplb_planner_loads *loads,
                                   struct eplb_error *error)
{
    eplb_planner_loads_init(loads);
    if (!plan->config.options.enable_eplb)
        return EPLB_OK;
    loads->logical = plan->logical;
    loads->physical = plan->physical;
    if (plan->end - plan->first > 1)
        return tell_parts(plan, loads, error);
    int32_t before = plan->first < EPLB_MAX_POLICY_WINDOWS ? plan->first : EPLB_MAX_POLICY_WINDOWS;
    loads->num_history = before;
    for (int32_t i = 0; i < before; i++)
        loads->history[i] = eplb_load_row(&plan->load, plan->first - before + i, 0);
    return EPLB_OK;
}

/** How the load falls on the slots of the current placement, where weights say so. */
static void split_load(struct plan *plan)
{
    const struct eplb_shape *shape = &plan->current.shape;
    for (int32_t layer = 0; plan->physical != NULL && layer < shape->num_layers; layer++) {
        size_t row = (size_t)layer * (size_t)shape->num_slots;
        eplb_routed_split(&plan->routed, plan->current.expert_ids + row, plan->current.weights + row,
                          plan->logical + (size_t)layer * (size_t)shape->num_experts, plan->physical + row);
    }
}

static enum eplb_status compute(struct plan *plan, struct eplb_error *error)
{
    const struct eplb_layer_runner runner = eplb_layer_runner_threads(plan->config.own.threads);
    struct eplb_planner_params params;
    eplb_planning_params(&plan->config, plan->policy, &runner, &params);
    params.shape = plan->current.shape;
    params.initial = plan->current.expert_ids;
    params.layer_ids = plan->load.layer_ids;
    EPLB_TRY(eplb_planner_create(&params, &plan->planner, error));
    snprintf(plan->result.policy, sizeof plan->result.policy, "%s", params.ops->name);
    snprintf(plan->result.replica_routing, sizeof plan->result.replica_routing, "%s",
             eplb_replica_routing_name(params.replica_routing));
    split_load(plan);
    struct eplb_planner_loads loads;
    EPLB_TRY(tell_loads(plan, &loads, error));
    return eplb_planner_plan(plan->planner, &loads, error);
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

/** The weights that belong to what is written; `kept` is the current placement. */
static const int32_t *weights_of(const struct plan *plan, size_t row, bool kept)
{
    if (kept && plan->current.weights != NULL)
        return plan->current.weights + row;
    return eplb_planner_weights(plan->planner) + row;
}

static void predict(struct plan *plan, int32_t layer, bool kept)
{
    const struct eplb_shape *shape = &plan->current.shape;
    size_t row = (size_t)layer * (size_t)shape->num_slots;
    size_t experts = (size_t)layer * (size_t)shape->num_experts;
    size_t words = (size_t)eplb_routed_words(shape);
    const int32_t *written = plan->result.expert_ids + row;
    const int32_t *weights = weights_of(plan, row, kept);
    const struct eplb_routed_figures figures =
        eplb_routed_measure(&plan->routed, written, weights, plan->logical + experts);
    /* What follows the load is given what suits this load, also where the placement stays. */
    if (plan->routed.routing > EPLB_ROUTING_WEIGHTED)
        weights = plan->routed.weights;
    if (plan->result.weights != NULL)
        memcpy(plan->result.weights + row, weights, (size_t)shape->num_slots * sizeof *weights);
    memcpy(plan->cuts + (size_t)layer * words, plan->routed.cut, words * sizeof *plan->cuts);
    eplb_placement_replicas(shape, written, plan->replicas + experts);
    plan->predicted[layer] = (struct eplb_placement_prediction){
        .peak = figures.peak,
        .mean = figures.even.mean,
        .lower_bound = figures.even.lower_bound,
        .even_split_peak = figures.even.peak,
        .best_split_peak = figures.best.peak,
        .components = figures.best.num_components,
        .cut = plan->cuts + (size_t)layer * words,
        .cut_load = (double)figures.best.cut_load * (double)(INT64_C(1) << figures.best.scale),
        .replicas = plan->replicas + experts};
}

static void take_layer(struct plan *plan, int32_t layer)
{
    const struct eplb_shape *shape = &plan->current.shape;
    const struct eplb_benefit *benefit = &eplb_planner_benefits(plan->planner)[layer];
    size_t row = (size_t)layer * (size_t)shape->num_slots;
    bool kept = !plan->config.options.enable_eplb || (!benefit->publish && plan->config.own.keep_unpublished);
    if (kept)
        eplb_planner_abort_layer(plan->planner, layer);
    int32_t *written = plan->result.expert_ids + row;
    memcpy(written, eplb_planner_candidates(plan->planner) + row, (size_t)shape->num_slots * sizeof *written);
    plan->result.layer_ids[layer] = plan->load.layer_ids[layer];
    predict(plan, layer, kept);
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

static enum eplb_status summarise(struct plan *plan, struct eplb_error *error)
{
    bool planned = plan->config.options.enable_eplb;
    struct eplb_plan_view view = {.shape = plan->result.shape,
                                  .policy = plan->result.policy,
                                  .routed = &plan->routed,
                                  .threshold = plan->config.options.eplb_min_peak_load_improvement,
                                  .layer_ids = plan->result.layer_ids,
                                  .load = plan->logical,
                                  .before = plan->current.expert_ids,
                                  .before_weights = plan->current.weights,
                                  .after = plan->result.expert_ids,
                                  .after_weights = plan->result.weights,
                                  .predicted = plan->predicted,
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
    plan->policy = eplb_planning_policy(&plan->config);
    EPLB_TRY(allocate(plan, error));
    eplb_planning_say_options(&plan->config);
    eplb_planning_say_mismatch(&plan->config, plan->policy, &plan->current.shape);
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
