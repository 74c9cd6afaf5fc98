/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The process group whose ranks are threads of one process: a mesh in private memory, and a condition
 * variable per rank to sleep on.
 */
#ifndef TRANSPORT_THREADS_H
#define TRANSPORT_THREADS_H

#include "eplb/group.h"
#include "transport/mesh.h"

struct eplb_threads;

/** The default limits: 256 operations, 128 KiB per pair of ranks for transfers, 16 KiB for collectives. */
struct eplb_mesh_limits eplb_threads_limits(int32_t num_ranks);

/**
 * Makes a group. Everything is reserved now, nothing later.
 *
 * @return EPLB_OK; EPLB_INVALID for limits out of range; EPLB_NO_MEMORY
 */
enum eplb_status eplb_threads_create(const struct eplb_mesh_limits *limits, struct eplb_threads **threads,
                                     struct eplb_error *error);

/** Frees it. No thread uses a view of it any more. NULL is allowed. */
void eplb_threads_destroy(struct eplb_threads *threads);

/** The view of a rank, or of the engine (EPLB_NO_RANK). Valid until destroy. */
const struct eplb_group *eplb_threads_group(const struct eplb_threads *threads, int32_t rank);

#endif
