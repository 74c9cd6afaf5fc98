/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "channel/end.h"

#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "eplb/clock.h"
#include "os/futex.h"

/* Longest sleep before one looks again: a peer that writes nonsense into the bell can delay a wait, and
 * never make it endless. */
#define PATIENCE_NS (INT64_C(100) * 1000000)

static struct eplb_channel *layout(struct eplb_arena *arena, const struct eplb_channel_limits *limits,
                                   enum eplb_channel_side side)
{
    const struct eplb_shape *shape = &limits->shape;
    size_t layers = (size_t)shape->num_layers;
    bool engine = side == EPLB_CHANNEL_ENGINE;
    struct eplb_channel parts = {.limits = *limits, .side = side};
    struct eplb_channel *channel = eplb_arena_take(arena, 1, sizeof *channel);
    parts.setup = eplb_arena_take(arena, limits->setup_bytes, 1);
    parts.record =
        eplb_arena_take(arena, engine ? eplb_worker_output_bytes(shape) : eplb_command_bytes(shape), 1);
    if (engine) {
        parts.prefix = eplb_arena_take(arena, layers * (size_t)shape->slots_per_rank, sizeof *parts.prefix);
        parts.generations = eplb_arena_take(arena, layers, sizeof *parts.generations);
        parts.weight_versions = eplb_arena_take(arena, layers, sizeof *parts.weight_versions);
    } else {
        parts.command_rows =
            eplb_arena_take(arena, EPLB_COMMAND_ROWS * (size_t)shape->num_slots, sizeof *parts.command_rows);
    }
    /* Last, because its length comes from a peer: a tool that watches the block's end sees a mistake. */
    parts.body = eplb_arena_take(arena, engine ? limits->max_result_bytes : limits->max_input_bytes, 1);
    if (channel != NULL)
        *channel = parts;
    return channel;
}

static enum eplb_status make_end(void *memory, const struct eplb_channel_limits *limits,
                                 enum eplb_channel_side side, struct eplb_channel **channel,
                                 struct eplb_error *error)
{
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&arena, limits, side);
    if (eplb_arena_reserve(&arena) == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY,
                  "no memory for an end of rank %d's channel with inputs of %zu bytes, results of %zu and a "
                  "setup of %zu",
                  limits->ep_rank, limits->max_input_bytes, limits->max_result_bytes, limits->setup_bytes);
    struct eplb_channel *made = layout(&arena, limits, side);
    EPLB_ASSERT(made != NULL && !arena.overflow);
    made->map = eplb_channel_map_make(memory, limits);
    *channel = made;
    return EPLB_OK;
}

int64_t eplb_channel_spin(int64_t spin_ns, const struct eplb_shape *shape)
{
    return spin_ns >= 0 ? spin_ns : eplb_spin_default(shape->ep_size + 1);
}

enum eplb_status eplb_channel_open_engine(void *memory, const struct eplb_channel_limits *limits,
                                          const void *setup, int64_t spin_ns, struct eplb_channel **channel,
                                          struct eplb_error *error)
{
    EPLB_ASSERT(setup != NULL || limits->setup_bytes == 0);
    EPLB_ASSERT(spin_ns >= 0);
    struct eplb_channel *made;
    EPLB_TRY(make_end(memory, limits, EPLB_CHANNEL_ENGINE, &made, error));
    made->spin_ns = spin_ns;
    eplb_channel_facts_write(&made->map.head->facts, limits);
    if (limits->setup_bytes > 0) {
        memcpy(made->map.setup, setup, limits->setup_bytes);
        memcpy(made->setup, setup, limits->setup_bytes);
    }
    *channel = made;
    return EPLB_OK;
}

/** Makes the end this process's, once for all processes. */
static enum eplb_status claim(struct eplb_channel *channel, uint64_t pid, struct eplb_error *error)
{
    uint64_t nobody = 0;
    /* Acquire-release: whoever takes the end sees all that the maker wrote; relaxed when it is another's,
     * for then nothing of it is used. */
    if (!atomic_compare_exchange_strong_explicit(&channel->map.head->claim, &nobody, pid,
                                                 memory_order_acq_rel, memory_order_relaxed))
        EPLB_FAIL(EPLB_REFUSED,
                  "the channel of rank %d was taken before, by process %" PRIu64 "; a worker takes it once",
                  channel->limits.ep_rank, nobody);
    return EPLB_OK;
}

enum eplb_status eplb_channel_open_worker(void *memory, size_t bytes, uint64_t pid, int32_t ep_rank,
                                          int64_t spin_ns, struct eplb_channel **channel,
                                          struct eplb_error *error)
{
    EPLB_ASSERT(pid > 0);
    struct eplb_channel_limits limits;
    EPLB_TRY(eplb_channel_facts_read(memory, bytes, &limits, error));
    if (limits.ep_rank != ep_rank)
        EPLB_FAIL(EPLB_LAYOUT,
                  "the head of a channel is damaged: a channel for rank %d says that it is for rank %d",
                  ep_rank, limits.ep_rank);
    struct eplb_channel *made;
    EPLB_TRY(make_end(memory, &limits, EPLB_CHANNEL_WORKER, &made, error));
    made->spin_ns = eplb_channel_spin(spin_ns, &limits.shape);
    if (limits.setup_bytes > 0)
        memcpy(made->setup, made->map.setup, limits.setup_bytes);
    enum eplb_status status = claim(made, pid, error);
    if (status != EPLB_OK) {
        eplb_arena_free(made);
        return status;
    }
    *channel = made;
    return EPLB_OK;
}

/* ---- following the other side ---- */

enum eplb_status eplb_channel_check_followed(const struct eplb_channel *channel, struct eplb_error *error)
{
    if (channel->broken.status != EPLB_OK)
        EPLB_FAIL(channel->broken.status, "%s", channel->broken.text);
    return EPLB_OK;
}

enum eplb_status eplb_channel_break(struct eplb_channel *channel, const struct eplb_error *why,
                                    struct eplb_error *error)
{
    EPLB_ASSERT(channel->broken.status == EPLB_OK && why->status != EPLB_OK);
    channel->broken = *why;
    channel->broken.status = EPLB_INVALID;
    return eplb_channel_check_followed(channel, error);
}

static struct eplb_channel_seat *seat_of(const struct eplb_channel *channel, enum eplb_channel_side side)
{
    return &channel->map.head->seats[side];
}

static enum eplb_channel_side other_side(const struct eplb_channel *channel)
{
    return channel->side == EPLB_CHANNEL_ENGINE ? EPLB_CHANNEL_WORKER : EPLB_CHANNEL_ENGINE;
}

/** Whether somebody wants the wait to end; counts as heard now. */
static bool take_wake(struct eplb_channel *channel)
{
    /* Acquire, both: whoever woke may have changed something that the waiting thread looks at next. */
    bool woken = atomic_exchange_explicit(&channel->woken, 0, memory_order_acquire) != 0;
    uint64_t wakes = atomic_load_explicit(&seat_of(channel, channel->side)->wakes, memory_order_acquire);
    woken = woken || wakes != channel->wakes;
    channel->wakes = wakes;
    return woken;
}

uint64_t eplb_channel_await(struct eplb_channel *channel, const _Atomic uint64_t *counter, uint64_t own,
                            int64_t deadline)
{
    const struct eplb_clock *clock = eplb_clock_system();
    struct eplb_bell *bell = &seat_of(channel, channel->side)->bell;
    int64_t spin_ns = channel->spin_ns; /* what is left of it: one wait spins once */
    for (;;) {
        uint32_t heard = eplb_bell_hear(bell);
        /* Acquire: pairs with the release in eplb_channel_announce; what was counted is there. */
        uint64_t count = atomic_load_explicit(counter, memory_order_acquire);
        if (count != own || deadline <= 0 || take_wake(channel))
            return count;
        int64_t now = clock->now(clock->context);
        if (now >= deadline)
            return count;
        int64_t until = deadline - now < PATIENCE_NS ? deadline : now + PATIENCE_NS;
        eplb_bell_sleep(bell, heard, spin_ns, until);
        if (spin_ns > 0)
            spin_ns -= clock->now(clock->context) - now;
    }
}

bool eplb_channel_copy_out(struct eplb_channel *channel, const struct eplb_channel_place *place,
                           size_t record_bytes, size_t max_bytes, uint64_t *body_bytes)
{
    /* Relaxed: ordered by the counter. Atomic, so that what is compared below is what is copied by. */
    uint64_t bytes = atomic_load_explicit(&place->slot->body_bytes, memory_order_relaxed);
    *body_bytes = bytes;
    if (bytes > max_bytes)
        return false;
    memcpy(channel->record, place->record, record_bytes);
    memcpy(channel->body, place->body, (size_t)bytes);
    return true;
}

void eplb_channel_put_body(const struct eplb_channel_place *place, const void *body, size_t body_bytes)
{
    EPLB_ASSERT(body != NULL || body_bytes == 0);
    if (body_bytes > 0)
        memcpy(place->body, body, body_bytes);
    /* Relaxed: the counter publishes it. */
    atomic_store_explicit(&place->slot->body_bytes, body_bytes, memory_order_relaxed);
}

void eplb_channel_announce(struct eplb_channel *channel, _Atomic uint64_t *counter, uint64_t count)
{
    /* Release: whoever sees this count sees the slot that it counts; and what this side has read from the
     * slot of its other direction was read before the other side, which sees it, writes there again. */
    atomic_store_explicit(counter, count, memory_order_release);
    eplb_bell_ring(&seat_of(channel, other_side(channel))->bell);
}

/* ---- any thread ---- */

void eplb_channel_beat(struct eplb_channel *channel)
{
    EPLB_ASSERT(channel->side == EPLB_CHANNEL_WORKER);
    /* Relaxed: only a change of it tells anything, and it publishes nothing. */
    atomic_fetch_add_explicit(&channel->map.head->beats, 1, memory_order_relaxed);
}

uint64_t eplb_channel_beats(const struct eplb_channel *channel)
{
    /* Relaxed, as eplb_channel_beat. */
    return atomic_load_explicit(&channel->map.head->beats, memory_order_relaxed);
}

void eplb_channel_wake(struct eplb_channel *channel)
{
    struct eplb_channel_seat *other = seat_of(channel, other_side(channel));
    /* Release, both: the thread that is woken sees what was done before. The end's own flag is private, so
     * that no peer can take back a wake by this process. */
    atomic_store_explicit(&channel->woken, 1, memory_order_release);
    atomic_fetch_add_explicit(&other->wakes, 1, memory_order_release);
    eplb_bell_ring(&seat_of(channel, channel->side)->bell);
    eplb_bell_ring(&other->bell);
}

/* ---- what it is ---- */

uint64_t eplb_channel_generation(const struct eplb_channel *channel)
{
    return channel->generation;
}

const struct eplb_shape *eplb_channel_shape(const struct eplb_channel *channel)
{
    return &channel->limits.shape;
}

const void *eplb_channel_setup(const struct eplb_channel *channel, size_t *size)
{
    *size = channel->limits.setup_bytes;
    return channel->setup;
}
