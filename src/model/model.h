/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The reference model of one rank: a causal decoder with MoE layers whose experts can move.
 *
 * The result of a forward is bit-identical whatever the placement, the replica routing, the number of ranks,
 * the batch that a sequence's rows travel in, and whether a migration is running. Everything is reserved at
 * create; weights, replica tables and masks keep their addresses.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/group.h"
#include "eplb/hooks.h"
#include "eplb/load.h"
#include "eplb/log.h"
#include "model/config.h"
#include "model/moe.h"
#include "model/replicas.h"
#include "model/route.h"

struct eplb_model;

struct eplb_model_params {
    struct eplb_model_config config;
    struct eplb_shape shape; /* its num_layers and num_experts are the config's */
    int32_t ep_rank;
    int32_t max_rows;               /* of one batch of this rank, >= 1 */
    int32_t num_caches;             /* sequences at a time, >= 1 */
    const int32_t *initial;         /* legal [num_layers][num_slots]; NULL: the initial placement */
    const int32_t *initial_weights; /* its replica weights [num_layers][num_slots]; NULL: equal ones */
    int decode_only_load;           /* eplb_use_decode_only_load */
    int fixed;                      /* 1: experts never move; nothing is registered, no staging is reserved */
    enum eplb_replica_routing replica_routing; /* 0: static */
    const int32_t *node_of_rank;               /* [ep_size] for local; outlives the model; NULL: one node */
    int32_t cost_per_active_slot;              /* >= 0, for batch */
    int32_t cost_per_token;                    /* >= 1, for batch; 0: 1 */
    const struct eplb_group *group;
    const struct eplb_route_source *routes; /* NULL: by the router; outlives the model */
    const struct eplb_log_sink *log;        /* outlives the model; may be NULL */
    void *clock;
    int64_t (*cpu_time)(void *clock); /* NULL: times are 0 */
};

/**
 * Reserves and makes everything; registers the weights and reserves staging, unless experts never move.
 *
 * @return EPLB_OK; EPLB_INVALID with a sentence when a parameter is out of range, shape, config and group do
 *         not fit together, or the initial table is not legal; EPLB_NO_MEMORY
 */
enum eplb_status eplb_model_create(const struct eplb_model_params *params, struct eplb_model **model,
                                   struct eplb_error *error);
void eplb_model_destroy(struct eplb_model *model);

/**
 * Bytes that create reserves for a forward, dispatch buffers included, and for the KV cache. SIZE_MAX
 * when they do not fit.
 */
size_t eplb_model_activation_bytes(const struct eplb_model_config *config, const struct eplb_shape *shape,
                                   enum eplb_replica_routing routing, int32_t max_rows);
size_t eplb_model_kv_bytes(const struct eplb_model_config *config, int32_t num_caches);

/** For the executor; both live as long as the model. NULL are the registered weights of a fixed model. */
struct eplb_weights *eplb_model_registered(struct eplb_model *model);
const struct eplb_model_hooks *eplb_model_hooks(const struct eplb_model *model);

/** How this rank's rows of a layer are routed; all of it stays at its address. */
const struct eplb_replica_layer *eplb_model_replicas(const struct eplb_model *model, int32_t layer);

/** One forward of this rank. */
struct eplb_model_batch {
    uint64_t seq;
    const struct eplb_model_row *rows; /* [num_rows]; rows of one sequence follow each other, by position */
    int32_t num_rows;                  /* 0: an empty DP rank, which takes part all the same */
    unsigned flags;                    /* 0 or EPLB_FORWARD_WARMUP */
    const uint64_t *generations;       /* [num_layers] that this rank runs under */
};

/** What a sampled row gave. */
struct eplb_model_sample {
    uint64_t sequence;
    int32_t position; /* of the row that it was sampled from */
    int32_t token;    /* the largest logit's, ties to the lowest */
    uint64_t digest;  /* of all bits of the logits */
};

/**
 * Runs a forward. All ranks call it with the same seq.
 *
 * A layer: x += attention(norm(x)); h = norm(x); y = the shared expert's output for h, or 0; then the
 * experts' outputs, each times its gate, are added to y one by one in the order in which they were
 * chosen; x += y. The gates are the softmax over the chosen experts' logits.
 *
 * A sequence begins at position 0, which empties its cache, and goes on without gaps in the same cache.
 * Rows of padding are refused.
 *
 * @param samples     receives up to max_rows, in the order of the rows
 * @param num_samples receives their number
 * @return EPLB_OK; EPLB_INVALID with the row when a row makes no sense (nothing was run, and the other
 *         ranks wait: end the process); EPLB_RANK_DEAD, EPLB_INCONSISTENT and EPLB_INVALID as
 *         eplb_moe_run
 */
enum eplb_status eplb_model_forward(struct eplb_model *model, const struct eplb_model_batch *batch,
                                    struct eplb_model_sample *samples, int32_t *num_samples,
                                    struct eplb_error *error);

/** The counts of the last forward, [num_layers][slots_per_rank] inclusive prefix sums. */
const int64_t *eplb_model_prefix(const struct eplb_model *model);

/** Sets them to zero: of a forward that was given up. */
void eplb_model_forget(struct eplb_model *model);

/** What this rank's experts did in the last forward, [num_layers]. */
const struct eplb_moe_work *eplb_model_work(const struct eplb_model *model);

/**
 * Fingerprints of all experts, made from the seed. Takes long; for --verify.
 *
 * @param fingerprints receives [num_layers][num_experts]
 * @return EPLB_OK; EPLB_NO_MEMORY
 */
enum eplb_status eplb_model_expected_fingerprints(const struct eplb_model_config *config,
                                                  uint64_t *fingerprints, struct eplb_error *error);

/**
 * Compares every slot of this rank, and its maps, with what the tables say.
 *
 * @param tables       [num_layers][num_slots]
 * @param fingerprints of eplb_model_expected_fingerprints
 * @return EPLB_OK; EPLB_VERIFY with layer, rank, slot, the expert that should be there and, if it is one
 *         of the model's, the one that is
 */
enum eplb_status eplb_model_check_slots(const struct eplb_model *model, const int32_t *tables,
                                        const uint64_t *fingerprints, struct eplb_error *error);

#if EPLB_TEST_BUILD
/**
 * 1: the next activation of a rank whose tables have two slots or more leaves a wrong expert in its last
 * slot, which a check must find. To be set before the rank's first forward.
 */
extern int eplb_model_inject_wrong_slot;
#endif

#endif
