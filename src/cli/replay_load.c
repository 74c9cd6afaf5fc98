/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `eplb replay --load`: plans window by window, and scores each plan on the window after it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/evaluate.h"
#include "cli/planning.h"
#include "cli/replay.h"
#include "cli/replay_report.h"
#include "cli/replay_windows.h"
#include "cli/run_watch.h"
#include "eplb/clock.h"
#include "os/file.h"

/* What is done sooner shows no progress; a person reads no faster than it changes. */
#define QUIET_NS INT64_C(1000000000)
#define PAINT_INTERVAL_NS INT64_C(100000000)

/** Everything of one call; freed as a whole. */
struct replay {
    const struct eplb_config *config;
    struct eplb_replay_windows windows;
    struct eplb_placement_file current; /* where it starts; in the end where it ended */
    const struct eplb_policy_ops *policy;
    struct eplb_evaluation *evaluations; /* one less than windows */
    struct eplb_evaluator *evaluator;
    struct eplb_text text;
};

/** A line on the terminal that counts the windows. */
struct progress {
    bool paints;
    bool painted;
    int64_t due_ns;
};

static void replay_free(struct replay *replay)
{
    eplb_text_free(&replay->text);
    eplb_evaluator_destroy(replay->evaluator);
    free(replay->evaluations);
    eplb_placement_file_free(&replay->current);
    eplb_replay_windows_free(&replay->windows);
}

static int64_t now_ns(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context);
}

static void paint(struct progress *progress, int32_t done, int32_t windows)
{
    if (!progress->paints || now_ns() < progress->due_ns)
        return;
    fprintf(stderr, "\r  window %" PRId32 " of %" PRId32, done, windows);
    fflush(stderr);
    progress->painted = true;
    progress->due_ns = now_ns() + PAINT_INTERVAL_NS;
}

static void erase(const struct progress *progress)
{
    if (progress->painted)
        fputs("\r\033[K", stderr);
}

static enum eplb_status create_evaluator(struct replay *replay, struct eplb_error *error)
{
    const struct eplb_config *config = replay->config;
    const struct eplb_layer_runner runner = eplb_layer_runner_threads(config->own.threads);
    struct eplb_evaluator_params params = {.plans = config->options.enable_eplb,
                                           .initial_weights = replay->current.weights};
    eplb_planning_params(config, replay->policy, &runner, &params.planner);
    params.planner.shape = replay->current.shape;
    params.planner.initial = replay->current.expert_ids;
    params.planner.layer_ids = replay->windows.load.layer_ids;
    return eplb_evaluator_create(&params, &replay->evaluator, error);
}

/** A window, and as many of those before it as a policy is told. */
static void tell_loads(struct eplb_load *load, int32_t window, struct eplb_planner_loads *loads)
{
    int32_t before = window < EPLB_MAX_POLICY_WINDOWS ? window : EPLB_MAX_POLICY_WINDOWS;
    eplb_planner_loads_init(loads);
    loads->logical = eplb_load_row(load, window, 0);
    loads->num_history = before;
    for (int32_t i = 0; i < before; i++)
        loads->history[i] = eplb_load_row(load, window - before + i, 0);
}

static enum eplb_status evaluate(struct replay *replay, struct progress *progress, struct eplb_error *error)
{
    struct eplb_load *load = &replay->windows.load;
    replay->evaluations = calloc((size_t)load->num_steps - 1, sizeof *replay->evaluations);
    if (replay->evaluations == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the scores of %" PRId32 " windows", load->num_steps);
    for (int32_t window = 0; window + 1 < load->num_steps; window++) {
        struct eplb_planner_loads loads;
        tell_loads(load, window, &loads);
        EPLB_TRY(eplb_evaluator_step(replay->evaluator, &loads, eplb_load_row(load, window + 1, 0),
                                     &replay->evaluations[window], error));
        paint(progress, window + 1, load->num_steps - 1);
    }
    return EPLB_OK;
}

/** The placement that is active in the end, where it is asked for. */
static enum eplb_status write_placement(struct replay *replay, struct eplb_error *error)
{
    const char *output = replay->config->own.output;
    struct eplb_placement_file *last = &replay->current;
    if (output == NULL)
        return EPLB_OK;
    size_t bytes = (size_t)last->shape.num_layers * (size_t)last->shape.num_slots * sizeof *last->expert_ids;
    memcpy(last->expert_ids, eplb_evaluator_active(replay->evaluator), bytes);
    if (last->weights != NULL)
        memcpy(last->weights, eplb_evaluator_weights(replay->evaluator), bytes);
    snprintf(last->policy, sizeof last->policy, "%s", replay->policy->name);
    EPLB_TRY(eplb_placement_file_write(last, NULL, NULL, &replay->text, error));
    EPLB_TRY(eplb_file_write_atomic(output, replay->text.bytes, replay->text.length, error));
    eplb_text_free(&replay->text);
    return EPLB_OK;
}

static enum eplb_status write_report(struct replay *replay, struct eplb_error *error)
{
    const struct eplb_config *config = replay->config;
    const struct eplb_replay_report report = {.shape = replay->current.shape,
                                              .policy = replay->policy->name,
                                              .routing = eplb_planning_routing(config),
                                              .plans = config->options.enable_eplb,
                                              .threshold = config->options.eplb_min_peak_load_improvement,
                                              .windows = &replay->windows,
                                              .evaluations = replay->evaluations};
    if (config->own.json) {
        EPLB_TRY(eplb_replay_report_json(&report, &replay->text, error));
        fwrite(replay->text.bytes, 1, replay->text.length, stdout);
    } else {
        eplb_replay_report_print(stdout, &report);
    }
    return eplb_cli_flush(error);
}

static enum eplb_status run(struct replay *replay, struct eplb_error *error)
{
    const struct eplb_load *load = &replay->windows.load;
    struct eplb_shape shape;
    EPLB_TRY(eplb_planning_check_output(replay->config, error));
    EPLB_TRY(eplb_replay_windows_read(replay->config, &replay->windows, error));
    EPLB_TRY(eplb_planning_shape(replay->config, load, &shape, error));
    EPLB_TRY(eplb_planning_current(replay->config, load, &shape, &replay->current, error));
    eplb_planning_say_options(replay->config);
    replay->policy = eplb_planning_policy(replay->config);
    eplb_planning_say_mismatch(replay->config, replay->policy, &shape);
    EPLB_TRY(create_evaluator(replay, error));
    struct progress progress = {.paints = eplb_run_watch_can_paint(), .due_ns = now_ns() + QUIET_NS};
    enum eplb_status status = evaluate(replay, &progress, error);
    erase(&progress);
    EPLB_TRY(status);
    EPLB_TRY(write_placement(replay, error));
    return write_report(replay, error);
}

enum eplb_status eplb_replay_load(const struct eplb_config *config, struct eplb_error *error)
{
    struct replay replay = {.config = config};
    enum eplb_status status = run(&replay, error);
    replay_free(&replay);
    return status;
}
