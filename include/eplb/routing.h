/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Routing: how the tokens of an expert are divided over its replicas. Belongs to src/routing.
 *
 * Shapes: E = num_experts, R = ep_size, K = slots_per_rank. An expert with two replicas or more is
 * shared; the others put a fixed base load on their rank. The shared experts join the ranks that hold
 * them: no split moves load between the components of that graph.
 *
 * All functions here are pure apart from the memory that they are given: no allocation, no I/O. What
 * decides a table is integer arithmetic, so every rank, build and machine gets the same bytes.
 */
#ifndef EPLB_ROUTING_H
#define EPLB_ROUTING_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/placement.h"
#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which replica of an expert a token goes to: eplb_replica_routing. */
enum eplb_replica_routing {
    EPLB_ROUTING_STATIC = 0,   /**< One replica per source rank, as eplb_log2phy says. */
    EPLB_ROUTING_LOCAL = 1,    /**< A replica on the source's rank, then on its node, then spread. */
    EPLB_ROUTING_WEIGHTED = 2, /**< By the placement's weights. */
    EPLB_ROUTING_ADAPTIVE = 3, /**< By weights that the manager renews from the recent load. */
    EPLB_ROUTING_BATCH = 4,    /**< By the best integral split of this very batch's counts. */
};
#define EPLB_NUM_ROUTINGS 5

/** "static", "local", "weighted", "adaptive" or "batch"; "unknown" for any other value. */
EPLB_API const char *eplb_replica_routing_name(enum eplb_replica_routing routing);

/**
 * Reads a name as eplb_replica_routing_name writes it.
 *
 * @return EPLB_OK; EPLB_INVALID with a sentence that lists the names
 */
EPLB_API enum eplb_status eplb_replica_routing_parse(const char *text, enum eplb_replica_routing *routing,
                                                     struct eplb_error *error);

/*
 * The best split.
 *
 * When an expert's tokens may be divided over its replicas in any proportion, the smallest possible
 * largest rank is the load of the densest rank set: the maximum over rank sets S of
 * (load of the experts whose replicas are all in S) / |S| (max-flow min-cut; Goldberg 1984 for
 * densest subgraphs). It is found by Newton's iteration on the level (Dinkelbach 1967): a flow at a
 * level either fits or leaves a set that is denser, whose density is the next level. The flow is a
 * preflow pushed along exact distances to the ranks below the level (Goldberg and Tarjan 1988). Exact:
 * a level is a ratio of integers, and the flow is counted in units of 1 / its denominator.
 */

/** What the best split of a load over a placement is, and what limits it. */
struct eplb_best_split {
    double peak;            /**< The load of the largest rank: cut_load / cut_size * 2^scale, rounded. */
    double mean;            /**< Total load / R. */
    int64_t cut_load;       /**< Load that no split moves out of the densest rank set, in 2^scale tokens. */
    int32_t cut_size;       /**< Ranks of that set, >= 1. The exact peak is cut_load / cut_size. */
    int32_t scale;          /**< 0 as long as the loads add up to at most EPLB_MAX_LOAD / R; above, each load
                                 is first divided by 2^scale and rounded down. */
    int32_t num_components; /**< Components of the graph that the shared experts make of the ranks. */
};

/**
 * A placement prepared for many loads: which experts are shared, on which ranks and slots, and room to
 * work in. It lives in the caller's memory, needs no destroying, and must not be copied. One call at a
 * time on one graph; no call but the build reads the placement.
 */
struct eplb_split_graph;

/** Bytes of memory that a graph of this shape needs. */
EPLB_API size_t eplb_split_graph_size(const struct eplb_shape *shape);

/**
 * Builds the graph of a placement. O(E + P) for P = R * K.
 *
 * @param expert_ids legal placement [R][K]
 * @param memory     eplb_split_graph_size(shape) bytes, aligned to 64, any content; holds the graph
 * @return the graph, at memory
 */
EPLB_API struct eplb_split_graph *eplb_split_graph_build(const struct eplb_shape *shape,
                                                         const int32_t *expert_ids, void *memory);

/** Components of the rank graph, in [1, R]. */
EPLB_API int32_t eplb_split_graph_components(const struct eplb_split_graph *graph);

/**
 * Finds the best split of a load.
 *
 * @param load    [E], each in [0, EPLB_MAX_LOAD]
 * @param weights receives [R][K]: positive, adding up to EPLB_WEIGHT_UNIT per expert; an expert
 *                without load gets equal ones. No rank's load under them is above the peak by more than
 *                the rounding: replicas / EPLB_WEIGHT_UNIT of each shared expert on the rank. Below the
 *                peak the ranks are levelled as far as a few passes do it. NULL: not wanted
 * @param cut     receives the densest set, bit (r % 64) of word r / 64, [(R + 63) / 64]; NULL: not wanted
 * @param result  receives the figures
 */
EPLB_API void eplb_split_graph_solve(struct eplb_split_graph *graph, const int64_t *load, int32_t *weights,
                                     uint64_t *cut, struct eplb_best_split *result);

/**
 * The peak alone, for searches.
 *
 * @param load       [E], each in [0, EPLB_MAX_LOAD]
 * @param stop_above a peak above which the exact figure does not matter; INFINITY: always exact
 * @return eplb_best_split.peak when that is at most stop_above; else a lower bound of it that is above
 *         stop_above already
 */
EPLB_API double eplb_split_graph_peak(struct eplb_split_graph *graph, const int64_t *load, double stop_above);

/**
 * eplb_split_graph_build and eplb_split_graph_solve in one, for a placement that is looked at once.
 *
 * @param scratch eplb_split_graph_size(shape) bytes, aligned to 64
 */
EPLB_API void eplb_best_split(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load,
                              void *scratch, int32_t *weights, uint64_t *cut, struct eplb_best_split *result);

/** The peak alone: eplb_best_split.peak. */
EPLB_API double eplb_best_split_peak(const struct eplb_shape *shape, const int32_t *expert_ids,
                                     const int64_t *load, void *scratch);

/*
 * The integral split of one batch, routing `batch`. Every rank holds the counts of all ranks, solves the
 * same problem and gets the same answer; no message is needed.
 */

/** One batch of one layer. Set by eplb_batch_problem_init, then filled. Everything is borrowed. */
struct eplb_batch_problem {
    size_t size;           /**< sizeof(struct eplb_batch_problem). */
    const int32_t *counts; /**< [R][E] tokens of each source rank for each expert, each >= 0. No default. */
    const int32_t *table;  /**< [R][E] global slots: the choice that is kept when it is as good as any bound
                                can show, as eplb_log2phy writes it per source; NULL (default): none. */
    uint64_t rotation;     /**< Which of equals comes first, e.g. forward number + layer; default 0. */
    int32_t cost_per_active_slot; /**< What a rank pays for each slot with a token, >= 0; default 0. */
    int32_t cost_per_token;       /**< What it pays for each token, >= 1; default 1. */
};

/** What the solver found. */
struct eplb_batch_result {
    int64_t peak; /**< The largest rank's tokens, or cost when cost_per_active_slot is above 0. */
    int64_t
        bound;    /**< What no split can be below: max(ceil(mean), largest rank's unshared tokens or cost). */
    int32_t kept; /**< 1: `table` is as good as any split; the tokens go by it. */
    int32_t proved; /**< 1: no split has a smaller peak. 0 only with cost_per_active_slot above 0. */
};

/** Writes the defaults; counts is NULL. */
EPLB_API void eplb_batch_problem_init(struct eplb_batch_problem *problem);

/**
 * Divides every expert's tokens over its replicas so that the largest rank total is the smallest
 * possible (the integral optimum; a flow with integral capacities has an integral solution).
 *
 * Among splits with that peak it prefers those with fewer tokens that cross ranks: it starts from every
 * source's own tokens on its own replica, moves only what exceeds the level, and then moves back what
 * has room. That is a heuristic: it does not always reach the fewest. Which of several equal choices is
 * taken turns with `rotation`.
 *
 * With cost_per_active_slot above 0 the largest cost is made small by a heuristic: from three starts (the
 * split above; the same beside the slots that the unshared experts open anyway; every shared expert whole
 * on one replica) single steps move tokens off the largest rank, closing and opening replicas, as long as
 * that lowers it; the best of the three is taken. Locality is not looked at then.
 *
 * @param graph  of the layer's placement
 * @param tokens receives [R][K]: how many of its expert's tokens a slot gets, from all sources
 * @param result receives the figures
 */
EPLB_API void eplb_batch_split(struct eplb_split_graph *graph, const struct eplb_batch_problem *problem,
                               int64_t *tokens, struct eplb_batch_result *result);

/**
 * Where a source rank sends its tokens under a solved split. Of each expert, a replica on the source's
 * own rank first takes the source's own tokens, as many as it may; what is left of all sources is
 * numbered in order of the sources, and the replicas, in slot order, own intervals of that numbering.
 * So the most tokens stay that can under these totals. O(R) steps for each shared expert.
 *
 * @param counts [R][E] as solved with
 * @param tokens [R][K] from eplb_batch_split, not kept
 * @param source rank in [0, R)
 * @param sends  receives [R][K]: how many tokens the source sends to each slot; the slots of an expert
 *               add up to counts[source][expert]. The source's tokens of one expert, in their order, go
 *               to its slots in ascending order
 */
EPLB_API void eplb_batch_sends(const struct eplb_split_graph *graph, const int32_t *counts,
                               const int64_t *tokens, int32_t source, int32_t *sends);

/**
 * What a rank receives under a solved split: the same numbers seen from the other side.
 *
 * @param rank     in [0, R)
 * @param receives receives [R][K]: how many tokens each source rank sends to each local slot of `rank`
 */
EPLB_API void eplb_batch_receives(const struct eplb_split_graph *graph, const int32_t *counts,
                                  const int64_t *tokens, int32_t rank, int32_t *receives);

/**
 * The global slot of one token. O(replicas of the expert).
 *
 * @param sends  [R][K] of the token's source, from eplb_batch_sends
 * @param number the token's number among the source's tokens of this expert, in [0, counts[source][expert])
 */
EPLB_API int32_t eplb_batch_slot(const struct eplb_split_graph *graph, const int32_t *sends, int32_t expert,
                                 int32_t number);

/*
 * Tables: which replica each token of a source rank goes to, for every routing but `batch`.
 *
 * Tokens of one expert are numbered from 0 in every forward. The replicas of an expert are the leaves
 * of a balanced binary tree, in ascending slot order. A node that gives the share s of its tokens to
 * its left gives it token n exactly when floor(p + (n + 1) * s) > floor(p + n * s) for a phase p in
 * [0, 1): the sequence of a line of slope s (Christoffel 1875, Morse and Hedlund 1940), in which the
 * left part of any run of tokens differs from its exact share by less than one token. So it is a
 * periodic table whose entries need not be written down: one multiplication gives any of them, and the
 * weights count to their last bit. Shares and phases are in units of 2^-32.
 *
 * Of T tokens, all numbered from 0 or any run of them, a replica gets its weight's share within
 *     less than 1                                                  with two replicas,
 *     less than ceil(log2(replicas)) + replicas * T / 2^32         with more.
 *
 * Source ranks start at phases that are evenly spaced over them, so that rounding does not add up:
 * when all ranks have the same number of tokens of an expert, the sum over all ranks of what one of
 * its two replicas gets, too, is within less than 1 token of the exact share (Hermite's identity). The
 * phases advance with the forward's number, so that neither do small batches favour a replica for
 * long. Nothing is carried from forward to forward.
 */

/** Depth of the deepest tree: a rank holds an expert once at most. */
#define EPLB_ROUTE_LEVELS 16

/**
 * The table of one source rank for one layer. Set by eplb_route_table_init; its arrays stay at their
 * addresses, also when the table is set again: a captured graph may read them.
 */
struct eplb_route_table {
    struct eplb_shape shape;
    int32_t source;   /**< The rank whose tokens it is for. */
    int32_t *first;   /**< [num_experts + 1] where an expert's leaves begin in the next two. */
    int32_t *slots;   /**< [num_slots] global slots, ascending within an expert. */
    uint32_t *shares; /**< [num_slots] the node that splits leaves [a, b) is at first + a + (b - a) / 2: the
                           share of its tokens that go to the leaves before itself; never 0. The entry at
                           `first` is not used. */
};

/** The phases of one forward on one source rank, one for each depth of the trees. */
struct eplb_route_turn {
    uint32_t phases[EPLB_ROUTE_LEVELS];
};

/** What a table is made from. */
struct eplb_route_params {
    size_t size;                       /**< sizeof(struct eplb_route_params). */
    enum eplb_replica_routing routing; /**< Static and local choose one replica per source; the others go by
                                            weights, batch too: for engines that cannot do it. */
    const int32_t *expert_ids;         /**< A legal placement [R][K]. */
    const int32_t *weights;            /**< [R][K] as eplb_weights_check wants them; NULL: equal ones. */
    const int32_t *node_of_rank;       /**< [R] any numbers, equal for ranks of one node; NULL: one node. */
    int32_t moe_tp_rank;               /**< As in eplb_log2phy, >= 0; for static. */
};

/** Bytes of memory that a table's arrays need, a multiple of 64. */
EPLB_API size_t eplb_route_table_size(const struct eplb_shape *shape);

/**
 * Starts a table in the caller's memory; there is nothing to destroy. No lookup before the first set.
 *
 * @param source rank in [0, R)
 * @param memory eplb_route_table_size(shape) bytes, aligned to 64, any content; holds the arrays
 */
EPLB_API void eplb_route_table_init(struct eplb_route_table *table, const struct eplb_shape *shape,
                                    int32_t source, void *memory);

/**
 * Makes a table, in place. O(E + P); with local, O(R) more for each shared expert. No lookup
 * meanwhile: engines do it between forwards, or make it aside and copy it.
 *
 * `static` takes replica number (source + moe_tp_rank) mod replicas, in slot order. `local` takes the
 * replica on the source's rank; else one of those on its node, and then the ranks of the node that hold
 * none take them in turn; else one of all, and then all ranks of nodes that hold none take them in turn.
 */
EPLB_API void eplb_route_table_set(struct eplb_route_table *table, const struct eplb_route_params *params);

/** Gives a table what another of the same shape and source has. One copy. */
EPLB_API void eplb_route_table_copy(struct eplb_route_table *table, const struct eplb_route_table *from);

/**
 * The phases of a forward. All source ranks of one forward take the same number.
 *
 * @param source rank in [0, num_ranks)
 * @param number of the forward; always 0 if the engine has none, and then shares are kept within each
 *               forward only
 */
EPLB_API void eplb_route_turn_init(struct eplb_route_turn *turn, int32_t num_ranks, int32_t source,
                                   uint64_t number);

/**
 * The global slot of a token.
 *
 * @param turn   of the table's source
 * @param number how many tokens of this expert came before it from this source in this forward, below 2^31
 */
static inline int32_t eplb_route_slot(const struct eplb_route_table *table,
                                      const struct eplb_route_turn *turn, int32_t expert, uint32_t number)
{
    const uint32_t *phase = turn->phases;
    const uint32_t offset = (uint32_t)expert * UINT32_C(0x5be0cd19); /* experts take turns at other tokens */
    int32_t low = table->first[expert];
    int32_t high = table->first[expert + 1];
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        const uint32_t share = table->shares[middle];
        const uint64_t before = (uint32_t)(*phase++ + offset) + (uint64_t)number * share;
        const uint32_t left = (uint32_t)(before >> 32);
        if ((uint32_t)((before + share) >> 32) != left) {
            number = left;
            high = middle;
        } else {
            number -= left;
            low = middle;
        }
    }
    return table->slots[low];
}

#ifdef __cplusplus
}
#endif
#endif
