/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/run_summary.h"

#include <inttypes.h>

#include "base/error.h"
#include "cli/chart.h"
#include "cli/run_view.h"

double eplb_run_tokens_per_second(const struct eplb_run_outcome *outcome)
{
    if (outcome->wall_ns <= 0)
        return 0;
    return (double)outcome->statistics.tokens / ((double)outcome->wall_ns / 1e9);
}

double eplb_run_routing_us(const struct eplb_run_outcome *outcome)
{
    if (outcome->statistics.forwards == 0)
        return 0;
    return (double)outcome->statistics.routing_path_ns / 1e3 / (double)outcome->statistics.forwards;
}

static double milliseconds(int64_t ns)
{
    return (double)ns / 1e6;
}

/* ---------------------------------------------------------------------------------- for people */

static void print_head(FILE *file, const struct eplb_run_summary *summary)
{
    const struct eplb_shape *shape = &summary->shape;
    const struct eplb_run_outcome *run = summary->with;
    fprintf(file,
            "eplb run: policy %s, routing %s, %" PRId32 " layers of %" PRId32 " experts on %" PRId32
            " rank%s x %" PRId32 " slots (%" PRId32 " redundant on each, %" PRId32 " in total)\n",
            summary->policy, summary->routing, shape->num_layers, shape->num_experts, shape->ep_size,
            shape->ep_size == 1 ? "" : "s", shape->slots_per_rank, shape->redundant_experts_num,
            shape->redundant_experts_num * shape->ep_size);
    fprintf(file,
            "  wall time: %" PRIu64 " forwards and %" PRIu64
            " tokens in %.2f s, %.0f tokens/s; a forward took "
            "%.2f ms (p50), %.2f ms (p99)\n",
            run->statistics.forwards, run->statistics.tokens, (double)run->wall_ns / 1e9,
            eplb_run_tokens_per_second(run), milliseconds(run->step_ns_p50), milliseconds(run->step_ns_p99));
    if (shape->ep_size > summary->processors)
        fprintf(file,
                "  %" PRId32 " ranks share %" PRId32
                " processor%s, so wall time says little; the critical path "
                "does\n",
                shape->ep_size, summary->processors, summary->processors == 1 ? "" : "s");
}

static void print_rounds(FILE *file, const struct eplb_run_summary *summary)
{
    const struct eplb_manager_status *manager = &summary->with->manager;
    char bytes[EPLB_BYTES_TEXT];
    if (!summary->eplb) {
        fprintf(file, "  balancing was off\n");
        return;
    }
    if (manager->policy_runs == 0) {
        fprintf(file,
                "  the run ended before the policy's first one, whose interval is %s (--steps=0 runs until "
                "interrupted, --eplb_update_interval_steps=N counts forwards)\n",
                summary->interval);
        return;
    }
    fprintf(file,
            "  %" PRIu64 " round%s: %" PRIu64 " layers prepared, %" PRIu64 " switched, %" PRIu64
            " given up (%" PRIu64 " timed out); %" PRIu64 " slots moved, %s\n",
            manager->rounds, manager->rounds == 1 ? "" : "s", summary->notes->layers_prepared,
            manager->layers_committed, manager->layers_aborted, manager->layers_timed_out,
            manager->slots_moved, eplb_bytes_text(summary->with->bytes_moved, bytes));
}

static void print_window(FILE *file, const struct eplb_run_summary *summary, int32_t index)
{
    const struct eplb_run_window *window = &summary->notes->windows[index];
    uint64_t length = (uint64_t)summary->window_forwards;
    char span[48];
    char hottest[32] = "-";
    snprintf(span, sizeof span, "%" PRIu64 " - %" PRIu64,
             window->end >= length ? window->end - length + 1 : 1, window->end);
    if (window->hottest >= 0)
        snprintf(hottest, sizeof hottest, "%" PRId32 " (%.0f %%)", window->hottest,
                 window->hottest_share * 100);
    fprintf(file, "  %17s  %17.3f  %9.3f  %-20s  %8" PRIu64 "\n", span, window->initial.mean,
            window->balance.mean, hottest, window->switched);
}

static void print_windows(FILE *file, const struct eplb_run_summary *summary)
{
    const struct eplb_run_notes *notes = summary->notes;
    char watched[48];
    const struct eplb_statistics *statistics = &summary->with->statistics;
    fprintf(
        file,
        "  peak / mean of the ranks, mean over the layers: %.3f in the first window, %.3f in the last (%.3f "
        "under the initial placement)\n",
        statistics->first_window.mean, statistics->last_window.mean, statistics->last_window_initial.mean);
    if (notes->num_windows == 0)
        return;
    snprintf(watched, sizeof watched, "hottest of layer %" PRId32,
             notes->watched_layer == EPLB_NO_LAYER ? 0 : notes->watched_layer);
    fprintf(file, "  %17s  %17s  %9s  %-20s  %8s\n", "forwards", "initial placement", "as it was", watched,
            "switched");
    for (int32_t i = 0; i < notes->num_windows; i++) {
        print_window(file, summary, i);
        if (i == 0 && notes->left_out > 0)
            fprintf(file, "  %17s  (%" PRIu64 " windows are left out)\n", "...", notes->left_out);
    }
}

static void print_change(FILE *file, double with, double without)
{
    if (without > 0)
        fprintf(file, "  %+6.1f %%", (with / without - 1) * 100);
    fputc('\n', file);
}

static void print_paths(FILE *file, const struct eplb_run_summary *summary)
{
    const struct eplb_statistics *with = &summary->with->statistics;
    double tokens = (double)with->critical_path_tokens;
    if (summary->without == NULL) {
        fprintf(file,
                "  critical path (the busiest rank of every layer and forward, added up): %.0f tokens, "
                "%.1f ms of CPU time\n",
                tokens, milliseconds(with->critical_path_ns));
        return;
    }
    const struct eplb_statistics *without = &summary->without->statistics;
    fprintf(file, "  critical path (the busiest rank of every layer and forward, added up)\n");
    fprintf(file, "  %17s  %17s  %9s\n", "", "without balancing", "with");
    fprintf(file, "  %17s  %17" PRId64 "  %9" PRId64, "tokens", without->critical_path_tokens,
            with->critical_path_tokens);
    print_change(file, tokens, (double)without->critical_path_tokens);
    fprintf(file, "  %17s  %17.1f  %9.1f", "CPU time, ms", milliseconds(without->critical_path_ns),
            milliseconds(with->critical_path_ns));
    print_change(file, (double)with->critical_path_ns, (double)without->critical_path_ns);
    fprintf(file, "  %17s  %17" PRId64 "  %9" PRId64 "  (perfect balance)\n", "tokens, mean rank",
            without->mean_path_tokens, with->mean_path_tokens);
}

/** What choosing among replicas costs, beside the experts' own time. */
static void print_routing(FILE *file, const struct eplb_run_summary *summary)
{
    const struct eplb_statistics *with = &summary->with->statistics;
    if (summary->replica_routing == NULL || with->forwards == 0)
        return;
    fprintf(file,
            "  replica routing %s: choosing slots took %.1f us of CPU time per forward (the slowest rank of "
            "every layer, added up)\n",
            summary->replica_routing, eplb_run_routing_us(summary->with));
}

/** The layers whose plans and windows part most, worst first; of the others nothing needs to be said. */
static int32_t find_worst(const struct eplb_run_notes *notes, int32_t *worst, int32_t most)
{
    int32_t count = 0;
    for (int32_t layer = 0; layer < notes->shape.num_layers; layer++) {
        const struct eplb_run_promises *at = &notes->promises[layer];
        if (at->switches == 0)
            continue;
        int32_t place = count < most ? count++ : most;
        double gap = (at->measured - at->predicted) / (double)at->switches;
        for (; place > 0; place--) {
            const struct eplb_run_promises *before = &notes->promises[worst[place - 1]];
            if ((before->measured - before->predicted) / (double)before->switches >= gap)
                break;
            if (place < most)
                worst[place] = worst[place - 1];
        }
        if (place < most)
            worst[place] = layer;
    }
    return count;
}

static void print_promise(FILE *file, const char *name, const struct eplb_run_promises *promises)
{
    double switches = (double)promises->switches;
    fprintf(file, "  %17s  %9" PRIu64 "  %9.3f  %10.3f  %9.3f\n", name, promises->switches,
            promises->predicted / switches, promises->even / switches, promises->measured / switches);
}

/** What the plans promised of the windows after their switches, and what these brought. */
static void print_promises(FILE *file, const struct eplb_run_summary *summary)
{
    enum { MOST_LAYERS = 4 };
    const struct eplb_run_notes *notes = summary->notes;
    struct eplb_run_promises all = {0};
    int32_t worst[MOST_LAYERS];
    char name[24];
    for (int32_t layer = 0; layer < notes->shape.num_layers; layer++) {
        all.switches += notes->promises[layer].switches;
        all.predicted += notes->promises[layer].predicted;
        all.even += notes->promises[layer].even;
        all.measured += notes->promises[layer].measured;
    }
    if (all.switches == 0)
        return;
    fprintf(file, "  peak / mean in the window after each switch: as planned, if copies had shared their "
                  "expert evenly, and as it was\n");
    fprintf(file, "  %17s  %9s  %9s  %10s  %9s\n", "", "switches", "planned", "even split", "measured");
    print_promise(file, "all layers", &all);
    int32_t count = find_worst(notes, worst, MOST_LAYERS);
    for (int32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "layer %" PRId32, worst[i]);
        print_promise(file, name, &notes->promises[worst[i]]);
    }
}

static void print_chart(FILE *file, const struct eplb_run_summary *summary)
{
    const struct eplb_run_notes *notes = summary->notes;
    double total = 0;
    if (notes->loads_layer == EPLB_NO_LAYER)
        return;
    for (int32_t rank = 0; rank < summary->shape.ep_size; rank++)
        total += notes->measured[rank];
    if (total <= 0)
        return;
    struct eplb_chart_style style = eplb_chart_style_of(file);
    fprintf(file,
            "  load of the ranks in layer %" PRId32
            " in the last window: under the initial placement (before), "
            "and as it was (after)\n",
            notes->loads_layer);
    eplb_chart_ranks(file, &style, notes->initial, notes->measured, summary->shape.ep_size,
                     total / summary->shape.ep_size);
}

static void print_verdict(FILE *file, const struct eplb_run_summary *summary)
{
    const struct eplb_run_outcome *run = summary->with;
    if (!summary->verify)
        return;
    if (summary->verdict == EPLB_RUN_VERIFIED)
        fprintf(file,
                "  verified: yes (all %" PRIu64 " tokens and the bits of their logits are the same without "
                "balancing; %" PRIu64 " slots held the right expert after their layer had switched)\n",
                run->statistics.tokens, run->slots_checked);
    else
        fprintf(file, "  verified: %s (%s)\n", summary->verdict == EPLB_RUN_DIFFERS ? "no" : "not compared",
                summary->reason);
}

void eplb_run_summary_print(FILE *file, const struct eplb_run_summary *summary)
{
    print_head(file, summary);
    print_rounds(file, summary);
    print_windows(file, summary);
    print_promises(file, summary);
    print_chart(file, summary);
    print_paths(file, summary);
    print_routing(file, summary);
    print_verdict(file, summary);
}

/* --------------------------------------------------------------------------------- for programs */

static void add_key(struct eplb_text *text, const char *key)
{
    eplb_text_add(text, ",\n  \"%s\": ", key);
}

static void add_text(struct eplb_text *text, const char *key, const char *value)
{
    add_key(text, key);
    eplb_text_add_string(text, value);
}

static void add_number(struct eplb_text *text, const char *key, uint64_t value)
{
    add_key(text, key);
    eplb_text_add(text, "%" PRIu64, value);
}

static void add_real(struct eplb_text *text, const char *key, double value)
{
    add_key(text, key);
    eplb_text_add_real(text, value);
}

static void add_null(struct eplb_text *text, const char *key)
{
    add_key(text, key);
    eplb_text_add(text, "null");
}

static void add_digest(struct eplb_text *text, const char *key, uint64_t digest)
{
    add_key(text, key);
    eplb_text_add(text, "\"%016" PRIx64 "\"", digest);
}

static void add_shape(struct eplb_text *text, const struct eplb_run_summary *summary)
{
    const struct eplb_shape *shape = &summary->shape;
    const struct eplb_run_outcome *run = summary->with;
    add_text(text, "instance_name", summary->instance_name);
    add_text(text, "status", eplb_status_text(summary->status));
    add_number(text, "interrupted_by_signal", (uint64_t)run->interrupted);
    add_key(text, "lost_rank");
    if (run->lost_rank < 0)
        eplb_text_add(text, "null");
    else
        eplb_text_add(text, "%" PRId32, run->lost_rank);
    add_number(text, "steps", run->statistics.forwards);
    add_number(text, "tokens", run->statistics.tokens);
    add_number(text, "ep_size", (uint64_t)shape->ep_size);
    add_number(text, "num_layers", (uint64_t)shape->num_layers);
    add_number(text, "num_experts", (uint64_t)shape->num_experts);
    add_number(text, "slots_per_rank", (uint64_t)shape->slots_per_rank);
    add_text(text, "policy", summary->policy);
    add_text(text, "routing", summary->routing);
    if (summary->replica_routing == NULL)
        add_null(text, "replica_routing");
    else
        add_text(text, "replica_routing", summary->replica_routing);
}

static void add_balancing(struct eplb_text *text, const struct eplb_run_summary *summary)
{
    const struct eplb_run_outcome *run = summary->with;
    const struct eplb_manager_status *manager = &run->manager;
    const struct eplb_statistics *statistics = &run->statistics;
    add_number(text, "policy_runs", manager->policy_runs);
    add_number(text, "rounds", manager->rounds);
    add_number(text, "traffic_shifts", manager->shifts);
    add_number(text, "weight_solves", manager->weight_solves);
    add_number(text, "weight_updates", manager->weight_updates);
    add_number(text, "layers_published", manager->layers_published);
    add_number(text, "layers_prepared", summary->notes->layers_prepared);
    add_number(text, "layers_activated", manager->layers_committed);
    add_number(text, "layers_aborted", manager->layers_aborted);
    add_number(text, "layers_timed_out", manager->layers_timed_out);
    add_number(text, "slots_moved", manager->slots_moved);
    add_number(text, "slots_sent", manager->slots_sent);
    add_number(text, "bytes_moved", (uint64_t)run->bytes_moved);
    add_number(text, "slots_checked", run->slots_checked);
    add_number(text, "window_forwards", (uint64_t)summary->window_forwards);
    add_real(text, "peak_over_mean_first_window", statistics->first_window.mean);
    add_real(text, "peak_over_mean_last_window", statistics->last_window.mean);
    add_real(text, "peak_over_mean_last_window_initial", statistics->last_window_initial.mean);
    add_real(text, "worst_peak_over_mean_first_window", statistics->first_window.worst);
    add_real(text, "worst_peak_over_mean_last_window", statistics->last_window.worst);
    add_real(text, "worst_peak_over_mean_last_window_initial", statistics->last_window_initial.worst);
}

static void add_times(struct eplb_text *text, const struct eplb_run_summary *summary)
{
    const struct eplb_run_outcome *run = summary->with;
    const struct eplb_run_outcome *without = summary->without;
    add_real(text, "critical_path_ms_with", milliseconds(run->statistics.critical_path_ns));
    if (without == NULL)
        add_null(text, "critical_path_ms_without");
    else
        add_real(text, "critical_path_ms_without", milliseconds(without->statistics.critical_path_ns));
    add_number(text, "critical_path_tokens_with", (uint64_t)run->statistics.critical_path_tokens);
    if (without == NULL)
        add_null(text, "critical_path_tokens_without");
    else
        add_number(text, "critical_path_tokens_without", (uint64_t)without->statistics.critical_path_tokens);
    add_number(text, "mean_path_tokens", (uint64_t)run->statistics.mean_path_tokens);
    add_real(text, "replica_routing_us_per_step", eplb_run_routing_us(run));
    add_real(text, "wall_ms", milliseconds(run->wall_ns));
    add_real(text, "tokens_per_second", eplb_run_tokens_per_second(run));
    add_real(text, "step_ms_p50", milliseconds(run->step_ns_p50));
    add_real(text, "step_ms_p99", milliseconds(run->step_ns_p99));
}

static void add_window(struct eplb_text *text, const struct eplb_run_window *window)
{
    eplb_text_add(text, "\n    {\"end\": %" PRIu64 ", \"peak_over_mean\": ", window->end);
    eplb_text_add_real(text, window->balance.mean);
    eplb_text_add(text, ", \"peak_over_mean_initial\": ");
    eplb_text_add_real(text, window->initial.mean);
    eplb_text_add(text, ", \"hottest\": %" PRId32 ", \"hottest_share\": ", window->hottest);
    eplb_text_add_real(text, window->hottest_share);
    eplb_text_add(text, ", \"switched\": %" PRIu64 "}", window->switched);
}

static void add_windows(struct eplb_text *text, const struct eplb_run_notes *notes)
{
    add_number(text, "windows_left_out", notes->left_out);
    add_key(text, "watched_layer");
    eplb_text_add(text, "%" PRId32, notes->watched_layer);
    add_key(text, "windows");
    eplb_text_add(text, "[");
    for (int32_t i = 0; i < notes->num_windows; i++) {
        eplb_text_add(text, i == 0 ? "" : ",");
        add_window(text, &notes->windows[i]);
    }
    eplb_text_add(text, "%s]", notes->num_windows == 0 ? "" : "\n  ");
}

static void add_policy_runs(struct eplb_text *text, const struct eplb_run_notes *notes)
{
    add_key(text, "layers_published_by_run");
    eplb_text_add(text, "[");
    for (int32_t i = 0; i < notes->num_policy_runs; i++)
        eplb_text_add(text, "%s%" PRIu64, i == 0 ? "" : ", ", notes->published[i]);
    eplb_text_add(text, "]");
}

static void add_outcome(struct eplb_text *text, const struct eplb_outcome *outcome)
{
    eplb_text_add(text,
                  "\n    {\"layer\": %" PRId32 ", \"generation\": %" PRIu64 ", \"forwards\": %" PRIu64
                  ", \"predicted_peak\": ",
                  outcome->layer, outcome->generation, outcome->forwards);
    eplb_text_add_real(text, outcome->predicted);
    eplb_text_add(text, ", \"even_split_peak\": ");
    eplb_text_add_real(text, outcome->even);
    eplb_text_add(text, ", \"measured_peak\": ");
    eplb_text_add_real(text, outcome->measured);
    eplb_text_add(text, ", \"mean\": ");
    eplb_text_add_real(text, outcome->mean);
    eplb_text_add(text, "}");
}

static void add_outcomes(struct eplb_text *text, const struct eplb_run_notes *notes)
{
    add_number(text, "outcomes_left_out", notes->outcomes_left_out);
    add_key(text, "outcomes");
    eplb_text_add(text, "[");
    for (int32_t i = 0; i < notes->num_outcomes; i++) {
        eplb_text_add(text, i == 0 ? "" : ",");
        add_outcome(text, &notes->outcomes[i]);
    }
    eplb_text_add(text, "%s]", notes->num_outcomes == 0 ? "" : "\n  ");
}

static void add_verdict(struct eplb_text *text, const struct eplb_run_summary *summary)
{
    add_digest(text, "digest", summary->with->statistics.digest);
    if (summary->without == NULL)
        add_null(text, "digest_without_eplb");
    else
        add_digest(text, "digest_without_eplb", summary->without->statistics.digest);
    add_key(text, "verified");
    eplb_text_add(text, "%s",
                  summary->verdict == EPLB_RUN_NOT_COMPARED ? "null"
                  : summary->verdict == EPLB_RUN_VERIFIED   ? "true"
                                                            : "false");
}

enum eplb_status eplb_run_summary_json(const struct eplb_run_summary *summary, struct eplb_text *text,
                                       struct eplb_error *error)
{
    eplb_text_add(text, "{\n  \"format\": \"eplb-run-1\"");
    add_shape(text, summary);
    add_balancing(text, summary);
    add_times(text, summary);
    add_windows(text, summary->notes);
    add_policy_runs(text, summary->notes);
    add_outcomes(text, summary->notes);
    add_verdict(text, summary);
    eplb_text_add(text, "\n}\n");
    if (text->failed)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the summary");
    return EPLB_OK;
}
