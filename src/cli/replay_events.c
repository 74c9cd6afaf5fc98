/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `eplb replay --events`: a run's recorded events through the manager again, and whether it decided the same.
 */
#include "cli/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/planning.h"
#include "os/file.h"
#include "trace/event_replay.h"
#include "trace/placement_file.h"
#include "trace/text.h"

/** A policy run that published layers, and what became of them. */
struct round {
    int64_t now;  /* when the policy was asked for, in ns since the first event */
    uint64_t seq; /* the forward submitted last */
    int32_t published;
    int32_t committed;
    int32_t aborted;
};

/** Everything of one call; freed as a whole. */
struct replay {
    const struct eplb_config *config;
    struct eplb_event_log log;
    struct eplb_event_replay result;
    struct round current;
    struct round *rounds;
    size_t num_rounds, max_rounds;
    uint64_t num_policy_runs;
    int64_t now;
    uint64_t seq;
    bool rank_died;
    bool no_memory;
    struct eplb_placement_file placement;
    struct eplb_text text;
};

static void replay_free(struct replay *replay)
{
    eplb_text_free(&replay->text);
    eplb_placement_file_free(&replay->placement);
    free(replay->rounds);
    eplb_event_replay_free(&replay->result);
    eplb_event_log_close(&replay->log);
}

/* ---------------------------------------------------------------------------------- the rounds */

static struct round *new_round(struct replay *replay)
{
    if (replay->num_rounds == replay->max_rounds) {
        size_t capacity = replay->max_rounds == 0 ? 64 : 2 * replay->max_rounds;
        struct round *grown = realloc(replay->rounds, capacity * sizeof *grown);
        replay->no_memory |= grown == NULL;
        if (grown == NULL)
            return NULL;
        replay->rounds = grown;
        replay->max_rounds = capacity;
    }
    return &replay->rounds[replay->num_rounds++];
}

static void see_event(void *context, const struct eplb_manager_event *event, int64_t now)
{
    struct replay *replay = context;
    replay->now = now;
    if (event->type == EPLB_MANAGER_SUBMIT)
        replay->seq = event->seq;
    if (event->type == EPLB_MANAGER_RANK_DEAD)
        replay->rank_died = true;
    /* What a policy finds after a death is not used. */
    if (event->type != EPLB_MANAGER_POLICY_DONE || event->benefits == NULL || replay->rank_died)
        return;
    for (int32_t layer = 0; layer < replay->log.params.shape.num_layers; layer++)
        replay->current.published += event->benefits[layer].publish != 0;
    struct round *round = replay->current.published > 0 ? new_round(replay) : NULL;
    if (round != NULL)
        *round = replay->current;
}

static void see_action(void *context, const struct eplb_manager_action *action)
{
    struct replay *replay = context;
    struct round *round = replay->num_rounds == 0 ? NULL : &replay->rounds[replay->num_rounds - 1];
    if (action->type == EPLB_MANAGER_RUN_POLICY) {
        replay->current = (struct round){.now = replay->now, .seq = replay->seq};
        replay->num_policy_runs++;
    }
    if (action->type == EPLB_MANAGER_COMMITTED && round != NULL)
        round->committed++;
    if (action->type == EPLB_MANAGER_ABORTED && round != NULL)
        round->aborted++;
}

/* ------------------------------------------------------------------------------------- telling */

static void print_rounds(const struct replay *replay)
{
    const struct eplb_shape *shape = &replay->log.params.shape;
    printf("eplb replay: %s: policy %s, %d layers of %d experts on %d ranks x %d slots; %" PRIu64
           " events, %" PRIu64 " decisions, %.3f s\n",
           replay->log.name, replay->log.params.ops->name, shape->num_layers, shape->num_experts,
           shape->ep_size, shape->slots_per_rank, replay->result.num_events, replay->result.num_actions,
           (double)replay->result.now / 1e9);
    if (replay->num_rounds > 0)
        printf("  %6s  %10s  %10s  %9s  %9s  %8s\n", "round", "at s", "forward", "published", "committed",
               "given up");
    for (size_t i = 0; i < replay->num_rounds; i++) {
        const struct round *round = &replay->rounds[i];
        printf("  %6zu  %10.3f  %10" PRIu64 "  %9d  %9d  %8d\n", i + 1, (double)round->now / 1e9, round->seq,
               round->published, round->committed, round->aborted);
    }
    printf("  policy runs: %" PRIu64 ", %zu of them published layers\n", replay->num_policy_runs,
           replay->num_rounds);
    if (replay->result.differs)
        printf("  identical: no; record %" PRIu64 ", forward %" PRIu64
               "\n    recorded: %s\n    came:     %s\n",
               replay->result.record, replay->result.last_seq, replay->result.recorded, replay->result.came);
    else
        printf("  identical: yes%s\n", replay->log.ended ? "" : ", as far as the recording goes");
}

static const char *json_bool(bool value)
{
    return value ? "true" : "false";
}

static void add_rounds(struct replay *replay)
{
    struct eplb_text *text = &replay->text;
    eplb_text_add(text, "  \"rounds\": [");
    for (size_t i = 0; i < replay->num_rounds; i++) {
        const struct round *round = &replay->rounds[i];
        eplb_text_add(text,
                      "%s\n    {\"at_ns\": %" PRId64 ", \"forward\": %" PRIu64
                      ", \"published\": %d, \"committed\": %d, \"aborted\": %d}",
                      i == 0 ? "" : ",", round->now, round->seq, round->published, round->committed,
                      round->aborted);
    }
    eplb_text_add(text, "%s],\n", replay->num_rounds == 0 ? "" : "\n  ");
}

static void add_difference(struct replay *replay)
{
    struct eplb_text *text = &replay->text;
    const struct eplb_event_replay *result = &replay->result;
    char shown[EPLB_CLI_SHOWN];
    if (!result->differs) {
        eplb_text_add(text, "  \"difference\": null\n}\n");
        return;
    }
    eplb_text_add(text,
                  "  \"difference\": {\"record\": %" PRIu64 ", \"forward\": %" PRIu64 ", \"recorded\": ",
                  result->record, result->last_seq);
    eplb_text_add_string(text, eplb_cli_shown(shown, result->recorded));
    eplb_text_add(text, ", \"came\": ");
    eplb_text_add_string(text, eplb_cli_shown(shown, result->came));
    eplb_text_add(text, "}\n}\n");
}

static enum eplb_status print_json(struct replay *replay, struct eplb_error *error)
{
    struct eplb_text *text = &replay->text;
    const struct eplb_shape *shape = &replay->log.params.shape;
    char shown[EPLB_CLI_SHOWN];
    eplb_text_add(text, "{\n  \"format\": \"eplb-replay-events-1\",\n  \"file\": ");
    eplb_text_add_string(text, eplb_cli_shown(shown, replay->log.name));
    eplb_text_add(text, ",\n  \"policy\": ");
    eplb_text_add_string(text, replay->log.params.ops->name);
    eplb_text_add(text,
                  ",\n  \"num_layers\": %d,\n  \"num_experts\": %d,\n  \"ep_size\": %d,\n"
                  "  \"slots_per_rank\": %d,\n  \"events\": %" PRIu64 ",\n  \"decisions\": %" PRIu64
                  ",\n  \"duration_ns\": %" PRId64 ",\n  \"policy_runs\": %" PRIu64 ",\n",
                  shape->num_layers, shape->num_experts, shape->ep_size, shape->slots_per_rank,
                  replay->result.num_events, replay->result.num_actions, replay->result.now,
                  replay->num_policy_runs);
    add_rounds(replay);
    eplb_text_add(text, "  \"complete\": %s,\n  \"identical\": %s,\n", json_bool(replay->log.ended),
                  json_bool(!replay->result.differs));
    add_difference(replay);
    if (text->failed)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the report");
    fwrite(text->bytes, 1, text->length, stdout);
    eplb_text_free(text);
    return EPLB_OK;
}

/** The placement that is active in the end, where it is asked for. */
static enum eplb_status write_placement(struct replay *replay, struct eplb_error *error)
{
    const struct eplb_manager_core_params *params = &replay->log.params;
    struct eplb_placement_file *file = &replay->placement;
    const char *output = replay->config->own.output;
    if (output == NULL)
        return EPLB_OK;
    EPLB_TRY(eplb_placement_file_init(file, &params->shape, false, error));
    size_t layers = (size_t)params->shape.num_layers;
    memcpy(file->expert_ids, eplb_manager_core_tables(replay->result.core),
           layers * (size_t)params->shape.num_slots * sizeof *file->expert_ids);
    if (params->layer_ids != NULL)
        memcpy(file->layer_ids, params->layer_ids, layers * sizeof *file->layer_ids);
    snprintf(file->policy, sizeof file->policy, "%s", params->ops->name);
    EPLB_TRY(eplb_placement_file_write(file, NULL, NULL, &replay->text, error));
    EPLB_TRY(eplb_file_write_atomic(output, replay->text.bytes, replay->text.length, error));
    eplb_text_free(&replay->text);
    return EPLB_OK;
}

/* --------------------------------------------------------------------------------------- whole */

/** What is given takes the place of what was recorded: where would the run have gone another way? */
static void change_params(struct replay *replay)
{
    const struct eplb_options *options = &replay->config->options;
    struct eplb_manager_core_params *params = &replay->log.params;
    if (eplb_options_was_given(options, "eplb_policy_kind"))
        params->ops = eplb_planning_policy(replay->config);
    if (eplb_options_was_given(options, "eplb_min_peak_load_improvement"))
        params->min_peak_load_improvement = options->eplb_min_peak_load_improvement;
    if (eplb_options_was_given(options, "eplb_max_moves_per_layer"))
        params->max_moves = options->eplb_max_moves_per_layer;
    if (eplb_options_was_given(options, "eplb_max_break_even_steps"))
        params->max_break_even_forwards = options->eplb_max_break_even_steps;
    if (eplb_options_was_given(options, "eplb_shift_trigger"))
        params->shift_trigger = options->eplb_shift_trigger;
    if (eplb_options_was_given(options, "eplb_min_tokens_per_layer"))
        params->min_tokens_per_layer = options->eplb_min_tokens_per_layer;
    if (eplb_options_was_given(options, "eplb_expert_bytes") && options->eplb_expert_bytes > 0)
        params->expert_bytes = options->eplb_expert_bytes;
    if (eplb_options_was_given(options, "eplb_bandwidth_bytes_per_second"))
        params->bytes_per_second = (double)options->eplb_bandwidth_bytes_per_second;
    if (params->settings.size == 0)
        eplb_policy_settings_init(&params->settings);
    if (eplb_options_was_given(options, "eplb_num_groups"))
        params->settings.num_groups = options->eplb_num_groups;
    if (eplb_options_was_given(options, "eplb_num_nodes"))
        params->settings.num_nodes = options->eplb_num_nodes;
    if (replay->config->own.verbose)
        params->log = params->policy_log = eplb_cli_log();
}

static enum eplb_status check_output(const struct eplb_config *config, struct eplb_error *error)
{
    const char *output = config->own.output;
    if (output != NULL && eplb_file_is_same(output, config->own.events))
        EPLB_FAIL(EPLB_USAGE, "--output=%s is the file of --events; the recording would be lost",
                  eplb_input_name(output));
    return EPLB_OK;
}

static enum eplb_status run(struct replay *replay, struct eplb_error *error)
{
    const struct eplb_manager_observer observer = {
        .size = sizeof observer, .context = replay, .event = see_event, .action = see_action};
    const struct eplb_event_replay *result = &replay->result;
    EPLB_TRY(check_output(replay->config, error));
    EPLB_TRY(eplb_event_log_open(replay->config->own.events, &replay->log, error));
    change_params(replay);
    EPLB_TRY(eplb_event_replay_run(&replay->log, &observer, &replay->result, error));
    if (replay->no_memory)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the rounds of %s", replay->log.name);
    if (replay->log.cut)
        eplb_cli_note("%s is cut off after record %" PRIu64
                      ": its run was killed, could not write on, or still goes on",
                      replay->log.name, replay->log.num_records - 1);
    EPLB_TRY(write_placement(replay, error));
    if (replay->config->own.json)
        EPLB_TRY(print_json(replay, error));
    else
        print_rounds(replay);
    EPLB_TRY(eplb_cli_flush(error));
    if (result->differs)
        EPLB_FAIL(EPLB_VERIFY, "%s: record %" PRIu64 " is not what came when it was replayed",
                  replay->log.name, result->record);
    return EPLB_OK;
}

enum eplb_status eplb_replay_events(const struct eplb_config *config, struct eplb_error *error)
{
    struct replay replay = {.config = config};
    enum eplb_status status = run(&replay, error);
    replay_free(&replay);
    return status;
}
