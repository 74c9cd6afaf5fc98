/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * One rank's end of all transfers of a mesh.
 *
 * The receiver leads. A posted receive is a want in shared memory, with a ticket that is never used
 * again; a sender whose send has the same tag answers it with fragments that carry the ticket. So
 * nothing is in a pipe before somebody waits for it, no message can stand in the way of another,
 * however they are posted, and rings may be far smaller than messages. A receiver withdraws a want
 * by taking the ticket away, at once and without asking: fragments that are still in the pipe find
 * no operation with their ticket and are dropped, and the sender, who looks at the ticket before
 * each fragment, stops. A sender that stops just writes no more: if it starts again, it starts at
 * offset 0, and so does the receiver.
 *
 * No rank touches another's private memory, so both kinds of cancel take effect at once.
 */
#ifndef TRANSPORT_ENDPOINT_H
#define TRANSPORT_ENDPOINT_H

#include "transport/mesh.h"
#include "transport/operations.h"

struct eplb_endpoint;

/** Takes the endpoint's private memory from an arena; NULL when it only measures. */
struct eplb_endpoint *eplb_endpoint_take(struct eplb_arena *arena, const struct eplb_mesh_limits *limits);

/** Makes the rank's endpoint in that memory. The mesh is fresh and stays. */
void eplb_endpoint_init(struct eplb_endpoint *endpoint, const struct eplb_mesh *mesh, int32_t rank);

/** The operations of struct eplb_group, for the one thread that polls. */
enum eplb_status eplb_endpoint_send(struct eplb_endpoint *endpoint, int32_t to,
                                    const struct eplb_message_tag *tag, const struct eplb_part *parts,
                                    size_t num_parts, struct eplb_op op);
enum eplb_status eplb_endpoint_receive(struct eplb_endpoint *endpoint, int32_t from,
                                       const struct eplb_message_tag *tag, const struct eplb_part *parts,
                                       size_t num_parts, struct eplb_op op);
size_t eplb_endpoint_poll(struct eplb_endpoint *endpoint, struct eplb_completion *completions,
                          size_t capacity);
void eplb_endpoint_wait(struct eplb_endpoint *endpoint, int64_t deadline);
void eplb_endpoint_cancel(struct eplb_endpoint *endpoint, struct eplb_op op);

#endif
