/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The process group: how EP ranks reach each other. Belongs to src/transport.
 *
 * One table of operations per rank. Everything a transfer needs is post, poll and cancel and
 * never blocks; what the forward path uses (all_to_all, barrier) blocks. The two share no resource
 * but the memory bus: neither can hold up the other, in whatever order ranks start them.
 * Implementations: `threads` (ranks are threads of one process), `shm` (processes of one machine).
 *
 * Point-to-point messages are matched by (source, destination, tag), never by timing: a message
 * goes through as soon as both of its sides are posted and both ranks poll, whatever else is posted
 * or missing. A tag begins with the activation token, so that what is left of an aborted attempt is
 * recognised and dropped. Between two ranks a tag is used once per direction.
 *
 * The engine takes part in no transfer and no collective, but opens, aborts and reads records and
 * reports deaths. Its view has the rank EPLB_NO_RANK; the other operations are not for it.
 */
#ifndef EPLB_GROUP_H
#define EPLB_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"
#include "eplb/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a message is: chunk `chunk` of changed slot `slot` of the attempt `token`. */
struct eplb_message_tag {
    struct eplb_activation_token token;
    int32_t slot;  /**< Global slot that the message fills. */
    int32_t chunk; /**< 0, 1, ... */
};

/** A piece of memory. */
struct eplb_part {
    void *data;
    size_t size;
};

/** Most parts of one message. */
#define EPLB_MAX_PARTS 16

/** The rank of the engine's view of a group. */
#define EPLB_NO_RANK (-1)

/** An operation under way, chosen by the poster: unique among its outstanding ones. */
struct eplb_op {
    uint32_t value;
};

/** How an operation ended. */
enum eplb_op_result {
    EPLB_OP_DONE = 0,      /**< All bytes have left (send) or arrived (receive). */
    EPLB_OP_CANCELLED = 1, /**< Given up by cancel; the memory is not touched any more. */
    EPLB_OP_FAILED = 2,    /**< The peer died, even if its side was done; or the sizes differ. */
};

/** One operation that ended. From then on its memory is not touched and its number is free again. */
struct eplb_completion {
    struct eplb_op op;
    enum eplb_op_result result;
};

/** What the decision record of a token says. */
enum eplb_decision {
    EPLB_UNDECIDED = 0,
    EPLB_COMMIT = 1,
    EPLB_ABORT = 2,
};

/** One rank's view of the group. `self` is the first argument of every operation. */
struct eplb_group {
    size_t size;       /**< sizeof(struct eplb_group). */
    void *self;        /**< The implementation's. */
    int32_t rank;      /**< This rank; EPLB_NO_RANK for the engine. */
    int32_t num_ranks; /**< All of them. */
    int32_t max_ops;   /**< Sends and receives that this rank may have outstanding at a time. */

    /**
     * Posts a send of the parts, in order, as one message. Not blocking. The parts' memory must not
     * change until the operation completes; the array itself is copied. Called from the one thread
     * of the rank that polls. `to` may be this rank.
     *
     * EPLB_OK; else nothing was posted: EPLB_REFUSED when max_ops are outstanding; EPLB_INVALID for
     * no such rank, token 0, more than EPLB_MAX_PARTS parts, or a number that is outstanding.
     */
    enum eplb_status (*post_send)(void *self, int32_t to, const struct eplb_message_tag *tag,
                                  const struct eplb_part *parts, size_t num_parts, struct eplb_op op);

    /** Posts a receive into the parts. As post_send; the memory is undefined until it is done. */
    enum eplb_status (*post_recv)(void *self, int32_t from, const struct eplb_message_tag *tag,
                                  const struct eplb_part *parts, size_t num_parts, struct eplb_op op);

    /**
     * Makes progress and returns up to `capacity` completions; those of one rank never exceed
     * max_ops. Not blocking, and bounded in the bytes it copies. Called from the one thread of the
     * rank that posts.
     *
     * @param current the attempt under way, 0 when none. A group that takes messages in before
     *                they are awaited drops those of other tokens for which nothing is posted;
     *                one that moves a message only when both sides are posted need not look.
     */
    size_t (*poll)(void *self, struct eplb_activation_token current, struct eplb_completion *completions,
                   size_t capacity);

    /**
     * Waits until something has changed since the last poll began (more can be moved, a record was
     * opened or decided, a member died), or until `deadline`. What is read between poll and wait
     * is therefore never missed: poll, read the record, then wait. Wakes without cause too. Called
     * from the thread that polls.
     *
     * @param deadline nanoseconds on eplb_clock_system(), >= 0
     */
    void (*wait)(void *self, int64_t deadline);

    /**
     * Asks to give an operation up. Not blocking; idempotent; a number that is not outstanding
     * changes nothing. The completion still comes through poll: cancelled, or as the operation
     * ended before. The other side stays posted, as if this side never had been. Called from
     * the thread that polls.
     */
    void (*cancel)(void *self, struct eplb_op op);

    /**
     * Opens the decision record for a token in [1, EPLB_MAX_TOKEN], undecided, without votes. Called
     * by the engine before the command is handed out; the token before it was reported by all
     * live ranks.
     */
    void (*record_open)(void *self, struct eplb_activation_token token);

    /**
     * Votes. The last yes of all ranks commits, any no aborts, each by one compare-and-swap. A
     * rank's vote counts once; a vote for another token than the open one changes nothing. Any
     * thread of the rank.
     */
    void (*record_vote)(void *self, struct eplb_activation_token token, int yes);

    /** Aborts the token's record unless it is decided. Idempotent; any thread of any member or the engine. */
    void (*record_abort)(void *self, struct eplb_activation_token token);

    /**
     * What the record says of the token; EPLB_UNDECIDED also for a token that it does not hold.
     * Not blocking; any thread.
     */
    enum eplb_decision (*record_read)(void *self, struct eplb_activation_token token);

    /**
     * One round of a collective exchange on the forward path: send[i] goes to rank i, and what rank
     * i sent arrives at receive[i], whose size must be what rank i sends (0 is allowed). The two do not
     * overlap, except that send[rank] may be receive[rank]. Blocks until done; all ranks take part in
     * the same order; one thread of the rank at a time, which need not be the one that polls.
     *
     * EPLB_RANK_DEAD with the rank when a member dies meanwhile or died before; EPLB_INCONSISTENT
     * with both ranks and sizes on a rank to which another size was sent (the round is completed, so
     * that nobody waits, and that receive[i] is untouched); EPLB_INVALID when send[rank] and receive[rank]
     * differ in size.
     */
    enum eplb_status (*all_to_all)(void *self, const struct eplb_part *send, const struct eplb_part *receive,
                                   struct eplb_error *error);

    /** Waits for all ranks. Blocks. EPLB_RANK_DEAD when a member dies meanwhile. As all_to_all. */
    enum eplb_status (*barrier)(void *self, struct eplb_error *error);

    /**
     * Tells the group that a member is dead: operations that involve it fail, and blocked ones end.
     * It does not touch the record. Idempotent; any thread of any member or the engine.
     */
    void (*member_dead)(void *self, int32_t rank);
};

/**
 * Every rank gives `send`, and rank i's arrives at receive[i]. Blocks; as all_to_all.
 *
 * @param receive [num_ranks], receive[i] as long as what rank i gives
 * @param scratch room for [num_ranks], overwritten
 */
EPLB_API enum eplb_status eplb_group_all_gather(const struct eplb_group *group, struct eplb_part send,
                                                const struct eplb_part *receive, struct eplb_part *scratch,
                                                struct eplb_error *error);

#ifdef __cplusplus
}
#endif
#endif
