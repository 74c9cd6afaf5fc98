/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "transport/collective.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/** One peer in the round under way: a message to it, and one from it. */
struct exchange {
    struct eplb_pipe_end out;
    struct eplb_pipe_end in;
    struct eplb_part_cursor source;
    struct eplb_part_cursor target;
    uint64_t sent;
    uint64_t received;
    uint64_t arriving; /* size of the message from it, once its first fragment was seen */
    bool sent_all;
    bool received_all;
};

struct eplb_collective {
    const struct eplb_mesh *mesh;
    int32_t rank;
    uint64_t rounds;            /* of all_to_all, begun */
    uint64_t barriers;          /* begun */
    struct exchange *exchanges; /* [num_ranks]; the rank's own is not used */
};

struct eplb_collective *eplb_collective_take(struct eplb_arena *arena, const struct eplb_mesh_limits *limits)
{
    struct eplb_collective *collective = eplb_arena_take(arena, 1, sizeof *collective);
    struct exchange *exchanges = eplb_arena_take(arena, (size_t)limits->num_ranks, sizeof *exchanges);
    if (collective != NULL)
        *collective = (struct eplb_collective){.exchanges = exchanges};
    return collective;
}

void eplb_collective_init(struct eplb_collective *collective, const struct eplb_mesh *mesh, int32_t rank)
{
    EPLB_ASSERT(rank >= 0 && rank < mesh->limits.num_ranks);
    collective->mesh = mesh;
    collective->rank = rank;
    for (int32_t other = 0; other < mesh->limits.num_ranks; other++)
        collective->exchanges[other] = (struct exchange){.out = eplb_mesh_collective_pipe(mesh, rank, other),
                                                         .in = eplb_mesh_collective_pipe(mesh, other, rank)};
}

/**
 * Refuses when a member is dead. After a death nothing is begun: a round that was left half done may
 * still be in the pipes.
 */
static enum eplb_status check_deaths(const struct eplb_collective *collective, const char *what,
                                     struct eplb_error *error)
{
    int32_t dead = eplb_mesh_first_dead(collective->mesh);
    if (dead == EPLB_NO_RANK)
        return EPLB_OK;
    EPLB_FAIL(EPLB_RANK_DEAD, "rank %d: rank %d died; %s cannot be completed without it", collective->rank,
              dead, what);
}

/* ---- all_to_all ---- */

static void begin_round(struct eplb_collective *collective, const struct eplb_part *send,
                        const struct eplb_part *receive)
{
    collective->rounds++;
    for (int32_t other = 0; other < collective->mesh->limits.num_ranks; other++) {
        struct exchange *exchange = &collective->exchanges[other];
        exchange->source = eplb_part_cursor_begin(&send[other]);
        exchange->target = eplb_part_cursor_begin(&receive[other]);
        exchange->sent = exchange->received = 0;
        exchange->sent_all = exchange->received_all = other == collective->rank;
        exchange->arriving = receive[other].size;
    }
}

static enum eplb_pipe_status send_piece(struct eplb_collective *collective, struct exchange *exchange,
                                        uint64_t size)
{
    struct eplb_fragment fragment = {.message = collective->rounds, .size = size, .offset = exchange->sent};
    enum eplb_pipe_status status = eplb_pipe_write(&exchange->out, &fragment, &exchange->source);
    if (status == EPLB_PIPE_READY) {
        exchange->sent += fragment.length;
        EPLB_ASSERT(exchange->sent <= size);
        exchange->sent_all = exchange->sent == size;
    }
    return status;
}

/** Takes a piece; one of a message of another size than expected is dropped, so that the round ends. */
static enum eplb_pipe_status receive_piece(struct eplb_collective *collective, struct exchange *exchange,
                                           uint64_t expected)
{
    struct eplb_fragment fragment;
    enum eplb_pipe_status status = eplb_pipe_peek(&exchange->in, &fragment);
    if (status != EPLB_PIPE_READY)
        return status;
    if (fragment.message != collective->rounds || fragment.offset != exchange->received ||
        (fragment.offset > 0 && fragment.size != exchange->arriving))
        return EPLB_PIPE_DAMAGED;
    /* Each brings something, or a round could last for ever. */
    if (fragment.length == 0 && fragment.size != 0)
        return EPLB_PIPE_DAMAGED;
    exchange->arriving = fragment.size;
    eplb_pipe_take(&exchange->in, &fragment, fragment.size == expected ? &exchange->target : NULL);
    exchange->received += fragment.length;
    EPLB_ASSERT(exchange->received <= exchange->arriving);
    exchange->received_all = exchange->received == fragment.size;
    return status;
}

/** Moves what can be moved to and from one rank. DAMAGED, WAIT when nothing moved, else READY. */
static enum eplb_pipe_status advance(struct eplb_collective *collective, int32_t other,
                                     const struct eplb_part *send, const struct eplb_part *receive)
{
    struct exchange *exchange = &collective->exchanges[other];
    enum eplb_pipe_status sending = EPLB_PIPE_WAIT;
    enum eplb_pipe_status receiving = EPLB_PIPE_WAIT;
    if (!exchange->sent_all)
        sending = send_piece(collective, exchange, send->size);
    if (!exchange->received_all)
        receiving = receive_piece(collective, exchange, receive->size);
    if (sending == EPLB_PIPE_DAMAGED || receiving == EPLB_PIPE_DAMAGED)
        return EPLB_PIPE_DAMAGED;
    if (sending == EPLB_PIPE_WAIT && receiving == EPLB_PIPE_WAIT)
        return EPLB_PIPE_WAIT;
    /* What was taken made room, which only a sender with more of this message can wait for. */
    if (sending == EPLB_PIPE_READY || !exchange->received_all)
        eplb_mesh_ring(collective->mesh, other);
    return EPLB_PIPE_READY;
}

/** One pass over all ranks: whether something moved, and whether all is done. */
static enum eplb_status advance_all(struct eplb_collective *collective, const struct eplb_part *send,
                                    const struct eplb_part *receive, bool *moved, bool *done,
                                    struct eplb_error *error)
{
    *moved = false;
    *done = true;
    for (int32_t other = 0; other < collective->mesh->limits.num_ranks; other++) {
        const struct exchange *exchange = &collective->exchanges[other];
        if (exchange->sent_all && exchange->received_all)
            continue;
        enum eplb_pipe_status status = advance(collective, other, &send[other], &receive[other]);
        if (status == EPLB_PIPE_DAMAGED)
            EPLB_FAIL(EPLB_INCONSISTENT,
                      "rank %d: what rank %d wrote for exchange %llu makes no sense; the two ranks do not "
                      "run the same collectives",
                      collective->rank, other, (unsigned long long)collective->rounds);
        *moved = *moved || status == EPLB_PIPE_READY;
        *done = *done && exchange->sent_all && exchange->received_all;
    }
    return EPLB_OK;
}

/**
 * How many rings will come before this rank can go on, at least: nothing moved in the last pass, so whoever
 * has not sent all rings at least once more. A rank that has itself something left to send waits for room,
 * which one ring may bring.
 */
static uint32_t rings_awaited(const struct eplb_collective *collective)
{
    uint32_t rings = 0;
    for (int32_t other = 0; other < collective->mesh->limits.num_ranks; other++) {
        if (!collective->exchanges[other].sent_all)
            return 1;
        rings += !collective->exchanges[other].received_all;
    }
    return rings;
}

static enum eplb_status check_sizes(const struct eplb_collective *collective, const struct eplb_part *receive,
                                    struct eplb_error *error)
{
    for (int32_t other = 0; other < collective->mesh->limits.num_ranks; other++) {
        uint64_t arrived = collective->exchanges[other].arriving;
        if (arrived != receive[other].size)
            EPLB_FAIL(EPLB_INCONSISTENT,
                      "exchange %llu: rank %d sent %llu bytes to rank %d, which expected %zu",
                      (unsigned long long)collective->rounds, other, (unsigned long long)arrived,
                      collective->rank, receive[other].size);
    }
    return EPLB_OK;
}

enum eplb_status eplb_collective_all_to_all(struct eplb_collective *collective, const struct eplb_part *send,
                                            const struct eplb_part *receive, struct eplb_error *error)
{
    const struct eplb_part *own = &send[collective->rank];
    const struct eplb_part *own_target = &receive[collective->rank];
    if (own->size != own_target->size)
        EPLB_FAIL(EPLB_INVALID, "rank %d sends itself %zu bytes and expects %zu", collective->rank, own->size,
                  own_target->size);
    EPLB_TRY(check_deaths(collective, "an exchange", error));
    begin_round(collective, send, receive);
    if (own->size > 0 && own->data != own_target->data)
        memcpy(own_target->data, own->data, own->size);
    for (;;) {
        bool moved;
        bool done;
        uint32_t heard = eplb_mesh_hear(collective->mesh, collective->rank);
        EPLB_TRY(advance_all(collective, send, receive, &moved, &done, error));
        if (done)
            break;
        /* Even when something moved: a peer may say that its message is as long as it likes. */
        EPLB_TRY(check_deaths(collective, "an exchange", error));
        if (!moved)
            eplb_mesh_sleep_for(collective->mesh, collective->rank, heard, rings_awaited(collective));
    }
    return check_sizes(collective, receive, error);
}

/* ---- barrier ---- */

enum eplb_status eplb_collective_barrier(struct eplb_collective *collective, struct eplb_error *error)
{
    const struct eplb_mesh *mesh = collective->mesh;
    EPLB_TRY(check_deaths(collective, "a barrier", error));
    /* The count only rises, so no round has to be reset, and none can be taken for another: nobody
     * arrives at the next barrier before all have arrived at this one. */
    uint64_t all = ++collective->barriers * (uint64_t)mesh->limits.num_ranks;
    /* Acquire and release: the last to arrive sees, and passes on, what all did before. */
    uint64_t arrived = atomic_fetch_add_explicit(&mesh->head->arrivals, 1, memory_order_acq_rel) + 1;
    if (arrived == all)
        eplb_mesh_ring_all(mesh);
    for (;;) {
        uint32_t heard = eplb_mesh_hear(mesh, collective->rank);
        /* Acquire: pairs with the releases of all that arrived. */
        if (atomic_load_explicit(&mesh->head->arrivals, memory_order_acquire) >= all)
            return EPLB_OK;
        EPLB_TRY(check_deaths(collective, "a barrier", error));
        eplb_mesh_sleep(mesh, collective->rank, heard, EPLB_NO_DEADLINE);
    }
}
