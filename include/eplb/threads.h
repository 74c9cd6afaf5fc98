/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The process group whose ranks are threads of one process. Belongs to src/transport.
 *
 * For an engine that runs all its ranks in one process, and for tests. Each rank's view is a
 * struct eplb_group as eplb/group.h describes it; the engine has a view too.
 */
#ifndef EPLB_THREADS_H
#define EPLB_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/group.h"
#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Parameters. Set by eplb_threads_params_init, then changed by the host. */
struct eplb_threads_params {
    size_t size;       /**< sizeof(struct eplb_threads_params). */
    int32_t num_ranks; /**< 1 to 65536. No default. */
    int32_t max_ops;   /**< Sends and receives of one rank that may be outstanding, 1 to 65536; default
                          512: as many as a transfer of an executor ever posts. */
    size_t transfer_ring_bytes;   /**< Buffer of each ordered pair of ranks for transfers: a power of two,
                                     256 to 2^31; default 128 KiB. */
    size_t collective_ring_bytes; /**< The same for collectives; default 16 KiB. */
};

/** Writes the defaults. */
EPLB_API void eplb_threads_params_init(struct eplb_threads_params *params);

/** All ranks of one group. */
struct eplb_threads;

/**
 * Makes a group. Everything is reserved now, nothing later.
 *
 * @param threads receives the group; free it with eplb_threads_destroy
 * @return EPLB_OK; EPLB_INVALID with a sentence when a parameter is out of range; EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_threads_create(const struct eplb_threads_params *params,
                                              struct eplb_threads **threads, struct eplb_error *error);

/** Frees a group, and with it all its views, which no thread uses any more. NULL is allowed. */
EPLB_API void eplb_threads_destroy(struct eplb_threads *threads);

/**
 * The view of a rank, or of the engine. Thread-safe.
 *
 * @param rank in [0, num_ranks), or EPLB_NO_RANK for the engine
 * @return owned by the group, valid until eplb_threads_destroy
 */
EPLB_API const struct eplb_group *eplb_threads_group(const struct eplb_threads *threads, int32_t rank);

#ifdef __cplusplus
}
#endif
#endif
