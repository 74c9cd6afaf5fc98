/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/plan_summary.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/chart.h"

enum { HOTTEST_SHOWN = 4 };

struct layer_balance {
    double before; /* peak / mean under the current placement, 1 without load */
    double after;
    double bound;
};

struct totals {
    int32_t worst_before; /* layers, as rows */
    int32_t worst_after;
    struct layer_balance mean;
    int32_t published;
    int32_t loaded; /* layers with load */
    int64_t local_copies;
    int64_t messages;
};

struct work {
    const struct eplb_plan_view *plan;
    struct layer_balance *layers; /* [num_layers] */
    int32_t *replicas;            /* [num_experts] */
    struct eplb_move *moves;      /* [num_slots] */
    void *diff_scratch;
    double *rank_before; /* [ep_size] */
    double *rank_after;
    struct totals totals;
};

static const int32_t *table_of(const struct eplb_plan_view *plan, const int32_t *tables, int32_t layer)
{
    return tables + (size_t)layer * (size_t)plan->shape.num_slots;
}

static const int64_t *load_of(const struct eplb_plan_view *plan, int32_t layer)
{
    return plan->load + (size_t)layer * (size_t)plan->shape.num_experts;
}

static struct layer_balance balance_of(struct work *work, int32_t layer)
{
    const struct eplb_plan_view *plan = work->plan;
    const int64_t *load = load_of(plan, layer);
    struct eplb_balance before =
        eplb_balance_of(&plan->shape, table_of(plan, plan->before, layer), load, work->replicas);
    struct eplb_balance after =
        eplb_balance_of(&plan->shape, table_of(plan, plan->after, layer), load, work->replicas);
    if (before.mean <= 0)
        return (struct layer_balance){1, 1, 1};
    return (struct layer_balance){before.peak / before.mean, after.peak / before.mean,
                                  after.lower_bound / before.mean};
}

static void count_moves(struct work *work, int32_t layer)
{
    const struct eplb_plan_view *plan = work->plan;
    int32_t count = eplb_placement_diff(&plan->shape, table_of(plan, plan->before, layer),
                                        table_of(plan, plan->after, layer), work->diff_scratch, work->moves);
    for (int32_t i = 0; i < count; i++) {
        if (work->moves[i].kind == EPLB_MOVE_LOCAL)
            work->totals.local_copies++;
        else
            work->totals.messages++;
    }
}

static void add_layer(struct work *work, int32_t layer)
{
    struct totals *totals = &work->totals;
    struct layer_balance balance = balance_of(work, layer);
    work->layers[layer] = balance;
    totals->mean.before += balance.before / work->plan->shape.num_layers;
    totals->mean.after += balance.after / work->plan->shape.num_layers;
    totals->mean.bound += balance.bound / work->plan->shape.num_layers;
    if (balance.before > work->layers[totals->worst_before].before)
        totals->worst_before = layer;
    if (balance.after > work->layers[totals->worst_after].after)
        totals->worst_after = layer;
    totals->published += work->plan->benefits[layer].publish;
    totals->loaded += work->plan->benefits[layer].current_peak > 0;
    count_moves(work, layer);
}

static void print_table(FILE *file, const struct work *work)
{
    const struct totals *totals = &work->totals;
    const int32_t *ids = work->plan->layer_ids;
    const struct layer_balance *worst = &work->layers[totals->worst_before];
    fprintf(file, "  peak / mean of the ranks     before    after    bound\n");
    fprintf(file, "  mean over %4d layers       %8.4f %8.4f %8.4f\n", work->plan->shape.num_layers,
            totals->mean.before, totals->mean.after, totals->mean.bound);
    fprintf(file, "  worst before: layer %-6d %8.4f %8.4f %8.4f\n", ids[totals->worst_before], worst->before,
            worst->after, worst->bound);
    worst = &work->layers[totals->worst_after];
    fprintf(file, "  worst after:  layer %-6d %8.4f %8.4f %8.4f\n", ids[totals->worst_after], worst->before,
            worst->after, worst->bound);
}

/** The next hottest expert after `last`, by load, ties to the lowest id; -1 when there is none. */
static int32_t next_hottest(const int64_t *load, int32_t num_experts, int32_t last)
{
    int32_t best = -1;
    for (int32_t expert = 0; expert < num_experts; expert++) {
        int comes_later =
            last < 0 || load[expert] < load[last] || (load[expert] == load[last] && expert > last);
        if (comes_later && (best < 0 || load[expert] > load[best]))
            best = expert;
    }
    return best;
}

static void print_hottest(FILE *file, struct work *work, int32_t layer)
{
    const struct eplb_plan_view *plan = work->plan;
    const int64_t *load = load_of(plan, layer);
    eplb_placement_replicas(&plan->shape, table_of(plan, plan->after, layer), work->replicas);
    fprintf(file, "  hottest experts of layer %d:", plan->layer_ids[layer]);
    int32_t expert = -1;
    for (int i = 0; i < HOTTEST_SHOWN && i < plan->shape.num_experts; i++) {
        expert = next_hottest(load, plan->shape.num_experts, expert);
        fprintf(file, "%s %d (load %" PRId64 ", %d cop%s)", i == 0 ? "" : ",", expert, load[expert],
                work->replicas[expert], work->replicas[expert] == 1 ? "y" : "ies");
    }
    fputc('\n', file);
}

static void sum_ranks(struct work *work, const int32_t *expert_ids, const int64_t *load, double *sums)
{
    const struct eplb_shape *shape = &work->plan->shape;
    eplb_placement_replicas(shape, expert_ids, work->replicas);
    for (int32_t rank = 0; rank < shape->ep_size; rank++)
        sums[rank] = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        sums[slot / shape->slots_per_rank] +=
            (double)load[expert_ids[slot]] / work->replicas[expert_ids[slot]];
}

static void print_chart(FILE *file, struct work *work, int32_t layer)
{
    const struct eplb_plan_view *plan = work->plan;
    const int64_t *load = load_of(plan, layer);
    sum_ranks(work, table_of(plan, plan->before, layer), load, work->rank_before);
    sum_ranks(work, table_of(plan, plan->after, layer), load, work->rank_after);
    double total = 0;
    for (int32_t rank = 0; rank < plan->shape.ep_size; rank++)
        total += work->rank_before[rank];
    if (total <= 0)
        return;
    struct eplb_chart_style style = eplb_chart_style_of(file);
    fprintf(file, "  load of the ranks in layer %d\n", plan->layer_ids[layer]);
    eplb_chart_ranks(file, &style, work->rank_before, work->rank_after, plan->shape.ep_size,
                     total / plan->shape.ep_size);
}

static void print_all(FILE *file, struct work *work)
{
    const struct eplb_plan_view *plan = work->plan;
    const struct totals *totals = &work->totals;
    fprintf(file,
            "eplb plan: policy %s, %d experts on %d ranks x %d slots (%d redundant on each, %d in total)\n",
            plan->policy, plan->shape.num_experts, plan->shape.ep_size, plan->shape.slots_per_rank,
            plan->shape.redundant_experts_num, plan->shape.redundant_experts_num * plan->shape.ep_size);
    print_table(file, work);
    fprintf(
        file,
        "  the gate publishes %d of %d layers (a gain of at least %g %%%s); the written placement changes "
        "%" PRId64 " slots: %" PRId64 " from another rank, %" PRId64 " copied on the rank\n",
        totals->published, plan->shape.num_layers, plan->threshold * 100,
        totals->loaded == plan->shape.num_layers ? "" : "; some layers have no load",
        totals->messages + totals->local_copies, totals->messages, totals->local_copies);
    print_hottest(file, work, totals->worst_before);
    print_chart(file, work, totals->worst_before);
}

enum eplb_status eplb_plan_summary(FILE *file, const struct eplb_plan_view *plan, struct eplb_error *error)
{
    const struct eplb_shape *shape = &plan->shape;
    struct work work = {.plan = plan};
    work.layers = calloc((size_t)shape->num_layers, sizeof *work.layers);
    work.replicas = calloc((size_t)shape->num_experts, sizeof *work.replicas);
    work.moves = calloc((size_t)shape->num_slots, sizeof *work.moves);
    work.diff_scratch = malloc(eplb_placement_diff_scratch(shape));
    work.rank_before = calloc((size_t)shape->ep_size, sizeof *work.rank_before);
    work.rank_after = calloc((size_t)shape->ep_size, sizeof *work.rank_after);
    enum eplb_status status = EPLB_OK;
    if (work.layers == NULL || work.replicas == NULL || work.moves == NULL || work.diff_scratch == NULL ||
        work.rank_before == NULL || work.rank_after == NULL) {
        status = eplb_fail(error, EPLB_NO_MEMORY, "no memory for the summary");
    } else {
        for (int32_t layer = 0; layer < shape->num_layers; layer++)
            add_layer(&work, layer);
        print_all(file, &work);
    }
    free(work.layers);
    free(work.replicas);
    free(work.moves);
    free(work.diff_scratch);
    free(work.rank_before);
    free(work.rank_after);
    return status;
}
