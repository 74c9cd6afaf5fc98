/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A member of a mesh as struct eplb_group shows it: a rank, or the engine, which has no rank.
 */
#ifndef TRANSPORT_MEMBER_H
#define TRANSPORT_MEMBER_H

#include "eplb/group.h"
#include "transport/mesh.h"

struct eplb_member;

/** Takes a member's private memory from an arena; NULL when it only measures. */
struct eplb_member *eplb_member_take(struct eplb_arena *arena, const struct eplb_mesh_limits *limits,
                                     int32_t rank);

/** Makes the member in that memory. The mesh is fresh and stays. */
void eplb_member_init(struct eplb_member *member, const struct eplb_mesh *mesh, int32_t rank);

/** Its table, valid as long as its memory. */
const struct eplb_group *eplb_member_group(const struct eplb_member *member);

#endif
