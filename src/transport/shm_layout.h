/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The payload of a group's segment (kind EPLB_SEGMENT_GROUP, part "group"):
 *
 *   head | claims [num_ranks] | mesh (transport/mesh.h), each at a multiple of 64
 *
 * No change without a new version of the segment's layout.
 */
#ifndef TRANSPORT_SHM_LAYOUT_H
#define TRANSPORT_SHM_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/mesh.h"

/** Written before the segment gets its name, and never again. */
struct eplb_shm_head {
    _Alignas(EPLB_CACHE_LINE) _Atomic int32_t num_ranks;
    _Atomic int32_t max_ops;
    _Atomic uint64_t transfer_ring_bytes;
    _Atomic uint64_t collective_ring_bytes;
    _Atomic uint64_t bytes; /* of head, claims and mesh; the payload is this, rounded up */
};

/** A rank's place: the process that has taken it, for ever; 0 before. */
struct eplb_shm_claim {
    _Atomic uint64_t pid;
};

_Static_assert(offsetof(struct eplb_shm_head, num_ranks) == 0, "layout of a group's head");
_Static_assert(offsetof(struct eplb_shm_head, max_ops) == 4, "layout of a group's head");
_Static_assert(offsetof(struct eplb_shm_head, transfer_ring_bytes) == 8, "layout of a group's head");
_Static_assert(offsetof(struct eplb_shm_head, collective_ring_bytes) == 16, "layout of a group's head");
_Static_assert(offsetof(struct eplb_shm_head, bytes) == 24, "layout of a group's head");
_Static_assert(sizeof(struct eplb_shm_head) == 64, "layout of a group's head");
_Static_assert(sizeof(struct eplb_shm_claim) == 8, "layout of a claim");

#endif
