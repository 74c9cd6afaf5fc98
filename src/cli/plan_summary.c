/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/plan_summary.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/chart.h"

enum { HOTTEST_SHOWN = 4, COPIED_SHOWN = 12, RANKS_SHOWN = 16 };

/* Peak / mean of the ranks; all 0 for a layer without load. */
struct layer_balance {
    double before; /* under the current placement */
    double after;
    double bound;
};

struct totals {
    int32_t worst_before; /* layers, as rows; any layer when none has load */
    int32_t worst_after;
    struct layer_balance sum;
    double even;        /* sums of peak / mean of what is written: if it is split evenly */
    double best;        /* and under the best split */
    int32_t joined;     /* layers whose ranks are all joined */
    int32_t most_parts; /* most components of a layer */
    int32_t published;
    int32_t loaded; /* layers with load */
    int64_t local_copies;
    int64_t messages;
    int32_t refused;    /* layers that do not pay in time */
    int32_t unjudged;   /* layers of which that is unknown */
    int32_t bounded;    /* layers whose candidate may not move as much as it would */
    double bound_cost;  /* sum of what that adds to their peaks, as a share */
    double bytes;       /* of the published layers */
    bool bytes_unknown; /* of one of them */
    bool pay_unknown;   /* likewise */
    double last_to_pay; /* forwards until the last of them has paid */
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

/** A layer's table; NULL where there are none. */
static const int32_t *table_of(const struct eplb_plan_view *plan, const int32_t *tables, int32_t layer)
{
    return tables == NULL ? NULL : tables + (size_t)layer * (size_t)plan->shape.num_slots;
}

static const int64_t *load_of(const struct eplb_plan_view *plan, int32_t layer)
{
    return plan->load + (size_t)layer * (size_t)plan->shape.num_experts;
}

static struct layer_balance balance_of(struct work *work, int32_t layer)
{
    const struct eplb_plan_view *plan = work->plan;
    const struct eplb_placement_prediction *after = &plan->predicted[layer];
    double before = eplb_routed_ratio(plan->routed, table_of(plan, plan->before, layer),
                                      table_of(plan, plan->before_weights, layer), load_of(plan, layer));
    if (after->mean <= 0)
        return (struct layer_balance){0};
    return (struct layer_balance){before, after->peak / after->mean, after->lower_bound / after->mean};
}

static void add_splits(struct totals *totals, const struct eplb_placement_prediction *predicted)
{
    totals->joined += predicted->components == 1;
    if (predicted->components > totals->most_parts)
        totals->most_parts = predicted->components;
    if (predicted->mean <= 0)
        return;
    totals->even += predicted->even_split_peak / predicted->mean;
    totals->best += predicted->best_split_peak / predicted->mean;
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

static void add_verdict(struct totals *totals, const struct eplb_placement_verdict *verdict)
{
    bool bounded = verdict->unbounded_peak != verdict->candidate_peak;
    totals->bounded += bounded;
    if (bounded)
        totals->bound_cost += verdict->candidate_peak / verdict->unbounded_peak - 1;
    totals->refused += !verdict->pays;
    totals->unjudged += verdict->break_even_forwards < 0;
    totals->published += verdict->publish;
    if (!verdict->publish)
        return;
    totals->bytes_unknown |= verdict->bytes < 0;
    totals->bytes += verdict->bytes < 0 ? 0 : (double)verdict->bytes;
    totals->pay_unknown |= verdict->break_even_forwards < 0;
    if (verdict->break_even_forwards > totals->last_to_pay)
        totals->last_to_pay = verdict->break_even_forwards;
}

static void add_layer(struct work *work, int32_t layer)
{
    struct totals *totals = &work->totals;
    struct layer_balance balance = balance_of(work, layer);
    work->layers[layer] = balance;
    totals->sum.before += balance.before;
    totals->sum.after += balance.after;
    totals->sum.bound += balance.bound;
    if (balance.before > work->layers[totals->worst_before].before)
        totals->worst_before = layer;
    if (balance.after > work->layers[totals->worst_after].after)
        totals->worst_after = layer;
    totals->loaded += balance.before > 0;
    add_splits(totals, &work->plan->predicted[layer]);
    if (work->plan->verdicts != NULL)
        add_verdict(totals, &work->plan->verdicts[layer]);
    count_moves(work, layer);
}

static void print_row(FILE *file, const char *label, struct layer_balance balance)
{
    fprintf(file, "  %-26s %8.4f %8.4f %8.4f\n", label, balance.before, balance.after, balance.bound);
}

static void print_layer(FILE *file, const struct work *work, const char *label, int32_t layer)
{
    char text[40];
    snprintf(text, sizeof text, "%s layer %" PRId32, label, work->plan->layer_ids[layer]);
    print_row(file, text, work->layers[layer]);
}

static void print_table(FILE *file, const struct work *work)
{
    const struct totals *totals = &work->totals;
    int32_t loaded = totals->loaded;
    fprintf(file, "  peak / mean of the ranks     before    after    bound\n");
    print_row(file, "mean over the layers",
              (struct layer_balance){totals->sum.before / loaded, totals->sum.after / loaded,
                                     totals->sum.bound / loaded});
    print_layer(file, work, "worst before:", totals->worst_before);
    print_layer(file, work, "worst after: ", totals->worst_after);
}

static void print_ranks(FILE *file, const uint64_t *ranks, int32_t ep_size)
{
    int32_t count = 0;
    for (int32_t rank = 0; rank < ep_size; rank++) {
        if (!(ranks[rank / 64] >> (rank % 64) & 1))
            continue;
        count++;
        if (count <= RANKS_SHOWN)
            fprintf(file, "%s%" PRId32, count == 1 ? " " : ", ", rank);
    }
    if (count > RANKS_SHOWN)
        fprintf(file, ", and %" PRId32 " more", count - RANKS_SHOWN);
    fputc('\n', file);
}

/** What the routing makes of the written placement, and what the best one would. */
static void print_splits(FILE *file, const struct work *work)
{
    const struct eplb_plan_view *plan = work->plan;
    const struct totals *totals = &work->totals;
    const int32_t worst = totals->worst_after;
    fprintf(file,
            "  after, mean over the layers: %.4f split evenly over the replicas, %.4f in the best split\n",
            totals->even / totals->loaded, totals->best / totals->loaded);
    fprintf(file,
            "  layers whose ranks are all joined by the experts that they share: %" PRId32 " of %" PRId32,
            totals->joined, plan->shape.num_layers);
    if (totals->joined < plan->shape.num_layers)
        fprintf(file, " (the others: up to %" PRId32 " components)", totals->most_parts);
    fprintf(file, "\n  densest ranks of layer %" PRId32 ", load %.0f that no split moves out of them:",
            plan->layer_ids[worst], plan->predicted[worst].cut_load);
    print_ranks(file, plan->predicted[worst].cut, plan->shape.ep_size);
}

/** What the bound on the moves costs, and what moving costs, as far as it was asked for and is known. */
static void print_cost(FILE *file, const struct work *work)
{
    const struct eplb_plan_view *plan = work->plan;
    const struct totals *totals = &work->totals;
    if (plan->max_moves > 0)
        fprintf(file,
                "  layers that may change no more than %" PRId32 " slot%s and would: %" PRId32 " of %" PRId32,
                plan->max_moves, plan->max_moves == 1 ? "" : "s", totals->bounded, plan->shape.num_layers);
    if (plan->max_moves > 0 && totals->bounded > 0)
        fprintf(file, " (their peaks: %+.2f %%)", totals->bound_cost / totals->bounded * 100);
    if (plan->max_moves > 0)
        fputc('\n', file);
    if (plan->max_break_even > 0)
        fprintf(file,
                "  layers that would not have paid after %" PRId32 " forwards: %" PRId32 " of %" PRId32
                ", unknown of %" PRId32 "\n",
                plan->max_break_even, totals->refused, plan->shape.num_layers, totals->unjudged);
    if (totals->published == 0 || totals->bytes_unknown)
        return;
    fprintf(file, "  bytes from other ranks for what is published: %.0f", totals->bytes);
    if (totals->pay_unknown)
        fputs("; when they have paid is unknown (see --seconds_per_token)\n", file);
    else
        fprintf(file, "; the last layer has paid after %.4g forwards\n", totals->last_to_pay);
}

static void print_counts(FILE *file, const struct work *work)
{
    const struct eplb_plan_view *plan = work->plan;
    const struct totals *totals = &work->totals;
    if (totals->loaded < plan->shape.num_layers)
        fprintf(file, "  layers without load, which stay as they are: %" PRId32 " of %" PRId32 "\n",
                plan->shape.num_layers - totals->loaded, plan->shape.num_layers);
    if (plan->verdicts == NULL)
        fprintf(file, "  enable_eplb is false: every layer stays as it is\n");
    else
        fprintf(file,
                "  layers that the gate publishes: %" PRId32 " of %" PRId32 " (a gain of at least %g %%)\n",
                totals->published, plan->shape.num_layers, plan->threshold * 100);
    fprintf(file,
            "  slots that the written placement changes: %" PRId64 " (%" PRId64 " from another rank, %" PRId64
            " copied on the rank)\n",
            totals->messages + totals->local_copies, totals->messages, totals->local_copies);
    if (plan->verdicts != NULL)
        print_cost(file, work);
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

/** The experts that have copies, and how many replicas: of a layer, as many as a line takes. */
static void print_copies(FILE *file, const struct eplb_plan_view *plan, int32_t layer)
{
    const int32_t *replicas = plan->predicted[layer].replicas;
    int32_t copied = 0;
    for (int32_t expert = 0; expert < plan->shape.num_experts; expert++) {
        if (replicas[expert] < 2)
            continue;
        copied++;
        if (plan->all_copies || copied <= COPIED_SHOWN)
            fprintf(file, "%s%" PRId32 " x %" PRId32, copied == 1 ? "" : ", ", expert, replicas[expert]);
    }
    if (!plan->all_copies && copied > COPIED_SHOWN)
        fprintf(file, ", and %" PRId32 " more", copied - COPIED_SHOWN);
    fputs(copied == 0 ? "none\n" : "\n", file);
}

static void print_copied(FILE *file, const struct work *work)
{
    const struct eplb_plan_view *plan = work->plan;
    for (int32_t layer = 0; layer < plan->shape.num_layers; layer++) {
        if (!plan->all_copies && layer != work->totals.worst_before)
            continue;
        fprintf(file, "  experts of layer %d with copies, and their replicas: ", plan->layer_ids[layer]);
        print_copies(file, plan, layer);
    }
}

static void print_chart(FILE *file, struct work *work, int32_t layer)
{
    const struct eplb_plan_view *plan = work->plan;
    const int64_t *load = load_of(plan, layer);
    eplb_routed_ranks(plan->routed, table_of(plan, plan->before, layer),
                      table_of(plan, plan->before_weights, layer), load, work->rank_before);
    eplb_routed_ranks(plan->routed, table_of(plan, plan->after, layer),
                      table_of(plan, plan->after_weights, layer), load, work->rank_after);
    double total = 0;
    for (int32_t rank = 0; rank < plan->shape.ep_size; rank++)
        total += work->rank_before[rank];
    struct eplb_chart_style style = eplb_chart_style_of(file);
    fprintf(file, "  load of the ranks in layer %d\n", plan->layer_ids[layer]);
    eplb_chart_ranks(file, &style, work->rank_before, work->rank_after, plan->shape.ep_size,
                     total / plan->shape.ep_size);
}

static const char *routing_note(enum eplb_replica_routing routing)
{
    if (routing == EPLB_ROUTING_LOCAL)
        return "judged as an even split, since where tokens come from was not recorded";
    return routing == EPLB_ROUTING_WEIGHTED ? "judged by the weights"
                                            : "judged by the best split of this load";
}

static void print_all(FILE *file, struct work *work)
{
    const struct eplb_plan_view *plan = work->plan;
    const struct totals *totals = &work->totals;
    fprintf(file,
            "eplb plan: policy %s, %d experts on %d ranks x %d slots (%d redundant on each, %d in total)\n",
            plan->policy, plan->shape.num_experts, plan->shape.ep_size, plan->shape.slots_per_rank,
            plan->shape.redundant_experts_num, plan->shape.redundant_experts_num * plan->shape.ep_size);
    if (plan->routed->routing != EPLB_ROUTING_STATIC)
        fprintf(file, "  replica routing %s: %s\n", eplb_replica_routing_name(plan->routed->routing),
                routing_note(plan->routed->routing));
    if (totals->loaded > 0) {
        print_table(file, work);
        print_splits(file, work);
    }
    print_counts(file, work);
    if (totals->loaded == 0)
        return;
    print_hottest(file, work, totals->worst_before);
    print_copied(file, work);
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
