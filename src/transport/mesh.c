/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "transport/mesh.h"

#include "base/assert.h"
#include "base/error.h"

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "32-bit atomics work between processes only without a lock");
_Static_assert(EPLB_ARENA_ALIGN == EPLB_CACHE_LINE, "an arena aligns what is shared to cache lines");

enum { RANKS_PER_WORD = 64 };

static enum eplb_status check_ring(const char *name, size_t bytes, struct eplb_error *error)
{
    if (bytes < EPLB_MIN_RING_BYTES || bytes > EPLB_MAX_RING_BYTES || (bytes & (bytes - 1)) != 0)
        EPLB_FAIL(EPLB_INVALID, "a group's %s is %zu; allowed are powers of two from %d to %u", name, bytes,
                  EPLB_MIN_RING_BYTES, EPLB_MAX_RING_BYTES);
    return EPLB_OK;
}

enum eplb_status eplb_mesh_limits_check(const struct eplb_mesh_limits *limits, struct eplb_error *error)
{
    if (limits->num_ranks < 1 || limits->num_ranks > EPLB_MAX_RANKS)
        EPLB_FAIL(EPLB_INVALID, "a group's num_ranks is %d; allowed is 1 to %d", limits->num_ranks,
                  EPLB_MAX_RANKS);
    if (limits->max_ops < 1 || limits->max_ops > EPLB_MAX_OPS)
        EPLB_FAIL(EPLB_INVALID, "a group's max_ops is %d; allowed is 1 to %d", limits->max_ops, EPLB_MAX_OPS);
    EPLB_TRY(check_ring("transfer_ring_bytes", limits->transfer_ring_bytes, error));
    return check_ring("collective_ring_bytes", limits->collective_ring_bytes, error);
}

static int32_t death_words(const struct eplb_mesh_limits *limits)
{
    return (limits->num_ranks + RANKS_PER_WORD - 1) / RANKS_PER_WORD;
}

static size_t link_bytes(const struct eplb_mesh_limits *limits)
{
    return sizeof(struct eplb_mesh_link) + limits->transfer_ring_bytes + limits->collective_ring_bytes;
}

struct eplb_mesh eplb_mesh_take(struct eplb_arena *arena, const struct eplb_mesh_limits *limits,
                                const struct eplb_waker *waker)
{
    EPLB_ASSERT(eplb_mesh_limits_check(limits, NULL) == EPLB_OK);
    size_t ranks = (size_t)limits->num_ranks;
    struct eplb_mesh mesh = {.limits = *limits, .waker = *waker};
    mesh.head = eplb_arena_take(arena, 1, sizeof *mesh.head);
    mesh.votes =
        eplb_arena_take(arena, (size_t)eplb_decision_vote_words(limits->num_ranks), sizeof *mesh.votes);
    mesh.deaths = eplb_arena_take(arena, (size_t)death_words(limits), sizeof *mesh.deaths);
    mesh.members = eplb_arena_take(arena, ranks, sizeof *mesh.members);
    mesh.wants = eplb_arena_take(arena, ranks * (size_t)limits->max_ops, sizeof *mesh.wants);
    mesh.links = eplb_arena_take(arena, ranks * ranks, link_bytes(limits));
    return mesh;
}

static unsigned char *link_at(const struct eplb_mesh *mesh, int32_t from, int32_t to)
{
    int32_t ranks = mesh->limits.num_ranks;
    EPLB_ASSERT(from >= 0 && from < ranks && to >= 0 && to < ranks);
    return mesh->links + ((size_t)from * (size_t)ranks + (size_t)to) * link_bytes(&mesh->limits);
}

struct eplb_mesh_link *eplb_mesh_link(const struct eplb_mesh *mesh, int32_t from, int32_t to)
{
    return (struct eplb_mesh_link *)link_at(mesh, from, to);
}

struct eplb_pipe_end eplb_mesh_transfer_pipe(const struct eplb_mesh *mesh, int32_t from, int32_t to)
{
    unsigned char *ring = link_at(mesh, from, to) + sizeof(struct eplb_mesh_link);
    return eplb_pipe_end_make(&eplb_mesh_link(mesh, from, to)->transfer, ring,
                              mesh->limits.transfer_ring_bytes);
}

struct eplb_pipe_end eplb_mesh_collective_pipe(const struct eplb_mesh *mesh, int32_t from, int32_t to)
{
    unsigned char *ring =
        link_at(mesh, from, to) + sizeof(struct eplb_mesh_link) + mesh->limits.transfer_ring_bytes;
    return eplb_pipe_end_make(&eplb_mesh_link(mesh, from, to)->collective, ring,
                              mesh->limits.collective_ring_bytes);
}

struct eplb_mesh_want *eplb_mesh_want(const struct eplb_mesh *mesh, int32_t rank, int32_t index)
{
    EPLB_ASSERT(rank >= 0 && rank < mesh->limits.num_ranks);
    EPLB_ASSERT(index >= 0 && index < mesh->limits.max_ops);
    return mesh->wants + (size_t)rank * (size_t)mesh->limits.max_ops + (size_t)index;
}

struct eplb_decision_record eplb_mesh_decision(const struct eplb_mesh *mesh)
{
    return (struct eplb_decision_record){
        .word = &mesh->head->decision, .votes = mesh->votes, .num_ranks = mesh->limits.num_ranks};
}

static struct eplb_mesh_member *member_at(const struct eplb_mesh *mesh, int32_t rank)
{
    EPLB_ASSERT(rank >= 0 && rank < mesh->limits.num_ranks);
    return &mesh->members[rank];
}

/* ---- bells ---- */

/** Whether a patient sleeper's rings have come; the bell wraps around. */
static bool has_reached(uint32_t bell, uint32_t awaited)
{
    return bell - awaited <= INT32_MAX;
}

static void ring(const struct eplb_mesh *mesh, int32_t rank, bool urgent)
{
    struct eplb_mesh_member *member = member_at(mesh, rank);
    /* Sequentially consistent, as all accesses to bell, sleepers, patient and awaited by ringers and before a
     * sleep: either the ringer sees the sleeper, or the sleeper sees the ring. With less, each could miss the
     * other. It is also a release: who hears this ring sees what was changed before it. */
    uint32_t bell = atomic_fetch_add_explicit(&member->bell, 1, memory_order_seq_cst) + 1;
    bool wakes = atomic_load_explicit(&member->sleepers, memory_order_seq_cst) > 0;
    /* `awaited` may be that of an earlier sleep. Then the one that this ring ends has not yet looked at the
     * bell, and will see the ring. */
    if (!wakes && atomic_load_explicit(&member->patient, memory_order_seq_cst) > 0)
        wakes = urgent || has_reached(bell, atomic_load_explicit(&member->awaited, memory_order_seq_cst));
    if (wakes)
        mesh->waker.wake(mesh->waker.context, rank, &member->bell);
}

void eplb_mesh_ring(const struct eplb_mesh *mesh, int32_t rank)
{
    ring(mesh, rank, false);
}

void eplb_mesh_ring_all(const struct eplb_mesh *mesh)
{
    for (int32_t rank = 0; rank < mesh->limits.num_ranks; rank++)
        ring(mesh, rank, true);
}

uint32_t eplb_mesh_hear(const struct eplb_mesh *mesh, int32_t rank)
{
    /* Acquire: pairs with the release in eplb_mesh_ring. */
    return atomic_load_explicit(&member_at(mesh, rank)->bell, memory_order_acquire);
}

void eplb_mesh_sleep(const struct eplb_mesh *mesh, int32_t rank, uint32_t heard, int64_t deadline)
{
    struct eplb_mesh_member *member = member_at(mesh, rank);
    const struct eplb_waker *waker = &mesh->waker;
    if (waker->spin != NULL && waker->spin(waker->context, &member->bell, heard, deadline))
        return;
    /* Sequentially consistent, and before the bell is looked at: see eplb_mesh_ring. */
    atomic_fetch_add_explicit(&member->sleepers, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&member->bell, memory_order_seq_cst) == heard)
        waker->sleep(waker->context, rank, &member->bell, heard, deadline);
    /* Relaxed: a ringer that still counts this sleeper wakes nobody, which does no harm. */
    atomic_fetch_sub_explicit(&member->sleepers, 1, memory_order_relaxed);
}

void eplb_mesh_sleep_for(const struct eplb_mesh *mesh, int32_t rank, uint32_t heard, uint32_t rings)
{
    struct eplb_mesh_member *member = member_at(mesh, rank);
    const struct eplb_waker *waker = &mesh->waker;
    EPLB_ASSERT(rings >= 1 && rings <= EPLB_MAX_RANKS);
    if (rings == 1) {
        eplb_mesh_sleep(mesh, rank, heard, EPLB_NO_DEADLINE);
        return;
    }
    if (waker->spin != NULL && waker->spin(waker->context, &member->bell, heard, EPLB_NO_DEADLINE))
        return;
    /* Sequentially consistent, in this order, and before the bell is looked at: see ring(). */
    atomic_store_explicit(&member->awaited, heard + rings, memory_order_seq_cst);
    atomic_store_explicit(&member->patient, 1, memory_order_seq_cst);
    uint32_t bell = atomic_load_explicit(&member->bell, memory_order_seq_cst);
    /* A death's ring may be one of those that have come: it counted as any other then. */
    if (!has_reached(bell, heard + rings) && eplb_mesh_first_dead(mesh) == EPLB_NO_RANK)
        waker->sleep(waker->context, rank, &member->bell, bell, EPLB_NO_DEADLINE);
    /* Relaxed: a ringer that still sees this sleeper wakes nobody, which does no harm. */
    atomic_store_explicit(&member->patient, 0, memory_order_relaxed);
}

/* ---- deaths ---- */

void eplb_mesh_bury(const struct eplb_mesh *mesh, int32_t rank)
{
    EPLB_ASSERT(rank >= 0 && rank < mesh->limits.num_ranks);
    /* Relaxed: the rings below publish it. They come even when the mark is set already: it may be a
     * peer's nonsense, of which nobody was told. */
    atomic_fetch_or_explicit(&mesh->deaths[rank / RANKS_PER_WORD], UINT64_C(1) << (rank % RANKS_PER_WORD),
                             memory_order_relaxed);
    eplb_mesh_ring_all(mesh);
}

static uint64_t deaths_at(const struct eplb_mesh *mesh, int32_t word)
{
    /* Relaxed: a caller that must not miss a death has heard its bell before, see eplb_mesh_bury. */
    return atomic_load_explicit(&mesh->deaths[word], memory_order_relaxed);
}

bool eplb_mesh_is_dead(const struct eplb_mesh *mesh, int32_t rank)
{
    EPLB_ASSERT(rank >= 0 && rank < mesh->limits.num_ranks);
    return (deaths_at(mesh, rank / RANKS_PER_WORD) >> (rank % RANKS_PER_WORD) & 1) != 0;
}

int32_t eplb_mesh_first_dead(const struct eplb_mesh *mesh)
{
    for (int32_t word = 0; word < death_words(&mesh->limits); word++) {
        uint64_t deaths = deaths_at(mesh, word);
        if (deaths == 0)
            continue;
        int32_t rank = word * RANKS_PER_WORD + __builtin_ctzll(deaths);
        /* Marks behind the last rank are a peer's nonsense. */
        return rank < mesh->limits.num_ranks ? rank : EPLB_NO_RANK;
    }
    return EPLB_NO_RANK;
}
