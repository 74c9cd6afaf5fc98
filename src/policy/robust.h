/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The parts of `robust`. A plan is judged on scenarios of the coming window: on each, by the flow
 * optimum, which is the densest rank set: the largest, over sets of ranks, of the load of the experts
 * whose copies all lie in the set, divided by its size.
 *
 * Only + - * / and sqrt on doubles and floats, in a fixed order: IEEE 754 then gives the same bits on
 * every machine, and so the same table.
 */
#ifndef POLICY_ROBUST_H
#define POLICY_ROBUST_H

#include <stdbool.h>

#include "base/arena.h"
#include "eplb/policy.h"

enum {
    EPLB_ROBUST_SCENARIOS = 64,
    EPLB_ROBUST_TOTAL = 1 << 23, /* load of a scenario: sums of parts of it are exact in a float */
    EPLB_ROBUST_CUTS = 96,
    EPLB_ROBUST_MOST_RANKS = 512,     /* above, a plan is constructed but not searched for */
    EPLB_ROBUST_MOST_WORK = 40000000, /* slots that flows look at in one plan: some tenths of a second */
};

/** One number per scenario. */
struct eplb_lanes {
    float at[EPLB_ROBUST_SCENARIOS];
};

/** What is expected of the coming window. */
struct eplb_forecast {
    double *now;        /* [E] share of the last window, adding up to 1 */
    double *past;       /* [E] the same of the windows before it since the last shift, decayed */
    double *mean;       /* [E] what is planned for, adding up to the number of ranks */
    double dispersion;  /* variance of a count over that of a Poisson one, >= 1 */
    double deviation;   /* of an expert's share from window to window, relative, chance taken out */
    double persistence; /* how much of what sets the last window apart from the past lasts, in (0, 1) */
    double tokens;      /* counted in the last window */
    double enough;      /* tokens of a window that is not left out */
    int32_t windows;    /* since the last shift, the last one included */
    double *last;       /* [E] scratch: a window's shares */
    double *older;      /* [E] scratch: the decayed shares of those before it */
};

void eplb_forecast_layout(struct eplb_forecast *forecast, struct eplb_arena *arena,
                          const struct eplb_shape *shape);

/** Reads load and history of a problem. */
void eplb_forecast_make(struct eplb_forecast *forecast, const struct eplb_policy_problem *problem);

/** Draws the scenarios: the same random numbers for every problem. lanes: [E]. */
void eplb_scenarios_draw(const struct eplb_forecast *forecast, const struct eplb_policy_problem *problem,
                         struct eplb_lanes *lanes);

/** A placement that can be changed slot by slot. */
struct eplb_table {
    int32_t num_experts, num_ranks, slots_per_rank, words;
    int32_t *expert_ids; /* [R][K]; -1 while a slot is free */
    int32_t *next;       /* [R][K] the expert's next slot, -1 at the end; the order says nothing */
    int32_t *first;      /* [E] one of the expert's slots */
    int32_t *copies;     /* [E] */
    uint64_t *holders;   /* [E][words] bit per rank that holds the expert */
};

void eplb_table_layout(struct eplb_table *table, struct eplb_arena *arena, const struct eplb_shape *shape);
void eplb_table_clear(struct eplb_table *table);
void eplb_table_set(struct eplb_table *table, const int32_t *expert_ids);
void eplb_table_copy(struct eplb_table *table, const struct eplb_table *from);

/** Puts an expert into a free slot, or takes it out. */
void eplb_table_fill(struct eplb_table *table, int32_t slot, int32_t expert);
void eplb_table_empty(struct eplb_table *table, int32_t slot);

/** The ranks that hold an expert, as a set. */
static inline const uint64_t *eplb_table_holders(const struct eplb_table *table, int32_t expert)
{
    return table->holders + (size_t)expert * (size_t)table->words;
}

static inline bool eplb_table_holds(const struct eplb_table *table, int32_t rank, int32_t expert)
{
    return table->holders[(size_t)expert * (size_t)table->words + (size_t)rank / 64] >> (rank % 64) & 1;
}

/** Memory of the spread construction. */
struct eplb_spread {
    double *jittered;  /* [E] the load that this start plans for */
    double *weight;    /* [R] */
    int32_t *copies;   /* [E] */
    int32_t *order;    /* [E] hottest first */
    int32_t *heap;     /* [E] */
    int32_t *free;     /* [R] slots left */
    int32_t *parent;   /* [R] union-find over shared experts */
    int32_t *linked;   /* [R] the last expert that was on a rank linked to this one */
    int32_t *together; /* [R] the last expert that was on a rank connected to this one, by root */
    const struct eplb_table *active; /* whose ranks are preferred; NULL: none are */
    double bonus;                    /* by how many mean rank loads they count as lighter */
};

void eplb_spread_layout(struct eplb_spread *spread, struct eplb_arena *arena, const struct eplb_shape *shape);

/** Constructs a placement; start 0 plans for load itself, the others for jittered ones. */
void eplb_spread_construct(struct eplb_spread *spread, const double *load, uint64_t start,
                           struct eplb_table *table);

/** The same, where an expert stays on a rank of the active table that is at most `bonus` mean loads heavier.
 */
void eplb_spread_construct_near(struct eplb_spread *spread, const double *load, uint64_t start,
                                const struct eplb_table *active, double bonus, struct eplb_table *table);

/** Memory of the naming of ranks. */
struct eplb_relabel {
    int32_t *common; /* [R][R] experts that a rank and one of the active table have in common */
    int32_t *name;   /* [R] */
    bool *taken;     /* [R] */
};

void eplb_relabel_layout(struct eplb_relabel *relabel, struct eplb_arena *arena,
                         const struct eplb_shape *shape);

/** Writes a table with its ranks named for what they have in common with those of the active one. */
void eplb_relabel_ranks(struct eplb_relabel *relabel, const struct eplb_table *table,
                        const struct eplb_table *active, int32_t *expert_ids);

/** Memory of a flow. Scenario after scenario starts from the division that the last one ended with. */
struct eplb_trial_flow {
    float *fraction; /* [R][K] a slot's part of its expert's load */
    double *share;   /* [R][K] the same in load */
    double *rank;    /* [R] load */
    int32_t *seen;   /* [R] the search that reached the rank last */
    int32_t *from;   /* [R] the path's slot on the rank before */
    int32_t *to;     /* [R] the slot of the same expert on the rank itself */
    int32_t *queue;  /* [R] the ranks that a search reached */
    int32_t search;
    int64_t work; /* slots looked at since the layout */
};

void eplb_trial_flow_layout(struct eplb_trial_flow *flow, struct eplb_arena *arena,
                            const struct eplb_shape *shape);

/** Starts the scenarios of a table: every expert evenly divided. */
void eplb_trial_flow_start(struct eplb_trial_flow *flow, const struct eplb_table *table);

/**
 * Divides a scenario so that no rank is above the level, a lower bound of the optimum.
 *
 * @return 0, or the size of a rank set that is denser than the level; flow->queue starts with it
 */
int32_t eplb_trial_flow_fit(struct eplb_trial_flow *flow, const struct eplb_table *table,
                            const struct eplb_lanes *lanes, int32_t scenario, double level);

/** Rank sets, each with the load inside of it under every scenario: lower bounds of the optimum. */
struct eplb_cuts {
    int32_t words;
    int32_t count;             /* sets in use, at most EPLB_ROBUST_CUTS */
    int32_t last;              /* the set that was replaced last */
    uint64_t *sets;            /* [EPLB_ROBUST_CUTS][words] */
    float *inverse;            /* [EPLB_ROBUST_CUTS] 1 / size */
    struct eplb_lanes *inside; /* [EPLB_ROBUST_CUTS] load of the experts whose copies are all inside */
};

/** Lower bounds of the optimum under every scenario, and the set that gives each. */
struct eplb_bounds {
    struct eplb_lanes level;
    int32_t binding[EPLB_ROBUST_SCENARIOS];
    double sum; /* of the levels */
};

/** An expert whose copies change, and the ranks that hold it before and after. */
struct eplb_cut_change {
    int32_t expert;
    const uint64_t *before;
    const uint64_t *after;
};

void eplb_cuts_layout(struct eplb_cuts *cuts, struct eplb_arena *arena, const struct eplb_shape *shape);

/**
 * Adds a set of ranks, or puts it in the place of one that binds neither in `kept` nor, if there is a choice,
 * in `raised`, the bounds that it is to raise. Returns its number.
 */
int32_t eplb_cuts_add(struct eplb_cuts *cuts, const struct eplb_table *table, const struct eplb_lanes *lanes,
                      const int32_t *ranks, int32_t size, const struct eplb_bounds *kept,
                      const struct eplb_bounds *raised);

/** Measures all sets anew, for another table. */
void eplb_cuts_measure(struct eplb_cuts *cuts, const struct eplb_table *table,
                       const struct eplb_lanes *lanes);

/** Raises the bounds to what one set, or every set, shows. Bounds start as all zero. */
void eplb_cuts_raise(const struct eplb_cuts *cuts, int32_t cut, struct eplb_bounds *bounds);
void eplb_cuts_raise_all(const struct eplb_cuts *cuts, struct eplb_bounds *bounds);

/** What eplb_cuts_raise_all would make the sum, were two experts' copies changed. */
double eplb_cuts_preview(const struct eplb_cuts *cuts, const struct eplb_lanes *lanes,
                         const struct eplb_cut_change changes[2]);

/** Changes the copies of two experts. */
void eplb_cuts_change(struct eplb_cuts *cuts, const struct eplb_lanes *lanes,
                      const struct eplb_cut_change changes[2]);

/** Whether a set of ranks lies in another. */
static inline bool eplb_set_within(const uint64_t *set, const uint64_t *other, int32_t words)
{
    for (int32_t i = 0; i < words; i++)
        if (set[i] & ~other[i])
            return false;
    return true;
}

/** A placement under improvement. Its cost is the sum of the scenarios' optima and a price per moved slot. */
struct eplb_search {
    const struct eplb_lanes *lanes;  /* [E] the scenarios */
    const struct eplb_table *active; /* moved slots are counted against it */
    double price;                    /* of a moved slot */
    int32_t moved;                   /* slots whose expert the rank does not hold in the active table */
    struct eplb_table table;
    struct eplb_bounds optimum; /* of the table: exact */
    struct eplb_bounds trial;   /* of the table with the move that is tried */
    struct eplb_cuts cuts;
    struct eplb_trial_flow flow;
    uint64_t *holders; /* [4][words] of the two experts of a move, before and after it */
    int32_t *inner;    /* [R][K] slots that a move may take load from */
    int32_t *outer;    /* [R][K] slots that it may take it to */
};

void eplb_search_layout(struct eplb_search *search, struct eplb_arena *arena, const struct eplb_shape *shape);

/** Starts with a table. */
void eplb_search_start(struct eplb_search *search, const struct eplb_table *table,
                       const struct eplb_table *active, const struct eplb_lanes *lanes, double price);

/** Exchanges the table for another one when that costs less; they must be of the same shape. */
void eplb_search_offer(struct eplb_search *search, struct eplb_table *table);

/** Whether the flows have done as much work as one plan may take. */
bool eplb_search_is_tired(const struct eplb_search *search);

/** Tries that many moves, or until it is tired, and keeps those that lower the cost. */
void eplb_search_run(struct eplb_search *search, int32_t candidates);

/** Mean over the scenarios of optimum / mean rank load. */
double eplb_search_balance(const struct eplb_search *search);

#endif
