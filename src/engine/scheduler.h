/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Continuous batching over the DP ranks: which rows every rank's next forward has. Pure.
 *
 * There are num_ranks * num_caches places; place p belongs to rank p / num_caches and is its cache
 * p % num_caches. Every `admit_interval` forwards, from the first one on, all free places of the busy
 * ranks get new sequences: cache 0 of all ranks first, then cache 1, and so on, so that neighbouring
 * sequences are on different ranks and a rank has no share of a text or topic of its own. A sequence
 * keeps its place to its end; the place is free at the next admission.
 *
 * Each forward a running sequence decodes one token. Into what room is left of max_rows new ones are
 * prefilled in chunks, in the order in which they were let in, so that none waits for ever. Between
 * admissions, once the prompts are through, all forwards are decode throughout, which is where layers may
 * switch.
 *
 * A sequence with a prompt of m tokens, of which k follow, has m + k - 1 rows: the last of the prompt
 * gives the first token, and each of the k - 1 decode rows one more.
 *
 * With `fixed_sequences` there are so many and no more, in contiguous blocks: of R busy ranks and n sequences
 * rank r gets those from n r / R to n (r + 1) / R. They begin with the first forward and last as long as
 * positions do, whatever the traffic says of lengths. All their rows are decode rows, also the first, which
 * is the whole prompt: what is replayed of a recording counts as it was recorded.
 *
 * The next token of a sequence need not be known for the next forward (EPLB_SAMPLED_TOKEN): lengths are
 * fixed by the traffic, so forwards can be made ahead of the outputs of those before them.
 */
#ifndef ENGINE_SCHEDULER_H
#define ENGINE_SCHEDULER_H

#include <stdint.h>

#include "base/arena.h"
#include "engine/traffic.h"
#include "eplb/manager.h"
#include "model/route.h"

struct eplb_scheduler_params {
    int32_t num_ranks;                  /* >= 1 */
    int32_t num_caches;                 /* per rank, >= 1 */
    int32_t max_rows;                   /* of one rank's batch, >= num_caches */
    int32_t admit_interval;             /* forwards, >= 1 */
    int32_t busy_ranks;                 /* ranks 0 to busy_ranks - 1 get sequences, 1 to num_ranks; the
                                           others stay empty */
    int32_t fixed_sequences;            /* 0, or at most busy_ranks * num_caches */
    const struct eplb_traffic *traffic; /* outlives the scheduler */
};

struct eplb_scheduler;

/** EPLB_INVALID with a sentence that names the parameter. */
enum eplb_status eplb_scheduler_params_check(const struct eplb_scheduler_params *params,
                                             struct eplb_error *error);

/** Takes the memory from an arena, which may only measure: then NULL. The params passed their check. */
struct eplb_scheduler *eplb_scheduler_take(struct eplb_arena *arena,
                                           const struct eplb_scheduler_params *params);

/** Starts with no sequence, whatever the memory held. The params are those of the take. */
void eplb_scheduler_init(struct eplb_scheduler *scheduler, const struct eplb_scheduler_params *params);

/** One rank's batch: decode rows by cache, then prefill rows. */
struct eplb_rank_batch {
    const struct eplb_model_row *rows; /* [num_rows], valid until the next call */
    int32_t num_rows;
    struct eplb_dp_batch tokens; /* prefill_tokens + decode_tokens == num_rows */
};

/** Makes the next forward: batches receives [num_ranks]. Rows of a sequence follow each other. */
void eplb_scheduler_next(struct eplb_scheduler *scheduler, struct eplb_rank_batch *batches);

/** Sequences that were given a place, and those whose last row was made. */
uint64_t eplb_scheduler_begun(const struct eplb_scheduler *scheduler);
uint64_t eplb_scheduler_finished(const struct eplb_scheduler *scheduler);

#endif
