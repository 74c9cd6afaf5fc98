/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "transport/shm_payload.h"

#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "shm/layout.h"
#include "shm/name.h"

static struct eplb_shm_payload layout(struct eplb_arena *arena, const struct eplb_mesh_limits *limits,
                                      const struct eplb_waker *waker)
{
    struct eplb_shm_payload payload;
    payload.head = eplb_arena_take(arena, 1, sizeof *payload.head);
    payload.claims = eplb_arena_take(arena, (size_t)limits->num_ranks, sizeof *payload.claims);
    payload.mesh = eplb_mesh_take(arena, limits, waker);
    return payload;
}

static size_t measure(const struct eplb_mesh_limits *limits, bool *fits)
{
    const struct eplb_waker none = {0};
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&arena, limits, &none);
    /* Rounding up to pages must fit too. */
    *fits = !arena.overflow && arena.used <= SIZE_MAX / 2;
    return arena.used;
}

static size_t rounded(size_t bytes)
{
    return (bytes + EPLB_SEGMENT_ALIGN - 1) / EPLB_SEGMENT_ALIGN * EPLB_SEGMENT_ALIGN;
}

enum eplb_status eplb_shm_payload_size(const struct eplb_mesh_limits *limits, size_t *bytes,
                                       struct eplb_error *error)
{
    bool fits;
    size_t measured = measure(limits, &fits);
    if (!fits)
        EPLB_FAIL(EPLB_IO,
                  "no shared memory holds a group of %d ranks with %d operations each, and rings of %zu and "
                  "%zu bytes per pair",
                  limits->num_ranks, limits->max_ops, limits->transfer_ring_bytes,
                  limits->collective_ring_bytes);
    *bytes = measured;
    return EPLB_OK;
}

struct eplb_shm_payload eplb_shm_payload_at(void *memory, const struct eplb_mesh_limits *limits,
                                            const struct eplb_waker *waker)
{
    bool fits;
    struct eplb_arena arena;
    eplb_arena_init(&arena, memory, measure(limits, &fits));
    struct eplb_shm_payload payload = layout(&arena, limits, waker);
    EPLB_ASSERT(fits && !arena.overflow);
    return payload;
}

void eplb_shm_payload_format(void *memory, const struct eplb_mesh_limits *limits)
{
    bool fits;
    struct eplb_shm_head *head = memory;
    /* Relaxed, each: who opens the segment has found its name, which it gets later. */
    atomic_store_explicit(&head->num_ranks, limits->num_ranks, memory_order_relaxed);
    atomic_store_explicit(&head->max_ops, limits->max_ops, memory_order_relaxed);
    atomic_store_explicit(&head->transfer_ring_bytes, limits->transfer_ring_bytes, memory_order_relaxed);
    atomic_store_explicit(&head->collective_ring_bytes, limits->collective_ring_bytes, memory_order_relaxed);
    atomic_store_explicit(&head->bytes, measure(limits, &fits), memory_order_relaxed);
    EPLB_ASSERT(fits);
}

enum eplb_status eplb_shm_payload_limits(const void *memory, size_t bytes, const char *path,
                                         struct eplb_mesh_limits *limits, struct eplb_error *error)
{
    const struct eplb_shm_head *head = memory;
    EPLB_ASSERT(bytes >= EPLB_SEGMENT_ALIGN);
    /* Relaxed, each: they were written before the segment got its name. Once, each: what is checked is
     * what is used, whatever a peer writes meanwhile. */
    const struct eplb_mesh_limits found = {
        .num_ranks = atomic_load_explicit(&head->num_ranks, memory_order_relaxed),
        .max_ops = atomic_load_explicit(&head->max_ops, memory_order_relaxed),
        .transfer_ring_bytes = atomic_load_explicit(&head->transfer_ring_bytes, memory_order_relaxed),
        .collective_ring_bytes = atomic_load_explicit(&head->collective_ring_bytes, memory_order_relaxed)};
    uint64_t said = atomic_load_explicit(&head->bytes, memory_order_relaxed);
    struct eplb_error wrong;
    if (eplb_mesh_limits_check(&found, &wrong) != EPLB_OK)
        EPLB_FAIL(EPLB_LAYOUT, "the head of a group is damaged: %s" EPLB_SHM_REMOVE, wrong.text,
                  eplb_shm_removal(path).text);
    bool fits;
    size_t needed = measure(&found, &fits);
    if (!fits || said != needed || rounded(needed) != bytes)
        EPLB_FAIL(
            EPLB_LAYOUT,
            "the head of a group is damaged: its %d ranks take %zu bytes, it says %llu, and the payload "
            "has %zu" EPLB_SHM_REMOVE,
            found.num_ranks, needed, (unsigned long long)said, bytes, eplb_shm_removal(path).text);
    *limits = found;
    return EPLB_OK;
}

enum eplb_status eplb_shm_payload_claim(const struct eplb_shm_payload *payload, int32_t rank,
                                        const char *path, struct eplb_error *error)
{
    EPLB_ASSERT(rank >= 0 && rank < payload->mesh.limits.num_ranks);
    uint64_t holder = 0;
    /* Relaxed: the word decides alone who has the place; nothing was written for its taker to see. */
    if (!atomic_compare_exchange_strong_explicit(&payload->claims[rank].pid, &holder, (uint64_t)getpid(),
                                                 memory_order_relaxed, memory_order_relaxed))
        EPLB_FAIL(EPLB_REFUSED, "rank %d was taken by process %llu; a place in a group is taken once: %s",
                  rank, (unsigned long long)holder, path);
    return EPLB_OK;
}
