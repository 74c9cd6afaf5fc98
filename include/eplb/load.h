/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Load: how many token rows each physical slot got. Belongs to src/load.
 *
 * The road of a count. A worker counts, for each MoE layer, the rows that its forward routed to
 * each of its local slots (struct eplb_counter) and reports inclusive prefix sums along the slots.
 * The engine puts the reports of all EP ranks of one forward together to a sample and adds it to
 * the open window (struct eplb_aggregator). A policy run closes the window and plans from it.
 *
 * The slot counts are the only source of truth. Nothing here reads a second, declared number of
 * tokens, so the two can never disagree within a window: what a forward routed is the sum of its
 * slots, per layer, and equals its counted tokens times top_k.
 *
 * What counts: rows of real tokens, prefill and decode, draft tokens included, accepted or not.
 * Never: graph warm-up, graph padding, the made-up tokens of an empty DP rank. Masks say which.
 *
 * All counts are int64, from 0 to EPLB_MAX_LOAD; a count that would pass it is refused.
 */
#ifndef EPLB_LOAD_H
#define EPLB_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/log.h"
#include "eplb/placement.h"
#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------ masks */

/** What a row of a batch is. */
enum eplb_token_kind {
    EPLB_TOKEN_PADDING = 0, /**< Graph padding, or made up for an empty DP rank: never counts. */
    EPLB_TOKEN_PREFILL = 1, /**< A prompt token. */
    EPLB_TOKEN_DECODE = 2,  /**< A generated or draft token. */
};

/**
 * Writes the mask of a batch: 1 for a row that counts, 0 for one that does not. Pure; thread-safe.
 *
 * @param kinds       [num_tokens], each an enum eplb_token_kind; may be NULL when num_tokens is 0
 * @param num_tokens  rows of the batch
 * @param decode_only not 0: prefill rows do not count (eplb_use_decode_only_load)
 * @param mask        receives [num_tokens], each 0 or 1
 * @return EPLB_OK; EPLB_INVALID, mask untouched, when a kind is none (the sentence names the token)
 */
EPLB_API enum eplb_status eplb_mask_build(const uint8_t *kinds, size_t num_tokens, int decode_only,
                                          uint8_t *mask, struct eplb_error *error);

/**
 * Lays the masks of all DP ranks out as the all-gathered batch has its tokens: DP rank d has the
 * rows [d * stride, (d + 1) * stride), its own mask first and zeros behind it. An empty DP rank has
 * length 0 and gets zeros only, whatever tokens are made up for it. Pure; thread-safe.
 *
 * @param masks   [dp_size], each [lengths[d]] of 0 and 1; NULL where lengths[d] is 0
 * @param lengths [dp_size], rows of the DP ranks' own batches
 * @param dp_size DP ranks
 * @param stride  rows that every DP rank is padded to
 * @param aligned receives [dp_size * stride], each 0 or 1
 * @return EPLB_OK; EPLB_INVALID, aligned untouched, with a sentence that names the DP rank when its
 *         mask is longer than stride, lacks, or has a byte that is neither 0 nor 1
 */
EPLB_API enum eplb_status eplb_mask_align(const uint8_t *const *masks, const size_t *lengths, size_t dp_size,
                                          size_t stride, uint8_t *aligned, struct eplb_error *error);

/* ------------------------------------------------------------------------------ prefix coding */

/**
 * Writes the inclusive prefix sums of counts. Pure; thread-safe.
 *
 * @param counts [n], each >= 0
 * @param n      number of slots
 * @param prefix receives [n]; must not overlap counts
 * @return EPLB_OK; EPLB_INVALID, prefix untouched, when a count is negative or a sum passes
 *         2^63 - 1 (the sentence names the entry)
 */
EPLB_API enum eplb_status eplb_prefix_encode(const int64_t *counts, size_t n, int64_t *prefix,
                                             struct eplb_error *error);

/**
 * Restores counts from inclusive prefix sums; the first entry is its own count. Pure; thread-safe.
 *
 * @param prefix [n], any content
 * @param n      number of slots
 * @param counts receives [n], each >= 0; must not overlap prefix
 * @return EPLB_OK; EPLB_INVALID, counts untouched, when the first entry is negative or an entry is
 *         below the one before it (the sentence names the entry)
 */
EPLB_API enum eplb_status eplb_prefix_decode(const int64_t *prefix, size_t n, int64_t *counts,
                                             struct eplb_error *error);

/* ----------------------------------------------------------------------- counting, per worker */

/** Flags of a forward, for eplb_counter_begin. */
enum eplb_forward_flag {
    EPLB_FORWARD_WARMUP = 1, /**< Graph warm-up or capture: checked like any other, nothing counts. */
};

/**
 * The counts of one worker's current forward. It allocates at create only. Not thread-safe: the
 * thread that runs the forward owns it.
 */
struct eplb_counter;

/**
 * Creates a counter for one EP rank. Call eplb_counter_begin before counting.
 *
 * @param shape   of eplb_shape_init; copied
 * @param ep_rank this worker's rank
 * @param counter receives the counter; free it with eplb_counter_destroy
 * @return EPLB_OK; EPLB_INVALID when ep_rank is not in [0, ep_size); EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_counter_create(const struct eplb_shape *shape, int32_t ep_rank,
                                              struct eplb_counter **counter, struct eplb_error *error);

/** Frees a counter; NULL is allowed. */
EPLB_API void eplb_counter_destroy(struct eplb_counter *counter);

/**
 * Starts a forward: all counts restart at zero.
 *
 * @param flags 0 or EPLB_FORWARD_WARMUP
 * @return EPLB_OK; EPLB_INVALID, the counter untouched, for an unknown flag
 */
EPLB_API enum eplb_status eplb_counter_begin(struct eplb_counter *counter, unsigned flags,
                                             struct eplb_error *error);

/**
 * Counts routed ids: every entry that names a slot of this rank, for each token whose mask is 1.
 * For executions in which the rank sees the ids of all tokens (EP level 1). May be called several
 * times per layer and forward (chunks, draft steps); the counts add up. Everything is checked
 * before anything is counted.
 *
 * @param layer        MoE layer, in [0, num_layers)
 * @param global_slots [num_tokens][top_k], each in [0, num_slots). The entries of a token whose
 *                     mask is 0 are not read: padding rows may hold anything
 * @param num_tokens   rows of the batch, padding included; may be 0
 * @param top_k        experts per token, >= 1
 * @param mask         [mask_length], each 0 or 1; NULL: every token is real
 * @param mask_length  must be num_tokens; not read when mask is NULL
 * @return EPLB_OK; EPLB_INVALID, nothing counted, when the layer, top_k, the mask's length, a mask
 *         byte or a slot is out of range (the sentence names token and k), or a sum of counts would
 *         pass EPLB_MAX_LOAD
 */
EPLB_API enum eplb_status eplb_counter_add_routed(struct eplb_counter *counter, int32_t layer,
                                                  const int32_t *global_slots, size_t num_tokens,
                                                  int32_t top_k, const uint8_t *mask, size_t mask_length,
                                                  struct eplb_error *error);

/**
 * Counts what a receiver saw: for EP level 2, where each dispatch brings per slot the rows and how
 * many of them count, and for the fused executions. The second is added. May be called several
 * times per layer and forward (once per source, or once for all).
 *
 * @param layer        MoE layer, in [0, num_layers)
 * @param rows         [slots_per_rank], rows that arrived, each >= 0
 * @param counted_rows [slots_per_rank], rows of these that count, each in [0, rows of the slot]
 * @return EPLB_OK; EPLB_INVALID, nothing counted, with a sentence that names the slot, or when a
 *         sum of counts would pass EPLB_MAX_LOAD
 */
EPLB_API enum eplb_status eplb_counter_add_received(struct eplb_counter *counter, int32_t layer,
                                                    const int64_t *rows, const int64_t *counted_rows,
                                                    struct eplb_error *error);

/**
 * Writes the forward's report: inclusive prefix sums along the local slots of every layer.
 *
 * @param prefix receives [num_layers][slots_per_rank]
 */
EPLB_API void eplb_counter_prefix(const struct eplb_counter *counter, int64_t *prefix);

/* ---------------------------------------------------------------- windows, once in the engine */

/** Closed windows that the history keeps. */
#define EPLB_HISTORY_WINDOWS 16

/** Largest overlap that an aggregator takes. */
#define EPLB_MAX_OVERLAP 62

/** What one EP rank reports for one forward. Borrowed; must not change while it is added. */
struct eplb_rank_report {
    /** [num_layers][slots_per_rank] inclusive prefix sums; NULL: the rank's output lacks. */
    const int64_t *prefix;
    /** [num_layers] generation of each layer's placement that the forward ran under. */
    const uint64_t *generations;
    int32_t num_layers;     /**< Layers that the arrays have, as the report declares. */
    int32_t slots_per_rank; /**< Slots per layer that prefix has, as the report declares. */
    /** [num_layers] version of the replica weights likewise; NULL: all 0. */
    const uint64_t *weight_versions;
};

/** The reports of one forward, EP rank r at ranks[r]. Borrowed. */
struct eplb_sample {
    const struct eplb_rank_report *ranks; /**< [num_ranks] */
    int32_t num_ranks;                    /**< Must be ep_size. */
};

/** What became of a sample. */
struct eplb_sample_result {
    int taken; /**< 1: added; 0: a rank's output lacks, so the step gives no sample. */
    /** Rows that the sample added to the logical load, over all layers; at most 2^63 - 1 is told. */
    int64_t counted_rows;
};

/** One window. Owned by the aggregator. */
struct eplb_window {
    size_t size;                     /**< sizeof(struct eplb_window) of the library. */
    const int64_t *logical;          /**< [num_layers][num_experts], each in [0, EPLB_MAX_LOAD]. */
    const int64_t *physical;         /**< [num_layers][ep_size][slots_per_rank], measured under expert_ids. */
    const int32_t *expert_ids;       /**< [num_layers][ep_size][slots_per_rank], the active table. */
    const uint64_t *generations;     /**< [num_layers] generation of the active table. */
    uint64_t num_samples;            /**< Samples taken in this window. */
    const uint64_t *weight_versions; /**< [num_layers] version of the weights that physical belongs to. */
};

/** What became of all samples so far. Owned by the aggregator. */
struct eplb_sample_counters {
    size_t size;      /**< sizeof(struct eplb_sample_counters) of the library. */
    uint64_t taken;   /**< Added to a window. */
    uint64_t refused; /**< Refused with a warning. */
    uint64_t lacking; /**< A rank's output lacked. */
};

/**
 * Windows of logical and physical load over all EP ranks. It allocates at create only, reads no
 * clock and starts no thread.
 *
 * Not thread-safe: add, commit, close and the open window belong to one thread. One thing may
 * overlap with it: another thread may read what eplb_aggregator_closed, eplb_aggregator_history and
 * eplb_aggregator_part give while the owner adds and commits. It must have begun after the close that made
 * the window (the host hands the window over) and have ended before the next close.
 */
struct eplb_aggregator;

/**
 * Creates an aggregator with an empty open window.
 *
 * @param shape       of eplb_shape_init; copied
 * @param overlap     forwards that may be submitted before the output of an earlier one is read, in
 *                    [0, EPLB_MAX_OVERLAP]. The tables of the last overlap + 2 generations are kept
 * @param expert_ids  [num_layers][ep_size][slots_per_rank], the active table; copied
 * @param generations [num_layers] its generations (a manager that starts over living workers takes
 *                    theirs); NULL: all 0
 * @param sink        takes the warnings; outlives the aggregator; NULL drops them
 * @param aggregator  receives it; free it with eplb_aggregator_destroy
 * @return EPLB_OK; EPLB_INVALID when overlap is out of range or a layer's placement is not legal;
 *         EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_aggregator_create(const struct eplb_shape *shape, int32_t overlap,
                                                 const int32_t *expert_ids, const uint64_t *generations,
                                                 const struct eplb_log_sink *sink,
                                                 struct eplb_aggregator **aggregator,
                                                 struct eplb_error *error);

/**
 * Gives the layers the names that sentences and warnings call them by.
 *
 * @param layer_ids [num_layers], copied; NULL: 0, 1, ..., as after create
 */
EPLB_API void eplb_aggregator_name_layers(struct eplb_aggregator *aggregator, const int32_t *layer_ids);

/** Frees an aggregator and every window of it; NULL is allowed. */
EPLB_API void eplb_aggregator_destroy(struct eplb_aggregator *aggregator);

/**
 * Adds one forward's sample to the open window, wholly or not at all.
 *
 * A layer whose forward ran under the active generation adds to the logical and the physical load;
 * one under an older generation that is kept adds to the logical load, through its own table, and
 * not to the physical; one under an older generation than those, or above the active one, adds
 * nothing. The physical load is that of one version of the replica weights: the first sample of a higher
 * version restarts it, and one of a lower version adds to the logical load only. Samples are added before
 * the commits that the same outputs bring.
 *
 * @param sample the reports of all ranks
 * @param result receives what became of it, when EPLB_OK is returned
 * @return EPLB_OK: taken, or a rank's output lacks. EPLB_REFUSED: a wrong number of reports, a wrong
 *         size, missing generations, a negative or falling prefix, or a count that would carry the
 *         window past EPLB_MAX_LOAD; nothing changed but the counter of refusals, and the sentence,
 *         which names rank and layer, went to the sink as one warning. EPLB_INCONSISTENT: two ranks
 *         ran the forward under different generations or weight versions of a layer; nothing changed, and the
 * run must stop with the sentence, which names the layer and both ranks. Ranks that lack do not hide a
 * refusal of the others' sizes or a disagreement between the others
 */
EPLB_API enum eplb_status eplb_aggregator_add(struct eplb_aggregator *aggregator,
                                              const struct eplb_sample *sample,
                                              struct eplb_sample_result *result, struct eplb_error *error);

/**
 * Compares the generations and weight versions of a forward whose counts do not matter (graph warm-up).
 *
 * @return EPLB_OK; EPLB_INCONSISTENT as eplb_aggregator_add. Nothing changes
 */
EPLB_API enum eplb_status eplb_aggregator_check_generations(const struct eplb_aggregator *aggregator,
                                                            const struct eplb_sample *sample,
                                                            struct eplb_error *error);

/**
 * Makes a new placement of one layer the active one: its generation grows by one, the old table
 * stays for samples that are still on their way, its weights' version is 0, and the layer's physical load
 * of the open window restarts at zero. The logical load and the closed windows stay.
 *
 * @param layer      MoE layer, in [0, num_layers)
 * @param expert_ids [ep_size][slots_per_rank]; copied
 * @return EPLB_OK; EPLB_INVALID, nothing changed, when the layer is out of range, the placement is
 *         not legal, or the generation is the largest there is
 */
EPLB_API enum eplb_status eplb_aggregator_commit(struct eplb_aggregator *aggregator, int32_t layer,
                                                 const int32_t *expert_ids, struct eplb_error *error);

/**
 * Closes the open window: it becomes the closed one, with the active tables of this moment, and its
 * logical load the newest of the history; the new open window is all zero. One warning goes to the
 * sink for each EP rank that reported only zeros in the whole window while others had traffic.
 */
EPLB_API void eplb_aggregator_close_window(struct eplb_aggregator *aggregator);

/** The open window; it changes with every add and commit. The pointer is valid until destroy. */
EPLB_API const struct eplb_window *eplb_aggregator_open(const struct eplb_aggregator *aggregator);

/**
 * The window closed last; all zero, with the first table, before any close. It stays as it is until
 * the next close, whatever is added or committed. The pointer is valid until destroy.
 */
EPLB_API const struct eplb_window *eplb_aggregator_closed(const struct eplb_aggregator *aggregator);

/** Number of closed windows in the history, at most EPLB_HISTORY_WINDOWS. */
EPLB_API int32_t eplb_aggregator_history_length(const struct eplb_aggregator *aggregator);

/**
 * The logical load of one layer in one closed window.
 *
 * @param window from 0, the oldest that is kept, to history_length - 1, the window closed last
 * @param layer  MoE layer, in [0, num_layers)
 * @return [num_experts], unchanged until the next close; NULL when window or layer is out of range
 */
EPLB_API const int64_t *eplb_aggregator_history(const struct eplb_aggregator *aggregator, int32_t window,
                                                int32_t layer);

/** Most pieces that a window is kept in. */
#define EPLB_WINDOW_PARTS 16

/**
 * Pieces of the window closed last, at most EPLB_WINDOW_PARTS; 0 when it has no sample. All but the newest
 * have the same number of samples, a power of two; together they are the window's logical load.
 */
EPLB_API int32_t eplb_aggregator_num_parts(const struct eplb_aggregator *aggregator);

/**
 * The logical load of one piece of the window closed last.
 *
 * @param part from 0, the oldest, to num_parts - 1
 * @return [num_layers][num_experts], unchanged until the next close; NULL when part is out of range
 */
EPLB_API const int64_t *eplb_aggregator_part(const struct eplb_aggregator *aggregator, int32_t part);

/** Largest decay of the recent load. */
#define EPLB_MAX_RECENT_DECAY 0.999

/**
 * Keeps the recent load from now on: each sample leaves `decay` of it and adds its own counts, whatever
 * windows are closed or layers committed. A large sample leaves less: at most the part 1 - rows / (64
 * num_experts), by the rows of its layer, but no less than half on that account.
 *
 * @param decay in [0, EPLB_MAX_RECENT_DECAY]
 * @return EPLB_OK; EPLB_INVALID, nothing changed, for any other decay
 */
EPLB_API enum eplb_status eplb_aggregator_keep_recent(struct eplb_aggregator *aggregator, double decay,
                                                      struct eplb_error *error);

/**
 * The recent load [num_layers][num_experts] in units of 1 / 256 rows, each at most 2^46; a sample's count of
 * a slot is taken as 2^26 rows at most. All zero before the first sample, or when it is not kept. Owned by
 * the aggregator; it changes with every add.
 */
EPLB_API const int64_t *eplb_aggregator_recent(const struct eplb_aggregator *aggregator);

/** What became of all samples so far; it changes with every add. The pointer is valid until destroy. */
EPLB_API const struct eplb_sample_counters *eplb_aggregator_counters(
    const struct eplb_aggregator *aggregator);

#ifdef __cplusplus
}
#endif
#endif
