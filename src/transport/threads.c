/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A mesh in private memory, and a condition variable per rank to sleep on. */
#include "eplb/threads.h"

#include "base/assert.h"
#include "base/error.h"
#include "os/thread.h"
#include "transport/member.h"
#include "transport/mesh.h"

/* An executor's transfer posts at most 256 sends and 256 receives at a time. */
enum { DEFAULT_OPS = 512, DEFAULT_TRANSFER_RING = 128 * 1024, DEFAULT_COLLECTIVE_RING = 16 * 1024 };

/** Where the threads of one rank sleep. */
struct bed {
    struct eplb_mutex mutex;
    struct eplb_condition woken;
};

/** Everything is one block: this first, so that freeing it frees all. */
struct eplb_threads {
    struct eplb_mesh mesh;
    struct bed *beds;             /* [num_ranks] */
    struct eplb_member **members; /* [num_ranks], then the engine */
};

void eplb_threads_params_init(struct eplb_threads_params *params)
{
    *params = (struct eplb_threads_params){.size = sizeof *params,
                                           .max_ops = DEFAULT_OPS,
                                           .transfer_ring_bytes = DEFAULT_TRANSFER_RING,
                                           .collective_ring_bytes = DEFAULT_COLLECTIVE_RING};
}

/* ---- sleeping ---- */

static void sleep_on_bell(void *context, int32_t rank, const _Atomic uint32_t *bell, uint32_t heard,
                          int64_t deadline)
{
    EPLB_ASSERT(deadline >= 0);
    struct bed *bed = &((struct bed *)context)[rank];
    eplb_mutex_lock(&bed->mutex);
    int in_time = 1;
    /* Sequentially consistent: this thread counts as a sleeper already, see eplb_mesh_ring. */
    while (in_time && atomic_load_explicit(bell, memory_order_seq_cst) == heard)
        in_time = eplb_condition_wait_until(&bed->woken, &bed->mutex, deadline);
    eplb_mutex_unlock(&bed->mutex);
}

static void wake_sleepers(void *context, int32_t rank, _Atomic uint32_t *bell)
{
    (void)bell;
    struct bed *bed = &((struct bed *)context)[rank];
    /* Who has looked at the bell before it rang, but does not wait yet, holds the mutex until it does. */
    eplb_mutex_lock(&bed->mutex);
    eplb_mutex_unlock(&bed->mutex);
    eplb_condition_broadcast(&bed->woken);
}

/** Destroys the first `count` beds. */
static void destroy_beds(struct bed *beds, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        eplb_condition_destroy(&beds[i].woken);
        eplb_mutex_destroy(&beds[i].mutex);
    }
}

static enum eplb_status make_bed(struct bed *bed, struct eplb_error *error)
{
    EPLB_TRY(eplb_mutex_init(&bed->mutex, error));
    enum eplb_status status = eplb_condition_init(&bed->woken, error);
    if (status != EPLB_OK)
        eplb_mutex_destroy(&bed->mutex);
    return status;
}

static enum eplb_status make_beds(struct bed *beds, int32_t count, struct eplb_error *error)
{
    for (int32_t i = 0; i < count; i++) {
        enum eplb_status status = make_bed(&beds[i], error);
        if (status != EPLB_OK) {
            destroy_beds(beds, i);
            return status;
        }
    }
    return EPLB_OK;
}

/* ---- groups ---- */

/** The rank of a member in the order of `members`. */
static int32_t rank_of(const struct eplb_mesh_limits *limits, int32_t index)
{
    return index == limits->num_ranks ? EPLB_NO_RANK : index;
}

static struct eplb_threads *layout(struct eplb_arena *arena, const struct eplb_mesh_limits *limits)
{
    struct eplb_threads parts;
    struct eplb_threads *threads = eplb_arena_take(arena, 1, sizeof *threads);
    parts.beds = eplb_arena_take(arena, (size_t)limits->num_ranks, sizeof *parts.beds);
    parts.members = eplb_arena_take(arena, (size_t)limits->num_ranks + 1, sizeof *parts.members);
    const struct eplb_waker waker = {.context = parts.beds, .sleep = sleep_on_bell, .wake = wake_sleepers};
    parts.mesh = eplb_mesh_take(arena, limits, &waker);
    for (int32_t i = 0; i <= limits->num_ranks; i++) {
        struct eplb_member *member = eplb_member_take(arena, limits, rank_of(limits, i));
        if (member != NULL)
            parts.members[i] = member;
    }
    if (threads != NULL)
        *threads = parts;
    return threads;
}

static enum eplb_status create(const struct eplb_mesh_limits *limits, struct eplb_threads **threads,
                               struct eplb_error *error)
{
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&arena, limits);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(
            EPLB_NO_MEMORY,
            "no memory for a group of %d ranks with %d operations each, and rings of %zu and %zu bytes per "
            "pair",
            limits->num_ranks, limits->max_ops, limits->transfer_ring_bytes, limits->collective_ring_bytes);
    struct eplb_threads *created = layout(&arena, limits);
    EPLB_ASSERT(created != NULL && !arena.overflow);
    enum eplb_status status = make_beds(created->beds, limits->num_ranks, error);
    if (status != EPLB_OK) {
        eplb_arena_free(block);
        return status;
    }
    for (int32_t i = 0; i <= limits->num_ranks; i++)
        eplb_member_init(created->members[i], &created->mesh, rank_of(limits, i));
    *threads = created;
    return EPLB_OK;
}

enum eplb_status eplb_threads_create(const struct eplb_threads_params *params, struct eplb_threads **threads,
                                     struct eplb_error *error)
{
    if (params->size != sizeof *params)
        EPLB_FAIL(EPLB_INVALID, "eplb_threads_params.size is %zu; this library's is %zu", params->size,
                  sizeof *params);
    const struct eplb_mesh_limits limits = {.num_ranks = params->num_ranks,
                                            .max_ops = params->max_ops,
                                            .transfer_ring_bytes = params->transfer_ring_bytes,
                                            .collective_ring_bytes = params->collective_ring_bytes};
    EPLB_TRY(eplb_mesh_limits_check(&limits, error));
    return create(&limits, threads, error);
}

void eplb_threads_destroy(struct eplb_threads *threads)
{
    if (threads == NULL)
        return;
    destroy_beds(threads->beds, threads->mesh.limits.num_ranks);
    eplb_arena_free(threads);
}

const struct eplb_group *eplb_threads_group(const struct eplb_threads *threads, int32_t rank)
{
    EPLB_ASSERT(threads != NULL);
    int32_t num_ranks = threads->mesh.limits.num_ranks;
    EPLB_ASSERT(rank == EPLB_NO_RANK || (rank >= 0 && rank < num_ranks));
    return eplb_member_group(threads->members[rank == EPLB_NO_RANK ? num_ranks : rank]);
}
