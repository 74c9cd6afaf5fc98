/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `eplb run`: serves the reference model with an engine and one process per EP rank.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/planning.h"
#include "cli/run_log.h"
#include "cli/run_plan.h"
#include "cli/run_summary.h"
#include "cli/run_watch.h"
#include "os/file.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/terminal.h"

static const struct eplb_command_doc run_doc = {
    .command = EPLB_COMMAND_RUN,
    .summary = "serve a MoE model with one process per EP rank, and balance it meanwhile",
    .usage = "eplb run [--option[=value]]...\n"
             "eplb run --enable_eplb --ep_size=N [--option[=value]]...",
    .description =
        "Starts an engine and ep_size worker processes, each an EP rank with its experts of a reference "
        "model "
        "whose weights are made from a seed, and serves sequences with continuous batching. With "
        "--enable_eplb "
        "the load of every expert slot is counted, a placement is planned every interval, and layers switch "
        "to "
        "theirs one by one between forwards, on all ranks or on none.\n"
        "\n"
        "On a terminal a few lines show what goes on; else log lines are written. At the end comes a "
        "summary, "
        "also after SIGINT or SIGTERM, which end the run after what is in flight. It has two clocks: wall "
        "time, and the critical path: of every layer and forward the busiest rank, added up, in tokens and "
        "in "
        "CPU time of the experts' computation. With more ranks than processors the second one tells what "
        "balancing brings.\n"
        "\n"
        "With --verify the same is run without balancing as well, and every token and all bits of its logits "
        "must be the same; after every switch each worker compares its expert slots with what they should "
        "hold.\n"
        "\n"
        "Here expert_parallel_degree 0 means 2, and enable_fused_mc2 is 0 whatever is asked for; a log line "
        "says so.\n"
        "\n"
        "Exit codes: 0 ok; 1 internal or input/output error; 2 wrong input or usage; 3 verification failed; "
        "4 a rank died; 5 a rank is silent or a hook hangs; 6 shared memory of another layout; 7 instance "
        "name in use; 130, 143 ended by SIGINT or SIGTERM.",
    .examples = "eplb run --enable_eplb --ep_size=4 --eplb_update_interval_steps=100 --verify\n"
                "eplb run --enable_eplb --ep_size=8 --routing=skew --skew=zipf:1.2 --steps=0\n"
                "eplb run --model=model.json --enable_eplb --ep_size=16 --dry_run\n",
};

/** Everything of one call; freed as a whole. */
struct run {
    struct eplb_config config;
    struct eplb_run_plan plan;
    struct eplb_run_log log;
    char *log_name;
    struct eplb_run_notes *notes;
    struct eplb_run_outcome with, without;
    bool has_without;
    enum eplb_run_verdict verdict;
    char reason[EPLB_ERROR_TEXT]; /* of a verdict that is no yes */
    struct eplb_text text;
};

static void run_free(struct run *run)
{
    eplb_text_free(&run->text);
    eplb_run_notes_destroy(run->notes);
    eplb_run_log_close(&run->log);
    free(run->log_name);
    eplb_run_plan_free(&run->plan);
}

/* ---------------------------------------------------------------------------------- the options */

static enum eplb_status read_options(struct run *run, int argc, char **argv, struct eplb_error *error)
{
    eplb_config_init(&run->config, EPLB_COMMAND_RUN);
    return eplb_planning_parse(&run->config, argc, argv, error);
}

/** Test builds can break a slot, to see that --verify finds it. */
static enum eplb_status check_inject(const struct eplb_config *config, struct eplb_error *error)
{
#if EPLB_TEST_BUILD
    if (config->own.inject != NULL && strcmp(config->own.inject, "wrong-slot") != 0)
        return eplb_config_refuse(config, EPLB_OPTION_inject, error);
#else
    (void)config;
    (void)error;
#endif
    return EPLB_OK;
}

static int32_t inject_of(const struct eplb_config *config)
{
#if EPLB_TEST_BUILD
    return config->own.inject != NULL;
#else
    (void)config;
    return 0;
#endif
}

static bool shows_view(const struct eplb_config *config)
{
    return !config->own.verbose && eplb_run_watch_can_paint();
}

static enum eplb_status open_log(struct run *run, struct eplb_error *error)
{
    const char *file = run->config.own.log;
    const char *place = file != NULL                                                  ? EPLB_RUN_LOG_FILE
                        : !run->config.own.verbose && eplb_terminal_is(STDERR_FILENO) ? EPLB_RUN_LOG_WARNINGS
                                                                                      : EPLB_RUN_LOG_LINES;
    size_t capacity = strlen(place) + (file == NULL ? 0 : strlen(file)) + 1;
    run->log_name = malloc(capacity);
    if (run->log_name == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the name of the log");
    snprintf(run->log_name, capacity, "%s%s", place, file == NULL ? "" : file);
    return eplb_run_log_open(run->log_name, &run->log, error);
}

static void say_options(const struct run *run)
{
    char list[1024];
    const struct eplb_options *options = &run->config.options;
    eplb_options_log(options, &run->log.sink);
    eplb_run_plan_say_execution(options, &run->log.sink);
    if (eplb_options_without_effect(options, list, sizeof list) > 0)
        eplb_cli_warn("enable_eplb is false, so these have no effect: %s", list);
    if (!options->enable_eplb)
        eplb_cli_note("balancing is off; --enable_eplb=true --ep_size=N (at least 2, dividing the %" PRId32
                      " experts) spreads hot experts over N worker processes while they serve",
                      run->plan.model.num_experts);
}

/* ---------------------------------------------------------------------------------- the dry run */

static enum eplb_status print_memory(const struct run *run, struct eplb_error *error)
{
    const struct eplb_memory_plan *memory = &run->plan.memory;
    int32_t ranks = run->plan.given.shape.ep_size;
    char each[EPLB_BYTES_TEXT];
    char all[EPLB_BYTES_TEXT];
    printf("%6s  %12s  %15s  %12s  %12s  %12s  %12s  %12s\n", "rank", "weights", "redundant_slots", "staging",
           "kv_cache", "graph_pool", "activations", "total");
    for (int32_t rank = 0; rank < ranks; rank++)
        printf("%6" PRId32 "  %12" PRId64 "  %15" PRId64 "  %12" PRId64 "  %12" PRId64 "  %12" PRId64
               "  %12" PRId64 "  %12" PRId64 "\n",
               rank, memory->weights, memory->redundant_slots, memory->staging, memory->kv_cache,
               memory->graph_pool, memory->activations, memory->total);
    EPLB_TRY(eplb_cli_flush(error));
    eplb_cli_note(
        "bytes of each rank, the redundant slots being part of the weights: %s on each, %s on %" PRId32
        " ranks; nothing was started",
        eplb_bytes_text(memory->total, each),
        eplb_bytes_text(memory->total > INT64_MAX / ranks ? INT64_MAX : memory->total * ranks, all), ranks);
    return EPLB_OK;
}

/* -------------------------------------------------------------------------------------- the run */

static void step(void *context, const struct eplb_run_progress *progress)
{
    eplb_run_watch_step(context, progress);
}

static void switched(void *context, const struct eplb_outcome *outcome)
{
    struct eplb_run_watch *watch = context;
    if (watch->notes != NULL)
        eplb_run_notes_take_outcome(watch->notes, outcome);
}

static int interrupted(void *context)
{
    int count;
    (void)context;
    return eplb_signals_caught(&count);
}

/** One run of the two that --verify needs, or the only one. */
static enum eplb_status run_once(struct run *run, bool without, struct eplb_run_outcome *outcome,
                                 struct eplb_error *error)
{
    struct eplb_run_params params = eplb_run_plan_params(&run->plan, without);
    const char *title = !run->config.own.verify ? "" : without ? "run 2 of 2" : "run 1 of 2";
    struct eplb_run_watch watch = {
        .notes = without ? NULL : run->notes,
        .view = {.title = title, .policy = params.eplb ? params.policy->name : "none", .shape = params.shape},
        .paints = shows_view(&run->config)};
    params.worker_path = "/proc/self/exe";
    params.worker_command = EPLB_CLI_WORKER;
    params.log_name = run->log_name;
    params.log = &run->log.sink;
    params.inject = without ? 0 : inject_of(&run->config);
    params.context = &watch;
    params.progress = step;
    params.switched = switched;
    params.interrupted = interrupted;
    enum eplb_status status = eplb_run(&params, outcome, error);
    eplb_run_watch_end(&watch);
    return status;
}

static void judge(struct run *run)
{
    const struct eplb_statistics *with = &run->with.statistics;
    const struct eplb_statistics *without = &run->without.statistics;
    run->verdict = EPLB_RUN_DIFFERS;
    if (run->without.interrupted != 0) {
        run->verdict = EPLB_RUN_NOT_COMPARED;
        snprintf(run->reason, sizeof run->reason, "interrupted");
    } else if (with->forwards != without->forwards || with->tokens != without->tokens) {
        snprintf(run->reason, sizeof run->reason,
                 "%" PRIu64 " forwards with %" PRIu64 " tokens, without balancing %" PRIu64 " with %" PRIu64,
                 with->forwards, with->tokens, without->forwards, without->tokens);
    } else if (with->digest != without->digest) {
        snprintf(run->reason, sizeof run->reason,
                 "the digest of all tokens and logits is %016" PRIx64 ", without balancing %016" PRIx64,
                 with->digest, without->digest);
    } else {
        run->verdict = EPLB_RUN_VERIFIED;
    }
}

static enum eplb_status verify(struct run *run, struct eplb_error *error)
{
    if (run->with.interrupted != 0) {
        snprintf(run->reason, sizeof run->reason, "interrupted");
        return EPLB_OK;
    }
    EPLB_TRY(run_once(run, true, &run->without, error));
    run->has_without = true;
    judge(run);
    if (run->verdict == EPLB_RUN_DIFFERS)
        EPLB_FAIL(EPLB_VERIFY, "not verified: %s", run->reason);
    return EPLB_OK;
}

static enum eplb_status run_all(struct run *run, struct eplb_error *error)
{
    int descriptor;
    EPLB_TRY(eplb_signals_catch(&descriptor, error));
    enum eplb_status status = run_once(run, false, &run->with, error);
    if (status == EPLB_OK)
        return run->config.own.verify ? verify(run, error) : EPLB_OK;
    snprintf(run->reason, sizeof run->reason, "%s", error->text);
    if (status == EPLB_VERIFY)
        run->verdict = EPLB_RUN_DIFFERS;
    return status;
}

/* ---------------------------------------------------------------------------------- the summary */

static enum eplb_status write_json(struct run *run, const struct eplb_run_summary *summary,
                                   struct eplb_error *error)
{
    const char *path = run->config.own.summary_json;
    if (path == NULL)
        return EPLB_OK;
    EPLB_TRY(eplb_run_summary_json(summary, &run->text, error));
    if (strcmp(path, "-") != 0)
        return eplb_file_write_atomic(path, run->text.bytes, run->text.length, error);
    fwrite(run->text.bytes, 1, run->text.length, stdout);
    return eplb_cli_flush(error);
}

static enum eplb_status summarise(struct run *run, enum eplb_status status, struct eplb_error *error)
{
    const struct eplb_options *options = &run->config.options;
    char interval[32];
    if (options->eplb_update_interval_steps > 0)
        snprintf(interval, sizeof interval, "%" PRId32 " forwards", options->eplb_update_interval_steps);
    else
        snprintf(interval, sizeof interval, "%" PRId32 " s", options->eplb_update_interval);
    const struct eplb_run_summary summary = {.instance_name = options->instance_name,
                                             .policy = options->enable_eplb ? run->plan.policy->name : "none",
                                             .routing = run->config.own.routing,
                                             .replica_routing =
                                                 options->enable_eplb ? options->eplb_replica_routing : NULL,
                                             .interval = interval,
                                             .shape = run->plan.given.shape,
                                             .window_forwards = run->plan.window_forwards,
                                             .processors = eplb_process_processors(),
                                             .eplb = options->enable_eplb,
                                             .verify = run->config.own.verify,
                                             .verdict = run->verdict,
                                             .reason = run->reason,
                                             .status = status,
                                             .with = &run->with,
                                             .without = run->has_without ? &run->without : NULL,
                                             .notes = run->notes};
    eplb_run_summary_print(stderr, &summary);
    return write_json(run, &summary, error);
}

static enum eplb_status run_and_tell(struct run *run, struct eplb_error *error)
{
    struct eplb_error untold;
    EPLB_TRY(eplb_run_notes_create(&run->plan.given.shape, &run->notes, error));
    enum eplb_status status = run_all(run, error);
    /* A run that never began has nothing to be summed up. */
    if (status != EPLB_OK && run->with.statistics.forwards == 0)
        return status;
    if (summarise(run, status, &untold) != EPLB_OK && status == EPLB_OK)
        EPLB_FAIL(untold.status, "%s", untold.text);
    return status;
}

static enum eplb_status prepare_and_run(struct run *run, struct eplb_error *error)
{
    EPLB_TRY(check_inject(&run->config, error));
    EPLB_TRY(eplb_run_plan_make(&run->config, &run->plan, error));
    if (run->config.own.dry_run)
        return print_memory(run, error);
    EPLB_TRY(open_log(run, error));
    say_options(run);
    return run_and_tell(run, error);
}

static int run_command(int argc, char **argv)
{
    enum { SIGNAL_EXIT_CODE = 128 };
    struct run run = {0};
    struct eplb_error error = {0};
    enum eplb_status status = read_options(&run, argc, argv, &error);
    if (status == EPLB_OK)
        status = eplb_planning_page(&run.config, &run_doc) ? eplb_cli_flush(&error)
                                                           : prepare_and_run(&run, &error);
    int signal = run.with.interrupted != 0 ? run.with.interrupted : run.without.interrupted;
    run_free(&run);
    if (status != EPLB_OK)
        return eplb_cli_fail(&error);
    return signal == 0 ? 0 : SIGNAL_EXIT_CODE + signal;
}

const struct eplb_subcommand eplb_subcommand_run = {.name = "run", .doc = &run_doc, .run = run_command};
