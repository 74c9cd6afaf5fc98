/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/replay_report.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

/** Lines of the table. */
static int32_t count_of(const struct eplb_replay_report *report)
{
    return report->windows->load.num_steps - 1;
}

/* ---------------------------------------------------------------------------------- for people */

/** What the figures count as the load of a rank. */
static const char *split_note(enum eplb_replica_routing routing)
{
    switch (routing) {
    case EPLB_ROUTING_STATIC:
        return "every expert's load split evenly over its replicas";
    case EPLB_ROUTING_LOCAL:
        return "counted as split evenly, since where tokens come from was not recorded";
    case EPLB_ROUTING_WEIGHTED:
        return "by the weights that came with the placement";
    case EPLB_ROUTING_ADAPTIVE:
    case EPLB_ROUTING_BATCH:
        break;
    }
    return "by the best split of the window that is scored";
}

static void print_head(FILE *file, const struct eplb_replay_report *report)
{
    const struct eplb_shape *shape = &report->shape;
    fprintf(file,
            "eplb replay: policy %s, %" PRId32 " layers of %" PRId32 " experts on %" PRId32
            " ranks x %" PRId32 " slots (%" PRId32 " redundant on each, %" PRId32 " in total)\n",
            report->policy, shape->num_layers, shape->num_experts, shape->ep_size, shape->slots_per_rank,
            shape->redundant_experts_num, shape->redundant_experts_num * shape->ep_size);
    fprintf(file, "  replica routing %s: %s\n", eplb_replica_routing_name(report->routing),
            split_note(report->routing));
    fprintf(
        file,
        "  peak / mean of the ranks, mean over the layers: of the candidates on the window that they were\n"
        "  planned from (same); on the one after it of the placement that was active (next) and of the one\n"
        "  at the start (initial); layers published, slots changed, of these from other ranks\n");
    fprintf(file, "  %11s  %11s  %7s  %7s  %7s  %6s  %6s  %6s  label\n", "planned on", "scored on", "same",
            "next", "initial", "layers", "slots", "others");
}

static void print_steps(FILE *file, const struct eplb_replay_report *report, int32_t window)
{
    int64_t first = report->windows->load.step_ids[window];
    int64_t last = report->windows->last_ids[window];
    char text[48];
    if (first == last)
        snprintf(text, sizeof text, "%" PRId64, first);
    else
        snprintf(text, sizeof text, "%" PRId64 "-%" PRId64, first, last);
    fprintf(file, "  %11s", text);
}

static void print_figure(FILE *file, bool there, double figure)
{
    if (there)
        fprintf(file, "  %7.4f", figure);
    else
        fprintf(file, "  %7s", "-");
}

static void print_label(FILE *file, const struct eplb_replay_report *report, int32_t window)
{
    const char *from = report->windows->load.labels[window];
    const char *to = report->windows->load.labels[window + 1];
    char shown[EPLB_CLI_SHOWN];
    if (from[0] != '\0')
        fprintf(file, "  %s", eplb_cli_shown(shown, from));
    if (to[0] != '\0' && strcmp(from, to) != 0)
        fprintf(file, " > %s", eplb_cli_shown(shown, to));
    fputc('\n', file);
}

static void print_window(FILE *file, const struct eplb_replay_report *report, int32_t window)
{
    const struct eplb_evaluation *found = &report->evaluations[window];
    print_steps(file, report, window);
    print_steps(file, report, window + 1);
    print_figure(file, found->same.layers > 0, found->same.mean);
    print_figure(file, found->next.layers > 0, found->next.mean);
    print_figure(file, found->initial.layers > 0, found->initial.mean);
    fprintf(file, "  %6" PRId32 "  %6" PRId64 "  %6" PRId64, found->published, found->moved,
            found->from_other_ranks);
    print_label(file, report, window);
}

static void print_total(FILE *file, const struct eplb_replay_report *report,
                        const struct eplb_evaluation_total *total)
{
    double count = count_of(report);
    fprintf(file, "  %24s", "mean over the windows");
    print_figure(file, total->windows_planned > 0, total->same);
    print_figure(file, total->windows_scored > 0, total->next);
    print_figure(file, total->windows_scored > 0, total->initial);
    fprintf(file, "  %6.1f  %6.1f  %6.1f\n", (double)total->published / count, (double)total->moved / count,
            (double)total->from_other_ranks / count);
}

static void print_counts(FILE *file, const struct eplb_replay_report *report,
                         const struct eplb_evaluation_total *total)
{
    if (!report->plans) {
        fprintf(file, "  enable_eplb is false: every layer stays as it is\n");
        return;
    }
    fprintf(file,
            "  published: %" PRId64 " of %" PRId64
            " layers (a gain of at least %g %%); slots changed: %" PRId64
            ", of these from other ranks: %" PRId64 "\n",
            total->published, (int64_t)report->shape.num_layers * count_of(report), report->threshold * 100,
            total->moved, total->from_other_ranks);
}

void eplb_replay_report_print(FILE *file, const struct eplb_replay_report *report)
{
    struct eplb_evaluation_total total;
    eplb_evaluation_sum(report->evaluations, count_of(report), &total);
    print_head(file, report);
    for (int32_t window = 0; window < count_of(report); window++)
        print_window(file, report, window);
    print_counts(file, report, &total);
    print_total(file, report, &total);
}

/* --------------------------------------------------------------------------------- for programs */

static void add_number(struct eplb_text *text, const char *key, int64_t value)
{
    eplb_text_add(text, ",\n  \"%s\": %" PRId64, key, value);
}

/** A real, or null where there is none. */
static void add_figure(struct eplb_text *text, const char *key, bool there, double figure)
{
    eplb_text_add(text, ", \"%s\": ", key);
    if (there)
        eplb_text_add_real(text, figure);
    else
        eplb_text_add(text, "null");
}

static void add_head(struct eplb_text *text, const struct eplb_replay_report *report)
{
    const struct eplb_shape *shape = &report->shape;
    eplb_text_add(text, "{\n  \"format\": \"eplb-replay-1\",\n  \"policy\": ");
    eplb_text_add_string(text, report->policy);
    eplb_text_add(text, ",\n  \"replica_routing\": ");
    eplb_text_add_string(text, eplb_replica_routing_name(report->routing));
    add_number(text, "num_layers", shape->num_layers);
    add_number(text, "num_experts", shape->num_experts);
    add_number(text, "ep_size", shape->ep_size);
    add_number(text, "slots_per_rank", shape->slots_per_rank);
    eplb_text_add(text, ",\n  \"min_peak_load_improvement\": ");
    eplb_text_add_real(text, report->threshold);
}

static void add_span(struct eplb_text *text, const struct eplb_replay_report *report, const char *key,
                     int32_t window)
{
    const struct eplb_replay_windows *windows = report->windows;
    eplb_text_add(text, "\"%s\": {\"first\": %" PRId64 ", \"last\": %" PRId64 ", \"label\": ", key,
                  windows->load.step_ids[window], windows->last_ids[window]);
    eplb_text_add_string(text, windows->load.labels[window]);
    eplb_text_add(text, "}");
}

static void add_window(struct eplb_text *text, const struct eplb_replay_report *report, int32_t window)
{
    const struct eplb_evaluation *found = &report->evaluations[window];
    eplb_text_add(text, "\n    {");
    add_span(text, report, "planned_on", window);
    eplb_text_add(text, ", ");
    add_span(text, report, "scored_on", window + 1);
    eplb_text_add(text, ", \"layers_scored\": %" PRId32, found->next.layers);
    add_figure(text, "peak_over_mean_same", found->same.layers > 0, found->same.mean);
    add_figure(text, "peak_over_mean_next", found->next.layers > 0, found->next.mean);
    add_figure(text, "peak_over_mean_next_initial", found->initial.layers > 0, found->initial.mean);
    add_figure(text, "worst_peak_over_mean_next", found->next.layers > 0, found->next.worst);
    add_figure(text, "worst_peak_over_mean_next_initial", found->initial.layers > 0, found->initial.worst);
    eplb_text_add(text,
                  ", \"layers_published\": %" PRId32 ", \"slots_moved\": %" PRId64
                  ", \"slots_from_other_ranks\": %" PRId64 "}",
                  found->published, found->moved, found->from_other_ranks);
}

static void add_totals(struct eplb_text *text, const struct eplb_replay_report *report)
{
    struct eplb_evaluation_total total;
    eplb_evaluation_sum(report->evaluations, count_of(report), &total);
    bool scored = total.windows_scored > 0;
    eplb_text_add(text, ",\n  \"totals\": {\"windows\": %" PRId32 ", \"windows_scored\": %" PRId32,
                  count_of(report), total.windows_scored);
    add_figure(text, "peak_over_mean_same", total.windows_planned > 0, total.same);
    add_figure(text, "peak_over_mean_next", scored, total.next);
    add_figure(text, "peak_over_mean_next_initial", scored, total.initial);
    add_figure(text, "worst_peak_over_mean_next", scored, total.worst_next);
    eplb_text_add(text,
                  ", \"layers_published\": %" PRId64 ", \"slots_moved\": %" PRId64
                  ", \"slots_from_other_ranks\": %" PRId64 "}\n}\n",
                  total.published, total.moved, total.from_other_ranks);
}

enum eplb_status eplb_replay_report_json(const struct eplb_replay_report *report, struct eplb_text *text,
                                         struct eplb_error *error)
{
    add_head(text, report);
    eplb_text_add(text, ",\n  \"windows\": [");
    for (int32_t window = 0; window < count_of(report); window++) {
        eplb_text_add(text, window == 0 ? "" : ",");
        add_window(text, report, window);
    }
    eplb_text_add(text, "\n  ]");
    add_totals(text, report);
    if (text->failed)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the report of %" PRId32 " windows",
                  report->windows->load.num_steps);
    return EPLB_OK;
}
