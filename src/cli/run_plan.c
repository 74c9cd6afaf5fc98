/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/run_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/model_file.h"
#include "cli/nodes.h"
#include "cli/planning.h"
#include "config/number.h"
#include "os/file.h"

/* Where a run has no end, what changes with its time changes as if it had this many forwards. */
enum { ENDLESS_FORWARDS = 3000, MOST_WINDOWS = 12, NUM_TOPICS = 3, MOST_REHEARSED = 10000 };

/* ---------------------------------------------------------------------------------- the options */

static const struct {
    const char *name;
    enum eplb_routing routing;
} routings[] = {{"model", EPLB_ROUTING_MODEL}, {"skew", EPLB_ROUTING_SKEW}, {"trace", EPLB_ROUTING_TRACE}};

/** Options that one kind of routing reads, or that it replaces. */
static enum eplb_status check_routing_options(const struct eplb_run_plan *plan, struct eplb_error *error)
{
    static const struct {
        int option;
        enum eplb_routing routing;
        const char *name;
        bool alone; /* no other routing reads it; else this one does not */
    } rules[] = {
        {EPLB_OPTION_skew, EPLB_ROUTING_SKEW, "skew", true},
        {EPLB_OPTION_route_trace, EPLB_ROUTING_TRACE, "trace", true},
        {EPLB_OPTION_route_trace_repeat, EPLB_ROUTING_TRACE, "trace", true},
        {EPLB_OPTION_sequences, EPLB_ROUTING_TRACE, "trace", true},
        {EPLB_OPTION_prompt_tokens, EPLB_ROUTING_TRACE, "trace", false},
        {EPLB_OPTION_new_tokens, EPLB_ROUTING_TRACE, "trace", false},
        {EPLB_OPTION_admit_interval, EPLB_ROUTING_TRACE, "trace", false},
        {EPLB_OPTION_num_caches, EPLB_ROUTING_TRACE, "trace", false},
        {EPLB_OPTION_max_rows, EPLB_ROUTING_TRACE, "trace", false},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (plan->config->given[rules[i].option] && (plan->routing == rules[i].routing) != rules[i].alone)
            EPLB_FAIL(EPLB_USAGE, "--%s has no effect with%s --routing=%s",
                      eplb_option_row(rules[i].option)->name, rules[i].alone ? "out" : "", rules[i].name);
    return EPLB_OK;
}

static enum eplb_status check_routing(struct eplb_run_plan *plan, struct eplb_error *error)
{
    const struct eplb_config *config = plan->config;
    size_t found = 0;
    while (found < sizeof routings / sizeof *routings &&
           strcmp(config->own.routing, routings[found].name) != 0)
        found++;
    if (found == sizeof routings / sizeof *routings)
        return eplb_config_refuse(config, EPLB_OPTION_routing, error);
    plan->routing = routings[found].routing;
    if (plan->routing == EPLB_ROUTING_SKEW && config->own.skew == NULL)
        EPLB_FAIL(EPLB_USAGE,
                  "--routing=skew needs popularities: --skew=zipf:1.2, say (see eplb run --help)");
    if (plan->routing == EPLB_ROUTING_TRACE && config->own.route_trace == NULL)
        EPLB_FAIL(EPLB_USAGE, "--routing=trace needs a recording: --route_trace=NAME.ids.u8");
    return check_routing_options(plan, error);
}

static enum eplb_status check_verify(const struct eplb_run_plan *plan, struct eplb_error *error)
{
    const struct eplb_config *config = plan->config;
    if (!config->own.verify)
        return EPLB_OK;
    if (!config->options.enable_eplb)
        EPLB_FAIL(EPLB_USAGE,
                  "--verify compares a run with balancing to the same without: give --enable_eplb "
                  "and --ep_size=N too");
    if (plan->steps == 0)
        EPLB_FAIL(EPLB_USAGE, "--verify needs a run with an end: --steps=N above 0");
    return EPLB_OK;
}

/** All files of a recording are looked for before the first one is made: it is not to be half of one. */
static enum eplb_status check_record(const struct eplb_config *config, struct eplb_error *error)
{
    static const char *const endings[] = {".ids.u8", ".ids.u16", ".json", ".events"};
    const char *prefix = config->own.record;
    if (prefix == NULL)
        return EPLB_OK;
    size_t capacity = strlen(prefix) + sizeof ".ids.u16";
    char *path = malloc(capacity);
    if (path == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the names of a recording");
    enum eplb_status status = EPLB_OK;
    for (size_t i = 0; status == EPLB_OK && i < sizeof endings / sizeof *endings; i++) {
        snprintf(path, capacity, "%s%s", prefix, endings[i]);
        if (access(path, F_OK) == 0)
            status = eplb_fail(error, EPLB_INVALID,
                               "--record=%s: %s is there already; a recording replaces nothing, give another "
                               "name",
                               eplb_quote(prefix, strlen(prefix)).text, eplb_input_name(path));
    }
    free(path);
    return status;
}

static enum eplb_status check_batches(const struct eplb_config *config, struct eplb_error *error)
{
    if (config->own.num_caches > config->own.max_rows)
        EPLB_FAIL(EPLB_INVALID,
                  "--num_caches=%" PRId32 " is above --max_rows=%" PRId32
                  ": every sequence needs a row in each forward",
                  config->own.num_caches, config->own.max_rows);
    if (config->own.busy_ranks > config->options.ep_size)
        EPLB_FAIL(EPLB_INVALID, "--busy_ranks=%" PRId32 " is above ep_size, which is %" PRId32,
                  config->own.busy_ranks, config->options.ep_size);
    return EPLB_OK;
}

static enum eplb_status check_execution(const struct eplb_options *options, struct eplb_error *error)
{
    char source[EPLB_SOURCE_TEXT];
    eplb_source_text(eplb_options_source(options, "expert_parallel_degree"), source);
    if (options->expert_parallel_degree == 1)
        EPLB_FAIL(EPLB_UNSUPPORTED,
                  "expert_parallel_degree 1 (%s): EP level 1 is not built yet; leave it out or give 2",
                  source);
    return EPLB_OK;
}

void eplb_run_plan_say_execution(const struct eplb_options *options, const struct eplb_log_sink *log)
{
    int32_t fused = eplb_options_fused_mc2(options);
    if (options->expert_parallel_degree == 0)
        EPLB_LOG(log, EXECUTION, EPLB_VALUE_TEXT("expert_parallel_degree"), EPLB_VALUE_INT(0),
                 EPLB_VALUE_INT(2), EPLB_VALUE_TEXT("EP level 1 is not built yet"));
    if (fused != 0)
        EPLB_LOG(log, EXECUTION, EPLB_VALUE_TEXT("enable_fused_mc2"),
                 EPLB_VALUE_INT(options->enable_fused_mc2), EPLB_VALUE_INT(0),
                 EPLB_VALUE_TEXT(fused == 1 ? "the fused and pipelined execution is not built yet, and needs "
                                              "quantised weights"
                                            : "the fused execution of decode batches is not built yet, and "
                                              "needs quantised weights"));
}

static enum eplb_status read_replica_routing(struct eplb_run_plan *plan, struct eplb_error *error)
{
    const struct eplb_options *options = &plan->config->options;
    EPLB_TRY(eplb_nodes_read(options, &plan->node_of_rank, error));
    return options->enable_eplb
               ? eplb_replica_routing_parse(options->eplb_replica_routing, &plan->replica_routing, error)
               : EPLB_OK;
}

static enum eplb_status check_memory(struct eplb_run_plan *plan, struct eplb_error *error)
{
    const struct eplb_config *config = plan->config;
    EPLB_TRY(eplb_memory_plan_make(&plan->model, &plan->given.shape, plan->replica_routing, plan->max_rows,
                                   plan->num_caches, !config->options.enable_eplb, &plan->memory, error));
    const struct eplb_memory_plan *memory = &plan->memory;
    if (config->options.memory_limit > 0 && memory->total > config->options.memory_limit)
        EPLB_FAIL(EPLB_INVALID,
                  "each rank needs %" PRId64 " bytes (weights %" PRId64 ", of which redundant slots %" PRId64
                  ", staging %" PRId64 ", KV cache %" PRId64 ", activations %" PRId64
                  "), above memory_limit %" PRId64,
                  memory->total, memory->weights, memory->redundant_slots, memory->staging, memory->kv_cache,
                  memory->activations, config->options.memory_limit);
    return EPLB_OK;
}

/* -------------------------------------------------------------------------------- the recording */

static int32_t busy_ranks_of(const struct eplb_config *config)
{
    return config->own.busy_ranks == 0 ? config->options.ep_size : config->own.busy_ranks;
}

/**
 * A model of the recording's layers and experts. Without a model file it is a fast one, whose routes are what
 * counts. Its experts are narrow and have a wide inner layer: so their time goes with the tokens that they
 * get, and not with the weights that have to be fetched for any.
 */
static void shape_as_recorded(struct eplb_run_plan *plan)
{
    const struct eplb_recording *recording = &plan->trace.recording;
    struct eplb_model_config *model = &plan->model;
    if (plan->config->own.model == NULL) {
        model->hidden_size = 8;
        model->num_heads = 1;
        model->head_dim = 8;
        model->kv_window = 16;
        model->expert_hidden_size = 128;
        model->shared_hidden_size = 0;
    }
    model->num_layers = recording->num_layers;
    model->num_experts = recording->num_experts;
    model->top_k = recording->top_k;
}

/** Every sequence has a row in each forward, and no rank more than its share, rounded up. */
static enum eplb_status read_trace(struct eplb_run_plan *plan, struct eplb_error *error)
{
    const struct eplb_config *config = plan->config;
    struct eplb_recording *recording = &plan->trace.recording;
    int32_t ranks = busy_ranks_of(config);
    struct eplb_error reason;
    EPLB_TRY(eplb_trace_open(config->own.route_trace, &plan->trace, error));
    recording->sequences = config->own.sequences > 0  ? config->own.sequences
                           : recording->has_sequences ? recording->num_sequences
                                                      : ranks;
    recording->repeat = config->own.route_trace_repeat;
    enum eplb_status status = eplb_recording_check(recording, &reason);
    if (status != EPLB_OK)
        EPLB_FAIL(status, "%s: %s", eplb_input_name(config->own.route_trace), reason.text);
    plan->num_caches = plan->max_rows = (recording->sequences - 1) / ranks + 1;
    if (!config->given[EPLB_OPTION_steps])
        plan->steps = eplb_recording_forwards(recording);
    shape_as_recorded(plan);
    return EPLB_OK;
}

/* -------------------------------------------------------------------------------- the placement */

static enum eplb_status make_initial(struct eplb_run_kind *kind, struct eplb_error *error)
{
    const struct eplb_shape *shape = &kind->shape;
    size_t slots = (size_t)shape->num_slots;
    kind->initial = calloc((size_t)shape->num_layers, slots * sizeof *kind->initial);
    if (kind->initial == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY,
                  "no memory for the placement of %" PRId32 " layers with %" PRId32 " slots each",
                  shape->num_layers, shape->num_slots);
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        eplb_placement_initial(shape, kind->initial + (size_t)layer * slots);
    return EPLB_OK;
}

/** Of the routings that go by weights: room for those of a file. */
static enum eplb_status make_weights(struct eplb_run_plan *plan, struct eplb_error *error)
{
    const struct eplb_shape *shape = &plan->given.shape;
    size_t slots = (size_t)shape->num_slots;
    if (plan->replica_routing < EPLB_ROUTING_WEIGHTED || plan->config->options.initial_placement[0] == '\0')
        return EPLB_OK;
    plan->given.weights = calloc((size_t)shape->num_layers, slots * sizeof *plan->given.weights);
    if (plan->given.weights == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY,
                  "no memory for the weights of %" PRId32 " layers with %" PRId32 " slots each",
                  shape->num_layers, shape->num_slots);
    return EPLB_OK;
}

/** Equal weights for the layers that got none from the file. */
static enum eplb_status fill_weights(const struct eplb_run_plan *plan, struct eplb_error *error)
{
    const struct eplb_run_kind *kind = &plan->given;
    if (kind->weights == NULL)
        return EPLB_OK;
    return eplb_planning_fill_weights(&kind->shape, kind->initial, kind->weights, error);
}

static enum eplb_status read_initial(struct eplb_run_plan *plan, struct eplb_error *error)
{
    const char *path = plan->config->options.initial_placement;
    EPLB_TRY(make_weights(plan, error));
    const struct eplb_planning_tables tables = {.shape = &plan->given.shape,
                                                .layer_ids = plan->trace.ids.layer_ids,
                                                .owner = "model",
                                                .weights_remark = ", which eplb_replica_routing does not use",
                                                .expert_ids = plan->given.initial,
                                                .weights = plan->given.weights};
    if (path[0] == '\0')
        return EPLB_OK;
    EPLB_TRY(eplb_planning_tables(path, &tables, error));
    return fill_weights(plan, error);
}

static enum eplb_status make_placements(struct eplb_run_plan *plan, struct eplb_error *error)
{
    EPLB_TRY(make_initial(&plan->given, error));
    EPLB_TRY(read_initial(plan, error));
    return plan->config->own.verify ? make_initial(&plan->without, error) : EPLB_OK;
}

/* ---------------------------------------------------------------------------------- the traffic */

static uint64_t forwards_of(const struct eplb_run_plan *plan)
{
    return plan->steps == 0 ? ENDLESS_FORWARDS : plan->steps;
}

/** How many sequences begin in so many forwards: by letting the scheduler make them. */
static uint64_t rehearse(struct eplb_scheduler *scheduler, struct eplb_rank_batch *batches, uint64_t forwards)
{
    for (uint64_t i = 0; i < forwards; i++)
        eplb_scheduler_next(scheduler, batches);
    return eplb_scheduler_begun(scheduler);
}

static enum eplb_status count_sequences(const struct eplb_run_plan *plan, uint64_t *sequences,
                                        struct eplb_error *error)
{
    const struct eplb_config *config = plan->config;
    const struct eplb_scheduler_params params = {.num_ranks = config->options.ep_size,
                                                 .num_caches = plan->num_caches,
                                                 .max_rows = plan->max_rows,
                                                 .admit_interval = config->own.admit_interval,
                                                 .busy_ranks = busy_ranks_of(config),
                                                 .traffic = &plan->traffic};
    struct eplb_arena arena;
    EPLB_TRY(eplb_scheduler_params_check(&params, error));
    eplb_arena_init(&arena, NULL, 0);
    (void)eplb_scheduler_take(&arena, &params);
    eplb_arena_take(&arena, (size_t)params.num_ranks, sizeof(struct eplb_rank_batch));
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the batches of %" PRId32 " ranks", params.num_ranks);
    struct eplb_scheduler *scheduler = eplb_scheduler_take(&arena, &params);
    struct eplb_rank_batch *batches = eplb_arena_take(&arena, (size_t)params.num_ranks, sizeof *batches);
    eplb_scheduler_init(scheduler, &params);
    uint64_t forwards = forwards_of(plan);
    uint64_t rehearsed = forwards < MOST_REHEARSED ? forwards : MOST_REHEARSED;
    uint64_t begun = rehearse(scheduler, batches, rehearsed);
    *sequences = (uint64_t)((double)begun * ((double)forwards / (double)rehearsed));
    eplb_arena_free(block);
    return EPLB_OK;
}

static enum eplb_status read_prompts(struct eplb_run_plan *plan, size_t *size, struct eplb_error *error)
{
    const char *path = plan->config->own.prompts;
    *size = 0;
    if (path == NULL)
        return EPLB_OK;
    EPLB_TRY(eplb_file_read(path, &plan->text, size, error));
    if (*size == 0)
        EPLB_FAIL(EPLB_INVALID, "%s is empty; prompts are made of its bytes", eplb_input_name(path));
    return EPLB_OK;
}

static enum eplb_status make_traffic(struct eplb_run_plan *plan, struct eplb_error *error)
{
    const struct eplb_config *config = plan->config;
    struct eplb_traffic_params params = {.vocab_size = plan->model.vocab_size,
                                         .prompt_tokens = config->own.prompt_tokens,
                                         .new_tokens = config->own.new_tokens,
                                         .seed = (uint64_t)config->own.seed};
    EPLB_TRY(read_prompts(plan, &params.text_bytes, error));
    params.text = plan->text;
    EPLB_TRY(eplb_traffic_init(&plan->traffic, &params, error));
    if (params.text != NULL)
        return EPLB_OK;
    uint64_t sequences = 0;
    EPLB_TRY(count_sequences(plan, &sequences, error));
    params.topic_sequences = sequences / NUM_TOPICS + 1;
    return eplb_traffic_init(&plan->traffic, &params, error);
}

static enum eplb_status make_skew(struct eplb_run_plan *plan, struct eplb_error *error)
{
    const struct eplb_skew_shape shape = {.num_layers = plan->model.num_layers,
                                          .num_experts = plan->model.num_experts,
                                          .top_k = plan->model.top_k};
    char warning[EPLB_ERROR_TEXT];
    if (plan->routing != EPLB_ROUTING_SKEW)
        return EPLB_OK;
    EPLB_TRY(eplb_skew_make(plan->config->own.skew, &shape, (uint64_t)plan->config->own.seed, &plan->skew,
                            warning, error));
    if (warning[0] != '\0')
        eplb_cli_warn("%s", warning);
    /* The numbers of forwards begin at 1, with that of the warm-up. */
    plan->skew_period = (forwards_of(plan) + 1) / (uint64_t)plan->skew.num_phases + 1;
    return EPLB_OK;
}

/** So that a run has some windows, and the first one ends before the first round. */
static void choose_window(struct eplb_run_plan *plan)
{
    int32_t interval = plan->config->options.eplb_update_interval_steps;
    uint64_t forwards = (forwards_of(plan) + MOST_WINDOWS - 1) / MOST_WINDOWS;
    if (interval > 0 && forwards > (uint64_t)interval)
        forwards = (uint64_t)interval;
    plan->window_forwards = forwards > INT32_MAX ? INT32_MAX : (int32_t)forwards;
}

/* ------------------------------------------------------------------------------------ the whole */

static enum eplb_status make_shapes(struct eplb_run_plan *plan, struct eplb_error *error)
{
    const struct eplb_options *options = &plan->config->options;
    const struct eplb_model_config *model = &plan->model;
    EPLB_TRY(eplb_options_check(options, model->num_experts, options->ep_size, error));
    EPLB_TRY(eplb_shape_init(&plan->given.shape, model->num_layers, model->num_experts, options->ep_size,
                             eplb_options_effective_redundancy(options), error));
    return eplb_shape_init(&plan->without.shape, model->num_layers, model->num_experts, options->ep_size, 0,
                           error);
}

enum eplb_status eplb_run_plan_make(const struct eplb_config *config, struct eplb_run_plan *plan,
                                    struct eplb_error *error)
{
    *plan = (struct eplb_run_plan){.config = config,
                                   .steps = (uint64_t)config->own.steps,
                                   .num_caches = config->own.num_caches,
                                   .max_rows = config->own.max_rows};
    EPLB_TRY(check_routing(plan, error));
    EPLB_TRY(check_verify(plan, error));
    EPLB_TRY(check_record(config, error));
    eplb_model_config_init(&plan->model);
    if (config->own.model != NULL)
        EPLB_TRY(eplb_model_file_read(config->own.model, &plan->model, error));
    if (plan->routing == EPLB_ROUTING_TRACE)
        EPLB_TRY(read_trace(plan, error));
    EPLB_TRY(make_shapes(plan, error));
    EPLB_TRY(check_batches(config, error));
    EPLB_TRY(read_replica_routing(plan, error));
    EPLB_TRY(check_memory(plan, error));
    EPLB_TRY(check_execution(&config->options, error));
    /* Without balancing a wrong name has no effect, which is said elsewhere. */
    plan->policy = config->options.enable_eplb ? eplb_planning_policy(config) : NULL;
    if (plan->policy != NULL)
        eplb_planning_say_mismatch(config, plan->policy, &plan->given.shape);
    choose_window(plan);
    EPLB_TRY(make_placements(plan, error));
    EPLB_TRY(make_skew(plan, error));
    return make_traffic(plan, error);
}

void eplb_run_plan_free(struct eplb_run_plan *plan)
{
    eplb_trace_close(&plan->trace);
    eplb_skew_free(&plan->skew);
    free(plan->text);
    free(plan->node_of_rank);
    free(plan->without.initial);
    free(plan->given.weights);
    free(plan->given.initial);
}

struct eplb_run_params eplb_run_plan_params(const struct eplb_run_plan *plan, bool without)
{
    const struct eplb_options *options = &plan->config->options;
    const struct eplb_command_options *own = &plan->config->own;
    const struct eplb_run_kind *kind = without ? &plan->without : &plan->given;
    return (struct eplb_run_params){
        .instance_name = options->instance_name,
        .directory = own->shm_directory,
        .model = plan->model,
        .shape = kind->shape,
        .eplb = options->enable_eplb && !without,
        .policy = plan->policy,
        .policy_settings = eplb_planning_settings(plan->config),
        .max_moves_per_layer = options->eplb_max_moves_per_layer,
        .max_break_even_steps = options->eplb_max_break_even_steps,
        .shift_trigger = options->eplb_shift_trigger,
        .min_tokens_per_layer = options->eplb_min_tokens_per_layer,
        .expert_bytes = options->eplb_expert_bytes,
        .bandwidth_bytes_per_second = options->eplb_bandwidth_bytes_per_second,
        .min_peak_load_improvement = options->eplb_min_peak_load_improvement,
        .update_interval_seconds = options->eplb_update_interval,
        .update_interval_steps = options->eplb_update_interval_steps,
        .prepare_timeout_seconds = options->eplb_prepare_timeout_seconds,
        .transfer_timeout_seconds = options->eplb_transfer_timeout_seconds,
        .transfer_chunk_bytes = options->eplb_transfer_chunk_bytes,
        .transfer_inflight_bytes = options->eplb_transfer_inflight_bytes,
        .fused_mc2 = 0,
        .replica_routing = without ? EPLB_ROUTING_STATIC : plan->replica_routing,
        .cost_per_active_slot = options->eplb_cost_per_active_slot,
        .cost_per_token = options->eplb_cost_per_token,
        .node_of_rank = plan->node_of_rank,
        .decode_only_load = options->eplb_use_decode_only_load,
        .overlap = options->enable_schedule_overlap,
        .silence_timeout_ns = (int64_t)options->rank_silence_timeout_seconds * 1000000000,
        .max_rows = plan->max_rows,
        .num_caches = plan->num_caches,
        .admit_interval = own->admit_interval,
        .busy_ranks = busy_ranks_of(plan->config),
        .traffic = &plan->traffic,
        .routing = plan->routing,
        .skew_seed = (uint64_t)own->seed,
        .skew_period = plan->skew_period,
        .skew_phases = plan->skew.num_phases,
        .skew_rates = plan->skew.rates,
        .initial = kind->initial,
        .initial_weights = kind->weights,
        .trace_path = plan->routing == EPLB_ROUTING_TRACE ? own->route_trace : NULL,
        .trace_digest = plan->trace.digest,
        .trace_sequences = plan->trace.recording.sequences,
        .trace_repeat = plan->trace.recording.repeat,
        .record = without ? NULL : own->record,
        .record_layer_ids = plan->trace.ids.layer_ids,
        .steps = plan->steps,
        .window_forwards = plan->window_forwards,
        .verify = own->verify && !without,
    };
}
