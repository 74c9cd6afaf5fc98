/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * One rank's part in the collectives of a mesh. They have pipes of their own, so transfers cannot stand in
 * their way.
 */
#ifndef TRANSPORT_COLLECTIVE_H
#define TRANSPORT_COLLECTIVE_H

#include "transport/mesh.h"

struct eplb_collective;

/** Takes the private memory from an arena; NULL when it only measures. */
struct eplb_collective *eplb_collective_take(struct eplb_arena *arena, const struct eplb_mesh_limits *limits);

/** Makes the rank's part in that memory. The mesh is fresh and stays. */
void eplb_collective_init(struct eplb_collective *collective, const struct eplb_mesh *mesh, int32_t rank);

/** The operations of struct eplb_group, for one thread of the rank at a time. */
enum eplb_status eplb_collective_all_to_all(struct eplb_collective *collective, const struct eplb_part *send,
                                            const struct eplb_part *receive, struct eplb_error *error);
enum eplb_status eplb_collective_barrier(struct eplb_collective *collective, struct eplb_error *error);

#endif
