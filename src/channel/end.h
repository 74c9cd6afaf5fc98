/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * One end of a channel, over memory from wherever: what belongs to this side alone. It keeps its own
 * counters and believes the shared ones only as far as they agree with these.
 *
 * A slot's content is stored first, then its counter with release; the other side loads the counter with
 * acquire, then the content. So whoever sees a count sees all that was counted, whole.
 */
#ifndef CHANNEL_END_H
#define CHANNEL_END_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "channel/map.h"
#include "eplb/channel.h"

struct eplb_segment;

/** First of its block, so that freeing it frees all. */
struct eplb_channel {
    struct eplb_channel_limits limits;
    struct eplb_channel_map map;
    enum eplb_channel_side side;
    int64_t spin_ns;
    struct eplb_segment *segment; /* owned; NULL over plain memory */
    uint64_t generation;          /* of the segment; 0 over plain memory */

    /* For other threads of this process that end a wait. */
    _Atomic uint32_t woken;

    /* For the thread that uses the end. */
    uint64_t begun;                    /* forwards ever submitted, or received */
    uint64_t ended;                    /* forwards ever collected, or replied to */
    uint64_t last_seq;                 /* of the newest forward begun */
    uint64_t seqs[EPLB_CHANNEL_DEPTH]; /* of forwards begun and not ended, by their number */
    uint64_t wakes;                    /* the other side's that have ended a wait */
    struct eplb_error broken;          /* why the other side cannot be followed; EPLB_OK: it can */

    /* Copies out of shared memory. */
    unsigned char *setup;
    unsigned char *record;
    int32_t *command_rows;     /* [EPLB_COMMAND_ROWS][num_slots], the worker's */
    int64_t *prefix;           /* [num_layers][slots_per_rank], the engine's */
    uint64_t *generations;     /* [num_layers], the engine's */
    uint64_t *weight_versions; /* [num_layers], the engine's */
    unsigned char *body;       /* an input or a result */
};

/**
 * Makes the engine's end, and the channel, in memory of eplb_channel_map_bytes(limits) zeros.
 *
 * @param limits  checked
 * @param setup   [limits->setup_bytes], copied
 * @param spin_ns >= 0
 * @param channel receives the end; free it with eplb_channel_destroy. The memory must outlive it
 */
enum eplb_status eplb_channel_open_engine(void *memory, const struct eplb_channel_limits *limits,
                                          const void *setup, int64_t spin_ns, struct eplb_channel **channel,
                                          struct eplb_error *error);

/**
 * Takes the worker's end of a channel in memory that holds anything.
 *
 * @param pid     > 0: who takes it
 * @param ep_rank that the channel must be for
 * @param spin_ns >= 0, or -1 for what suits the channel's number of ranks
 * @return EPLB_OK; EPLB_LAYOUT when the head makes no sense or is for another rank; EPLB_REFUSED when the
 *         end was taken before; EPLB_NO_MEMORY. Only success takes the end
 */
enum eplb_status eplb_channel_open_worker(void *memory, size_t bytes, uint64_t pid, int32_t ep_rank,
                                          int64_t spin_ns, struct eplb_channel **channel,
                                          struct eplb_error *error);

/** The spin time for params: -1 stands for what suits the ranks and their engine on one machine. */
int64_t eplb_channel_spin(int64_t spin_ns, const struct eplb_shape *shape);

/** EPLB_INVALID, with the sentence that said so first, once the other side has written nonsense. */
enum eplb_status eplb_channel_check_followed(const struct eplb_channel *channel, struct eplb_error *error);

/** Remembers an error for eplb_channel_check_followed, and records it. Returns EPLB_INVALID. */
enum eplb_status eplb_channel_break(struct eplb_channel *channel, const struct eplb_error *why,
                                    struct eplb_error *error);

/**
 * Waits until the other side's counter is not `own`, until the deadline, or until a wake.
 *
 * @return the counter, whatever it is; `own` when the wait ended without a change
 */
uint64_t eplb_channel_await(struct eplb_channel *channel, const _Atomic uint64_t *counter, uint64_t own,
                            int64_t deadline);

/**
 * Copies record and body out of a place, once, into the end's own memory.
 *
 * @param body_bytes receives the body's size as it is written there; nothing is copied when it is above
 *                   max_bytes
 * @return whether it was copied
 */
bool eplb_channel_copy_out(struct eplb_channel *channel, const struct eplb_channel_place *place,
                           size_t record_bytes, size_t max_bytes, uint64_t *body_bytes);

/** Writes the body and its size into a place. Its record is written by the caller; the count comes after. */
void eplb_channel_put_body(const struct eplb_channel_place *place, const void *body, size_t body_bytes);

/** Stores this side's counter and rings the other side's bell. */
void eplb_channel_announce(struct eplb_channel *channel, _Atomic uint64_t *counter, uint64_t count);

#endif
