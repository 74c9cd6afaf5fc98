/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * What counts is the balance of the load that comes after a plan. Every policy plans every layer from the
 * windows of a recording up to one, and every routing is judged on the window after it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eplb/clock.h"
#include "eplb/policy.h"
#include "next_window/score.h"
#include "next_window/traffic.h"
#include "support/bench.h"

enum { QUICK_STRIDE = 4, NUM_PARTS = 8, HISTORY = 16, DRAWS = 4, BAR = 50, LABEL = 72, MOST_BARS = 128 };

static const struct recording recordings[] = {
    {"made-up", {NULL}, 4, 16, {8, 16}},
    {"gpt-oss-20b", {"gpt-oss-20b-decode/decode_3phases_16seq_511steps.ids.u8"}, 7, 0, {8, 16}},
    {"deepseek-v2-lite",
     {"deepseek-v2-lite-prefill/intent.ids.u8", "deepseek-v2-lite-prefill/law.ids.u8"},
     8,
     128,
     {16, 32}},
    {"qwen3-30b-a3b", {"qwen3-30b-a3b-prefill/counts_by_language.csv"}, 0, 0, {16, 32}},
    {"olmoe", {"olmoe-mixtral-prefill/olmoe_counts_by_domain.csv"}, 0, 0, {8, 16}},
    {"mixtral", {"olmoe-mixtral-prefill/mixtral_counts_by_domain.csv"}, 0, 0, {4, 8}},
};

static const char *const policies[] = {"balanced", "greedy", "deepseek", "minmax", "robust"};

/** One line of the bench: a recording, a shape, a policy, and what its plans start from. */
struct run {
    const struct recording *recording;
    const struct traffic *traffic;
    struct eplb_shape shape;
    const struct eplb_policy_ops *policy;
    int sticky; /* every plan starts from the one before, else from the initial placement */
    struct eplb_policy_settings settings;
    void *scratch;
    int32_t *active;     /* [num_layers][num_slots] */
    int32_t *expert_ids; /* [num_slots] */
    int32_t *weights;    /* [num_slots] */
    int64_t *history;    /* [HISTORY][num_experts] */
    int64_t *parts;      /* [NUM_PARTS][num_experts] */
    void *diff_scratch;
    struct eplb_move *moves; /* [num_slots] */
    struct scorer scorer;
};

/** Sums over layers and windows of one scope. */
struct totals {
    int32_t count;
    struct score scores[NUM_SCORED_ROUTINGS];
    double *next[NUM_SCORED_ROUTINGS]; /* every next_window, for the percentile */
    double flow, floor;
};

/* Scopes of a row: both windows of one phase; any; planned on the first or second window after a shift. */
enum { WITHIN, ALL, SHIFT_1, SHIFT_2, NUM_SCOPES };
static const char *const scopes[NUM_SCOPES] = {"within", "all", "after_shift_1", "after_shift_2"};

struct figures {
    struct totals totals[NUM_SCOPES];
    double plan_seconds;
    int64_t plans, moved;
};

static void *aligned(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (memory == NULL)
        eplb_bench_fail("no memory to plan in");
    return memory;
}

static void run_init(struct run *run, const struct recording *recording, const struct traffic *traffic,
                     int32_t ep_size, int32_t redundant, const char *policy, int sticky)
{
    struct eplb_error error;
    *run = (struct run){.recording = recording, .traffic = traffic, .sticky = sticky};
    if (eplb_shape_init(&run->shape, traffic->num_layers, traffic->num_experts, ep_size, redundant, &error) !=
        EPLB_OK)
        eplb_bench_fail(error.text);
    run->policy = eplb_policy_find(policy).ops;
    eplb_policy_settings_init(&run->settings);
    size_t slots = (size_t)run->shape.num_slots;
    size_t experts = (size_t)run->shape.num_experts;
    run->scratch = aligned(run->policy->scratch_size(&run->shape, &run->settings));
    run->active = eplb_bench_allocate((size_t)traffic->num_layers * slots, sizeof *run->active);
    run->expert_ids = eplb_bench_allocate(slots, sizeof *run->expert_ids);
    run->weights = eplb_bench_allocate(slots, sizeof *run->weights);
    run->history = eplb_bench_allocate(HISTORY * experts, sizeof *run->history);
    run->parts = eplb_bench_allocate(NUM_PARTS * experts, sizeof *run->parts);
    run->diff_scratch = aligned(eplb_placement_diff_scratch(&run->shape));
    run->moves = eplb_bench_allocate(slots, sizeof *run->moves);
    scorer_init(&run->scorer, traffic, &run->shape);
    for (int32_t layer = 0; layer < traffic->num_layers; layer++)
        eplb_placement_initial(&run->shape, run->active + (size_t)layer * slots);
}

static void run_free(struct run *run)
{
    scorer_free(&run->scorer);
    free(run->scratch);
    free(run->active);
    free(run->expert_ids);
    free(run->weights);
    free(run->history);
    free(run->parts);
    free(run->diff_scratch);
    free(run->moves);
}

/** The window in pieces, where the recording has forwards; returns their number. */
static int32_t cut_into_parts(struct run *run, int32_t layer, int32_t window)
{
    const struct traffic *traffic = run->traffic;
    if (traffic->num_forwards == 0)
        return 0;
    int32_t first = traffic->first_forward[window];
    int32_t forwards = traffic->first_forward[window + 1] - first;
    int32_t num_parts = forwards < NUM_PARTS ? forwards : NUM_PARTS;
    for (int32_t part = 0; part < num_parts; part++)
        traffic_count(traffic, layer, first + forwards * part / num_parts,
                      first + forwards * (part + 1) / num_parts,
                      run->parts + (size_t)part * (size_t)traffic->num_experts);
    return num_parts;
}

/** Plans one layer from a window and those before it; returns the seconds that took. */
static double plan_layer(struct run *run, int32_t layer, int32_t window)
{
    const struct traffic *traffic = run->traffic;
    size_t experts = (size_t)traffic->num_experts;
    struct eplb_error error;
    int32_t num_history = window < HISTORY ? window : HISTORY;
    for (int32_t i = 0; i < num_history; i++)
        memcpy(run->history + (size_t)i * experts, traffic_load(traffic, window - num_history + i, layer),
               experts * sizeof *run->history);
    int32_t num_parts = cut_into_parts(run, layer, window);
    struct eplb_policy_problem problem = {
        .size = sizeof problem,
        .shape = &run->shape,
        .settings = &run->settings,
        .load = traffic_load(traffic, window, layer),
        .active = run->active + (size_t)layer * (size_t)run->shape.num_slots,
        .history = num_history > 0 ? run->history : NULL,
        .num_history = num_history,
        .parts = num_parts > 0 ? run->parts : NULL,
        .num_parts = num_parts,
    };
    struct eplb_policy_answer answer = {
        .size = sizeof answer, .expert_ids = run->expert_ids, .weights = run->weights};
    const struct eplb_clock *clock = eplb_clock_system();
    int64_t start = clock->now(clock->context);
    if (run->policy->plan_layer(&problem, run->scratch, &answer, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
    double seconds = (double)(clock->now(clock->context) - start) * 1e-9;
    struct eplb_best_split best;
    if (!answer.has_weights)
        eplb_best_split(&run->shape, run->expert_ids, problem.load, run->scorer.graph_memory, run->weights,
                        NULL, &best);
    return seconds;
}

static void add(struct totals *totals, const struct score *scores, double flow, double floor)
{
    for (int i = 0; i < NUM_SCORED_ROUTINGS; i++) {
        totals->scores[i].same_window += scores[i].same_window;
        totals->scores[i].next_window += scores[i].next_window;
        totals->scores[i].next_step += scores[i].next_step;
        totals->next[i][totals->count] = scores[i].next_window;
    }
    totals->flow += flow;
    totals->floor += floor;
    totals->count++;
}

/** How many windows of a phase that began with a shift there are up to this one; 0 in the first phase. */
static int32_t windows_since_shift(const struct traffic *traffic, int32_t window)
{
    int32_t count = 1;
    while (window - count >= 0 && traffic->phase[window - count] == traffic->phase[window])
        count++;
    return window - count < 0 ? 0 : count;
}

static void run_layer(struct run *run, int32_t layer, int32_t window, struct figures *figures)
{
    const struct traffic *traffic = run->traffic;
    struct score scores[NUM_SCORED_ROUTINGS];
    int32_t *active = run->active + (size_t)layer * (size_t)run->shape.num_slots;
    figures->plan_seconds += plan_layer(run, layer, window);
    figures->plans++;
    if (window > 0 || !run->sticky)
        figures->moved +=
            eplb_placement_diff(&run->shape, active, run->expert_ids, run->diff_scratch, run->moves);
    scorer_score(&run->scorer, layer, window, run->expert_ids, run->weights, scores);
    double flow = scorer_flow(&run->scorer, layer, window + 1);
    /* Where only the counts of whole texts were recorded, they are too many for chance to matter. */
    double floor = traffic->num_forwards == 0 ? NAN : scorer_floor(&run->scorer, layer, window + 1, DRAWS);
    add(&figures->totals[ALL], scores, flow, floor);
    if (traffic->phase[window] == traffic->phase[window + 1]) {
        int32_t since = windows_since_shift(traffic, window);
        add(&figures->totals[WITHIN], scores, flow, floor);
        if (since == 1 || since == 2)
            add(&figures->totals[since == 1 ? SHIFT_1 : SHIFT_2], scores, flow, floor);
    }
    if (run->sticky)
        memcpy(active, run->expert_ids, (size_t)run->shape.num_slots * sizeof *active);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile95(double *values, int32_t count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[(count * 95 + 99) / 100 - 1];
}

static void print_scope(struct eplb_bench_report *report, const struct run *run, const char *scope,
                        struct totals *totals, const struct figures *figures)
{
    double n = totals->count;
    for (int i = 0; i < NUM_SCORED_ROUTINGS && totals->count > 0; i++) {
        const struct score *score = &totals->scores[i];
        if (isnan(score->next_window))
            continue;
        int64_t plans = run->sticky ? figures->plans - run->traffic->num_layers : figures->plans;
        const struct eplb_bench_cell cells[] = {
            EPLB_BENCH_CELL_TEXT("recording", run->recording->name),
            EPLB_BENCH_CELL_INT("ep_size", run->shape.ep_size),
            EPLB_BENCH_CELL_INT("redundant", run->shape.redundant_experts_num),
            EPLB_BENCH_CELL_TEXT("policy", run->policy->name),
            EPLB_BENCH_CELL_TEXT("start", run->sticky ? "sticky" : "fresh"),
            EPLB_BENCH_CELL_TEXT("routing", eplb_replica_routing_name(scored_routings[i])),
            EPLB_BENCH_CELL_TEXT("scope", scope),
            EPLB_BENCH_CELL_INT("plans", totals->count),
            EPLB_BENCH_CELL_REAL("same_window", score->same_window / n),
            EPLB_BENCH_CELL_REAL("next_window", score->next_window / n),
            EPLB_BENCH_CELL_REAL("next_window_p95", percentile95(totals->next[i], totals->count)),
            EPLB_BENCH_CELL_REAL("next_window_flow", totals->flow / n),
            EPLB_BENCH_CELL_REAL("sampling_floor", totals->floor / n),
            EPLB_BENCH_CELL_REAL("next_step", score->next_step / n),
            EPLB_BENCH_CELL_REAL("moved_per_rank_layer",
                                 plans > 0 ? (double)figures->moved / (double)plans / run->shape.ep_size
                                           : NAN),
            EPLB_BENCH_CELL_REAL("plan_ms", figures->plan_seconds * 1e3 / (double)figures->plans),
        };
        eplb_bench_row(report, cells, sizeof cells / sizeof cells[0]);
    }
}

/* ---- the picture ---- */

struct bar {
    char label[LABEL];
    double excess;
};

static struct bar bars[MOST_BARS];
static int num_bars;

static void add_bar(const struct run *run, const char *what, double excess)
{
    if (num_bars == MOST_BARS)
        return;
    (void)snprintf(bars[num_bars].label, LABEL, "%s EP %d  %s, %s", run->recording->name, run->shape.ep_size,
                   run->policy->name, what);
    bars[num_bars++].excess = excess;
}

/** What others do, and what the two halves bring: even split, the best split of the window after. */
static void add_bars(const struct run *run, const struct totals *within)
{
    add_bar(run, "even split", within->scores[0].next_window / within->count - 1);
    add_bar(run, "best split", within->flow / within->count - 1);
}

static void draw_bars(void)
{
    double most = 0;
    for (int i = 0; i < num_bars; i++)
        most = bars[i].excess > most ? bars[i].excess : most;
    if (num_bars > 0)
        printf(
            "\npeak / mean - 1 on the window after the plan, one redundant slot per rank, within a phase\n");
    for (int i = 0; i < num_bars; i++) {
        printf("  %-*s %7.4f ", LABEL - 16, bars[i].label, bars[i].excess);
        for (int j = 0; j < (int)(bars[i].excess / most * BAR + 0.5); j++)
            printf("#");
        printf("\n");
    }
}

static void totals_init(struct totals *totals, const struct traffic *traffic)
{
    for (int i = 0; i < NUM_SCORED_ROUTINGS; i++)
        totals->next[i] = eplb_bench_allocate((size_t)traffic->num_windows * (size_t)traffic->num_layers,
                                              sizeof *totals->next[i]);
}

static void totals_free(struct totals *totals)
{
    for (int i = 0; i < NUM_SCORED_ROUTINGS; i++)
        free(totals->next[i]);
}

static void bench_run(struct eplb_bench_report *report, struct run *run)
{
    struct figures figures = {.plans = 0};
    for (int scope = 0; scope < NUM_SCOPES; scope++)
        totals_init(&figures.totals[scope], run->traffic);
    for (int32_t window = 0; window + 1 < run->traffic->num_windows; window++)
        for (int32_t layer = 0; layer < run->traffic->num_layers; layer++)
            run_layer(run, layer, window, &figures);
    if (!run->sticky && run->shape.redundant_experts_num == 1 && figures.totals[WITHIN].count > 0)
        add_bars(run, &figures.totals[WITHIN]);
    for (int scope = 0; scope < NUM_SCOPES; scope++) {
        print_scope(report, run, scopes[scope], &figures.totals[scope], &figures);
        totals_free(&figures.totals[scope]);
    }
}

static void bench_recording(struct eplb_bench_report *report, const struct recording *recording,
                            const struct eplb_bench_options *options)
{
    struct traffic traffic;
    if (!traffic_read(options->data, recording, options->quick ? QUICK_STRIDE : 1, &traffic))
        return;
    for (int i = 0; i < 2; i++)
        for (int32_t redundant = 1; redundant <= 2; redundant++)
            for (size_t j = 0; j < sizeof policies / sizeof policies[0]; j++)
                for (int sticky = 0; sticky <= 1; sticky++) {
                    struct run run;
                    if (!eplb_policy_find(policies[j]).known)
                        continue;
                    run_init(&run, recording, &traffic, recording->ep_sizes[i], redundant, policies[j],
                             sticky);
                    bench_run(report, &run);
                    run_free(&run);
                }
    traffic_free(&traffic);
}

int main(int argc, char **argv)
{
    struct eplb_bench_options options;
    int code = eplb_bench_parse(
        argc, argv,
        "Peak / mean of the ranks on the window after a plan, of every policy and routing on every\n"
        "recording in DIR: mean over layers and windows. next_window_flow is the flow optimum of that\n"
        "window on the placement, which no routing can be below; sampling_floor what chance leaves a rule\n"
        "that knows the window's rates but has not seen it; next_step the mean over single forwards, whole\n"
        "tokens. Scope within: both windows are of one phase; all: also over the shifts; after_shift_1 and\n"
        "_2: planned on the first or second window of a new phase. --quick takes every fourth layer.\n"
        "Without DIR: made-up traffic only.",
        &options);
    if (code >= 0)
        return code;
    struct eplb_bench_report report = {.json = options.json};
    for (size_t i = 0; i < sizeof recordings / sizeof recordings[0]; i++)
        bench_recording(&report, &recordings[i], &options);
    if (!options.json)
        draw_bars();
    return eplb_bench_end(&report);
}
