/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "transport/endpoint.h"

#include "base/assert.h"

/** Fragments that one poll moves per peer and direction at most: about two rings. */
enum { BURST = 4 };

struct peer {
    struct eplb_pipe_end in;  /* from it */
    struct eplb_pipe_end out; /* to it */
    struct eplb_operation_list sends;
    uint64_t announced; /* its wants have been looked through up to this count */
    bool look;          /* they must be looked through again: there is a new send */
    bool lost;          /* dead, or its memory makes no sense: its operations fail */
};

struct eplb_endpoint {
    const struct eplb_mesh *mesh;
    int32_t rank;
    struct eplb_operations operations;
    struct eplb_operation *entries; /* [max_ops] of operations */
    struct peer *peers;             /* [num_ranks] */
    uint64_t last_ticket;
    uint32_t heard; /* the bell when the last poll began */
    bool more;      /* a poll could do something now */
};

struct eplb_endpoint *eplb_endpoint_take(struct eplb_arena *arena, const struct eplb_mesh_limits *limits)
{
    struct eplb_endpoint *endpoint = eplb_arena_take(arena, 1, sizeof *endpoint);
    struct eplb_operation *entries = eplb_arena_take(arena, (size_t)limits->max_ops, sizeof *entries);
    struct peer *peers = eplb_arena_take(arena, (size_t)limits->num_ranks, sizeof *peers);
    if (endpoint != NULL)
        *endpoint = (struct eplb_endpoint){.entries = entries, .peers = peers};
    return endpoint;
}

void eplb_endpoint_init(struct eplb_endpoint *endpoint, const struct eplb_mesh *mesh, int32_t rank)
{
    EPLB_ASSERT(rank >= 0 && rank < mesh->limits.num_ranks);
    endpoint->mesh = mesh;
    endpoint->rank = rank;
    eplb_operations_init(&endpoint->operations, endpoint->entries, mesh->limits.max_ops);
    for (int32_t other = 0; other < mesh->limits.num_ranks; other++)
        endpoint->peers[other] = (struct peer){.in = eplb_mesh_transfer_pipe(mesh, other, rank),
                                               .out = eplb_mesh_transfer_pipe(mesh, rank, other),
                                               .sends = eplb_operation_list_make()};
}

static struct eplb_operation *operation_at(struct eplb_endpoint *endpoint, int32_t index)
{
    EPLB_ASSERT(index >= 0 && index < endpoint->operations.capacity);
    return &endpoint->operations.entries[index];
}

/* ---- wants ---- */

/** A peer's want, read as one whole. */
struct want {
    uint64_t ticket;
    uint64_t size;
    int32_t from;
    struct eplb_message_tag tag;
};

static bool same_tag(const struct eplb_message_tag *a, const struct eplb_message_tag *b)
{
    return a->token.value == b->token.value && a->slot == b->slot && a->chunk == b->chunk;
}

/** Announces a receive to its source. The want has the operation's index, so both are free together. */
static void announce(struct eplb_endpoint *endpoint, int32_t index)
{
    const struct eplb_mesh *mesh = endpoint->mesh;
    struct eplb_operation *operation = operation_at(endpoint, index);
    struct eplb_mesh_member *self = &mesh->members[endpoint->rank];
    struct eplb_mesh_want *want = eplb_mesh_want(mesh, endpoint->rank, index);
    EPLB_ASSERT(operation->state == EPLB_OPERATION_RECEIVING && operation->moved == 0);
    operation->ticket = ++endpoint->last_ticket;

    /* Release, each: a sender that reads one of these values also sees that the ticket of the use
     * before is gone, and does not take the mixture for a want (see read_want). */
    atomic_store_explicit(&want->token, operation->tag.token.value, memory_order_release);
    atomic_store_explicit(&want->size, operation->size, memory_order_release);
    atomic_store_explicit(&want->from, (uint32_t)operation->peer, memory_order_release);
    atomic_store_explicit(&want->slot, (uint32_t)operation->tag.slot, memory_order_release);
    atomic_store_explicit(&want->chunk, (uint32_t)operation->tag.chunk, memory_order_release);
    /* Release: the ticket makes the want valid, so what it says must be visible before. */
    atomic_store_explicit(&want->ticket, operation->ticket, memory_order_release);
    /* Relaxed: published by the count below, and stored by this thread only. */
    if (atomic_load_explicit(&self->num_wants, memory_order_relaxed) <= (uint32_t)index)
        atomic_store_explicit(&self->num_wants, (uint32_t)index + 1, memory_order_relaxed);
    /* Release: a sender that sees the count sees the want. */
    atomic_fetch_add_explicit(&eplb_mesh_link(mesh, operation->peer, endpoint->rank)->announced, 1,
                              memory_order_release);
    eplb_mesh_ring(mesh, operation->peer);
}

static void withdraw(struct eplb_endpoint *endpoint, int32_t index)
{
    struct eplb_mesh_want *want = eplb_mesh_want(endpoint->mesh, endpoint->rank, index);
    /* Relaxed: a sender that still sees the ticket writes fragments that are dropped. */
    atomic_store_explicit(&want->ticket, 0, memory_order_relaxed);
}

/** Reads a peer's want; false when there is none, or it was just changing. */
static bool read_want(struct eplb_mesh_want *shared, struct want *want)
{
    /* Acquire: pairs with the release of the ticket in announce. */
    want->ticket = atomic_load_explicit(&shared->ticket, memory_order_acquire);
    if (want->ticket == 0)
        return false;
    /* Acquire, each: if one of them is of a later use, the ticket read below cannot be the old one. */
    want->tag.token.value = atomic_load_explicit(&shared->token, memory_order_acquire);
    want->size = atomic_load_explicit(&shared->size, memory_order_acquire);
    want->from = (int32_t)atomic_load_explicit(&shared->from, memory_order_acquire);
    want->tag.slot = (int32_t)atomic_load_explicit(&shared->slot, memory_order_acquire);
    want->tag.chunk = (int32_t)atomic_load_explicit(&shared->chunk, memory_order_acquire);
    /* Relaxed: the loads before it are acquires and come first. */
    return atomic_load_explicit(&shared->ticket, memory_order_relaxed) == want->ticket;
}

/** Lets the waiting send of that tag answer the want. */
static void answer(struct eplb_endpoint *endpoint, struct peer *peer, int32_t index, const struct want *want)
{
    for (int32_t i = peer->sends.first; i != EPLB_NO_OPERATION; i = operation_at(endpoint, i)->next) {
        struct eplb_operation *send = operation_at(endpoint, i);
        if (send->state == EPLB_OPERATION_WAITING && same_tag(&send->tag, &want->tag)) {
            send->state = EPLB_OPERATION_STREAMING;
            send->want = index;
            send->ticket = want->ticket;
            send->size_differs = send->size != want->size;
            send->moved = 0;
            send->cursor = eplb_part_cursor_begin(send->parts);
            return;
        }
    }
}

/** Looks through a peer's wants when it has announced some, or when there is a new send for it. */
static void answer_wants(struct eplb_endpoint *endpoint, int32_t other)
{
    const struct eplb_mesh *mesh = endpoint->mesh;
    struct peer *peer = &endpoint->peers[other];
    /* Acquire: pairs with the release of the count in announce. */
    uint64_t announced =
        atomic_load_explicit(&eplb_mesh_link(mesh, endpoint->rank, other)->announced, memory_order_acquire);
    if ((announced == peer->announced && !peer->look) || peer->sends.first == EPLB_NO_OPERATION)
        return;
    peer->announced = announced;
    peer->look = false;
    /* Relaxed: covered by the count above. A peer may store anything here, so it is bounded. */
    uint32_t num_wants = atomic_load_explicit(&mesh->members[other].num_wants, memory_order_relaxed);
    for (int32_t i = 0; i < mesh->limits.max_ops && (uint32_t)i < num_wants; i++) {
        struct want want;
        if (read_want(eplb_mesh_want(mesh, other, i), &want) && want.from == endpoint->rank)
            answer(endpoint, peer, i, &want);
    }
}

/* ---- ends of operations ---- */

static void end_send(struct eplb_endpoint *endpoint, int32_t index, enum eplb_op_result result)
{
    struct eplb_operation *send = operation_at(endpoint, index);
    EPLB_ASSERT(send->state == EPLB_OPERATION_WAITING || send->state == EPLB_OPERATION_STREAMING);
    eplb_operation_list_remove(&endpoint->operations, &endpoint->peers[send->peer].sends, index);
    eplb_operations_end(&endpoint->operations, index, result);
}

static void end_receive(struct eplb_endpoint *endpoint, int32_t index, enum eplb_op_result result)
{
    EPLB_ASSERT(operation_at(endpoint, index)->state == EPLB_OPERATION_RECEIVING);
    withdraw(endpoint, index);
    eplb_operations_end(&endpoint->operations, index, result);
}

/** Ends an operation that has not ended yet. */
static void end_early(struct eplb_endpoint *endpoint, int32_t index, enum eplb_op_result result)
{
    enum eplb_operation_state state = operation_at(endpoint, index)->state;
    if (state == EPLB_OPERATION_RECEIVING)
        end_receive(endpoint, index, result);
    else if (state == EPLB_OPERATION_WAITING || state == EPLB_OPERATION_STREAMING)
        end_send(endpoint, index, result);
}

static void lose_peer(struct eplb_endpoint *endpoint, int32_t other)
{
    EPLB_ASSERT(!endpoint->peers[other].lost);
    endpoint->peers[other].lost = true;
    for (int32_t i = 0; i < endpoint->operations.capacity; i++)
        if (operation_at(endpoint, i)->peer == other)
            end_early(endpoint, i, EPLB_OP_FAILED);
}

static void notice_deaths(struct eplb_endpoint *endpoint)
{
    for (int32_t other = 0; other < endpoint->mesh->limits.num_ranks; other++)
        if (!endpoint->peers[other].lost && eplb_mesh_is_dead(endpoint->mesh, other))
            lose_peer(endpoint, other);
}

/* ---- fragments ---- */

/** The receive that a fragment is for; EPLB_NO_OPERATION when it was withdrawn, or never was. */
static int32_t receive_of(struct eplb_endpoint *endpoint, int32_t from, const struct eplb_fragment *fragment)
{
    if (fragment->want >= (uint32_t)endpoint->operations.capacity)
        return EPLB_NO_OPERATION;
    int32_t index = (int32_t)fragment->want;
    const struct eplb_operation *receive = operation_at(endpoint, index);
    bool matches = receive->state == EPLB_OPERATION_RECEIVING && receive->peer == from &&
                   receive->ticket == fragment->message && receive->tag.token.value == fragment->token;
    return matches ? index : EPLB_NO_OPERATION;
}

static void take_fragment(struct eplb_endpoint *endpoint, int32_t from, const struct eplb_fragment *fragment)
{
    struct eplb_pipe_end *in = &endpoint->peers[from].in;
    int32_t index = receive_of(endpoint, from, fragment);
    if (index == EPLB_NO_OPERATION) {
        eplb_pipe_take(in, fragment, NULL);
        return;
    }
    struct eplb_operation *receive = operation_at(endpoint, index);
    if (receive->size != fragment->size) {
        eplb_pipe_take(in, fragment, NULL);
        end_receive(endpoint, index, EPLB_OP_FAILED);
        return;
    }
    if (fragment->offset == 0) {
        /* The first fragment; or the sender gave up and another send begins anew. */
        receive->moved = 0;
        receive->cursor = eplb_part_cursor_begin(receive->parts);
    }
    bool fits = fragment->offset == receive->moved;
    eplb_pipe_take(in, fragment, fits ? &receive->cursor : NULL);
    if (fits)
        receive->moved += fragment->length;
    EPLB_ASSERT(receive->moved <= receive->size);
    if (fits && receive->moved == receive->size)
        end_receive(endpoint, index, EPLB_OP_DONE);
}

static void receive_from(struct eplb_endpoint *endpoint, int32_t other)
{
    for (int i = 0; i < BURST; i++) {
        struct eplb_fragment fragment;
        enum eplb_pipe_status status = eplb_pipe_peek(&endpoint->peers[other].in, &fragment);
        if (status == EPLB_PIPE_DAMAGED)
            lose_peer(endpoint, other);
        if (status != EPLB_PIPE_READY)
            return;
        take_fragment(endpoint, other, &fragment);
        eplb_mesh_ring(endpoint->mesh, other);
    }
    endpoint->more = true;
}

/** The first send to the peer that answers a want; one whose want was withdrawn waits again. */
static int32_t first_streaming(struct eplb_endpoint *endpoint, int32_t other)
{
    struct peer *peer = &endpoint->peers[other];
    for (int32_t i = peer->sends.first; i != EPLB_NO_OPERATION; i = operation_at(endpoint, i)->next) {
        struct eplb_operation *send = operation_at(endpoint, i);
        if (send->state != EPLB_OPERATION_STREAMING)
            continue;
        struct eplb_mesh_want *want = eplb_mesh_want(endpoint->mesh, other, send->want);
        /* Relaxed: only whether to go on; fragments for a ticket that is gone are dropped over there. */
        if (atomic_load_explicit(&want->ticket, memory_order_relaxed) == send->ticket)
            return i;
        send->state = EPLB_OPERATION_WAITING;
        peer->look = true;
        endpoint->more = true;
    }
    return EPLB_NO_OPERATION;
}

static enum eplb_pipe_status write_fragment(struct eplb_endpoint *endpoint, int32_t other, int32_t index)
{
    struct eplb_operation *send = operation_at(endpoint, index);
    EPLB_ASSERT(send->state == EPLB_OPERATION_STREAMING && send->peer == other);
    struct eplb_fragment fragment = {.message = send->ticket,
                                     .token = send->tag.token.value,
                                     .size = send->size,
                                     .offset = send->moved,
                                     .want = (uint32_t)send->want};
    enum eplb_pipe_status status =
        eplb_pipe_write(&endpoint->peers[other].out, &fragment, send->size_differs ? NULL : &send->cursor);
    if (status != EPLB_PIPE_READY)
        return status;
    send->moved += fragment.length;
    EPLB_ASSERT(send->moved <= send->size);
    if (send->size_differs)
        end_send(endpoint, index, EPLB_OP_FAILED);
    else if (send->moved == send->size)
        end_send(endpoint, index, EPLB_OP_DONE);
    return status;
}

static void send_to(struct eplb_endpoint *endpoint, int32_t other)
{
    answer_wants(endpoint, other);
    for (int i = 0; i < BURST; i++) {
        int32_t index = first_streaming(endpoint, other);
        if (index == EPLB_NO_OPERATION)
            return;
        enum eplb_pipe_status status = write_fragment(endpoint, other, index);
        if (status == EPLB_PIPE_DAMAGED)
            lose_peer(endpoint, other);
        if (status != EPLB_PIPE_READY)
            return;
        eplb_mesh_ring(endpoint->mesh, other);
    }
    endpoint->more = true;
}

/* ---- operations ---- */

/** Fills a free entry; its state is for the caller. EPLB_NO_OPERATION in *index unless EPLB_OK. */
static enum eplb_status post(struct eplb_endpoint *endpoint, const struct eplb_operation *wanted,
                             const struct eplb_part *parts, size_t num_parts, int32_t *index)
{
    uint64_t token = wanted->tag.token.value;
    size_t size;
    if (wanted->peer < 0 || wanted->peer >= endpoint->mesh->limits.num_ranks || token == 0 ||
        token > EPLB_MAX_TOKEN || num_parts > EPLB_MAX_PARTS || !eplb_parts_size(parts, num_parts, &size) ||
        eplb_operations_find(&endpoint->operations, wanted->op) != EPLB_NO_OPERATION)
        return EPLB_INVALID;
    *index = eplb_operations_acquire(&endpoint->operations);
    if (*index == EPLB_NO_OPERATION)
        return EPLB_REFUSED;
    struct eplb_operation *operation = operation_at(endpoint, *index);
    *operation = *wanted;
    operation->next = EPLB_NO_OPERATION;
    operation->size = size;
    for (size_t i = 0; i < num_parts; i++)
        operation->parts[i] = parts[i];
    operation->cursor = eplb_part_cursor_begin(operation->parts);
    endpoint->more = true;
    return EPLB_OK;
}

enum eplb_status eplb_endpoint_send(struct eplb_endpoint *endpoint, int32_t to,
                                    const struct eplb_message_tag *tag, const struct eplb_part *parts,
                                    size_t num_parts, struct eplb_op op)
{
    int32_t index;
    const struct eplb_operation wanted = {.op = op, .peer = to, .tag = *tag, .state = EPLB_OPERATION_WAITING};
    enum eplb_status status = post(endpoint, &wanted, parts, num_parts, &index);
    if (status != EPLB_OK)
        return status;
    eplb_operation_list_add(&endpoint->operations, &endpoint->peers[to].sends, index);
    endpoint->peers[to].look = true;
    if (endpoint->peers[to].lost)
        end_send(endpoint, index, EPLB_OP_FAILED);
    return EPLB_OK;
}

enum eplb_status eplb_endpoint_receive(struct eplb_endpoint *endpoint, int32_t from,
                                       const struct eplb_message_tag *tag, const struct eplb_part *parts,
                                       size_t num_parts, struct eplb_op op)
{
    int32_t index;
    const struct eplb_operation wanted = {
        .op = op, .peer = from, .tag = *tag, .state = EPLB_OPERATION_RECEIVING};
    enum eplb_status status = post(endpoint, &wanted, parts, num_parts, &index);
    if (status != EPLB_OK)
        return status;
    if (endpoint->peers[from].lost)
        end_receive(endpoint, index, EPLB_OP_FAILED);
    else
        announce(endpoint, index);
    return EPLB_OK;
}

size_t eplb_endpoint_poll(struct eplb_endpoint *endpoint, struct eplb_completion *completions,
                          size_t capacity)
{
    EPLB_ASSERT(completions != NULL || capacity == 0);
    endpoint->heard = eplb_mesh_hear(endpoint->mesh, endpoint->rank);
    endpoint->more = false;
    notice_deaths(endpoint);
    for (int32_t other = 0; other < endpoint->mesh->limits.num_ranks; other++) {
        if (!endpoint->peers[other].lost)
            receive_from(endpoint, other);
        if (!endpoint->peers[other].lost)
            send_to(endpoint, other);
    }
    return eplb_operations_collect(&endpoint->operations, completions, capacity);
}

void eplb_endpoint_wait(struct eplb_endpoint *endpoint, int64_t deadline)
{
    EPLB_ASSERT(deadline >= 0);
    if (!endpoint->more && endpoint->operations.ended.first == EPLB_NO_OPERATION)
        eplb_mesh_sleep(endpoint->mesh, endpoint->rank, endpoint->heard, deadline);
}

void eplb_endpoint_cancel(struct eplb_endpoint *endpoint, struct eplb_op op)
{
    int32_t index = eplb_operations_find(&endpoint->operations, op);
    if (index != EPLB_NO_OPERATION)
        end_early(endpoint, index, EPLB_OP_CANCELLED);
}
