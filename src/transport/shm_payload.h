/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a group writes into its segment, and what it believes of what it finds there.
 */
#ifndef TRANSPORT_SHM_PAYLOAD_H
#define TRANSPORT_SHM_PAYLOAD_H

#include "transport/shm_layout.h"

/** A payload as one process sees it. */
struct eplb_shm_payload {
    struct eplb_shm_head *head;
    struct eplb_shm_claim *claims; /* [num_ranks] */
    struct eplb_mesh mesh;
};

/** Bytes that such a group needs. EPLB_IO with a sentence when no memory could have so many. */
enum eplb_status eplb_shm_payload_size(const struct eplb_mesh_limits *limits, size_t *bytes,
                                       struct eplb_error *error);

/** Finds the parts of a payload of (at least) eplb_shm_payload_size bytes. */
struct eplb_shm_payload eplb_shm_payload_at(void *memory, const struct eplb_mesh_limits *limits,
                                            const struct eplb_waker *waker);

/** Makes zeros a group. */
void eplb_shm_payload_format(void *memory, const struct eplb_mesh_limits *limits);

/**
 * Reads the limits of a group that another process has made.
 *
 * @param bytes of the payload that is mapped: at least a page
 * @param path  of the segment, for the sentence
 * @return EPLB_OK: eplb_shm_payload_at may be called; EPLB_LAYOUT with found and allowed values
 */
enum eplb_status eplb_shm_payload_limits(const void *memory, size_t bytes, const char *path,
                                         struct eplb_mesh_limits *limits, struct eplb_error *error);

/** Takes the rank's place for this process. EPLB_REFUSED with the process that has it. */
enum eplb_status eplb_shm_payload_claim(const struct eplb_shm_payload *payload, int32_t rank,
                                        const char *path, struct eplb_error *error);

#endif
