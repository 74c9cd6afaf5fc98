/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A process's hold on a group: its view, over a payload that comes from a segment, or, in tests, from
 * elsewhere.
 */
#ifndef TRANSPORT_SHM_VIEWS_H
#define TRANSPORT_SHM_VIEWS_H

#include "eplb/shm.h"
#include "transport/shm_payload.h"

/**
 * Makes a view of a formatted payload, which stays the caller's. Free it with eplb_shm_destroy. Whose
 * place a rank's view takes is for the caller to know: see eplb_shm_payload_claim.
 *
 * @param rank    in [0, num_ranks), or EPLB_NO_RANK for the engine
 * @param spin_ns as in struct eplb_shm_params, and checked
 * @return EPLB_OK; EPLB_NO_MEMORY
 */
enum eplb_status eplb_shm_view_make(void *payload, const struct eplb_mesh_limits *limits, int32_t rank,
                                    int64_t spin_ns, struct eplb_shm **shm, struct eplb_error *error);

#endif
