/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "transport/member.h"

#include "base/assert.h"
#include "transport/collective.h"
#include "transport/endpoint.h"

struct eplb_member {
    struct eplb_group group;
    const struct eplb_mesh *mesh;
    struct eplb_endpoint *endpoint;     /* NULL for the engine */
    struct eplb_collective *collective; /* NULL for the engine */
};

static enum eplb_status post_send(void *self, int32_t to, const struct eplb_message_tag *tag,
                                  const struct eplb_part *parts, size_t num_parts, struct eplb_op op)
{
    const struct eplb_member *member = self;
    EPLB_ASSERT(member->endpoint != NULL);
    return eplb_endpoint_send(member->endpoint, to, tag, parts, num_parts, op);
}

static enum eplb_status post_recv(void *self, int32_t from, const struct eplb_message_tag *tag,
                                  const struct eplb_part *parts, size_t num_parts, struct eplb_op op)
{
    const struct eplb_member *member = self;
    EPLB_ASSERT(member->endpoint != NULL);
    return eplb_endpoint_receive(member->endpoint, from, tag, parts, num_parts, op);
}

static size_t poll_completions(void *self, struct eplb_activation_token current,
                               struct eplb_completion *completions, size_t capacity)
{
    const struct eplb_member *member = self;
    EPLB_ASSERT(member->endpoint != NULL);
    /* A message moves only when both of its sides are posted: there are no strays to judge. */
    (void)current;
    return eplb_endpoint_poll(member->endpoint, completions, capacity);
}

static void wait_for_change(void *self, int64_t deadline)
{
    const struct eplb_member *member = self;
    EPLB_ASSERT(member->endpoint != NULL);
    eplb_endpoint_wait(member->endpoint, deadline);
}

static void cancel(void *self, struct eplb_op op)
{
    const struct eplb_member *member = self;
    EPLB_ASSERT(member->endpoint != NULL);
    eplb_endpoint_cancel(member->endpoint, op);
}

static void record_open(void *self, struct eplb_activation_token token)
{
    const struct eplb_member *member = self;
    struct eplb_decision_record record = eplb_mesh_decision(member->mesh);
    eplb_decision_open(&record, token);
    eplb_mesh_ring_all(member->mesh);
}

static void record_vote(void *self, struct eplb_activation_token token, int yes)
{
    const struct eplb_member *member = self;
    EPLB_ASSERT(member->group.rank != EPLB_NO_RANK);
    struct eplb_decision_record record = eplb_mesh_decision(member->mesh);
    if (eplb_decision_vote(&record, token, member->group.rank, yes != 0))
        eplb_mesh_ring_all(member->mesh);
}

static void record_abort(void *self, struct eplb_activation_token token)
{
    const struct eplb_member *member = self;
    struct eplb_decision_record record = eplb_mesh_decision(member->mesh);
    if (eplb_decision_abort(&record, token))
        eplb_mesh_ring_all(member->mesh);
}

static enum eplb_decision record_read(void *self, struct eplb_activation_token token)
{
    const struct eplb_member *member = self;
    struct eplb_decision_record record = eplb_mesh_decision(member->mesh);
    return eplb_decision_read(&record, token);
}

static enum eplb_status all_to_all(void *self, const struct eplb_part *send, const struct eplb_part *receive,
                                   struct eplb_error *error)
{
    const struct eplb_member *member = self;
    EPLB_ASSERT(member->collective != NULL);
    return eplb_collective_all_to_all(member->collective, send, receive, error);
}

static enum eplb_status barrier(void *self, struct eplb_error *error)
{
    const struct eplb_member *member = self;
    EPLB_ASSERT(member->collective != NULL);
    return eplb_collective_barrier(member->collective, error);
}

static void member_dead(void *self, int32_t rank)
{
    const struct eplb_member *member = self;
    eplb_mesh_bury(member->mesh, rank);
}

struct eplb_member *eplb_member_take(struct eplb_arena *arena, const struct eplb_mesh_limits *limits,
                                     int32_t rank)
{
    struct eplb_member *member = eplb_arena_take(arena, 1, sizeof *member);
    bool is_rank = rank != EPLB_NO_RANK;
    struct eplb_endpoint *endpoint = is_rank ? eplb_endpoint_take(arena, limits) : NULL;
    struct eplb_collective *collective = is_rank ? eplb_collective_take(arena, limits) : NULL;
    if (member != NULL)
        *member = (struct eplb_member){.endpoint = endpoint, .collective = collective};
    return member;
}

void eplb_member_init(struct eplb_member *member, const struct eplb_mesh *mesh, int32_t rank)
{
    member->mesh = mesh;
    member->group = (struct eplb_group){.size = sizeof member->group,
                                        .self = member,
                                        .rank = rank,
                                        .num_ranks = mesh->limits.num_ranks,
                                        .max_ops = rank == EPLB_NO_RANK ? 0 : mesh->limits.max_ops,
                                        .post_send = post_send,
                                        .post_recv = post_recv,
                                        .poll = poll_completions,
                                        .wait = wait_for_change,
                                        .cancel = cancel,
                                        .record_open = record_open,
                                        .record_vote = record_vote,
                                        .record_abort = record_abort,
                                        .record_read = record_read,
                                        .all_to_all = all_to_all,
                                        .barrier = barrier,
                                        .member_dead = member_dead};
    if (rank == EPLB_NO_RANK)
        return;
    eplb_endpoint_init(member->endpoint, mesh, rank);
    eplb_collective_init(member->collective, mesh, rank);
}

const struct eplb_group *eplb_member_group(const struct eplb_member *member)
{
    return &member->group;
}
