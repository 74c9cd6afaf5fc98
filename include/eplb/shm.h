/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The process group whose ranks are processes of one machine. Belongs to src/transport.
 *
 * The engine's process makes the group, which is one segment of shared memory, and tells its rank
 * processes the generation (on their command line, say); each attaches once. Every view is a
 * struct eplb_group as eplb/group.h describes it.
 *
 * The group learns of a death from whoever watches the processes: member_dead of any view. The segment
 * has its maker as owner: when that ends, in whatever way, the name is free for the next group.
 */
#ifndef EPLB_SHM_H
#define EPLB_SHM_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/group.h"
#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Parameters of a group. Set by eplb_shm_params_init, then changed by the host. */
struct eplb_shm_params {
    size_t size;                /**< sizeof(struct eplb_shm_params). */
    const char *instance_name;  /**< Keeps groups on one machine apart: 1 to 32 letters, digits, '-' or '_';
                                     default "eplb". */
    const char *directory;      /**< Where the segment lies; default "/dev/shm". A tmpfs, else it is slow. */
    int32_t num_ranks;          /**< 1 to 65536. No default. */
    int32_t max_ops;            /**< Sends and receives of one rank that may be outstanding, 1 to 65536;
                                     default 512. */
    size_t transfer_ring_bytes; /**< Buffer of each ordered pair of ranks for transfers: a power of two,
                                     256 to 2^31; default 128 KiB. */
    size_t collective_ring_bytes; /**< The same for collectives; default 16 KiB. */
    int64_t spin_ns; /**< How long a waiting thread looks before it sleeps; 0: not at all; default -1: a few
                          microseconds, or 0 where the ranks outnumber the processors. */
};

/** Writes the defaults. */
EPLB_API void eplb_shm_params_init(struct eplb_shm_params *params);

/** One process's hold on a group: the maker's, with the engine's view, or a rank's. */
struct eplb_shm;

/**
 * Makes a group and its segment, in the engine's process. All memory is reserved now, nothing later.
 * A segment of the same name that a dead process has left is removed first; one that was killed while it
 * started a child may be held by that child for a moment, which is waited for.
 *
 * @param shm receives the group; free it with eplb_shm_destroy, which removes the segment
 * @return EPLB_OK; EPLB_INVALID with a sentence when a parameter is out of range; EPLB_IN_USE when a
 *         living process has a group of that name; EPLB_LAYOUT when the name is something else's;
 *         EPLB_IO when there is not enough shared memory; EPLB_RANK_SILENT when a stopped process does not
 *         let go of the generation lock for 5 s (it is named); EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_shm_create(const struct eplb_shm_params *params, struct eplb_shm **shm,
                                          struct eplb_error *error);

/** The generation of the group, to be told to its ranks: no two groups of one user ever share one. */
EPLB_API uint64_t eplb_shm_generation(const struct eplb_shm *shm);

/** Parameters of a rank's hold. Set by eplb_shm_attach_params_init, then changed by the host. */
struct eplb_shm_attach_params {
    size_t size;               /**< sizeof(struct eplb_shm_attach_params). */
    const char *instance_name; /**< As the maker's. */
    const char *directory;     /**< As the maker's. */
    uint64_t generation;       /**< eplb_shm_generation of the maker. No default. */
    int32_t rank;              /**< In [0, num_ranks); each rank attaches once. No default. */
    int64_t spin_ns;           /**< As in struct eplb_shm_params. */
};

/** Writes the defaults. */
EPLB_API void eplb_shm_attach_params_init(struct eplb_shm_attach_params *params);

/**
 * Takes a rank's place in a group, in the rank's process (one process may take several).
 *
 * @return EPLB_OK; EPLB_INVALID with a sentence when there is no such group or rank; EPLB_INCONSISTENT
 *         when the group is of another generation; EPLB_REFUSED when its maker is dead, or the place was
 *         taken before (by whom is named); EPLB_LAYOUT; EPLB_IO; EPLB_RANK_SILENT as eplb_shm_create;
 *         EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_shm_attach(const struct eplb_shm_attach_params *params, struct eplb_shm **shm,
                                          struct eplb_error *error);

/** The view: the engine's of a created group, the rank's of an attached one. Owned by the hold. */
EPLB_API const struct eplb_group *eplb_shm_group(const struct eplb_shm *shm);

/**
 * Gives a hold up: unmaps, and removes the name when this process made the group. No thread uses the
 * view any more. NULL is allowed.
 *
 * Removing the name waits at most 5 s for the generation lock, when a stopped process holds it: the name then
 * stays, and the next group of that name replaces it. A process that has waited in vain once does not wait
 * again when it gives up others, until one gets the lock.
 *
 * In a forked child a hold is of no use, and what it had mapped is not there; only this call is allowed,
 * which then touches nothing but the child's own memory.
 */
EPLB_API void eplb_shm_destroy(struct eplb_shm *shm);

#ifdef __cplusplus
}
#endif
#endif
