/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Policies, the gate that decides which of their plans are worth a migration, and the planner
 * that holds both. Belongs to src/policy.
 *
 * Shapes: E = num_experts, R = ep_size, K = slots_per_rank, L = num_layers. Loads are token counts
 * in [0, EPLB_MAX_LOAD]. All arithmetic that decides a table is exact, so every rank, build and
 * machine gets the same bytes. Costs count the P = R * K slots and the C = P - E copies of a layer.
 */
#ifndef EPLB_POLICY_H
#define EPLB_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/log.h"
#include "eplb/placement.h"
#include "eplb/routing.h"
#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a policy is told beside the load, the same for all layers. Set by eplb_policy_settings_init. */
struct eplb_policy_settings {
    size_t size;        /**< sizeof(struct eplb_policy_settings). */
    int32_t num_groups; /**< deepseek: groups of experts that stay on one node; >= 1, default 1. */
    int32_t num_nodes;  /**< deepseek: nodes that the ranks are spread over; >= 1, default 1. */
};

/** Writes the defaults. */
EPLB_API void eplb_policy_settings_init(struct eplb_policy_settings *settings);

/** One layer to plan for. Everything is borrowed and stays as it is. */
struct eplb_policy_problem {
    size_t size;                                 /**< sizeof(struct eplb_policy_problem). */
    const struct eplb_shape *shape;              /**< Sizes. */
    const struct eplb_policy_settings *settings; /**< Never NULL. */
    const int64_t *load;                         /**< [E], each in [0, EPLB_MAX_LOAD], sum above 0. */
    const int32_t *active;                       /**< The layer's legal placement [R][K]. */
    const int64_t *history; /**< [num_history][E] windows before this one, oldest first; NULL: none. */
    int32_t num_history;    /**< >= 0; 0 when history is NULL. */
    const int64_t *parts; /**< [num_parts][E] the window of `load` in pieces, oldest first; NULL: unknown. */
    int32_t num_parts;    /**< >= 0; 0 when parts is NULL. */
};

/** What a policy proposes. The arrays are the caller's. */
struct eplb_policy_answer {
    size_t size;         /**< sizeof(struct eplb_policy_answer). */
    int32_t *expert_ids; /**< [R][K] to be written. */
    int32_t *weights;    /**< [R][K] to be written when it sets has_weights; never NULL. */
    int has_weights; /**< 0 on entry: tokens are split evenly; 1: by weights, as eplb_weights_check allows. */
};

/**
 * A layout algorithm. The built-in ones are found by name with eplb_policy_find; a host may pass
 * its own in eplb_planner_params. The table is constant and outlives every planner that uses it.
 *
 * The planner's gate, commit and abort are the same for every policy; a policy proposes.
 */
struct eplb_policy_ops {
    size_t size;      /**< sizeof(struct eplb_policy_ops). */
    const char *name; /**< As in eplb_policy_kind, lower case. */
    /**
     * Bytes of scratch memory that plan_layer needs for a shape. Not blocking; pure.
     * Required.
     */
    size_t (*scratch_size)(const struct eplb_shape *shape, const struct eplb_policy_settings *settings);
    /**
     * Proposes a placement for one layer. Not blocking; pure: the same arguments give the same
     * table. Called from several threads at a time, each with its own scratch memory. Required.
     *
     * scratch has scratch_size bytes, aligned to 64, with any content. A status other than EPLB_OK, with
     * a sentence in error, leaves the layer as it is; so does an illegal answer, which the planner
     * reports.
     */
    enum eplb_status (*plan_layer)(const struct eplb_policy_problem *problem, void *scratch,
                                   struct eplb_policy_answer *answer, struct eplb_error *error);
};

/** What a name of eplb_policy_kind means. */
struct eplb_policy_choice {
    const struct eplb_policy_ops *ops; /**< Never NULL. */
    int known;                         /**< 0: no such policy; ops is that of greedy. */
    const char *nearest;               /**< The nearest known name when not known, else NULL. */
};

/**
 * Finds a policy by the text of eplb_policy_kind, ignoring case: `balanced`, `greedy`, `deepseek` (see
 * eplb/deepseek.h), `minmax` (searches for the lowest peak that few moves reach), `robust`, and the
 * historical names flat, deepseek_flat, deepseek-flat, hier, hierarchical, deepseek_hier and deepseek-hier,
 * which mean balanced. Any other text means greedy. Thread-safe.
 *
 * A layer costs balanced and greedy O(P log P): O(E + C log C) for the copies, O(P log P) for sorting and
 * O(P log R) for packing, where experts with exactly equal load add a step for every rank that is passed
 * over because it holds the expert. Loads of a layer that add up to 2^43 or more, and more than 1024
 * replicas of one expert, take a plain road with the same rules: O(P * (R + K)) on most loads, O(P * R * K)
 * at worst.
 *
 * robust makes the placement whose best split (eplb_best_split) is best over 64 scenarios of the coming
 * window, drawn from load, parts and history with the same random numbers for every problem: copies that
 * join as many ranks as possible, then searches of at most 19200 moves led by the densest rank sets, which
 * end sooner where their flows are large; no clock.
 * From the initial placement it plans anew; any other active placement is searched at a price per moved
 * slot. Weights of the present window's best split come with the plan.
 * Above 512 ranks it only constructs, near the active placement. At most 64 flows on ranks and shared
 * experts for each eighth move; O(P * R + E log E) for the construction.
 */
EPLB_API struct eplb_policy_choice eplb_policy_find(const char *kind);

/** What a placement would bring, and whether that is enough. */
struct eplb_benefit {
    double current_peak;   /**< Largest rank sum of the physical load. */
    double candidate_peak; /**< Largest rank sum of the candidate under even split, scaled to the physical
                              total. */
    double improvement;    /**< (current_peak - candidate_peak) / current_peak; 0 when current_peak is 0. */
    int sets_changed;      /**< Whether some rank's set of experts changes. */
    int publish;           /**< The verdict: 1 when the candidate should be deployed. */
};

/**
 * The gate. Publishes when some rank's set of experts changes, improvement > 0 and improvement >=
 * threshold - 1e-9 * threshold; equality publishes. Nothing is published for a logical load of 0.
 * Pure and thread-safe. O(P + E).
 *
 * @param active    legal placement [R][K]
 * @param candidate legal placement [R][K]
 * @param logical   [E] load per logical expert
 * @param physical  [R][K] load per physical slot, measured under active; NULL: not measured, the exact
 *                  even split of logical over the replicas in active
 * @param threshold eplb_min_peak_load_improvement, in [0, 1]
 * @param scratch   room for [E], overwritten
 */
EPLB_API struct eplb_benefit eplb_gate(const struct eplb_shape *shape, const int32_t *active,
                                       const int32_t *candidate, const int64_t *logical,
                                       const int64_t *physical, double threshold, int32_t *scratch);

/** What the gate is told of how tokens are routed. */
struct eplb_gate_routing {
    enum eplb_replica_routing
        routing;            /**< From `weighted` on the candidate is judged as it will be routed. */
    const int32_t *weights; /**< weighted: the candidate's [R][K], as eplb_weights_check allows. */
};

/** Bytes of scratch memory that eplb_gate_routed needs for a shape, aligned to 64. */
EPLB_API size_t eplb_gate_routed_scratch(const struct eplb_shape *shape);

/**
 * The gate for a replica routing. `static` and `local`: eplb_gate. `weighted`: the candidate's peak is that
 * by its weights. `adaptive` and `batch`: it is that of the candidate's best split of the logical load, and
 * the current peak is the smaller one of the measured peak and of the active placement's best split, so that
 * what new weights repair is not migrated. Else as eplb_gate.
 *
 * @param scratch eplb_gate_routed_scratch(shape) bytes, aligned to 64
 */
EPLB_API struct eplb_benefit eplb_gate_routed(const struct eplb_shape *shape,
                                              const struct eplb_gate_routing *routing, const int32_t *active,
                                              const int32_t *candidate, const int64_t *logical,
                                              const int64_t *physical, double threshold, void *scratch);

/** What moving weights costs and when that counts. All zero: unknown, nothing is judged by it. */
struct eplb_migration_cost {
    int64_t expert_bytes;     /**< Bytes of one expert's tensors; 0: unknown. */
    double bytes_per_second;  /**< What a rank receives, measured or given; 0: unknown. */
    double seconds_per_token; /**< What one token more on the slowest rank costs a forward; 0: unknown. */
    double num_forwards;      /**< Forwards that the logical load was counted over; 0: unknown. Where less was
                                   measured, it counts as so many fewer forwards. */
    int32_t max_break_even_forwards; /**< eplb_max_break_even_steps: refuse what pays later; 0: off. */
};

/** What a candidate moves, and when it has paid. */
struct eplb_migration {
    int32_t moved_slots; /**< Slots that get another expert. */
    int32_t sent_slots;  /**< Of these, those whose weights come from another rank. */
    int64_t bytes;       /**< sent_slots * expert_bytes, capped at INT64_MAX; 0 when unknown. */
    double seconds; /**< Of the transfer: the rank that receives most, at bytes_per_second; 0: unknown. */
    double break_even_forwards; /**< Forwards until the tokens saved on the slowest rank have paid for it; 0
                                   when no rank receives any; negative: unknown; infinite: never. */
    int pays; /**< 0 when it passed the gate and max_break_even_forwards refuses it; else 1. */
};

/**
 * How many experts the rank receives from others that receives most. Pure and thread-safe.
 *
 * @param moves [num_moves] as eplb_placement_diff lists them
 */
EPLB_API int32_t eplb_most_received(const struct eplb_shape *shape, const struct eplb_move *moves,
                                    int32_t num_moves);

/** Bytes of scratch memory that eplb_migration_of needs for a shape, to be aligned to 64. */
EPLB_API size_t eplb_migration_scratch(const struct eplb_shape *shape);

/**
 * What putting a candidate in the place of a placement moves, and when it has paid. With the moves of
 * eplb_placement_diff:
 *
 *   seconds        = largest number of experts that a rank receives * expert_bytes / bytes_per_second
 *   saved          = (current_peak - candidate_peak) / num_forwards, tokens of a forward's slowest rank
 *   break-even     = seconds / (saved * seconds_per_token)
 *
 * A figure whose factors are not all known is unknown, and what is unknown refuses nothing. Pure and
 * thread-safe; doubles, in the order above. O(P).
 *
 * @param active    legal placement [R][K]
 * @param candidate legal placement [R][K]
 * @param benefit   the gate's figures of the candidate
 */
EPLB_API struct eplb_migration eplb_migration_of(const struct eplb_shape *shape, const int32_t *active,
                                                 const int32_t *candidate, const struct eplb_benefit *benefit,
                                                 const struct eplb_migration_cost *cost, void *scratch);

/** Balance of one placement when every expert's load is split evenly over its replicas. */
struct eplb_balance {
    double peak;        /**< Largest rank sum. */
    double mean;        /**< Total load / R. */
    double lower_bound; /**< The larger of mean and the smallest possible largest replica, for this shape. */
};

/**
 * Peak and bounds of a placement under a load. Pure and thread-safe. O(P).
 *
 * @param expert_ids legal placement [R][K]
 * @param load       [E]
 * @param scratch    room for [E], overwritten
 */
EPLB_API struct eplb_balance eplb_balance_of(const struct eplb_shape *shape, const int32_t *expert_ids,
                                             const int64_t *load, int32_t *scratch);

/**
 * Splits a logical load evenly over the replicas of a placement: what the physical load would be
 * if nothing had been measured. An expert's remainder goes, one token each, to its first replicas
 * in slot order, so that totals are kept exactly. O(P).
 *
 * @param expert_ids legal placement [R][K]
 * @param load       [E]
 * @param scratch    room for [E], overwritten
 * @param physical   receives [R][K]
 */
EPLB_API void eplb_split_evenly(const struct eplb_shape *shape, const int32_t *expert_ids,
                                const int64_t *load, int32_t *scratch, int64_t *physical);

/**
 * Who plans the layers: the calling thread, or several. A host with threads of its own may pass a table of
 * its own; the plans are the same bytes whoever makes them.
 */
struct eplb_layer_runner {
    size_t size;         /**< sizeof(struct eplb_layer_runner). */
    void *context;       /**< First argument of run. */
    int32_t num_workers; /**< In [1, EPLB_MAX_WORKERS]: how many layers may be planned at a time. */
    /**
     * Calls plan_layer(argument, worker, layer) once for each layer in [0, num_layers), in any order and
     * from any threads, but never two calls at a time with the same worker, a number in [0, num_workers).
     * Returns when all have returned and what they wrote is visible to the caller. Cannot fail: a table
     * that gets no threads calls everything itself. Required.
     */
    void (*run)(void *context, int32_t num_workers, int32_t num_layers,
                void (*plan_layer)(void *argument, int32_t worker, int32_t layer), void *argument);
};

/** Most workers of a runner. */
#define EPLB_MAX_WORKERS 1024

/**
 * A runner whose run starts num_threads - 1 threads, or one less than there are layers if that is fewer, and
 * joins them; the calling thread works too. Each takes the next layer that none has taken. Where the system
 * gives fewer threads, those do everything. Thread-safe.
 *
 * @param num_threads in [1, EPLB_MAX_WORKERS]; 1: the calling thread only
 */
EPLB_API struct eplb_layer_runner eplb_layer_runner_threads(int32_t num_threads);

/** Parameters of a planner. Set by eplb_planner_params_init, then changed by the host. */
struct eplb_planner_params {
    size_t size;                          /**< sizeof(struct eplb_planner_params). */
    struct eplb_shape shape;              /**< Filled by eplb_shape_init. No default. */
    const struct eplb_policy_ops *ops;    /**< The policy; default balanced. */
    double min_peak_load_improvement;     /**< Gate threshold, in [0, 1]; default 0.05. */
    struct eplb_policy_settings settings; /**< What the policy is told beside the load. */
    const int32_t *initial;               /**< Legal table [L][R][K], copied; NULL: the initial placement. */
    const struct eplb_log_sink *log; /**< Takes one "EPLB placement benefit" line per layer; NULL: none. */
    const int32_t *layer_ids;        /**< Names of the layers in messages, [L], copied; NULL: 0, 1, ... */
    int32_t max_moves;               /**< Slots of a layer that a candidate may change; 0 (default): any
                                          number. */
    struct eplb_migration_cost cost; /**< What moving a slot costs; default: unknown. */
    const struct eplb_layer_runner *runner;    /**< Who plans the layers, copied; NULL (default): the calling
                                                    thread. */
    enum eplb_replica_routing replica_routing; /**< What the gate judges for; default static. */
};

/** Writes the defaults. */
EPLB_API void eplb_planner_params_init(struct eplb_planner_params *params);

/**
 * A planner holds the active table, the candidates of the last run, and the memory that planning
 * needs. It allocates only in eplb_planner_create. Not thread-safe: one call at a time.
 */
struct eplb_planner;

/**
 * Creates a planner.
 *
 * @param params  see there; not kept
 * @param planner receives the planner; free it with eplb_planner_destroy
 * @return EPLB_OK; EPLB_INVALID with a sentence when a parameter is not as described above or the initial
 *         table is not legal (layer, rank and slot are named); EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_planner_create(const struct eplb_planner_params *params,
                                              struct eplb_planner **planner, struct eplb_error *error);

/** Frees a planner; NULL is allowed. */
EPLB_API void eplb_planner_destroy(struct eplb_planner *planner);

/** Most windows of the past, and most pieces of the present one, that a policy is told. */
#define EPLB_MAX_POLICY_WINDOWS 16

/** What a policy run is told of the load. Set by eplb_planner_loads_init, then filled. Everything is
 * borrowed. */
struct eplb_planner_loads {
    size_t size;             /**< sizeof(struct eplb_planner_loads). */
    const int64_t *logical;  /**< [L][E]; NULL: no window yet, nothing is published. */
    const int64_t *physical; /**< [L][R][K] measured under the active table; NULL: not measured. */
    const int64_t *history[EPLB_MAX_POLICY_WINDOWS]; /**< [L][E] each: windows before this, oldest first. */
    int32_t num_history;                             /**< 0 to EPLB_MAX_POLICY_WINDOWS. */
    const int64_t *parts[EPLB_MAX_POLICY_WINDOWS];   /**< [L][E] each: the window in pieces, oldest first. */
    int32_t num_parts;                               /**< 0 to EPLB_MAX_POLICY_WINDOWS; 0: unknown. */
};

/** No load. */
EPLB_API void eplb_planner_loads_init(struct eplb_planner_loads *loads);

/**
 * eplb_planner_rebalance with all that is known of the load: the policy is told history and parts.
 *
 * @return as eplb_planner_rebalance; EPLB_INVALID also when a number of windows is out of range or a load of
 *         the history or the parts is (nothing changes)
 */
EPLB_API enum eplb_status eplb_planner_plan(struct eplb_planner *planner,
                                            const struct eplb_planner_loads *loads, struct eplb_error *error);

/**
 * One policy run over all layers: proposes candidates, replaces one that changes more than max_moves slots
 * by the best found within them, and passes each through the gate, which refuses what does not pay.
 *
 * A layer whose logical load is 0 keeps its placement. So does a layer whose policy fails or
 * proposes an illegal table: the first such failure is returned after all layers were treated,
 * and the other layers' results are valid. O(L) times policy and gate.
 *
 * @param logical  [L][E], each in [0, EPLB_MAX_LOAD]; NULL: no window yet, nothing is published
 * @param physical [L][R][K], each in [0, EPLB_MAX_LOAD], measured under the active table; NULL: not
 *                 measured, the exact even split of logical under the active table
 * @return EPLB_OK; EPLB_INVALID when a load is out of range (nothing changes); the policy's status
 */
EPLB_API enum eplb_status eplb_planner_rebalance(struct eplb_planner *planner, const int64_t *logical,
                                                 const int64_t *physical, struct eplb_error *error);

/**
 * Changes what moving a slot costs, from the next run on: what is measured may become known later.
 *
 * @return EPLB_OK; EPLB_INVALID with a sentence when a member is out of range: nothing changes
 */
EPLB_API enum eplb_status eplb_planner_set_cost(struct eplb_planner *planner,
                                                const struct eplb_migration_cost *cost,
                                                struct eplb_error *error);

/** The active table [L][R][K]. Owned by the planner; changed by commit. */
EPLB_API const int32_t *eplb_planner_active(const struct eplb_planner *planner);

/** The candidates of the last run, [L][R][K]; equal to the active table where there is none. */
EPLB_API const int32_t *eplb_planner_candidates(const struct eplb_planner *planner);

/**
 * The weights that came with the candidates, [L][R][K], in units of 1 / EPLB_WEIGHT_UNIT. Where the policy
 * gave none: those of the window's best split when the routing is `weighted` or `adaptive`, else equal ones.
 */
EPLB_API const int32_t *eplb_planner_weights(const struct eplb_planner *planner);

/** The gate's verdicts of the last run, [L]; publish is the update mask. All zero before a run. */
EPLB_API const struct eplb_benefit *eplb_planner_benefits(const struct eplb_planner *planner);

/** What the candidates of the last run move, and when that has paid, [L]. All zero before a run. */
EPLB_API const struct eplb_migration *eplb_planner_migrations(const struct eplb_planner *planner);

/**
 * What max_moves costs, [L]: the candidate_peak of the plan that it did not allow; where it allowed the plan,
 * that of the candidate.
 */
EPLB_API const double *eplb_planner_unbounded_peaks(const struct eplb_planner *planner);

/**
 * Whether the candidate of a layer would be published on another window as well: the gate and the cost of
 * the migration once more, by the rules of the planner. Not while a run is under way.
 *
 * @param layer    in [0, L)
 * @param logical  [E], each in [0, EPLB_MAX_LOAD]
 * @param physical [R][K] measured under the active table; NULL: not measured
 * @param cost     what moving costs now, no member negative or infinite
 */
EPLB_API int eplb_planner_still_publishes(struct eplb_planner *planner, int32_t layer, const int64_t *logical,
                                          const int64_t *physical, const struct eplb_migration_cost *cost);

/** Makes a layer's candidate the active placement. layer is in [0, L). */
EPLB_API void eplb_planner_commit_layer(struct eplb_planner *planner, int32_t layer);

/** Drops a layer's candidate: it becomes a copy of the active placement. layer is in [0, L). */
EPLB_API void eplb_planner_abort_layer(struct eplb_planner *planner, int32_t layer);

#ifdef __cplusplus
}
#endif
#endif
