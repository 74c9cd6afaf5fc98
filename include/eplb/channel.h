/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The forward channel between an engine's process and one worker process of the same machine: commands
 * and inputs there, outputs and results back. Belongs to src/channel.
 *
 * One segment of shared memory per worker, made by the engine, attached once by the worker. Two
 * forwards may be under way (overlapped scheduling): the engine may submit forward n + 1 before it
 * has collected forward n. A waiting side looks for a short while, then sleeps at no cost.
 *
 * Whatever comes from the other side is copied out of shared memory and checked before it is
 * believed: a peer that writes nonsense is refused with a sentence, and harms nothing else.
 *
 * A channel does not notice by itself that the other process has ended: a wait for it goes on. So either
 * whoever watches the processes calls eplb_channel_wake, or waits get deadlines, after which a worker asks
 * eplb_channel_engine_lives, and an engine its own watch over the workers.
 *
 * In a forked child an end is of no use, and what it had mapped is not there: only eplb_channel_destroy is
 * allowed, which then touches nothing but the child's own memory.
 */
#ifndef EPLB_CHANNEL_H
#define EPLB_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/placement.h"
#include "eplb/status.h"
#include "eplb/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Forwards that may be submitted and not collected: one and its overlap. */
#define EPLB_CHANNEL_DEPTH 2

/**
 * Parameters of a channel. Set by eplb_channel_params_init, then changed by the host. The three sizes may be
 * up to 2^40 each.
 */
struct eplb_channel_params {
    size_t size;               /**< sizeof(struct eplb_channel_params). */
    const char *instance_name; /**< As in eplb/shm.h; default "eplb". */
    const char *directory;     /**< As in eplb/shm.h; default "/dev/shm". */
    uint64_t generation;       /**< That of the run's group (eplb_shm_generation); 0: a new one. Default 0. */
    struct eplb_shape shape;   /**< Filled by eplb_shape_init. No default. */
    int32_t ep_rank;           /**< The worker's, in [0, ep_size). No default. */
    size_t max_input_bytes;    /**< Most bytes of a forward's input beside the command; default 0. */
    size_t max_result_bytes;   /**< Most bytes of a forward's result beside the output; default 0. */
    const void *setup;         /**< What the worker must know before its first forward; copied. */
    size_t setup_bytes;        /**< Its length; default 0. */
    int64_t spin_ns;           /**< As in eplb/shm.h; default -1. */
};

/** Writes the defaults. */
EPLB_API void eplb_channel_params_init(struct eplb_channel_params *params);

/** One side's end of a channel. One thread at a time, except where a function says otherwise. */
struct eplb_channel;

/**
 * Makes a channel and its segment, in the engine's process. All memory is reserved now, nothing later.
 *
 * @param channel receives the engine's end; free it with eplb_channel_destroy, which removes the segment
 * @return EPLB_OK; EPLB_INVALID with a sentence when a parameter is out of range; EPLB_IN_USE,
 *         EPLB_LAYOUT, EPLB_IO, EPLB_RANK_SILENT, EPLB_NO_MEMORY as eplb_shm_create
 */
EPLB_API enum eplb_status eplb_channel_create(const struct eplb_channel_params *params,
                                              struct eplb_channel **channel, struct eplb_error *error);

/** Which channel a worker attaches. Set by eplb_channel_attach_params_init, then changed by the host. */
struct eplb_channel_attach_params {
    size_t size;               /**< sizeof(struct eplb_channel_attach_params). */
    const char *instance_name; /**< As the maker's. */
    const char *directory;     /**< As the maker's. */
    uint64_t generation;       /**< As the maker's (eplb_channel_generation). No default. */
    int32_t ep_rank;           /**< The worker's. No default. */
    int64_t spin_ns;           /**< As in eplb/shm.h; default -1. */
};

/** Writes the defaults. */
EPLB_API void eplb_channel_attach_params_init(struct eplb_channel_attach_params *params);

/**
 * Takes the worker's end, in the worker's process. Sizes and shape come from the segment, checked.
 *
 * @return EPLB_OK; EPLB_INVALID when a parameter is out of range or there is no such channel;
 *         EPLB_INCONSISTENT when it is of another generation; EPLB_REFUSED when its maker is dead or the end
 * was taken before (by whom is named); EPLB_LAYOUT also when its head is damaged: its sizes make no sense, or
 * it is for another rank; EPLB_IO; EPLB_RANK_SILENT as eplb_shm_create; EPLB_NO_MEMORY
 */
EPLB_API enum eplb_status eplb_channel_attach(const struct eplb_channel_attach_params *params,
                                              struct eplb_channel **channel, struct eplb_error *error);

/**
 * Gives an end up; the engine's removes the segment, for which it waits for the generation lock as
 * eplb_shm_destroy does: at most 5 s, and once. No thread is in it any more. NULL is allowed.
 */
EPLB_API void eplb_channel_destroy(struct eplb_channel *channel);

/** The generation of the segment. */
EPLB_API uint64_t eplb_channel_generation(const struct eplb_channel *channel);

/** The shape that both sides agree on. Owned by the channel. */
EPLB_API const struct eplb_shape *eplb_channel_shape(const struct eplb_channel *channel);

/** The setup, as it was when this end was taken: the end's own copy, valid as long as the end. */
EPLB_API const void *eplb_channel_setup(const struct eplb_channel *channel, size_t *size);

/* ------------------------------------------------------------------------------- the engine's end */

/**
 * Hands a forward to the worker. Not blocking.
 *
 * @param command its seq is above that of the last one
 * @param input   [input_bytes], copied; may be NULL when there is none
 * @return EPLB_OK; nothing was handed out: EPLB_REFUSED when EPLB_CHANNEL_DEPTH forwards are under way;
 *         EPLB_INVALID when the input is too long, the seq is not above the last one, or the worker cannot
 *         be followed any more (eplb_channel_collect). That the command is a valid one is asserted, as
 *         eplb_command_encode does
 */
EPLB_API enum eplb_status eplb_channel_submit(struct eplb_channel *channel,
                                              const struct eplb_command *command, const void *input,
                                              size_t input_bytes, struct eplb_error *error);

/** What a worker gave back for a forward. Borrows from the channel until the next collect. */
struct eplb_channel_reply {
    struct eplb_worker_output output; /**< Decoded and checked. */
    const void *result;               /**< Copied out of shared memory; any content. */
    size_t result_bytes;              /**< At most max_result_bytes. */
};

/**
 * Takes the reply to the oldest forward under way. Waits until it is there, until the deadline, or
 * until eplb_channel_wake. Of the worker's death it learns nothing: with a deadline of INT64_MAX it waits for
 * ever unless whoever watches the workers calls eplb_channel_wake.
 *
 * @param deadline nanoseconds on eplb_clock_system(); 0: does not wait; INT64_MAX: none
 * @param reply    written when a reply came and makes sense
 * @param arrived  receives 1 when a reply was taken from the channel, also one that is refused; 0 when
 *                 none was
 * @return EPLB_OK; EPLB_INVALID with rank and field. With arrived 1: the reply makes no sense, is for
 *         another forward or from another rank; that forward has no output, and the next collect goes on
 *         with the next one. With arrived 0: the worker has counted replies that cannot be, and cannot be
 *         followed any more; every later submit and collect says so again, at once, and the forwards
 *         under way stay counted as that
 */
EPLB_API enum eplb_status eplb_channel_collect(struct eplb_channel *channel, int64_t deadline,
                                               struct eplb_channel_reply *reply, int *arrived,
                                               struct eplb_error *error);

/** Forwards submitted and not collected. */
EPLB_API int32_t eplb_channel_under_way(const struct eplb_channel *channel);

/* ------------------------------------------------------------------------------- the worker's end */

/** A forward as the worker is given it. Borrows from the channel until the next receive. */
struct eplb_channel_request {
    struct eplb_command command; /**< Decoded and checked. */
    const void *input;           /**< Copied out of shared memory; any content. */
    size_t input_bytes;          /**< At most max_input_bytes. */
};

/**
 * Takes the next forward. Waits as eplb_channel_collect. Up to EPLB_CHANNEL_DEPTH may be open. Of the
 * engine's death it learns nothing: give it deadlines, and ask eplb_channel_engine_lives when nothing
 * arrived, or have another thread watch the engine and call eplb_channel_wake.
 *
 * @param request written when arrived is 1
 * @param arrived receives 1 when a forward was taken, else 0
 * @return EPLB_OK; EPLB_INVALID with the field when what came makes no sense: no rank runs a forward whose
 *         command it has not read, so the engine cannot be followed any more, and every later receive says
 *         so again, at once. Forwards that are open can be replied to
 */
EPLB_API enum eplb_status eplb_channel_receive(struct eplb_channel *channel, int64_t deadline,
                                               struct eplb_channel_request *request, int *arrived,
                                               struct eplb_error *error);

/**
 * Gives the reply to the oldest forward received and not replied to. Not blocking.
 *
 * @param result [result_bytes], copied; may be NULL when there is none
 * @return EPLB_OK; nothing was given: EPLB_REFUSED when no forward is open; EPLB_INVALID when the result is
 *         too long or the output is of another forward or rank. That the output is a valid one is asserted,
 *         as eplb_worker_output_encode does
 */
EPLB_API enum eplb_status eplb_channel_reply(struct eplb_channel *channel,
                                             const struct eplb_worker_output *output, const void *result,
                                             size_t result_bytes, struct eplb_error *error);

/** Says that the worker lives. Any thread; not blocking. Called often by a thread that does nothing else. */
EPLB_API void eplb_channel_beat(struct eplb_channel *channel);

/* -------------------------------------------------------------------------------------- both ends */

/** Beats so far; 0: the worker has not begun. Only a change of it tells anything. Any thread. */
EPLB_API uint64_t eplb_channel_beats(const struct eplb_channel *channel);

/**
 * Ends a wait of this end's and of the other end's, once each, with nothing arrived. Who does not wait now
 * is told when it next would; several wakes until then are one. Any thread; async-signal-safe.
 */
EPLB_API void eplb_channel_wake(struct eplb_channel *channel);

/** Whether the engine's process still holds the segment: 0 once it has ended. Any thread. */
EPLB_API int eplb_channel_engine_lives(const struct eplb_channel *channel);

#ifdef __cplusplus
}
#endif
#endif
