/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What travels beside command and output: a forward's rows there, samples and work back; and what a
 * worker must know before its first forward. Little-endian, fixed offsets (engine/layout.h), no pointer;
 * whatever is decoded is checked as hostile.
 *
 * A record has one form only: its size is exactly what its content needs, and what is not used is zero.
 * The bytes must not change while they are decoded: copy a record out of memory that a peer can write.
 * What we encode is our own: that it is something the decoder takes is asserted. Every result is written
 * on success only.
 */
#ifndef ENGINE_RECORDS_H
#define ENGINE_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/placement.h"
#include "eplb/status.h"
#include "model/config.h"
#include "model/model.h"

/* ---- input of a forward ---- */

/** Bytes of the largest input. */
size_t eplb_input_bytes(int32_t max_rows);

/**
 * Writes flags (0 or EPLB_FORWARD_WARMUP) and rows, at any address; returns the bytes used, at most
 * eplb_input_bytes.
 */
size_t eplb_input_encode(unsigned flags, const struct eplb_model_row *rows, int32_t num_rows, void *bytes);

/**
 * Decodes an input of any address and content.
 *
 * @param size the bytes that the sender used
 * @param rows receives up to max_rows. Kinds are known ones and sample is 0 or 1; whether sequence, cache,
 *             position and token make sense is for the model to judge
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the field
 */
enum eplb_status eplb_input_decode(const void *bytes, size_t size, int32_t max_rows, unsigned *flags,
                                   struct eplb_model_row *rows, int32_t *num_rows, struct eplb_error *error);

/* ---- result of a forward ---- */

/** What one rank tells of a forward beside its output. */
struct eplb_result {
    struct eplb_model_sample *samples; /* room for max_rows */
    int32_t num_samples;
    struct eplb_moe_work *work; /* [num_layers] */
    int64_t step_ns;            /* wall time of the forward on this rank, without waiting for its command */
    int64_t switch_ns;          /* of it, start_step and finish_step */
    uint64_t slots_checked;     /* after an activation, with --verify; else 0 */
};

/** Bytes of the largest result. */
size_t eplb_result_bytes(int32_t max_rows, int32_t num_layers);

/** Writes a result, at any address; returns the bytes used, at most eplb_result_bytes. */
size_t eplb_result_encode(const struct eplb_result *result, int32_t num_layers, void *bytes);

/**
 * Decodes a result of any address and content. Times, rows, positions and tokens are not negative;
 * whether they make sense is not judged.
 *
 * @param size   the bytes that the sender used
 * @param result its samples and work are the caller's room, [max_rows] and [num_layers]
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the field
 */
enum eplb_status eplb_result_decode(const void *bytes, size_t size, int32_t max_rows, int32_t num_layers,
                                    struct eplb_result *result, struct eplb_error *error);

/* ---- what rows were routed to ---- */

/** The rows of one forward of one rank, in the order of its input. */
struct eplb_routed {
    struct eplb_routed_row *rows; /* room for max_rows */
    int32_t num_rows;
    uint16_t *experts; /* [num_rows][num_layers][top_k]; room for max_rows */
};

struct eplb_routed_row {
    uint64_t sequence;
    int32_t position;
};

/** Bytes of the largest record; row_ids is num_layers * top_k. */
size_t eplb_routed_bytes(int32_t max_rows, int32_t row_ids);

/** Writes a record, at any address; returns the bytes used, at most eplb_routed_bytes. */
size_t eplb_routed_encode(const struct eplb_routed *routed, int32_t row_ids, void *bytes);

/**
 * Decodes the record that a result begins with, of any address and content. Experts are in
 * [0, num_experts), positions are not negative.
 *
 * @param size   the bytes that the sender used for this record and the result after it
 * @param routed its rows and experts are the caller's room
 * @param used   receives the bytes of the record: the result begins there
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the field
 */
enum eplb_status eplb_routed_decode(const void *bytes, size_t size, int32_t max_rows, int32_t row_ids,
                                    int32_t num_experts, struct eplb_routed *routed, size_t *used,
                                    struct eplb_error *error);

/* ---- setup of a worker ---- */

/** Where routes come from; the values travel. */
enum eplb_routing {
    EPLB_ROUTING_MODEL = 0, /* the router's own */
    EPLB_ROUTING_SKEW = 1,  /* drawn from the setup's rates */
    EPLB_ROUTING_TRACE = 2, /* those of a recording, which every worker reads */
};

/** Most phases of made-up popularities. */
#define EPLB_MAX_SKEW_PHASES 65536

/** Room for the path of a recording, with its terminating zero. */
#define EPLB_MAX_TRACE_PATH 4096

/** What a worker must know before its first forward. */
struct eplb_run_setup {
    struct eplb_model_config model;   /* num_layers and num_experts are the shape's */
    int32_t max_rows, num_caches;     /* 1 <= num_caches <= max_rows */
    int32_t eplb;                     /* 1: balancing is on (0: no executor's commands will come) */
    int32_t decode_only_load;         /* 0 or 1 */
    int32_t fused_mc2;                /* the execution that is used: 0 */
    int32_t transfer_timeout_seconds; /* >= 1 */
    int64_t transfer_chunk_bytes, transfer_inflight_bytes; /* 1 <= chunk <= in flight */
    int64_t engine_pid;                                    /* > 0 */
    int32_t verify;                                        /* 1: check all slots after every activation */
    int32_t inject; /* test builds: 1 puts a wrong expert into a slot at the first activation */
    enum eplb_replica_routing replica_routing;
    int32_t cost_per_active_slot, cost_per_token; /* >= 0 and >= 1 */
    const int32_t *initial_weights; /* [num_layers][num_slots], each 1 to EPLB_WEIGHT_UNIT; NULL: equal ones;
                                       borrowed */
    const int32_t *node_of_rank;    /* [ep_size]; NULL: one node; borrowed */
    enum eplb_routing routing;
    uint64_t skew_seed, skew_period;
    int32_t skew_phases;       /* 1 to EPLB_MAX_SKEW_PHASES with EPLB_ROUTING_SKEW, else 0 */
    const int64_t *skew_rates; /* [skew_phases][num_layers][num_experts], as eplb_skewed_routes_create
                                  takes them; NULL without phases; borrowed */
    const int32_t *initial;    /* [num_layers][num_slots]; borrowed; legal */
    const char *trace_path;    /* the ids file with EPLB_ROUTING_TRACE, shorter than EPLB_MAX_TRACE_PATH; else
                                  NULL; borrowed */
    uint64_t trace_digest;     /* eplb_ids_digest: all read the same */
    int32_t trace_sequences;   /* replayed, >= 1; 0 without a recording */
    int32_t trace_repeat;      /* times that each phase is gone through, >= 1; 0 without a recording */
    int32_t record;            /* 1: what rows were routed to comes before each result */
};

/**
 * Checks a setup that was put together from options: what passes, eplb_setup_encode takes.
 *
 * @return EPLB_OK; EPLB_INVALID with the sentence of eplb_setup_decode
 */
enum eplb_status eplb_setup_check(const struct eplb_run_setup *setup, const struct eplb_shape *shape,
                                  struct eplb_error *error);

/** Bytes of an encoded setup; phases are within their range. */
size_t eplb_setup_bytes(const struct eplb_run_setup *setup, const struct eplb_shape *shape);

/** Writes eplb_setup_bytes bytes, aligned to 8. */
void eplb_setup_encode(const struct eplb_run_setup *setup, const struct eplb_shape *shape, void *bytes);

/**
 * Decodes a setup of any content and checks everything: it is for this shape, numbers are in range, at
 * least top_k rates per phase and layer are positive and none is negative, the tables are legal.
 *
 * @param bytes aligned to 8; the setup's arrays borrow from it
 * @param setup written on success only
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the field
 */
enum eplb_status eplb_setup_decode(const void *bytes, size_t size, const struct eplb_shape *shape,
                                   struct eplb_run_setup *setup, struct eplb_error *error);

#endif
